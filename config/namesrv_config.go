package config

// NamesrvConfig is Java's org.apache.rocketmq.common.namesrv.NamesrvConfig.
type NamesrvConfig struct {
	// RocketmqHome: installation directory, from $ROCKETMQ_HOME.
	RocketmqHome string `prop:"rocketmqHome" is:"fixed"`
	// KvConfigPath: file of the KV configuration; $HOME/namesrv/kvConfig.json.
	KvConfigPath string `prop:"kvConfigPath" is:"fixed"`
	// ConfigStorePath: file that UPDATE_NAMESRV_CONFIG rewrites; $HOME/namesrv/namesrv.properties, or -c.
	ConfigStorePath string `prop:"configStorePath" is:"fixed"`
	// ProductEnvName: environment name of Java's cluster test mode.
	ProductEnvName string `prop:"productEnvName" def:"center"`
	// ClusterTest: Java's cluster test mode: ask another environment for unknown topics.
	ClusterTest bool `prop:"clusterTest"`
	// OrderMessageEnable: serve ORDER_TOPIC_CONFIG of the KV configuration with routes.
	OrderMessageEnable bool `prop:"orderMessageEnable" is:"live"`
	// ReturnOrderTopicConfigToBroker: send that namespace to brokers that register.
	ReturnOrderTopicConfigToBroker bool `prop:"returnOrderTopicConfigToBroker" def:"true" is:"live"`
	// ClientRequestThreadPoolNums: workers for route queries.
	ClientRequestThreadPoolNums int `prop:"clientRequestThreadPoolNums" def:"8" is:"1.."`
	// DefaultThreadPoolNums: workers for registrations and the rest.
	DefaultThreadPoolNums int `prop:"defaultThreadPoolNums" def:"16" is:"1.."`
	// ClientRequestThreadPoolQueueCapacity: waiting route queries.
	ClientRequestThreadPoolQueueCapacity int `prop:"clientRequestThreadPoolQueueCapacity" def:"50000" is:"1.."`
	// DefaultThreadPoolQueueCapacity: waiting registrations and the rest.
	DefaultThreadPoolQueueCapacity int `prop:"defaultThreadPoolQueueCapacity" def:"10000" is:"1.."`
	// ScanNotActiveBrokerInterval: milliseconds between searches for silent brokers.
	ScanNotActiveBrokerInterval int64 `prop:"scanNotActiveBrokerInterval" def:"5000" is:"1.."`
	// UnRegisterBrokerQueueCapacity: brokers waiting to be removed.
	UnRegisterBrokerQueueCapacity int `prop:"unRegisterBrokerQueueCapacity" def:"3000" is:"1.."`
	// SupportActingMaster: routes show the slave with the smallest id as master while there is none.
	SupportActingMaster bool `prop:"supportActingMaster" is:"live"`
	// EnableAllTopicList: serve the list of all topics.
	EnableAllTopicList bool `prop:"enableAllTopicList" def:"true" is:"live"`
	// EnableTopicList: serve the topic lists by cluster and kind.
	EnableTopicList bool `prop:"enableTopicList" def:"true" is:"live"`
	// NotifyMinBrokerIdChanged: tell brokers when the smallest id of their set changes.
	NotifyMinBrokerIdChanged bool `prop:"notifyMinBrokerIdChanged" is:"live"`
	// EnableControllerInNamesrv: run a controller in the name server.
	EnableControllerInNamesrv bool `prop:"enableControllerInNamesrv"`
	// NeedWaitForService: serve routes only waitSecondsForService after start.
	NeedWaitForService bool `prop:"needWaitForService" is:"live"`
	// WaitSecondsForService: seconds for needWaitForService.
	WaitSecondsForService int `prop:"waitSecondsForService" def:"45" is:"live"`
	// DeleteTopicWithBrokerRegistration: a registration removes the broker's topics that it does not name.
	DeleteTopicWithBrokerRegistration bool `prop:"deleteTopicWithBrokerRegistration" is:"live"`
	// ConfigBlackList: keys, ';' between, that UPDATE_NAMESRV_CONFIG refuses besides the built-in ones (see
	// BlackList).
	ConfigBlackList string `prop:"configBlackList" def:"configBlackList;configStorePath;kvConfigPath" is:"fixed"`
}

