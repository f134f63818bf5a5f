package interop;

import static interop.Clients.BY_ARG;
import static interop.Clients.utf8;
import static interop.Harness.add;
import static interop.Harness.check;
import static interop.Harness.until;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Orderly consumers whose queues change hands while messages come in: how long a queue stands still,
 * and that it stays in order. A client renews its locks every 20 s, and a lock lives for 60 s.
 */
final class OrderScenarios {
    private static final int QUEUES = 4;

    /** What a hand-over may take; Java's broker needs up to 20 or 60 s. */
    private static final long LIMIT = 8000;

    private OrderScenarios() {}

    static void register() {
        add("order-hand-over-killed", 150, OrderScenarios::killed);
        add("order-hand-over-closed", 150, OrderScenarios::closed);
        add("order-hand-over-busy", 150, OrderScenarios::busy);
    }

    /** What one member has consumed of each queue: numbers without a gap. */
    private static final class Book implements OrderlyMember.Sink {
        final AtomicIntegerArray first = new AtomicIntegerArray(QUEUES);
        final AtomicIntegerArray last = new AtomicIntegerArray(QUEUES);
        final AtomicLongArray at = new AtomicLongArray(QUEUES);
        final AtomicReference<String> wrong = new AtomicReference<>();
        final String name;

        Book(String name) {
            this.name = name;
            for (int q = 0; q < QUEUES; q++) {
                first.set(q, -1);
                last.set(q, -1);
            }
        }

        @Override
        public void take(int queue, int number) throws InterruptedException {
            int was = last.getAndSet(queue, number);
            if (was < 0) first.set(queue, number);
            else if (number > was + 1)
                wrong.set(name + " skips from " + was + " to " + number + " in queue " + queue);
            at.set(queue, System.currentTimeMillis());
        }

        List<Integer> queues() {
            List<Integer> all = new ArrayList<>();
            for (int q = 0; q < QUEUES; q++) if (last.get(q) >= 0) all.add(q);
            return all;
        }

        /** The queues it has consumed within the last second. */
        long active() {
            long now = System.currentTimeMillis(), n = 0;
            for (int q = 0; q < QUEUES; q++) if (now - at.get(q) < 1000) n++;
            return n;
        }
    }

    /** Sends a number to each queue every 50 ms until the scenario ends. */
    private static void load(Scenario s, String topic) throws Exception {
        DefaultMQProducer p = s.producer();
        Thread t =
                new Thread(
                        () -> {
                            try {
                                for (int n = 0; !Thread.interrupted(); n++) {
                                    for (int q = 0; q < QUEUES; q++)
                                        p.send(new Message(topic, utf8(q + ":" + n)), BY_ARG, q);
                                    Thread.sleep(50);
                                }
                            } catch (Exception e) {
                                // the scenario is over
                            }
                        });
        t.setDaemon(true);
        t.start();
        s.later(t::interrupt);
    }

    private static DefaultMQPushConsumer member(
            Scenario s, String group, String topic, OrderlyMember.Sink sink) throws Exception {
        DefaultMQPushConsumer c = s.push(group);
        OrderlyMember.prepare(c, topic, sink).start();
        return c;
    }

    /** Starts a member in a process of its own and keeps its book. */
    private static Process process(Scenario s, String group, String topic, Book book)
            throws Exception {
        List<String> cmd = new ArrayList<>();
        cmd.add(System.getProperty("java.home") + File.separator + "bin" + File.separator + "java");
        cmd.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        cmd.addAll(List.of("-cp", System.getProperty("java.class.path")));
        cmd.addAll(List.of("interop.OrderlyMember", group, topic));
        Process p =
                new ProcessBuilder(cmd).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        s.later(p::destroyForcibly);
        Thread t =
                new Thread(
                        () -> {
                            try (var r =
                                    new BufferedReader(
                                            new InputStreamReader(p.getInputStream()))) {
                                for (String line; (line = r.readLine()) != null; ) {
                                    String[] b = line.split(" ");
                                    if (b.length == 2)
                                        book.take(Integer.parseInt(b[0]), Integer.parseInt(b[1]));
                                }
                            } catch (Exception e) {
                                // it was killed
                            }
                        });
        t.setDaemon(true);
        t.start();
        return p;
    }

