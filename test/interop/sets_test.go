//go:build interop

package interop

// client is one program and how it is started.
type client struct {
	name string
	// version of the Java libraries, empty for the Go client.
	version string
	// mainClass and source directories below java/, for Java.
	mainClass string
	sources   []string
	// pom is the Maven file of the libraries, pom.xml if empty.
	pom string
	// jvmFlags go before the class path.
	jvmFlags []string
	// sets the client belongs to.
	sets []string
	// core is what the set core asks of it, if not scenarioSets["core"].
	core string
}

var (
	sources53 = []string{"common", "client-5.3"}
	sources49 = []string{"common", "client-4.9"}
)

var clients = []client{
	{name: "java-5.3", version: "5.3.3", mainClass: "interop.Main", sources: sources53,
		sets: []string{"short", "core", "all"}},
	{name: "java-5.3-binary", version: "5.3.3", mainClass: "interop.Main", sources: sources53,
		jvmFlags: []string{"-Drocketmq.serialize.type=ROCKETMQ"}, sets: []string{"short", "core", "all"}},
	{name: "java-4.9", version: "4.9.8", mainClass: "interop.Main", sources: sources49,
		sets: []string{"short", "core", "all"}},
	{name: "go-remoting", sets: []string{"short", "core", "all"}},
	{name: "mqadmin-5.3", version: "5.3.3", mainClass: "interop.Mqadmin",
		sources: []string{"common", "client-5.3", "mqadmin"}, sets: []string{"core", "all"}, core: mqadminCommands},
	{name: "mqadmin-4.9", version: "4.9.8", mainClass: "interop.Mqadmin",
		sources: []string{"common", "client-4.9", "mqadmin"}, sets: []string{"all"}},
}

// scenarioSets are regular expressions of whole scenario names, good for Go and Java alike.
var scenarioSets = map[string]string{
	"short": `send-(sync|batch)|auto-create-topic|compress-zlib|push-clustering|pull|lite-pull-subscribe|` +
		`filter-tag|order-push|retry|offset-resume|query-key|admin-topic`,
	"core": `send-.*|auto-create-topic|unknown-topic|body-limit|empty-body|long-topic|unicode|properties|` +
		`namespace(-v2)?|compress-.*|auto-batch|batch-cq.*|throughput|push-.*|order-(push|lock-two|conf|hand-over-.*)|` +
		`two-topics|` +
		`batch-64-consume|subscription-change|suspend-resume|broker-rebalance|heartbeat-v2|filter-.*|` +
		`pull|pull-poll|lite-pull-.*|offset-resume|from-.*|search-offset|reset-offset.*|delay-level|timer-.*|` +
		`tx-.*|retry|retry-dlq|retry-order-max|trace.*|query-.*|view-offset-id|running-info|consume-directly|` +
		`consume-stats|group-.*|admin-.*|topic-attributes|update-topic-list|pop-.*|broadcast-begin|request-reply.*|` +
		`query-assignment`,
	"all": `.*`,
}

// mqadminCommands are the commands that Skylark promises: what there is for topics, groups, offsets, messages, clients,
// statistics and the name server.
const mqadminCommands = `updateTopic.*|topic.*|clusterList.*|brokerStatus.*|sendMessage.*|sendMsgStatus|checkMsgSendRT|` +
	`queryMsg.*|printMsg.*|consumeMessage.*|updateSubGroup.*|getConsumerConfig|consumerProgress.*|consumerConnection|` +
	`producer.*|consumerStatus.*|statsAll.*|allocateMQ|resetOffsetByTime.*|skipAccumulatedMessage|getBrokerConfig|` +
	`getNamesrvConfig|updateNamesrvConfig|updateKvConfig|deleteKvConfig|updateOrderConf.*|setConsumeMode|.*ColdData.*|` +
	`setCommitLogReadAheadMode|cloneGroupOffset|queryCq.*|brokerConsumeStats|haStatus|updateStaticTopic.*|exportPopRecord|` +
	`exportMetadata.*|exportConfigs|exportMetrics|deleteSubGroup|deleteTopic.*|` +
	`wipeWritePerm.*|addWritePerm.*|cleanExpiredCQ|cleanUnusedTopic|deleteExpiredCommitLog|help`

// popScenarios cannot be said in binary headers: their request codes do not fit its 16 bits.
const popScenarios = `pop-.*|broker-rebalance-pop`
