package interop;

import static interop.Clients.BY_ARG;
import static interop.Clients.pull;
import static interop.Clients.str;
import static interop.Clients.utf8;
import static interop.Harness.add;
import static interop.Harness.admin;
import static interop.Harness.check;
import static interop.Harness.eq;
import static interop.Harness.fails;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Push consumers: sharing, broadcast, filters, order, several topics. They compile against the 4.9
 * and the 5.x client alike.
 */
final class PushScenarios {
    private PushScenarios() {}

    static void register() {
        add("push-clustering", 150, PushScenarios::pushClustering);
        add("push-broadcast", 150, PushScenarios::pushBroadcast);
        add("broadcast-begin", 120, PushScenarios::broadcastBegin);
        add("push-latency", 120, PushScenarios::pushLatency);
        add("filter-tag", 120, PushScenarios::filterTag);
        add("filter-tag-hash-clash", 120, PushScenarios::filterTagHashClash);
        add("filter-sql92", 120, PushScenarios::filterSql92);
        add("filter-sql92-bad", 120, PushScenarios::filterSql92Bad);
        add("order-push", 150, PushScenarios::orderPush);
        add("two-topics", 120, PushScenarios::twoTopics);
        add("subscription-change", 150, PushScenarios::subscriptionChange);
        add("batch-64-consume", 120, PushScenarios::batch64Consume);
    }

    private static String pushClustering(Scenario s) throws Throwable {
        String t = s.topic(8), g = s.group();
        DefaultMQProducer p = s.producer();
        Received a = s.collect(g, t, "*");
        Received b = s.collect(g, t, "*");
        until(
                65000,
                "both have 4 queues",
                () -> {
                    // the table has the queue of the retry topic as well
                    var c =
                            admin()
                                    .getConsumerRunningInfo(g, a.c.buildMQClientId(), false)
                                    .getMqTable()
                                    .keySet()
                                    .stream()
                                    .filter(q -> q.getTopic().equals(t))
                                    .count();
                    var d =
                            admin()
                                    .getConsumerRunningInfo(g, b.c.buildMQClientId(), false)
                                    .getMqTable()
                                    .keySet()
                                    .stream()
                                    .filter(q -> q.getTopic().equals(t))
                                    .count();
                    return c == 4 && d == 4;
                });
        s.send(p, t, "A", 80, "m");
        until(60000, "80 messages", () -> a.size() + b.size() >= 80);
        Set<String> all = a.set();
        all.addAll(b.set());
        eq(80, all.size(), "different messages");
        int na = a.size(), nb = b.size();
        eq(80, na + nb, "deliveries");
        check(na > 0 && nb > 0, "shares " + na + "/" + nb);
        a.c.shutdown();
        s.send(p, t, "A", 40, "n");
        b.await(nb + 40, 60000);
        return na + "/" + nb + ", after one left all 40 to the other";
    }

