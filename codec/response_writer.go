package codec

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// responseWriter appends one answer field by field, in either header encoding, without a Command in between.
// The binary form has the remark before the fields, JSON has it behind them.
type responseWriter struct {
	dst    []byte
	start  int // of the frame
	at     int // of the length of the open value, or of the block of fields
	block  int // ROCKETMQ: where the length of the fields stands
	fields int
	opaque int32
	remark string
	binary bool
}

func beginResponse(dst []byte, t SerializeType, opaque int32, code int, remark string) responseWriter {
	w := responseWriter{opaque: opaque, remark: remark, binary: t == SerializeROCKETMQ}
	w.dst, w.start = beginFrame(dst)
	if !w.binary {
		w.dst = append(w.dst, `{"code":`...)
		w.dst = strconv.AppendInt(w.dst, int64(code), 10)
		w.dst = append(w.dst, `,"extFields":{`...)
		return w
	}
	be := binary.BigEndian
	w.dst = be.AppendUint16(w.dst, uint16(code))
	w.dst = append(w.dst, byte(LanguageJava))
	w.dst = be.AppendUint16(w.dst, AnnouncedVersion)
	w.dst = be.AppendUint32(w.dst, uint32(opaque))
	w.dst = be.AppendUint32(w.dst, uint32(FlagResponse))
	w.dst = be.AppendUint32(w.dst, uint32(len(remark)))
	w.dst = append(w.dst, remark...)
	w.block = len(w.dst)
	w.dst = append(w.dst, 0, 0, 0, 0)
	return w
}

// open begins a field; its value is then appended to dst and has to need no JSON escapes.
func (w *responseWriter) open(key string) {
	if w.binary {
		w.dst = binary.BigEndian.AppendUint16(w.dst, uint16(len(key)))
		w.dst = append(w.dst, key...)
		w.at = len(w.dst)
		w.dst = append(w.dst, 0, 0, 0, 0)
		return
	}
	if w.fields > 0 {
		w.dst = append(w.dst, ',')
	}
	w.fields++
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, key...)
	w.dst = append(w.dst, '"', ':', '"')
}

func (w *responseWriter) close() {
	if w.binary {
		binary.BigEndian.PutUint32(w.dst[w.at:], uint32(len(w.dst)-w.at-4))
		return
	}
	w.dst = append(w.dst, '"')
}

func (w *responseWriter) number(key string, v int64) {
	w.open(key)
	w.dst = strconv.AppendInt(w.dst, v, 10)
	w.close()
}

func (w *responseWriter) bool(key string, v bool) {
	w.open(key)
	w.dst = strconv.AppendBool(w.dst, v)
	w.close()
}

func (w *responseWriter) text(key string, v []byte) {
	w.open(key)
	if w.binary {
		w.dst = append(w.dst, v...)
	} else {
		w.dst = appendJSONEscaped(w.dst, v)
	}
	w.close()
}

// msgIDs writes offset message ids joined by ",".
func (w *responseWriter) msgIDs(key string, host netip.AddrPort, first PhyOffset, more []PhyOffset) {
	w.open(key)
	w.dst = AppendOffsetMsgID(w.dst, host, first)
	for _, p := range more {
		w.dst = append(w.dst, ',')
		w.dst = AppendOffsetMsgID(w.dst, host, p)
	}
	w.close()
}

