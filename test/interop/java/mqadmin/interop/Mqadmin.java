package interop;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.command.MQAdminStartup;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Runs the commands of the real mqadmin, one after the other, and checks what they print. */
public final class Mqadmin {
    private static final PrintStream OUT = System.out;
    private static final PrintStream ERR = System.err;
    private static final Pattern ONLY = Pattern.compile(Harness.env("ONLY", ".*"));
    private static final boolean SHOW = !Harness.env("SHOW", "").isEmpty();

    private Mqadmin() {}

    static String exec(String... args) throws Exception {
        List<String> l = new ArrayList<>(Arrays.asList(args));
        l.add("-n");
        l.add(Harness.NAMESRV);
        return raw(l.toArray(new String[0]));
    }

    static String raw(String... args) throws Exception {
        ByteArrayOutputStream b = new ByteArrayOutputStream();
        PrintStream p = new PrintStream(b, true, "UTF-8");
        fresh();
        Thread t =
                new Thread(
                        () -> {
                            try {
                                MQAdminStartup.main0(args, null);
                            } catch (Throwable x) {
                                x.printStackTrace(p);
                            }
                        });
        t.setDaemon(true);
        System.setOut(p);
        System.setErr(p);
        try {
            t.start();
            t.join(TimeUnit.SECONDS.toMillis(45));
            if (t.isAlive()) p.print("\nEXCEPTION no end within 45 s");
        } finally {
            System.setOut(OUT);
            System.setErr(ERR);
        }
        p.flush();
        String s = b.toString("UTF-8");
        if (SHOW) OUT.println("--- " + String.join(" ", args) + "\n" + s);
        return s;
    }

    /** The command objects keep their clients: forget them, as a new process would. */
    static void fresh() throws Exception {
        for (var f : MQAdminStartup.class.getDeclaredFields()) {
            if (f.getType() == List.class) {
                f.setAccessible(true);
                ((List<?>) f.get(null)).clear();
            }
        }
    }

    /** Runs args; passes when every pattern is found and no stack trace is printed. */
    static String cmd(String name, String[] args, String... want) {
        if (!ONLY.matcher(name).matches()) return "";
        String out = "";
        try {
            for (int i = 0; i < 2; i++) {
                out = exec(args);
                String miss = missing(out, want);
                if (miss == null) {
                    Matcher m = Pattern.compile(want.length == 0 ? "(?s).*" : want[0]).matcher(out);
                    Harness.print("PASS", name, m.find() ? first(m.group()) : "");
                    return out;
                }
                if (out.contains("sub command") && out.contains("not exist")) {
                    Harness.print("SKIP", name, "this mqadmin has no " + args[0]);
                    return out;
                }
                if (i == 1) Harness.print("FAIL", name, "no /" + miss + "/ in: " + first(out));
                else Thread.sleep(1500);
            }
        } catch (Exception e) {
            Harness.print("FAIL", name, e.toString());
        }
        return out;
    }

    static String head(String s, int n) {
        return s.length() > n ? s.substring(0, n) : s;
    }

    static String first(String s) {
        String x = s.trim().replaceAll("\\s+", " ");
        return x.length() > 160 ? x.substring(0, 160) : x;
    }

    static String missing(String out, String... want) {
        boolean trace = false;
        for (String w : want) {
            trace |= w.startsWith("CODE");
            boolean not = w.startsWith("!");
            if (Pattern.compile(not ? w.substring(1) : w, Pattern.MULTILINE).matcher(out).find()
                    == not) return w;
        }
        return !trace
                        && Pattern.compile(
                                        "^\\S*(Exception|Error)\\b.*\\R\\s+at |EXCEPTION",
                                        Pattern.MULTILINE)
                                .matcher(out)
                                .find()
                ? "output without a stack trace"
                : null;
    }

    static String[] a(String... x) {
        return x;
    }

