package interop;

import static interop.Clients.str;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * An orderly consumer, as a process of its own that can be killed: arguments are group and topic, it
 * prints a line "queue number" for every message.
 */
final class OrderlyMember {
    /** What is done with a message "queue:number". */
    interface Sink {
        void take(int queue, int number) throws InterruptedException;
    }

    private OrderlyMember() {}

    /** Prepares a consumer of numbered messages, one at a time. */
    static DefaultMQPushConsumer prepare(DefaultMQPushConsumer c, String topic, Sink sink)
            throws Exception {
        c.subscribe(topic, "*");
        c.setConsumeMessageBatchMaxSize(1);
        c.registerMessageListener(
                (MessageListenerOrderly)
                        (msgs, ctx) -> {
                            for (MessageExt m : msgs) {
                                String[] b = str(m).split(":");
                                try {
                                    sink.take(Integer.parseInt(b[0]), Integer.parseInt(b[1]));
                                } catch (InterruptedException e) {
                                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                                }
                            }
                            return ConsumeOrderlyStatus.SUCCESS;
                        });
        return c;
    }

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(args[0]);
        c.setNamesrvAddr(Harness.NAMESRV);
        c.setInstanceName(Harness.uniq());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        Sink print =
                (queue, number) -> {
                    System.out.println(queue + " " + number);
                    System.out.flush();
                };
        prepare(c, args[1], print).start();
        Thread.currentThread().join();
    }
}