// finish ends the header; bodyLen bytes of body follow.
func (w *responseWriter) finish(bodyLen int) []byte {
	if w.binary {
		binary.BigEndian.PutUint32(w.dst[w.block:], uint32(len(w.dst)-w.block-4))
		return endHeader(w.dst, w.start, SerializeROCKETMQ, bodyLen)
	}
	w.dst = append(w.dst, `},"flag":1,"language":"JAVA","opaque":`...)
	w.dst = strconv.AppendInt(w.dst, int64(w.opaque), 10)
	if w.remark != "" {
		w.dst = append(w.dst, `,"remark":"`...)
		w.dst = appendJSONEscaped(w.dst, w.remark)
		w.dst = append(w.dst, '"')
	}
	w.dst = append(w.dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	w.dst = strconv.AppendInt(w.dst, AnnouncedVersion, 10)
	w.dst = append(w.dst, '}')
	return endHeader(w.dst, w.start, SerializeJSON, bodyLen)
}

// SendResponse is the answer to a send (Java SendMessageResponseHeader). With a code other than RespSuccess,
// RespFlushDiskTimeout, RespFlushSlaveTimeout or RespSlaveNotAvailable nothing is stored, and only Region and
// TraceOn are written.
type SendResponse struct {
	Code          int
	Remark        string
	StoreHost     netip.AddrPort
	PhyOffset     PhyOffset   // with StoreHost the message id
	MorePhyOffset []PhyOffset // of the further messages of a batch; their ids follow, joined by ","
	MsgID         []byte      // if not nil, instead of the offset message id; "0" answers an unstored reply
	QueueID       int32
	QueueOffset   QueueOffset // of the first message
	TransactionID []byte      // the unique key; left out when empty
	BatchUniqID   []byte      // of an inner batch; left out when empty
	RecallHandle  []byte      // of a timer message; left out when empty
	Region        string      // of the broker's configuration; left out when empty
	TraceOn       bool
}

// AppendSendResponse appends the whole answer to a send. It allocates nothing if dst has room.
func AppendSendResponse(dst []byte, t SerializeType, opaque int32, r *SendResponse) []byte {
	if t == SerializeJSON && r.Code == RespSuccess && r.Remark == "" && r.MsgID == nil && len(r.MorePhyOffset) == 0 &&
		len(r.BatchUniqID) == 0 && len(r.RecallHandle) == 0 {
		return appendPlainSendJSON(dst, opaque, r)
	}
	w := beginResponse(dst, t, opaque, r.Code, r.Remark)
	if r.Region != "" {
		w.open(PropMsgRegion)
		if w.binary {
			w.dst = append(w.dst, r.Region...)
		} else {
			w.dst = appendJSONEscaped(w.dst, r.Region)
		}
		w.close()
	}
	w.bool(PropTraceSwitch, r.TraceOn)
	switch r.Code {
	case RespSuccess, RespFlushDiskTimeout, RespFlushSlaveTimeout, RespSlaveNotAvailable:
	default:
		return w.finish(0)
	}
	if len(r.BatchUniqID) > 0 {
		w.text("batchUniqId", r.BatchUniqID)
	}
	if r.MsgID != nil {
		w.text("msgId", r.MsgID)
	} else {
		w.msgIDs("msgId", r.StoreHost, r.PhyOffset, r.MorePhyOffset)
	}
	w.number("queueId", int64(r.QueueID))
	w.number("queueOffset", int64(r.QueueOffset))
	if len(r.RecallHandle) > 0 {
		w.text("recallHandle", r.RecallHandle)
	}
	if len(r.TransactionID) > 0 {
		w.text("transactionId", r.TransactionID)
	}
	return w.finish(0)
}

// appendPlainSendJSON is AppendSendResponse of a plain message that was stored: the same bytes, with fewer steps.
func appendPlainSendJSON(dst []byte, opaque int32, r *SendResponse) []byte {
	dst, start := beginFrame(dst)
	dst = append(dst, `{"code":0,"extFields":{`...)
	if r.Region != "" {
		dst = append(dst, `"MSG_REGION":"`...)
		dst = append(appendJSONEscaped(dst, r.Region), '"', ',')
	}
	if r.TraceOn {
		dst = append(dst, `"TRACE_ON":"true","msgId":"`...)
	} else {
		dst = append(dst, `"TRACE_ON":"false","msgId":"`...)
	}
	dst = AppendOffsetMsgID(dst, r.StoreHost, r.PhyOffset)
	dst = append(dst, `","queueId":"`...)
	dst = strconv.AppendInt(dst, int64(r.QueueID), 10)
	dst = append(dst, `","queueOffset":"`...)
	dst = strconv.AppendInt(dst, int64(r.QueueOffset), 10)
	if len(r.TransactionID) > 0 {
		dst = append(dst, `","transactionId":"`...)
		dst = appendJSONEscaped(dst, r.TransactionID)
	}
	dst = append(dst, `"},"flag":1,"language":"JAVA","opaque":`...)
	dst = strconv.AppendInt(dst, int64(opaque), 10)
	dst = append(dst, plainJSONEnd...)
	return endHeader(dst, start, SerializeJSON, 0)
}

var plainJSONEnd = `,"serializeTypeCurrentRPC":"JSON","version":` + strconv.Itoa(AnnouncedVersion) + `}`

// SendMessageResponseHeader is the same for the reflective decoder: what a client reads.
type SendMessageResponseHeader struct {
	MsgID         string      `ext:"msgId,required"`
	QueueID       int32       `ext:"queueId,required"`
	QueueOffset   QueueOffset `ext:"queueOffset,required"`
	TransactionID string      `ext:"transactionId"`
	BatchUniqID   string      `ext:"batchUniqId"`
	RecallHandle  string      `ext:"recallHandle"`
}

// PullMessageResponseHeader is what a client reads of a pull answer.
type PullMessageResponseHeader struct {
	SuggestWhichBrokerID int64       `ext:"suggestWhichBrokerId,required"`
	NextBeginOffset      QueueOffset `ext:"nextBeginOffset,required"`
	MinOffset            QueueOffset `ext:"minOffset,required"`
	MaxOffset            QueueOffset `ext:"maxOffset,required"`
	OffsetDelta          *int64      `ext:"offsetDelta"`
	TopicSysFlag         *int32      `ext:"topicSysFlag"`
	GroupSysFlag         *int32      `ext:"groupSysFlag"`
	ForbiddenType        *int32      `ext:"forbiddenType"`
}
