package broker

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"

	"skylark/broker/topic"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// SendMessageProcessor serves SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320): Java
// SendMessageProcessor with AbstractSendMessageProcessor.
//
// A plain message to a known topic is served on the event loop. Per message: the properties are unescaped and copied
// once into a scratch buffer, the record is encoded once and copied once into the mapping; no allocation, no system
// call, two locks (topic-queue, put). What could wait goes to the send pool: a topic to be created, a CommitLog
// file that is not ready. Under SYNC_FLUSH the answers of a turn wait together for one flush and leave in one write.
//
// Deviations: docs/compat.md.
type SendMessageProcessor struct{ b *Broker }

// ProcessOnLoop implements rpc.LoopProcessor.
func (p *SendMessageProcessor) ProcessOnLoop(r *rpc.Request) bool { return p.send(r) }

// Process implements rpc.Processor.
func (p *SendMessageProcessor) Process(r *rpc.Request) { p.send(r) }

// sendTurn is what the sends of one turn share: scratch buffers, and the answers that wait for durability.
type sendTurn struct {
	b       *Broker
	header  codec.SendMessageHeader
	msg     codec.Message
	props   []byte
	topic   []byte
	resp    codec.SendResponse
	waiting []waitingSend
	ids     []byte // transaction ids of waiting, one after the other
	conn    reactor.Conn
	end     store.PhyOffset // what has to be durable before waiting may be answered
	out     reactor.Outbox
}

// waitingSend is an answer that may not leave yet.
type waitingSend struct {
	opaque  int32
	typ     codec.SerializeType
	queueID int32
	put     store.PutResult
	idEnd   int // of its transaction id in ids
}

// maxKeptSendScratch bounds the buffers that go back to the pool.
const maxKeptSendScratch = 256 << 10

var sendTurns = sync.Pool{New: func() any { return &sendTurn{} }}

// turnState gives the turn's scratch, made at its first send.
func (p *SendMessageProcessor) turnState(t *rpc.Turn) *sendTurn {
	if st, ok := t.State.(*sendTurn); ok {
		return st
	}
	st := sendTurns.Get().(*sendTurn)
	st.b = p.b
	t.State = st
	t.AddFinisher(st)
	return st
}

// send serves one request; false only on a loop, when it could not be served without waiting.
func (p *SendMessageProcessor) send(r *rpc.Request) bool {
	b := p.b
	st := p.turnState(r.Turn())
	h := &st.header
	if err := h.Decode(r.Cmd); err != nil {
		p.refuse(r, codec.RespInvalidParameter, err.Error())
		return true
	}
	if at := b.startAccept.Load(); r.Millis() < at {
		p.refuse(r, codec.RespSystemError, fmt.Sprintf("broker unable to service, until %d", at))
		return true
	}
	t := b.topics.Lookup(h.Topic)
	if t == nil {
		if r.OnLoop() {
			return false
		}
		if t = p.createTopic(r, h); t == nil {
			return true
		}
	}
	if r.OnLoop() && codec.IsRetryTopic(t.Name) {
		return false // its group, and perhaps a dead letter topic, may have to be made
	}
	if refused := p.check(r, h, t); refused {
		return true
	}
	m := &st.msg
	if !p.fill(r, st, t) {
		return true
	}
	if r.OnLoop() && !b.store.CanAppend(codec.RecordBytes(m)+batchSlack(h.Batch, m)) {
		return false
	}
	if codec.IsRetryTopic(t.Name) && !p.retryOrDeadLetter(r, st, t) {
		return true
	}
	var put store.PutResult
	if h.Batch {
		put = b.store.AppendBatch(m)
	} else {
		put = b.store.Append(m)
	}
	p.answer(r, st, t, put)
	return true
}

// batchSlack is what the records of a batch take beyond the bytes of its body, at most: every entry gets a record
// head, the topic and the outer properties.
func batchSlack(batch bool, m *codec.Message) int {
	if !batch {
		return 0
	}
	n, _ := codec.CountBatch(m.Body)
	return n * (codec.MinRecordBytes + len(m.Topic) + len(m.Properties) + 32)
}

