//go:build unix

package gnet

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"

	gn "github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"

	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/internal/accept"
	"skylark/reactor/internal/conns"
	"skylark/reactor/std"
)

func init() {
	// gnet starts a worker pool with two tickers for functions that are not used here; an idle broker is to
	// sleep.
	goroutine.DefaultWorkerPool.Release()
}

// Engine is a reactor.Engine on gnet's loops.
type Engine struct {
	accept.Front

	opts    reactor.Options
	slots   *conns.Slots
	table   *conns.Table
	journal *conns.Journal
	guard   conns.Guarded
	client  *gn.Client
	drain   *drainer
	tls     *std.Engine // serves what turns out to be TLS; nil without Options.TLS

	mu    sync.Mutex
	loops map[gn.EventLoop]*loop
}

// loop is what the turns of one event loop share.
type loop struct {
	frames []codec.Frame
	out    reactor.Outbox
}

// New makes an engine.
func New(o reactor.Options) reactor.Engine {
	o.EnsureDefaults()
	return &Engine{
		opts:  o,
		slots: conns.NewSlots(o.MaxConnections),
		loops: map[gn.EventLoop]*loop{},
	}
}

// Start implements reactor.Engine.
func (e *Engine) Start(h reactor.Handler) (err error) {
	if err := e.opts.Validate(); err != nil {
		return err
	}
	listeners, err := accept.Bind(&e.opts)
	if err != nil {
		return err
	}
	closeListeners := func() {
		for _, ln := range listeners {
			_ = ln.Close()
		}
	}
	e.guard = conns.Guarded{Handler: h, Log: e.opts.Log}
	e.journal = conns.NewJournal(e.opts.Log)
	if e.client, err = gn.NewClient(&events{eng: e},
		gn.WithNumEventLoop(e.opts.Loops),
		gn.WithReadBufferCap(e.opts.ReadBufferBytes),
		gn.WithTCPNoDelay(gn.TCPDelay), // net has set TCP_NODELAY already
		gn.WithLogger(logger{e.opts.Log}),
	); err != nil {
		closeListeners()
		return err
	}
	table := conns.NewTable(&e.opts)
	if e.drain, err = newDrainer(table); err == nil {
		if err = e.client.Start(); err != nil {
			e.drain.close()
		}
	}
	if err != nil {
		table.Close()
		closeListeners()
		return err
	}
	e.table = table
	if e.opts.TLS != nil {
		e.tls = std.NewShared(e.Name(), e.opts, e.slots)
		e.tls.StartOn(nil, h)
	}
	e.Open(listeners, e.slots, e.opts.Log, e.take)
	return nil
}

// errNotEnrolled: the loop's epoll refused the descriptor; gnet has closed it.
var errNotEnrolled = errors.New("reactor: the event loop did not take the connection")

// take enrols an accepted connection into a loop. It runs on a boss and waits for the loop.
func (e *Engine) take(nc net.Conn) error {
	c := newConn(e, conns.AddrPort(nc.RemoteAddr()), conns.AddrPort(nc.LocalAddr()))
	ownZone(nc.LocalAddr())
	ownZone(nc.RemoteAddr())
	if _, err := e.client.EnrollContext(nc, c); err != nil {
		return err
	}
	if !c.enrolled {
		return errNotEnrolled
	}
	return nil
}

// ownZone gives an address a zone string of its own. gnet recycles the zone's bytes as a buffer when the
// connection closes, and net shares one string among all addresses of an interface.
func ownZone(a net.Addr) {
	if t, ok := a.(*net.TCPAddr); ok && t.Zone != "" {
		t.Zone = strings.Clone(t.Zone)
	}
}

// loopOf is the state of a connection's loop.
func (e *Engine) loopOf(el gn.EventLoop) *loop {
	e.mu.Lock()
	defer e.mu.Unlock()
	lp := e.loops[el]
	if lp == nil {
		lp = &loop{frames: make([]codec.Frame, 0, reactor.MaxBatchFrames)}
		e.loops[el] = lp
	}
	return lp
}

// Stop implements reactor.Engine. It may be called again, for instance with more time.
func (e *Engine) Stop(ctx context.Context) error {
	if e.table == nil {
		return nil
	}
	return e.End(ctx, e.shutdown)
}

// shutdown takes the engine down in the only safe order: nobody enrols any more, all connections are gone
// (and with them everybody who could call gnet), then the loops.
func (e *Engine) shutdown() {
	e.table.CloseAll(reactor.ErrStopped)
	_ = e.table.WaitEmpty(context.Background())
	if e.tls != nil {
		_ = e.tls.Stop(context.Background())
	}
	e.drain.close()
	if err := e.client.Stop(); err != nil {
		e.opts.Log.Warn("event loops ended with an error", "error", err)
	}
	e.table.Close()
}

// Connections implements reactor.Engine.
func (e *Engine) Connections() int { return e.slots.InUse() }

// Name implements reactor.Engine.
func (e *Engine) Name() string {
	if runtime.GOOS == "linux" {
		return "epoll"
	}
	return "kqueue"
}
