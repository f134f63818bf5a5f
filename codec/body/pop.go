package body

import "math/bits"

// MessageRequestMode tells whether a group pulls or pops a topic (Java MessageRequestMode).
type MessageRequestMode string

// The request modes.
const (
	ModePull MessageRequestMode = "PULL"
	ModePop  MessageRequestMode = "POP"
)

// UnmarshalText takes the name in any case or the ordinal.
func (m *MessageRequestMode) UnmarshalText(text []byte) error {
	*m = MessageRequestMode(enumName(text, []string{string(ModePull), string(ModePop)}))
	return nil
}

// Strategies of QUERY_ASSIGNMENT (Java AllocateMessageQueueStrategy.getName).
const (
	StrategyAveragely         = "AVG"
	StrategyAveragelyByCircle = "AVG_BY_CIRCLE"
)

// QueryAssignmentRequestBody is the body of QUERY_ASSIGNMENT (400).
type QueryAssignmentRequestBody struct {
	ClientID      string       `json:"clientId,omitnull"`
	ConsumerGroup string       `json:"consumerGroup,omitnull"`
	MessageModel  MessageModel `json:"messageModel,omitnull"`
	StrategyName  string       `json:"strategyName,omitnull"`
	Topic         string       `json:"topic,omitnull"`
}

// MessageQueueAssignment is one queue a client gets.
type MessageQueueAssignment struct {
	Attachments  map[string]string  `json:"attachments,omitnull"`
	MessageQueue *MessageQueue      `json:"messageQueue"`
	Mode         MessageRequestMode `json:"mode,omitnull"`
}

// SetDefaults gives the mode PULL.
func (a *MessageQueueAssignment) SetDefaults() { a.Mode = ModePull }

// QueryAssignmentResponseBody answers QUERY_ASSIGNMENT. A nil pointer tells the client to keep what it has,
// an empty list to drop everything.
type QueryAssignmentResponseBody struct {
	MessageQueueAssignments *[]*MessageQueueAssignment `json:"messageQueueAssignments"`
}

// SetMessageRequestModeRequestBody is the body of SET_MESSAGE_REQUEST_MODE (401).
type SetMessageRequestModeRequestBody struct {
	ConsumerGroup    string             `json:"consumerGroup,omitnull"`
	Mode             MessageRequestMode `json:"mode,omitnull"`
	PopShareQueueNum int32              `json:"popShareQueueNum"`
	Topic            string             `json:"topic,omitnull"`
}

// SetDefaults gives the mode PULL.
func (b *SetMessageRequestModeRequestBody) SetDefaults() { b.Mode = ModePull }

// MessageRequestModeSerializeWrapper answers GET_ALL_MESSAGE_REQUEST_MODE (402), and is the text of
// messageRequestMode.json: by topic and group.
type MessageRequestModeSerializeWrapper struct {
	MessageRequestModeMap map[string]map[string]*SetMessageRequestModeRequestBody `json:"messageRequestModeMap"`
}

// BitSet is Java's BitSet as its toByteArray gives it: bit i is bit i%8 of byte i/8. In JSON it is Base64.
type BitSet []byte

// Set sets bit i, which is at least 0.
func (s *BitSet) Set(i int) {
	for len(*s) <= i/8 {
		*s = append(*s, 0)
	}
	(*s)[i/8] |= 1 << (i % 8)
}

// Has tells whether bit i is set; false beyond the end and below 0.
func (s BitSet) Has(i int) bool { return i >= 0 && i/8 < len(s) && s[i/8]&(1<<(i%8)) != 0 }

// Count is the number of bits that are set.
func (s BitSet) Count() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// Len is the index of the highest bit that is set plus one.
func (s BitSet) Len() int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != 0 {
			return 8*i + bits.Len8(s[i])
		}
	}
	return 0
}

// BatchAck is the acks of one pop: bit i of BitSet acknowledges StartOffset + i.
type BatchAck struct {
	BitSet        BitSet `json:"b" alt:"bitSet"`
	ConsumerGroup string `json:"c,omitnull" alt:"consumerGroup"`
	InvisibleTime int64  `json:"it" alt:"invisibleTime"` // milliseconds
	PopTime       int64  `json:"pt" alt:"popTime"`       // milliseconds
	QueueID       int32  `json:"q" alt:"queueId"`
	Retry         string `json:"r,omitnull" alt:"retry"` // "0" normal topic, "1" and "2" retry topic V1 and V2
	ReviveQueueID int32  `json:"rq" alt:"reviveQueueId"`
	StartOffset   int64  `json:"so" alt:"startOffset"`
	Topic         string `json:"t,omitnull" alt:"topic"`
}

// BatchAckMessageRequestBody is the body of BATCH_ACK_MESSAGE (200151).
type BatchAckMessageRequestBody struct {
	Acks       []*BatchAck `json:"acks"`
	BrokerName string      `json:"brokerName,omitnull"`
}