// createTopic makes an unknown topic by its template; nil when it has answered.
func (p *SendMessageProcessor) createTopic(r *rpc.Request, h *codec.SendMessageHeader) *topic.Topic {
	b := p.b
	name := string(h.Topic)
	if err := codec.ValidateTopic(name); err != nil {
		p.refuse(r, codec.RespInvalidParameter, err.Error())
		return nil
	}
	var t *topic.Topic
	var err error
	if codec.IsRetryTopic(name) {
		t, err = b.topics.CreateInSendBack(name, 1, codec.PermRead|codec.PermWrite, h.UnitMode, false)
	} else {
		t, err = b.topics.CreateInSend(topic.CreateRequest{Topic: name, DefaultTopic: string(h.DefaultTopic),
			QueueNums: int(h.DefaultTopicQueueNums), UnitMode: h.UnitMode})
	}
	if err != nil || t == nil {
		remark := fmt.Sprintf("topic[%s] not exist, apply first please!%s", name, faqRemark)
		if err != nil {
			remark = fmt.Sprintf("topic[%s] not exist, apply first please! (%v)%s", name, err, faqRemark)
		}
		p.refuse(r, codec.RespTopicNotExist, remark)
		return nil
	}
	return t
}

// check is Java's msgCheck for a topic that exists.
func (p *SendMessageProcessor) check(r *rpc.Request, h *codec.SendMessageHeader, t *topic.Topic) (refused bool) {
	b := p.b
	perm := b.permission.Load()
	if perm&codec.PermWrite == 0 && t.Order {
		p.refuse(r, codec.RespNoPermission, fmt.Sprintf("the broker[%s] sending message is forbidden", b.storeHostText))
		return true
	}
	if t.SendForbidden {
		p.refuse(r, codec.RespNoPermission, fmt.Sprintf("Sending message to topic[%s] is forbidden.", t.Name))
		return true
	}
	if t.Config.Perm&codec.PermWrite == 0 {
		p.refuse(r, codec.RespNoPermission, fmt.Sprintf("the topic[%s] sending message is forbidden", t.Name))
		return true
	}
	queues := max(t.Config.ReadQueueNums, t.Config.WriteQueueNums)
	if h.QueueID >= queues {
		p.refuse(r, codec.RespInvalidParameter, fmt.Sprintf("request queueId[%d] is illegal, %s queues: %d, producer: %s",
			h.QueueID, t.Name, queues, r.Conn().RemoteAddr()))
		return true
	}
	if h.Batch {
		switch {
		case codec.IsRetryTopic(t.Name):
			p.refuse(r, codec.RespMessageIllegal, "batch request does not support retry group")
			return true
		case len(t.Name) > codec.MaxTopicLength:
			p.refuse(r, codec.RespMessageIllegal, fmt.Sprintf("message topic length too long %d", len(t.Name)))
			return true
		}
	}
	return false
}

// fill makes the message of the request: hosts, queue, properties with the broker's own. false: answered.
func (p *SendMessageProcessor) fill(r *rpc.Request, st *sendTurn, t *topic.Topic) bool {
	b, h, m := p.b, &st.header, &st.msg
	*m = codec.Message{
		Topic: t.Name, QueueID: h.QueueID, Flag: h.Flag, SysFlag: h.SysFlag &^ (codec.SysFlagTransactionMask),
		BornTimestamp: h.BornTimestamp, BornHost: r.Conn().RemoteAddr(), StoreHost: b.storeHost,
		ReconsumeTimes: h.ReconsumeTimes, Body: r.Cmd.Body, WaitStoreMsgOK: true,
	}
	if h.QueueID < 0 {
		m.QueueID = rand.Int32N(max(t.Config.WriteQueueNums, 1))
	}
	if t.Config.TopicFilterType == body.MultiTag {
		m.SysFlag |= codec.SysFlagMultiTags
	}
	found := p.properties(st)
	m.Properties = st.props
	if len(m.Body) == 0 {
		p.refuse(r, codec.RespMessageIllegal, "the message has no body")
		return false
	}
	if len(m.Body) > b.maxMessageSize() {
		p.refuse(r, codec.RespMessageIllegal, fmt.Sprintf("the message body has %d bytes, at most maxMessageSize %d",
			len(m.Body), b.maxMessageSize()))
		return false
	}
	return p.special(r, st, found)
}

// seen is what one pass over the properties found.
type seen struct {
	uniqKey     []byte
	delay       []byte
	transaction bool
	timer       bool
	strip       bool // properties that only the broker sets
}

