package broker

import (
	"cmp"
	"slices"
	"sync"

	"skylark/broker/conn"
	"skylark/broker/hold"
	"skylark/codec"
	"skylark/internal/latency"
	"skylark/reactor"
)

// maxSuspendMillis bounds suspendTimeoutMillis: one day. Clients ask for 15 to 20 s.
const maxSuspendMillis = 24 * 60 * 60 * 1000

// heldPull is a parked pull: the header in memory of its own, nothing of the frame. It is reused after its answer.
type heldPull struct {
	b      *Broker
	h      codec.PullMessageHeader
	sub    *conn.Subscription
	conn   reactor.Conn
	code   int
	typ    codec.SerializeType
	opaque int32
	woken  int64 // when it was, if a reader goroutine serves it; latency.Recorder.Now
	text   []byte
	anyone bool // every message may be wanted: the subscription alone does not tell, see pull.byOrigin
	cold   bool // it has waited because its group reads too much cold data
}

var heldPulls = sync.Pool{New: func() any { return &heldPull{} }}

// maxKeptText bounds the text that a heldPull in the pool keeps.
const maxKeptText = 1 << 10

func (w *heldPull) release() {
	if cap(w.text) <= maxKeptText {
		*w = heldPull{text: w.text[:0]}
		heldPulls.Put(w)
	}
}

// park holds the request; false when too many are held already, or the broker stops.
func (q *pull) park() bool {
	b := q.b
	wait := q.h.SuspendTimeoutMillis
	if !b.cfg.broker.LongPollingEnable {
		wait = b.cfg.broker.ShortPollingTimeMills
	}
	if wait <= 0 || q.oneway {
		return q.oneway // nobody waits for an answer
	}
	hp := q.keep()
	key := hold.Key{Topic: q.topic.Name, QueueID: q.h.QueueID}
	if !b.hold.Park(key, q.conn.ID(), q.millis+min(wait, maxSuspendMillis), hp) {
		hp.release()
		return false
	}
	if !b.mayHold(q, key) {
		b.hold.WakeQueue(key)
	}
	if q.mayWait { // in a pool: the connection may have ended since the request came
		b.forgetIfClosed(q.conn)
	}
	return true
}

// mayHold asks once more what serve has asked before it found nothing: the answer may have changed before the pull
// was parked, and who changed it has woken only those that were parked by then.
func (b *Broker) mayHold(q *pull, key hold.Key) bool {
	if b.offsets.HasReset(key.Topic, q.group.Name, key.QueueID) {
		return false
	}
	return q.topic.Light || b.topics.Get(key.Topic) == q.topic
}

// keep is the request in memory of its own.
func (q *pull) keep() *heldPull {
	hp := heldPulls.Get().(*heldPull)
	hp.anyone = q.byOrigin()
	hp.b, hp.sub, hp.conn, hp.code, hp.typ, hp.opaque = q.b, q.sub, q.conn, q.code, q.typ, q.opaque
	hp.keepHeader(&q.h)
	return hp
}

// keepHeader copies what the header has of the frame, in one piece.
func (w *heldPull) keepHeader(h *codec.PullMessageHeader) {
	kept := codec.PullMessageHeader{QueueID: h.QueueID, QueueOffset: h.QueueOffset, MaxMsgNums: h.MaxMsgNums,
		SysFlag: h.SysFlag, SubVersion: h.SubVersion, MaxMsgBytes: h.MaxMsgBytes, RequestSource: h.RequestSource,
		Physical: h.Physical}
	n := len(h.ConsumerGroup) + len(h.Topic) + len(h.Subscription) + len(h.ExpressionType)
	buf := slices.Grow(w.text[:0], n) // does not move any more
	keep := func(b []byte) []byte {
		at := len(buf)
		buf = append(buf, b...)
		return buf[at:len(buf):len(buf)]
	}
	kept.ConsumerGroup, kept.Topic = keep(h.ConsumerGroup), keep(h.Topic)
	kept.Subscription, kept.ExpressionType = keep(h.Subscription), keep(h.ExpressionType)
	w.h, w.text = kept, buf
}

// Want implements hold.Wait.
func (w *heldPull) Want() codec.QueueOffset { return w.h.QueueOffset }

// Interested implements hold.Wait.
func (w *heldPull) Interested(tagsCode int64, properties []byte) bool {
	return w.anyone || w.sub.Interested(tagsCode, properties)
}

// Wake implements hold.Wait: the pull runs once more, with all its checks, in the goroutine that reports the
// message, without waiting for the disk; should that be needed it goes to a reader goroutine.
func (w *heldPull) Wake() { w.serve(false) }

// Expire implements hold.Wait.
func (w *heldPull) Expire() { w.serve(false) }

func (w *heldPull) serve(mayWait bool) {
	s := wakes.Get().(*wake)
	defer wakes.Put(s)
	c := w.conn
	s.millis = s.span.Begin(w.b.latency, w.woken, 0, mayWait)
	if s.add(w, mayWait) {
		s.send(c)
	}
}

// expired answers pulls whose time is up: those of a connection, which clients begin together, in one write.
func (b *Broker) expired(waits []hold.Wait) {
	slices.SortStableFunc(waits, func(x, y hold.Wait) int {
		return cmp.Compare(x.(*heldPull).conn.ID(), y.(*heldPull).conn.ID())
	})
	s := wakes.Get().(*wake)
	defer wakes.Put(s)
	for i := 0; i < len(waits); {
		c, any := waits[i].(*heldPull).conn, false
		s.millis = s.span.Begin(b.latency, 0, 0, false)
		for ; i < len(waits) && waits[i].(*heldPull).conn == c && s.out.Size() < maxExpiredBytes; i++ {
			any = s.add(waits[i].(*heldPull), false) || any
		}
		if any {
			s.send(c)
		}
	}
}

// maxExpiredBytes is how much of a connection's answers leaves at once.
const maxExpiredBytes = 64 << 10

// wake is what serving parked pulls of a connection takes.
type wake struct {
	out    reactor.Outbox
	span   latency.Span
	millis int64
}

// add serves a pull and gives it back; false when a reader goroutine has it now.
func (s *wake) add(w *heldPull, mayWait bool) bool {
	q := pulls.Get().(*pull)
	defer q.release()
	q.b, q.h, q.conn, q.out, q.span, q.millis = w.b, w.h, w.conn, &s.out, &s.span, s.millis
	s.span.Count(latency.Wake, w.code)
	q.code, q.typ, q.opaque, q.mayWait, q.afterCold = w.code, w.typ, w.opaque, mayWait, w.cold
	if q.serve() == pullWouldWait {
		w.woken = s.span.Began()
		if w.b.readers.submit(func() { w.serve(true) }) {
			s.span.Uncount(latency.Wake)
			return false
		}
		q.refuse(codec.RespSystemBusy, "too many reads of cold data wait", 0)
	}
	w.release()
	return true
}

// send writes what was answered.
func (s *wake) send(c reactor.Conn) {
	s.span.Enter(latency.Write)
	if !s.out.Empty() {
		_ = c.SendOutbox(&s.out) // a closed connection needs no answer
	}
	s.span.End(c.RemoteAddr())
}

var wakes = sync.Pool{New: func() any { return &wake{} }}
