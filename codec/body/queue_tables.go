package body

import "skylark/codec"

// MessageQueue names a queue; as a map key it is written as an object (Java MessageQueue).
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// TopicOffset is the bounds of a queue.
type TopicOffset struct {
	LastUpdateTimestamp int64             `json:"lastUpdateTimestamp"` // milliseconds, of the last message
	MaxOffset           codec.QueueOffset `json:"maxOffset"`
	MinOffset           codec.QueueOffset `json:"minOffset"`
}

// TopicStatsTable answers GET_TOPIC_STATS_INFO (202).
type TopicStatsTable struct {
	OffsetTable map[MessageQueue]*TopicOffset `json:"offsetTable"`
	TopicPutTPS float64                       `json:"topicPutTps"` // 5.x
}

// OffsetWrapper is a group's progress in a queue.
type OffsetWrapper struct {
	BrokerOffset   codec.QueueOffset `json:"brokerOffset"`
	ConsumerOffset codec.QueueOffset `json:"consumerOffset"`
	LastTimestamp  int64             `json:"lastTimestamp"` // milliseconds, of the last consumed message
	PullOffset     codec.QueueOffset `json:"pullOffset"`    // 5.x
}

// ConsumeStats answers GET_CONSUME_STATS (208).
type ConsumeStats struct {
	ConsumeTPS  float64                         `json:"consumeTps"`
	OffsetTable map[MessageQueue]*OffsetWrapper `json:"offsetTable"`
}

// ConsumeStatsList answers GET_BROKER_CONSUME_STATS (317): one map of one group per group.
type ConsumeStatsList struct {
	BrokerAddr        string                       `json:"brokerAddr,omitnull"`
	ConsumeStatsList  []map[string][]*ConsumeStats `json:"consumeStatsList"`
	TotalDiff         int64                        `json:"totalDiff"`
	TotalInflightDiff int64                        `json:"totalInflightDiff"`
}

// ResetOffsetBody is the body of RESET_CONSUMER_CLIENT_OFFSET (220) and the answer of
// INVOKE_BROKER_TO_RESET_OFFSET (222). client-go splits its text by hand: always send what Encode makes.
type ResetOffsetBody struct {
	OffsetTable map[MessageQueue]codec.QueueOffset `json:"offsetTable"`
}

// ResetOffsetBodyForC is the same for clients that announce the language CPP.
type ResetOffsetBodyForC struct {
	OffsetTable []MessageQueueForC `json:"offsetTable"`
}

// MessageQueueForC is a queue with its offset.
type MessageQueueForC struct {
	BrokerName string            `json:"brokerName"`
	Offset     codec.QueueOffset `json:"offset"`
	QueueID    int32             `json:"queueId"`
	Topic      string            `json:"topic"`
}

// GetConsumerStatusBody answers INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223, ConsumerTable by client id) and
// GET_CONSUMER_STATUS_FROM_CLIENT (221, MessageQueueTable).
type GetConsumerStatusBody struct {
	ConsumerTable     map[string]map[MessageQueue]codec.QueueOffset `json:"consumerTable"`
	MessageQueueTable map[MessageQueue]codec.QueueOffset            `json:"messageQueueTable"`
}

// LockBatchRequestBody is the body of LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).
type LockBatchRequestBody struct {
	ClientID       string         `json:"clientId,omitnull"`
	ConsumerGroup  string         `json:"consumerGroup,omitnull"`
	MQSet          []MessageQueue `json:"mqSet"`
	OnlyThisBroker bool           `json:"onlyThisBroker"` // 5.x
}

// LockBatchResponseBody answers LOCK_BATCH_MQ: the queues that were locked.
type LockBatchResponseBody struct {
	LockOKMQSet []MessageQueue `json:"lockOKMQSet"`
}

// QueueTimeSpan is the age of what a group has to consume of a queue, in milliseconds. Java adds texts that
// it derives from these.
type QueueTimeSpan struct {
	ConsumeTimeStamp int64         `json:"consumeTimeStamp"`
	DelayTime        int64         `json:"delayTime"`
	MaxTimeStamp     int64         `json:"maxTimeStamp"`
	MessageQueue     *MessageQueue `json:"messageQueue"`
	MinTimeStamp     int64         `json:"minTimeStamp"`
}

// QueryConsumeTimeSpanBody answers QUERY_CONSUME_TIME_SPAN (303).
type QueryConsumeTimeSpanBody struct {
	ConsumeTimeSpanSet []*QueueTimeSpan `json:"consumeTimeSpanSet"`
}

// QueryCorrectionOffsetBody answers QUERY_CORRECTION_OFFSET (308): offsets by queue id.
type QueryCorrectionOffsetBody struct {
	CorrectionOffsets map[int32]codec.QueueOffset `json:"correctionOffsets"`
}

// ConsumeQueueData is one entry of a ConsumeQueue.
type ConsumeQueueData struct {
	BitMap         string          `json:"bitMap,omitnull"`
	Eval           bool            `json:"eval"`
	ExtendDataJSON string          `json:"extendDataJson,omitnull"`
	Msg            string          `json:"msg,omitnull"`
	PhyOffset      codec.PhyOffset `json:"physicOffset"`
	PhySize        int32           `json:"physicSize"`
	TagsCode       int64           `json:"tagsCode"`
}

// QueryConsumeQueueResponseBody answers QUERY_CONSUME_QUEUE (321).
type QueryConsumeQueueResponseBody struct {
	FilterData       string              `json:"filterData,omitnull"`
	MaxQueueIndex    codec.QueueOffset   `json:"maxQueueIndex"`
	MinQueueIndex    codec.QueueOffset   `json:"minQueueIndex"`
	QueueData        []*ConsumeQueueData `json:"queueData"`
	SubscriptionData *SubscriptionData   `json:"subscriptionData"`
}

// OffsetMovedEvent is the message body in the topic OFFSET_MOVED_EVENT.
type OffsetMovedEvent struct {
	ConsumerGroup string            `json:"consumerGroup,omitnull"`
	MessageQueue  *MessageQueue     `json:"messageQueue"`
	OffsetNew     codec.QueueOffset `json:"offsetNew"`
	OffsetRequest codec.QueueOffset `json:"offsetRequest"`
}
