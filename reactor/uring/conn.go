//go:build iouring && linux

package uring

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

type conn struct {
	id            uint64
	eng           *Engine
	lp            *loop
	fd            int
	remote, local netip.AddrPort
	context       atomic.Pointer[any]
	traffic       atomic.Uint32 // tick
	closing       atomic.Bool   // written under mu
	posted        atomic.Bool   // in the loop's mail
	resumed       atomic.Bool   // the loop is to serve what was held back

	// of the loop
	slot       uint32 // 0 = the loop does not know it yet
	inflight   int    // requests in the ring that name the descriptor
	receiving  bool   // a receive is in the ring
	cancelling bool   // its cancellation is
	finishing  bool
	ours       bool // we end it, not the peer
	inLine     bool // waits for a free send
	opened     bool // OnOpen succeeded
	handedOver bool // to the TLS engine
	in         reactor.Inbound
	held       int // bytes received since the connection was paused

	mu      sync.Mutex
	out     reactor.Outbound
	writing bool // somebody has the pen: a goroutine in a system call, or the ring
	inline  bool // the ring has the pen for an answer, until the loop sees its completion
	closed  bool // nobody takes the pen any more
	reason  error
}

func newConn(e *Engine, fd int, remote, local netip.AddrPort) *conn {
	c := &conn{id: conns.NextID(), eng: e, fd: fd, remote: remote, local: local}
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
	c.lp.post(c) // calls finish
}

// refusal is the error of a connection that takes no more.
func (c *conn) refusal() error {
	if errors.Is(c.reason, reactor.ErrSlowReader) {
		return reactor.ErrSlowReader
	}
	return reactor.ErrClosed
}
