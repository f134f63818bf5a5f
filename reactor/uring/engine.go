//go:build iouring && linux

package uring

import (
	"context"
	"net"
	"sync/atomic"

	"skylark/reactor"
	"skylark/reactor/internal/accept"
	"skylark/reactor/internal/conns"
	"skylark/reactor/std"
)

// Engine is a reactor.Engine on io_uring.
type Engine struct {
	accept.Front

	opts    reactor.Options
	slots   *conns.Slots
	table   *conns.Table
	journal *conns.Journal
	guard   conns.Guarded
	loops   []*loop
	turn    atomic.Uint32 // of the loops
	tls     *std.Engine   // serves what turns out to be TLS; nil without Options.TLS

}

var _ reactor.Engine = (*Engine)(nil)

// New makes an engine. Its Start fails where Probe does.
func New(o reactor.Options) reactor.Engine {
	o.EnsureDefaults()
	return &Engine{opts: o, slots: conns.NewSlots(o.MaxConnections)}
}

// Start implements reactor.Engine.
func (e *Engine) Start(h reactor.Handler) error {
	if err := e.opts.Validate(); err != nil {
		return err
	}
	bound, err := accept.Bind(&e.opts)
	if err != nil {
		return err
	}
	var listeners []net.Listener
	for _, ln := range bound {
		var l *listener
		if l, err = newListener(ln); err != nil {
			break
		}
		listeners = append(listeners, l)
	}
	e.guard = conns.Guarded{Handler: h, Log: e.opts.Log}
	e.journal = conns.NewJournal(e.opts.Log)
	if err == nil {
		err = e.startLoops()
	}
	if err != nil {
		for _, ln := range bound {
			_ = ln.Close()
		}
		for _, l := range listeners {
			_ = l.Close()
		}
		return err
	}
	e.table = conns.NewTable(&e.opts)
	if e.opts.TLS != nil {
		e.tls = std.NewShared(e.Name(), e.opts, e.slots)
		e.tls.StartOn(nil, h)
	}
	e.Open(listeners, e.slots, e.opts.Log, e.take)
	return nil
}

// startLoops starts all loops or none.
func (e *Engine) startLoops() error {
	for range e.opts.Loops {
		lp, err := startLoop(e)
		if err != nil {
			e.stopLoops()
			return err
		}
		e.loops = append(e.loops, lp)
	}
	return nil
}

func (e *Engine) stopLoops() {
	for _, lp := range e.loops {
		lp.stop()
	}
}

// take gives an accepted connection to the loop with the fewest; those with equally many take turns.
func (e *Engine) take(nc net.Conn) error {
	a := nc.(*accepted)
	c := newConn(e, a.fd, a.remote, a.local)
	first := int(e.turn.Add(1))
	for i := range e.loops {
		lp := e.loops[(first+i)%len(e.loops)]
		if c.lp == nil || lp.load.Load() < c.lp.load.Load() {
			c.lp = lp
		}
	}
	c.lp.load.Add(1)
	e.table.Add(c)
	c.lp.post(c)
	return nil
}

// Stop implements reactor.Engine. It may be called again, for instance with more time.
func (e *Engine) Stop(ctx context.Context) error {
	if e.table == nil {
		return nil
	}
	return e.End(ctx, e.shutdown)
}

// shutdown takes the engine down in the only safe order: nobody accepts any more, all connections are gone
// (and with them everybody who could post to a loop), then the loops.
func (e *Engine) shutdown() {
	e.table.CloseAll(reactor.ErrStopped)
	_ = e.table.WaitEmpty(context.Background())
	if e.tls != nil {
		_ = e.tls.Stop(context.Background())
	}
	e.stopLoops()
	e.table.Close()
}

// Connections implements reactor.Engine.
func (e *Engine) Connections() int { return e.slots.InUse() }

// Name implements reactor.Engine.
func (e *Engine) Name() string { return "io_uring" }
