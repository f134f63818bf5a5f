package example;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

import java.nio.charset.StandardCharsets;

/** Sends 1,000 messages to the topic "example". */
public final class Producer {
    private static final int COUNT = 1000;

    private Producer() {}

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("example-producer");
        producer.setNamesrvAddr(System.getProperty("namesrv", "127.0.0.1:9876"));
        producer.start();
        try {
            SendResult last = null;
            for (int i = 0; i < COUNT; i++) {
                byte[] body = ("message " + i).getBytes(StandardCharsets.UTF_8);
                last = producer.send(new Message("example", "TagA", "key-" + i, body));
            }
            System.out.println("sent " + COUNT + " messages, the last: " + last);
        } finally {
            producer.shutdown(); // its threads would keep the process alive after an exception
        }
    }
}
