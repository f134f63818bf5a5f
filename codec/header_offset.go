package codec

import "strings"

// Values of SearchOffsetRequestHeader.BoundaryType (Java BoundaryType).
const (
	BoundaryLower = "LOWER" // the first message at or after the time
	BoundaryUpper = "UPPER" // the last message at or before the time
)

// QueryConsumerOffsetRequestHeader is for QUERY_CONSUMER_OFFSET (14); the answer is an OffsetResponseHeader.
type QueryConsumerOffsetRequestHeader struct {
	TopicHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"`
	// SetZeroIfNotFound nil counts as true: the 0 rule of spec request-codes.md §4.
	SetZeroIfNotFound *bool `ext:"setZeroIfNotFound"`
}

// UpdateConsumerOffsetRequestHeader is for UPDATE_CONSUMER_OFFSET (15).
type UpdateConsumerOffsetRequestHeader struct {
	TopicHeader
	ConsumerGroup string      `ext:"consumerGroup,required"`
	Topic         string      `ext:"topic,required"`
	QueueID       int32       `ext:"queueId,required"`
	CommitOffset  QueueOffset `ext:"commitOffset,required"`
}

// SearchOffsetRequestHeader is for SEARCH_OFFSET_BY_TIMESTAMP (29).
type SearchOffsetRequestHeader struct {
	TopicHeader
	Topic        string `ext:"topic,required"`
	QueueID      int32  `ext:"queueId,required"`
	Timestamp    int64  `ext:"timestamp,required"` // milliseconds
	BoundaryType string `ext:"boundaryType"`
}

// Upper tells whether the upper boundary is asked for: "upper" in any case; everything else is the lower one.
func (h *SearchOffsetRequestHeader) Upper() bool {
	return strings.EqualFold(h.BoundaryType, BoundaryUpper)
}

// GetMaxOffsetRequestHeader is for GET_MAX_OFFSET (30).
type GetMaxOffsetRequestHeader struct {
	TopicHeader
	Topic     string `ext:"topic,required"`
	QueueID   int32  `ext:"queueId,required"`
	Committed bool   `ext:"committed,default=true"`
}

// GetEarliestMsgStoreTimeResponseHeader answers GET_EARLIEST_MSG_STORETIME (32).
type GetEarliestMsgStoreTimeResponseHeader struct {
	Timestamp int64 `ext:"timestamp,required"` // milliseconds
}

// UnregisterClientRequestHeader is for UNREGISTER_CLIENT (35).
type UnregisterClientRequestHeader struct {
	RPCHeader
	ClientID      string `ext:"clientID,required"`
	ProducerGroup string `ext:"producerGroup"`
	ConsumerGroup string `ext:"consumerGroup"`
}

// ConsumerGroupRequestHeader is the header of requests that name a consumer group and nothing else:
// GET_CONSUMER_LIST_BY_GROUP (38), GET_CONSUMER_CONNECTION_LIST (203), NOTIFY_CONSUMER_IDS_CHANGED (40).
type ConsumerGroupRequestHeader struct {
	RPCHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
}

// QueryMessageRequestHeader is for QUERY_MESSAGE (12). The extField ExtUniqueKeyQuery goes with it when Key
// is a UNIQ_KEY.
type QueryMessageRequestHeader struct {
	TopicHeader
	Topic          string `ext:"topic,required"`
	Key            string `ext:"key,required"`
	MaxNum         int32  `ext:"maxNum,required"`
	BeginTimestamp int64  `ext:"beginTimestamp,required"`
	EndTimestamp   int64  `ext:"endTimestamp,required"`
}

// QueryMessageResponseHeader answers QUERY_MESSAGE.
type QueryMessageResponseHeader struct {
	IndexLastUpdateTimestamp int64     `ext:"indexLastUpdateTimestamp,required"`
	IndexLastUpdatePhyOffset PhyOffset `ext:"indexLastUpdatePhyoffset,required"`
}

// ViewMessageRequestHeader is for VIEW_MESSAGE_BY_ID (33).
type ViewMessageRequestHeader struct {
	Topic  string    `ext:"topic"`
	Offset PhyOffset `ext:"offset,required"`
}

// QueryConsumeQueueRequestHeader is for QUERY_CONSUME_QUEUE (321).
type QueryConsumeQueueRequestHeader struct {
	TopicHeader
	Topic         string      `ext:"topic"`
	QueueID       int32       `ext:"queueId"`
	Index         QueueOffset `ext:"index"`
	Count         int32       `ext:"count"`
	ConsumerGroup string      `ext:"consumerGroup"`
}
