package accept

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"skylark/reactor/internal/conns"
)

// Front is the part of an engine that faces its listeners, and its end. Engines embed it.
type Front struct {
	bosses []*Boss
	addrs  []netip.AddrPort

	once  sync.Once
	ended chan struct{} // made by the first End
}

// Open accepts from all listeners; see Start. It is called once.
func (f *Front) Open(listeners []net.Listener, slots *conns.Slots, log *slog.Logger, take func(net.Conn) error) {
	for _, ln := range listeners {
		f.addrs = append(f.addrs, conns.AddrPort(ln.Addr()))
		f.bosses = append(f.bosses, Start(ln, slots, log, take))
	}
}

// Addrs implements reactor.Engine.
func (f *Front) Addrs() []netip.AddrPort { return f.addrs }

// StopAccepting implements reactor.Engine.
func (f *Front) StopAccepting() {
	for _, b := range f.bosses {
		b.Close()
	}
}

// End runs an engine's shutdown once, and waits for it no longer than ctx. It may be called again, for instance with more
// time. Nobody is accepted any more when shutdown begins.
func (f *Front) End(ctx context.Context, shutdown func()) error {
	f.once.Do(func() {
		f.ended = make(chan struct{})
		go func() {
			defer close(f.ended)
			f.StopAccepting()
			shutdown()
		}()
	})
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
