package codec

import "strings"

// System topics (Java TopicValidator; spec messages.md §8).
const (
	AutoCreateTopicKey     = "TBW102" // the template of automatic creation
	ScheduleTopic          = "SCHEDULE_TOPIC_XXXX"
	BenchmarkTopic         = "BenchmarkTest"
	HalfTopic              = "RMQ_SYS_TRANS_HALF_TOPIC"
	OpHalfTopic            = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	TransCheckMaxTimeTopic = "TRANS_CHECK_MAX_TIME_TOPIC" // discarded half messages
	TraceTopic             = "RMQ_SYS_TRACE_TOPIC"
	SelfTestTopic          = "SELF_TEST_TOPIC"
	OffsetMovedEventTopic  = "OFFSET_MOVED_EVENT"
	RocksDBOffsetTopic     = "CHECKPOINT_TOPIC"
	TimerTopic             = SystemTopicPrefix + "wheel_timer"
	// HeartbeatSyncerTopic is what 5.x proxies create at start to share their clients' heartbeats.
	HeartbeatSyncerTopic = "DefaultHeartBeatSyncerTopic"
)

// Prefixes and parts of names (Java MixAll, KeyBuilder, PopAckConstants).
const (
	SystemTopicPrefix           = "rmq_sys_"
	ReviveTopicPrefix           = SystemTopicPrefix + "REVIVE_LOG_"
	SyncBrokerMemberGroupPrefix = SystemTopicPrefix + "SYNC_BROKER_MEMBER_"
	RetryTopicPrefix            = "%RETRY%"
	DLQTopicPrefix              = "%DLQ%"
	LMQPrefix                   = "%LMQ%"
	LMQDispatchSeparator        = ","
	ReplyTopicPostfix           = "REPLY_TOPIC"
	LogicalQueueBrokerPrefix    = "__syslo__" // broker names of static topics
	MetadataScopeGlobal         = "__global__"
	TopicGroupSeparator         = "@" // of the keys "topic@group" of offset tables and statistics
)

// System groups (Java MixAll, PopAckConstants; spec messages.md §7).
const (
	SystemGroupPrefix         = "CID_RMQ_SYS_"
	TransGroup                = "CID_RMQ_SYS_TRANS"
	ReviveGroup               = "CID_RMQ_SYS_REVIVE_GROUP"
	DefaultProducerGroup      = "DEFAULT_PRODUCER"
	DefaultConsumerGroup      = "DEFAULT_CONSUMER"
	ToolsConsumerGroup        = "TOOLS_CONSUMER"
	ScheduleConsumerGroup     = "SCHEDULE_CONSUMER"
	FilterServerConsumerGroup = "FILTERSRV_CONSUMER"
	MonitorConsumerGroup      = "__MONITOR_CONSUMER"
	InnerProducerGroup        = "CLIENT_INNER_PRODUCER"
	SelfTestProducerGroup     = "SELF_TEST_P_GROUP"
	SelfTestConsumerGroup     = "SELF_TEST_C_GROUP"
	HTTPProxyGroup            = "CID_ONS-HTTP-PROXY"
	APIPermissionGroup        = "CID_ONSAPI_PERMISSION"
	APIOwnerGroup             = "CID_ONSAPI_OWNER"
	APIPullGroup              = "CID_ONSAPI_PULL"
)

// Names of extFields that belong to no header struct.
const (
	ExtUniqueKeyQuery       = "_UNIQUE_KEY_QUERY"        // QUERY_MESSAGE: the key is a UNIQ_KEY
	ExtSupportHeartbeatV2   = "IS_SUPPORT_HEART_BEAT_V2" // HEART_BEAT answer
	ExtSubscriptionChanged  = "IS_SUB_CHANGE"            // HEART_BEAT answer
	ExtZoneName             = "__ZONE_NAME"
	ExtZoneMode             = "__ZONE_MODE"
	ExtNamespace            = "ns"
	ExtNamespaced           = "nsd"
	ExtBrokerName           = "bname"
	ExtOneway               = "oway"
	ExtLogical              = "lo"
	ExtAccessKey            = "AccessKey"
	ExtSignature            = "Signature"
	ExtSecurityToken        = "SecurityToken"
	ExtCommitLogReadAhead   = "READ_AHEAD_MODE"
	ExtStandardJSONOnly     = "acceptStandardJsonOnly"
	DefaultRegionID         = "DefaultRegion" // of PropMsgRegion
	ReplyMessageFlag        = "reply"         // of PropMessageType
	OrderTopicConfNamespace = "ORDER_TOPIC_CONFIG"
)

