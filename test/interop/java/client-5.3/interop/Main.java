package interop;

/** The 5.x client: what both clients have, then its own. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Harness.discover();
        Common.register();
        FiveScenarios.register();
        PopScenarios.register();
        Harness.main();
    }
}
