//go:build unix

package gnet

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	gn "github.com/panjf2000/gnet/v2"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

type conn struct {
	id            uint64
	eng           *Engine
	remote, local netip.AddrPort
	context       atomic.Pointer[any]
	traffic       atomic.Uint32 // tick
	closing       atomic.Bool   // written under mu

	// set once by the loop when it takes the connection, before anybody else sees it
	g        gn.Conn
	fd       int
	loop     *loop
	enrolled bool

	// of the loop
	in          reactor.Inbound
	opened      bool // OnOpen succeeded
	handedOver  bool // to the TLS engine
	pausedBytes int  // received since the connection was paused

	mu      sync.Mutex
	cond    sync.Cond // the pen was put down
	out     reactor.Outbound
	writing bool // somebody has the pen
	armed   bool // the drainer waits for the socket
	watched bool // the drainer's epoll knows the descriptor
	closed  bool // the descriptor is about to be closed: nobody takes the pen any more
	reason  error
}

func newConn(e *Engine, remote, local netip.AddrPort) *conn {
	c := &conn{id: conns.NextID(), eng: e, remote: remote, local: local}
	c.cond.L = &c.mu
	c.in.Init(e.opts.MaxFrameBytes)
	c.out.Init(&e.opts)
	c.touch()
	return c
}

func (c *conn) ID() uint64                 { return c.id }
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }
func (c *conn) LocalAddr() netip.AddrPort  { return c.local }

func (c *conn) Context() any {
	if p := c.context.Load(); p != nil {
		return *p
	}
	return nil
}

func (c *conn) SetContext(v any) { c.context.Store(&v) }

func (c *conn) PendingBytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Size()
}

// LastTraffic implements conns.Member.
func (c *conn) LastTraffic() uint32 { return c.traffic.Load() }

// Stalled implements conns.Member.
func (c *conn) Stalled() (since uint32, pending int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Moved(), c.out.Size()
}

func (c *conn) touch() {
	if now := c.eng.table.Now(); c.traffic.Load() != now {
		c.traffic.Store(now)
	}
}

func (c *conn) Close(reason error) {
	c.mu.Lock()
	c.closeLocked(reason)
	c.mu.Unlock()
}

func (c *conn) closeLocked(reason error) {
	if c.closing.Load() {
		return
	}
	c.closing.Store(true)
	c.reason = reason
	_ = c.g.Close() // queued to the loop, which calls finish
}

// refusal is the error of a connection that takes no more.
func (c *conn) refusal() error {
	if errors.Is(c.reason, reactor.ErrSlowReader) {
		return reactor.ErrSlowReader
	}
	return reactor.ErrClosed
}

// finish is the end, on the loop; err is gnet's: nil when we closed, io.EOF when the peer did.
func (c *conn) finish(err error) {
	c.mu.Lock()
	ours := c.closing.Load()
	c.closing.Store(true)
	if !ours && err != nil && !errors.Is(err, io.EOF) {
		c.reason = conns.Broken(err)
	}
	c.closed = true
	for c.writing {
		c.cond.Wait()
	}
	reason, pending := c.reason, c.out.Size()
	if ours && !conns.IsBroken(reason) && !errors.Is(reason, reactor.ErrSlowReader) {
		c.writeLast()
	}
	c.out.Release()
	c.eng.drain.forget(c)
	c.mu.Unlock()
	held := c.in.Buffered()
	c.in.Release()
	if !c.handedOver {
		c.eng.journal.Closed(c, conns.End{Reason: reason, PendingBytes: pending, HeldBytes: held})
		if c.opened {
			c.eng.guard.Close(c, reason)
		}
		c.eng.slots.Release()
	}
	c.eng.table.Remove(c.id)
}