// properties copies the request's properties into st.props and adds the broker's: one pass, no map.
func (p *SendMessageProcessor) properties(st *sendTurn) (s seen) {
	b, h := p.b, &st.header
	props := h.Properties.AppendValue(st.props[:0])
	for name, value := range codec.EachProperty(props) {
		switch string(name) {
		case codec.PropUniqKey:
			s.uniqKey = value
		case codec.PropDelayTimeLevel:
			s.delay = value
		case codec.PropTransactionPrepared:
			s.transaction = string(value) == "true"
		case codec.PropTimerDelaySec, codec.PropTimerDelayMs, codec.PropTimerDeliverMs:
			s.timer = true
		case codec.PropPopCK, codec.PropMsgRegion, codec.PropTraceSwitch, codec.PropCluster:
			s.strip = true
		}
	}
	if s.strip {
		props = codec.RemoveProperty(props[:0:len(props)], props, codec.PropPopCK, codec.PropMsgRegion,
			codec.PropTraceSwitch, codec.PropCluster)
		s.uniqKey, _ = codec.LookupProperty(props, codec.PropUniqKey)
		s.delay, _ = codec.LookupProperty(props, codec.PropDelayTimeLevel)
	}
	if n := len(props); n > 0 && props[n-1] != codec.PropValueSeparator {
		props = append(props, codec.PropValueSeparator)
	}
	if s.uniqKey == nil && !h.Batch {
		at := len(props)
		props = append(props, codec.PropUniqKey...)
		props = append(props, codec.PropNameSeparator)
		props = b.uniqueIDs.Append(props)
		s.uniqKey = props[at+len(codec.PropUniqKey)+1:]
		props = append(props, codec.PropValueSeparator)
	}
	st.props = append(props, b.ownProperties...)
	st.resp.TransactionID = s.uniqKey
	return s
}

// special handles what makes a message more than a plain one. false: answered.
func (p *SendMessageProcessor) special(r *rpc.Request, st *sendTurn, s seen) bool {
	b, h, m := p.b, &st.header, &st.msg
	if h.Batch {
		if s.transaction || s.delay != nil || s.timer {
			p.refuse(r, codec.RespMessageIllegal, "a batch can be neither delayed nor transactional")
			return false
		}
		return p.checkBatch(r, m)
	}
	if s.transaction && !(h.ReconsumeTimes > 0 && s.delay != nil) {
		p.refuse(r, codec.RespNoPermission, fmt.Sprintf(
			"the broker[%s] sending transaction message is forbidden", b.storeHostText))
		return false
	}
	if s.delay != nil {
		level, err := strconv.Atoi(string(s.delay))
		if err != nil {
			p.refuse(r, codec.RespMessageIllegal, fmt.Sprintf("the property DELAY has the value %q, which is no number", s.delay))
			return false
		}
		if level > 0 {
			b.schedule.Rewrite(m, level)
			st.props = m.Properties
			st.resp.TransactionID, _ = codec.LookupProperty(m.Properties, codec.PropUniqKey)
			return true
		}
	}
	if s.timer {
		p.refuse(r, codec.RespSystemError, "timer messages are not enabled on this broker (timerWheelEnable)")
		return false
	}
	return true
}

// checkBatch looks at every entry before anything is stored.
func (p *SendMessageProcessor) checkBatch(r *rpc.Request, m *codec.Message) bool {
	err := codec.EachBatchEntry(m.Body, func(i int, e codec.BatchEntry) error {
		for name, value := range codec.EachProperty(e.Properties) {
			switch string(name) {
			case codec.PropDelayTimeLevel:
				if string(value) != "0" {
					return fmt.Errorf("entry %d: a batch cannot be delayed (property %s)", i, name)
				}
			case codec.PropTimerDelaySec, codec.PropTimerDelayMs, codec.PropTimerDeliverMs, codec.PropTransactionPrepared:
				return fmt.Errorf("entry %d: the property %s is not allowed in a batch", i, name)
			}
		}
		return nil
	})
	if err != nil {
		p.refuse(r, codec.RespMessageIllegal, err.Error())
		return false
	}
	return true
}

// retryOrDeadLetter judges a message that a consumer sends to a retry topic itself because send-back failed: after
// too many tries it goes to the dead letters. false: answered.
func (p *SendMessageProcessor) retryOrDeadLetter(r *rpc.Request, st *sendTurn, t *topic.Topic) bool {
	b, h, m := p.b, &st.header, &st.msg
	g, err := b.groups.Find(codec.GroupOfRetryTopic(t.Name))
	if err != nil {
		p.refuse(r, codec.RespSubscriptionGroupNotExist, fmt.Sprintf("subscription group not exist, %s%s",
			codec.GroupOfRetryTopic(t.Name), faqRemark))
		return false
	}
	limit := g.Config.RetryMaxTimes
	if r.Cmd.Version >= codec.Version349 && h.HasMax {
		limit = h.MaxReconsumeTimes
	}
	if h.ReconsumeTimes <= limit && !b.locks.AnyHeld(g.Name) {
		return true
	}
	dlq, err := b.topics.CreateInSendBack(codec.DLQTopic(g.Name), 1, codec.PermRead|codec.PermWrite, false, false)
	if err != nil {
		p.refuse(r, codec.RespSystemError, fmt.Sprintf("the dead letter topic of group %s cannot be made: %v", g.Name, err))
		return false
	}
	m.Topic, m.QueueID = dlq.Name, 0
	m.Properties = codec.RemoveProperty(m.Properties[:0:len(m.Properties)], m.Properties, codec.PropDelayTimeLevel)
	st.props = m.Properties
	return true
}

