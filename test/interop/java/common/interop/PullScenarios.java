package interop;

import static interop.Clients.BY_ARG;
import static interop.Clients.drain;
import static interop.Clients.lite;
import static interop.Clients.pull;
import static interop.Clients.str;
import static interop.Clients.utf8;
import static interop.Harness.add;
import static interop.Harness.admin;
import static interop.Harness.check;
import static interop.Harness.eq;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * Pull and lite pull consumers, and where consumers begin. They compile against the 4.9 and the 5.x
 * client alike.
 */
final class PullScenarios {
    private PullScenarios() {}

    static void register() {
        add("pull", 120, PullScenarios::pullStates);
        add("lite-pull-subscribe", 120, PullScenarios::litePullSubscribe);
        add("lite-pull-assign", 120, PullScenarios::litePullAssign);
        add("lite-pull-pause", 120, PullScenarios::litePullPause);
        add("offset-resume", 120, PullScenarios::offsetResume);
        add("from-last-new-topic", 120, PullScenarios::fromLastNewTopic);
        add("from-timestamp", 150, PullScenarios::fromTimestamp);
        add("reset-offset", 150, PullScenarios::resetOffset);
        add("reset-offset-offline", 120, PullScenarios::resetOffsetOffline);
        add("search-offset", 120, PullScenarios::searchOffset);
    }