    private static void both(Book a, Book b) throws Throwable {
        until(90000, "both consume 2 queues", () -> a.active() == 2 && b.active() == 2);
    }

    /** Waits until a member consumes all queues; checks that nothing was skipped. */
    private static String takesAll(Book left, Book taker, List<Integer> queues, long from)
            throws Throwable {
        long limit = from + LIMIT - System.currentTimeMillis();
        until(
                limit,
                "the queues " + queues + " are consumed by " + taker.name,
                () -> {
                    for (int q : queues) if (taker.at.get(q) <= from) return false;
                    return true;
                });
        long took = System.currentTimeMillis() - from;
        until(5000, "all are consumed", () -> taker.active() == QUEUES);
        for (Book x : List.of(left, taker)) check(x.wrong.get() == null, x.wrong.get());
        for (int q : queues)
            check(
                    taker.first.get(q) <= left.last.get(q) + 1,
                    "lost between " + left.last.get(q) + " and " + taker.first.get(q));
        return "queues " + queues + " after " + took + " ms";
    }

    /** A member dies without a word. */
    private static String killed(Scenario s) throws Throwable {
        String t = s.topic(QUEUES), g = s.group();
        load(s, t);
        Book stays = new Book("the one that stays"), dies = new Book("the one that dies");
        Process p = process(s, g, t, dies);
        until(60000, "it consumes", () -> dies.active() == QUEUES);
        member(s, g, t, stays);
        both(stays, dies);
        List<Integer> queues = dies.queues();
        for (int q : stays.queues()) queues.remove((Integer) q);
        p.destroyForcibly().waitFor();
        return takesAll(dies, stays, queues, System.currentTimeMillis());
    }

    /** A member leaves in good order. */
    private static String closed(Scenario s) throws Throwable {
        String t = s.topic(QUEUES), g = s.group();
        load(s, t);
        Book stays = new Book("the one that stays"), leaves = new Book("the one that leaves");
        DefaultMQPushConsumer c = member(s, g, t, leaves);
        until(60000, "it consumes", () -> leaves.active() == QUEUES);
        member(s, g, t, stays);
        both(stays, leaves);
        List<Integer> queues = leaves.queues();
        for (int q : stays.queues()) queues.remove((Integer) q);
        c.shutdown();
        return takesAll(leaves, stays, queues, System.currentTimeMillis());
    }

    /**
     * A member that takes 3 s for each message has to share. A 4.9 client that has messages in memory
     * keeps the lock for 20 s more by itself.
     */
    private static String busy(Scenario s) throws Throwable {
        String t = s.topic(QUEUES), g = s.group();
        load(s, t);
        Book slow = new Book("the slow one"), comes = new Book("the one that comes");
        member(
                s,
                g,
                t,
                (queue, number) -> {
                    slow.take(queue, number);
                    Thread.sleep(3000);
                });
        until(60000, "it consumes", () -> slow.queues().size() == 2 || slow.queues().size() == 4);
        long from = System.currentTimeMillis();
        member(s, g, t, comes);
        long limit = Harness.CLIENT.startsWith("java-4") ? 30000 : 15000;
        until(limit, "2 queues are handed over", () -> comes.queues().size() == 2);
        long took = System.currentTimeMillis() - from;
        for (Book x : List.of(slow, comes)) check(x.wrong.get() == null, x.wrong.get());
        for (int q : comes.queues())
            check(
                    comes.first.get(q) <= slow.last.get(q) + 1,
                    "lost between " + slow.last.get(q) + " and " + comes.first.get(q));
        return "2 queues after " + took + " ms";
    }
}
