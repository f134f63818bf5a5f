package interop;

import static interop.Clients.maxOffsets;
import static interop.Clients.str;
import static interop.Clients.utf8;
import static interop.Harness.add;
import static interop.Harness.admin;
import static interop.Harness.check;
import static interop.Harness.eq;
import static interop.Harness.fails;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What only the 5.x client has: timers, inner batches, broker side rebalance, more compressors. */
final class FiveScenarios {
    private FiveScenarios() {}

    static void compressed(String name, CompressionType type, int flag) {
        add(
                name,
                120,
                s -> {
                    String t = s.topic(1), g = s.group();
                    DefaultMQProducer p = s.raw(new DefaultMQProducer(s.id("PID")));
                    p.setCompressType(type);
                    p.start();
                    Received c = s.collect(g, t, "*");
                    String body = "compress me ".repeat(2000);
                    p.send(new Message(t, utf8(body)));
                    c.await(1, 60000);
                    eq(body, c.bodies().get(0), "body");
                    int f = c.msgs.get(0).getSysFlag();
                    check((f & 0x700) == flag, "sysFlag " + f);
                    check(
                            c.msgs.get(0).getStoreSize() < 2500,
                            "stored " + c.msgs.get(0).getStoreSize());
                    return "24000 bytes stored in "
                            + c.msgs.get(0).getStoreSize()
                            + ", sysFlag "
                            + f;
                });
    }

    static void register() {
        compressed("compress-lz4", CompressionType.LZ4, MessageSysFlag.COMPRESSION_LZ4_TYPE);
        compressed("compress-zstd", CompressionType.ZSTD, MessageSysFlag.COMPRESSION_ZSTD_TYPE);
        add("auto-batch", 120, FiveScenarios::autoBatch);
        add("batch-cq", 120, FiveScenarios::batchCq);
        add("batch-cq-auto", 120, FiveScenarios::batchCqAuto);
        add("timer-exact", 120, FiveScenarios::timerExact);
        add("timer-too-far", 120, FiveScenarios::timerTooFar);
        add("timer-past", 120, FiveScenarios::timerPast);
        add("timer-recall", 120, FiveScenarios::timerRecall);
        add("query-assignment", 120, FiveScenarios::queryAssignment);
        add("broker-rebalance", 120, FiveScenarios::brokerRebalance);
        add("order-lock-two", 120, FiveScenarios::orderLockTwo);
        add("heartbeat-v2", 120, FiveScenarios::heartbeatV2);
        add("namespace-v2", 120, FiveScenarios::namespaceV2);
        add("topic-attributes", 120, FiveScenarios::topicAttributes);
        add("update-topic-list", 120, FiveScenarios::updateTopicList);
    }

    private static String autoBatch(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.raw(new DefaultMQProducer(s.id("PID")));
        p.setAutoBatch(true);
        p.start();
        int n = 200;
        CountDownLatch l = new CountDownLatch(n);
        AtomicInteger bad = new AtomicInteger();
        for (int i = 0; i < n; i++) {
            p.send(
                    new Message(t, utf8("a" + i)),
                    new SendCallback() {
                        @Override
                        public void onSuccess(SendResult r) {
                            l.countDown();
                        }

                        @Override
                        public void onException(Throwable e) {
                            bad.incrementAndGet();
                            l.countDown();
                        }
                    });
        }
        check(l.await(20, TimeUnit.SECONDS), "callbacks missing " + l.getCount());
        eq(0, bad.get(), "failed");
        Received c = s.collect(g, t, "*");
        c.await(n, 60000);
        eq(n, c.set().size(), "bodies");
        return "200 through the client's accumulator";
    }

    private static String batchCq(Scenario s) throws Throwable {
        String t = s.topic(1, Map.of("queue.type", "BatchCQ")), g = s.group();
        DefaultMQProducer p = s.producer();
        List<Message> l = new ArrayList<>();
        for (int i = 0; i < 6; i++) l.add(new Message(t, "A", "bk" + i, utf8("b" + i)));
        p.send(l);
        p.send(new Message(t, "A", "single", utf8("b6")));
        Received c = s.collect(g, t, "*");
        c.await(7, 60000);
        eq("[b0, b1, b2, b3, b4, b5, b6]", c.set().toString(), "bodies");
        eq(7L, maxOffsets(t), "max offset");
        return "inner batch of 6 and one alone on a BatchCQ topic";
    }

