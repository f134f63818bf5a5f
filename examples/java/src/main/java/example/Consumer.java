package example;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Receives messages of the topic "example" until there were 1,000 different ones. */
public final class Consumer {
    private static final int COUNT = 1000;

    private Consumer() {}

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("example-consumer");
        consumer.setNamesrvAddr(System.getProperty("namesrv", "127.0.0.1:9876"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("example", "TagA");
        Set<String> ids = ConcurrentHashMap.newKeySet();
        CountDownLatch missing = new CountDownLatch(COUNT);
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            for (MessageExt m : messages) {
                                if (ids.add(m.getMsgId())) missing.countDown();
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        boolean all = missing.await(2, TimeUnit.MINUTES);
        consumer.shutdown();
        System.out.println("received " + ids.size() + " messages");
        System.exit(all ? 0 : 1);
    }
}