// answer replies to a put now, or at the end of the turn once it is durable.
func (p *SendMessageProcessor) answer(r *rpc.Request, st *sendTurn, t *topic.Topic, put store.PutResult) {
	b := p.b
	if put.Status != store.PutOK {
		code, remark := putError(put)
		p.refuse(r, code, remark)
		return
	}
	t.PutNums.Add(int64(put.Count))
	t.PutBytes.Add(int64(put.EndOffset - put.PhyOffset))
	b.stats.CountPut(int64(put.Count))
	b.brokerPut.Add(int64(put.Count))
	if r.Cmd.IsOneway() {
		return
	}
	if b.syncDurability() && st.msg.WaitStoreMsgOK {
		st.conn = r.Conn()
		st.end = max(st.end, put.EndOffset)
		st.ids = append(st.ids, st.resp.TransactionID...)
		st.waiting = append(st.waiting, waitingSend{opaque: r.Cmd.Opaque, typ: r.Cmd.Type, queueID: st.msg.QueueID,
			put: put, idEnd: len(st.ids)})
		return
	}
	st.appendAnswer(r.Out(), r.Cmd.Type, r.Cmd.Opaque, codec.RespSuccess, "", st.msg.QueueID, &put)
}

// appendAnswer writes one send reply; st.resp.TransactionID is set.
func (st *sendTurn) appendAnswer(out *reactor.Outbox, typ codec.SerializeType, opaque int32, code int, remark string,
	queueID int32, put *store.PutResult) {
	rs := &st.resp
	rs.Code, rs.Remark = code, remark
	rs.StoreHost = st.b.storeHost
	rs.PhyOffset, rs.QueueID, rs.QueueOffset = put.PhyOffset, queueID, put.QueueOffset
	rs.MorePhyOffset = nil
	if len(put.PhyOffsets) > 1 {
		rs.MorePhyOffset = put.PhyOffsets[1:]
	}
	rs.Region, rs.TraceOn = st.b.cfg.broker.RegionId, st.b.cfg.broker.TraceOn
	out.SetBuffer(codec.AppendSendResponse(out.Buffer(), typ, opaque, rs))
}

// FinishTurn implements rpc.Finisher: the answers that wait are handed to the group commit as one.
func (st *sendTurn) FinishTurn(t *rpc.Turn) {
	if len(st.waiting) == 0 {
		st.release()
		return
	}
	done := func(status store.PutStatus) {
		st.flushWaiting(&st.out, status)
		_ = st.conn.SendOutbox(&st.out) // a closed connection needs no answer
		st.release()
	}
	if st.b.store.Durable(st.end, st.b.syncFlushTimeout(), done) {
		st.flushWaiting(t.Out(), store.PutOK)
		st.release()
	}
}

func (st *sendTurn) flushWaiting(out *reactor.Outbox, status store.PutStatus) {
	code, remark := codec.RespSuccess, ""
	if status != store.PutOK {
		code, remark = putStatusCode(status), status.String()
	}
	start := 0
	for i := range st.waiting {
		w := &st.waiting[i]
		st.resp.TransactionID = st.ids[start:w.idEnd]
		start = w.idEnd
		st.appendAnswer(out, w.typ, w.opaque, code, remark, w.queueID, &w.put)
	}
}

func (st *sendTurn) release() {
	if cap(st.props)+cap(st.ids)+cap(st.out.Buffer()) > maxKeptSendScratch {
		return
	}
	clear(st.waiting)
	st.waiting, st.ids, st.end, st.conn = st.waiting[:0], st.ids[:0], 0, nil
	st.header, st.msg = codec.SendMessageHeader{}, codec.Message{}
	sendTurns.Put(st)
}

// refuse answers with a code and a remark; every send answer carries region and trace switch.
func (p *SendMessageProcessor) refuse(r *rpc.Request, code int, remark string) {
	if r.Cmd.IsOneway() {
		return
	}
	bc := p.b.cfg.broker
	rs := codec.SendResponse{Code: code, Remark: remark, Region: bc.RegionId, TraceOn: bc.TraceOn}
	out := r.Out()
	out.SetBuffer(codec.AppendSendResponse(out.Buffer(), r.Cmd.Type, r.Cmd.Opaque, &rs))
}

// offsetMsgID is the id of a stored message in answers.
func offsetMsgID(host netip.AddrPort, p store.PhyOffset) string {
	return string(codec.AppendOffsetMsgID(nil, host, p))
}
