package interop;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;

/** What differs between client versions: this is 4.9. */
final class Compat {
    static final int NO_ROUTE = 17;

    private Compat() {}

    static void attributes(TopicConfig c, Map<String, String> a) {}

    static void broadcast(DefaultMQPushConsumer c) {
        c.setMessageModel(MessageModel.BROADCASTING);
    }

    static void group(String g, int retryMax) throws Exception {
        SubscriptionGroupConfig s = new SubscriptionGroupConfig();
        s.setGroupName(g);
        s.setRetryMaxTimes(retryMax);
        Harness.admin().createAndUpdateSubscriptionGroupConfig(Harness.brokerAddr, s);
    }

    static void deleteInNamesrv(String t) throws Exception {
        Harness.admin()
                .deleteTopicInNameServer(
                        new HashSet<>(Arrays.asList(Harness.NAMESRV.split(";"))),
                        t,
                        Harness.cluster);
    }

    static DefaultMQProducer traced(String group, String traceTopic) {
        return new DefaultMQProducer(group, null, true, traceTopic);
    }

    static DefaultMQPushConsumer tracedConsumer(Scenario s, String group, String traceTopic) {
        return s.push(
                new DefaultMQPushConsumer(
                        group, null, new AllocateMessageQueueAveragely(), true, traceTopic));
    }

    static DefaultMQProducer namespaced(Scenario s, String ns, String group) {
        return s.raw(new DefaultMQProducer(ns, group));
    }

    static DefaultMQPushConsumer namespacedConsumer(Scenario s, String ns, String group) {
        return s.push(new DefaultMQPushConsumer(ns, group));
    }
}
