import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Fills a broker with the messages of a golden store directory and writes a manifest of what the
 * broker then serves. Environment: NAMESRV, BROKER (address), BROKER_NAME; arguments: plain or
 * timer, and the manifest file. timer adds timer messages: two that are delivered before the end,
 * five that are pending, one recalled.
 */
public final class StoreWriter {
    private static final String NS = System.getenv("NAMESRV");
    private static final String BROKER = System.getenv("BROKER");
    private static final String BROKER_NAME = System.getenv("BROKER_NAME");

    private StoreWriter() {}

    static byte[] utf8(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] args) {
        int status = 1;
        try {
            write(args);
            status = 0;
        } catch (Throwable e) {
            e.printStackTrace();
        }
        System.out.flush();
        Runtime.getRuntime().halt(status);
    }

    static void write(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(NS);
        admin.start();
        while (admin.examineBrokerClusterInfo().getBrokerAddrTable().isEmpty()) Thread.sleep(100);
        topic(admin, "GoldenOrders", 4);
        topic(admin, "GoldenLarge", 1);
        topic(admin, "GoldenBatch", 2);
        topic(admin, "GoldenTx", 1);
        DefaultMQProducer p = new DefaultMQProducer("PID_golden");
        p.setNamesrvAddr(NS);
        p.setCompressMsgBodyOverHowmuch(1 << 22);
        p.start();
        send(p);
        transactions();
        if (args[0].equals("timer")) timers(admin, p);
        DefaultMQPullConsumer c = new DefaultMQPullConsumer("GID_golden");
        c.setNamesrvAddr(NS);
        c.start();
        consume(c);
        Thread.sleep(
                7000); // the delayed messages of level 1 and 2 are delivered, offsets and tables
        // are written
        Map<String, Object> all = new TreeMap<>();
        for (String t : admin.fetchAllTopicList().getTopicList()) {
            Map<String, Object> queues = topicManifest(admin, c, t);
            if (!queues.isEmpty()) all.put(t, queues);
        }
        Map<String, Object> manifest = new LinkedHashMap<>();
        manifest.put("topics", all);
        manifest.put("consumerOffsets", Map.of("GoldenOrders@GID_golden", Map.of("0", 5, "1", 3)));
        String json =
                JSON.toJSONString(
                        manifest, SerializerFeature.PrettyFormat, SerializerFeature.SortField);
        Files.writeString(Path.of(args[1]), json + "\n");
        System.out.println("written");
    }

    static void topic(DefaultMQAdminExt a, String name, int queues) throws Exception {
        TopicConfig c = new TopicConfig(name);
        c.setReadQueueNums(queues);
        c.setWriteQueueNums(queues);
        c.setPerm(6);
        a.createAndUpdateTopicConfig(BROKER, c);
        for (int i = 0; i < 100; i++) {
            try {
                if (!a.examineTopicRouteInfo(name).getQueueDatas().isEmpty()) return;
            } catch (Exception e) {
                // not there yet
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("no route of " + name);
    }

    static void send(DefaultMQProducer p) throws Exception {
        for (int i = 0; i < 100; i++) {
            Message m =
                    new Message(
                            "GoldenOrders",
                            i % 3 == 0 ? "TagA" : "TagB",
                            "order-" + i + " customer-" + i % 10,
                            utf8("order " + i));
            m.putUserProperty("n", Integer.toString(i));
            p.send(m, new MessageQueue("GoldenOrders", BROKER_NAME, i % 4));
        }
        for (int i = 0; i < 60; i++)
            p.send(
                    new Message(
                            "GoldenLarge",
                            "T",
                            "large-" + i,
                            utf8(("large " + i + " ").repeat(2000))));
        for (int b = 0; b < 6; b++) {
            List<Message> l = new ArrayList<>();
            for (int i = 0; i < 5; i++)
                l.add(
                        new Message(
                                "GoldenBatch",
                                "B",
                                "batch-" + b + "-" + i,
                                utf8("batch " + b + " " + i)));
            p.send(l, new MessageQueue("GoldenBatch", BROKER_NAME, b % 2));
        }
        for (int i = 0; i < 6; i++) {
            Message m =
                    new Message("GoldenOrders", "Delayed", "delayed-" + i, utf8("delayed " + i));
            m.setDelayTimeLevel(i < 4 ? 1 + i % 2 : 18);
            p.send(m, new MessageQueue("GoldenOrders", BROKER_NAME, 0));
        }
    }

    /** Two committed, one rolled back, one left open. */
    static void transactions() throws Exception {
        TransactionMQProducer p = new TransactionMQProducer("PID_golden_tx");
        p.setNamesrvAddr(NS);
        p.setInstanceName("tx");
        p.setTransactionListener(
                new TransactionListener() {
                    @Override
                    public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                        return (LocalTransactionState) arg;
                    }

                    @Override
                    public LocalTransactionState checkLocalTransaction(MessageExt m) {
                        return LocalTransactionState.UNKNOW;
                    }
                });
        p.start();
        LocalTransactionState[] s = {
            LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.ROLLBACK_MESSAGE,
            LocalTransactionState.UNKNOW
        };
        for (int i = 0; i < s.length; i++)
            p.sendMessageInTransaction(
                    new Message("GoldenTx", "T", "tx-" + i, utf8("tx " + i)), s[i]);
        Thread.sleep(1000);
    }

    static void timers(DefaultMQAdminExt admin, DefaultMQProducer p) throws Exception {
        topic(admin, "GoldenTimer", 1);
        long now = System.currentTimeMillis();
        for (int i = 0; i < 7; i++) {
            Message m = new Message("GoldenTimer", "T", "timer-" + i, utf8("timer " + i));
            m.setDeliverTimeMs(i < 2 ? now + 2000 : now + 3600_000L * i);
            p.send(m);
        }
        Message m = new Message("GoldenTimer", "T", "timer-recalled", utf8("timer recalled"));
        m.setDeliverTimeMs(now + 3600_000L);
        p.recallMessage("GoldenTimer", p.send(m).getRecallHandle());
    }

    static void consume(DefaultMQPullConsumer c) throws Exception {
        for (MessageQueue q : c.fetchSubscribeMessageQueues("GoldenOrders")) {
            if (q.getQueueId() > 1) continue;
            c.pull(q, "*", 0, 8);
            c.getDefaultMQPullConsumerImpl().updateConsumeOffset(q, q.getQueueId() == 0 ? 5 : 3);
            c.getOffsetStore().persist(q);
        }
    }

    static Map<String, Object> topicManifest(
            DefaultMQAdminExt admin, DefaultMQPullConsumer c, String t) throws Exception {
        Map<String, Object> queues = new TreeMap<>();
        Map<MessageQueue, ?> stats;
        try {
            stats = admin.examineTopicStats(t).getOffsetTable();
        } catch (Exception e) {
            return queues;
        }
        for (MessageQueue q : stats.keySet()) {
            long min = c.minOffset(q), max = c.maxOffset(q);
            if (max == 0) continue;
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("min", min);
            one.put("max", max);
            one.put("messages", messages(c, q, min, max));
            queues.put(Integer.toString(q.getQueueId()), one);
        }
        return queues;
    }

    static List<Object> messages(DefaultMQPullConsumer c, MessageQueue q, long min, long max)
            throws Exception {
        List<Object> l = new ArrayList<>();
        for (long at = min; at < max; ) {
            PullResult r = c.pull(q, "*", at, 32);
            if (r.getPullStatus() == PullStatus.FOUND)
                for (MessageExt m : r.getMsgFoundList()) l.add(message(m));
            if (r.getNextBeginOffset() <= at) break;
            at = r.getNextBeginOffset();
        }
        return l;
    }

    static Map<String, Object> message(MessageExt m) {
        Map<String, Object> e = new LinkedHashMap<>();
        e.put("queueOffset", m.getQueueOffset());
        e.put("phyOffset", m.getCommitLogOffset());
        e.put("size", m.getStoreSize());
        // MessageClientExt: getMsgId is the unique id when there is one, so the id from the offset
        // is made here
        e.put(
                "offsetMsgId",
                org.apache.rocketmq.common.message.MessageDecoder.createMessageId(
                        m.getStoreHost(), m.getCommitLogOffset()));
        e.put("msgId", m.getMsgId());
        e.put("tags", m.getTags());
        e.put("keys", m.getKeys());
        e.put("storeTimestamp", m.getStoreTimestamp());
        e.put("bornTimestamp", m.getBornTimestamp());
        e.put("sysFlag", m.getSysFlag());
        e.put("bodyCRC", m.getBodyCRC());
        e.put("bodySize", m.getBody() == null ? 0 : m.getBody().length);
        if (m.getBody() != null && m.getBody().length <= 64)
            e.put("body", new String(m.getBody(), StandardCharsets.UTF_8));
        return e;
    }
}
