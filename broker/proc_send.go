package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"skylark/broker/dedup"
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

// sendTurn is what the sends of one turn share: scratch buffers, the messages that are put together at its end, and the
// answers that wait for them.
type sendTurn struct {
	b       *Broker
	header  codec.SendMessageHeader
	msg     codec.Message
	queueID int32 // that the client is told: before a delay or the dead letters changed it
	inner   bool  // msg is an inner batch
	props   []byte
	resp    codec.SendResponse
	puts    store.Turn
	tally   sendTally
	gather  []pendingSend // answers to puts
	waiting []pendingSend // answers that wait for durability
	ids     []byte        // transaction ids of gather and waiting, one after the other
	conn    reactor.Conn
	end     store.PhyOffset // what has to be durable before waiting may be answered
	out     reactor.Outbox
	span    latency.Span // of waiting
	madeID  bool         // the unique id of msg is ours, not its producer's
	tickets []dedup.Ticket
}

// pendingSend is an answer that may not leave yet.
type pendingSend struct {
	opaque         int32
	typ            codec.SerializeType
	oneway         bool
	wait           bool   // for durability
	queueID        int32  // that the client is told
	storedIn       int32  // the queue it was put to
	instead        string // the topic it was put to, if not its own
	inner          bool   // an inner batch
	recall         []byte // handle of a timer message
	topic          *topic.Topic
	put            store.PutResult
	ticket         dedup.Ticket
	idStart, idEnd int // of its transaction id in ids
}

const (
	// maxKeptSendScratch bounds the buffers that go back to the pool.
	maxKeptSendScratch = 256 << 10
	// maxGatherBytes of records are put together at most.
	maxGatherBytes = 256 << 10
)

var sendTurns = sync.Pool{New: func() any { return &sendTurn{} }}

