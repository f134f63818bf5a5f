package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"skylark/broker/topic"
	"skylark/codec"
	"skylark/internal/latency"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// SendMessageProcessor serves SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320): Java
// SendMessageProcessor with AbstractSendMessageProcessor.
//
// A plain message to a known topic is served on the event loop. Per message: the properties are unescaped and
// copied once into a scratch buffer, the record is encoded once and copied once into the mapping; no
// allocation, no system call, two locks (topic-queue, put). What could wait goes to the send pool: a topic to
// be created, a CommitLog file that is not ready. Under SYNC_FLUSH the answers of a turn wait together for
// one flush and leave in one write.
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
	queueID int32 // that the client is told: before a delay or the dead letters changed it
	props   []byte
	resp    codec.SendResponse
	waiting []waitingSend
	ids     []byte // transaction ids of waiting, one after the other
	conn    reactor.Conn
	end     store.PhyOffset // what has to be durable before waiting may be answered
	out     reactor.Outbox
	span    latency.Span // of waiting
}

// waitingSend is an answer that may not leave yet.
type waitingSend struct {
	opaque  int32
	typ     codec.SerializeType
	queueID int32
	put     store.PutResult
	recall  []byte
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

// send serves one request; false only on a loop, when it could not be served without waiting: nothing was
// done then.
func (p *SendMessageProcessor) send(r *rpc.Request) bool {
	b := p.b
	st := p.turnState(r.Turn())
	h := &st.header
	if err := h.Decode(r.Cmd); err != nil {
		p.refuse(r, codec.RespInvalidParameter, err.Error())
		return true
	}
	if at := b.startAccept.Load(); r.Millis() < at {
		p.refuse(r, codec.RespSystemError, "broker unable to service, until "+
			time.UnixMilli(at).Format("2006-01-02 15:04:05,000"))
		return true
	}
	t := b.topics.Lookup(h.Topic)
	if r.OnLoop() && (t == nil || codec.IsRetryTopic(t.Name)) {
		return false // the topic, its group, or a dead letter topic may have to be made
	}
	if t == nil {
		if t = p.createTopic(r, h); t == nil {
			return true
		}
	}
	if p.refused(r, h, t) {
		return true
	}
	dead := false
	if codec.IsRetryTopic(t.Name) {
		var ok bool
		if t, dead, ok = p.retryOrDeadLetter(r, st, t); !ok {
			return true
		}
	}
	if !p.fill(r, st, t, dead) {
		return true
	}
	m := &st.msg
	if r.OnLoop() && !b.store.CanAppend(codec.RecordBytes(m)+batchSlack(h.Batch, m)) {
		return false
	}
	var put store.PutResult
	span := r.Turn().Span()
	span.About(m.Topic, m.QueueID)
	span.Enter(latency.Append)
	if h.Batch {
		put = b.store.AppendBatch(m)
	} else {
		put = b.store.Append(m)
	}
	span.Waited(latency.Lock, put.Waited)
	span.Enter(latency.Serve)
	b.probe.put(span.Lapped(), &put)
	p.answer(r, st, t, &put)
	return true
}

// batchSlack is what the records of a batch take beyond the bytes of its body, at most: every entry gets a
// record head, the topic and the outer properties.
func batchSlack(batch bool, m *codec.Message) int {
	if !batch {
		return 0
	}
	n, _ := codec.CountBatch(m.Body)
	return n * (codec.MinRecordBytes + len(m.Topic) + len(m.Properties) + 32)
}

// createTopic makes an unknown topic by its template; nil when it has answered. A message that would be
// refused anyway makes none.
func (p *SendMessageProcessor) createTopic(r *rpc.Request, h *codec.SendMessageHeader) *topic.Topic {
	b := p.b
	name := string(h.Topic)
	if err := codec.ValidateTopic(name); err != nil {
		p.refuse(r, codec.RespInvalidParameter, err.Error())
		return nil
	}
	if codec.IsSendForbidden(name) {
		p.refuse(r, codec.RespNoPermission, forbiddenTopicRemark(name))
		return nil
	}
	if n := len(r.Cmd.Body); n == 0 || n > b.maxMessageSize() {
		p.refuseBody(r, n)
		return nil
	}
	var t *topic.Topic
	var err error
	if codec.IsRetryTopic(name) {
		if _, err = b.groups.Find(codec.GroupOfRetryTopic(name)); err != nil {
			p.refuseGroup(r, codec.GroupOfRetryTopic(name))
			return nil
		}
		t, err = b.topics.CreateInSendBack(name, 1, codec.PermRead|codec.PermWrite, h.UnitMode, false)
	} else {
		t, err = b.topics.CreateInSend(topic.CreateRequest{Topic: name, DefaultTopic: string(h.DefaultTopic),
			QueueNums: int(h.DefaultTopicQueueNums), UnitMode: h.UnitMode})
	}
	if err != nil {
		code := codec.RespTopicNotExist
		if !errors.Is(err, topic.ErrNotExist) && !errors.Is(err, topic.ErrTooMany) {
			code = codec.RespSystemError // the file could not be written
		}
		p.refuse(r, code, fmt.Sprintf("topic[%s] not exist, apply first please! (%v)%s", name, err, faqRemark))
		return nil
	}
	return t
}

func forbiddenTopicRemark(name string) string {
	return fmt.Sprintf("Sending message to topic[%s] is forbidden.", name)
}

// refused is Java's msgCheck for a topic that exists. Its perm is not looked at, as there: clients learn by
// the route that they shall not send any more, and what they send until then is taken.
func (p *SendMessageProcessor) refused(r *rpc.Request, h *codec.SendMessageHeader, t *topic.Topic) bool {
	b := p.b
	switch queues := max(t.Config.ReadQueueNums, t.Config.WriteQueueNums); {
	case b.permission.Load()&codec.PermWrite == 0 && t.Order:
		p.refuse(r, codec.RespNoPermission, fmt.Sprintf("the broker[%s] sending message is forbidden",
			b.storeHostText))
	case t.SendForbidden:
		p.refuse(r, codec.RespNoPermission, forbiddenTopicRemark(t.Name))
	case h.QueueID >= queues:
		p.refuse(r, codec.RespInvalidParameter,
			fmt.Sprintf("request queueId[%d] is illegal, %s queues: %d, producer: %s", h.QueueID, t.Name, queues,
				r.Conn().RemoteAddr()))
	case h.Batch && len(t.Name) > codec.MaxTopicLength:
		p.refuse(r, codec.RespMessageIllegal, fmt.Sprintf("message topic length too long %d", len(t.Name)))
	case h.Batch && codec.IsRetryTopic(t.Name):
		p.refuse(r, codec.RespMessageIllegal, "batch request does not support retry group "+t.Name)
	default:
		return false
	}
	return true
}

// retryOrDeadLetter judges a message that a consumer sends to a retry topic itself because send-back failed:
// after too many tries, or if the group holds queue locks and a retry would break its order, it goes to the
// dead letters. !ok: answered.
func (p *SendMessageProcessor) retryOrDeadLetter(r *rpc.Request, st *sendTurn,
	t *topic.Topic) (to *topic.Topic, dead, ok bool) {
	b, h := p.b, &st.header
	g, err := b.groups.Find(codec.GroupOfRetryTopic(t.Name))
	if err != nil {
		p.refuseGroup(r, codec.GroupOfRetryTopic(t.Name))
		return nil, false, false
	}
	limit := g.Config.RetryMaxTimes
	if r.Cmd.Version >= codec.Version349 && h.HasMax {
		limit = h.MaxReconsumeTimes
	}
	if h.ReconsumeTimes <= limit && !b.locks.AnyHeld(g.Name) {
		return t, false, true
	}
	dlq, err := b.topics.CreateInSendBack(codec.DLQTopic(g.Name), 1, codec.PermRead|codec.PermWrite, false,
		false)
	if err != nil {
		p.refuse(r, codec.RespSystemError, fmt.Sprintf("topic[%s] not exist: %v", codec.DLQTopic(g.Name), err))
		return nil, false, false
	}
	return dlq, true, true
}

func (p *SendMessageProcessor) refuseGroup(r *rpc.Request, name string) {
	p.refuse(r, codec.RespSubscriptionGroupNotExist, fmt.Sprintf("subscription group not exist, %s %s", name,
		faqRemark))
}

// answer replies to a put now, or at the end of the turn once it is durable.
func (p *SendMessageProcessor) answer(r *rpc.Request, st *sendTurn, t *topic.Topic, put *store.PutResult) {
	b := p.b
	if put.Status != store.PutOK {
		code, remark := putError(put)
		p.refuse(r, code, remark)
		return
	}
	if st.msg.Topic == codec.HalfTopic {
		b.transactions.Prepared(&st.msg, t.Name, put)
	}
	b.countPut(t, &st.msg, put, put.StoreTimestamp-r.Millis())
	if r.Cmd.IsOneway() {
		return
	}
	if b.syncDurability() && st.msg.WaitStoreMsgOK {
		st.conn = r.Conn()
		st.end = max(st.end, put.EndOffset)
		st.ids = append(st.ids, st.resp.TransactionID...)
		st.waiting = append(st.waiting, waitingSend{opaque: r.Cmd.Opaque, typ: r.Cmd.Type, queueID: st.queueID,
			put: *put, recall: st.resp.RecallHandle, idEnd: len(st.ids)})
		return
	}
	st.appendAnswer(r.Out(), r.Cmd.Type, r.Cmd.Opaque, codec.RespSuccess, "", st.queueID, put)
}

// countPut counts a stored message for the topic it was stored under: a delayed one for the schedule topic
// now, for its own when it is delivered (Java SendMessageProcessor.handlePutMessageResult).
func (b *Broker) countPut(t *topic.Topic, m *codec.Message, put *store.PutResult, latencyMillis int64) {
	size := int(put.EndOffset - put.PhyOffset)
	if m.Topic == codec.ScheduleTopic || m.Topic == codec.TimerTopic {
		t = b.topics.Get(m.Topic)
		b.stats.QueuePut(m.Topic, m.QueueID, put.Count, size)
	} else if m.Topic == codec.HalfTopic {
		t = b.topics.Get(codec.HalfTopic)
	}
	t.Put.Count(m.QueueID, put.Count, size, max(latencyMillis, 0))
	b.stats.CountPut(put.Count, t.System)
}

// appendAnswer writes one send reply; st.resp.TransactionID is set.
func (st *sendTurn) appendAnswer(out *reactor.Outbox, typ codec.SerializeType, opaque int32, code int,
	remark string, queueID int32, put *store.PutResult) {
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
	st.b.inflight.add()
	t.Span().Detach(&st.span, latency.Send, len(st.waiting), latency.Flush)
	done := func(status store.PutStatus) {
		defer st.b.inflight.done()
		st.span.Enter(latency.Write)
		st.flushWaiting(&st.out, status)
		_ = st.conn.SendOutbox(&st.out) // a closed connection needs no answer
		st.span.End(st.conn.RemoteAddr())
		st.release()
	}
	if st.b.store.Durable(st.end, st.b.syncFlushTimeout(), done) {
		st.span.End(st.conn.RemoteAddr())
		st.flushWaiting(t.Out(), store.PutOK)
		st.b.inflight.done()
		st.release()
	}
}

func (st *sendTurn) flushWaiting(out *reactor.Outbox, status store.PutStatus) {
	code, remark := putStatusCode(status), ""
	if status == store.ServiceNotAvailable {
		_, why := st.b.store.Writable()
		_, remark = putError(&store.PutResult{Status: status, Err: why})
	}
	start := 0
	for i := range st.waiting {
		w := &st.waiting[i]
		st.resp.TransactionID = st.ids[start:w.idEnd]
		start = w.idEnd
		st.resp.RecallHandle = w.recall
		st.appendAnswer(out, w.typ, w.opaque, code, remark, w.queueID, &w.put)
	}
}

func (st *sendTurn) release() {
	if cap(st.props)+cap(st.ids)+cap(st.out.Buffer()) > maxKeptSendScratch {
		return
	}
	clear(st.waiting)
	st.waiting, st.ids, st.end, st.conn = st.waiting[:0], st.ids[:0], 0, nil
	st.msg, st.resp = codec.Message{}, codec.SendResponse{}
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

func (p *SendMessageProcessor) refuseBody(r *rpc.Request, n int) {
	if n == 0 {
		p.refuse(r, codec.RespMessageIllegal, "the message has no body")
		return
	}
	p.refuse(r, codec.RespMessageIllegal, fmt.Sprintf("%s (the message body has %d bytes)", p.b.illegalRemark(),
		n))
}

// offsetMsgID is the id of a stored message in answers.
func offsetMsgID(host netip.AddrPort, p store.PhyOffset) string {
	return string(codec.AppendOffsetMsgID(nil, host, p))
}