    private static String pushBroadcast(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        DefaultMQProducer p = s.producer();
        List<Received> gs = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer c = s.push(g);
            Compat.broadcast(c);
            c.subscribe(t, "*");
            gs.add(new Received(c));
            c.start();
        }
        s.send(p, t, "A", 20, "m");
        for (Received x : gs) x.await(20, 60000);
        for (Received x : gs) eq(20, x.set().size(), "different messages");
        return "20 to each of 2";
    }

    /** What is sent after start() comes, though the first rebalance is a second later. */
    private static String broadcastBegin(Scenario s) throws Throwable {
        String t = s.topic(2);
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 4, "old");
        Received r = broadcaster(s, t);
        s.send(p, t, "A", 4, "new");
        r.await(4, 30000);
        s.send(p, t, "A", 4, "later");
        r.await(8, 30000);
        Thread.sleep(500);
        eq(8, r.size(), "messages");
        eq("[later0, later1, later2, later3, new0, new1, new2, new3]", r.set().toString(), "bodies");
        return "4 sent right after start(), 4 later, none of before";
    }

    /**
     * A broadcasting consumer that the broker knows when start() has returned. The client leaves its first heartbeat out when
     * another is under way; then nobody can know where it begins.
     */
    private static Received broadcaster(Scenario s, String topic) throws Throwable {
        for (int i = 0; ; i++) {
            String g = s.group();
            DefaultMQPushConsumer c = s.push(g);
            Compat.broadcast(c);
            c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            c.subscribe(topic, "*");
            Received r = new Received(c);
            c.start();
            try {
                admin().examineConsumerConnectionInfo(g);
                return r;
            } catch (Exception e) {
                c.shutdown();
                if (i == 5) throw e;
            }
        }
    }

    private static String pushLatency(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 1, "warm");
        c.await(1, 60000);
        long worst = 0;
        for (int i = 0; i < 5; i++) {
            Thread.sleep(700);
            int n = c.size();
            long t0 = System.currentTimeMillis();
            p.send(new Message(t, utf8("l" + i)));
            c.await(n + 1, 5000);
            worst = Math.max(worst, c.at.get(n) - t0);
        }
        check(worst < 800, "worst " + worst + " ms: the held pull is not woken");
        return "worst " + worst + " ms after idle";
    }

    private static String filterTag(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 30; i++)
            p.send(
                    new Message(
                            t, i % 3 == 0 ? "TagA" : i % 3 == 1 ? "TagB" : "TagC", utf8("m" + i)));
        p.send(new Message(t, utf8("none")));
        Received c = s.collect(g, t, "TagA || TagC");
        c.await(20, 60000);
        Thread.sleep(800);
        eq(20, c.size(), "matched");
        for (MessageExt m : c.msgs) check("TagATagC".contains(m.getTags()), "tag " + m.getTags());
        return "20 of 31";
    }

    private static String filterTagHashClash(Scenario s) throws Throwable {
        // "Aa" and "BB" have the same Java hash code: the broker passes both, the
        // client has to filter.
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 10; i++)
            p.send(new Message(t, i % 2 == 0 ? "Aa" : "BB", utf8("m" + i)));
        Received c = s.collect(g, t, "Aa");
        c.await(5, 60000);
        Thread.sleep(500);
        eq(5, c.size(), "matched");
        DefaultMQPullConsumer x = pull(s, s.group());
        var r = x.pull(x.fetchSubscribeMessageQueues(t).iterator().next(), "Aa", 0, 32);
        eq(5, r.getMsgFoundList().size(), "pulled");
        return "5 of 10";
    }

    private static String filterSql92(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 20; i++) {
            Message m = new Message(t, i % 2 == 0 ? "even" : "odd", utf8("m" + i));
            m.putUserProperty("a", "" + i);
            m.putUserProperty("color", i < 10 ? "red" : "blue");
            if (i == 3) m.putUserProperty("special", "yes");
            p.send(m);
        }
        DefaultMQPushConsumer c = s.push(g);
        c.subscribe(
                t,
                MessageSelector.bySql(
                        "(a BETWEEN 5 AND 12 AND color = 'red') OR special IS NOT NULL"
                                + " OR (TAGS = 'odd' AND a > 15) OR color IN ('green',"
                                + " 'black') OR a = 0"));
        Received got = new Received(c);
        c.start();
        got.await(9, 60000);
        Thread.sleep(800);
        eq("[m0, m17, m19, m3, m5, m6, m7, m8, m9]", got.set().toString(), "matched");
        return "9 of 20: BETWEEN, IN, IS NOT NULL, TAGS, AND/OR";
    }

    private static String filterSql92Bad(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQPushConsumer c = s.push(g);
        c.subscribe(t, MessageSelector.bySql("a > > 5"));
        new Received(c);
        Exception e =
                fails(
                        "start with a broken expression",
                        () -> {
                            c.start();
                            return true;
                        });
        return "start refused: " + e.getMessage();
    }

    private static String orderPush(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        DefaultMQProducer p = s.producer();
        Map<String, List<Integer>> seen = new ConcurrentHashMap<>();
        AtomicInteger n = new AtomicInteger(), suspended = new AtomicInteger();
        for (int k = 0; k < 2; k++) {
            DefaultMQPushConsumer c = s.push(g);
            c.subscribe(t, "*");
            c.registerMessageListener(
                    (MessageListenerOrderly)
                            (msgs, ctx) -> {
                                for (MessageExt m : msgs) {
                                    String[] b = str(m).split(":");
                                    if (b[1].equals("7") && m.getReconsumeTimes() == 0) {
                                        suspended.incrementAndGet();
                                        ctx.setSuspendCurrentQueueTimeMillis(200);
                                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                                    }
                                    seen.computeIfAbsent(
                                                    b[0],
                                                    x ->
                                                            Collections.synchronizedList(
                                                                    new ArrayList<>()))
                                            .add(Integer.parseInt(b[1]));
                                    n.incrementAndGet();
                                }
                                return ConsumeOrderlyStatus.SUCCESS;
                            });
            c.start();
        }
        for (int i = 0; i < 20; i++)
            for (int k = 0; k < 6; k++) p.send(new Message(t, utf8("k" + k + ":" + i)), BY_ARG, k);
        until(60000, "120 messages, got " + n, () -> n.get() >= 120);
        List<Integer> want = new ArrayList<>();
        for (int i = 0; i < 20; i++) want.add(i);
        for (var e : seen.entrySet()) eq(want, e.getValue(), "order of " + e.getKey());
        check(suspended.get() > 0, "nothing was suspended");
        return "6 keys in order over 2 consumers, " + suspended + " suspensions";
    }

    private static String twoTopics(Scenario s) throws Throwable {
        String t = s.topic(2), u = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        DefaultMQPushConsumer c = s.push(g);
        c.subscribe(t, "*");
        c.subscribe(u, "B");
        Received got = new Received(c);
        c.start();
        s.send(p, t, "A", 5, "t");
        s.send(p, u, "B", 5, "u");
        s.send(p, u, "C", 5, "no");
        got.await(10, 60000);
        Thread.sleep(500);
        eq(10, got.size(), "messages");
        return "5 + 5";
    }

    private static String subscriptionChange(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "A");
        s.send(p, t, "A", 3, "a");
        c.await(3, 60000);
        c.c.subscribe(t, "B");
        until(
                60000,
                "messages of the new tag",
                () -> {
                    p.send(new Message(t, "B", utf8("b")));
                    Thread.sleep(500);
                    return c.bodies().contains("b");
                });
        return "A, then B";
    }

    private static String batch64Consume(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 100, "m");
        DefaultMQPushConsumer c = s.push(g);
        c.setConsumeMessageBatchMaxSize(16);
        c.setPullBatchSize(32);
        c.subscribe(t, "*");
        AtomicInteger biggest = new AtomicInteger();
        Set<String> all = ConcurrentHashMap.newKeySet();
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (msgs, ctx) -> {
                            biggest.accumulateAndGet(msgs.size(), Math::max);
                            for (MessageExt m : msgs) all.add(str(m));
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        c.start();
        until(60000, "100 messages", () -> all.size() == 100);
        eq(16, biggest.get(), "biggest batch for the listener");
        return "100 in batches of 16";
    }
}
