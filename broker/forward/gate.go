package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/internal/clock"
	"skylark/reactor"
	"skylark/reactor/rpc"
)

// Limits of what is kept.
const (
	// MaxHeld and MaxHeldBytes bound the requests that are kept; further ones are answered SYSTEM_BUSY.
	MaxHeld      = 100_000
	MaxHeldBytes = 64 << 20
	// DefaultMaxHold is Options.MaxHold: below the time that clients wait (3 s).
	DefaultMaxHold = 2 * time.Second
	// sweepInterval is how often what is kept too long is looked for.
	sweepInterval = 50 * time.Millisecond
	// askInterval is the pause between two questions whether the new master serves.
	askInterval = 2 * time.Millisecond
	// retryTime is how long refusals of a new master that is only just one are tried again, and retryPause how often.
	retryTime  = time.Second
	retryPause = 5 * time.Millisecond
	// closeTime is how long Close waits for answers of the new master to anything but pulls.
	closeTime = time.Second
)

// state of a gate, see the package comment.
type state uint8

const (
	off state = iota
	holding
	settling
	forwarding
)

// Options of a Gate. All but MaxHold are required.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Client talks to new masters; nobody else uses it. It is the Gate's and closed with it.
	Client *client.Client
	// Serves asks a broker whether it takes messages as a master.
	Serves func(ctx context.Context, addr string) bool
	// Master tells that this broker is a master itself (again).
	Master func() bool
	// Serve has a request served here after all (rpc.Server.Serve).
	Serve func(c reactor.Conn, cmd *codec.Command)
	// Begun and Done are called for every request that is taken and when it is answered: a stop waits for them.
	Begun, Done func()
	MaxHold     time.Duration
}

// Gate is what requests pass before anything else. Its methods may be called from any goroutine.
type Gate struct {
	o  Options
	on atomic.Bool

	mu      sync.Mutex
	state   state
	addr    string
	until   time.Time // the end of forwarding
	retry   time.Time // refusals are tried again until then
	queue   []*taken
	bytes   int
	ready   chan struct{} // closed when forwarding begins or it was given up
	begun   time.Time     // of the hold
	held    int64         // requests kept since then
	tally   Stats
	away    int           // requests at the new master that do not wait for messages
	home    chan struct{} // closed when away gets 0; nil while nobody waits
	wake    chan struct{}
	running bool
	closed  bool
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	timer   clock.Timer
}

// Stats count what became of requests that were taken.
type Stats struct {
	Held      int64 // kept while nobody served
	Forwarded int64 // sent to another broker
	Refused   int64 // answered SYSTEM_BUSY
}

// taken is one request.
type taken struct {
	d   rpc.Deferred
	cmd *codec.Command
	at  time.Time
}

func (t *taken) bytes() int { return len(t.cmd.Body) + 512 }

// New makes a gate that is off.
func New(o Options) *Gate {
	if o.MaxHold <= 0 {
		o.MaxHold = DefaultMaxHold
	}
	g := &Gate{o: o, wake: make(chan struct{}, 1), ready: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// On tells whether requests have to be shown to Take. One atomic load.
func (g *Gate) On() bool { return g.on.Load() }

// Take takes a request over, or leaves it (false). It does not wait.
func (g *Gate) Take(r *rpc.Request) bool {
	if !Concerns(r.Cmd.Code) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.state == off || g.closed:
		return false
	case g.state == forwarding && (g.o.Master() || !g.o.Clock.Now().Before(g.until)):
		g.endLocked()
		return false
	}
	t := &taken{d: r.Defer(), cmd: r.Cmd.Clone(), at: g.o.Clock.Now()}
	g.o.Begun()
	if len(g.queue) >= MaxHeld || len(g.queue) > 0 && g.bytes+t.bytes() > MaxHeldBytes {
		g.refuse(t, "too many requests wait for the new master")
		return true
	}
	if g.state != forwarding {
		g.held++
		g.tally.Held++
	}
	g.queue = append(g.queue, t)
	g.bytes += t.bytes()
	g.poke()
	return true
}

// Hold keeps what comes from now on.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.state == holding {
		return
	}
	g.state, g.addr, g.begun, g.held = holding, "", g.o.Clock.Now(), 0
	g.ready = make(chan struct{})
	g.on.Store(true)
	g.sweepLater()
}

