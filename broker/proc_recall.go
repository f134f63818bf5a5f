package broker

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
	"skylark/store/timer"
)

// RecallMessageProcessor serves RECALL_MESSAGE (370): a timer message that waits is not delivered. Java
// RecallMessageProcessor.
//
// The recall is itself a message in the timer, in the slot of the one it names; when the slot is due it takes that one
// out. So it is as durable as a send, and answered under the same conditions: with SYNC_FLUSH after the flush, where
// Java answers after the put.
type RecallMessageProcessor struct{ b *Broker }

// recallTag is the tag of recalls (Java RECALL_MESSAGE_TAG).
const recallTag = "_RECALL_TAG_"

// recall is a decoded handle.
type recall struct {
	topic, broker, uniqKey string
	at                     int64 // ms
}

// parseRecallHandle reads what recallHandle wrote.
func parseRecallHandle(handle string) (rc recall, err error) {
	text, err := base64.URLEncoding.DecodeString(handle)
	if err != nil { // Java's decoder takes them without padding too
		text, err = base64.RawURLEncoding.DecodeString(handle)
	}
	items := strings.Split(string(text), " ")
	if err != nil || len(items) < 5 || items[0] != "v1" {
		return rc, fmt.Errorf("recall handle is invalid")
	}
	at, err := strconv.ParseInt(items[3], 10, 64)
	if err != nil {
		at = -1
	}
	return recall{topic: items[1], broker: items[2], at: at, uniqKey: items[4]}, nil
}

// Process implements rpc.Processor.
func (p *RecallMessageProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.RecallMessageRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if code, remark := p.forbidden(); code != 0 {
		p.reply(r.Defer(), code, remark, "")
		return
	}
	rc, code, remark := p.check(&h)
	if code != 0 {
		p.reply(r.Defer(), code, remark, "")
		return
	}
	m := p.message(r, &h, &rc)
	status, err := b.rewriteTimed(m)
	if status == store.PutOK && m.Topic != codec.TimerTopic { // due between the two looks at the clock
		status, err = store.WheelTimerMsgIllegal, timer.ErrIllegal
	}
	if status != store.PutOK {
		p.reply(r.Defer(), codec.RespSystemError, fmt.Sprintf("recall failed, execute error (%v: %v)", status, err), "")
		return
	}
	put := b.store.Append(m)
	if put.Status != store.PutOK {
		_, remark := putError(&put)
		p.reply(r.Defer(), codec.RespSystemError, "recall failed, execute error: "+remark, "")
		return
	}
	if t := b.topics.Get(codec.TimerTopic); t != nil {
		t.Put.Count(0, put.Count, int(put.EndOffset-put.PhyOffset), max(put.StoreTimestamp-r.Millis(), 0))
		b.stats.CountPut(put.Count, t.System)
	}
	d := r.Defer()
	b.inflight.add()
	done := func(store.PutStatus) { // not flushed or replicated in time is success too, as in Java
		defer b.inflight.done()
		p.reply(d, codec.RespSuccess, "", rc.uniqKey)
	}
	if b.store.Durable(put.EndOffset, b.syncFlushTimeout(), done) {
		done(store.PutOK)
	}
}

// forbidden tells whether the broker takes recalls at all.
func (p *RecallMessageProcessor) forbidden() (code int, remark string) {
	b, c := p.b, p.b.cfg.broker
	const notAvailable = "recall failed, broker service not available"
	switch {
	case !c.RecallMessageEnable:
		return codec.RespNoPermission, "recall failed, operation is forbidden"
	case b.svc().timer == nil:
		return codec.RespServiceNotAvailable, notAvailable + " (timerWheelEnable is false)"
	case b.clock.Millis() < b.startAccept.Load():
		return codec.RespServiceNotAvailable, notAvailable
	case b.permission.Load()&codec.PermWrite == 0 && !c.AllowRecallWhenBrokerNotWriteable:
		return codec.RespServiceNotAvailable, notAvailable
	}
	return 0, ""
}

// check decodes the handle and compares it with the request and the clock.
func (p *RecallMessageProcessor) check(h *codec.RecallMessageRequestHeader) (rc recall, code int, remark string) {
	b := p.b
	if b.topics.Get(h.Topic) == nil {
		return rc, codec.RespTopicNotExist, fmt.Sprintf("recall failed, the topic[%s] not exist", h.Topic)
	}
	rc, err := parseRecallHandle(h.RecallHandle)
	if err != nil {
		return rc, codec.RespIllegalOperation, err.Error()
	}
	left := rc.at - b.clock.Millis()
	switch {
	case rc.topic != h.Topic:
		return rc, codec.RespIllegalOperation, "recall failed, topic not match"
	case rc.broker != b.cfg.broker.BrokerName:
		return rc, codec.RespIllegalOperation, "recall failed, broker service not available"
	case left <= 0 || left >= int64(b.cfg.store.TimerMaxDelaySec)*1000:
		return rc, codec.RespIllegalOperation, "recall failed, timestamp invalid"
	}
	return rc, 0, ""
}

// message makes the recall that is stored.
func (p *RecallMessageProcessor) message(r *rpc.Request, h *codec.RecallMessageRequestHeader, rc *recall) *codec.Message {
	now := p.b.clock.Millis()
	props := codec.AppendProperty(nil, codec.PropTags, recallTag)
	props = codec.AppendProperty(props, codec.PropTimerDelUniqKey, timer.RecallKey(rc.topic, rc.uniqKey))
	props = codec.AppendProperty(props, codec.PropUniqKey, rc.uniqKey)
	props = codec.AppendProperty(props, codec.PropTimerDeliverMs, strconv.FormatInt(rc.at, 10))
	props = codec.AppendProperty(props, codec.PropBornTimestamp, strconv.FormatInt(now, 10))
	props = codec.AppendProperty(props, codec.PropProducerGroup, h.ProducerGroup)
	return &codec.Message{Topic: rc.topic, BornTimestamp: now, BornHost: r.Conn().RemoteAddr(), StoreHost: p.b.storeHost,
		Body: []byte("0"), Properties: props, TagsCode: codec.TagsCode([]byte(recallTag)), WaitStoreMsgOK: true}
}

func (p *RecallMessageProcessor) reply(d rpc.Deferred, code int, remark, uniqKey string) {
	answer := d.Response(code, remark)
	if code == codec.RespSuccess {
		codec.EncodeHeader(answer, &codec.RecallMessageResponseHeader{MsgID: uniqKey})
	}
	answer.Set(codec.PropMsgRegion, p.b.cfg.broker.RegionId)
	_ = d.Reply(answer) // a closed connection needs no answer
}
