package interop;

import static interop.Clients.str;
import static interop.Harness.add;
import static interop.Harness.admin;
import static interop.Harness.check;
import static interop.Harness.eq;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** 5.x: consumption by POP. */
final class PopScenarios {
    private PopScenarios() {}

    static MQClientAPIImpl api(Scenario s, String g) throws Exception {
        DefaultMQPushConsumer c = s.push(g + "_api");
        new Received(c);
        c.start();
        return c.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl();
    }

    static PopResult pop(
            MQClientAPIImpl api,
            String t,
            String g,
            int queue,
            int max,
            long invisible,
            long poll,
            boolean order,
            String tag)
            throws Exception {
        PopMessageRequestHeader h = new PopMessageRequestHeader();
        h.setTopic(t);
        h.setConsumerGroup(g);
        h.setQueueId(queue);
        h.setMaxMsgNums(max);
        h.setInvisibleTime(invisible);
        h.setPollTime(poll);
        h.setBornTime(System.currentTimeMillis());
        h.setInitMode(0);
        h.setExpType("TAG");
        h.setExp(tag);
        h.setOrder(order);
        h.setBrokerName(Harness.brokerName);
        CompletableFuture<PopResult> f = new CompletableFuture<>();
        api.popMessageAsync(
                Harness.brokerName,
                Harness.brokerAddr,
                h,
                poll + 10000,
                new PopCallback() {
                    @Override
                    public void onSuccess(PopResult r) {
                        f.complete(r);
                    }

                    @Override
                    public void onException(Throwable e) {
                        f.completeExceptionally(e);
                    }
                });
        return f.get(poll + 12000, TimeUnit.MILLISECONDS);
    }

    static AckCallback into(CompletableFuture<AckResult> f) {
        return new AckCallback() {
            @Override
            public void onSuccess(AckResult r) {
                f.complete(r);
            }

            @Override
            public void onException(Throwable e) {
                f.completeExceptionally(e);
            }
        };
    }

    static AckResult ack(MQClientAPIImpl api, String t, String g, String handle) throws Exception {
        String[] x = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader h = new AckMessageRequestHeader();
        h.setTopic(ExtraInfoUtil.getRealTopic(x, t, g));
        h.setConsumerGroup(g);
        h.setQueueId(ExtraInfoUtil.getQueueId(x));
        h.setOffset(ExtraInfoUtil.getQueueOffset(x));
        h.setExtraInfo(handle);
        h.setBrokerName(Harness.brokerName);
        CompletableFuture<AckResult> f = new CompletableFuture<>();
        api.ackMessageAsync(Harness.brokerAddr, 5000, into(f), h);
        return f.get(8, TimeUnit.SECONDS);
    }

    static AckResult hide(MQClientAPIImpl api, String t, String g, String handle, long ms)
            throws Exception {
        String[] x = ExtraInfoUtil.split(handle);
        ChangeInvisibleTimeRequestHeader h = new ChangeInvisibleTimeRequestHeader();
        h.setTopic(ExtraInfoUtil.getRealTopic(x, t, g));
        h.setConsumerGroup(g);
        h.setQueueId(ExtraInfoUtil.getQueueId(x));
        h.setOffset(ExtraInfoUtil.getQueueOffset(x));
        h.setExtraInfo(handle);
        h.setInvisibleTime(ms);
        h.setBrokerName(Harness.brokerName);
        CompletableFuture<AckResult> f = new CompletableFuture<>();
        api.changeInvisibleTimeAsync(Harness.brokerName, Harness.brokerAddr, h, 5000, into(f));
        return f.get(8, TimeUnit.SECONDS);
    }

    static String handle(MessageExt m) {
        return m.getProperty("POP_CK");
    }