    private static String pullStates(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 10, "m");
        DefaultMQPullConsumer c = pull(s, g);
        MessageQueue q = c.fetchSubscribeMessageQueues(t).iterator().next();
        var r = c.pull(q, "*", 0, 32);
        eq(PullStatus.FOUND, r.getPullStatus(), "status");
        eq(10, r.getMsgFoundList().size(), "found");
        eq(10L, r.getNextBeginOffset(), "next");
        eq(0L, r.getMinOffset(), "min");
        eq(10L, r.getMaxOffset(), "max");
        eq(3, c.pull(q, "*", 4, 3).getMsgFoundList().size(), "batch of 3");
        eq(PullStatus.NO_NEW_MSG, c.pull(q, "*", 10, 32).getPullStatus(), "at the end");
        var far = c.pull(q, "*", 100, 32);
        eq(PullStatus.OFFSET_ILLEGAL, far.getPullStatus(), "past the end");
        eq(10L, far.getNextBeginOffset(), "corrected offset");
        eq(PullStatus.NO_MATCHED_MSG, c.pull(q, "B", 0, 32).getPullStatus(), "other tag");
        c.updateConsumeOffset(q, 6);
        c.getOffsetStore().persist(q);
        until(10000, "offset 6", () -> c.fetchConsumeOffset(q, true) == 6);
        long t0 = System.currentTimeMillis();
        Thread th =
                new Thread(
                        () -> {
                            try {
                                Thread.sleep(1500);
                                p.send(new Message(t, "A", utf8("late")));
                            } catch (Exception ignored) {
                                // the pull below then fails
                            }
                        });
        th.start();
        var h = c.pullBlockIfNotFound(q, "*", 10, 32);
        long dt = System.currentTimeMillis() - t0;
        eq(PullStatus.FOUND, h.getPullStatus(), "held pull");
        check(dt >= 1000 && dt < 4000, "held pull took " + dt);
        return "states FOUND, NO_NEW, ILLEGAL, NO_MATCHED; held pull " + dt + " ms";
    }

    private static String litePullSubscribe(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 30, "m");
        DefaultLitePullConsumer c = lite(s, g);
        c.setAutoCommit(false);
        c.subscribe(t, "*");
        c.start();
        eq(30, drain(c, 30, 60000).size(), "polled");
        c.commitSync();
        c.shutdown();
        s.send(p, t, "A", 5, "n");
        DefaultLitePullConsumer d = lite(s, g);
        d.subscribe(t, "*");
        d.start();
        Set<String> got = new TreeSet<>();
        for (MessageExt m : drain(d, 5, 60000)) got.add(str(m));
        eq("[n0, n1, n2, n3, n4]", got.toString(), "after restart");
        return "committed offsets kept";
    }

    private static String litePullAssign(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 10; i++) p.send(new Message(t, utf8("m" + i)), BY_ARG, 0);
        Thread.sleep(30);
        long mid = System.currentTimeMillis();
        Thread.sleep(30);
        for (int i = 10; i < 20; i++) p.send(new Message(t, utf8("m" + i)), BY_ARG, 0);
        DefaultLitePullConsumer c = lite(s, g);
        c.setAutoCommit(false);
        c.start();
        MessageQueue q = null;
        for (MessageQueue m : c.fetchMessageQueues(t)) if (m.getQueueId() == 0) q = m;
        c.assign(List.of(q));
        // a pull under way at the time of a seek can still deliver (the client's race):
        // seek again then
        String first = "";
        for (int i = 0; i < 4 && !first.equals("m15"); i++) {
            c.seek(q, 15);
            first = str(drain(c, 5, 20000).get(0));
        }
        eq("m15", first, "first after seek(15)");
        for (int i = 0; i < 4 && !first.equals("m0"); i++) {
            c.seekToBegin(q);
            first = str(drain(c, 20, 20000).get(0));
        }
        eq("m0", first, "first after seekToBegin");
        eq(10L, c.offsetForTimestamp(q, mid), "offsetForTimestamp");
        return "seek, seekToBegin, offsetForTimestamp";
    }

    private static String litePullPause(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        DefaultLitePullConsumer c = lite(s, g);
        c.subscribe(t, "*");
        c.start();
        s.send(p, t, "A", 3, "m");
        eq(3, drain(c, 3, 60000).size(), "polled");
        var as = new HashSet<>(c.assignment());
        c.pause(as);
        Thread.sleep(500);
        s.send(p, t, "A", 3, "p");
        int during = drain(c, 3, 2500).size();
        c.resume(as);
        int after = drain(c, 3 - during, 60000).size();
        eq(3, during + after, "all");
        return during + " while paused (one held pull may answer), " + after + " after";
    }

    private static String offsetResume(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        Received a = s.collect(g, t, "*");
        s.send(p, t, "A", 10, "m");
        a.await(10, 60000);
        Thread.sleep(300);
        a.c.shutdown();
        s.send(p, t, "A", 4, "n");
        Received b = s.collect(g, t, "*");
        b.await(4, 60000);
        Thread.sleep(1000);
        eq("[n0, n1, n2, n3]", b.set().toString(), "second consumer");
        return "no message twice after a clean restart";
    }

    private static String fromLastNewTopic(Scenario s) throws Throwable {
        // Java brokers answer 0 for a group without an offset while the queue's first
        // message is in memory
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 5, "old");
        DefaultMQPushConsumer c = s.push(g);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        got.await(5, 60000);
        return "a new group on a young topic starts at 0 even with" + " CONSUME_FROM_LAST_OFFSET";
    }

    private static String fromTimestamp(Scenario s) throws Throwable {
        // broadcast: offsets are the client's own, so the timestamp is really looked up
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 6, "old");
        Thread.sleep(2100);
        String ts =
                new SimpleDateFormat("yyyyMMddHHmmss")
                        .format(new Date(System.currentTimeMillis() - 500));
        Thread.sleep(600);
        s.send(p, t, "A", 6, "new");
        DefaultMQPushConsumer c = s.push(g);
        Compat.broadcast(c);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        c.setConsumeTimestamp(ts);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        got.await(6, 60000);
        Thread.sleep(800);
        eq("[new0, new1, new2, new3, new4, new5]", got.set().toString(), "from " + ts);
        return "6 of 12";
    }

    private static String resetOffset(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 10, "m");
        c.await(10, 60000);
        Thread.sleep(5500);
        var r = admin().resetOffsetByTimestamp(t, g, System.currentTimeMillis() - 3600000, true);
        eq(2, r.size(), "queues reset");
        for (long v : r.values()) eq(0L, v, "offset");
        c.await(20, 60000);
        eq(10, c.set().size(), "bodies");
        return "all 10 again while online";
    }

    private static String resetOffsetOffline(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 10, "m");
        c.await(10, 60000);
        c.c.shutdown();
        Thread.sleep(500);
        String how = "resetOffsetByTimestamp";
        try {
            admin().resetOffsetByTimestamp(t, g, 0, true);
        } catch (Exception e) {
            how =
                    "resetOffsetByTimestampOld, since: "
                            + (e instanceof MQClientException
                                    ? "code " + ((MQClientException) e).getResponseCode()
                                    : e.getClass().getSimpleName());
            admin().resetOffsetByTimestampOld(g, t, 0, true);
        }
        Received d = s.collect(g, t, "*");
        d.await(10, 60000);
        return how;
    }

    private static String searchOffset(Scenario s) throws Throwable {
        String t = s.topic(1);
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 5, "m");
        Thread.sleep(30);
        long mid = System.currentTimeMillis();
        Thread.sleep(30);
        s.send(p, t, "A", 5, "m");
        MessageQueue q = p.fetchPublishMessageQueues(t).get(0);
        eq(10L, p.maxOffset(q), "max");
        eq(0L, p.minOffset(q), "min");
        eq(5L, p.searchOffset(q, mid), "search in the middle");
        eq(0L, p.searchOffset(q, 1000), "search before all");
        long far = p.searchOffset(q, System.currentTimeMillis() + 3600000);
        check(far == 10 || far == 9, "search after all " + far);
        long e = p.earliestMsgStoreTime(q);
        check(Math.abs(e - mid) < 60000, "earliest " + e);
        return "max 10, min 0, middle 5, after all " + far;
    }
}
