import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Producers and a push consumer that tell on stdout what they were told, a line each:
 *
 * <pre>
 * S key startMillis endMillis status queueId queueOffset brokerIP:port
 * E key startMillis endMillis exception
 * C key queueId queueOffset
 * paused            no send is under way
 * </pre>
 *
 * stdin takes pause, resume and stop. Every message is sent until it is answered SEND_OK.
 *
 * Arguments: name server, topic, consumer group, threads, pause between messages in ms.
 */
public class Load {
    private static final int ROUTE_MILLIS = 1000;
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final ReentrantReadWriteLock GATE = new ReentrantReadWriteLock(true);

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P-java");
        producer.setNamesrvAddr(args[0]);
        producer.setPollNameServerInterval(ROUTE_MILLIS);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(ROUTE_MILLIS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (list, context) -> {
            for (MessageExt m : list) {
                String body = new String(m.getBody(), StandardCharsets.UTF_8);
                OUT.println("C " + body.split(" ", 2)[0] + " " + m.getQueueId() + " " + m.getQueueOffset());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            int lane = i;
            Thread t = new Thread(() -> produce(producer, args[1], lane, Long.parseLong(args[4])));
            t.setDaemon(true);
            t.start();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("stop"); line = in.readLine()) {
            if (line.equals("pause")) {
                GATE.writeLock().lock();
                OUT.println("paused");
            } else {
                GATE.writeLock().unlock();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void produce(DefaultMQProducer producer, String topic, int lane, long pause) {
        String padding = "y".repeat(400);
        for (long seq = 0; ; seq++) {
            sleep(pause);
            String key = "java-" + lane + "-" + seq;
            GATE.readLock().lock();
            while (!send(producer, topic, key, (key + " " + padding).getBytes(StandardCharsets.UTF_8))) {
                sleep(20);
            }
            GATE.readLock().unlock();
        }
    }

    private static boolean send(DefaultMQProducer producer, String topic, String key, byte[] body) {
        long start = System.currentTimeMillis();
        try {
            SendResult r = producer.send(new Message(topic, "", key, body));
            OUT.println("S " + key + " " + start + " " + System.currentTimeMillis() + " " + r.getSendStatus() + " "
                + r.getMessageQueue().getQueueId() + " " + r.getQueueOffset() + " " + address(r.getOffsetMsgId()));
            return r.getSendStatus() == SendStatus.SEND_OK;
        } catch (Exception e) {
            OUT.println("E " + key + " " + start + " " + System.currentTimeMillis() + " " + e.getClass().getSimpleName());
            return false;
        }
    }

    /** The broker that stored a message is the first half of its id. */
    private static String address(String offsetMsgId) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < 8; i += 2) {
            b.append(i == 0 ? "" : ".").append(Integer.parseInt(offsetMsgId.substring(i, i + 2), 16));
        }
        return b + ":" + Long.parseLong(offsetMsgId.substring(8, 16), 16);
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
