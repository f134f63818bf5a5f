package interop;

import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.regex.Pattern;

/**
 * POP as the proxy of Apache RocketMQ speaks it, through the Java client of its gRPC protocol. Topics and
 * groups are PREFIX_name and PREFIX_g_name, made before; PROXY is the proxy. Lines as Harness prints them.
 */
public final class GrpcMain {
    private interface Body {
        String run(Scenario s) throws Exception;
    }

    private interface Condition {
        boolean ok() throws Exception;
    }

    private record Entry(String name, int seconds, Body body) {}

    private static final ClientServiceProvider API = ClientServiceProvider.loadService();
    private static final String CLIENT = env("CLIENT", "java-grpc");
    private static final String PREFIX = env("PREFIX", "G");
    /** The shortest that the proxy takes. */
    private static final Duration SHORT = Duration.ofSeconds(10);

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final List<Entry> ENTRIES = new ArrayList<>();

    private GrpcMain() {}

    private static String env(String name, String otherwise) {
        String v = System.getenv(name);
        return v == null || v.isEmpty() ? otherwise : v;
    }

    private static void check(boolean ok, String what) {
        if (!ok) throw new AssertionError(what);
    }

    private static void until(int seconds, String what, Condition c) throws Exception {
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (!c.ok()) {
            check(System.currentTimeMillis() < end, "waited " + seconds + " s for " + what);
            Thread.sleep(20);
        }
    }

    private static String text(MessageView m) {
        return StandardCharsets.UTF_8.decode(m.getBody().duplicate()).toString();
    }

    /** A scenario's topic, with the clients that end with it. */
    private static final class Scenario {
        final String topic;
        final String group;
        final List<AutoCloseable> open = new ArrayList<>();

        Scenario(String name) {
            topic = PREFIX + "_" + name;
            group = PREFIX + "_g_" + name;
        }

        ClientConfiguration conf() {
            return ClientConfiguration.newBuilder()
                    .setEndpoints(env("PROXY", "127.0.0.1:8081"))
                    .setRequestTimeout(Duration.ofSeconds(10))
                    .build();
        }

        Producer producer() throws Exception {
            Producer p =
                    API.newProducerBuilder()
                            .setClientConfiguration(conf())
                            .setTopics(topic)
                            .setTransactionChecker(m -> TransactionResolution.COMMIT)
                            .build();
            open.add(p);
            return p;
        }

        SimpleConsumer simple(FilterExpression e) throws Exception {
            SimpleConsumer c =
                    API.newSimpleConsumerBuilder()
                            .setClientConfiguration(conf())
                            .setConsumerGroup(group)
                            .setAwaitDuration(Duration.ofSeconds(2))
                            .setSubscriptionExpressions(Map.of(topic, e))
                            .build();
            open.add(c);
            return c;
        }

        void push(Function<MessageView, ConsumeResult> f) throws Exception {
            open.add(
                    API.newPushConsumerBuilder()
                            .setClientConfiguration(conf())
                            .setConsumerGroup(group)
                            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                            .setMessageListener(f::apply)
                            .build());
        }

        MessageBuilder message(String body) {
            return API.newMessageBuilder()
                    .setTopic(topic)
                    .setBody(body.getBytes(StandardCharsets.UTF_8));
        }

        void close() {
            for (AutoCloseable c : open) {
                try {
                    c.close();
                } catch (Exception e) {
                    // the scenario is over
                }
            }
        }
    }

    private static MessageView one(SimpleConsumer c, Duration invisible) throws Exception {
        List<MessageView> got = new ArrayList<>();
        until(40, "a message", () -> got.addAll(c.receive(1, invisible)));
        return got.get(0);
    }

    private static void nothing(SimpleConsumer c, int seconds) throws Exception {
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (System.currentTimeMillis() < end)
            for (MessageView m : c.receive(16, LONG))
                throw new AssertionError(text(m) + " comes, attempt " + m.getDeliveryAttempt());
    }

