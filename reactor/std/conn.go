package std

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

// closeGrace is how long what waits for the socket gets when we close a connection.
const closeGrace = time.Second

// longAgo as a deadline wakes whoever waits.
var longAgo = time.Unix(1, 0)

type conn struct {
	id            uint64
	eng           *Engine
	raw           net.Conn // as accepted; deadlines are set here
	nc            net.Conn // what is read and written: raw, or TLS upon it. Set by the reader before OnOpen
	remote, local netip.AddrPort
	context       atomic.Pointer[any]
	traffic       atomic.Uint32 // tick
	closing       atomic.Bool   // written under mu

	// of the reader
	in     reactor.Inbound
	outbox reactor.Outbox
	opened bool

	mu      sync.Mutex
	cond    sync.Cond // writer gone, resumed, closing
	out     reactor.Outbound
	writing bool // a writer runs
	closed  bool // the reader is at its end: nothing is queued any more
	hurry   bool // the writer is to leave
	reason  error
}

func newConn(e *Engine, nc net.Conn) *conn {
	c := &conn{
		id: conns.NextID(), eng: e, raw: nc, nc: nc,
		remote: conns.AddrPort(nc.RemoteAddr()), local: conns.AddrPort(nc.LocalAddr()),
	}
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
	c.cond.Broadcast()
	_ = c.raw.SetReadDeadline(longAgo)
}

// refusal is the error of a connection that takes no more.
func (c *conn) refusal() error {
	if errors.Is(c.reason, reactor.ErrSlowReader) {
		return reactor.ErrSlowReader
	}
	return reactor.ErrClosed
}

// finish ends the connection; reason is the reader's, that of an earlier Close goes first.
func (c *conn) finish(reason error) {
	c.mu.Lock()
	c.closeLocked(reason)
	c.closed = true
	reason = c.reason
	pending := c.out.Size()
	ours := reason != nil && !conns.IsBroken(reason) && !errors.Is(reason, reactor.ErrSlowReader)
	flushed := ours && c.flushLocked()
	c.hurry = true
	if c.writing {
		_ = c.raw.SetWriteDeadline(longAgo)
	}
	for c.writing {
		c.cond.Wait()
	}
	c.out.Release()
	c.mu.Unlock()
	if flushed {
		_ = c.nc.Close() // with TLS's farewell
	} else {
		_ = c.raw.Close()
	}
	c.eng.journal.Closed(c, conns.End{Reason: reason, PendingBytes: pending, HeldBytes: c.in.Buffered()})
	c.in.Release()
	c.outbox.Release()
	if c.opened {
		c.eng.guard.Close(c, reason)
	}
	c.eng.slots.Release()
	c.eng.table.Remove(c.id)
}

// flushLocked gives the writer a little time to end; true when all is written.
func (c *conn) flushLocked() bool {
	if !c.writing {
		return true
	}
	_ = c.raw.SetWriteDeadline(time.Now().Add(closeGrace))
	for c.writing {
		c.cond.Wait()
	}
	return c.out.Empty()
}
