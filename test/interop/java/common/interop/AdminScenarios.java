package interop;

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
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

import java.util.Arrays;
import java.util.Set;

/** Queries and administration. They compile against the 4.9 and the 5.x client alike. */
final class AdminScenarios {
    private AdminScenarios() {}

    static void register() {
        add("query-key", 120, AdminScenarios::queryKey);
        add("query-uniqid", 120, AdminScenarios::queryUniqid);
        add("view-offset-id", 120, AdminScenarios::viewOffsetId);
        add("running-info", 120, AdminScenarios::runningInfo);
        add("consume-directly", 120, AdminScenarios::consumeDirectly);
        add("consume-stats", 120, AdminScenarios::consumeStats);
        add("admin-topic", 120, AdminScenarios::adminTopic);
        add("admin-group", 120, AdminScenarios::adminGroup);
        add("admin-broker", 120, AdminScenarios::adminBroker);
        add("order-conf", 120, AdminScenarios::orderConf);
    }

    private static String queryKey(Scenario s) throws Throwable {
        String t = s.topic(2);
        DefaultMQProducer p = s.producer();
        long t0 = System.currentTimeMillis() - 5000;
        String key = "order-" + Harness.RUN_ID;
        for (int i = 0; i < 3; i++) {
            Message m = new Message(t, utf8("b" + i));
            m.setKeys(Arrays.asList(key, "x" + i));
            p.send(m);
        }
        until(
                20000,
                "3 by the common key",
                () ->
                        p.queryMessage(t, key, 32, t0, System.currentTimeMillis() + 5000)
                                        .getMessageList()
                                        .size()
                                == 3);
        eq(
                "b1",
                str(
                        p.queryMessage(t, "x1", 32, t0, System.currentTimeMillis() + 5000)
                                .getMessageList()
                                .get(0)),
                "by its second key");
        Exception e =
                fails(
                        "unknown key",
                        () ->
                                p.queryMessage(
                                                t,
                                                "nokey" + Harness.RUN_ID,
                                                32,
                                                t0,
                                                System.currentTimeMillis())
                                        != null);
        check(e instanceof MQClientException, "unknown key: " + e);
        return "several keys for each message";
    }

    private static String queryUniqid(Scenario s) throws Throwable {
        String t = s.topic(2);
        DefaultMQProducer p = s.producer();
        SendResult r = p.send(new Message(t, "A", "kk", utf8("body")));
        until(20000, "by unique id", () -> "body".equals(str(p.viewMessage(t, r.getMsgId()))));
        MessageExt m = p.viewMessage(t, r.getMsgId());
        eq(r.getMsgId(), m.getMsgId(), "id");
        eq(r.getQueueOffset(), m.getQueueOffset(), "queue offset");
        return "viewMessage(topic, " + r.getMsgId() + ")";
    }

    private static String viewOffsetId(Scenario s) throws Throwable {
        String t = s.topic(2);
        DefaultMQProducer p = s.producer();
        Message o = new Message(t, "A", "kk", 7, utf8("body"), true);
        SendResult r = p.send(o);
        MessageExt m = p.viewMessage(t, r.getOffsetMsgId());
        eq("body", str(m), "body");
        eq(7, m.getFlag(), "flag");
        eq(r.getMessageQueue().getQueueId(), m.getQueueId(), "queue");
        check(m.getBodyCRC() != 0, "crc");
        check(m.getStoreSize() > 91, "store size " + m.getStoreSize());
        check(m.getStoreTimestamp() >= m.getBornTimestamp() - 50, "times");
        check(m.getBornHostString() != null && m.getStoreHost() != null, "hosts");
        Exception e =
                fails(
                        "view of a wrong offset",
                        () -> {
                            String id = r.getOffsetMsgId();
                            return admin().viewMessage(t, id.substring(0, 16) + "00000000000F0003")
                                    != null;
                        });
        return "flag, crc, size "
                + m.getStoreSize()
                + ", hosts; wrong offset: "
                + e.getClass().getSimpleName();
    }