    public static void main(String[] args) throws Exception {
        ENTRIES.add(new Entry("simple", 120, GrpcMain::simple));
        ENTRIES.add(new Entry("late", 120, GrpcMain::late));
        ENTRIES.add(new Entry("change", 120, GrpcMain::change));
        ENTRIES.add(new Entry("filter", 120, GrpcMain::filter));
        ENTRIES.add(new Entry("push", 120, GrpcMain::push));
        ENTRIES.add(new Entry("dead", 150, GrpcMain::dead));
        ENTRIES.add(new Entry("fifo", 120, GrpcMain::fifo));
        ENTRIES.add(new Entry("delay", 120, GrpcMain::delay));
        ENTRIES.add(new Entry("transaction", 120, GrpcMain::transaction));
        Pattern only = Pattern.compile(env("ONLY", ".*"));
        ENTRIES.removeIf(e -> !only.matcher(e.name).matches());
        for (Entry e : ENTRIES) System.out.println("PLAN " + CLIENT + " " + e.name);
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<?>> all = new ArrayList<>();
        ExecutorService lanes = Executors.newFixedThreadPool(Integer.parseInt(env("LANES", "5")));
        for (Entry e : ENTRIES) all.add(lanes.submit(() -> run(pool, e)));
        for (Future<?> f : all) f.get();
        Runtime.getRuntime().halt(0);
    }

    private static void run(ExecutorService pool, Entry e) {
        Scenario s = new Scenario(e.name);
        String status = "PASS", detail;
        try {
            detail = pool.submit(() -> e.body.run(s)).get(e.seconds, TimeUnit.SECONDS);
        } catch (Exception x) {
            status = "FAIL";
            detail = String.valueOf(x.getCause() == null ? x : x.getCause());
        }
        System.out.println(
                status + " " + CLIENT + " " + e.name + " " + detail.replaceAll("\\s+", " "));
        s.close();
    }

    /** Everything comes once and is acknowledged. */
    private static String simple(Scenario s) throws Exception {
        Producer p = s.producer();
        SimpleConsumer c = s.simple(FilterExpression.SUB_ALL);
        for (int i = 0; i < 40; i++) p.send(s.message("m" + i).build());
        List<String> got = new ArrayList<>();
        until(
                60,
                "40 messages",
                () -> {
                    for (MessageView m : c.receive(16, SHORT)) {
                        got.add(text(m));
                        c.ack(m);
                    }
                    return got.size() >= 40;
                });
        nothing(c, 16);
        check(new TreeSet<>(got).size() == 40, got.size() + " deliveries");
        return "40 once";
    }

    /** A receipt whose time is over is refused, that of the next delivery is good. */
    private static String late(Scenario s) throws Exception {
        s.producer().send(s.message("m").build());
        SimpleConsumer c = s.simple(FilterExpression.SUB_ALL);
        MessageView first = one(c, SHORT);
        check(first.getDeliveryAttempt() == 1, "attempt " + first.getDeliveryAttempt());
        MessageView second = one(c, SHORT);
        check(second.getDeliveryAttempt() == 2, "attempt " + second.getDeliveryAttempt());
        String refused = "nothing";
        try {
            c.ack(first);
        } catch (Exception e) {
            refused = e.getClass().getSimpleName();
        }
        c.ack(second);
        nothing(c, 16);
        return "late ack: " + refused;
    }

    /** The invisible time is changed twice, then the message is acknowledged; another comes earlier. */
    private static String change(Scenario s) throws Exception {
        Producer p = s.producer();
        SimpleConsumer c = s.simple(FilterExpression.SUB_ALL);
        p.send(s.message("kept").build());
        MessageView kept = one(c, SHORT);
        c.changeInvisibleDuration(kept, Duration.ofSeconds(20));
        c.changeInvisibleDuration(kept, Duration.ofSeconds(30));
        p.send(s.message("sooner").build());
        MessageView sooner = one(c, LONG);
        check(text(sooner).equals("sooner"), text(sooner) + " comes");
        c.changeInvisibleDuration(sooner, SHORT);
        MessageView again = one(c, LONG);
        check(text(again).equals("sooner"), text(again) + " comes");
        check(again.getDeliveryAttempt() == 2, "attempt " + again.getDeliveryAttempt());
        c.ack(again);
        c.ack(kept);
        nothing(c, 20);
        return "none comes again";
    }

