package body

import "skylark/codec"

// Connection is a client as seen by the broker (Java Connection).
type Connection struct {
	ClientAddr string             `json:"clientAddr,omitnull"` // "ip:port"
	ClientID   string             `json:"clientId,omitnull"`
	Language   codec.LanguageCode `json:"language"`
	Version    int32              `json:"version"`
}

// ConsumerConnection answers GET_CONSUMER_CONNECTION_LIST (203).
type ConsumerConnection struct {
	ConnectionSet    []*Connection    `json:"connectionSet"`
	ConsumeFromWhere ConsumeFromWhere `json:"consumeFromWhere,omitnull"`
	ConsumeType      ConsumeType      `json:"consumeType,omitnull"`
	MessageModel     MessageModel     `json:"messageModel,omitnull"`
	// SubscriptionConflict names two members that subscribe differently; Java knows no such field and passes it over.
	SubscriptionConflict string                       `json:"subscriptionConflict,omitnull"`
	SubscriptionTable    map[string]*SubscriptionData `json:"subscriptionTable"` // by topic
}

// ProducerConnection answers GET_PRODUCER_CONNECTION_LIST (204).
type ProducerConnection struct {
	ConnectionSet []*Connection `json:"connectionSet"`
}

// ProducerInfo is a producer in ProducerTableInfo.
type ProducerInfo struct {
	ClientID            string             `json:"clientId,omitnull"`
	Language            codec.LanguageCode `json:"language"`
	LastUpdateTimestamp int64              `json:"lastUpdateTimestamp"` // milliseconds
	RemoteIP            string             `json:"remoteIP,omitnull"`
	Version             int32              `json:"version"`
}

// ProducerTableInfo answers GET_ALL_PRODUCER_INFO (328); by producer group.
type ProducerTableInfo struct {
	Data map[string][]*ProducerInfo `json:"data"`
}

// GetConsumerListByGroupResponseBody answers GET_CONSUMER_LIST_BY_GROUP (38).
type GetConsumerListByGroupResponseBody struct {
	ConsumerIDList []string `json:"consumerIdList"`
}

// ConsumerRunningInfo is what a client says about itself (307). The broker passes it on unread; this is for
// tools.
type ConsumerRunningInfo struct {
	Jstack           string                                `json:"jstack,omitnull"`
	MQPopTable       map[MessageQueue]*PopProcessQueueInfo `json:"mqPopTable"`
	MQTable          map[MessageQueue]*ProcessQueueInfo    `json:"mqTable"`
	Properties       map[string]string                     `json:"properties"`
	StatusTable      map[string]*ConsumeStatus             `json:"statusTable"` // by topic
	SubscriptionSet  []*SubscriptionData                   `json:"subscriptionSet"`
	UserConsumerInfo map[string]string                     `json:"userConsumerInfo"`
}

// Keys of ConsumerRunningInfo.Properties.
const (
	RunningNameServerAddr         = "PROP_NAMESERVER_ADDR"
	RunningThreadPoolCoreSize     = "PROP_THREADPOOL_CORE_SIZE"
	RunningConsumeOrderly         = "PROP_CONSUMEORDERLY"
	RunningConsumeType            = "PROP_CONSUME_TYPE"
	RunningClientVersion          = "PROP_CLIENT_VERSION"
	RunningConsumerStartTimestamp = "PROP_CONSUMER_START_TIMESTAMP"
)

// ProcessQueueInfo is a queue in the hands of a consumer. Timestamps are milliseconds.
type ProcessQueueInfo struct {
	CachedMsgCount       int32 `json:"cachedMsgCount"`
	CachedMsgMaxOffset   int64 `json:"cachedMsgMaxOffset"`
	CachedMsgMinOffset   int64 `json:"cachedMsgMinOffset"`
	CachedMsgSizeInMiB   int32 `json:"cachedMsgSizeInMiB"`
	CommitOffset         int64 `json:"commitOffset"`
	Dropped              bool  `json:"droped"` // sic
	LastConsumeTimestamp int64 `json:"lastConsumeTimestamp"`
	LastLockTimestamp    int64 `json:"lastLockTimestamp"`
	LastPullTimestamp    int64 `json:"lastPullTimestamp"`
	Locked               bool  `json:"locked"`
	TransactionMsgCount  int32 `json:"transactionMsgCount"`
	TransactionMsgMax    int64 `json:"transactionMsgMaxOffset"`
	TransactionMsgMin    int64 `json:"transactionMsgMinOffset"`
	TryUnlockTimes       int64 `json:"tryUnlockTimes"`
}

// PopProcessQueueInfo is the same for POP.
type PopProcessQueueInfo struct {
	Dropped          bool  `json:"droped"` // sic
	LastPopTimestamp int64 `json:"lastPopTimestamp"`
	WaitAckCount     int32 `json:"waitAckCount"`
}

// ConsumeStatus is a consumer's rates for a topic: milliseconds and per second.
type ConsumeStatus struct {
	ConsumeFailedMsgs int64   `json:"consumeFailedMsgs"`
	ConsumeFailedTPS  float64 `json:"consumeFailedTPS"`
	ConsumeOKTPS      float64 `json:"consumeOKTPS"`
	ConsumeRT         float64 `json:"consumeRT"`
	PullRT            float64 `json:"pullRT"`
	PullTPS           float64 `json:"pullTPS"`
}

// CMResult is how a direct consumption ended (Java CMResult); client-go sends the ordinal.
type CMResult string

// The results.
const (
	ResultSuccess        CMResult = "CR_SUCCESS"
	ResultLater          CMResult = "CR_LATER"
	ResultRollback       CMResult = "CR_ROLLBACK"
	ResultCommit         CMResult = "CR_COMMIT"
	ResultThrowException CMResult = "CR_THROW_EXCEPTION"
	ResultReturnNull     CMResult = "CR_RETURN_NULL"
)

// UnmarshalText takes the name in any case or the ordinal.
func (r *CMResult) UnmarshalText(text []byte) error {
	*r = CMResult(enumName(text, []string{string(ResultSuccess), string(ResultLater), string(ResultRollback),
		string(ResultCommit), string(ResultThrowException), string(ResultReturnNull)}))
	return nil
}

// ConsumeMessageDirectlyResult answers CONSUME_MESSAGE_DIRECTLY (309).
type ConsumeMessageDirectlyResult struct {
	AutoCommit      bool     `json:"autoCommit"`
	ConsumeResult   CMResult `json:"consumeResult,omitnull"`
	Order           bool     `json:"order"`
	Remark          string   `json:"remark,omitnull"`
	SpentTimeMillis int64    `json:"spentTimeMills"` // sic
}

// SetDefaults commits automatically.
func (r *ConsumeMessageDirectlyResult) SetDefaults() { r.AutoCommit = true }