// Message property names (Java MessageConst; spec messages.md §3.1).
const (
	PropKeys                     = "KEYS"
	PropTags                     = "TAGS"
	PropWaitStoreMsgOK           = "WAIT"
	PropDelayTimeLevel           = "DELAY"
	PropRetryTopic               = "RETRY_TOPIC"
	PropRealTopic                = "REAL_TOPIC"
	PropRealQueueID              = "REAL_QID"
	PropTransactionPrepared      = "TRAN_MSG"
	PropProducerGroup            = "PGROUP"
	PropMinOffset                = "MIN_OFFSET"
	PropMaxOffset                = "MAX_OFFSET"
	PropBuyerID                  = "BUYER_ID"
	PropOriginMessageID          = "ORIGIN_MESSAGE_ID"
	PropTransferFlag             = "TRANSFER_FLAG"
	PropCorrectionFlag           = "CORRECTION_FLAG"
	PropMQ2Flag                  = "MQ2_FLAG"
	PropReconsumeTime            = "RECONSUME_TIME"
	PropMsgRegion                = "MSG_REGION"
	PropTraceSwitch              = "TRACE_ON"
	PropUniqKey                  = "UNIQ_KEY"
	PropExtendUniqInfo           = "EXTEND_UNIQ_INFO"
	PropMaxReconsumeTimes        = "MAX_RECONSUME_TIMES"
	PropConsumeStartTimestamp    = "CONSUME_START_TIME"
	PropInnerNum                 = "INNER_NUM"
	PropInnerBase                = "INNER_BASE"
	PropDupInfo                  = "DUP_INFO"
	PropCheckImmunityTimeSeconds = "CHECK_IMMUNITY_TIME_IN_SECONDS"
	PropTransPreparedQueueOffset = "TRAN_PREPARED_QUEUE_OFFSET"
	PropTransactionID            = "__transactionId__"
	PropTransactionCheckTimes    = "TRANSACTION_CHECK_TIMES"
	PropInstanceID               = "INSTANCE_ID"
	PropCorrelationID            = "CORRELATION_ID"
	PropReplyToClient            = "REPLY_TO_CLIENT"
	PropMessageTTL               = "TTL"
	PropReplyArriveTime          = "ARRIVE_TIME"
	PropPushReplyTime            = "PUSH_REPLY_TIME"
	PropCluster                  = "CLUSTER"
	PropMessageType              = "MSG_TYPE"
	PropPopCK                    = "POP_CK"
	PropPopCKOffset              = "POP_CK_OFFSET"
	PropFirstPopTime             = "1ST_POP_TIME"
	PropShardingKey              = "__SHARDINGKEY"
	PropForwardQueueID           = "PROPERTY_FORWARD_QUEUE_ID"
	PropRedirect                 = "REDIRECT"
	PropInnerMultiDispatch       = "INNER_MULTI_DISPATCH"
	PropInnerMultiQueueOffset    = "INNER_MULTI_QUEUE_OFFSET"
	PropTraceContext             = "TRACE_CONTEXT"
	PropTimerDelaySec            = "TIMER_DELAY_SEC"
	PropTimerDeliverMs           = "TIMER_DELIVER_MS"
	PropTimerDelayMs             = "TIMER_DELAY_MS"
	PropTimerEnqueueMs           = "TIMER_ENQUEUE_MS"
	PropTimerDequeueMs           = "TIMER_DEQUEUE_MS"
	PropTimerRollTimes           = "TIMER_ROLL_TIMES"
	PropTimerOutMs               = "TIMER_OUT_MS"
	PropTimerDelUniqKey          = "TIMER_DEL_UNIQKEY"
	PropTimerDelayLevel          = "TIMER_DELAY_LEVEL"
	PropBornHost                 = "__BORNHOST"
	PropBornTimestamp            = "BORN_TIMESTAMP"
	PropTransientPrefix          = "__RMQ.TRANSIENT."
	PropCRC32                    = "__CRC32#"
	PropDLQOriginTopic           = "DLQ_ORIGIN_TOPIC"
	PropDLQOriginMessageID       = "DLQ_ORIGIN_MESSAGE_ID"
	// KeySeparator stands between the keys of PropKeys.
	KeySeparator = " "
)