    private static String batchCqAuto(Scenario s) throws Throwable {
        String t = s.topic(2, Map.of("queue.type", "BatchCQ")), g = s.group();
        DefaultMQProducer p = s.raw(new DefaultMQProducer(s.id("PID")));
        p.setAutoBatch(true);
        p.start();
        int n = 200;
        CountDownLatch l = new CountDownLatch(n);
        AtomicInteger bad = new AtomicInteger();
        for (int i = 0; i < n; i++) {
            p.send(
                    new Message(t, i % 2 == 0 ? "A" : "B", utf8("a" + i)),
                    new SendCallback() {
                        @Override
                        public void onSuccess(SendResult r) {
                            l.countDown();
                        }

                        @Override
                        public void onException(Throwable e) {
                            bad.incrementAndGet();
                            l.countDown();
                        }
                    });
        }
        check(l.await(20, TimeUnit.SECONDS), "callbacks missing " + l.getCount());
        eq(0, bad.get(), "failed");
        Received c = s.collect(g, t, "B");
        c.await(n / 2, 60000);
        eq(n / 2, c.set().size(), "bodies");
        long inner = c.msgs.stream().filter(m -> (m.getSysFlag() & 0x80) != 0).count();
        check(inner > 0, "no inner batch");
        return inner + " of 100 messages with one tag came in inner batches";
    }

