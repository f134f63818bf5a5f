package codec

// RPCHeader is what every request header may carry (Java RpcRequestHeader).
type RPCHeader struct {
	Namespace  string `ext:"ns"`
	Namespaced *bool  `ext:"nsd"` // names already contain the namespace
	BrokerName string `ext:"bname"`
	Oneway     *bool  `ext:"oway"`
}

// TopicHeader adds what headers about a topic may carry (Java TopicRequestHeader).
type TopicHeader struct {
	RPCHeader
	// Logical nil or true: the queue id is one of a static topic if there is a mapping; false: it is physical.
	Logical *bool `ext:"lo"`
}

// TopicRequestHeader is the header of requests that name a topic and nothing else: GET_TOPIC_STATS_INFO,
// DELETE_TOPIC_IN_BROKER, GET_TOPIC_CONFIG, QUERY_TOPIC_CONSUME_BY_WHO, REGISTER_TOPIC_IN_NAMESRV.
type TopicRequestHeader struct {
	TopicHeader
	Topic string `ext:"topic,required"`
}

// TopicQueueRequestHeader is the header of requests that name one queue and nothing else: GET_MIN_OFFSET,
// GET_EARLIEST_MSG_STORETIME.
type TopicQueueRequestHeader struct {
	TopicHeader
	Topic   string `ext:"topic,required"`
	QueueID int32  `ext:"queueId,required"`
}

// OffsetResponseHeader answers GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP and
// QUERY_CONSUMER_OFFSET.
type OffsetResponseHeader struct {
	Offset QueueOffset `ext:"offset,required"`
}
