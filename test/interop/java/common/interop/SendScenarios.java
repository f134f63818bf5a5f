package interop;

import static interop.Clients.BY_ARG;
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
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Sending: the ways to send, what a message may hold, and what is refused. They compile against the
 * 4.9 and the 5.x client alike.
 */
final class SendScenarios {
    private SendScenarios() {}

    static void register() {
        add("send-sync", 120, SendScenarios::sendSync);
        add("send-async", 120, SendScenarios::sendAsync);
        add("send-oneway", 120, SendScenarios::sendOneway);
        add("send-batch", 120, SendScenarios::sendBatch);
        add("send-selector", 120, SendScenarios::sendSelector);
        add("send-vip", 120, SendScenarios::sendVip);
        add("auto-create-topic", 120, SendScenarios::autoCreateTopic);
        add("unknown-topic", 120, SendScenarios::unknownTopic);
        add("properties", 120, SendScenarios::properties);
        add("compress-zlib", 120, SendScenarios::compressZlib);
        add("body-limit", 120, SendScenarios::bodyLimit);
        add("empty-body", 120, SendScenarios::emptyBody);
        add("long-topic", 120, SendScenarios::longTopic);
        add("unicode", 120, SendScenarios::unicode);
        add("namespace", 120, SendScenarios::namespace);
        add("throughput", 120, SendScenarios::throughput);
    }

    private static String sendSync(Scenario s) throws Throwable {
        String t = s.topic(4);
        DefaultMQProducer p = s.producer();
        Map<Integer, Long> last = new HashMap<>();
        Set<String> ids = new HashSet<>();
        for (int i = 0; i < 20; i++) {
            SendResult r = p.send(new Message(t, "A", "k" + i, utf8("b" + i)));
            eq(SendStatus.SEND_OK, r.getSendStatus(), "status");
            ids.add(r.getMsgId());
            ids.add(r.getOffsetMsgId());
            int q = r.getMessageQueue().getQueueId();
            eq(last.getOrDefault(q, -1L) + 1, r.getQueueOffset(), "offset of queue " + q);
            last.put(q, r.getQueueOffset());
        }
        eq(4, last.size(), "queues used");
        eq(40, ids.size(), "different ids");
        return "20 messages on 4 queues";
    }

    private static String sendAsync(Scenario s) throws Throwable {
        String t = s.topic(4);
        DefaultMQProducer p = s.producer();
        CountDownLatch l = new CountDownLatch(50);
        AtomicReference<Throwable> err = new AtomicReference<>();
        for (int i = 0; i < 50; i++) {
            p.send(
                    new Message(t, utf8("b" + i)),
                    new SendCallback() {
                        @Override
                        public void onSuccess(SendResult r) {
                            l.countDown();
                        }

                        @Override
                        public void onException(Throwable e) {
                            err.set(e);
                            l.countDown();
                        }
                    });
        }
        check(l.await(20, TimeUnit.SECONDS), "callbacks missing: " + l.getCount());
        if (err.get() != null) throw err.get();
        until(5000, "50 stored", () -> maxOffsets(t) == 50);
        return "50 callbacks";
    }