    private static String filter(Scenario s) throws Exception {
        Producer p = s.producer();
        SimpleConsumer c =
                s.simple(new FilterExpression("a BETWEEN 3 AND 5", FilterExpressionType.SQL92));
        for (int i = 0; i < 10; i++) p.send(s.message("m" + i).addProperty("a", "" + i).build());
        TreeSet<String> got = new TreeSet<>();
        until(
                60,
                "3 messages, got " + got,
                () -> {
                    for (MessageView m : c.receive(16, SHORT)) {
                        got.add(text(m) + "/" + m.getDeliveryAttempt());
                        if (m.getDeliveryAttempt() == 2 || !text(m).equals("m4")) c.ack(m);
                    }
                    return got.size() >= 4;
                });
        check(got.toString().equals("[m3/1, m4/1, m4/2, m5/1]"), "" + got);
        return "" + got;
    }

    private static String push(Scenario s) throws Exception {
        Producer p = s.producer();
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        s.push(
                m -> {
                    got.add(text(m) + "/" + m.getDeliveryAttempt());
                    boolean fails = text(m).equals("m7") && m.getDeliveryAttempt() == 1;
                    return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                });
        for (int i = 0; i < 20; i++) p.send(s.message("m" + i).build());
        until(90, "21 deliveries", () -> got.size() >= 21);
        check(got.contains("m7/2"), "" + got);
        return "20, one of them twice";
    }

    /** The group gives a message up after one retry. */
    private static String dead(Scenario s) throws Exception {
        List<Integer> attempts = Collections.synchronizedList(new ArrayList<>());
        s.push(
                m -> {
                    attempts.add(m.getDeliveryAttempt());
                    return ConsumeResult.FAILURE;
                });
        s.producer().send(s.message("m").build());
        until(90, "a second attempt", () -> attempts.size() >= 2);
        Thread.sleep(15000);
        check(attempts.toString().equals("[1, 2]"), "attempts " + attempts);
        return "attempts " + attempts;
    }

    /** A message that fails holds up those behind it. */
    private static String fifo(Scenario s) throws Exception {
        Producer p = s.producer();
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        s.push(
                m -> {
                    got.add(text(m));
                    boolean fails = text(m).equals("2") && Collections.frequency(got, "2") == 1;
                    return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                });
        for (int i = 0; i < 6; i++) p.send(s.message("" + i).setMessageGroup("one").build());
        until(90, "6 messages", () -> got.contains("5"));
        check(String.join("", got).equals("0122345"), "" + got);
        return String.join("", got);
    }

    private static String delay(Scenario s) throws Exception {
        SimpleConsumer c = s.simple(FilterExpression.SUB_ALL);
        long due = System.currentTimeMillis() + 5000;
        s.producer().send(s.message("m").setDeliveryTimestamp(due).build());
        c.ack(one(c, SHORT));
        long late = System.currentTimeMillis() - due;
        check(late > -1100 && late < 8000, late + " ms late");
        return late + " ms late";
    }

    /** Committed, rolled back, and one that the check commits. */
    private static String transaction(Scenario s) throws Exception {
        Producer p = s.producer();
        SimpleConsumer c = s.simple(FilterExpression.SUB_ALL);
        for (String name : List.of("commit", "back", "open")) {
            Transaction t = p.beginTransaction();
            p.send(s.message(name).build(), t);
            if (name.equals("commit")) t.commit();
            if (name.equals("back")) t.rollback();
        }
        TreeSet<String> got = new TreeSet<>();
        until(
                100,
                "two messages",
                () -> {
                    for (MessageView m : c.receive(16, SHORT)) {
                        got.add(text(m));
                        c.ack(m);
                    }
                    return got.size() >= 2;
                });
        check(got.toString().equals("[commit, open]"), "" + got);
        nothing(c, 12);
        return "" + got;
    }
}
