package rpc

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/latency"
	"skylark/reactor"
)

// Response codes the server itself answers with (Java RemotingSysResponseCode, ResponseCode).
const (
	codeSystemError    = 1
	codeSystemBusy     = 2
	codeNotSupported   = 3
	codeGoAway         = 1500
	goAwayAfterVersion = 475 // V5_3_1: clients above it understand GO_AWAY
	overloadRemark     = "[OVERLOAD]system busy, start flow control for a while"
)

// RejectRequestRemark is what Route.Reject answers when it has nothing more precise to say.
const RejectRequestRemark = "[REJECTREQUEST]system busy, start flow control for a while"

// Processor serves the requests of some codes. Process may wait; it runs in the code's pool. It answers through the
// request: Reply, Out for hand-made frames, or Defer to answer later. A panic is answered with code 1.
type Processor interface{ Process(r *Request) }

// LoopProcessor can serve a request on the event loop. ProcessOnLoop never waits; false means that it could not be
// served without waiting: nothing was done and the request goes to the pool.
type LoopProcessor interface {
	Processor
	ProcessOnLoop(r *Request) bool
}

// ProcessorFunc makes a function a Processor.
type ProcessorFunc func(r *Request)

// Process calls f.
func (f ProcessorFunc) Process(r *Request) { f(r) }

// Authenticator judges a request before its processor sees it (ACL); a non-nil answer is sent instead. Taken is none: the
// request is the Authenticator's then, which answers it later (Request.Defer) or has it served after all (Server.Serve).
type Authenticator func(r *Request) *codec.Command

// Taken is what an Authenticator returns that has taken a request over.
var Taken = &codec.Command{}

// ConnListener is told about connections; both funcs are optional.
type ConnListener struct {
	Opened func(c reactor.Conn) error
	Closed func(c reactor.Conn, reason error)
}

type route struct {
	code   int
	proc   Processor
	onLoop LoopProcessor // nil: never on the loop
	pool   *Pool
	reject func(r *Request) string // "" = accept; else the remark of SYSTEM_BUSY
	class  latency.Class
}

// Server is a reactor.Handler. Routes are registered before it is started.
type Server struct {
	routes   map[int]*route
	fallback *route
	listener ConnListener
	auth     Authenticator
	calls    calls
	pools    []*Pool
	draining atomic.Bool
	clock    clock.Clock
	log      *slog.Logger
	turns    sync.Pool
	latency  *latency.Recorder
}

// NewServer makes a server without routes.
func NewServer(ck clock.Clock, log *slog.Logger) *Server {
	s := &Server{routes: map[int]*route{}, clock: ck, log: log}
	s.calls.init(ck)
	s.turns.New = func() any { return &Turn{server: s} }
	return s
}

// NewPool makes a business pool that Close ends.
func (s *Server) NewPool(o PoolOptions) *Pool {
	p := newPool(s, o)
	s.pools = append(s.pools, p)
	return p
}

// Route names who serves a code.
type Route struct {
	Code      int
	Processor Processor
	Pool      *Pool
	// OnLoop lets a LoopProcessor be tried on the event loop first.
	OnLoop bool
	// Reject is asked before the request is queued (Java NettyRequestProcessor.rejectRequest); "" accepts.
	Reject func(r *Request) string
	// Class of the requests in the latency histograms.
	Class latency.Class
}

// Register adds a route; a second one for the same code is a bug.
func (s *Server) Register(o Route) {
	if s.routes[o.Code] != nil {
		panic(fmt.Sprintf("BUG: rpc: request code %d registered twice", o.Code))
	}
	s.routes[o.Code] = newRoute(o)
}

// RegisterDefault serves all other codes (admin). Without it they are answered with code 3.
func (s *Server) RegisterDefault(p Processor, pool *Pool) {
	s.fallback = newRoute(Route{Code: -1, Processor: p, Pool: pool})
}

func newRoute(o Route) *route {
	r := &route{code: o.Code, proc: o.Processor, pool: o.Pool, reject: o.Reject, class: o.Class}
	if lp, ok := o.Processor.(LoopProcessor); ok && o.OnLoop {
		r.onLoop = lp
	}
	if r.pool == nil && r.onLoop == nil {
		panic(fmt.Sprintf("BUG: rpc: request code %d has neither pool nor loop", o.Code))
	}
	return r
}

// Codes are the registered request codes, in no order.
func (s *Server) Codes() []int {
	out := make([]int, 0, len(s.routes))
	for c := range s.routes {
		out = append(out, c)
	}
	return out
}

// SetListener and SetAuthenticator are called before the server is started.
func (s *Server) SetListener(l ConnListener) { s.listener = l }

// SetAuthenticator installs the check that every request passes.
func (s *Server) SetAuthenticator(a Authenticator) { s.auth = a }

// SetLatency has all requests measured; it is called before the server is started.
func (s *Server) SetLatency(l *latency.Recorder) { s.latency = l }