    private static String runningInfo(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "TagX");
        s.send(p, t, "TagX", 3, "m");
        c.await(3, 60000);
        var cc = admin().examineConsumerConnectionInfo(g);
        eq(1, cc.getConnectionSet().size(), "connections");
        String id = cc.getConnectionSet().iterator().next().getClientId();
        eq(c.c.buildMQClientId(), id, "client id");
        check(cc.getSubscriptionTable().containsKey(t), "subscription table");
        var ri = admin().getConsumerRunningInfo(g, id, true);
        check(ri.getJstack() != null && ri.getJstack().length() > 100, "jstack through the broker");
        check(ri.getSubscriptionSet().size() >= 1, "subscriptions");
        // A producer that found no broker at its start is announced by a heartbeat 30 s later; not to
        // wait for that one, nor for the next if it is lost, heartbeats are sent by hand.
        String pg = p.getProducerGroup();
        var client = p.getDefaultMQProducerImpl().getMqClientFactory();
        until(
                60000,
                "producer connection",
                () -> {
                    client.sendHeartbeatToAllBrokerWithLock();
                    return admin().examineProducerConnectionInfo(pg, t).getConnectionSet().size() == 1;
                });
        until(
                10000,
                "topic's groups",
                () -> admin().queryTopicConsumeByWho(t).getGroupList().contains(g));
        return "consumer and producer connection, running info with jstack";
    }

    private static String consumeDirectly(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        String id = s.send(p, t, "A", 1, "m").get(0);
        c.await(1, 60000);
        MessageExt m = c.msgs.get(0);
        until(
                20000,
                "consumed again at the admin's word",
                () ->
                        "CR_SUCCESS"
                                .equals(
                                        admin().consumeMessageDirectly(
                                                        g, c.c.buildMQClientId(), t, id)
                                                .getConsumeResult()
                                                .name()));
        check(c.size() >= 2, "listener called again");
        return "CR_SUCCESS " + m.getMsgId();
    }

    private static String consumeStats(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        Received c = s.collect(g, t, "*");
        s.send(p, t, "A", 10, "m");
        c.await(10, 60000);
        c.c.shutdown();
        s.send(p, t, "A", 6, "n");
        until(20000, "lag 6", () -> admin().examineConsumeStats(g, t).computeTotalDiff() == 6);
        var one = admin().examineConsumeStats(g);
        check(one.getOffsetTable().size() >= 2, "queues " + one.getOffsetTable().size());
        return "lag 6 after the consumer left";
    }

    private static String adminTopic(Scenario s) throws Throwable {
        String t = s.topic(3);
        var tc = admin().examineTopicConfig(Harness.brokerAddr, t);
        eq(3, tc.getReadQueueNums(), "read queues");
        tc.setReadQueueNums(5);
        tc.setWriteQueueNums(5);
        admin().createAndUpdateTopicConfig(Harness.brokerAddr, tc);
        until(
                10000,
                "5 queues in the route",
                () ->
                        admin().examineTopicRouteInfo(t).getQueueDatas().get(0).getReadQueueNums()
                                == 5);
        check(admin().fetchAllTopicList().getTopicList().contains(t), "in the topic list");
        tc.setPerm(4);
        admin().createAndUpdateTopicConfig(Harness.brokerAddr, tc);
        until(
                10000,
                "perm 4 in the route",
                () -> admin().examineTopicRouteInfo(t).getQueueDatas().get(0).getPerm() == 4);
        DefaultMQProducer p = s.producer();
        Exception e =
                fails(
                        "send to a topic that is read only",
                        () -> p.send(new Message(t, utf8("x"))) != null);
        admin().deleteTopicInBroker(Set.of(Harness.brokerAddr), t);
        Compat.deleteInNamesrv(t);
        until(
                20000,
                "route gone",
                () -> {
                    try {
                        admin().examineTopicRouteInfo(t);
                        return false;
                    } catch (MQClientException x) {
                        return x.getResponseCode() == 17;
                    }
                });
        return "create, alter, perm, delete; read only: " + e.getClass().getSimpleName();
    }

    private static String adminGroup(Scenario s) throws Throwable {
        String g = s.group();
        Compat.group(g, 5);
        var c = admin().examineSubscriptionGroupConfig(Harness.brokerAddr, g);
        eq(5, c.getRetryMaxTimes(), "retryMaxTimes");
        c.setConsumeEnable(false);
        admin().createAndUpdateSubscriptionGroupConfig(Harness.brokerAddr, c);
        eq(
                false,
                admin().examineSubscriptionGroupConfig(Harness.brokerAddr, g).isConsumeEnable(),
                "consumeEnable");
        String t = s.topic(1);
        DefaultMQPullConsumer x = pull(s, g);
        MessageQueue q = x.fetchSubscribeMessageQueues(t).iterator().next();
        Exception e = fails("pull with a group that may not", () -> x.pull(q, "*", 0, 1) != null);
        check(
                e instanceof MQBrokerException && ((MQBrokerException) e).getResponseCode() == 16,
                "" + e);
        admin().deleteSubscriptionGroup(Harness.brokerAddr, g, true);
        return "create, alter, delete; consumeEnable=false: code 16";
    }

    private static String adminBroker(Scenario s) throws Throwable {
        var kv = admin().fetchBrokerRuntimeStats(Harness.brokerAddr).getTable();
        for (String k :
                new String[] {
                    "brokerVersionDesc",
                    "bootTimestamp",
                    "putTps",
                    "getTransferredTps",
                    "commitLogMaxOffset",
                    "commitLogMinOffset",
                    "msgPutTotalTodayNow",
                    "runtime",
                    "pageCacheLockTimeMills",
                    "commitLogDirCapacity",
                    "consumeQueueDiskRatio",
                    "sendThreadPoolQueueSize",
                    "putMessageDistributeTime"
                }) check(kv.containsKey(k), "no " + k + " in the runtime stats");
        var conf = admin().getBrokerConfig(Harness.brokerAddr);
        for (String k :
                new String[] {
                    "brokerName",
                    "brokerClusterName",
                    "listenPort",
                    "flushDiskType",
                    "brokerRole",
                    "namesrvAddr"
                }) check(conf.containsKey(k), "no " + k + " in the config");
        var info = admin().examineBrokerClusterInfo();
        check(
                info.getBrokerAddrTable().containsKey(Harness.brokerName),
                "broker in the cluster info");
        admin().createAndUpdateKvConfig("MATRIX", "k" + Harness.RUN_ID, "v1");
        eq("v1", admin().getKVConfig("MATRIX", "k" + Harness.RUN_ID), "kv config");
        admin().deleteKvConfig("MATRIX", "k" + Harness.RUN_ID);
        return kv.get("brokerVersionDesc")
                + ", "
                + kv.size()
                + " stats, "
                + conf.size()
                + " config keys";
    }

    private static String orderConf(Scenario s) throws Throwable {
        String t = s.topic(4);
        admin().createOrUpdateOrderConf(t, Harness.brokerName + ":4", false);
        until(
                10000,
                "order conf in the route",
                () ->
                        (Harness.brokerName + ":4")
                                .equals(admin().examineTopicRouteInfo(t).getOrderTopicConf()));
        DefaultMQProducer p = s.producer();
        eq(4, p.fetchPublishMessageQueues(t).size(), "queues");
        admin().deleteKvConfig("ORDER_TOPIC_CONFIG", t);
        return "ORDER_TOPIC_CONFIG reaches the route";
    }
}
