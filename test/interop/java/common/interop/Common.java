package interop;

/** All scenarios that compile against both clients. */
final class Common {
    private Common() {}

    static void register() {
        SendScenarios.register();
        PushScenarios.register();
        OrderScenarios.register();
        GroupScenarios.register();
        PullScenarios.register();
        RetryScenarios.register();
        AdminScenarios.register();
    }
}
