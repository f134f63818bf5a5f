package codec

// ResetOffsetRequestHeader is for INVOKE_BROKER_TO_RESET_OFFSET (222) and, broker to client,
// RESET_CONSUMER_CLIENT_OFFSET (220).
type ResetOffsetRequestHeader struct {
	TopicHeader
	Topic     string       `ext:"topic,required"`
	Group     string       `ext:"group,required"`
	QueueID   int32        `ext:"queueId,default=-1"` // -1: all
	Offset    *QueueOffset `ext:"offset"`
	Timestamp int64        `ext:"timestamp,required"` // milliseconds; -1: latest
	IsForce   bool         `ext:"isForce,required"`
}

// GetConsumerStatusRequestHeader is for INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and, broker to client,
// GET_CONSUMER_STATUS_FROM_CLIENT (221).
type GetConsumerStatusRequestHeader struct {
	TopicHeader
	Topic      string `ext:"topic,required"`
	Group      string `ext:"group,required"`
	ClientAddr string `ext:"clientAddr"` // a client id
}

// GetConsumerRunningInfoRequestHeader is for GET_CONSUMER_RUNNING_INFO (307), admin to broker and broker to
// client.
type GetConsumerRunningInfoRequestHeader struct {
	RPCHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	ClientID      string `ext:"clientId,required"`
	JstackEnable  bool   `ext:"jstackEnable"`
}

// ConsumeMessageDirectlyRequestHeader is for CONSUME_MESSAGE_DIRECTLY (309), admin to broker and broker to
// client.
type ConsumeMessageDirectlyRequestHeader struct {
	TopicHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	ClientID      string `ext:"clientId"`
	MsgID         string `ext:"msgId"`
	Broker        string `ext:"brokerName"`
	Topic         string `ext:"topic"`
	TopicSysFlag  *int32 `ext:"topicSysFlag"`
	GroupSysFlag  *int32 `ext:"groupSysFlag"`
}

// ReplyMessageRequestHeader is for PUSH_REPLY_MESSAGE_TO_CLIENT (326), broker to producer.
type ReplyMessageRequestHeader struct {
	TopicHeader
	ProducerGroup         string `ext:"producerGroup,required"`
	Topic                 string `ext:"topic,required"`
	DefaultTopic          string `ext:"defaultTopic,required"`
	DefaultTopicQueueNums int32  `ext:"defaultTopicQueueNums,required"`
	QueueID               int32  `ext:"queueId,required"`
	SysFlag               int32  `ext:"sysFlag,required"`
	BornTimestamp         int64  `ext:"bornTimestamp,required"`
	Flag                  int32  `ext:"flag,required"`
	Properties            string `ext:"properties"`
	ReconsumeTimes        *int32 `ext:"reconsumeTimes"`
	UnitMode              bool   `ext:"unitMode"`
	BornHost              string `ext:"bornHost,required"`  // "ip:port"
	StoreHost             string `ext:"storeHost,required"` // "ip:port"
	StoreTimestamp        int64  `ext:"storeTimestamp,required"`
}
