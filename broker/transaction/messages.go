package transaction

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"skylark/codec"
	"skylark/store"
)

// queue is the only queue of the half, op and give-up topics.
const queue int32 = 0

// opProperties are those of Java's op records: WAIT comes with every message that Java makes of a topic, tags and body.
var opProperties = codec.AppendProperty(codec.AppendProperty(nil, codec.PropWaitStoreMsgOK, "true"), codec.PropTags, opTag)

const (
	opTag       = "d" // Java REMOVE_TAG
	opSeparator = ","
)

// brokersOwn are properties of half messages that only the broker sets.
var brokersOwn = []string{codec.PropRealTopic, codec.PropRealQueueID, codec.PropTransactionID,
	codec.PropTransactionCheckTimes, codec.PropTransPreparedQueueOffset}

// Rewrite turns a put into that of a half message (Java parseHalfMessageInner). The properties are changed in place,
// as far as there is room.
func Rewrite(m *codec.Message) {
	props := m.Properties
	strip, marked := false, false
	var id []byte
	for name, value := range codec.EachProperty(props) {
		switch string(name) {
		case codec.PropUniqKey:
			id = value
		case codec.PropTransactionPrepared:
			marked = true
		case codec.PropRealTopic, codec.PropRealQueueID, codec.PropTransactionID, codec.PropTransactionCheckTimes,
			codec.PropTransPreparedQueueOffset:
			strip = true
		}
	}
	if strip {
		props = codec.RemoveProperty(props[:0:len(props)], props, brokersOwn...)
		id, _ = codec.LookupProperty(props, codec.PropUniqKey)
	}
	if !marked {
		props = codec.AppendProperty(props, codec.PropTransactionPrepared, "true")
	}
	props = codec.AppendProperty(props, codec.PropTransactionID, id)
	props = codec.AppendProperty(props, codec.PropRealTopic, m.Topic)
	m.Properties = codec.AppendProperty(props, codec.PropRealQueueID, strconv.Itoa(int(m.QueueID)))
	m.SysFlag &^= codec.SysFlagTransactionMask
	m.Topic, m.QueueID = codec.HalfTopic, queue
}

// half is what the properties of a half message say, found in one pass.
type half struct {
	group, realTopic, realQueue, uniqKey, immunity, checks, first, delay []byte
	copied                                                               bool // has TRAN_PREPARED_QUEUE_OFFSET
	timed                                                                bool // has one of the timer's properties
}

func parseHalf(props []byte) (h half) {
	for name, value := range codec.EachProperty(props) {
		switch string(name) {
		case codec.PropProducerGroup:
			h.group = value
		case codec.PropRealTopic:
			h.realTopic = value
		case codec.PropRealQueueID:
			h.realQueue = value
		case codec.PropUniqKey:
			h.uniqKey = value
		case codec.PropCheckImmunityTimeSeconds:
			h.immunity = value
		case codec.PropTransactionCheckTimes:
			h.checks = value
		case codec.PropTransPreparedQueueOffset:
			h.first, h.copied = value, true
		case codec.PropDelayTimeLevel:
			h.delay = value
		case codec.PropTimerDelaySec, codec.PropTimerDelayMs, codec.PropTimerDeliverMs:
			h.timed = true
		}
	}
	return h
}

// origin is the queue offset of the first copy.
func (h *half) origin(queueOffset codec.QueueOffset) int64 {
	if at, err := strconv.ParseInt(string(h.first), 10, 64); err == nil && at >= 0 {
		return at
	}
	return int64(queueOffset)
}

// target is where the message goes when it is committed.
func (h *half) target() (topic string, queueID int32, err error) {
	if len(h.realTopic) == 0 {
		return "", 0, fmt.Errorf("the property %s is missing", codec.PropRealTopic)
	}
	queueID, err = h.queueID()
	return string(h.realTopic), queueID, err
}

func (h *half) queueID() (int32, error) {
	id, err := strconv.ParseInt(string(h.realQueue), 10, 32)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("the property %s is %q", codec.PropRealQueueID, h.realQueue)
	}
	return int32(id), nil
}

// immunityMillis is CHECK_IMMUNITY_TIME_IN_SECONDS in ms; without a usable one it is the timeout.
func (h *half) immunityMillis(timeoutMillis int64) int64 {
	s, err := strconv.ParseInt(string(h.immunity), 10, 64)
	if err != nil || s < 0 || s > 1<<40 {
		return timeoutMillis
	}
	return s * 1000
}

