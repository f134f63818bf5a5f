package bench

import (
	"context"
	"net"
	"sync"
	"time"

	"skylark/client"
	"skylark/codec"
)

// Limits of a lane.
const (
	// maxSlots and maxSlotBytes bound the requests under way on one connection, whatever the window.
	maxSlots     = 1 << 16
	maxSlotBytes = 64 << 20
	// maxBacklog is how many due messages wait for room on one connection; more are not sent and count as
	// failed.
	maxBacklog = 1 << 16
	// firstRedial and lastRedial are the pauses after a lost connection.
	firstRedial = 50 * time.Millisecond
	lastRedial  = time.Second
)

// slot is a request under way; its opaque is client.FirstOpaque + n, where n modulo the number of slots is
// its index.
type slot struct {
	due, sent int64
	seq       uint64
	busy      bool
	ended     bool // the half message is stored, its commit under way
}

// lane is one connection of a producer, and those that take its place when it is lost.
type lane struct {
	p    *producer
	b    *builder
	sh   *shard
	addr string

	mu       sync.Mutex
	w        *wire // nil while not connected
	slots    []slot
	next     uint32 // number of the next request
	oldest   uint32 // none before it is under way
	inflight int
	backlog  queue // open loop: when messages were due that could not be sent yet
	seq      uint64
	acked    bitmap
	samples  []sample // of one read
}

func newLane(p *producer, b *builder, sh *shard, addr string) *lane {
	n := 1
	for n < min(maxSlots, p.o.window()) {
		n *= 2
	}
	for n > 1 && n*b.frameBytes() > maxSlotBytes {
		n /= 2
	}
	return &lane{p: p, b: b, sh: sh, addr: addr, slots: make([]slot, n)}
}

// window is the limit of requests under way.
func (l *lane) window() int { return min(l.p.o.window(), len(l.slots)) }

// attach begins to use a connection.
func (l *lane) attach(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = &wire{nc: nc, mu: &l.mu, wg: &l.p.writers}
}

// run serves the lane's connections until there is nothing more to do.
func (l *lane) run(ctx context.Context, nc net.Conn) {
	for pause := firstRedial; ; {
		if nc != nil {
			l.attach(nc)
			finished := l.serve(nc)
			_ = nc.Close()
			if l.detach(); finished {
				return
			}
			nc, pause = nil, firstRedial
		}
		if l.over(ctx) {
			return
		}
		var err error
		if nc, err = l.p.dial(ctx, l.addr); err != nil {
			if !wait(ctx, pause) {
				continue // over is true now
			}
			pause = min(2*pause, lastRedial)
		}
	}
}

// detach gives up what was under way on a lost connection: nobody knows what became of it.
func (l *lane) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = nil
	lost := int64(0)
	for ; l.oldest != l.next; l.oldest++ {
		if s := l.slot(l.oldest); s.busy {
			s.busy = false
			lost++
		}
	}
	l.inflight = 0
	if lost > 0 {
		l.sh.fail(failLost, lost, lost*int64(l.p.o.Batch))
	}
}

// over tells that a lane without connection need not get one any more.
func (l *lane) over(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.p.tl.now()
	if l.p.open {
		if ctx.Err() == nil && !(l.p.allDue.Load() && (l.backlog.n == 0 || now > l.p.giveUp.Load())) {
			return false
		}
		if n := int64(l.backlog.n); n > 0 {
			l.sh.fail(failUnsent, n, n*int64(l.p.o.Batch))
			l.backlog.n = 0
		}
		return true
	}
	return ctx.Err() != nil || l.p.stopped(now)
}

// serve begins the load on a connection and reads its answers until there is nothing more to do, or false,
// until it is lost.
func (l *lane) serve(nc net.Conn) (finished bool) {
	r := reader{nc: nc, buf: make([]byte, 0, 64<<10)}
	now := l.p.tl.now()
	for {
		l.mu.Lock()
		err := l.take(&r, now)
		finished = l.turn(now)
		l.mu.Unlock()
		if finished || err != nil {
			return finished
		}
		if err := r.fill(); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.finished(l.p.tl.now())
		}
		now = l.p.tl.now()
	}
}

// turn sends what there is room for; mu is held. It is true when the lane is finished.
func (l *lane) turn(now int64) (finished bool) {
	l.fill(now)
	if l.w != nil {
		l.w.flush(l.direct())
	}
	return l.finished(now)
}

// finished tells that nothing is under way and nothing more will be; mu is held.
func (l *lane) finished(now int64) bool {
	if l.inflight > 0 || l.w != nil && l.w.busy() {
		return false
	}
	if l.p.open {
		return l.p.allDue.Load() && l.backlog.n == 0
	}
	return l.p.stopped(now)
}

// take reads the answers that have come; mu is held.
func (l *lane) take(r *reader, now int64) error {
	l.samples = l.samples[:0]
	err := r.each(func(f codec.Frame) error {
		a, err := client.PeekAnswer(f, &r.cmd)
		if err != nil || !a.IsResponse() {
			return err // requests of the broker are passed over
		}
		since := (uint32(a.Opaque-client.FirstOpaque) - l.oldest) % uint32(client.OpaqueSpan)
		s := l.slot(l.oldest + since)
		if since >= l.next-l.oldest || !s.busy { // not under way: it came after its time
			return nil
		}
		if l.p.o.Transaction && a.Code == codec.RespSuccess && !s.ended {
			s.ended = true
			return l.commit(f, &r.cmd)
		}
		s.busy = false
		l.inflight--
		if a.Code != codec.RespSuccess {
			l.sh.fail(failCode(a.Code), 1, int64(l.p.o.Batch))
			return nil
		}
		l.samples = append(l.samples, sample{s.due, s.sent})
		l.ack(s.seq)
		return nil
	})
	for l.oldest != l.next && !l.slot(l.oldest).busy {
		l.oldest++
	}
	if len(l.samples) > 0 {
		l.sh.answered(now, l.samples, l.sums(int64(len(l.samples))))
	}
	return err
}

