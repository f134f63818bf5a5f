package codec

// SendMessageHeader is the header of SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) and
// SEND_REPLY_MESSAGE, V1 and V2 (324, 325). Slices alias the frame, or memory of the header's own where the
// frame had escapes, and live until the next Decode.
//
// Decoding takes one pass over the command's fields: no map, no reflection, no allocation, a few compares per
// field.
type SendMessageHeader struct {
	ProducerGroup         []byte
	Topic                 []byte
	DefaultTopic          []byte // whose queues and perm an unknown topic gets, usually TBW102
	DefaultTopicQueueNums int32
	QueueID               int32 // negative: any
	SysFlag               int32
	BornTimestamp         int64 // milliseconds
	Flag                  int32
	Properties            Field // raw; AppendValue resolves escapes; Value is nil when there are none
	ReconsumeTimes        int32
	UnitMode              bool
	MaxReconsumeTimes     int32 // valid if HasMax
	HasMax                bool
	Batch                 bool
	BrokerName            []byte

	scratch []byte // unescaped values
}

// The fields of a send header; the bit is set when the field was seen.
const (
	sendProducerGroup = 1 << iota
	sendTopic
	sendDefaultTopic
	sendDefaultTopicQueueNums
	sendQueueID
	sendSysFlag
	sendBornTimestamp
	sendFlag
	sendProperties
	sendReconsumeTimes
	sendUnitMode
	sendMaxReconsumeTimes
	sendBatch
	sendBrokerName

	sendRequired = sendFlag<<1 - 1
)

// sendFieldNames are the V1 names in the order of the bits; the V2 names are the letters a to n.
var sendFieldNames = [...]string{"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId",
	"sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch",
	"brokerName"}

// UsesShortNames tells whether a send request has the letters of the V2 header: codes 310, 320 and 325.
func UsesShortNames(code int) bool {
	return code == ReqSendMessageV2 || code == ReqSendBatchMessage || code == ReqSendReplyMessageV2
}

// Decode reads c's fields by the names that belong to c.Code. The error is a *HeaderError: a field that
// cannot be read, or the first required one that is missing.
func (h *SendMessageHeader) Decode(c *Command) error {
	*h = SendMessageHeader{scratch: h.scratch[:0]}
	short := UsesShortNames(c.Code)
	seen := 0
	for i := range c.Fields {
		f := &c.Fields[i]
		bit := 0
		if short {
			if len(f.Key) == 1 && f.Key[0] >= 'a' && f.Key[0] <= 'n' {
				bit = 1 << (f.Key[0] - 'a')
			} else if string(f.Key) == ExtBrokerName {
				bit = sendBrokerName
			}
		} else {
			bit = sendFieldBit(f.Key)
		}
		if bit == 0 {
			continue
		}
		if want := h.set(bit, f); want != "" {
			return h.fieldError(bit, short, f.Text(), want)
		}
		seen |= bit
	}
	if missing := sendRequired &^ seen; missing != 0 {
		return h.fieldError(missing&-missing, short, "", "required")
	}
	return nil
}

func sendFieldBit(key []byte) int {
	switch string(key) {
	case "producerGroup":
		return sendProducerGroup
	case "topic":
		return sendTopic
	case "defaultTopic":
		return sendDefaultTopic
	case "defaultTopicQueueNums":
		return sendDefaultTopicQueueNums
	case "queueId":
		return sendQueueID
	case "sysFlag":
		return sendSysFlag
	case "bornTimestamp":
		return sendBornTimestamp
	case "flag":
		return sendFlag
	case "properties":
		return sendProperties
	case "reconsumeTimes":
		return sendReconsumeTimes
	case "unitMode":
		return sendUnitMode
	case "maxReconsumeTimes":
		return sendMaxReconsumeTimes
	case "batch":
		return sendBatch
	case ExtBrokerName:
		return sendBrokerName
	}
	return 0
}

// set stores one field and returns what was wanted if the value cannot be read.
func (h *SendMessageHeader) set(bit int, f *Field) (want string) {
	switch bit {
	case sendProducerGroup:
		h.ProducerGroup = f.text(&h.scratch)
	case sendTopic:
		h.Topic = f.text(&h.scratch)
	case sendDefaultTopic:
		h.DefaultTopic = f.text(&h.scratch)
	case sendDefaultTopicQueueNums:
		return f.int32Into(&h.DefaultTopicQueueNums)
	case sendQueueID:
		return f.int32Into(&h.QueueID)
	case sendSysFlag:
		return f.int32Into(&h.SysFlag)
	case sendBornTimestamp:
		return f.int64Into(&h.BornTimestamp)
	case sendFlag:
		return f.int32Into(&h.Flag)
	case sendProperties:
		h.Properties = *f
	case sendReconsumeTimes:
		return f.int32Into(&h.ReconsumeTimes)
	case sendUnitMode:
		h.UnitMode = f.isTrue()
	case sendMaxReconsumeTimes:
		h.HasMax = true
		return f.int32Into(&h.MaxReconsumeTimes)
	case sendBatch:
		h.Batch = f.isTrue()
	case sendBrokerName:
		h.BrokerName = f.text(&h.scratch)
	}
	return ""
}

func (h *SendMessageHeader) fieldError(bit int, short bool, value, want string) error {
	e := &HeaderError{Value: value, Want: want}
	for i, name := range sendFieldNames {
		if bit == 1<<i {
			e.Field = name
			if short {
				e.Letter = string(rune('a' + i))
			}
		}
	}
	return e
}

// Encode adds the header to c under the names that belong to c.Code; for our own client.
func (h *SendMessageHeader) Encode(c *Command) {
	short := UsesShortNames(c.Code)
	name := func(i int) string {
		if short {
			return string(rune('a' + i))
		}
		if i == len(sendFieldNames)-1 {
			return ExtBrokerName
		}
		return sendFieldNames[i]
	}
	c.Set(name(0), string(h.ProducerGroup))
	c.Set(name(1), string(h.Topic))
	c.Set(name(2), string(h.DefaultTopic))
	c.SetInt(name(3), int64(h.DefaultTopicQueueNums))
	c.SetInt(name(4), int64(h.QueueID))
	c.SetInt(name(5), int64(h.SysFlag))
	c.SetInt(name(6), h.BornTimestamp)
	c.SetInt(name(7), int64(h.Flag))
	if len(h.Properties.Value) > 0 {
		c.Set(name(8), h.Properties.Text())
	}
	c.SetInt(name(9), int64(h.ReconsumeTimes))
	c.SetBool(name(10), h.UnitMode)
	if h.HasMax {
		c.SetInt(name(11), int64(h.MaxReconsumeTimes))
	}
	c.SetBool(name(12), h.Batch)
	if len(h.BrokerName) > 0 {
		c.Set(name(13), string(h.BrokerName))
	}
}