// final makes the message that consumers see (Java endMessageTransaction): the properties as they are in the half
// message, its real topic and queue among them. A delay level or a timer takes effect now; the status is the timer's.
// topic is the real one.
func final(m *codec.Message, topic string, rec *codec.Record, h *half, b *scratch, o *Options) (store.PutStatus, error) {
	queueID, err := h.queueID()
	if err != nil {
		return store.MessageIllegal, err
	}
	*m = message(rec)
	m.Topic, m.QueueID = topic, queueID
	m.SysFlag = rec.SysFlag&^codec.SysFlagTransactionMask | codec.SysFlagTransactionCommit
	m.PreparedTransactionOffset = rec.PhyOffset
	if h.copied {
		b.props = codec.RemoveProperty(b.props[:0], m.Properties, codec.PropTransPreparedQueueOffset)
		m.Properties = b.props
	}
	level := 0
	if h.delay != nil {
		level, _ = strconv.Atoi(string(h.delay))
	}
	delayed := level > 0
	if delayed || h.timed {
		m.Properties = codec.RemoveProperty(nil, m.Properties, codec.PropTransactionPrepared)
	}
	switch {
	case delayed:
		o.Delay(m, level)
	case h.timed:
		return o.Timed(m)
	}
	return store.PutOK, nil
}

// message is the record as a message to put again; body and properties are the record's.
func message(rec *codec.Record) codec.Message {
	m := codec.Message{Topic: codec.HalfTopic, QueueID: queue, Flag: rec.Flag, SysFlag: rec.SysFlag,
		BornTimestamp: rec.BornTimestamp, BornHost: rec.BornHost, StoreHost: rec.StoreHost,
		ReconsumeTimes: rec.ReconsumeTimes, Body: rec.Body, Properties: rec.Properties}
	if tags, ok := rec.Property(codec.PropTags); ok {
		m.TagsCode = codec.TagsCode(tags)
	}
	return m
}

// putBack makes the next copy of a half message (Java renewHalfMessageInner, renewImmunityHalfMessageInner).
func putBack(rec *codec.Record, checks int, origin int64, props []byte) codec.Message {
	m := message(rec)
	props = codec.RemoveProperty(props[:0], rec.Properties, codec.PropTransactionCheckTimes,
		codec.PropTransPreparedQueueOffset)
	if _, counted := rec.Property(codec.PropTransactionCheckTimes); counted || checks > 0 {
		props = codec.AppendProperty(props, codec.PropTransactionCheckTimes, strconv.Itoa(checks))
	}
	m.Properties = codec.AppendProperty(props, codec.PropTransPreparedQueueOffset, strconv.FormatInt(origin, 10))
	m.SysFlag &^= codec.SysFlagTransactionMask
	// Not 0 tells it from a copy that Java made for its immunity time.
	m.PreparedTransactionOffset = max(rec.PhyOffset, 1)
	return m
}

// givenUp makes the message for TRANS_CHECK_MAX_TIME_TOPIC (Java resolveDiscardMsg).
func givenUp(rec *codec.Record, origin int64, props []byte) codec.Message {
	m := message(rec)
	m.Topic = codec.TransCheckMaxTimeTopic
	m.PreparedTransactionOffset = rec.PhyOffset
	if _, ok := rec.Property(codec.PropTransPreparedQueueOffset); !ok {
		m.Properties = codec.AppendProperty(append(props[:0], rec.Properties...),
			codec.PropTransPreparedQueueOffset, strconv.FormatInt(origin, 10))
	}
	return m
}

// opMessage is one op record; floor is the place before which every commit has one.
func opMessage(body []byte, floor codec.PhyOffset, host netip.AddrPort, nowMillis int64) codec.Message {
	return codec.Message{Topic: codec.OpHalfTopic, QueueID: queue, BornTimestamp: nowMillis, BornHost: host,
		StoreHost: host, Body: body, Properties: opProperties, TagsCode: opTagsCode, PreparedTransactionOffset: floor}
}

var opTagsCode = codec.TagsCode([]byte(opTag))

// parseOp calls f for every half offset in the body of an op message: one number, as 4.9 writes it, or a list with a
// comma behind each. What is no number is counted.
func parseOp(body []byte, f func(offset int64)) (bad int) {
	for text := range strings.SplitSeq(strings.TrimSuffix(string(body), opSeparator), opSeparator) {
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil || at < 0 {
			bad++
			continue
		}
		f(at)
	}
	return bad
}

// appendOp adds half offsets to a body: one alone as 4.9 writes it, several as 5.x does.
func appendOp(dst []byte, offsets []int64) []byte {
	for i, at := range offsets {
		dst = strconv.AppendInt(dst, at, 10)
		if i > 0 || len(offsets) > 1 {
			dst = append(dst, opSeparator...)
		}
	}
	return dst
}