    public static void main(String[] argv) {
        try {
            all();
        } catch (Throwable x) {
            Harness.print("FAIL", "run", Harness.brief(x));
            x.printStackTrace(ERR);
        }
        OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    static void all() throws Throwable {
        Harness.discover();
        Scenario s = new Scenario("mqadmin");
        String b = Harness.brokerAddr, c = Harness.cluster, n = Harness.brokerName;
        String t = s.id("T"), t2 = s.id("T"), g = s.group(), g2 = s.group();
        Path dir = Files.createTempDirectory(Path.of(Harness.env("TMP", ".")), "export");
        boolean five = Harness.CLIENT.contains("5");

        cmd(
                "updateTopic-broker",
                a("updateTopic", "-b", b, "-t", t, "-r", "4", "-w", "4", "-p", "6"),
                "create topic to " + b + " success");
        cmd(
                "updateTopic-cluster",
                a("updateTopic", "-c", c, "-t", t2, "-r", "2", "-w", "2"),
                "create topic to " + b + " success",
                "TopicConfig \\[topicName=" + t2);
        if (five)
            cmd(
                    "updateTopic-attributes",
                    a("updateTopic", "-c", c, "-t", s.id("T"), "-a", "+message.type=FIFO"),
                    "success",
                    "message.type=FIFO");
        cmd("topicList", a("topicList"), t, t2);
        cmd("topicList-cluster", a("topicList", "-c"), c + " +" + t);
        cmd(
                "topicRoute",
                a("topicRoute", "-t", t),
                "\"?brokerName\"?:\"" + n + "\"",
                "\"readQueueNums\":4",
                b);
        cmd("topicRoute-list", a("topicRoute", "-t", t, "-l"), n, "4 +4 +6");
        cmd("topicRoute-unknown", a("topicRoute", "-t", "NO_" + t), "CODE: 17");
        cmd("topicClusterList", a("topicClusterList", "-t", t), "^" + c);
        cmd("updateTopicPerm", a("updateTopicPerm", "-b", b, "-t", t, "-p", "4"), "from 6 to 4");
        cmd(
                "updateTopicPerm-back",
                a("updateTopicPerm", "-b", b, "-t", t, "-p", "6"),
                "from 4 to 6");

        DefaultMQProducer p = s.producer();
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < 8; i++)
            sent.add(p.send(new Message(t, "TagA", "mk" + i, ("body" + i).getBytes("UTF-8"))));
        Received got = s.collect(g, t, "*");
        Harness.until(60000, "consumer gets 8", () -> got.size() >= 8);
        Harness.until(
                40000,
                "offsets committed",
                () -> Harness.admin().examineConsumeStats(g, t).computeTotalDiff() == 0);

        cmd(
                "topicStatus",
                a("topicStatus", "-t", t),
                "^" + n + " +0 +0 +2 +\\d{4}-",
                "^" + n + " +3 +0 +2 ");
        cmd("clusterList", a("clusterList"), "^" + c + " +" + n + " +0 +" + b);
        cmd("clusterList-more", a("clusterList", "-m"), "^" + c + " +" + n);
        cmd(
                "brokerStatus",
                a("brokerStatus", "-b", b),
                "brokerVersionDesc *: ?\\S+",
                "putTps",
                "getTransferredTps",
                "commitLogMaxOffset",
                "bootTimestamp",
                "msgPutTotalTodayNow",
                "runtime");
        cmd("brokerStatus-cluster", a("brokerStatus", "-c", c), "brokerVersionDesc");
        cmd(
                "sendMessage",
                a("sendMessage", "-t", t, "-p", "from mqadmin", "-k", "adm", "-c", "TagB"),
                "^" + n + " +\\d +SEND_OK +[0-9A-F]{32}");
        cmd(
                "sendMessage-queue",
                a("sendMessage", "-t", t, "-p", "from mqadmin", "-b", n, "-i", "1"),
                "^" + n + " +1 +SEND_OK");
        cmd("queryMsgByKey", a("queryMsgByKey", "-t", t, "-k", "mk3"), sent.get(3).getMsgId());
        cmd(
                "queryMsgById",
                five
                        ? a("queryMsgById", "-t", t, "-i", sent.get(2).getOffsetMsgId())
                        : a("queryMsgById", "-i", sent.get(2).getOffsetMsgId()),
                "OffsetID: +" + sent.get(2).getOffsetMsgId(),
                "Topic: +" + t,
                "Keys: +\\[mk2\\]",
                "Message Body Path");
        cmd(
                "queryMsgById-tracks",
                five
                        ? a("queryMsgById", "-t", t, "-i", sent.get(2).getOffsetMsgId())
                        : a("queryMsgById", "-i", sent.get(2).getOffsetMsgId()),
                "MessageTrack \\[consumerGroup=" + g + ", trackType=\\w*CONSUMED");
        cmd(
                "queryMsgById-consume",
                five
                        ? a(
                                "queryMsgById",
                                "-t",
                                t,
                                "-i",
                                sent.get(2).getMsgId(),
                                "-g",
                                g,
                                "-d",
                                got.c.buildMQClientId())
                        : a(
                                "queryMsgById",
                                "-i",
                                sent.get(2).getOffsetMsgId(),
                                "-g",
                                g,
                                "-d",
                                got.c.buildMQClientId()),
                "consumeResult=CR_SUCCESS|ConsumeMessageDirectlyResult");
        cmd(
                "queryMsgByUniqueKey",
                a("queryMsgByUniqueKey", "-t", t, "-i", sent.get(4).getMsgId()),
                "Topic: +" + t,
                "Keys: +\\[mk4\\]",
                "Queue Offset:");
        cmd(
                "queryMsgByOffset",
                a("queryMsgByOffset", "-t", t, "-b", n, "-i", "0", "-o", "1"),
                "Queue Offset: +1");
        cmd("printMsg", a("printMsg", "-t", t), "BODY: body0|body0", "MSGID: ");
        cmd(
                "printMsgByQueue",
                a("printMsgByQueue", "-t", t, "-a", n, "-i", "0", "-p", "true", "-d", "true"),
                "MSGID: |msgId");
        cmd("consumeMessage", a("consumeMessage", "-t", t, "-c", "3"), "Consume ok|MSGID: ");
        cmd(
                "consumeMessage-queue",
                a("consumeMessage", "-t", t, "-b", n, "-i", "0", "-o", "0", "-c", "1"),
                "Consume ok|MSGID: ");
        cmd("queryCq", a("queryCq", "-t", t, "-q", "0", "-i", "0", "-c", "5"), "physicOffset");
        cmd(
                "queryCq-group",
                a("queryCq", "-t", t, "-q", "0", "-i", "0", "-c", "5", "-g", g),
                "physicOffset",
                "Subscription data");
        cmd(
                "updateSubGroup",
                a("updateSubGroup", "-b", b, "-g", g2, "-r", "7"),
                "create subscription group to " + b + " success",
                "retryMaxTimes=7");
        cmd("updateSubGroup-cluster", a("updateSubGroup", "-c", c, "-g", s.group()), "success");
        cmd("getConsumerConfig", a("getConsumerConfig", "-g", g2), "retryMaxTimes +[=:] *7");
        cmd(
                "consumerProgress-group",
                a("consumerProgress", "-g", g),
                "^" + head(t, 30) + ".* " + n,
                "Consume TPS: ",
                "Diff Total: ");
        cmd(
                "consumerProgress-client-ip",
                a("consumerProgress", "-g", g, "-s", "true"),
                n + " +0 +\\d+ +\\d+ +\\d.*");
        cmd("consumerProgress-all", a("consumerProgress"), head(g, 30));
        cmd(
                "consumerConnection",
                a("consumerConnection", "-g", g),
                got.c.buildMQClientId(),
                "MessageModel: +CLUSTERING",
                "ConsumeFromWhere: +CONSUME_FROM_FIRST_OFFSET",
                t);
        cmd(
                "producerConnection",
                a("producerConnection", "-g", p.getProducerGroup(), "-t", t),
                p.buildMQClientId());
        cmd("producer", a("producer", "-b", b), "producer group \\(" + p.getProducerGroup());
        cmd("consumerStatus", a("consumerStatus", "-g", g), got.c.buildMQClientId());
        cmd(
                "consumerStatus-jstack",
                a("consumerStatus", "-g", g, "-i", got.c.buildMQClientId(), "-s"),
                "Consumer jstack",
                "Consumer Offset");
        cmd("brokerConsumeStats", a("brokerConsumeStats", "-b", b), head(t, 30) + ".*");
        cmd("statsAll", a("statsAll", "-t", t), "^" + head(t, 60));
        cmd("statsAll-active", a("statsAll", "-a"), "#Topic");
        cmd("allocateMQ", a("allocateMQ", "-t", t, "-i", "10.0.0.1,10.0.0.2"), "10.0.0.1");
        cmd("checkMsgSendRT", a("checkMsgSendRT", "-t", t, "-a", "5", "-s", "64"), "Avg RT");
        cmd(
                "sendMsgStatus",
                a("sendMsgStatus", "-b", n, "-s", "64", "-c", "3"),
                "SEND_OK|sendStatus");
        cmd(
                "cloneGroupOffset",
                a("cloneGroupOffset", "-s", g, "-d", g2, "-t", t, "-o", "true"),
                "clone group offset success");
        cmd(
                "resetOffsetByTime-now",
                a("resetOffsetByTime", "-g", g, "-t", t, "-s", "now"),
                "^" + n + " +0 +\\d+");
        cmd(
                "resetOffsetByTime-past",
                a(
                        "resetOffsetByTime",
                        "-g",
                        g,
                        "-t",
                        t,
                        "-s",
                        Long.toString(System.currentTimeMillis() - 3600000)),
                "^" + n + " +0 +0");
        if (ONLY.matcher("resetOffsetByTime-past").matches())
            Harness.until(60000, "consumed again after the reset", () -> got.size() >= 16);
        if (five)
            cmd(
                    "resetOffsetByTime-queue",
                    a(
                            "resetOffsetByTime",
                            "-g",
                            g2,
                            "-t",
                            t,
                            "-s",
                            "now",
                            "-b",
                            b,
                            "-q",
                            "1",
                            "-o",
                            "1"),
                    "reset consumer offset to 1|offset");
        cmd(
                "skipAccumulatedMessage",
                a("skipAccumulatedMessage", "-g", g, "-t", t),
                n + " +0 +\\d+");
        cmd(
                "getBrokerConfig",
                a("getBrokerConfig", "-b", b),
                "brokerName *= *" + n,
                "brokerClusterName *= *" + c,
                "flushDiskType *= ");
        cmd(
                "updateBrokerConfig",
                a("updateBrokerConfig", "-b", b, "-k", "longPollingEnable", "-v", "true"),
                "update broker config success");
        cmd(
                "updateBrokerConfig-bad",
                a("updateBrokerConfig", "-b", b, "-k", "brokerConfigPath", "-v", "x"),
                "CODE: *\\d+");
        cmd("getNamesrvConfig", a("getNamesrvConfig"), "listenPort *= ");
        cmd(
                "updateNamesrvConfig",
                a("updateNamesrvConfig", "-k", "clusterTest", "-v", "false"),
                "update name server config success");
        cmd(
                "updateKvConfig",
                a("updateKvConfig", "-s", "INTEROP", "-k", "key" + Harness.RUN_ID, "-v", "val"),
                "create or update kv config to namespace success");
        cmd(
                "deleteKvConfig",
                a("deleteKvConfig", "-s", "INTEROP", "-k", "key" + Harness.RUN_ID),
                "delete kv config from namespace success");
        cmd(
                "updateOrderConf-put",
                a("updateOrderConf", "-t", t, "-m", "put", "-v", n + ":4"),
                "update orderConf success|orderConf");
        cmd("updateOrderConf-get", a("updateOrderConf", "-t", t, "-m", "get"), n + ":4");
        cmd(
                "updateOrderConf-delete",
                a("updateOrderConf", "-t", t, "-m", "delete"),
                "delete orderConf success");
        cmd("cleanExpiredCQ", a("cleanExpiredCQ", "-b", b), "success");
        cmd("cleanUnusedTopic", a("cleanUnusedTopic", "-b", b), "success");
        cmd("deleteExpiredCommitLog", a("deleteExpiredCommitLog", "-b", b), "success|false");
        if (five)
            cmd(
                    "haStatus",
                    a("haStatus", "-b", b),
                    "(?i)#?MasterAddr|MasterCommitLogMaxOffset|InSyncSlaveNum");
        if (five) {
            cmd(
                    "setConsumeMode",
                    a("setConsumeMode", "-b", b, "-t", t2, "-g", g2, "-m", "POP", "-q", "8"),
                    "set consume mode to .* success");
            cmd(
                    "getColdDataFlowCtrInfo",
                    a("getColdDataFlowCtrInfo", "-b", b),
                    "configTable|runtimeTable|coldDataFlowControl");
            cmd(
                    "updateColdDataFlowCtrGroupConfig",
                    a("updateColdDataFlowCtrGroupConfig", "-b", b, "-g", g2, "-v", "10"),
                    "success");
            cmd(
                    "removeColdDataFlowCtrGroupConfig",
                    a("removeColdDataFlowCtrGroupConfig", "-b", b, "-g", g2),
                    "success");
            cmd(
                    "setCommitLogReadAheadMode",
                    a("setCommitLogReadAheadMode", "-b", b, "-m", "0"),
                    "success");
            String tl = s.id("T");
            Path f = dir.resolve("topics.json");
            Files.writeString(
                    f,
                    "[{\"topicName\":\""
                            + tl
                            + "\",\"readQueueNums\":2,\"writeQueueNums\":2,\"perm\":6}]");
            cmd("updateTopicList", a("updateTopicList", "-b", b, "-f", f.toString()), "success");
            Path h = dir.resolve("groups.json");
            Files.writeString(h, "[{\"groupName\":\"" + s.group() + "\",\"retryMaxTimes\":3}]");
            cmd(
                    "updateSubGroupList",
                    a("updateSubGroupList", "-b", b, "-f", h.toString()),
                    "success");
            String st = s.id("T");
            cmd(
                    "updateStaticTopic",
                    a("updateStaticTopic", "-t", st, "-qn", "2", "-b", n),
                    "(?s).*");
            cmd(
                    "updateStaticTopic-route",
                    a("topicRoute", "-t", st),
                    "topicQueueMappingByBroker|TopicQueueMapping");
            cmd(
                    "exportPopRecord",
                    a("exportPopRecord", "-b", b, "-d", "true"),
                    "Export broker records|export");
        }
        cmd("queryMsgTraceById", a("queryMsgTraceById", "-i", trace(s, t)), "Pub");
        cmd(
                "exportMetadata",
                a("exportMetadata", "-c", c, "-f", dir.toString()),
                "export .*metadata.json success|success");
        cmd(
                "exportMetadata-topic",
                a("exportMetadata", "-b", b, "-t", "-f", dir.toString()),
                "success");
        cmd(
                "exportConfigs",
                a("exportConfigs", "-c", c, "-f", dir.toString()),
                "export .* success|success");
        cmd(
                "exportMetrics",
                a("exportMetrics", "-c", c, "-f", dir.toString()),
                "export .* success|success");
        cmd(
                "deleteSubGroup",
                a("deleteSubGroup", "-b", b, "-g", g2, "-r", "true"),
                "delete subscription group .* success");
        cmd("deleteTopic", a("deleteTopic", "-c", c, "-t", t2), "delete topic .* success");
        cmd("deleteTopic-route", a("topicRoute", "-t", t2), "CODE: 17");
        cmd(
                "wipeWritePerm",
                a("wipeWritePerm", "-b", n),
                "wipe write perm of broker\\[" + n + "\\].* OK, [1-9]");
        cmd("wipeWritePerm-route", a("topicRoute", "-t", t), "\"perm\":4");
        cmd(
                "addWritePerm",
                a("addWritePerm", "-b", n),
                "add write perm of broker\\[" + n + "\\].* OK, [1-9]");
        cmd("addWritePerm-route", a("topicRoute", "-t", t), "\"perm\":6");
        if (ONLY.matcher("help").matches()) {
            String o = raw("help", "updateTopic");
            Harness.print(o.contains("updateTopic") ? "PASS" : "FAIL", "help", first(o));
        }
        s.close();
    }

    static String trace(Scenario s, String t) throws Throwable {
        DefaultMQProducer p = s.raw(Compat.traced(s.id("PID"), null));
        p.start();
        String id = p.send(new Message(t, "x".getBytes())).getMsgId();
        Harness.until(
                30000,
                "trace of " + id,
                () ->
                        Harness.admin()
                                        .queryMessage(
                                                "RMQ_SYS_TRACE_TOPIC",
                                                id,
                                                10,
                                                System.currentTimeMillis() - 600000,
                                                System.currentTimeMillis() + 60000)
                                        .getMessageList()
                                        .size()
                                > 0);
        return id;
    }
}
