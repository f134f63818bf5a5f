package mem

import (
	"context"
	"fmt"
	"net"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
	"skylark/reactor/std"
)

// Engine is a reactor.Engine on a Network: the code of package std without sockets.
type Engine struct {
	*std.Engine
	net  *Network
	opts reactor.Options
}

var _ reactor.Engine = (*Engine)(nil)

// New makes an engine on a network of its own, with one listener.
func New(o reactor.Options) *Engine {
	o.Listen = []string{"127.0.0.1:0"}
	return NewOn(NewNetwork(), o)
}

// NewOn makes an engine that listens on the addresses of o.Listen in n, or on o.Listeners if there are any.
func NewOn(n *Network, o reactor.Options) *Engine {
	o.EnsureDefaults()
	return &Engine{Engine: std.NewShared("mem", o, conns.NewSlots(o.MaxConnections)), net: n, opts: o}
}

// Start implements reactor.Engine.
func (e *Engine) Start(h reactor.Handler) error {
	if err := e.opts.Validate(); err != nil {
		return err
	}
	listeners := e.opts.Listeners
	if len(listeners) == 0 {
		for _, addr := range e.opts.Listen {
			ln, err := e.net.Listen(addr)
			if err != nil {
				closeAll(listeners)
				return fmt.Errorf("reactor: cannot listen on %s: %w", addr, err)
			}
			listeners = append(listeners, ln)
		}
	}
	e.StartOn(listeners, h)
	return nil
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}

// Dial connects to the engine's first address.
func (e *Engine) Dial(ctx context.Context) (net.Conn, error) {
	return e.net.Dial(ctx, e.Addrs()[0].String())
}