    static void register() {
        add("pop-push", 150, PopScenarios::popPush);
        add("pop-push-retry", 150, PopScenarios::popPushRetry);
        add("pop-push-share", 180, PopScenarios::popPushShare);
        add("pop-push-switch", 180, PopScenarios::popPushSwitch);
        add("pop-direct", 120, PopScenarios::popDirect);
        add("pop-change-invisible", 120, PopScenarios::popChangeInvisible);
        add("pop-long-poll", 120, PopScenarios::popLongPoll);
        add("pop-order", 120, PopScenarios::popOrder);
        add("pop-filter-tag", 120, PopScenarios::popFilterTag);
    }

    private static String popPush(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        DefaultMQProducer p = s.producer();
        admin().setMessageRequestMode(Harness.brokerAddr, t, g, MessageRequestMode.POP, 8, 5000);
        List<Received> gs = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer c = s.push(g);
            c.setClientRebalance(false);
            c.setPopInvisibleTime(10000);
            c.subscribe(t, "*");
            gs.add(new Received(c));
            c.start();
        }
        Thread.sleep(3000);
        s.send(p, t, "A", 60, "m");
        until(
                60000,
                "60 messages, got " + gs.get(0).size() + "+" + gs.get(1).size(),
                () -> gs.get(0).size() + gs.get(1).size() >= 60);
        var all = gs.get(0).set();
        all.addAll(gs.get(1).set());
        eq(60, all.size(), "different messages");
        boolean pop =
                gs.get(0).msgs.stream().anyMatch(m -> handle(m) != null)
                        || gs.get(1).msgs.stream().anyMatch(m -> handle(m) != null);
        check(pop, "no POP_CK: the consumers pulled");
        return gs.get(0).size() + "/" + gs.get(1).size() + " by POP";
    }

    private static String popPushRetry(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        admin().setMessageRequestMode(Harness.brokerAddr, t, g, MessageRequestMode.POP, 8, 5000);
        DefaultMQPushConsumer c = s.push(g);
        c.setClientRebalance(false);
        c.setPopInvisibleTime(10000);
        c.subscribe(t, "*");
        List<Integer> times = Collections.synchronizedList(new ArrayList<>());
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (msgs, ctx) -> {
                            for (MessageExt m : msgs) times.add(m.getReconsumeTimes());
                            return msgs.get(0).getReconsumeTimes() < 1
                                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        c.start();
        s.send(p, t, "A", 1, "m");
        until(80000, "second delivery, got " + times, () -> times.size() >= 2);
        eq("[0, 1]", times.toString(), "reconsumeTimes");
        return "again after the first failure";
    }

    private static boolean popped(Received r) {
        synchronized (r.msgs) {
            return r.msgs.stream().anyMatch(m -> handle(m) != null);
        }
    }

    /** Three members share queues with one other each; one leaves. */
    private static String popPushShare(Scenario s) throws Throwable {
        String t = s.topic(6), g = s.group();
        DefaultMQProducer p = s.producer();
        admin().setMessageRequestMode(Harness.brokerAddr, t, g, MessageRequestMode.POP, 1, 5000);
        List<Received> gs = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            DefaultMQPushConsumer c = s.push(g);
            c.setClientRebalance(false);
            c.setPopInvisibleTime(10000);
            c.subscribe(t, "*");
            gs.add(new Received(c));
            c.start();
        }
        MQClientAPIImpl api = api(s, g);
        for (Received r : gs)
            until(
                    60000,
                    "4 of 6 queues for each of 3 members that share with one",
                    () -> {
                        var queues =
                                api.queryAssignment(
                                        Harness.brokerAddr,
                                        t,
                                        g,
                                        r.c.buildMQClientId(),
                                        "AVG",
                                        MessageModel.CLUSTERING,
                                        5000);
                        return queues.size() == 4
                                && queues.stream()
                                        .allMatch(
                                                q ->
                                                        q.getMode() == MessageRequestMode.POP
                                                                && q.getMessageQueue().getQueueId()
                                                                        >= 0);
                    });
        s.send(p, t, "A", 60, "m");
        until(
                60000,
                "60 messages",
                () -> gs.stream().mapToInt(Received::size).sum() >= 60);
        gs.get(0).c.shutdown();
        int before = gs.get(0).size();
        s.send(p, t, "A", 30, "n");
        until(
                60000,
                "30 more for those that are left",
                () -> gs.stream().mapToInt(Received::size).sum() >= 90);
        eq(before, gs.get(0).size(), "of the member that left");
        TreeSet<String> all = new TreeSet<>();
        for (Received r : gs) all.addAll(r.set());
        eq(90, all.size(), "different messages");
        for (Received r : gs) check(popped(r), "a member did not pop");
        return gs.get(0).size() + "/" + gs.get(1).size() + "/" + gs.get(2).size();
    }

    /** A group that pulls is told to pop while it runs: it goes on where it was. */
    private static String popPushSwitch(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        DefaultMQPushConsumer c = s.push(g);
        c.setClientRebalance(false);
        c.setPopInvisibleTime(10000);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        s.send(p, t, "A", 20, "pulled");
        got.await(20, 60000);
        check(!popped(got), "popped too early");
        admin().setMessageRequestMode(Harness.brokerAddr, t, g, MessageRequestMode.POP, 8, 5000);
        long t0 = System.currentTimeMillis();
        int n = 20;
        while (!popped(got)) {
            check(System.currentTimeMillis() - t0 < 90000, "does not pop");
            s.send(p, t, "A", 1, "n" + n++ + "-");
            Thread.sleep(500);
        }
        got.await(n, 60000);
        eq(n, got.set().size(), "different messages");
        return "popped after "
                + (System.currentTimeMillis() - t0) / 1000
                + " s, "
                + (got.size() - n)
                + " twice";
    }

    private static String popDirect(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        MQClientAPIImpl api = api(s, g);
        s.send(p, t, "A", 4, "m");
        List<MessageExt> got = new ArrayList<>();
        until(
                60000,
                "4 popped",
                () -> {
                    PopResult r = pop(api, t, g, -1, 32, 4000, 2000, false, "*");
                    if (r.getPopStatus() == PopStatus.FOUND) got.addAll(r.getMsgFoundList());
                    return got.size() >= 4;
                });
        eq(4, got.size(), "popped");
        for (MessageExt m : got) check(handle(m) != null, "POP_CK of " + m);
        for (int i = 0; i < 3; i++)
            eq(AckStatus.OK, ack(api, t, g, handle(got.get(i))).getStatus(), "ack");
        long t0 = System.currentTimeMillis();
        List<MessageExt> again = new ArrayList<>();
        until(
                25000,
                "the one without ack again",
                () -> {
                    PopResult r = pop(api, t, g, -1, 32, 20000, 2000, false, "*");
                    if (r.getPopStatus() == PopStatus.FOUND) again.addAll(r.getMsgFoundList());
                    return !again.isEmpty();
                });
        eq(str(got.get(3)), str(again.get(0)), "body");
        eq(1, again.size(), "came again");
        eq(1, again.get(0).getReconsumeTimes(), "reconsumeTimes");
        long dt = System.currentTimeMillis() - t0;
        eq(AckStatus.OK, ack(api, t, g, handle(again.get(0))).getStatus(), "ack of the retry");
        return "3 acked, 1 again after " + dt + " ms";
    }

    private static String popChangeInvisible(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        MQClientAPIImpl api = api(s, g);
        s.send(p, t, "A", 1, "m");
        List<MessageExt> got = new ArrayList<>();
        until(
                60000,
                "popped",
                () -> {
                    PopResult r = pop(api, t, g, -1, 32, 60000, 1000, false, "*");
                    if (r.getPopStatus() == PopStatus.FOUND) got.addAll(r.getMsgFoundList());
                    return !got.isEmpty();
                });
        AckResult r1 = hide(api, t, g, handle(got.get(0)), 3000);
        eq(AckStatus.OK, r1.getStatus(), "change");
        check(
                r1.getExtraInfo() != null && !r1.getExtraInfo().equals(handle(got.get(0))),
                "new handle");
        long t0 = System.currentTimeMillis();
        List<MessageExt> again = new ArrayList<>();
        until(
                30000,
                "visible again",
                () -> {
                    PopResult r = pop(api, t, g, -1, 32, 10000, 1000, false, "*");
                    if (r.getPopStatus() == PopStatus.FOUND) again.addAll(r.getMsgFoundList());
                    return !again.isEmpty();
                });
        long dt = System.currentTimeMillis() - t0;
        check(dt > 1500, "too early " + dt);
        return "60 s cut to 3 s: again after " + dt + " ms";
    }

    private static String popLongPoll(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        MQClientAPIImpl api = api(s, g);
        PopResult none = pop(api, t, g, -1, 8, 10000, 1500, false, "*");
        check(
                none.getPopStatus() == PopStatus.POLLING_NOT_FOUND
                        || none.getPopStatus() == PopStatus.NO_NEW_MSG,
                "empty pop " + none.getPopStatus());
        CompletableFuture<Long> at = new CompletableFuture<>();
        Thread th =
                new Thread(
                        () -> {
                            try {
                                PopResult r = pop(api, t, g, -1, 8, 10000, 10000, false, "*");
                                if (r.getPopStatus() == PopStatus.FOUND)
                                    at.complete(System.currentTimeMillis());
                                else
                                    at.completeExceptionally(
                                            new AssertionError("status " + r.getPopStatus()));
                            } catch (Exception e) {
                                at.completeExceptionally(e);
                            }
                        });
        th.start();
        Thread.sleep(1500);
        long t0 = System.currentTimeMillis();
        s.send(p, t, "A", 1, "m");
        long dt = at.get(15, TimeUnit.SECONDS) - t0;
        check(dt < 1500, "woken after " + dt);
        return none.getPopStatus() + "; woken after " + dt + " ms";
    }

    private static String popOrder(Scenario s) throws Throwable {
        String t = s.topic(1), g = Compat.fifo(s.group());
        DefaultMQProducer p = s.producer();
        MQClientAPIImpl api = api(s, g);
        s.send(p, t, "A", 4, "m");
        List<MessageExt> got = new ArrayList<>();
        until(
                60000,
                "popped in order",
                () -> {
                    PopResult r = pop(api, t, g, 0, 2, 4000, 1000, true, "*");
                    if (r.getPopStatus() == PopStatus.FOUND) got.addAll(r.getMsgFoundList());
                    return !got.isEmpty();
                });
        eq("m0", str(got.get(0)), "first");
        PopResult blocked = pop(api, t, g, 0, 2, 4000, 500, true, "*");
        check(
                blocked.getPopStatus() != PopStatus.FOUND,
                "queue has to be held: " + blocked.getPopStatus());
        for (MessageExt m : got) ack(api, t, g, handle(m));
        List<String> more = new ArrayList<>();
        until(
                20000,
                "next in order",
                () -> {
                    PopResult r = pop(api, t, g, 0, 2, 4000, 1000, true, "*");
                    if (r.getPopStatus() == PopStatus.FOUND)
                        for (MessageExt m : r.getMsgFoundList()) more.add(str(m));
                    return !more.isEmpty();
                });
        eq("m" + got.size(), more.get(0), "next");
        return "held until acked, then goes on at m" + got.size();
    }

    private static String popFilterTag(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        MQClientAPIImpl api = api(s, g);
        s.send(p, t, "A", 3, "a");
        s.send(p, t, "B", 3, "b");
        TreeSet<String> got = new TreeSet<>();
        for (int i = 0; i < 4; i++) {
            PopResult r = pop(api, t, g, -1, 32, 20000, 500, false, "B");
            if (r.getPopStatus() == PopStatus.FOUND)
                for (MessageExt m : r.getMsgFoundList()) got.add(str(m));
        }
        check(got.containsAll(List.of("b0", "b1", "b2")), "" + got);
        return "got "
                + got
                + (got.size() == 3 ? "" : " (the broker passes others: the client filters)");
    }
}