// Bits of a topic's perm (Java PermName). Valid values are 0 to 7; PermPriority is never set by tools.
const (
	PermInherit  = 1 << 0
	PermWrite    = 1 << 1
	PermRead     = 1 << 2
	PermPriority = 1 << 3
)

// PermString is a perm for people: "RW-", with X for PermInherit (Java PermName.perm2String).
func PermString(perm int) string {
	b := []byte("---")
	if perm&PermRead != 0 {
		b[0] = 'R'
	}
	if perm&PermWrite != 0 {
		b[1] = 'W'
	}
	if perm&PermInherit != 0 {
		b[2] = 'X'
	}
	return string(b)
}

// Bits of a message's sysFlag (Java MessageSysFlag; spec messages.md §5).
const (
	SysFlagCompressed          int32 = 0x1
	SysFlagMultiTags           int32 = 0x2
	SysFlagTransactionNone     int32 = 0
	SysFlagTransactionPrepared int32 = 0x4
	SysFlagTransactionCommit   int32 = 0x8
	SysFlagTransactionRollback int32 = 0xC
	SysFlagTransactionMask     int32 = 0xC
	SysFlagBornHostV6          int32 = 0x10
	SysFlagStoreHostV6         int32 = 0x20
	SysFlagNeedUnwrap          int32 = 0x40
	SysFlagInnerBatch          int32 = 0x80
	SysFlagCompressionLZ4      int32 = 1 << 8
	SysFlagCompressionZSTD     int32 = 2 << 8
	SysFlagCompressionZlib     int32 = 3 << 8
	SysFlagCompressionMask     int32 = 7 << 8
)

// Bits of a pull request's sysFlag (Java PullSysFlag).
const (
	PullFlagCommitOffset int32 = 0x1
	PullFlagSuspend      int32 = 0x2
	PullFlagSubscription int32 = 0x4
	PullFlagClassFilter  int32 = 0x8
	PullFlagLitePull     int32 = 0x10
)

// Bits of a topic's and a group's sysFlag (Java TopicSysFlag, SubscriptionSysFlag).
const (
	TopicFlagUnit    int32 = 0x1
	TopicFlagUnitSub int32 = 0x2
	GroupFlagUnit    int32 = 0x1
)

// MasterID is the BrokerID of a master.
const MasterID = 0

// PopOrderReviveQueue is the revive queue id that marks an orderly pop (Java
// KeyBuilder.POP_ORDER_REVIVE_QUEUE).
const PopOrderReviveQueue = 999

// RetryTopic is the topic of a group's retries.
func RetryTopic(group string) string { return RetryTopicPrefix + group }

// DLQTopic is the topic of a group's dead letters.
func DLQTopic(group string) string { return DLQTopicPrefix + group }

// PopRetryTopicV1 is where a group's POP retries of topic go by default (enableRetryTopicV2=false).
func PopRetryTopicV1(topic, group string) string { return RetryTopicPrefix + group + "_" + topic }

// PopRetryTopicV2 is the same with enableRetryTopicV2; its "+" is outside the alphabet of names, so that no
// group and topic can collide.
func PopRetryTopicV2(topic, group string) string { return RetryTopicPrefix + group + "+" + topic }

// ReviveTopic holds the POP check points and acks of a cluster's brokers.
func ReviveTopic(cluster string) string { return ReviveTopicPrefix + cluster }

