//go:build unix

package gnet

import (
	"errors"
	"io"
	"net/netip"
	"sync"

	gn "github.com/panjf2000/gnet/v2"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

type conn struct {
	conns.Conn

	eng *Engine

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

	// guarded by Mu
	cond    sync.Cond // the pen was put down
	writing bool      // somebody has the pen
	armed   bool      // the drainer waits for the socket
	watched bool      // the drainer's epoll knows the descriptor
	closed  bool      // the descriptor is about to be closed: nobody takes the pen any more
}

func newConn(e *Engine, remote, local netip.AddrPort) *conn {
	c := &conn{eng: e}
	c.Init(e.table, &e.opts, remote, local)
	c.cond.L = &c.Mu
	c.in.Init(e.opts.MaxFrameBytes)
	return c
}

func (c *conn) Close(reason error) {
	c.Mu.Lock()
	c.closeLocked(reason)
	c.Mu.Unlock()
}

func (c *conn) closeLocked(reason error) {
	if !c.BeginCloseLocked(reason) {
		return
	}
	_ = c.g.Close() // queued to the loop, which calls finish
}

// finish is the end, on the loop; err is gnet's: nil when we closed, io.EOF when the peer did.
func (c *conn) finish(err error) {
	c.Mu.Lock()
	ours := c.Closing.Load()
	c.Closing.Store(true)
	if !ours && err != nil && !errors.Is(err, io.EOF) {
		c.Reason = conns.Broken(err)
	}
	c.closed = true
	for c.writing {
		c.cond.Wait()
	}
	reason, pending := c.Reason, c.Out.Size()
	if ours && !conns.IsBroken(reason) && !errors.Is(reason, reactor.ErrSlowReader) {
		c.writeLast()
	}
	c.Out.Release()
	c.eng.drain.forget(c)
	c.Mu.Unlock()
	held := c.in.Buffered()
	c.in.Release()
	if !c.handedOver {
		c.eng.journal.Closed(c, conns.End{Reason: reason, PendingBytes: pending, HeldBytes: held})
		if c.opened {
			c.eng.guard.Close(c, reason)
		}
		c.eng.slots.Release()
	}
	c.eng.table.Remove(c.ID())
}
