package interop;

import static interop.Harness.eq;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** What a scenario uses: topics and groups of its own, and clients that are closed after it. */
final class Scenario {
    private final String base;
    private final List<AutoCloseable> open = new ArrayList<>();
    private int names;

    Scenario(String name) {
        String all = Harness.CLIENT + "_" + name + "_" + Harness.RUN_ID;
        this.base = all.replaceAll("[^a-zA-Z0-9_-]", "_");
    }

    synchronized void later(AutoCloseable c) {
        open.add(c);
    }

    /** Closes the clients, the newest first. */
    void close() {
        List<AutoCloseable> all;
        synchronized (this) {
            all = new ArrayList<>(open);
        }
        Collections.reverse(all);
        for (AutoCloseable c : all) {
            try {
                c.close();
            } catch (Exception e) {
                System.err.println(base + ": " + e);
            }
        }
    }

    /** A name of this scenario: kind_client_scenario_run, from the second call on with a number. */
    synchronized String id(String kind) {
        return kind + "_" + base + (names++ == 0 ? "" : "_" + names);
    }

    String group() {
        return id("GID");
    }

    String topic(int queues) throws Throwable {
        return topic(queues, Map.of());
    }

    String topic(int queues, Map<String, String> attributes) throws Throwable {
        String t = id("T");
        create(t, queues, attributes);
        return t;
    }

    void create(String topic, int queues, Map<String, String> attributes) throws Throwable {
        TopicConfig c = new TopicConfig(topic);
        c.setReadQueueNums(queues);
        c.setWriteQueueNums(queues);
        c.setPerm(6);
        Compat.attributes(c, attributes);
        DefaultMQAdminExt a = Harness.admin();
        a.createAndUpdateTopicConfig(Harness.brokerAddr, c);
        until(
                15000,
                "route of " + topic,
                () -> !a.examineTopicRouteInfo(topic).getQueueDatas().isEmpty());
    }

    DefaultMQProducer producer() throws Exception {
        DefaultMQProducer p = raw(new DefaultMQProducer(id("PID")));
        p.start();
        return p;
    }

    /** Prepares a producer that the scenario still sets up and starts itself. */
    <P extends DefaultMQProducer> P raw(P p) {
        p.setNamesrvAddr(Harness.NAMESRV);
        p.setInstanceName(Harness.uniq());
        p.setSendMsgTimeout(10000);
        later(p::shutdown);
        return p;
    }

    DefaultMQPushConsumer push(String group) {
        return push(new DefaultMQPushConsumer(group));
    }

    /** Prepares a push consumer that the scenario still subscribes and starts itself. */
    DefaultMQPushConsumer push(DefaultMQPushConsumer c) {
        c.setNamesrvAddr(Harness.NAMESRV);
        c.setInstanceName(Harness.uniq());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeThreadMin(2);
        c.setConsumeThreadMax(4);
        later(c::shutdown);
        return c;
    }

    /** A started consumer that keeps what it gets. */
    Received collect(String group, String topic, String expression) throws Exception {
        DefaultMQPushConsumer c = push(group);
        c.subscribe(topic, expression);
        Received r = new Received(c);
        c.start();
        return r;
    }

    /**
     * Sends count messages with the bodies and keys prefix0, prefix1 …; returns their unique ids.
     */
    List<String> send(DefaultMQProducer p, String topic, String tag, int count, String prefix)
            throws Exception {
        List<String> ids = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String text = prefix + i;
            var r = p.send(new Message(topic, tag, text, text.getBytes(StandardCharsets.UTF_8)));
            eq("SEND_OK", r.getSendStatus().name(), "status");
            ids.add(r.getMsgId());
        }
        return ids;
    }
}