// ReplyTopic is the topic of request-reply answers of a cluster.
func ReplyTopic(cluster string) string { return cluster + "_" + ReplyTopicPostfix }

// SyncBrokerMemberTopic lets brokers of one name find each other by a route.
func SyncBrokerMemberTopic(brokerName string) string { return SyncBrokerMemberGroupPrefix + brokerName }

// IsRetryTopic tells whether topic carries retries of a group, POP retries included.
func IsRetryTopic(topic string) bool { return strings.HasPrefix(topic, RetryTopicPrefix) }

// IsDLQTopic tells whether topic carries dead letters of a group.
func IsDLQTopic(topic string) bool { return strings.HasPrefix(topic, DLQTopicPrefix) }

// IsLMQ tells whether the queue or topic name is that of a light message queue.
func IsLMQ(name string) bool { return strings.HasPrefix(name, LMQPrefix) }

// IsPopRetryTopicV2 tells whether topic was made by PopRetryTopicV2.
func IsPopRetryTopicV2(topic string) bool {
	return IsRetryTopic(topic) && strings.IndexByte(topic, '+') >= 0
}

// GroupOfRetryTopic is the group of a retry topic: what follows %RETRY%, up to the "+" of a V2 POP retry
// topic. A V1 POP retry topic cannot be told from a plain one, its "_topic" stays (Java
// KeyBuilder.parseGroup). Other names are returned unchanged.
func GroupOfRetryTopic(topic string) string {
	group, ok := strings.CutPrefix(topic, RetryTopicPrefix)
	if !ok {
		return topic
	}
	group, _, _ = strings.Cut(group, "+")
	return group
}

// NormalTopicOf is the topic whose POP retries of group the retry topic holds, V1 or V2; other names are
// returned unchanged (Java KeyBuilder.parseNormalTopic).
func NormalTopicOf(topic, group string) string {
	rest, ok := strings.CutPrefix(topic, RetryTopicPrefix)
	if !ok {
		return topic
	}
	rest, ok = strings.CutPrefix(rest, group)
	if !ok || len(rest) < 2 || rest[0] != '+' && rest[0] != '_' {
		return topic
	}
	return rest[1:]
}

// IsSystemTopic tells whether topic is one of the broker's own. A broker adds the names of its cluster, its
// own name and the reply topic to these.
func IsSystemTopic(topic string) bool {
	switch topic {
	case AutoCreateTopicKey, ScheduleTopic, BenchmarkTopic, HalfTopic, TraceTopic, OpHalfTopic,
		TransCheckMaxTimeTopic,
		SelfTestTopic, OffsetMovedEventTopic, RocksDBOffsetTopic:
		return true
	}
	return strings.HasPrefix(topic, SystemTopicPrefix)
}

// IsSendForbidden tells whether clients may not send to topic: NO_PERMISSION (Java isNotAllowedSendTopic).
func IsSendForbidden(topic string) bool {
	switch topic {
	case ScheduleTopic, HalfTopic, OpHalfTopic, TransCheckMaxTimeTopic, SelfTestTopic, OffsetMovedEventTopic:
		return true
	}
	return false
}

// IsSystemGroup tells whether group is of the broker's own kind: CID_RMQ_SYS_… (Java
// MixAll.isSysConsumerGroup).
func IsSystemGroup(group string) bool { return strings.HasPrefix(group, SystemGroupPrefix) }

// IsPredefinedGroup tells whether group is one that Java knows by name (MixAll.PREDEFINE_GROUP_SET).
func IsPredefinedGroup(group string) bool {
	switch group {
	case DefaultConsumerGroup, DefaultProducerGroup, ToolsConsumerGroup, ScheduleConsumerGroup,
		FilterServerConsumerGroup,
		MonitorConsumerGroup, InnerProducerGroup, SelfTestProducerGroup, SelfTestConsumerGroup, HTTPProxyGroup,
		APIPermissionGroup, APIOwnerGroup, APIPullGroup, TransGroup:
		return true
	}
	return false
}