    private static String sendOneway(Scenario s) throws Throwable {
        String t = s.topic(4);
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 10; i++) p.sendOneway(new Message(t, utf8("b" + i)));
        until(10000, "10 stored", () -> maxOffsets(t) == 10);
        return "10 stored";
    }

    private static String sendBatch(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        List<Message> l = new ArrayList<>();
        for (int i = 0; i < 7; i++) {
            Message m = new Message(t, "A", "bk" + i, utf8("b" + i));
            m.putUserProperty("n", "" + i);
            l.add(m);
        }
        SendResult r = p.send(l);
        eq(7, r.getMsgId().split(",").length, "unique ids in the result");
        eq(7, r.getOffsetMsgId().split(",").length, "offset ids in the result");
        Received got = s.collect(g, t, "*");
        got.await(7, 60000);
        eq(7, got.set().size(), "bodies");
        Set<Long> off = new HashSet<>();
        for (MessageExt m : got.msgs) {
            off.add(m.getQueueOffset());
            eq(str(m).substring(1), m.getUserProperty("n"), "property of " + str(m));
            eq("bk" + str(m).substring(1), m.getKeys(), "keys of " + str(m));
        }
        eq(7, off.size(), "queue offsets");
        for (String id : r.getOffsetMsgId().split(","))
            check(admin().viewMessage(t, id) != null, "view " + id);
        return "7 in one request";
    }

    private static String sendSelector(Scenario s) throws Throwable {
        String t = s.topic(4);
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 8; i++)
            eq(
                    i % 4,
                    p.send(new Message(t, utf8("x")), BY_ARG, i).getMessageQueue().getQueueId(),
                    "queue");
        MessageQueue q = p.fetchPublishMessageQueues(t).get(3);
        for (int i = 0; i < 3; i++)
            eq(q, p.send(new Message(t, utf8("y")), q).getMessageQueue(), "queue");
        return "queue chosen by selector and by name";
    }

    private static String sendVip(Scenario s) throws Throwable {
        String t = s.topic(2);
        DefaultMQProducer p = s.raw(new DefaultMQProducer(s.id("PID")));
        p.setVipChannelEnabled(true);
        p.start();
        s.send(p, t, "A", 3, "v");
        return "through listenPort-2";
    }

    private static String autoCreateTopic(Scenario s) throws Throwable {
        String t = s.id("T");
        DefaultMQProducer p = s.producer();
        SendResult r = p.send(new Message(t, utf8("first")));
        eq(SendStatus.SEND_OK, r.getSendStatus(), "status");
        until(45000, "route", () -> !admin().examineTopicRouteInfo(t).getQueueDatas().isEmpty());
        int n = admin().examineTopicRouteInfo(t).getQueueDatas().get(0).getWriteQueueNums();
        eq(4, n, "write queues (defaultTopicQueueNums of the client)");
        Received g = s.collect(s.group(), t, "*");
        g.await(1, 60000);
        return "4 queues from TBW102";
    }

    private static String unknownTopic(Scenario s) throws Throwable {
        String t = s.id("T");
        DefaultMQProducer p = s.raw(new DefaultMQProducer(s.id("PID")));
        p.setCreateTopicKey(s.id("NOKEY"));
        p.start();
        Exception e = fails("send", () -> p.send(new Message(t, utf8("x"))) != null);
        int code = e instanceof MQClientException ? ((MQClientException) e).getResponseCode() : 0;
        check(code == 17 || code == 10005, "send: code " + code + " " + e);
        Exception e2 = fails("route", () -> admin().examineTopicRouteInfo(t) != null);
        check(
                e2 instanceof MQClientException
                        && ((MQClientException) e2).getResponseCode() == Compat.NO_ROUTE,
                "route code: " + e2);
        check(e2.getMessage().contains("No topic route info in name server"), "remark: " + e2);
        Exception e3 =
                fails("stats of an unknown topic", () -> admin().examineTopicStats(t) != null);
        return "send: code " + code + "; route: code 17; stats: " + e3.getClass().getSimpleName();
    }

    private static String properties(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        Message m = new Message(t, "T", "k1 k2", utf8("x"));
        for (int i = 0; i < 20; i++) m.putUserProperty("prop" + i, "value " + i + " =:;,");
        m.setBuyerId("buyer");
        p.send(m);
        c.await(1, 60000);
        MessageExt r = c.msgs.get(0);
        for (int i = 0; i < 20; i++)
            eq("value " + i + " =:;,", r.getUserProperty("prop" + i), "prop" + i);
        for (String k :
                new String[] {"UNIQ_KEY", "MIN_OFFSET", "MAX_OFFSET", "TAGS", "KEYS", "WAIT"})
            check(r.getProperty(k) != null, "no " + k + " in " + r.getProperties());
        eq(Harness.cluster, r.getProperty("CLUSTER"), "CLUSTER");
        String big = "v".repeat(30000);
        Message l = new Message(t, utf8("big"));
        l.putUserProperty("big", big);
        p.send(l);
        c.await(2, 60000);
        eq(big, c.msgs.get(1).getUserProperty("big"), "property of 30000 bytes");
        Message o = new Message(t, utf8("over"));
        o.putUserProperty("big", "v".repeat(33000));
        Exception e = fails("properties over 32767 bytes", () -> p.send(o) != null);
        check(
                e instanceof MQBrokerException && ((MQBrokerException) e).getResponseCode() == 13,
                "over: " + e);
        return "22 properties; 30000 bytes; over 32767 bytes: code 13";
    }

    private static String compressZlib(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        String body = "compress me ".repeat(1000);
        p.send(new Message(t, utf8(body)));
        c.await(1, 60000);
        eq(body, c.bodies().get(0), "body");
        int f = c.msgs.get(0).getSysFlag();
        check((f & 1) == 1 || (f & 0x700) == 0x300, "sysFlag " + f);
        check(c.msgs.get(0).getStoreSize() < 2000, "stored " + c.msgs.get(0).getStoreSize());
        return "12000 bytes stored in " + c.msgs.get(0).getStoreSize() + ", sysFlag " + f;
    }

    private static String bodyLimit(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        byte[] rnd = new byte[4 * 1024 * 1024 - 4096];
        new Random(7).nextBytes(rnd);
        eq(SendStatus.SEND_OK, p.send(new Message(t, rnd)).getSendStatus(), "just below 4 MiB");
        Exception e =
                fails("5 MiB", () -> p.send(new Message(t, new byte[5 * 1024 * 1024])) != null);
        check(
                e instanceof MQClientException && ((MQClientException) e).getResponseCode() == 13,
                "client side: " + e);
        DefaultMQProducer q = s.raw(new DefaultMQProducer(s.id("PID")));
        q.setMaxMessageSize(16 * 1024 * 1024);
        q.start();
        byte[] over = new byte[5 * 1024 * 1024];
        new Random(8).nextBytes(over);
        Exception e2 =
                fails("5 MiB past the client's check", () -> q.send(new Message(t, over)) != null);
        check(
                e2 instanceof MQBrokerException && ((MQBrokerException) e2).getResponseCode() == 13,
                "broker side: " + e2);
        Received c = s.collect(g, t, "*");
        c.await(1, 60000);
        check(Arrays.equals(rnd, c.msgs.get(0).getBody()), "body differs");
        return "4 MiB - 4 KiB goes through; 5 MiB: code 13 from client and broker";
    }

    private static String emptyBody(Scenario s) throws Throwable {
        String t = s.topic(1);
        DefaultMQProducer p = s.producer();
        Exception e = fails("empty body", () -> p.send(new Message(t, new byte[0])) != null);
        check(
                e instanceof MQClientException && ((MQClientException) e).getResponseCode() == 13,
                "" + e);
        return "refused by the client, code 13";
    }

    private static String longTopic(Scenario s) throws Throwable {
        StringBuilder b =
                new StringBuilder("T_" + Harness.RUN_ID + "_" + s.id("x").hashCode() + "_");
        while (b.length() < 127) b.append('z');
        String t = b.toString();
        s.create(t, 1, Map.of());
        s.send(s.producer(), t, "A", 2, "m");
        Received c = s.collect(s.group(), t, "*");
        c.await(2, 60000);
        return "topic name of 127 characters";
    }

    private static String unicode(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        String u = "消息-ключ-😀-é";
        Received c = s.collect(g, t, "标签");
        Message m = new Message(t, "标签", u, utf8(u));
        m.putUserProperty("属性", u);
        p.send(m);
        c.await(1, 60000);
        MessageExt r = c.msgs.get(0);
        eq(u, str(r), "body");
        eq(u, r.getKeys(), "keys");
        eq("标签", r.getTags(), "tags");
        eq(u, r.getUserProperty("属性"), "property");
        until(
                15000,
                "query by its key",
                () ->
                        p.queryMessage(t, u, 10, 0, System.currentTimeMillis() + 5000)
                                        .getMessageList()
                                        .size()
                                == 1);
        return "body, key, tag, property, query by key";
    }

    private static String namespace(Scenario s) throws Throwable {
        String nsp = "NS" + Harness.RUN_ID;
        String t = s.id("T"), g = s.group();
        s.create(nsp + "%" + t, 2, Map.of());
        DefaultMQProducer p = Compat.namespaced(s, nsp, s.id("PID"));
        p.start();
        DefaultMQPushConsumer c = Compat.namespacedConsumer(s, nsp, g);
        c.subscribe(t, "*");
        Received got = new Received(c);
        c.start();
        for (int i = 0; i < 5; i++) p.send(new Message(t, utf8("n" + i)));
        got.await(5, 60000);
        eq(t, got.msgs.get(0).getTopic(), "topic without the namespace");
        until(5000, "stored on the topic with the namespace", () -> maxOffsets(nsp + "%" + t) == 5);
        until(
                10000,
                "group with the namespace",
                () ->
                        admin().examineConsumerConnectionInfo(nsp + "%" + g)
                                        .getConnectionSet()
                                        .size()
                                == 1);
        return nsp + "%topic";
    }

    private static String throughput(Scenario s) throws Throwable {
        String t = s.topic(4), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        int n = 3000;
        CountDownLatch l = new CountDownLatch(n);
        AtomicInteger bad = new AtomicInteger();
        long t0 = System.currentTimeMillis();
        byte[] body = new byte[512];
        for (int i = 0; i < n; i++) {
            p.send(
                    new Message(t, body),
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
                    },
                    20000);
        }
        check(l.await(30, TimeUnit.SECONDS), "callbacks missing " + l.getCount());
        eq(0, bad.get(), "failed sends");
        c.await(n, 60000);
        return n
                + " of 512 bytes sent and consumed in "
                + (System.currentTimeMillis() - t0)
                + " ms";
    }
}
