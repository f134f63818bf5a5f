package rpc

import (
	"fmt"
	"runtime/debug"
	"sync"

	"skylark/codec"
	"skylark/internal/latency"
	"skylark/reactor"
)

// Finisher is called once when all requests of a turn have been served, before the turn's answers are written.
type Finisher interface{ FinishTurn(t *Turn) }

// Turn is the context that requests of one read (on the loop) or one unit (in a pool) share.
type Turn struct {
	server *Server
	conn   reactor.Conn
	out    *reactor.Outbox
	onLoop bool
	millis int64
	cmd    codec.Command
	req    Request
	units  []*unit // one for each pool that this turn's frames go to
	finish []Finisher
	span   latency.Span
	// State is a processor's own for the turn, nil at its begin (the send processor gathers its waiting puts here).
	State any
}

func (t *Turn) begin(c reactor.Conn, out *reactor.Outbox) {
	t.conn, t.out, t.onLoop = c, out, true
	t.beginSpan(0, 0)
}

// beginSpan reads the clock: once for the time of day and the timeline.
func (t *Turn) beginSpan(arrived int64, depth int) {
	if l := t.server.latency; l != nil {
		t.millis = t.span.Begin(l, arrived, depth, !t.onLoop)
	} else {
		t.millis = t.server.clock.Millis()
	}
}

// Sent implements reactor.SentListener: the answers of a loop's turn are written.
func (t *Turn) Sent() {
	t.span.End(t.conn.RemoteAddr())
	t.reset()
	t.server.turns.Put(t)
}

// end calls the finishers, also those that finishers add.
func (t *Turn) end() {
	for i := 0; i < len(t.finish); i++ {
		t.endOne(t.finish[i])
	}
}

// endOne calls one finisher. If it panics, nobody knows which requests stay without answer: the peer is told by the
// end of the connection.
func (t *Turn) endOne(f Finisher) {
	defer func() {
		if e := recover(); e != nil {
			t.server.log.Error("finisher failed", "remote", t.conn.RemoteAddr(), "panic", e, "stack", string(debug.Stack()))
			t.conn.Close(fmt.Errorf("%w: FinishTurn: %v", reactor.ErrPanic, e))
		}
	}()
	f.FinishTurn(t)
}

func (t *Turn) reset() {
	clear(t.finish)
	clear(t.units)
	t.conn, t.out, t.State = nil, nil, nil
	t.finish, t.units = t.finish[:0], t.units[:0]
	t.cmd.Body, t.cmd.Remark = nil, ""
	clear(t.cmd.Fields[:cap(t.cmd.Fields)]) // they alias a read buffer or a unit
	t.req = Request{}
}

// Conn is the connection the requests came on.
func (t *Turn) Conn() reactor.Conn { return t.conn }

// Out is where answers go.
func (t *Turn) Out() *reactor.Outbox { return t.out }

// Span is the turn's timeline, for processors to say in which stage it is.
func (t *Turn) Span() *latency.Span { return &t.span }

// Millis is the time the turn began, ms since 1970: one clock read for all its requests.
func (t *Turn) Millis() int64 { return t.millis }

// AddFinisher has f called at the end of the turn.
func (t *Turn) AddFinisher(f Finisher) { t.finish = append(t.finish, f) }

func (t *Turn) reply(c *codec.Command) {
	if t.cmd.IsOneway() {
		return
	}
	t.out.SetBuffer(c.AppendTo(t.out.Buffer()))
}

// queue copies a frame into the unit of its pool.
func (t *Turn) queue(rt *route, f codec.Frame) {
	var u *unit
	for _, x := range t.units {
		if x.pool == rt.pool {
			u = x
			break
		}
	}
	if u == nil {
		u = unitPool.Get().(*unit)
		u.conn, u.pool, u.millis, u.arrived = t.conn, rt.pool, t.millis, t.span.Began()
		t.units = append(t.units, u)
	}
	u.add(rt, f)
}

func (t *Turn) submitUnits() {
	for _, u := range t.units {
		if refused := u.pool.submit(u); refused != nil {
			refused.answerFrom(0, codeSystemBusy, overloadRemark)
			refused.release()
		}
	}
}

// unit is what one read brought for one pool.
type unit struct {
	conn   reactor.Conn
	pool   *Pool
	millis int64 // when it came
	buf    []byte
	frames []unitFrame
	// arrived is millis by the latency recorder's clock.
	arrived int64
}

type unitFrame struct {
	rt         *route
	typ        codec.SerializeType
	start, end int // of header+body in buf
	headerLen  int
}

// maxPooledUnitBytes: a larger buffer is given to the collector, so that one big message does not stay for ever.
const maxPooledUnitBytes = 256 << 10

var unitPool = sync.Pool{New: func() any { return &unit{} }}

func (u *unit) add(rt *route, f codec.Frame) {
	start := len(u.buf)
	u.buf = append(u.buf, f.Header...)
	u.buf = append(u.buf, f.Body...)
	u.frames = append(u.frames, unitFrame{rt: rt, typ: f.Type, start: start, end: len(u.buf), headerLen: len(f.Header)})
}

func (u *unit) frame(i int) codec.Frame {
	x := &u.frames[i]
	h := x.start + x.headerLen
	return codec.Frame{Type: x.typ, Header: u.buf[x.start:h:h], Body: u.buf[h:x.end:x.end]}
}

// split cuts u behind its first n requests and returns the others, without their bodies: they will be refused.
func (u *unit) split(n int) *unit {
	rest := unitPool.Get().(*unit)
	rest.conn, rest.pool, rest.millis, rest.arrived = u.conn, u.pool, u.millis, u.arrived
	for i := n; i < len(u.frames); i++ {
		f := u.frame(i)
		f.Body = nil
		rest.add(u.frames[i].rt, f)
	}
	clear(u.frames[n:])
	u.frames = u.frames[:n]
	u.buf = u.buf[:u.frames[n-1].end]
	return rest
}

// answerFrom refuses the requests of the unit from the i-th on.
func (u *unit) answerFrom(i, code int, remark string) {
	var cmd codec.Command
	var out []byte
	for ; i < len(u.frames); i++ {
		if cmd.Decode(u.frame(i)) == nil && !cmd.IsOneway() {
			out = codec.NewResponse(&cmd, code, remark).AppendTo(out)
		}
	}
	if len(out) > 0 {
		_ = u.conn.Send(out) // a closed connection needs no answer
	}
}

func (u *unit) release() {
	if cap(u.buf) > maxPooledUnitBytes {
		return
	}
	clear(u.frames)
	u.conn, u.pool, u.buf, u.frames = nil, nil, u.buf[:0], u.frames[:0]
	unitPool.Put(u)
}