// commit appends the END_TRANSACTION of a half message that was acknowledged; mu is held. Clients send it oneway; here it
// is answered, so that the window counts it too, and with the half message's opaque.
func (l *lane) commit(f codec.Frame, cmd *codec.Command) error {
	if err := cmd.Decode(f); err != nil {
		return err
	}
	var sent codec.SendMessageResponseHeader
	if err := codec.DecodeHeader(cmd, &sent); err != nil {
		return err
	}
	_, at, err := codec.ParseOffsetMsgID(sent.MsgID)
	if err != nil {
		return err
	}
	req := codec.NewRequest(codec.ReqEndTransaction)
	req.Type, req.Opaque = l.p.o.Serialize, cmd.Opaque
	codec.EncodeHeader(req, &codec.EndTransactionRequestHeader{ProducerGroup: producerGroup, MsgID: sent.TransactionID,
		TransactionID: sent.TransactionID, TranStateTableOffset: sent.QueueOffset, CommitLogOffset: at,
		CommitOrRollback: codec.SysFlagTransactionCommit})
	if l.w != nil {
		l.w.buf = req.AppendTo(l.w.buf)
	}
	return nil
}

// ack remembers what was acknowledged, if somebody will ask.
func (l *lane) ack(seq uint64) {
	if !l.p.keepAcked {
		return
	}
	for i := range uint64(l.p.o.Batch) {
		l.acked.set(seq + i)
		if l.p.ledger != nil {
			l.p.ledger.Ack(l.b.producer, seq+i)
		}
	}
}

func (l *lane) slot(n uint32) *slot { return &l.slots[n&uint32(len(l.slots)-1)] }

// fill appends requests while the window has room and there are some; mu is held.
func (l *lane) fill(now int64) {
	if l.w == nil {
		return
	}
	l.b.tick(l.p.tl.base.Add(time.Duration(now)))
	sent := int64(0)
	for l.inflight < l.window() && l.next-l.oldest < uint32(len(l.slots)) {
		due := now
		if l.p.open {
			if l.backlog.n == 0 {
				break
			}
			due = l.backlog.pop()
		} else if !l.p.claim(now) {
			break
		}
		s := slot{due: due, sent: now, seq: l.seq, busy: true}
		l.w.buf = l.request(l.w.buf, due)
		if l.p.o.Mode == Oneway {
			sent++
			continue
		}
		*l.slot(l.next - 1) = s
		l.inflight++
	}
	if sent > 0 {
		l.sh.answered(now, nil, l.sums(sent))
	}
	if l.p.o.Mode == Oneway {
		l.oldest = l.next
	}
}

// request appends the next request.
func (l *lane) request(dst []byte, due int64) []byte {
	dst = l.b.append(dst, client.FirstOpaque+int32(l.next%uint32(client.OpaqueSpan)), l.seq, due)
	l.next++
	l.seq += uint64(l.p.o.Batch)
	return dst
}

// sums is what n requests count.
func (l *lane) sums(n int64) sums {
	m := n * int64(l.p.o.Batch)
	return sums{requests: n, messages: m, bytes: m * int64(l.p.o.Size)}
}

// direct tells whether the connection takes what is under way without waiting for the broker.
func (l *lane) direct() bool {
	return l.p.o.Mode != Oneway && l.inflight*l.b.frameBytes() <= directBytes
}

// arrive takes a message that is due and appends its request if there is room.
func (l *lane) arrive(due, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backlog.n >= maxBacklog {
		l.sh.fail(failUnsent, 1, int64(l.p.o.Batch))
		return
	}
	l.backlog.push(due)
	l.fill(now)
}

// expire fails the requests that were sent before the given time; mu is not held.
func (l *lane) expire(now, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; l.oldest != l.next; l.oldest++ {
		s := l.slot(l.oldest)
		if s.busy {
			if s.sent >= before {
				break
			}
			s.busy = false
			l.inflight--
			l.sh.timedOut(now, sample{s.due, s.sent}, int64(l.p.o.Batch))
		}
	}
	if n := int64(l.backlog.n); n > 0 && l.p.open && l.p.allDue.Load() && now > l.p.giveUp.Load() {
		l.sh.fail(failUnsent, n, n*int64(l.p.o.Batch))
		l.backlog.n = 0
	}
	l.poke(now)
}

// poke goes on, or ends the connection's reader if nothing is left to do; mu is held.
func (l *lane) poke(now int64) {
	if l.w != nil && l.turn(now) && l.w != nil { // turn lets go of mu to write
		_ = l.w.nc.Close()
	}
}

// push writes what arrive has appended.
func (l *lane) push() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		l.w.flush(l.direct())
	}
}

// queue is a ring of times.
type queue struct {
	ring []int64
	at   int
	n    int
}

func (q *queue) push(v int64) {
	if q.n == len(q.ring) {
		ring := make([]int64, max(64, 2*q.n))
		for i := range q.n {
			ring[i] = q.ring[(q.at+i)%len(q.ring)]
		}
		q.ring, q.at = ring, 0
	}
	q.ring[(q.at+q.n)%len(q.ring)] = v
	q.n++
}

func (q *queue) pop() int64 {
	v := q.ring[q.at]
	q.at = (q.at + 1) % len(q.ring)
	q.n--
	return v
}
