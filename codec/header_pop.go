package codec

// PopMessageRequestHeader is for POP_MESSAGE (200050).
type PopMessageRequestHeader struct {
	TopicHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"` // -1: any
	MaxMsgNums    int32  `ext:"maxMsgNums,required"`
	InvisibleTime int64  `ext:"invisibleTime,required"` // milliseconds
	PollTime      int64  `ext:"pollTime,required"`      // milliseconds to wait for a message
	BornTime      int64  `ext:"bornTime,required"`      // milliseconds; when the client sent it
	InitMode      int32  `ext:"initMode,required"`      // ConsumeInitModeMin or …Max
	ExpType       string `ext:"expType"`
	Exp           string `ext:"exp"`
	Order         bool   `ext:"order"`
	AttemptID     string `ext:"attemptId"`
}

// Values of PopMessageRequestHeader.InitMode (Java ConsumeInitMode): where a new group begins.
const (
	ConsumeInitModeMin = 0
	ConsumeInitModeMax = 1
)

// PopMessageResponseHeader answers POP_MESSAGE and PEEK_MESSAGE. The info strings are described in spec
// request-codes.md §3.
type PopMessageResponseHeader struct {
	PopTime         int64  `ext:"popTime,required"`
	InvisibleTime   int64  `ext:"invisibleTime,required"`
	ReviveQID       int32  `ext:"reviveQid,required"`
	RestNum         int64  `ext:"restNum,required"`
	StartOffsetInfo string `ext:"startOffsetInfo"`
	MsgOffsetInfo   string `ext:"msgOffsetInfo"`
	OrderCountInfo  string `ext:"orderCountInfo"`
}

// AckMessageRequestHeader is for ACK_MESSAGE (200051).
type AckMessageRequestHeader struct {
	TopicHeader
	ConsumerGroup string      `ext:"consumerGroup,required"`
	Topic         string      `ext:"topic,required"`
	QueueID       int32       `ext:"queueId,required"`
	ExtraInfo     string      `ext:"extraInfo,required"` // the receipt handle
	Offset        QueueOffset `ext:"offset,required"`
}

// ChangeInvisibleTimeRequestHeader is for CHANGE_MESSAGE_INVISIBLETIME (200053).
type ChangeInvisibleTimeRequestHeader struct {
	TopicHeader
	ConsumerGroup string      `ext:"consumerGroup,required"`
	Topic         string      `ext:"topic,required"`
	QueueID       int32       `ext:"queueId,required"`
	ExtraInfo     string      `ext:"extraInfo,required"` // the receipt handle
	Offset        QueueOffset `ext:"offset,required"`
	InvisibleTime int64       `ext:"invisibleTime,required"` // milliseconds from now
}

// ChangeInvisibleTimeResponseHeader answers CHANGE_MESSAGE_INVISIBLETIME; the client makes a new receipt
// handle of it.
type ChangeInvisibleTimeResponseHeader struct {
	PopTime       int64 `ext:"popTime,required"`
	InvisibleTime int64 `ext:"invisibleTime,required"`
	ReviveQID     int32 `ext:"reviveQid,required"`
}

// PeekMessageRequestHeader is for PEEK_MESSAGE (200052).
type PeekMessageRequestHeader struct {
	TopicHeader
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"`
	MaxMsgNums    int32  `ext:"maxMsgNums,required"`
	ConsumerGroup string `ext:"consumerGroup,required"`
}

// NotificationRequestHeader is for NOTIFICATION (200054): wait until there is something to pop.
type NotificationRequestHeader struct {
	TopicHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"`
	PollTime      int64  `ext:"pollTime,required"` // milliseconds
	BornTime      int64  `ext:"bornTime,required"` // milliseconds
	Order         bool   `ext:"order"`
	AttemptID     string `ext:"attemptId"`
}

// NotificationResponseHeader answers NOTIFICATION.
type NotificationResponseHeader struct {
	HasMsg      bool `ext:"hasMsg,required"`
	PollingFull bool `ext:"pollingFull"`
}

// PollingInfoRequestHeader is for POLLING_INFO (200055).
type PollingInfoRequestHeader struct {
	TopicHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"`
}

// PollingInfoResponseHeader answers POLLING_INFO.
type PollingInfoResponseHeader struct {
	PollingNum int32 `ext:"pollingNum,required"`
}
