import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Makes a real client say what the interop scenarios and mqadmin do not say. Compiles against 4.9
 * and 5.x. Environment: NAMESRV, BROKER (address), CLUSTER, BROKER_NAME, RUN_ID; argument: the part
 * to run.
 */
public final class Extra {
    private static final String NS = System.getenv("NAMESRV");
    private static final String BROKER = System.getenv("BROKER");
    private static final String CLUSTER = System.getenv("CLUSTER");
    private static final String BROKER_NAME = System.getenv("BROKER_NAME");
    private static final String RUN = System.getenv("RUN_ID");

    private Extra() {}

    interface Call {
        void run() throws Exception;
    }

    static void tryIt(String what, Call c) {
        try {
            c.run();
            System.out.println("ok " + what);
        } catch (Exception e) {
            System.out.println("error " + what + ": " + e);
        }
    }

    static byte[] utf8(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "admin":
                admin();
                break;
            case "send":
                send("T_x_send-plain_" + RUN);
                break;
            case "ipv6":
                send("T_x_ipv6_" + RUN);
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static DefaultMQAdminExt newAdmin() throws Exception {
        DefaultMQAdminExt a = new DefaultMQAdminExt();
        a.setNamesrvAddr(NS);
        a.setInstanceName("extra" + RUN);
        a.start();
        return a;
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

    /**
     * Sends one message of each kind and pulls them all; with sendSmartMsg=false the client uses
     * the long names.
     */
    static void send(String t) throws Exception {
        DefaultMQAdminExt a = newAdmin();
        topic(a, t, 1);
        DefaultMQProducer p = new DefaultMQProducer("PID_extra");
        p.setNamesrvAddr(NS);
        p.start();
        Message m = new Message(t, "TagA", "key1 key2", 7, utf8("plain body"), true);
        m.putUserProperty("user", "value");
        p.send(m);
        p.sendOneway(new Message(t, utf8("oneway")));
        Message d = new Message(t, utf8("later"));
        d.setDelayTimeLevel(1);
        p.send(d);
        p.send(
                List.of(
                        new Message(t, "A", "b1", utf8("one")),
                        new Message(t, "B", "b2", utf8("two"))));
        p.send(new Message(t, utf8("compress me ".repeat(600))));
        DefaultMQPullConsumer c = new DefaultMQPullConsumer("GID_extra_pull");
        c.setNamesrvAddr(NS);
        c.start();
        MessageQueue q = c.fetchSubscribeMessageQueues(t).iterator().next();
        Thread.sleep(2500);
        for (int i = 0; i < 6; i++) c.pull(q, "*", i, 1);
        c.pull(q, "*", 0, 32);
        tryIt("no new message", () -> c.pull(q, "*", c.maxOffset(q), 32));
    }

    /**
     * Calls the admin requests that no mqadmin command sends, with a consumer and a producer
     * online.
     */
    static void admin() throws Exception {
        String t = "T_x_extra_" + RUN, g = "GID_extra_" + RUN;
        DefaultMQAdminExt a = newAdmin();
        topic(a, t, 2);
        DefaultMQProducer p = new DefaultMQProducer("PID_extra");
        p.setNamesrvAddr(NS);
        p.start();
        CountDownLatch got = new CountDownLatch(4);
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(g);
        c.setNamesrvAddr(NS);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(t, "TagA || TagB");
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (msgs, ctx) -> {
                            for (MessageExt x : msgs) got.countDown();
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        c.start();
        for (int i = 0; i < 4; i++) p.send(new Message(t, "TagA", "k" + i, utf8("body" + i)));
        got.await(60, TimeUnit.SECONDS);
        Thread.sleep(6000); // the offsets are committed by then
        MQClientAPIImpl api =
                c.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl();
        String id = c.buildMQClientId();
        a.createAndUpdateKvConfig("EXTRA", "k", "v");
        tryIt("219", () -> a.getKVListByNamespace("EXTRA"));
        tryIt("219 none", () -> a.getKVListByNamespace("EXTRA_NONE"));
        tryIt("224", () -> a.fetchTopicsByCLuster(CLUSTER));
        tryIt("304", () -> api.getSystemTopicList(5000));
        tryIt("305", () -> api.getSystemTopicListFromBroker(BROKER, 5000));
        tryIt("311", () -> api.getUnitTopicList(true, 5000));
        tryIt("312", () -> api.getHasUnitSubTopicList(true, 5000));
        tryIt("313", () -> api.getHasUnitSubUnUnitTopicList(true, 5000));
        tryIt("307", () -> a.getConsumerRunningInfo(g, id, false));
        tryIt("307 offline", () -> a.getConsumerRunningInfo(g, "nobody", false));
        tryIt("303", () -> a.queryConsumeTimeSpan(t, g));
        tryIt("314", () -> a.cloneGroupOffset(g, "GID_extra_clone", t, true));
        tryIt("15", () -> a.updateConsumeOffset(BROKER, g, new MessageQueue(t, BROKER_NAME, 0), 0));
        tryIt("201", () -> a.getAllSubscriptionGroup(BROKER, 5000));
        tryIt("21", () -> a.getAllTopicConfig(BROKER, 5000));
        tryIt("223", () -> a.getConsumeStatus(t, g, id));
        Properties off = new Properties();
        off.setProperty("useServerSideResetOffset", "false");
        tryIt("25", () -> a.updateBrokerConfig(BROKER, off));
        tryIt("222 by the client", () -> a.resetOffsetByTimestamp(t, g, 0, true));
        tryIt("222 offline", () -> a.resetOffsetByTimestamp(t, "GID_extra_clone", 0, true));
        Properties on = new Properties();
        on.setProperty("useServerSideResetOffset", "true");
        tryIt("25", () -> a.updateBrokerConfig(BROKER, on));
        tryIt("205", () -> a.wipeWritePermOfBroker(NS, BROKER_NAME));
        tryIt("327", () -> a.addWritePermOfBroker(NS, BROKER_NAME));
        tryIt("203 none", () -> a.examineConsumerConnectionInfo("GID_extra_none"));
        tryIt("204 none", () -> a.examineProducerConnectionInfo("PID_extra_none", t));
        tryIt("38 none", () -> api.getConsumerIdListByGroup(BROKER, "GID_extra_none", 5000));
        tryIt("207", () -> a.deleteSubscriptionGroup(BROKER, "GID_extra_clone", true));
        tryIt("352", () -> subscriptionGroup(api, g));
        tryIt("215", () -> a.deleteTopicInBroker(Set.of(BROKER), t));
        Thread.sleep(2000);
        c.shutdown();
        p.shutdown();
    }

    /** GET_SUBSCRIPTIONGROUP_CONFIG, which only the 5.x client has a method for. */
    static void subscriptionGroup(MQClientAPIImpl api, String g) throws Exception {
        for (var m : MQClientAPIImpl.class.getMethods()) {
            if (m.getName().equals("getSubscriptionGroupConfig")) m.invoke(api, BROKER, g, 5000L);
        }
    }
}
