package interop;

import static interop.Harness.add;
import static interop.Harness.admin;
import static interop.Harness.check;
import static interop.Harness.eq;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

import java.util.List;

/** What tools ask about consumer groups, through the admin API of both versions. */
final class GroupScenarios {
    private GroupScenarios() {}

    static void register() {
        add("group-questions", 120, GroupScenarios::questions);
        add("group-clone-offset", 120, GroupScenarios::cloneOffset);
        add("group-unequal", 120, GroupScenarios::unequal);
    }

    /** Who consumes where, how far all groups are, how old what waits is, what stands in a queue. */
    private static String questions(Scenario s) throws Throwable {
        String t = s.topic(2), g = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 10, "m");
        Received got = s.collect(g, t, "*");
        got.await(10, 60000);
        String id = got.c.buildMQClientId();
        until(
                30000,
                "the client tells its offsets",
                () -> {
                    var of = admin().getConsumeStatus(t, g, "").get(id);
                    long n = 0;
                    if (of != null) for (long at : of.values()) n += at;
                    return n == 10;
                });
        eq(1, admin().getConsumeStatus(t, g, id).size(), "members asked by name");
        until(
                30000,
                "nothing waits",
                () -> {
                    var spans = admin().queryConsumeTimeSpan(t, g);
                    if (spans.size() != 2) return false;
                    for (var x : spans)
                        if (x.getDelayTime() != 0
                                || x.getConsumeTimeStamp() != x.getMaxTimeStamp()
                                || x.getMinTimeStamp() <= 0) return false;
                    return true;
                });
        boolean found = false;
        var all = admin().fetchConsumeStatsInBroker(Harness.brokerAddr, false, 10000);
        for (var groups : all.getConsumeStatsList())
            for (var stats : groups.getOrDefault(g, List.of()))
                for (var e : stats.getOffsetTable().entrySet())
                    if (e.getKey().getTopic().equals(t)) {
                        eq(5L, e.getValue().getBrokerOffset(), "end of " + e.getKey());
                        found = true;
                    }
        check(found, "the broker's consume stats do not have the group");
        var cq = admin().queryConsumeQueue(Harness.brokerAddr, t, 0, 1, 10, g);
        eq(4, cq.getQueueData().size(), "entries from 1 on");
        eq("*", cq.getSubscriptionData().getSubString(), "subscription");
        eq(5L, cq.getMaxQueueIndex(), "end");
        check(cq.getQueueData().get(0).getPhysicSize() > 0, "size of an entry");
        return "status, time span, broker stats, queue entries";
    }

    /** A group begins where another one is. */
    private static String cloneOffset(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group(), g2 = s.group();
        DefaultMQProducer p = s.producer();
        s.send(p, t, "A", 10, "old");
        Received first = s.collect(g, t, "*");
        first.await(10, 60000);
        first.c.shutdown();
        admin().cloneGroupOffset(g, g2, t, true);
        s.send(p, t, "A", 5, "new");
        Received second = s.collect(g2, t, "*");
        second.await(5, 60000);
        Thread.sleep(1000);
        for (String b : second.bodies()) check(b.startsWith("new"), "consumed again: " + b);
        return "10 old ones not consumed again";
    }

    /** Members that subscribe differently are named where operators look. */
    private static String unequal(Scenario s) throws Throwable {
        String t = s.topic(1), g = s.group();
        s.collect(g, t, "A");
        DefaultMQPushConsumer b = s.collect(g, t, "B").c;
        until(
                40000,
                "the conflict is named",
                () -> {
                    var sub = admin().examineConsumerConnectionInfo(g).getSubscriptionTable().get(t);
                    return sub.getSubString().contains("DIFFERENTLY")
                            && sub.getSubString().contains(b.buildMQClientId());
                });
        var info = admin().fetchBrokerRuntimeStats(Harness.brokerAddr).getTable();
        check(info.containsKey("subscriptionConflict_" + g), "not in the runtime info");
        b.shutdown();
        until(
                40000,
                "its end",
                () ->
                        !admin().examineConsumerConnectionInfo(g)
                                .getSubscriptionTable()
                                .get(t)
                                .getSubString()
                                .contains("DIFFERENTLY"));
        return "named, and over";
    }
}