// OnOpen implements reactor.Handler.
func (s *Server) OnOpen(c reactor.Conn) error {
	if s.listener.Opened != nil {
		return s.listener.Opened(c)
	}
	return nil
}

// OnClose implements reactor.Handler.
func (s *Server) OnClose(c reactor.Conn, reason error) {
	s.calls.closed(c)
	if s.listener.Closed != nil {
		s.listener.Closed(c, reason)
	}
}

// OnFrames implements reactor.Handler: one turn.
func (s *Server) OnFrames(c reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	t := s.turns.Get().(*Turn)
	t.begin(c, out)
	for _, f := range frames {
		if err := t.cmd.Decode(f); err != nil {
			c.Close(err)
			break
		}
		t.cmd.Code = codec.NormalizeRequestCode(t.cmd.Code)
		if t.cmd.IsResponse() {
			s.calls.complete(c, &t.cmd)
			continue
		}
		s.dispatch(t, f)
	}
	t.end()
	t.submitUnits()
	t.span.Enter(latency.Write)
	if out.Empty() {
		t.Sent()
	} else {
		out.OnSent(t) // ends the turn
	}
}

// dispatch serves one decoded request of a loop turn or queues it.
func (s *Server) dispatch(t *Turn, f codec.Frame) {
	rt := s.routes[t.cmd.Code]
	if rt == nil {
		if rt = s.fallback; rt == nil {
			t.reply(codec.NewResponse(&t.cmd, codeNotSupported, notSupported(t.cmd.Code)))
			return
		}
	}
	r := &t.req
	r.turn, r.Cmd = t, &t.cmd
	t.span.Count(rt.class, t.cmd.Code)
	if !s.serveOnLoop(rt, r) {
		t.span.Uncount(rt.class)
		t.queue(rt, f)
	}
}

// serveOnLoop refuses a request, or serves it if that can be done without waiting; else it is false.
func (s *Server) serveOnLoop(rt *route, r *Request) (served bool) {
	defer s.recovered(r, r.turn.out.Size(), &served)
	if s.draining.Load() && r.Cmd.Version > goAwayAfterVersion {
		r.ReplyError(codeGoAway, "please go away")
		return true
	}
	if s.auth != nil {
		if answer := s.auth(r); answer != nil {
			if answer != Taken {
				r.Reply(answer)
			}
			return true
		}
	}
	if rt.reject != nil {
		if why := rt.reject(r); why != "" {
			r.ReplyError(codeSystemBusy, why)
			return true
		}
	}
	if rt.onLoop != nil && rt.onLoop.ProcessOnLoop(r) {
		return true
	}
	if rt.pool == nil {
		r.ReplyError(codeSystemBusy, overloadRemark)
		return true
	}
	return false
}

// Serve has a request that an Authenticator took over served in its code's pool, without asking it again. cmd is as it came
// and stays the caller's.
func (s *Server) Serve(c reactor.Conn, cmd *codec.Command) {
	buf := cmd.AppendTo(nil)
	f, _, _, err := codec.SplitFrame(buf, len(buf))
	if err != nil {
		panic("BUG: rpc: " + err.Error())
	}
	rt := s.routes[cmd.Code]
	if rt == nil || rt.pool == nil {
		panic(fmt.Sprintf("BUG: rpc: request code %d has no pool", cmd.Code))
	}
	t := Turn{server: s, conn: c}
	t.beginSpan(0, 0)
	t.queue(rt, f)
	t.submitUnits()
}

func (s *Server) serve(rt *route, r *Request) {
	served := true
	defer s.recovered(r, r.turn.out.Size(), &served)
	rt.proc.Process(r)
}

// recovered turns a processor's panic into an answer, unless it has written one: the fault of one request disturbs no
// other. before is the outbox's size when the request began.
func (s *Server) recovered(r *Request, before int, served *bool) {
	if e := recover(); e != nil {
		s.log.Error("processor failed", "code", r.Cmd.Code, "remote", r.Conn().RemoteAddr(), "panic", e,
			"stack", string(debug.Stack()))
		*served = true
		if r.turn.out.Size() == before {
			r.ReplyError(codeSystemError, fmt.Sprintf("internal error in request %d: %v", r.Cmd.Code, e))
		}
	}
}

func notSupported(code int) string { return fmt.Sprintf(" request type %d not supported", code) }

// Drain refuses new requests of clients that understand GO_AWAY and waits until the pools are empty, at most for d.
func (s *Server) Drain(d time.Duration) bool {
	s.draining.Store(true)
	deadline := s.clock.Now().Add(d)
	ok := true
	for _, p := range s.pools {
		ok = p.waitEmpty(deadline.Sub(s.clock.Now())) && ok
	}
	return ok
}

// Close ends the pools (their queues are served first) and fails the calls that wait.
func (s *Server) Close() {
	for _, p := range s.pools {
		p.close()
	}
	s.calls.close()
}

// Pools are all pools, for runtime info and metrics.
func (s *Server) Pools() []*Pool { return s.pools }
