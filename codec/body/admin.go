package body

import "skylark/codec"

// KVTable is a table of texts: GET_BROKER_RUNTIME_INFO (28), GET_KVLIST_BY_NAMESPACE (219), REGISTER_BROKER's
// answer.
type KVTable struct {
	Table map[string]string `json:"table"`
}

// KVConfigSerializeWrapper is the text of the name server's kvConfig.json: namespace to key to value.
type KVConfigSerializeWrapper struct {
	ConfigTable map[string]map[string]string `json:"configTable"`
}

// TopicList answers the topic list requests (206, 224, 304, 305, 311 to 313, 343).
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitnull"` // 304: a broker to ask for more
	TopicList  []string `json:"topicList"`
}

// BrokerStatsItem is one window of a statistic.
type BrokerStatsItem struct {
	AvgPT float64 `json:"avgpt"` // sum per event
	Sum   int64   `json:"sum"`
	TPS   float64 `json:"tps"`
}

// BrokerStatsData answers VIEW_BROKER_STATS_DATA (315).
type BrokerStatsData struct {
	StatsDay    *BrokerStatsItem `json:"statsDay"`
	StatsHour   *BrokerStatsItem `json:"statsHour"`
	StatsMinute *BrokerStatsItem `json:"statsMinute"`
}

// ConsumerOffsetSerializeWrapper answers GET_ALL_CONSUMER_OFFSET (43), and is the text of
// consumerOffset.json: offsets by "topic@group" and queue id. 4.9 has no DataVersion. LmqOffsetTable, by "topic@group", is
// there with enableLmq, in lmqConsumerOffset.json.
type ConsumerOffsetSerializeWrapper struct {
	DataVersion *DataVersion `json:"dataVersion"`

	LmqOffsetTable map[string]codec.QueueOffset `json:"lmqOffsetTable,omitnull"`

	OffsetTable map[string]map[int32]codec.QueueOffset `json:"offsetTable"`
}

// DelayOffsetSerializeWrapper answers GET_ALL_DELAY_OFFSET (45), and is the text of delayOffset.json: offsets
// by delay level. 4.9 has no DataVersion.
type DelayOffsetSerializeWrapper struct {
	DataVersion *DataVersion                `json:"dataVersion"`
	OffsetTable map[int32]codec.QueueOffset `json:"offsetTable"`
}

// TimerMetric is how many timer messages of a topic wait.
type TimerMetric struct {
	Count     int64 `json:"count"`
	TimeStamp int64 `json:"timeStamp"` // milliseconds
}

// TimerMetricsSerializeWrapper answers GET_TIMER_METRICS (61), and is the text of timermetrics; by topic.
type TimerMetricsSerializeWrapper struct {
	DataVersion DataVersion             `json:"dataVersion"`
	TimingCount map[string]*TimerMetric `json:"timingCount"`
}

// ColdDataFlowCtrInfo answers GET_COLD_DATA_FLOW_CTR_INFO (2003).
type ColdDataFlowCtrInfo struct {
	CgColdReadThreshold     int64                    `json:"cgColdReadThreshold"`
	ConfigTable             map[string]int64         `json:"configTable"`
	GlobalAcc               int64                    `json:"globalAcc"`
	GlobalColdReadThreshold int64                    `json:"globalColdReadThreshold"`
	RuntimeTable            map[string]*ColdDataRead `json:"runtimeTable"` // by group
}

// ColdDataRead is what a group has read of cold data (Java AccAndTimeStamp).
type ColdDataRead struct {
	ColdAcc                int64 `json:"coldAcc"`               // bytes
	CreateTimeMillis       int64 `json:"createTimeMills"`       // sic
	LastColdReadTimeMillis int64 `json:"lastColdReadTimeMills"` // sic
}

// CheckRocksDBCQWriteResult answers CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354).
type CheckRocksDBCQWriteResult struct {
	CheckResult string `json:"checkResult,omitnull"`
	CheckStatus int32  `json:"checkStatus"` // 0 ok, 1 not ok, 2 in progress, 3 error
}

// UserInfo is an account of ACL 2.0 (3001 to 3005).
type UserInfo struct {
	Password   string `json:"password,omitnull"`
	UserStatus string `json:"userStatus,omitnull"` // "enable" or "disable"
	UserType   string `json:"userType,omitnull"`   // "Super" or "Normal"
	Username   string `json:"username,omitnull"`
}

// ACLInfo is what a subject may do (3006 to 3010).
type ACLInfo struct {
	Policies []*ACLPolicy `json:"policies,omitnull"`
	Subject  string       `json:"subject,omitnull"` // "User:name"
}

// ACLPolicy is one policy of an ACLInfo.
type ACLPolicy struct {
	Entries    []*ACLEntry `json:"entries,omitnull"`
	PolicyType string      `json:"policyType,omitnull"` // "Custom" or "Default"
}

// ACLEntry is one rule of an ACLPolicy.
type ACLEntry struct {
	Actions   []string `json:"actions,omitnull"` // "Pub", "Sub", …
	Decision  string   `json:"decision,omitnull"`
	Resource  string   `json:"resource,omitnull"` // "Topic:foo*"
	SourceIPs []string `json:"sourceIps,omitnull"`
}
