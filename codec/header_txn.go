package codec

// ConsumerSendMsgBackRequestHeader is for CONSUMER_SEND_MSG_BACK (36).
type ConsumerSendMsgBackRequestHeader struct {
	RPCHeader
	Offset            PhyOffset `ext:"offset,required"`
	Group             string    `ext:"group,required"`
	DelayLevel        int32     `ext:"delayLevel,required"`
	OriginMsgID       string    `ext:"originMsgId"`
	OriginTopic       string    `ext:"originTopic"`
	UnitMode          bool      `ext:"unitMode"`
	MaxReconsumeTimes *int32    `ext:"maxReconsumeTimes"` // counts from version Version349 on
}

// EndTransactionRequestHeader is for END_TRANSACTION (37).
type EndTransactionRequestHeader struct {
	RPCHeader
	Topic                string      `ext:"topic"`
	ProducerGroup        string      `ext:"producerGroup,required"`
	TranStateTableOffset QueueOffset `ext:"tranStateTableOffset,required"` // of the half message in its queue
	CommitLogOffset      PhyOffset   `ext:"commitLogOffset,required"`
	// CommitOrRollback is SysFlagTransactionCommit, …Rollback, or …None for unknown, which is not answered.
	CommitOrRollback     int32  `ext:"commitOrRollback,required"`
	FromTransactionCheck bool   `ext:"fromTransactionCheck"`
	MsgID                string `ext:"msgId,required"`
	TransactionID        string `ext:"transactionId"`
}

// CheckTransactionStateRequestHeader is for CHECK_TRANSACTION_STATE (39), broker to producer. The body is the
// half message with its real topic and queue.
type CheckTransactionStateRequestHeader struct {
	RPCHeader
	Topic                string      `ext:"topic"`
	TranStateTableOffset QueueOffset `ext:"tranStateTableOffset,required"`
	CommitLogOffset      PhyOffset   `ext:"commitLogOffset,required"`
	MsgID                string      `ext:"msgId"` // UNIQ_KEY
	TransactionID        string      `ext:"transactionId"`
	OffsetMsgID          string      `ext:"offsetMsgId"`
}

// ResumeCheckHalfMessageRequestHeader is for RESUME_CHECK_HALF_MESSAGE (323).
type ResumeCheckHalfMessageRequestHeader struct {
	Topic string `ext:"topic"`
	MsgID string `ext:"msgId"` // offset message id
}

// RecallMessageRequestHeader is for RECALL_MESSAGE (370).
type RecallMessageRequestHeader struct {
	TopicHeader
	ProducerGroup string `ext:"producerGroup"`
	Topic         string `ext:"topic,required"`
	RecallHandle  string `ext:"recallHandle,required"`
}

// RecallMessageResponseHeader answers RECALL_MESSAGE.
type RecallMessageResponseHeader struct {
	MsgID string `ext:"msgId,required"`
}
