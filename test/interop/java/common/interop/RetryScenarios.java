package interop;

import static interop.Clients.has;
import static interop.Clients.maxOffsets;
import static interop.Clients.pull;
import static interop.Clients.str;
import static interop.Clients.tx;
import static interop.Clients.utf8;
import static interop.Harness.add;
import static interop.Harness.admin;
import static interop.Harness.check;
import static interop.Harness.eq;
import static interop.Harness.fails;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Messages that come later or again: delay, retry, dead letters, transactions, replies, traces.
 * They compile against the 4.9 and the 5.x client alike.
 */
final class RetryScenarios {
    private RetryScenarios() {}

    static void register() {
        add("delay-level", 120, RetryScenarios::delayLevel);
        add("retry", 120, RetryScenarios::retry);
        add("retry-dlq", 120, RetryScenarios::retryDlq);
        add("retry-order-max", 150, RetryScenarios::retryOrderMax);
        add("tx-commit", 120, RetryScenarios::txCommit);
        add("tx-rollback", 120, RetryScenarios::txRollback);
        add("tx-check", 150, RetryScenarios::txCheck);
        add("tx-check-rollback", 150, RetryScenarios::txCheckRollback);
        add("request-reply", 120, RetryScenarios::requestReply);
        add("trace", 150, RetryScenarios::trace);
        add("trace-system-topic", 120, RetryScenarios::traceSystemTopic);
    }

