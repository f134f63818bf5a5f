package interop;

/** The 4.9 client: what both clients have. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Harness.discover();
        Common.register();
        Harness.main();
    }
}
