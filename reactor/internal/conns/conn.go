package conns

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"skylark/reactor"
)

// Conn is what the connections of all engines have in common: identity, the handler's context, the time of the last
// traffic, and what waits for the socket. An engine embeds it, and adds how it writes and closes.
type Conn struct {
	id            uint64
	table         *Table
	remote, local netip.AddrPort
	context       atomic.Pointer[any]
	traffic       atomic.Uint32 // tick

	// Closing is set once, under Mu, when nothing more is taken from callers.
	Closing atomic.Bool
	// Mu guards Out and Reason, and what the engine says.
	Mu sync.Mutex
	// Out is what waits for the socket.
	Out reactor.Outbound
	// Reason is why it is closed: that of the first Close.
	Reason error
}

// Init numbers a connection that begins now.
func (c *Conn) Init(t *Table, o *reactor.Options, remote, local netip.AddrPort) {
	c.id, c.table, c.remote, c.local = NextID(), t, remote, local
	c.Out.Init(o)
	c.Touch()
}

// ID implements reactor.Conn and Member.
func (c *Conn) ID() uint64 { return c.id }

// RemoteAddr implements reactor.Conn.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr implements reactor.Conn.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Context implements reactor.Conn.
func (c *Conn) Context() any {
	if p := c.context.Load(); p != nil {
		return *p
	}
	return nil
}

// SetContext implements reactor.Conn.
func (c *Conn) SetContext(v any) { c.context.Store(&v) }

// PendingBytes implements reactor.Conn.
func (c *Conn) PendingBytes() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Out.Size()
}

// LastTraffic implements Member.
func (c *Conn) LastTraffic() uint32 { return c.traffic.Load() }

// Stalled implements Member.
func (c *Conn) Stalled() (since uint32, pending int) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Out.Moved(), c.Out.Size()
}

// Touch notes traffic at this tick.
func (c *Conn) Touch() {
	if now := c.table.Now(); c.traffic.Load() != now {
		c.traffic.Store(now)
	}
}

// BeginCloseLocked is false when somebody has closed the connection before. The caller holds Mu.
func (c *Conn) BeginCloseLocked(reason error) bool {
	if c.Closing.Load() {
		return false
	}
	c.Closing.Store(true)
	c.Reason = reason
	return true
}

// RefusalLocked is the error of a connection that takes no more. The caller holds Mu.
func (c *Conn) RefusalLocked() error {
	if errors.Is(c.Reason, reactor.ErrSlowReader) {
		return reactor.ErrSlowReader
	}
	return reactor.ErrClosed
}
