package interop;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;

/** What differs between client versions: this is 5.x. */
final class Compat {
    static final int NO_ROUTE = 17;

    private Compat() {}

    static void attributes(TopicConfig c, Map<String, String> a) {
        a.forEach((k, v) -> c.getAttributes().put("+" + k, v));
    }

    static void broadcast(DefaultMQPushConsumer c) {
        c.setMessageModel(MessageModel.BROADCASTING);
    }

    static void group(String g, int retryMax) throws Exception {
        SubscriptionGroupConfig s = new SubscriptionGroupConfig();
        s.setGroupName(g);
        s.setRetryMaxTimes(retryMax);
        Harness.admin().createAndUpdateSubscriptionGroupConfig(Harness.brokerAddr, s);
    }

    static String fifo(String g) throws Exception {
        SubscriptionGroupConfig s = new SubscriptionGroupConfig();
        s.setGroupName(g);
        s.setConsumeMessageOrderly(true);
        Harness.admin().createAndUpdateSubscriptionGroupConfig(Harness.brokerAddr, s);
        return g;
    }

    static void deleteInNamesrv(String t) throws Exception {
        Harness.admin()
                .deleteTopicInNameServer(
                        new HashSet<>(Arrays.asList(Harness.NAMESRV.split(";"))), t);
    }

    static DefaultMQProducer traced(String group, String traceTopic) {
        return new DefaultMQProducer(group, null, true, traceTopic);
    }

    static DefaultMQPushConsumer tracedConsumer(Scenario s, String group, String traceTopic) {
        DefaultMQPushConsumer c = s.push(group);
        c.setEnableTrace(true);
        c.setTraceTopic(traceTopic);
        return c;
    }

    static DefaultMQProducer namespaced(Scenario s, String ns, String group) {
        return s.raw(new DefaultMQProducer(ns, group));
    }

    static DefaultMQPushConsumer namespacedConsumer(Scenario s, String ns, String group) {
        DefaultMQPushConsumer c = s.push(group);
        c.setNamespace(ns);
        return c;
    }
}