// ControllerConfig is Java's org.apache.rocketmq.common.ControllerConfig with its JraftConfig, whose keys
// stand in the same file.
type ControllerConfig struct {
	// RocketmqHome: installation directory, from $ROCKETMQ_HOME.
	RocketmqHome string `prop:"rocketmqHome" is:"fixed"`
	// ConfigStorePath: file that UPDATE_CONTROLLER_CONFIG rewrites; $HOME/controller/controller.properties,
	// or -c.
	ConfigStorePath string `prop:"configStorePath" is:"fixed"`
	// ControllerType: Java's raft library; both are served by the one built in here.
	ControllerType string `prop:"controllerType" def:"DLedger" one:"DLedger|jRaft"`
	// ScanNotActiveBrokerInterval: milliseconds between searches for silent brokers.
	ScanNotActiveBrokerInterval int64 `prop:"scanNotActiveBrokerInterval" def:"5000" is:"1.."`
	// ControllerThreadPoolNums: workers for requests.
	ControllerThreadPoolNums int `prop:"controllerThreadPoolNums" def:"16" is:"1.."`
	// ControllerRequestThreadPoolQueueCapacity: waiting requests.
	ControllerRequestThreadPoolQueueCapacity int `prop:"controllerRequestThreadPoolQueueCapacity" is:"1.."`
	// ControllerDLegerGroup: name of the group of controllers.
	ControllerDLegerGroup string `prop:"controllerDLegerGroup" is:"fixed"`
	// ControllerDLegerPeers: controllers as "n0-host:port;n1-host:port".
	ControllerDLegerPeers string `prop:"controllerDLegerPeers" is:"fixed"`
	// ControllerDLegerSelfId: own id among controllerDLegerPeers.
	ControllerDLegerSelfId string `prop:"controllerDLegerSelfId" is:"fixed"`
	// MappedFileSize: bytes of one file of the controller's log.
	MappedFileSize int `prop:"mappedFileSize" def:"1073741824" is:"4096.."`
	// ControllerStorePath: directory of the controller's log; empty means $HOME/DledgerController.
	ControllerStorePath string `prop:"controllerStorePath" is:"fixed"`
	// ElectMasterMaxRetryCount: tries to elect a master on one occasion.
	ElectMasterMaxRetryCount int `prop:"electMasterMaxRetryCount" def:"3" is:"live"`
	// EnableElectUncleanMaster: elect also outside the SyncStateSet: available, but confirmed messages may
	// be lost.
	EnableElectUncleanMaster bool `prop:"enableElectUncleanMaster" is:"live"`
	// IsProcessReadEvent: write reads to the log as well.
	IsProcessReadEvent bool `prop:"isProcessReadEvent" old:"processReadEvent"`
	// NotifyBrokerRoleChanged: tell brokers at once when their role changes.
	NotifyBrokerRoleChanged bool `prop:"notifyBrokerRoleChanged" def:"true" is:"live"`
	// ScanInactiveMasterInterval: milliseconds between searches for broker sets without master.
	ScanInactiveMasterInterval int64 `prop:"scanInactiveMasterInterval" def:"5000" is:"1.."`
	// MetricsExporterType: how metrics leave; the numbers 0 to 3 are taken too.
	MetricsExporterType MetricsExporterType `prop:"metricsExporterType" def:"DISABLE"`
	// MetricsGrpcExporterTarget: OTLP address.
	MetricsGrpcExporterTarget string `prop:"metricsGrpcExporterTarget"`
	// MetricsGrpcExporterHeader: OTLP headers as "k:v,k:v".
	MetricsGrpcExporterHeader string `prop:"metricsGrpcExporterHeader" is:"secret"`
	// MetricGrpcExporterTimeOutInMills: milliseconds an OTLP export may take.
	MetricGrpcExporterTimeOutInMills int64 `prop:"metricGrpcExporterTimeOutInMills" def:"3000" is:"1.."`
	// MetricGrpcExporterIntervalInMills: milliseconds between OTLP exports.
	MetricGrpcExporterIntervalInMills int64 `prop:"metricGrpcExporterIntervalInMills" def:"60000" is:"1.."`
	// MetricLoggingExporterIntervalInMills: milliseconds between metric log lines.
	MetricLoggingExporterIntervalInMills int64 `prop:"metricLoggingExporterIntervalInMills" def:"10000" is:"1.."`
	// MetricsPromExporterPort: port of the Prometheus page.
	MetricsPromExporterPort int `prop:"metricsPromExporterPort" def:"5557" is:"..65535"`
	// MetricsPromExporterHost: address of the Prometheus page; empty means the local address.
	MetricsPromExporterHost string `prop:"metricsPromExporterHost"`
	// MetricsLabel: labels added to every metric as "k:v,k:v".
	MetricsLabel string `prop:"metricsLabel"`
	// MetricsInDelta: export differences instead of totals.
	MetricsInDelta bool `prop:"metricsInDelta"`
	// ConfigBlackList: keys, ';' between, that UPDATE_CONTROLLER_CONFIG refuses besides the built-in ones
	// (see BlackList).
	ConfigBlackList string `prop:"configBlackList" def:"configBlackList;configStorePath" is:"fixed"`
	// JRaftElectionTimeoutMs: milliseconds without leader until an election.
	JRaftElectionTimeoutMs int `prop:"jRaftElectionTimeoutMs" def:"1000" is:"1.."`
	// JRaftScanWaitTimeoutMs: milliseconds a scan waits for raft.
	JRaftScanWaitTimeoutMs int `prop:"jRaftScanWaitTimeoutMs" def:"1000" is:"1.."`
	// JRaftSnapshotIntervalSecs: seconds between snapshots.
	JRaftSnapshotIntervalSecs int `prop:"jRaftSnapshotIntervalSecs" def:"3600" is:"1.."`
	// JRaftGroupId: name of the raft group.
	JRaftGroupId string `prop:"jRaftGroupId" def:"jRaft-Controller"`
	// JRaftServerId: own "host:port" in the raft group.
	JRaftServerId string `prop:"jRaftServerId" def:"localhost:9880"`
	// JRaftInitConf: members as "host:port,host:port".
	JRaftInitConf string `prop:"jRaftInitConf" def:"localhost:9880,localhost:9881,localhost:9882"`
	// JRaftControllerRPCAddr: addresses for clients as "host:port,host:port", in the order of jRaftInitConf.
	JRaftControllerRPCAddr string `prop:"jRaftControllerRPCAddr"`
}
