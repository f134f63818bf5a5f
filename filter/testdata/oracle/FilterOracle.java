import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.File;
import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Asks the classes of RocketMQ 5.3.3 for the golden files of package filter.
 *
 * Arguments: the testdata folder, the class path of RocketMQ 5.3.3 and a class path that has, in front of the
 * same, ComparisonExpression with the repair of apache/rocketmq#10877. The class path of this program needs
 * fastjson 1.2.
 *
 * Every line of expressions.jsonl, tags.jsonl, hashes.jsonl and bloom.jsonl holds an input and Java's answer.
 * The answers are written anew, so a new case is a new line with the input alone. consumerFilter.json is
 * written whole.
 */
public class FilterOracle {
    private static Path dir;

    public static void main(String[] args) throws Exception {
        dir = Paths.get(args[0]);
        ClassLoader stock = loader(args[1]);
        ClassLoader repaired = loader(args[2]);
        sql(stock, repaired);
        tags(stock);
        hashes();
        bloom(stock);
        filterFile(stock);
    }

    private static ClassLoader loader(String classPath) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String part : classPath.split(File.pathSeparator)) {
            urls.add(Paths.get(part).toUri().toURL());
        }
        return new URLClassLoader(urls.toArray(new URL[0]), null);
    }

    private static List<String> lines(String name) throws Exception {
        return Files.readAllLines(dir.resolve(name), StandardCharsets.UTF_8);
    }

    /** Call it after lines: it empties the file. */
    private static PrintWriter writer(String name) throws Exception {
        return new PrintWriter(Files.newBufferedWriter(dir.resolve(name), StandardCharsets.UTF_8));
    }

    private static void put(PrintWriter out, Map<String, Object> line) {
        out.print(JSON.toJSONString(line, SerializerFeature.DisableCircularReferenceDetect) + "\n");
    }

    /** One class loader's parser and evaluator. */
    private static class Selector {
        private final Method parse;
        private final Method evaluate;
        private final Class<?> context;

        Selector(ClassLoader cl) throws Exception {
            parse = cl.loadClass("org.apache.rocketmq.filter.parser.SelectorParser")
                .getMethod("parse", String.class);
            context = cl.loadClass("org.apache.rocketmq.filter.expression.EvaluationContext");
            evaluate = cl.loadClass("org.apache.rocketmq.filter.expression.Expression")
                .getMethod("evaluate", context);
        }

        Object compile(String expression) throws Throwable {
            try {
                return parse.invoke(null, expression);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }

        /** T, F, N for the results, E for an exception, C for a ClassCastException. */
        char evaluate(Object compiled, Map<String, Object> props) throws Exception {
            Object ctx = Proxy.newProxyInstance(context.getClassLoader(), new Class<?>[] {context},
                (p, m, a) -> m.getName().equals("get") ? props.get(a[0]) : props);
            try {
                Object result = evaluate.invoke(compiled, ctx);
                return result == null ? 'N' : (Boolean) result ? 'T' : 'F';
            } catch (InvocationTargetException e) {
                return e.getCause() instanceof ClassCastException ? 'C' : 'E';
            }
        }
    }

    private static void sql(ClassLoader stock, ClassLoader repaired) throws Exception {
        String text = new String(Files.readAllBytes(dir.resolve("properties.json")), StandardCharsets.UTF_8);
        List<Map<String, Object>> props = new ArrayList<>();
        for (Object o : JSON.parseArray(text)) {
            props.add((Map<String, Object>) o);
        }
        Selector a = new Selector(stock);
        Selector b = new Selector(repaired);
        List<String> in = lines("expressions.jsonl");
        try (PrintWriter out = writer("expressions.jsonl")) {
            for (String line : in) {
                String expression = JSON.parseObject(line).getString("expr");
                Map<String, Object> result = new LinkedHashMap<>();
                result.put("expr", expression);
                try {
                    Object compiled = a.compile(expression);
                    String java = results(a, compiled, props);
                    result.put("java", java);
                    if (java.indexOf('C') >= 0) {
                        result.put("repaired", results(b, b.compile(expression), props));
                    }
                } catch (Throwable e) {
                    Throwable cause = e.getCause() == null ? e : e.getCause();
                    result.put("error", cause.getClass().getSimpleName());
                }
                put(out, result);
            }
        }
    }

    private static String results(Selector s, Object compiled, List<Map<String, Object>> props)
        throws Exception {
        StringBuilder sb = new StringBuilder();
        for (Map<String, Object> p : props) {
            sb.append(s.evaluate(compiled, p));
        }
        return sb.toString();
    }

    private static void tags(ClassLoader cl) throws Exception {
        Method build = cl.loadClass("org.apache.rocketmq.remoting.protocol.filter.FilterAPI")
            .getMethod("buildSubscriptionData", String.class, String.class);
        List<String> in = lines("tags.jsonl");
        try (PrintWriter out = writer("tags.jsonl")) {
            for (String line : in) {
                String sub = JSON.parseObject(line).getString("sub");
                Map<String, Object> result = new LinkedHashMap<>();
                result.put("sub", sub);
                try {
                    Object data = build.invoke(null, "T", sub);
                    result.put("subString", get(data, "getSubString"));
                    result.put("tags", new TreeSet<>((Set<String>) get(data, "getTagsSet")));
                    result.put("codes", new TreeSet<>((Set<Integer>) get(data, "getCodeSet")));
                } catch (InvocationTargetException e) {
                    result.put("error", e.getCause().getMessage());
                }
                put(out, result);
            }
        }
    }

    private static Object get(Object o, String getter) throws Exception {
        return o.getClass().getMethod(getter).invoke(o);
    }

    /** The input is hex, so that it can be malformed UTF-8. */
    private static void hashes() throws Exception {
        List<String> in = lines("hashes.jsonl");
        try (PrintWriter out = writer("hashes.jsonl")) {
            for (String line : in) {
                String hex = JSON.parseObject(line).getString("hex");
                byte[] bytes = new byte[hex.length() / 2];
                for (int i = 0; i < bytes.length; i++) {
                    bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
                }
                Map<String, Object> result = new LinkedHashMap<>();
                result.put("hex", hex);
                result.put("hash", new String(bytes, StandardCharsets.UTF_8).hashCode());
                put(out, result);
            }
        }
    }

    private static void bloom(ClassLoader cl) throws Exception {
        Class<?> filterClass = cl.loadClass("org.apache.rocketmq.filter.util.BloomFilter");
        Class<?> bitsClass = cl.loadClass("org.apache.rocketmq.filter.util.BitsArray");
        List<String> in = lines("bloom.jsonl");
        try (PrintWriter out = writer("bloom.jsonl")) {
            for (String line : in) {
                Map<String, Object> input = JSON.parseObject(line);
                int f = (Integer) input.get("f");
                int n = (Integer) input.get("n");
                Map<String, Object> result = new LinkedHashMap<>();
                result.put("f", f);
                result.put("n", n);
                Object filter = filterClass.getMethod("createByFn", int.class, int.class).invoke(null, f, n);
                int m = (Integer) get(filter, "getM");
                result.put("k", get(filter, "getK"));
                result.put("m", m);
                String key = (String) input.get("key");
                if (key != null) {
                    result.put("key", key);
                    Object bits = bitsClass.getMethod("create", int.class).invoke(null, m);
                    filterClass.getMethod("hashTo", String.class, bitsClass).invoke(filter, key, bits);
                    result.put("pos",
                        filterClass.getMethod("calcBitPositions", String.class).invoke(filter, key));
                    byte[] bytes = (byte[]) get(bits, "bytes");
                    StringBuilder hex = new StringBuilder();
                    for (byte b : bytes) {
                        hex.append(String.format("%02x", b));
                    }
                    result.put("bits", hex.toString());
                    result.put("text", bits.toString());
                }
                put(out, result);
            }
        }
    }

    /** consumerFilter.json as the broker's ConsumerFilterManager encodes it, with fixed times. */
    private static void filterFile(ClassLoader cl) throws Exception {
        Class<?> managerClass = cl.loadClass("org.apache.rocketmq.broker.filter.ConsumerFilterManager");
        Object manager = managerClass.getConstructor().newInstance();
        Method register = managerClass.getMethod("register", String.class, String.class,
            String.class, String.class, long.class);
        register.invoke(manager, "TopicTest", "group_a", "a > 5 AND s = 'it''s'", "SQL92", 1700000000000L);
        register.invoke(manager, "TopicTest", "group_b", "b IS NOT NULL", "SQL92", 1700000000001L);
        Method find = managerClass.getMethod("get", String.class, String.class);
        long far = 4000000000000L;
        Object a = find.invoke(manager, "TopicTest", "group_a");
        a.getClass().getMethod("setBornTime", long.class).invoke(a, far);
        Object b = find.invoke(manager, "TopicTest", "group_b");
        b.getClass().getMethod("setBornTime", long.class).invoke(b, far);
        b.getClass().getMethod("setDeadTime", long.class).invoke(b, far + 1);
        Class<?> dataClass = cl.loadClass("org.apache.rocketmq.filter.util.BloomFilterData");
        b.getClass().getMethod("setBloomFilterData", dataClass)
            .invoke(b, new Object[] {null});
        String json = (String) managerClass.getMethod("encode", boolean.class).invoke(manager, true);
        Files.write(dir.resolve("consumerFilter.json"), json.getBytes(StandardCharsets.UTF_8));
    }
}