    private static String delayLevel(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 1, "warm");
        c.await(1, 60000);
        Map<String, Long> sent = new HashMap<>();
        for (int lv = 1; lv <= 3; lv++) {
            Message m = new Message(t, utf8("L" + lv));
            m.setDelayTimeLevel(lv);
            sent.put("L" + lv, System.currentTimeMillis());
            eq(SendStatus.SEND_OK, p.send(m).getSendStatus(), "status");
        }
        c.await(4, 60000);
        StringBuilder b = new StringBuilder();
        long[] want = {0, 1000, 5000, 10000};
        for (int i = 1; i < 4; i++) {
            String x = str(c.msgs.get(i));
            long d = c.at.get(i) - sent.get(x), w = want[x.charAt(1) - '0'];
            check(d >= w - 50 && d < w + 2500, x + " came after " + d + " ms, want " + w);
            eq(t, c.msgs.get(i).getTopic(), "topic");
            b.append(x).append('=').append(d).append("ms ");
        }
        return b.toString();
    }

    private static String retry(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        DefaultMQPushConsumer c = s.push(g);
        c.subscribe(t, "*");
        List<MessageExt> got = Collections.synchronizedList(new ArrayList<>());
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (msgs, ctx) -> {
                            got.addAll(msgs);
                            ctx.setDelayLevelWhenNextConsume(1);
                            return msgs.get(0).getReconsumeTimes() < 2
                                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        c.start();
        String id = s.send(p, t, "A", 1, "m").get(0);
        until(60000, "3 deliveries, got " + got.size(), () -> got.size() >= 3);
        for (int i = 0; i < 3; i++) {
            MessageExt m = got.get(i);
            eq(i, m.getReconsumeTimes(), "reconsumeTimes");
            eq(t, m.getTopic(), "topic as the listener sees it");
            eq(id, m.getMsgId(), "msgId");
            if (i > 0)
                check(
                        m.getProperty("ORIGIN_MESSAGE_ID") != null
                                && t.equals(m.getProperty("RETRY_TOPIC")),
                        "properties " + m.getProperties());
        }
        return "reconsumeTimes 0,1,2";
    }

    private static String retryDlq(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        DefaultMQPushConsumer c = s.push(g);
        c.setMaxReconsumeTimes(2);
        c.subscribe(t, "*");
        AtomicInteger n = new AtomicInteger();
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (msgs, ctx) -> {
                            n.incrementAndGet();
                            ctx.setDelayLevelWhenNextConsume(1);
                            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                        });
        c.start();
        s.send(p, t, "A", 1, "dead");
        String dlq = "%DLQ%" + g;
        until(
                60000,
                "DLQ topic with a message after " + n + " deliveries",
                () -> maxOffsets(dlq) == 1);
        eq(3, n.get(), "deliveries");
        DefaultMQPullConsumer x = pull(s, s.group());
        // a DLQ topic has perm 2 (write only): the route shows no read queue, so the
        // queue is named here
        MessageQueue q = new MessageQueue(dlq, Harness.brokerName, 0);
        String how;
        MessageExt m = null;
        try {
            var r = x.pull(q, "*", 0, 1);
            m = r.getMsgFoundList().get(0);
            how = "readable";
        } catch (Exception e) {
            how =
                    "not readable (perm 2): "
                            + (e instanceof MQBrokerException
                                    ? "code " + ((MQBrokerException) e).getResponseCode()
                                    : e.toString());
            var tc = admin().examineTopicConfig(Harness.brokerAddr, dlq);
            tc.setPerm(6);
            admin().createAndUpdateTopicConfig(Harness.brokerAddr, tc);
            Thread.sleep(500);
            m = x.pull(q, "*", 0, 1).getMsgFoundList().get(0);
        }
        eq("dead0", str(m), "body");
        eq(
                t,
                m.getProperty("DLQ_ORIGIN_TOPIC") == null ? t : m.getProperty("DLQ_ORIGIN_TOPIC"),
                "origin topic");
        return "3 deliveries, then DLQ; " + how;
    }

    private static String retryOrderMax(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        DefaultMQPushConsumer c = s.push(g);
        c.setMaxReconsumeTimes(2);
        c.subscribe(t, "*");
        AtomicInteger bad = new AtomicInteger(), good = new AtomicInteger();
        c.registerMessageListener(
                (MessageListenerOrderly)
                        (msgs, ctx) -> {
                            ctx.setSuspendCurrentQueueTimeMillis(100);
                            if (str(msgs.get(0)).equals("m0")) {
                                bad.incrementAndGet();
                                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                            }
                            good.addAndGet(msgs.size());
                            return ConsumeOrderlyStatus.SUCCESS;
                        });
        c.start();
        s.send(p, t, "A", 3, "m");
        until(
                60000,
                "queue goes on after max reconsume, bad " + bad + " good " + good,
                () -> good.get() == 2);
        until(
                20000,
                "message on the retry or DLQ topic",
                () ->
                        maxOffsets("%RETRY%" + g) + (has("%DLQ%" + g) ? maxOffsets("%DLQ%" + g) : 0)
                                >= 1);
        return bad + " tries of the first, then the queue went on";
    }

    private static String txCommit(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        AtomicInteger checks = new AtomicInteger();
        var p =
                tx(
                        s,
                        LocalTransactionState.COMMIT_MESSAGE,
                        LocalTransactionState.ROLLBACK_MESSAGE,
                        checks);
        Received c = s.collect(g, t, "*");
        for (int i = 0; i < 5; i++) {
            Message m = new Message(t, "A", "txk" + i, utf8("c" + i));
            m.putUserProperty("p", "v" + i);
            var r = p.sendMessageInTransaction(m, null);
            eq(SendStatus.SEND_OK, r.getSendStatus(), "status");
            check(r.getTransactionId() != null, "transaction id");
        }
        c.await(5, 60000);
        eq(5, c.set().size(), "bodies");
        for (MessageExt m : c.msgs)
            eq("v" + str(m).substring(1), m.getUserProperty("p"), "property");
        return "5 committed";
    }

    private static String txRollback(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        AtomicInteger checks = new AtomicInteger();
        var p =
                tx(
                        s,
                        LocalTransactionState.ROLLBACK_MESSAGE,
                        LocalTransactionState.COMMIT_MESSAGE,
                        checks);
        Received c = s.collect(g, t, "*");
        for (int i = 0; i < 3; i++) p.sendMessageInTransaction(new Message(t, utf8("r" + i)), null);
        Thread.sleep(12000);
        eq(0, c.size(), "messages seen");
        eq(0, checks.get(), "checks of rolled back messages");
        return "3 rolled back, none seen in 12 s";
    }

    private static String txCheck(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        AtomicInteger checks = new AtomicInteger();
        var p = tx(s, LocalTransactionState.UNKNOW, LocalTransactionState.COMMIT_MESSAGE, checks);
        Received c = s.collect(g, t, "*");
        long t0 = System.currentTimeMillis();
        for (int i = 0; i < 3; i++) p.sendMessageInTransaction(new Message(t, utf8("u" + i)), null);
        c.await(3, 120000);
        check(checks.get() >= 3, "checks " + checks);
        long at = c.at.get(0) - t0;
        return "committed by the check after " + at / 1000 + " s, " + checks + " checks";
    }

    private static String txCheckRollback(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        AtomicInteger checks = new AtomicInteger();
        var p = tx(s, LocalTransactionState.UNKNOW, LocalTransactionState.ROLLBACK_MESSAGE, checks);
        Received c = s.collect(g, t, "*");
        p.sendMessageInTransaction(new Message(t, utf8("u")), null);
        until(120000, "a check", () -> checks.get() > 0);
        Thread.sleep(8000);
        eq(0, c.size(), "messages seen");
        check(checks.get() <= 2, "checked again after the rollback: " + checks);
        return checks + " check(s), none seen";
    }

    private static String requestReply(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer replier = s.producer();
        DefaultMQPushConsumer c = s.push(g);
        c.subscribe(t, "*");
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (msgs, ctx) -> {
                            for (MessageExt m : msgs) {
                                try {
                                    replier.send(
                                            MessageUtil.createReplyMessage(m, utf8("re:" + str(m))),
                                            5000);
                                } catch (Exception e) {
                                    e.printStackTrace();
                                }
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        c.start();
        DefaultMQProducer p = s.producer();
        for (int i = 0; i < 3; i++) {
            var f = new java.util.concurrent.CompletableFuture<Message>();
            p.request(
                    new Message(t, utf8("q" + i)),
                    new org.apache.rocketmq.client.producer.RequestCallback() {
                        // the client calls back with null when the send succeeds, and
                        // with the reply when it comes
                        @Override
                        public void onSuccess(Message r) {
                            if (r != null) f.complete(r);
                        }

                        @Override
                        public void onException(Throwable e) {
                            f.completeExceptionally(e);
                        }
                    },
                    25000);
            eq("re:q" + i, new String(f.get(28, TimeUnit.SECONDS).getBody(), "UTF-8"), "reply");
        }
        long t0 = System.currentTimeMillis();
        String sync = "answered";
        try {
            eq(
                    "re:sync",
                    new String(p.request(new Message(t, utf8("sync")), 10000).getBody(), "UTF-8"),
                    "reply");
        } catch (org.apache.rocketmq.client.exception.RequestTimeoutException e) {
            // the 5.3.3 client counts the latch of request() down when the send
            // succeeds
            if (System.currentTimeMillis() - t0 > 5000) throw e;
            sync = "not waited for (client defect)";
        }
        Exception e =
                fails(
                        "request without an answer",
                        () -> p.request(new Message(s.topic(1), utf8("x")), 2500) != null);
        return "3 replies by callback; request(): "
                + sync
                + "; unanswered: "
                + e.getClass().getSimpleName();
    }

    private static String trace(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group(), tt = s.topic(1);
        DefaultMQProducer p = s.raw(Compat.traced(s.id("PID"), tt));
        p.start();
        Received c;
        DefaultMQPushConsumer pc = Compat.tracedConsumer(s, g, tt);
        pc.subscribe(t, "*");
        c = new Received(pc);
        pc.start();
        String id = s.send(p, t, "A", 1, "m").get(0);
        c.await(1, 60000);
        Received tr = s.collect(s.group(), tt, "*");
        until(
                60000,
                "Pub, SubBefore and SubAfter",
                () -> {
                    String all = String.join("\n", tr.bodies());
                    return all.contains("Pub\u0001")
                            && all.contains("SubBefore\u0001")
                            && all.contains("SubAfter\u0001")
                            && all.contains(id);
                });
        boolean key = false;
        for (MessageExt m : tr.msgs) key |= m.getKeys() != null && m.getKeys().contains(id);
        check(key, "trace message keyed by the message id");
        return "Pub, SubBefore, SubAfter on a topic of its own";
    }

    private static String traceSystemTopic(Scenario s) throws Throwable {
        String t = s.topic(1);
        DefaultMQProducer p = s.raw(Compat.traced(s.id("PID"), null));
        p.start();
        String id = s.send(p, t, "A", 1, "m").get(0);
        until(
                30000,
                "query of RMQ_SYS_TRACE_TOPIC by message id",
                () ->
                        admin().queryMessage(
                                                "RMQ_SYS_TRACE_TOPIC",
                                                id,
                                                10,
                                                System.currentTimeMillis() - 600000,
                                                System.currentTimeMillis() + 60000)
                                        .getMessageList()
                                        .size()
                                == 1);
        return "found by key on RMQ_SYS_TRACE_TOPIC";
    }
}
