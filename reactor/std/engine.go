package std

import (
	"context"
	"net"
	"sync"

	"skylark/reactor"
	"skylark/reactor/internal/accept"
	"skylark/reactor/internal/conns"
)

// Engine is a reactor.Engine on net.Listener.
type Engine struct {
	accept.Front

	name    string
	opts    reactor.Options
	slots   *conns.Slots
	table   *conns.Table
	journal *conns.Journal
	guard   conns.Guarded

	mu       sync.Mutex
	stopping bool
	readers  sync.WaitGroup
}

var _ reactor.Engine = (*Engine)(nil)

// New makes an engine of its own.
func New(o reactor.Options) reactor.Engine {
	o.EnsureDefaults()
	return NewShared("std", o, conns.NewSlots(o.MaxConnections))
}

// NewShared makes an engine that serves under another one's name and counts its connections with that one's.
func NewShared(name string, o reactor.Options, slots *conns.Slots) *Engine {
	o.EnsureDefaults()
	return &Engine{name: name, opts: o, slots: slots}
}

// Start implements reactor.Engine. Without addresses and listeners the engine serves what Adopt brings.
func (e *Engine) Start(h reactor.Handler) error {
	if err := e.opts.Validate(); err != nil {
		return err
	}
	listeners := e.opts.Listeners
	if len(listeners) == 0 {
		var err error
		if listeners, err = accept.Bind(&e.opts); err != nil {
			return err
		}
	}
	e.StartOn(listeners, h)
	return nil
}

// StartOn is Start on listeners that are bound already. The engine closes them.
func (e *Engine) StartOn(listeners []net.Listener, h reactor.Handler) {
	e.table = conns.NewTable(&e.opts)
	e.journal = conns.NewJournal(e.opts.Log)
	e.guard = conns.Guarded{Handler: h, Log: e.opts.Log}
	e.Open(listeners, e.slots, e.opts.Log, func(nc net.Conn) error {
		e.Adopt(nc, nil)
		return nil
	})
}

// Adopt serves a connection that came from elsewhere, of which head has been read already. It owns the
// connection and its slot, also when the engine is stopping.
func (e *Engine) Adopt(nc net.Conn, head []byte) {
	c := newConn(e, nc)
	e.mu.Lock()
	if e.stopping {
		e.mu.Unlock()
		_ = nc.Close()
		e.slots.Release()
		return
	}
	e.readers.Add(1)
	e.table.Add(c)
	e.mu.Unlock()
	go c.run(head)
}

// Stop implements reactor.Engine. It may be called again, for instance with more time.
func (e *Engine) Stop(ctx context.Context) error {
	if e.table == nil {
		return nil
	}
	return e.End(ctx, e.shutdown)
}

func (e *Engine) shutdown() {
	e.mu.Lock()
	e.stopping = true
	e.mu.Unlock()
	e.table.CloseAll(reactor.ErrStopped)
	e.readers.Wait()
	e.table.Close()
}

// Connections implements reactor.Engine.
func (e *Engine) Connections() int { return e.slots.InUse() }

// Name implements reactor.Engine.
func (e *Engine) Name() string { return e.name }