    private static String timerExact(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 1, "warm");
        c.await(1, 60000);
        long now = System.currentTimeMillis();
        Map<String, Long> due = new HashMap<>();
        Message m1 = new Message(t, utf8("deliver"));
        m1.setDeliverTimeMs(now + 4000);
        due.put("deliver", now + 4000);
        p.send(m1);
        Message m2 = new Message(t, utf8("delayMs"));
        m2.setDelayTimeMs(6500);
        due.put("delayMs", System.currentTimeMillis() + 6500);
        p.send(m2);
        Message m3 = new Message(t, utf8("delaySec"));
        m3.setDelayTimeSec(8);
        due.put("delaySec", System.currentTimeMillis() + 8000);
        p.send(m3);
        c.await(4, 60000);
        StringBuilder b = new StringBuilder();
        for (int i = 1; i < 4; i++) {
            String x = str(c.msgs.get(i));
            long d = c.at.get(i) - due.get(x);
            check(d > -1100 && d < 2500, x + " off by " + d + " ms");
            b.append(x).append(d >= 0 ? "+" : "").append(d).append("ms ");
            eq(t, c.msgs.get(i).getTopic(), "topic");
        }
        return b.toString();
    }

    private static String timerTooFar(Scenario s) throws Throwable {
        String t = s.topic(1);
        DefaultMQProducer p = s.producer();
        Message m = new Message(t, utf8("x"));
        m.setDeliverTimeMs(System.currentTimeMillis() + 30L * 24 * 3600 * 1000);
        Exception e = fails("30 days ahead", () -> p.send(m) != null);
        check(
                e instanceof MQBrokerException && ((MQBrokerException) e).getResponseCode() == 13,
                "" + e);
        return "timerMaxDelaySec: code 13";
    }

    private static String timerPast(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Message m = new Message(t, utf8("x"));
        m.setDeliverTimeMs(System.currentTimeMillis() - 5000);
        p.send(m);
        s.collect(g, t, "*").await(1, 60000);
        return "delivered at once";
    }

    private static String timerRecall(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 1, "warm");
        c.await(1, 60000);
        Message m = new Message(t, utf8("recalled"));
        m.setDelayTimeMs(8000);
        SendResult r = p.send(m);
        Message k = new Message(t, utf8("kept"));
        k.setDelayTimeMs(8000);
        p.send(k);
        check(
                r.getRecallHandle() != null && !r.getRecallHandle().isEmpty(),
                "no recall handle in the result");
        String id = p.recallMessage(t, r.getRecallHandle());
        eq(r.getMsgId(), id, "recalled id");
        c.await(2, 60000);
        Thread.sleep(3000);
        eq("[kept, warm0]", c.set().toString(), "delivered");
        return "recalled message is not delivered";
    }

    private static String queryAssignment(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        Received c = s.collect(g, t, "*");
        MQClientAPIImpl api =
                c.c.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl();
        until(
                60000,
                "4 queues assigned by the broker",
                () ->
                        api.queryAssignment(
                                                Harness.brokerAddr,
                                                t,
                                                g,
                                                c.c.buildMQClientId(),
                                                "AVG",
                                                MessageModel.CLUSTERING,
                                                5000)
                                        .size()
                                == 4);
        var one =
                api.queryAssignment(
                                Harness.brokerAddr,
                                t,
                                g,
                                c.c.buildMQClientId(),
                                "AVG",
                                MessageModel.CLUSTERING,
                                5000)
                        .iterator()
                        .next();
        return "mode " + one.getMode();
    }

    private static String brokerRebalance(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        DefaultMQPushConsumer c = s.push(g);
        c.setClientRebalance(false);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        s.send(s.producer(), t, "A", 12, "m");
        got.await(12, 60000);
        return "clientRebalance=false, PULL assignment from the broker";
    }

    private static String orderLockTwo(Scenario s) throws Throwable {
        String t = s.topic(2), g = Compat.fifo(s.group());
        DefaultMQPushConsumer c = s.push(g);
        c.subscribe(t, "*");
        AtomicInteger n = new AtomicInteger();
        c.registerMessageListener(
                (MessageListenerOrderly)
                        (msgs, ctx) -> {
                            n.addAndGet(msgs.size());
                            return ConsumeOrderlyStatus.SUCCESS;
                        });
        c.start();
        s.send(s.producer(), t, "A", 10, "m");
        until(60000, "10 messages", () -> n.get() == 10);
        return "orderly with consumeMessageOrderly group";
    }

    private static String heartbeatV2(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQPushConsumer c = s.push(g);
        c.setUseHeartbeatV2(true);
        c.setHeartbeatBrokerInterval(1000);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        s.send(s.producer(), t, "A", 3, "m");
        got.await(3, 60000);
        Thread.sleep(5000);
        eq(
                1,
                admin().examineConsumerConnectionInfo(g).getConnectionSet().size(),
                "connections after 5 heartbeats");
        return "fingerprint heartbeats keep the consumer";
    }

    private static String namespaceV2(Scenario s) throws Throwable {
        // namespaceV2 travels in header fields (nsd, ns); the names in the request stay
        // plain
        String nsp = "NV" + Harness.RUN_ID, t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.raw(new DefaultMQProducer(s.id("PID")));
        p.setNamespaceV2(nsp);
        p.start();
        DefaultMQPushConsumer c = s.push(g);
        c.setNamespaceV2(nsp);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        for (int i = 0; i < 4; i++) p.send(new Message(t, utf8("n" + i)));
        got.await(4, 60000);
        eq(t, got.msgs.get(0).getTopic(), "topic");
        return "stored on the plain topic: " + (maxOffsets(t) == 4);
    }

    private static String topicAttributes(Scenario s) throws Throwable {
        String t = s.topic(1, Map.of("message.type", "FIFO"));
        eq(
                "FIFO",
                admin().examineTopicConfig(Harness.brokerAddr, t)
                        .getAttributes()
                        .get("message.type"),
                "attribute");
        Exception e =
                fails(
                        "unknown attribute",
                        () -> {
                            s.topic(1, Map.of("no.such.attribute", "x"));
                            return true;
                        });
        return "message.type kept; unknown: " + e.getClass().getSimpleName();
    }

    private static String updateTopicList(Scenario s) throws Throwable {
        List<org.apache.rocketmq.common.TopicConfig> l = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            org.apache.rocketmq.common.TopicConfig c =
                    new org.apache.rocketmq.common.TopicConfig(s.id("T"));
            c.setReadQueueNums(2);
            c.setWriteQueueNums(2);
            l.add(c);
        }
        admin().createAndUpdateTopicConfigList(Harness.brokerAddr, l);
        for (var c : l)
            until(
                    10000,
                    "route",
                    () ->
                            admin().examineTopicRouteInfo(c.getTopicName()).getQueueDatas().size()
                                    == 1);
        return "3 topics in one request";
    }
}