// Forward sends what was kept, and what comes within d, to a broker as soon as that one serves. The channel is closed then.
func (g *Gate) Forward(addr string, d time.Duration) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.ready
	}
	if g.state == off {
		g.begun, g.held, g.ready = g.o.Clock.Now(), 0, make(chan struct{})
	}
	g.state, g.addr, g.until = settling, addr, g.o.Clock.Now().Add(d)
	g.on.Store(true)
	if !g.running {
		g.running = true
		g.wg.Go(g.run)
	}
	g.sweepLater()
	g.poke()
	return g.ready
}

// Release has what was kept served here: the role stays, or has come back.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked()
}

// endLocked goes back to off.
func (g *Gate) endLocked() {
	if g.state == off {
		return
	}
	if g.state != forwarding {
		close(g.ready)
	}
	g.state = off
	g.on.Store(false)
	for _, t := range g.queue {
		g.o.Serve(t.d.Conn, t.cmd)
		g.o.Done()
	}
	g.queue, g.bytes = nil, 0
	g.poke()
}

// Held tells how many requests were kept since Hold, and since when.
func (g *Gate) Held() (n int64, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held, g.begun
}

// Stats are counts since the start.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tally
}

// Target is where requests go now, "" if nowhere.
func (g *Gate) Target() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == off || !g.o.Clock.Now().Before(g.until) {
		return ""
	}
	return g.addr
}

// Close answers what is kept and ends. What is under way at another broker is answered with its end.
func (g *Gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.on.Store(false)
	g.refuseAll(func(*taken) bool { return true }, "the broker stops")
	if g.timer != nil {
		g.timer.Stop()
	}
	home := make(chan struct{})
	if g.away == 0 || g.home != nil {
		close(home)
	} else {
		g.home = home
	}
	g.mu.Unlock()
	late := make(chan struct{})
	t := g.o.Clock.AfterFunc(closeTime, func() { close(late) })
	select {
	case <-home:
	case <-late:
	}
	t.Stop()
	g.cancel()
	err := g.o.Client.Close()
	g.wg.Wait()
	return err
}

func (g *Gate) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// sweepLater has the queue looked at; mu is held.
func (g *Gate) sweepLater() {
	if g.timer == nil {
		g.timer = g.o.Clock.AfterFunc(sweepInterval, g.sweep)
	}
}

// sweep refuses what was kept too long, and ends the forwarding.
func (g *Gate) sweep() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = nil
	if g.closed || g.state == off {
		return
	}
	now := g.o.Clock.Now()
	if g.state == forwarding && (!now.Before(g.until) || g.o.Master()) {
		g.o.Log.Info("requests are not forwarded any more", "to", g.addr, "forwarded", g.tally.Forwarded)
		g.endLocked()
		return
	}
	g.refuseAll(func(t *taken) bool { return now.Sub(t.at) >= g.o.MaxHold }, "the role of master moves to another broker")
	g.sweepLater()
}

// refuseAll refuses some of the queue; mu is held.
func (g *Gate) refuseAll(which func(*taken) bool, why string) {
	kept := g.queue[:0]
	for _, t := range g.queue {
		if which(t) {
			g.bytes -= t.bytes()
			g.refuse(t, why)
		} else {
			kept = append(kept, t)
		}
	}
	clear(g.queue[len(kept):])
	g.queue = kept
}

// refuse answers SYSTEM_BUSY; mu is held.
func (g *Gate) refuse(t *taken, why string) {
	g.tally.Refused++
	_ = t.d.Reply(t.d.Response(codec.RespSystemBusy, "[HANDOVER]"+why)) // a closed connection needs no answer
	g.o.Done()
}