// turnState gives the turn's scratch, made at its first send.
func (p *SendMessageProcessor) turnState(t *rpc.Turn) *sendTurn {
	if st, ok := t.State.(*sendTurn); ok {
		return st
	}
	st := sendTurns.Get().(*sendTurn)
	st.b, st.conn = p.b, t.Conn()
	p.b.handing.sends(st.conn).Add(1)
	st.puts.Reset(p.b.store)
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
	if p.tooEarly(r) {
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
	if r.OnLoop() && !b.store.CanAppend(st.puts.Bytes()+codec.RecordBytes(m)+batchSlack(h.Batch, m)) {
		return false
	}
	if b.duplicates != nil {
		if c := p.claim(r, st, t); c != claimFresh {
			return c == claimAnswered
		}
	}
	span := r.Turn().Span()
	span.About(m.Topic, m.QueueID)
	if h.Batch || m.Topic == codec.HalfTopic {
		st.putAlone(r, t)
		return true
	}
	if put := st.puts.Add(m); put.Status != store.PutOK {
		dropTickets(st.tickets)
		code, remark := putError(&put)
		p.refuse(r, code, remark)
		return true
	}
	st.gather = append(st.gather, st.pending(r, t))
	if len(st.tickets) > 0 {
		st.gather[len(st.gather)-1].ticket = st.tickets[0]
	}
	if st.puts.Bytes() >= maxGatherBytes {
		st.commit(r.Turn())
	}
	return true
}

// putAlone puts what cannot be gathered: a batch, and a half message, of which more has to be noted than an answer takes.
func (st *sendTurn) putAlone(r *rpc.Request, t *topic.Topic) {
	b, m := st.b, &st.msg
	st.commit(r.Turn()) // what came before it is stored before it
	r.Turn().Span().Enter(latency.Append)
	w := st.pending(r, t)
	if st.header.Batch && !st.inner {
		w.put = b.store.AppendBatch(m)
	} else {
		w.put = b.store.Append(m)
	}
	st.stored(r.Turn(), w.put.Waited, &w.put)
	if len(st.tickets) > 0 {
		st.settleTickets(&w)
	}
	if m.Topic == codec.HalfTopic && w.put.Status == store.PutOK {
		b.svc().transactions.Prepared(m, t.Name, &w.put)
	}
	st.answer(r.Turn(), &w)
	st.tally.flush(b.stats)
}

// pending is the answer to the request that was just served.
func (st *sendTurn) pending(r *rpc.Request, t *topic.Topic) pendingSend {
	start := len(st.ids)
	st.ids = append(st.ids, st.resp.TransactionID...)
	return pendingSend{opaque: r.Cmd.Opaque, typ: r.Cmd.Type, oneway: r.Cmd.IsOneway(), wait: st.msg.WaitStoreMsgOK,
		queueID: st.queueID, storedIn: st.msg.QueueID, topic: t, instead: storedInstead(&st.msg), inner: st.inner,
		recall: st.resp.RecallHandle, idStart: start, idEnd: len(st.ids)}
}

// commit puts what the turn has gathered and answers it.
func (st *sendTurn) commit(t *rpc.Turn) {
	if len(st.gather) == 0 {
		return
	}
	t.Span().Enter(latency.Append)
	st.puts.Commit()
	last := st.puts.Result(len(st.gather) - 1)
	st.stored(t, st.puts.Waited(), &last)
	for i := range st.gather {
		w := &st.gather[i]
		w.put = st.puts.Result(i)
		if w.ticket.Valid() {
			w.settleTicket()
		}
		st.answer(t, w)
	}
	st.tally.flush(st.b.stats)
	clear(st.gather)
	st.gather = st.gather[:0]
	st.puts.Reset(st.b.store)
}

// stored ends the stage of the append, of which waited was spent before it could begin.
func (st *sendTurn) stored(t *rpc.Turn, waited time.Duration, last *store.PutResult) {
	span := t.Span()
	span.Waited(latency.Lock, waited)
	span.Enter(latency.Serve)
	st.b.probe.put(span.Lapped(), last)
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
	if n := len(r.Cmd.Body); n == 0 && !isReply(r.Cmd.Code) || n > b.maxMessageSize() {
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
func (st *sendTurn) answer(t *rpc.Turn, w *pendingSend) {
	b := st.b
	if w.put.Status != store.PutOK {
		if !w.oneway {
			code, remark := putError(&w.put)
			b.refuseSend(t.Out(), w.typ, w.opaque, code, remark)
		}
		return
	}
	latencyMillis := max(w.put.StoreTimestamp-t.Millis(), 0)
	if w.instead == "" && w.put.Count == 1 {
		st.tally.count(b.stats, w.topic, w.storedIn, int(w.put.EndOffset-w.put.PhyOffset), latencyMillis)
	} else {
		b.countStored(w.topic, w.instead, w.storedIn, &w.put, latencyMillis)
	}
	st.settle(t, w)
}

// settle replies to a message that is stored now, or at the end of the turn.
func (st *sendTurn) settle(t *rpc.Turn, w *pendingSend) {
	switch b := st.b; {
	case w.oneway:
	case w.wait && b.syncDurability():
		st.end = max(st.end, w.put.EndOffset)
		st.waiting = append(st.waiting, *w)
	default:
		st.appendAnswer(t.Out(), codec.RespSuccess, "", w)
	}
}

// countPut counts a stored message for the topic it was stored under: a delayed one for the schedule topic
// now, for its own when it is delivered (Java SendMessageProcessor.handlePutMessageResult).
func (b *Broker) countPut(t *topic.Topic, m *codec.Message, put *store.PutResult, latencyMillis int64) {
	b.countStored(t, storedInstead(m), m.QueueID, put, latencyMillis)
}

// storedInstead is the broker's topic that a message is kept under until it is due, "" if it is stored under its own.
func storedInstead(m *codec.Message) string {
	switch m.Topic {
	case codec.ScheduleTopic, codec.TimerTopic, codec.HalfTopic:
		return m.Topic
	}
	return ""
}

func (b *Broker) countStored(t *topic.Topic, instead string, queueID int32, put *store.PutResult,
	latencyMillis int64) {
	size := int(put.EndOffset - put.PhyOffset)
	switch instead {
	case "":
	case codec.HalfTopic:
		t = b.topics.Get(instead)
	default:
		t = b.topics.Get(instead)
		b.stats.QueuePut(instead, queueID, put.Count, size)
	}
	t.Put.Count(queueID, put.Count, size, max(latencyMillis, 0))
	b.stats.CountPut(put.Count, t.System)
}

// appendAnswer writes one send reply.
func (st *sendTurn) appendAnswer(out *reactor.Outbox, code int, remark string, w *pendingSend) {
	rs := &st.resp
	rs.Code, rs.Remark = code, remark
	rs.StoreHost = st.b.storeHost
	rs.PhyOffset, rs.QueueID, rs.QueueOffset = w.put.PhyOffset, w.queueID, w.put.QueueOffset
	rs.MorePhyOffset = nil
	if len(w.put.PhyOffsets) > 1 {
		rs.MorePhyOffset = w.put.PhyOffsets[1:]
	}
	rs.TransactionID, rs.RecallHandle, rs.BatchUniqID = st.ids[w.idStart:w.idEnd], w.recall, nil
	if w.inner {
		rs.BatchUniqID = rs.TransactionID
	}
	rs.Region, rs.TraceOn = st.b.cfg.broker.RegionId, st.b.cfg.broker.TraceOn
	out.SetBuffer(codec.AppendSendResponse(out.Buffer(), w.typ, w.opaque, rs))
}

// FinishTurn implements rpc.Finisher: what the turn has gathered is put, and its consumers are told; the answers that wait
// are handed to the group commit as one.
func (st *sendTurn) FinishTurn(t *rpc.Turn) {
	st.commit(t)
	st.b.handing.sends(t.Conn()).Add(-1)
	st.b.store.Dispatch()
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
		_, remark = putError(&store.PutResult{Status: status, Err: st.b.store.NotDurable()})
	}
	for i := range st.waiting {
		st.appendAnswer(out, code, remark, &st.waiting[i])
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
	if !r.Cmd.IsOneway() {
		p.b.refuseSend(r.Out(), r.Cmd.Type, r.Cmd.Opaque, code, remark)
	}
}

func (b *Broker) refuseSend(out *reactor.Outbox, typ codec.SerializeType, opaque int32, code int, remark string) {
	rs := codec.SendResponse{Code: code, Remark: remark, Region: b.cfg.broker.RegionId, TraceOn: b.cfg.broker.TraceOn}
	out.SetBuffer(codec.AppendSendResponse(out.Buffer(), typ, opaque, &rs))
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
