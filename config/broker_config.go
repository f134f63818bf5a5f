package config

// BrokerConfig is Java's org.apache.rocketmq.common.BrokerConfig with its parent BrokerIdentity: what the
// broker is and how its processors behave. Java 5.3.3's defaults; keys of later versions and of 4.9 are at
// the end. For the tags see the package comment.
type BrokerConfig struct {
	// Identity and addresses.

	// BrokerName: name of the broker set; master and slaves of one set share it. Empty means host name, else
	// DEFAULT_BROKER.
	BrokerName string `prop:"brokerName"`
	// BrokerClusterName: cluster the broker registers in.
	BrokerClusterName string `prop:"brokerClusterName" def:"DefaultCluster"`
	// BrokerId: 0 is the master, larger numbers are slaves; without controller mode the role decides (see
	// NewBrokerSet).
	BrokerId int64 `prop:"brokerId"`
	// IsBrokerContainer: true inside a Java broker container; always false here, listed because Java lists
	// it.
	IsBrokerContainer bool `prop:"isBrokerContainer" is:"fixed"`
	// IsInBrokerContainer: as isBrokerContainer.
	IsInBrokerContainer bool `prop:"isInBrokerContainer" is:"fixed"`
	// BrokerConfigPath: file that UPDATE_BROKER_CONFIG rewrites; set from -c.
	BrokerConfigPath string `prop:"brokerConfigPath" is:"fixed"`
	// RocketmqHome: installation directory, from $ROCKETMQ_HOME; ACL 1.x files are looked for below it.
	RocketmqHome string `prop:"rocketmqHome" is:"fixed"`
	// NamesrvAddr: name servers as "host:port;host:port", from $NAMESRV_ADDR; empty starts a broker without
	// one.
	NamesrvAddr string `prop:"namesrvAddr" is:"live"`
	// ListenPort: port of a broker inside a container. A standalone broker listens on
	// NettyServerConfig.ListenPort.
	ListenPort int `prop:"listenPort" def:"6888" is:"..65535"`
	// BrokerIP1: address registered with the name servers and stored as storeHost; empty means the first
	// local IPv4.
	BrokerIP1 string `prop:"brokerIP1"`
	// BrokerIP2: address slaves reach the master's HA port at; empty means the first local IPv4.
	BrokerIP2 string `prop:"brokerIP2"`
	// RecoverConcurrently: recover ConsumeQueues in parallel at start.
	RecoverConcurrently bool `prop:"recoverConcurrently"`

	// Topics, permissions, groups.

	// BrokerPermission: sum of 4 read, 2 write, 1 inherit; 6 is normal, 4 read-only, 2 write-only.
	BrokerPermission int `prop:"brokerPermission" def:"6" is:"..7 live"`
	// DefaultTopicQueueNums: queues of the template topic TBW102 and so of topics made on the fly.
	DefaultTopicQueueNums int `prop:"defaultTopicQueueNums" def:"8" is:"1.. live"`
	// AutoCreateTopicEnable: make a topic when a message for an unknown one arrives.
	AutoCreateTopicEnable bool `prop:"autoCreateTopicEnable" def:"true" is:"live"`
	// ClusterTopicEnable: allow sending to the topic named like the cluster.
	ClusterTopicEnable bool `prop:"clusterTopicEnable" def:"true" is:"live"`
	// BrokerTopicEnable: allow sending to the topic named like the broker.
	BrokerTopicEnable bool `prop:"brokerTopicEnable" def:"true" is:"live"`
	// AutoCreateSubscriptionGroup: make a consumer group when an unknown one asks.
	AutoCreateSubscriptionGroup bool `prop:"autoCreateSubscriptionGroup" def:"true" is:"live"`
	// MessageStorePlugIn: comma list of Java store plug-in classes.
	MessageStorePlugIn string `prop:"messageStorePlugIn"`
	// MsgTraceTopicName: topic that message traces go to.
	MsgTraceTopicName string `prop:"msgTraceTopicName" def:"RMQ_SYS_TRACE_TOPIC"`
	// TraceTopicEnable: make the trace topic at start.
	TraceTopicEnable bool `prop:"traceTopicEnable"`

	// Workers, one count per business pool.

	// SendMessageThreadPoolNums: workers for sends; min(cpu, 4).
	SendMessageThreadPoolNums int `prop:"sendMessageThreadPoolNums" is:"1.."`
	// PutMessageFutureThreadPoolNums: workers that finish sends after flush and replication; min(cpu, 4).
	PutMessageFutureThreadPoolNums int `prop:"putMessageFutureThreadPoolNums" is:"1.."`
	// PullMessageThreadPoolNums: workers for pulls and POP; 16 + 2 cpu.
	PullMessageThreadPoolNums int `prop:"pullMessageThreadPoolNums" is:"1.."`
	// LitePullMessageThreadPoolNums: workers for lite pulls; 16 + 2 cpu.
	LitePullMessageThreadPoolNums int `prop:"litePullMessageThreadPoolNums" is:"1.."`
	// AckMessageThreadPoolNums: workers for acks and invisible-time changes.
	AckMessageThreadPoolNums int `prop:"ackMessageThreadPoolNums" def:"16" is:"1.."`
	// ProcessReplyMessageThreadPoolNums: workers for reply messages; 16 + 2 cpu.
	ProcessReplyMessageThreadPoolNums int `prop:"processReplyMessageThreadPoolNums" is:"1.."`
	// QueryMessageThreadPoolNums: workers for queries by key and id; 8 + cpu.
	QueryMessageThreadPoolNums int `prop:"queryMessageThreadPoolNums" is:"1.."`
	// AdminBrokerThreadPoolNums: workers for admin requests.
	AdminBrokerThreadPoolNums int `prop:"adminBrokerThreadPoolNums" def:"16" is:"1.."`
	// ClientManageThreadPoolNums: workers for client registration.
	ClientManageThreadPoolNums int `prop:"clientManageThreadPoolNums" def:"32" is:"1.."`
	// ConsumerManageThreadPoolNums: workers for consumer offsets.
	ConsumerManageThreadPoolNums int `prop:"consumerManageThreadPoolNums" def:"32" is:"1.."`
	// LoadBalanceProcessorThreadPoolNums: workers for QUERY_ASSIGNMENT.
	LoadBalanceProcessorThreadPoolNums int `prop:"loadBalanceProcessorThreadPoolNums" def:"32" is:"1.."`
	// HeartbeatThreadPoolNums: workers for heartbeats; min(32, cpu).
	HeartbeatThreadPoolNums int `prop:"heartbeatThreadPoolNums" is:"1.."`
	// RecoverThreadPoolNums: workers for recoverConcurrently.
	RecoverThreadPoolNums int `prop:"recoverThreadPoolNums" def:"32" is:"1.."`
	// EndTransactionThreadPoolNums: workers for END_TRANSACTION; max(8 + 2 cpu, 4
	// sendMessageThreadPoolNums).
	EndTransactionThreadPoolNums int `prop:"endTransactionThreadPoolNums" is:"1.."`
	// FlushConsumerOffsetInterval: milliseconds between writes of consumerOffset.json.
	FlushConsumerOffsetInterval int `prop:"flushConsumerOffsetInterval" def:"5000" is:"1.."`
	// FlushConsumerOffsetHistoryInterval: milliseconds; unused since 4.x.
	FlushConsumerOffsetHistoryInterval int `prop:"flushConsumerOffsetHistoryInterval" def:"60000" is:"1.."`
	// RejectTransactionMessage: refuse half messages.
	RejectTransactionMessage bool `prop:"rejectTransactionMessage" is:"live"`
	// FetchNameSrvAddrByDnsLookup: resolve namesrvAddr by DNS again and again, for names with several
	// addresses.
	FetchNameSrvAddrByDnsLookup bool `prop:"fetchNameSrvAddrByDnsLookup"`
	// FetchNamesrvAddrByAddressServer: ask the HTTP address server for the name servers.
	FetchNamesrvAddrByAddressServer bool `prop:"fetchNamesrvAddrByAddressServer"`

	// Queue capacities, in requests waiting per pool.

	// SendThreadPoolQueueCapacity: waiting sends; more are answered SYSTEM_BUSY.
	SendThreadPoolQueueCapacity int `prop:"sendThreadPoolQueueCapacity" def:"10000" is:"1.."`
	// PutThreadPoolQueueCapacity: sends waiting for flush and replication.
	PutThreadPoolQueueCapacity int `prop:"putThreadPoolQueueCapacity" def:"10000" is:"1.."`
	// PullThreadPoolQueueCapacity: waiting pulls.
	PullThreadPoolQueueCapacity int `prop:"pullThreadPoolQueueCapacity" def:"100000" is:"1.."`
	// LitePullThreadPoolQueueCapacity: waiting lite pulls.
	LitePullThreadPoolQueueCapacity int `prop:"litePullThreadPoolQueueCapacity" def:"100000" is:"1.."`
	// AckThreadPoolQueueCapacity: waiting acks.
	AckThreadPoolQueueCapacity int `prop:"ackThreadPoolQueueCapacity" def:"100000" is:"1.."`
	// ReplyThreadPoolQueueCapacity: waiting reply messages.
	ReplyThreadPoolQueueCapacity int `prop:"replyThreadPoolQueueCapacity" def:"10000" is:"1.."`
	// QueryThreadPoolQueueCapacity: waiting queries.
	QueryThreadPoolQueueCapacity int `prop:"queryThreadPoolQueueCapacity" def:"20000" is:"1.."`
	// ClientManagerThreadPoolQueueCapacity: waiting client registrations.
	ClientManagerThreadPoolQueueCapacity int `prop:"clientManagerThreadPoolQueueCapacity" def:"1000000" is:"1.."`
	// ConsumerManagerThreadPoolQueueCapacity: waiting offset requests.
	ConsumerManagerThreadPoolQueueCapacity int `prop:"consumerManagerThreadPoolQueueCapacity" is:"1.."`
	// HeartbeatThreadPoolQueueCapacity: waiting heartbeats.
	HeartbeatThreadPoolQueueCapacity int `prop:"heartbeatThreadPoolQueueCapacity" def:"50000" is:"1.."`
	// EndTransactionPoolQueueCapacity: waiting END_TRANSACTION requests.
	EndTransactionPoolQueueCapacity int `prop:"endTransactionPoolQueueCapacity" def:"100000" is:"1.."`
	// AdminBrokerThreadPoolQueueCapacity: waiting admin requests.
	AdminBrokerThreadPoolQueueCapacity int `prop:"adminBrokerThreadPoolQueueCapacity" def:"10000" is:"1.."`
	// LoadBalanceThreadPoolQueueCapacity: waiting QUERY_ASSIGNMENT requests.
	LoadBalanceThreadPoolQueueCapacity int `prop:"loadBalanceThreadPoolQueueCapacity" def:"100000" is:"1.."`

	// Pulling, statistics.

	// LongPollingEnable: hold pulls that find nothing as long as the client asks; else
	// shortPollingTimeMills.
	LongPollingEnable bool `prop:"longPollingEnable" def:"true" is:"live"`
	// ShortPollingTimeMills: milliseconds a pull is held when longPollingEnable is false.
	ShortPollingTimeMills int64 `prop:"shortPollingTimeMills" def:"1000" is:"live"`
	// NotifyConsumerIdsChangedEnable: tell consumers when members of their group come and go.
	NotifyConsumerIdsChangedEnable bool `prop:"notifyConsumerIdsChangedEnable" def:"true" is:"live"`
	// HighSpeedMode: unused in 5.x.
	HighSpeedMode bool `prop:"highSpeedMode"`
	// CommercialBaseCount: messages counted per unit in commercial statistics.
	CommercialBaseCount int `prop:"commercialBaseCount" def:"1" is:"1.."`
	// CommercialSizePerMsg: bytes counted as one message in commercial statistics.
	CommercialSizePerMsg int `prop:"commercialSizePerMsg" def:"4096" is:"1.."`
	// AccountStatsEnable: keep per-account statistics.
	AccountStatsEnable bool `prop:"accountStatsEnable" def:"true"`
	// AccountStatsPrintZeroValues: print account statistics that are zero.
	AccountStatsPrintZeroValues bool `prop:"accountStatsPrintZeroValues" def:"true"`
	// MaxStatsIdleTimeInMinutes: minutes until unused statistics go; -1 keeps them.
	MaxStatsIdleTimeInMinutes int `prop:"maxStatsIdleTimeInMinutes" def:"-1" is:"-1.."`
	// TransferMsgByHeap: true copies pulled messages to the heap first, false sends them from the files
	// (zero copy). Java's default is true.
	TransferMsgByHeap bool `prop:"transferMsgByHeap" def:"false" is:"live"`
	// RegionId: region written into trace properties.
	RegionId string `prop:"regionId" def:"DefaultRegion"`
	// RegisterBrokerTimeoutMills: milliseconds a registration with a name server may take; 4.9: 6000.
	RegisterBrokerTimeoutMills int `prop:"registerBrokerTimeoutMills" def:"24000" is:"1.. live"`
	// SendHeartbeatTimeoutMillis: milliseconds a broker heartbeat may take.
	SendHeartbeatTimeoutMillis int `prop:"sendHeartbeatTimeoutMillis" def:"1000" is:"1.. live"`
	// SlaveReadEnable: send consumers that lag behind memory to the slave.
	SlaveReadEnable bool `prop:"slaveReadEnable" is:"live"`
	// DisableConsumeIfConsumerReadSlowly: disable groups that lag more than consumerFallbehindThreshold.
	DisableConsumeIfConsumerReadSlowly bool `prop:"disableConsumeIfConsumerReadSlowly" is:"live"`
	// ConsumerFallbehindThreshold: bytes of lag for disableConsumeIfConsumerReadSlowly; 16 GiB.
	ConsumerFallbehindThreshold int64 `prop:"consumerFallbehindThreshold" def:"17179869184" is:"live"`

	// Fast failure: how long a request may wait in its queue before it is answered SYSTEM_BUSY.

	// BrokerFastFailureEnable: answer requests that waited too long instead of serving them.
	BrokerFastFailureEnable bool `prop:"brokerFastFailureEnable" def:"true" is:"live"`
	// WaitTimeMillsInSendQueue: milliseconds for sends; usually raised to 500 or more.
	WaitTimeMillsInSendQueue int64 `prop:"waitTimeMillsInSendQueue" def:"200" is:"1.. live"`
	// WaitTimeMillsInPullQueue: milliseconds for pulls.
	WaitTimeMillsInPullQueue int64 `prop:"waitTimeMillsInPullQueue" def:"5000" is:"1.. live"`
	// WaitTimeMillsInLitePullQueue: milliseconds for lite pulls.
	WaitTimeMillsInLitePullQueue int64 `prop:"waitTimeMillsInLitePullQueue" def:"5000" is:"1.. live"`
	// WaitTimeMillsInHeartbeatQueue: milliseconds for heartbeats.
	WaitTimeMillsInHeartbeatQueue int64 `prop:"waitTimeMillsInHeartbeatQueue" def:"31000" is:"1.. live"`
	// WaitTimeMillsInTransactionQueue: milliseconds for END_TRANSACTION.
	WaitTimeMillsInTransactionQueue int64 `prop:"waitTimeMillsInTransactionQueue" def:"3000" is:"1.. live"`
	// WaitTimeMillsInAckQueue: milliseconds for acks.
	WaitTimeMillsInAckQueue int64 `prop:"waitTimeMillsInAckQueue" def:"3000" is:"1.. live"`
	// WaitTimeMillsInAdminBrokerQueue: milliseconds for admin requests.
	WaitTimeMillsInAdminBrokerQueue int64 `prop:"waitTimeMillsInAdminBrokerQueue" def:"5000" is:"1.. live"`
	// StartAcceptSendRequestTimeStamp: Unix milliseconds before which sends are refused; 0 accepts at once.
	StartAcceptSendRequestTimeStamp int64 `prop:"startAcceptSendRequestTimeStamp" is:"live"`
	// TraceOn: tell clients in the answer to send that traces are wanted.
	TraceOn bool `prop:"traceOn" def:"true" is:"live"`

	// Filters.

	// EnableCalcFilterBitMap: compute SQL92 filter bits on dispatch; needs enableConsumeQueueExt.
	EnableCalcFilterBitMap bool `prop:"enableCalcFilterBitMap"`
	// RejectPullConsumerEnable: refuse clients of the pull consumer kind.
	RejectPullConsumerEnable bool `prop:"rejectPullConsumerEnable" is:"live"`
	// ExpectConsumerNumUseFilter: consumers the filter bits are sized for.
	ExpectConsumerNumUseFilter int `prop:"expectConsumerNumUseFilter" def:"32" is:"1.."`
	// MaxErrorRateOfBloomFilter: percent of false positives the filter bits may have.
	MaxErrorRateOfBloomFilter int `prop:"maxErrorRateOfBloomFilter" def:"20" is:"1..100"`
	// FilterDataCleanTimeSpan: milliseconds filters of gone consumers are kept.
	FilterDataCleanTimeSpan int64 `prop:"filterDataCleanTimeSpan" def:"86400000" is:"1.."`
	// FilterSupportRetry: apply filters to retry topics too.
	FilterSupportRetry bool `prop:"filterSupportRetry" is:"live"`
	// EnablePropertyFilter: allow SQL92 subscriptions.
	EnablePropertyFilter bool `prop:"enablePropertyFilter" is:"live"`

	// Registration and liveness.

	// CompressedRegister: zlib-compress registrations.
	CompressedRegister bool `prop:"compressedRegister"`
	// ForceRegister: register each period even when nothing changed.
	ForceRegister bool `prop:"forceRegister" def:"true"`
	// RegisterNameServerPeriod: milliseconds between registrations, held between 10000 and 60000.
	RegisterNameServerPeriod int `prop:"registerNameServerPeriod" def:"30000" is:"1.."`
	// UpdateNameServerAddrPeriod: milliseconds between look-ups of the name server address.
	UpdateNameServerAddrPeriod int `prop:"updateNameServerAddrPeriod" def:"120000" is:"1.."`
	// BrokerHeartbeatInterval: milliseconds between broker heartbeats (acting master and controller mode).
	BrokerHeartbeatInterval int `prop:"brokerHeartbeatInterval" def:"1000" is:"1.."`
	// BrokerNotActiveTimeoutMillis: milliseconds without heartbeat until name server or controller drops the
	// broker.
	BrokerNotActiveTimeoutMillis int64 `prop:"brokerNotActiveTimeoutMillis" def:"10000" is:"1.."`
	// EnableNetWorkFlowControl: Java's netty back-pressure switch.
	EnableNetWorkFlowControl bool `prop:"enableNetWorkFlowControl"`
	// EnableBroadcastOffsetStore: keep offsets of broadcast consumers on the broker (proxy clients).
	EnableBroadcastOffsetStore bool `prop:"enableBroadcastOffsetStore" def:"true"`
	// BroadcastOffsetExpireSecond: seconds an idle broadcast offset is kept.
	BroadcastOffsetExpireSecond int64 `prop:"broadcastOffsetExpireSecond" def:"120" is:"1.."`
	// BroadcastOffsetExpireMaxSecond: seconds any broadcast offset is kept.
	BroadcastOffsetExpireMaxSecond int64 `prop:"broadcastOffsetExpireMaxSecond" def:"300" is:"1.."`

	// POP.

	// PopPollingSize: POP requests held per topic, group and queue.
	PopPollingSize int `prop:"popPollingSize" def:"1024" is:"1.."`
	// PopPollingMapSize: topic-group-queue combinations with held POP requests.
	PopPollingMapSize int `prop:"popPollingMapSize" def:"100000" is:"1.."`
	// MaxPopPollingSize: POP requests held in all.
	MaxPopPollingSize int64 `prop:"maxPopPollingSize" def:"100000" is:"1.."`
	// ReviveQueueNum: queues of the revive topic; fixed once the topic exists.
	ReviveQueueNum int `prop:"reviveQueueNum" def:"8" is:"1.."`
	// ReviveInterval: milliseconds between runs of the revive service.
	ReviveInterval int64 `prop:"reviveInterval" def:"1000" is:"1.. live"`
	// ReviveMaxSlow: runs the revive service may fall behind before it logs.
	ReviveMaxSlow int64 `prop:"reviveMaxSlow" def:"3" is:"live"`
	// ReviveScanTime: milliseconds one revive scan may take.
	ReviveScanTime int64 `prop:"reviveScanTime" def:"10000" is:"1.. live"`
	// EnableSkipLongAwaitingAck: give up acks that wait for their checkpoint longer than reviveAckWaitMs.
	EnableSkipLongAwaitingAck bool `prop:"enableSkipLongAwaitingAck" is:"live"`
	// ReviveAckWaitMs: milliseconds for enableSkipLongAwaitingAck.
	ReviveAckWaitMs int64 `prop:"reviveAckWaitMs" def:"180000" is:"1.. live"`
	// EnablePopLog: log every POP step.
	EnablePopLog bool `prop:"enablePopLog" is:"live"`
	// EnablePopBufferMerge: match checkpoints with acks in memory before they are stored.
	EnablePopBufferMerge bool `prop:"enablePopBufferMerge"`
	// PopCkStayBufferTime: milliseconds a checkpoint stays in memory.
	PopCkStayBufferTime int `prop:"popCkStayBufferTime" def:"10000" is:"1.. live"`
	// PopCkStayBufferTimeOut: milliseconds before its revive time at which a checkpoint is stored.
	PopCkStayBufferTimeOut int `prop:"popCkStayBufferTimeOut" def:"3000" is:"1.. live"`
	// PopCkMaxBufferSize: checkpoints held in memory.
	PopCkMaxBufferSize int `prop:"popCkMaxBufferSize" def:"200000" is:"1.."`
	// PopCkOffsetMaxQueueSize: checkpoints per queue waiting for their offset commit.
	PopCkOffsetMaxQueueSize int `prop:"popCkOffsetMaxQueueSize" def:"20000" is:"1.."`
	// EnablePopBatchAck: store acks of one checkpoint together.
	EnablePopBatchAck bool `prop:"enablePopBatchAck" is:"live"`
	// PopLongPollingForceNotifyInterval: messages after which a held POP with a filter is woken whatever the
	// filter says.
	PopLongPollingForceNotifyInterval int64 `prop:"popLongPollingForceNotifyInterval" def:"800" is:"1.. live"`
	// EnableNotifyBeforePopCalculateLag: wake held POPs before the lag is computed.
	EnableNotifyBeforePopCalculateLag bool `prop:"enableNotifyBeforePopCalculateLag" def:"true" is:"live"`
	// EnableNotifyAfterPopOrderLockRelease: wake held POPs when an ordered queue is unlocked.
	EnableNotifyAfterPopOrderLockRelease bool `prop:"enableNotifyAfterPopOrderLockRelease" def:"true" is:"live"`
	// InitPopOffsetByCheckMsgInMem: start a new POP group at the end only if the oldest message left memory.
	InitPopOffsetByCheckMsgInMem bool `prop:"initPopOffsetByCheckMsgInMem" def:"true" is:"live"`
	// RetrieveMessageFromPopRetryTopicV1: also read POP retry topics named the old way.
	RetrieveMessageFromPopRetryTopicV1 bool `prop:"retrieveMessageFromPopRetryTopicV1" def:"true" is:"live"`
	// EnableRetryTopicV2: name POP retry topics with '+' between group and topic.
	EnableRetryTopicV2 bool `prop:"enableRetryTopicV2" is:"live"`
	// PopFromRetryProbability: percent of POPs that look into the retry topic first.
	PopFromRetryProbability int `prop:"popFromRetryProbability" def:"20" is:"..100 live"`
	// PopConsumerFSServiceInit: start the file based POP service.
	PopConsumerFSServiceInit bool `prop:"popConsumerFSServiceInit" def:"true"`
	// PopConsumerKVServiceLog: log every step of the RocksDB based POP service.
	PopConsumerKVServiceLog bool `prop:"popConsumerKVServiceLog" is:"live"`
	// PopConsumerKVServiceInit: start the RocksDB based POP service.
	PopConsumerKVServiceInit bool `prop:"popConsumerKVServiceInit"`
	// PopConsumerKVServiceEnable: serve POP by the RocksDB based service.
	PopConsumerKVServiceEnable bool `prop:"popConsumerKVServiceEnable"`
	// PopReviveMaxReturnSizePerRead: records one read of the RocksDB based revive returns.
	PopReviveMaxReturnSizePerRead int `prop:"popReviveMaxReturnSizePerRead" def:"16384" is:"1.. live"`
	// PopReviveMaxAttemptTimes: tries to revive one record before it is dropped.
	PopReviveMaxAttemptTimes int `prop:"popReviveMaxAttemptTimes" def:"16" is:"1.. live"`

	// Load balance, requests.

	// RealTimeNotifyConsumerChange: tell a group at once when its members change.
	RealTimeNotifyConsumerChange bool `prop:"realTimeNotifyConsumerChange" def:"true" is:"live"`
	// LitePullMessageEnable: serve LITE_PULL_MESSAGE.
	LitePullMessageEnable bool `prop:"litePullMessageEnable" def:"true" is:"live"`
	// SyncBrokerMemberGroupPeriod: milliseconds between look-ups of the other members of the broker set.
	SyncBrokerMemberGroupPeriod int `prop:"syncBrokerMemberGroupPeriod" def:"1000" is:"1.."`
	// LoadBalancePollNameServerInterval: milliseconds between route look-ups for QUERY_ASSIGNMENT.
	LoadBalancePollNameServerInterval int64 `prop:"loadBalancePollNameServerInterval" def:"30000" is:"1.."`
	// CleanOfflineBrokerInterval: milliseconds between clean-ups of gone brokers.
	CleanOfflineBrokerInterval int `prop:"cleanOfflineBrokerInterval" def:"30000" is:"1.."`
	// ServerLoadBalancerEnable: let the broker assign queues (QUERY_ASSIGNMENT).
	ServerLoadBalancerEnable bool `prop:"serverLoadBalancerEnable" def:"true" is:"live"`
	// DefaultMessageRequestMode: how groups without their own setting fetch.
	DefaultMessageRequestMode MessageRequestMode `prop:"defaultMessageRequestMode" def:"PULL" is:"live"`
	// DefaultPopShareQueueNum: queues a POP group shares per consumer; -1 means all.
	DefaultPopShareQueueNum int `prop:"defaultPopShareQueueNum" def:"-1" is:"-1.. live"`

	// Transactions.

	// TransactionTimeOut: milliseconds before a half message is checked first.
	TransactionTimeOut int64 `prop:"transactionTimeOut" def:"6000" is:"1.. live"`
	// TransactionCheckMax: checks before a half message is given up (goes to TRANS_CHECK_MAX_TIME_TOPIC).
	TransactionCheckMax int `prop:"transactionCheckMax" def:"15" is:"1.. live"`
	// TransactionCheckInterval: milliseconds between check rounds; 4.9: 60000.
	TransactionCheckInterval int64 `prop:"transactionCheckInterval" def:"30000" is:"1.. live"`
	// TransactionMetricFlushInterval: milliseconds between writes of transactionMetrics.
	TransactionMetricFlushInterval int64 `prop:"transactionMetricFlushInterval" def:"3000" is:"1.."`
	// TransactionOpMsgMaxSize: bytes of one op message.
	TransactionOpMsgMaxSize int `prop:"transactionOpMsgMaxSize" def:"4096" is:"1.."`
	// TransactionOpBatchInterval: milliseconds op entries are gathered.
	TransactionOpBatchInterval int `prop:"transactionOpBatchInterval" def:"3000" is:"1.."`
	// AclEnable: ACL 1.x by plain_acl.yml; 5.3 ignores it.
	AclEnable bool `prop:"aclEnable"`
	// StoreReplyMessageEnable: store reply messages.
	StoreReplyMessageEnable bool `prop:"storeReplyMessageEnable" def:"true" is:"live"`
	// EnableDetailStat: keep statistics by topic, queue and group.
	EnableDetailStat bool `prop:"enableDetailStat" def:"true" is:"live"`
	// AutoDeleteUnusedStats: drop statistics of deleted topics and groups; 4.9: false.
	AutoDeleteUnusedStats bool `prop:"autoDeleteUnusedStats" def:"true" is:"live"`
	// IsolateLogEnable: log into a directory per broker name and id.
	IsolateLogEnable bool `prop:"isolateLogEnable"`
	// ForwardTimeout: milliseconds for requests passed on to another broker.
	ForwardTimeout int64 `prop:"forwardTimeout" def:"3000" is:"1.. live"`

	// Acting master, controller.

	// EnableSlaveActingMaster: let the slave with the smallest id take over when the master is gone.
	EnableSlaveActingMaster bool `prop:"enableSlaveActingMaster"`
	// EnableRemoteEscape: let an acting master send to other broker sets.
	EnableRemoteEscape bool `prop:"enableRemoteEscape"`
	// SkipPreOnline: go online without waiting for the other replicas.
	SkipPreOnline bool `prop:"skipPreOnline"`
	// AsyncSendEnable: serve sends without holding a worker until flush and replication are done.
	AsyncSendEnable bool `prop:"asyncSendEnable" def:"true" is:"live"`
	// UseServerSideResetOffset: reset consumer offsets on the broker.
	UseServerSideResetOffset bool `prop:"useServerSideResetOffset" def:"true" is:"live"`
	// ConsumerOffsetUpdateVersionStep: offset commits per new data version.
	ConsumerOffsetUpdateVersionStep int64 `prop:"consumerOffsetUpdateVersionStep" def:"500" is:"1.."`
	// DelayOffsetUpdateVersionStep: delay offset updates per new data version.
	DelayOffsetUpdateVersionStep int64 `prop:"delayOffsetUpdateVersionStep" def:"200" is:"1.."`
	// LockInStrictMode: queue locks need all replicas of a quorum, not one.
	LockInStrictMode bool `prop:"lockInStrictMode" is:"live"`
	// CompatibleWithOldNameSrv: also send what 4.x name servers understand.
	CompatibleWithOldNameSrv bool `prop:"compatibleWithOldNameSrv" def:"true"`
	// EnableControllerMode: let a controller choose the master.
	EnableControllerMode bool `prop:"enableControllerMode"`
	// ControllerAddr: controllers as "host:port;host:port".
	ControllerAddr string `prop:"controllerAddr"`
	// FetchControllerAddrByDnsLookup: resolve controllerAddr by DNS again and again.
	FetchControllerAddrByDnsLookup bool `prop:"fetchControllerAddrByDnsLookup"`
	// SyncBrokerMetadataPeriod: milliseconds between look-ups of the own role.
	SyncBrokerMetadataPeriod int64 `prop:"syncBrokerMetadataPeriod" def:"5000" is:"1.."`
	// CheckSyncStateSetPeriod: milliseconds between checks of the SyncStateSet.
	CheckSyncStateSetPeriod int64 `prop:"checkSyncStateSetPeriod" def:"5000" is:"1.."`
	// SyncControllerMetadataPeriod: milliseconds between look-ups of the active controller.
	SyncControllerMetadataPeriod int64 `prop:"syncControllerMetadataPeriod" def:"10000" is:"1.."`
	// ControllerHeartBeatTimeoutMills: milliseconds without heartbeat until the controller drops this
	// broker. Java: 10000.
	ControllerHeartBeatTimeoutMills int64 `prop:"controllerHeartBeatTimeoutMills" def:"2500" is:"1.."`
	// ValidateSystemTopicWhenUpdateTopic: refuse UPDATE_AND_CREATE_TOPIC for system topics.
	ValidateSystemTopicWhenUpdateTopic bool `prop:"validateSystemTopicWhenUpdateTopic" def:"true" is:"live"`
	// BrokerElectionPriority: the smallest value is elected first.
	BrokerElectionPriority int `prop:"brokerElectionPriority" def:"2147483647"`
	// UseStaticSubscription: take subscriptions from the group's configuration, not from heartbeats.
	UseStaticSubscription bool `prop:"useStaticSubscription" is:"live"`

	// Metrics.

	// MetricsExporterType: how metrics leave; the numbers 0 to 3 are taken too.
	MetricsExporterType MetricsExporterType `prop:"metricsExporterType" def:"DISABLE"`
	// MetricsOtelCardinalityLimit: label sets per metric.
	MetricsOtelCardinalityLimit int `prop:"metricsOtelCardinalityLimit" def:"50000" is:"1.."`
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
	// MetricsPromExporterHost: address of the Prometheus page; empty means brokerIP1.
	MetricsPromExporterHost string `prop:"metricsPromExporterHost"`
	// MetricsLabel: labels added to every metric as "k:v,k:v".
	MetricsLabel string `prop:"metricsLabel"`
	// MetricsInDelta: export differences instead of totals.
	MetricsInDelta bool `prop:"metricsInDelta"`

	// Clients, cold reads, registration.

	// ChannelExpiredTimeout: milliseconds without heartbeat until a client is dropped.
	ChannelExpiredTimeout int64 `prop:"channelExpiredTimeout" def:"120000" is:"1.. live"`
	// SubscriptionExpiredTimeout: milliseconds until the subscription of a gone consumer is dropped.
	SubscriptionExpiredTimeout int64 `prop:"subscriptionExpiredTimeout" def:"600000" is:"1.. live"`
	// EstimateAccumulation: estimate the lag of tag subscriptions instead of counting.
	EstimateAccumulation bool `prop:"estimateAccumulation" def:"true" is:"live"`
	// ColdCtrStrategyEnable: adapt the cold-read limits.
	ColdCtrStrategyEnable bool `prop:"coldCtrStrategyEnable" is:"live"`
	// UsePIDColdCtrStrategy: adapt them by PID control.
	UsePIDColdCtrStrategy bool `prop:"usePIDColdCtrStrategy" def:"true"`
	// CgColdReadThreshold: bytes of cold reads per second and group.
	CgColdReadThreshold int64 `prop:"cgColdReadThreshold" def:"3145728" is:"1.. live"`
	// GlobalColdReadThreshold: bytes of cold reads per second in all.
	GlobalColdReadThreshold int64 `prop:"globalColdReadThreshold" def:"104857600" is:"1.. live"`
	// FetchNamesrvAddrInterval: milliseconds between look-ups at the address server.
	FetchNamesrvAddrInterval int64 `prop:"fetchNamesrvAddrInterval" def:"10000" is:"1.."`
	// PopResponseReturnActualRetryTopic: POP answers name the retry topic instead of the original one.
	PopResponseReturnActualRetryTopic bool `prop:"popResponseReturnActualRetryTopic" is:"live"`
	// EnableSingleTopicRegister: register changed topics one by one.
	EnableSingleTopicRegister bool `prop:"enableSingleTopicRegister"`
	// EnableMixedMessageType: allow several message types in one topic.
	EnableMixedMessageType bool `prop:"enableMixedMessageType" is:"live"`
	// EnableSplitRegistration: register in several requests.
	EnableSplitRegistration bool `prop:"enableSplitRegistration"`
	// PopInflightMessageThreshold: unacked messages per topic and group for enablePopMessageThreshold.
	PopInflightMessageThreshold int64 `prop:"popInflightMessageThreshold" def:"10000" is:"1.. live"`
	// EnablePopMessageThreshold: stop POP when popInflightMessageThreshold is reached.
	EnablePopMessageThreshold bool `prop:"enablePopMessageThreshold" is:"live"`
	// EnableFastChannelEventProcess: handle connection events of clients on their own worker.
	EnableFastChannelEventProcess bool `prop:"enableFastChannelEventProcess"`
	// PrintChannelGroups: log groups with many connections.
	PrintChannelGroups bool `prop:"printChannelGroups" is:"live"`
	// PrintChannelGroupsMinNum: connections from which printChannelGroups logs.
	PrintChannelGroupsMinNum int `prop:"printChannelGroupsMinNum" def:"5" is:"1.. live"`
	// SplitRegistrationSize: topics per request of enableSplitRegistration.
	SplitRegistrationSize int `prop:"splitRegistrationSize" def:"800" is:"1.."`
	// ConfigBlackList: keys, ';' between, that UPDATE_BROKER_CONFIG refuses besides the built-in ones (see
	// BlackList).
	ConfigBlackList string `prop:"configBlackList" def:"configBlackList;brokerConfigPath" is:"fixed"`
	// SkipWhenCKRePutReachMaxTimes: drop a checkpoint stored again too often instead of going on.
	SkipWhenCKRePutReachMaxTimes bool `prop:"skipWhenCKRePutReachMaxTimes" is:"live"`
	// AppendAckAsync: do not wait until an ack is stored.
	AppendAckAsync bool `prop:"appendAckAsync" is:"live"`
	// AppendCkAsync: do not wait until a checkpoint is stored.
	AppendCkAsync bool `prop:"appendCkAsync" is:"live"`
	// ClearRetryTopicWhenDeleteTopic: delete the POP retry topics with their topic.
	ClearRetryTopicWhenDeleteTopic bool `prop:"clearRetryTopicWhenDeleteTopic" def:"true" is:"live"`
	// EnableLmqStats: keep statistics for light queues.
	EnableLmqStats bool `prop:"enableLmqStats" is:"live"`
	// ConfigManagerVersion: v1 keeps topics and groups in JSON files, v2 in RocksDB.
	ConfigManagerVersion string `prop:"configManagerVersion" def:"v1" one:"v1|v2"`
	// AllowRecallWhenBrokerNotWriteable: recall delayed messages also while the broker is not writable.
	AllowRecallWhenBrokerNotWriteable bool `prop:"allowRecallWhenBrokerNotWriteable" def:"true" is:"live"`
	// RecallMessageEnable: serve RECALL_MESSAGE.
	RecallMessageEnable bool `prop:"recallMessageEnable" is:"live"`
	// EnableRegisterProducer: keep a table of producers.
	EnableRegisterProducer bool `prop:"enableRegisterProducer" def:"true" is:"live"`
	// EnableCreateSysGroup: make the system consumer groups at start.
	EnableCreateSysGroup bool `prop:"enableCreateSysGroup" def:"true"`

	// After 5.3.3.

	// PopPollingMapExpireTimeSeconds: seconds an idle combination of popPollingMapSize is kept. After 5.3.3.
	PopPollingMapExpireTimeSeconds int `prop:"popPollingMapExpireTimeSeconds" def:"600" is:"1.."`
	// EnableRemotingMetrics: export remoting metrics. After 5.3.3, as the next seven.
	EnableRemotingMetrics bool `prop:"enableRemotingMetrics" def:"true"`
	// EnableMessageStoreMetrics: export store metrics.
	EnableMessageStoreMetrics bool `prop:"enableMessageStoreMetrics" def:"true"`
	// EnablePopMetrics: export POP metrics.
	EnablePopMetrics bool `prop:"enablePopMetrics" def:"true"`
	// EnableConnectionMetrics: export connection metrics.
	EnableConnectionMetrics bool `prop:"enableConnectionMetrics" def:"true"`
	// EnableTransactionMetrics: export transaction metrics.
	EnableTransactionMetrics bool `prop:"enableTransactionMetrics" def:"true"`
	// EnableStatsMetrics: export send and consume metrics.
	EnableStatsMetrics bool `prop:"enableStatsMetrics" def:"true"`
	// EnableRequestMetrics: export request metrics.
	EnableRequestMetrics bool `prop:"enableRequestMetrics" def:"true"`
	// EnableLagAndDlqMetrics: export lag and dead-letter metrics.
	EnableLagAndDlqMetrics bool `prop:"enableLagAndDlqMetrics" def:"true"`
	// EnableSplitMetadata: slaves fetch topics and groups in parts. After 5.3.3.
	EnableSplitMetadata bool `prop:"enableSplitMetadata" def:"true" is:"live"`
	// SplitMetadataSize: entries per part of enableSplitMetadata. After 5.3.3.
	SplitMetadataSize int `prop:"splitMetadataSize" def:"2000" is:"1.. live"`

	// 4.9 only, read so that old files load without warnings.

	// FilterServerNums: 4.9: filter servers to start; has no effect.
	FilterServerNums int `prop:"filterServerNums"`
	// CommercialEnable: 4.9: commercial statistics; has no effect.
	CommercialEnable bool `prop:"commercialEnable" def:"true"`
	// CommercialTimerCount: 4.9; has no effect.
	CommercialTimerCount int `prop:"commercialTimerCount" def:"1"`
	// CommercialTransCount: 4.9; has no effect.
	CommercialTransCount int `prop:"commercialTransCount" def:"1"`
	// CommercialBigCount: 4.9; has no effect.
	CommercialBigCount int `prop:"commercialBigCount" def:"1"`
	// MaxDelayTime: 4.9; has no effect.
	MaxDelayTime int `prop:"maxDelayTime" def:"40"`
}