// errGaveUp: the gate was closed or released meanwhile.
var errGaveUp = errors.New("forward: given up")

// run forwards while there is something to forward.
func (g *Gate) run() {
	for {
		addr, t, err := g.next()
		if err != nil {
			return
		}
		if t == nil {
			g.settle(addr)
			continue
		}
		g.send(addr, t)
	}
}

// next waits for work: a request, or, with t nil, a new master that has to be asked.
func (g *Gate) next() (addr string, t *taken, err error) {
	for {
		g.mu.Lock()
		switch {
		case g.closed || g.state == off || g.state == holding:
			g.running = false // Forward starts another one
			g.mu.Unlock()
			return "", nil, errGaveUp
		case g.state == settling:
			addr = g.addr
			g.mu.Unlock()
			return addr, nil, nil
		case len(g.queue) > 0:
			t, addr = g.queue[0], g.addr
			g.queue[0] = nil
			g.queue = g.queue[1:]
			g.bytes -= t.bytes()
			g.tally.Forwarded++
			if !waits(t.cmd.Code) {
				g.away++
			}
			g.mu.Unlock()
			return addr, t, nil
		}
		g.mu.Unlock()
		select {
		case <-g.wake:
		case <-g.ctx.Done():
		}
	}
}

// settle asks the new master once and begins to forward when it serves.
func (g *Gate) settle(addr string) {
	ctx, cancel := context.WithTimeout(g.ctx, time.Second)
	defer cancel()
	if !g.o.Serves(ctx, addr) {
		t := g.o.Clock.NewTicker(askInterval)
		defer t.Stop()
		select {
		case <-g.ctx.Done():
		case <-t.C():
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != settling || g.addr != addr {
		return
	}
	now := g.o.Clock.Now()
	g.state, g.retry = forwarding, now.Add(retryTime)
	close(g.ready)
	g.o.Log.Info("requests are forwarded to the new master", "to", addr, "held", len(g.queue), "heldMillis",
		now.Sub(g.begun).Milliseconds(), "until", g.until)
}

// send passes one request on. The answer comes on another goroutine.
func (g *Gate) send(addr string, t *taken) {
	conn, err := g.o.Client.Conn(g.ctx, addr)
	if err == nil {
		cmd := *t.cmd
		if t.d.Oneway {
			if err = conn.Oneway(&cmd); err == nil {
				g.back(t)
				g.o.Done()
				return
			}
		} else {
			_, err = conn.Go(&cmd, func(answer *codec.Command, err error) { g.answered(addr, t, answer, err) })
		}
	}
	if err != nil {
		g.answered(addr, t, nil, err)
	}
}

// back notes that a request is not at the new master any more.
func (g *Gate) back(t *taken) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if waits(t.cmd.Code) {
		return
	}
	if g.away--; g.away == 0 && g.home != nil {
		close(g.home)
		g.home = nil
	}
}

// answered passes an answer back, or tries again if the new master is not quite there.
func (g *Gate) answered(addr string, t *taken, answer *codec.Command, err error) {
	defer g.back(t)
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refuse(t, fmt.Sprintf("the new master %s does not answer: %v", addr, err))
		return
	}
	if notYet(t.cmd.Code, answer) && g.again(t) {
		return
	}
	answer.Opaque, answer.Type, answer.Flag = t.d.Opaque, t.d.Type, codec.FlagResponse
	_ = t.d.Reply(answer) // a closed connection needs no answer
	g.o.Done()
}

// again puts a request back behind the others, a little later.
func (g *Gate) again(t *taken) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.state != forwarding || !g.o.Clock.Now().Before(g.retry) {
		return false
	}
	g.o.Clock.AfterFunc(retryPause, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case g.closed:
			g.refuse(t, "the broker stops")
		case g.state == off:
			g.o.Serve(t.d.Conn, t.cmd)
			g.o.Done()
		default:
			g.queue = append(g.queue, t)
			g.bytes += t.bytes()
			g.poke()
		}
	})
	return true
}
