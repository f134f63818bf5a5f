package interop;

import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;

/**
 * Registers scenarios and runs a few at a time. It first prints {@code PLAN client scenario} for
 * each that will run, then one line {@code PASS|FAIL client scenario detail} as each ends.
 * Environment: CLIENT, NAMESRV, ONLY (regular expression of whole names), LANES, RUN_ID, STACK (any
 * value: stack traces on stderr).
 */
final class Harness {
    /** A scenario: throws when something is not as it has to be, returns a word on what it saw. */
    interface Body {
        String run(Scenario s) throws Throwable;
    }

    interface Condition {
        boolean ok() throws Throwable;
    }

    private record Entry(String name, int seconds, Body body) {}

    /** What a client that does not shut down may take before it is left behind. */
    private static final int CLOSE_SECONDS = 15;

    static final String CLIENT = env("CLIENT", "java");
    static final String NAMESRV = env("NAMESRV", "127.0.0.1:9876");
    static final String RUN_ID =
            env("RUN_ID", Long.toString(System.currentTimeMillis() / 1000, 36));

    static String cluster;
    static String brokerName;
    static String brokerAddr;

    private static final List<Entry> ENTRIES = new ArrayList<>();
    private static final AtomicInteger SEQ = new AtomicInteger();
    private static DefaultMQAdminExt admin;

    private Harness() {}

    static String env(String name, String otherwise) {
        String v = System.getenv(name);
        return v == null || v.isEmpty() ? otherwise : v;
    }

    static void add(String name, int seconds, Body body) {
        ENTRIES.add(new Entry(name, seconds, body));
    }

    /** An instance name: clients with one of their own do not share connections. */
    static String uniq() {
        return "i" + RUN_ID + "x" + SEQ.incrementAndGet() + "x" + ProcessHandle.current().pid();
    }

    static synchronized DefaultMQAdminExt admin() throws Exception {
        if (admin == null) {
            DefaultMQAdminExt a = new DefaultMQAdminExt();
            a.setNamesrvAddr(NAMESRV);
            a.setInstanceName(uniq());
            a.setVipChannelEnabled(false);
            a.start();
            admin = a;
        }
        return admin;
    }

    /** Finds the cluster, a broker of it and the broker's address. */
    static void discover() {
        try {
            until(20000, "a cluster from the name server " + NAMESRV, Harness::findBroker);
        } catch (Throwable e) {
            print("FAIL", "start", brief(e));
            Runtime.getRuntime().halt(1);
        }
    }

    private static boolean findBroker() throws Exception {
        var info = admin().examineBrokerClusterInfo();
        cluster = info.getClusterAddrTable().keySet().iterator().next();
        brokerName = info.getClusterAddrTable().get(cluster).iterator().next();
        brokerAddr = info.getBrokerAddrTable().get(brokerName).getBrokerAddrs().get(0L);
        return brokerAddr != null;
    }

    static void until(long millis, String what, Condition c) throws Throwable {
        long end = System.currentTimeMillis() + millis;
        Throwable last;
        do {
            last = null;
            try {
                if (c.ok()) return;
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(40);
        } while (System.currentTimeMillis() < end);
        String why = last == null ? "" : " (" + last + ")";
        throw new AssertionError("waited " + millis + " ms for: " + what + why);
    }

    static void check(boolean ok, String what) {
        if (!ok) throw new AssertionError(what);
    }

    static <T> void eq(T want, T got, String what) {
        if (want == null ? got != null : !want.equals(got))
            throw new AssertionError(what + ": want " + want + " got " + got);
    }

    /** Runs an action that has to fail and returns its exception. */
    static Exception fails(String what, Condition c) throws Throwable {
        boolean r;
        try {
            r = c.ok();
        } catch (Exception e) {
            return e;
        }
        throw new AssertionError(what + " did not fail (" + r + ")");
    }

    /** The messages of an exception and its causes, with the line of the scenario that saw it. */
    static String brief(Throwable t) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; t != null && i < 3; i++, t = t.getCause()) {
            if (b.length() > 0) b.append(" <- ");
            boolean ours = t instanceof AssertionError;
            b.append(ours ? "" : t.getClass().getSimpleName() + ": ").append(t.getMessage());
            if (i == 0) b.append(where(t));
        }
        return b.toString();
    }

    private static String where(Throwable t) {
        for (StackTraceElement e : t.getStackTrace()) {
            if (e.getClassName().startsWith("interop.")
                    && !e.getClassName().equals("interop.Harness"))
                return " at " + e.getFileName() + ":" + e.getLineNumber();
        }
        return "";
    }

    static synchronized void print(String status, String name, String detail) {
        String d = detail == null ? "" : detail;
        d = d.replaceAll("\\s+", " ");
        d = d.replaceAll("For more information, please visit the url, \\S+", "").trim();
        if (d.length() > 300) d = d.substring(0, 300);
        System.out.println((status + " " + CLIENT + " " + name + " " + d).trim());
        System.out.flush();
    }

    /**
     * Runs what ONLY leaves of the scenarios and ends the process: clients leave threads behind.
     */
    static void main() throws InterruptedException {
        Pattern only = Pattern.compile(env("ONLY", ".*"));
        ENTRIES.removeIf(e -> !only.matcher(e.name).matches());
        for (Entry e : ENTRIES) print("PLAN", e.name, "");
        ExecutorService lanes = Executors.newFixedThreadPool(Integer.parseInt(env("LANES", "5")));
        for (Entry e : ENTRIES) lanes.submit(() -> run(e));
        lanes.shutdown();
        lanes.awaitTermination(1, TimeUnit.HOURS);
        Runtime.getRuntime().halt(0);
    }

    private static void run(Entry e) {
        ExecutorService own =
                Executors.newCachedThreadPool(
                        r -> {
                            Thread t = new Thread(r, "scenario-" + e.name);
                            t.setDaemon(true);
                            return t;
                        });
        Scenario s = new Scenario(e.name);
        Future<String> f = own.submit(() -> call(e, s));
        try {
            print("PASS", e.name, f.get(e.seconds, TimeUnit.SECONDS));
        } catch (TimeoutException x) {
            f.cancel(true);
            print("FAIL", e.name, "no end within " + e.seconds + " s");
        } catch (ExecutionException x) {
            print("FAIL", e.name, brief(x.getCause()));
            if (!env("STACK", "").isEmpty()) x.getCause().printStackTrace();
        } catch (InterruptedException x) {
            print("FAIL", e.name, "interrupted");
        }
        Future<?> closed = own.submit(s::close);
        try {
            closed.get(CLOSE_SECONDS, TimeUnit.SECONDS);
        } catch (Exception x) {
            System.err.println(e.name + ": clients do not close: " + x);
        }
        own.shutdownNow();
    }

    private static String call(Entry e, Scenario s) throws Exception {
        try {
            return e.body.run(s);
        } catch (Exception | Error x) {
            throw x;
        } catch (Throwable x) {
            throw new RuntimeException(x);
        }
    }
}
