package interop;

import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** Messages a push consumer received, with the time of each. */
final class Received {
    final DefaultMQPushConsumer c;
    final List<MessageExt> msgs = Collections.synchronizedList(new ArrayList<>());
    final List<Long> at = Collections.synchronizedList(new ArrayList<>());

    Received(DefaultMQPushConsumer c) {
        this.c = c;
        c.registerMessageListener(
                (MessageListenerConcurrently)
                        (list, context) -> {
                            take(list);
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
    }

    private void take(List<MessageExt> list) {
        long now = System.currentTimeMillis();
        synchronized (msgs) {
            for (MessageExt m : list) {
                msgs.add(m);
                at.add(now);
            }
        }
    }

    int size() {
        return msgs.size();
    }

    List<String> bodies() {
        List<String> all = new ArrayList<>();
        synchronized (msgs) {
            for (MessageExt m : msgs) all.add(Clients.str(m));
        }
        return all;
    }

    Set<String> set() {
        return new TreeSet<>(bodies());
    }

    void await(int n, long millis) throws Throwable {
        try {
            until(millis, n + " messages", () -> size() >= n);
        } catch (AssertionError e) {
            String what = size() < 12 ? " " + bodies() : "";
            throw new AssertionError(e.getMessage() + ", got " + size() + what);
        }
    }
}
