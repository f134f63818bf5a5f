package interop;

import static interop.Harness.admin;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What several scenarios need: clients that are closed with the scenario, and small questions to
 * the broker.
 */
final class Clients {
    private Clients() {}

    static byte[] utf8(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static String str(MessageExt m) {
        return new String(m.getBody(), StandardCharsets.UTF_8);
    }

    static long maxOffsets(String topic) throws Exception {
        long n = 0;
        var t = admin().examineTopicStats(topic).getOffsetTable();
        for (var e : t.values()) n += e.getMaxOffset();
        return n;
    }

    static DefaultLitePullConsumer lite(Scenario s, String group) {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(group);
        c.setNamesrvAddr(Harness.NAMESRV);
        c.setInstanceName(Harness.uniq());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        s.later(c::shutdown);
        return c;
    }

    static DefaultMQPullConsumer pull(Scenario s, String group) throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(group);
        c.setNamesrvAddr(Harness.NAMESRV);
        c.setInstanceName(Harness.uniq());
        s.later(c::shutdown);
        c.start();
        return c;
    }

    static List<MessageExt> drain(DefaultLitePullConsumer c, int n, long ms) {
        List<MessageExt> got = new ArrayList<>();
        long end = System.currentTimeMillis() + ms;
        while (got.size() < n && System.currentTimeMillis() < end) got.addAll(c.poll(300));
        return got;
    }

    static TransactionMQProducer tx(
            Scenario s,
            LocalTransactionState first,
            LocalTransactionState then,
            AtomicInteger checks)
            throws Exception {
        TransactionMQProducer p = new TransactionMQProducer(s.id("PID"));
        s.raw(p);
        p.setTransactionListener(
                new TransactionListener() {
                    @Override
                    public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                        return first;
                    }

                    @Override
                    public LocalTransactionState checkLocalTransaction(MessageExt m) {
                        checks.incrementAndGet();
                        return then;
                    }
                });
        p.start();
        return p;
    }

    static final MessageQueueSelector BY_ARG =
            (mqs, m, arg) -> mqs.get(Math.floorMod((Integer) arg, mqs.size()));

    static boolean has(String topic) {
        try {
            return admin().examineTopicRouteInfo(topic) != null;
        } catch (Exception e) {
            return false;
        }
    }
}
