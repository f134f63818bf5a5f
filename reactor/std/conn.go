package std

import (
	"errors"
	"net"
	"sync"
	"time"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

// closeGrace is how long what waits for the socket gets when we close a connection.
const closeGrace = time.Second

// longAgo as a deadline wakes whoever waits.
var longAgo = time.Unix(1, 0)

type conn struct {
	conns.Conn

	eng *Engine
	raw net.Conn // as accepted; deadlines are set here
	nc  net.Conn // what is read and written: raw, or TLS upon it. Set by the reader before OnOpen

	// of the reader
	in     reactor.Inbound
	outbox reactor.Outbox
	opened bool

	// guarded by Mu
	cond    sync.Cond // writer gone, resumed, closing
	writing bool      // a writer runs
	closed  bool      // the reader is at its end: nothing is queued any more
	hurry   bool      // the writer is to leave
}

func newConn(e *Engine, nc net.Conn) *conn {
	c := &conn{eng: e, raw: nc, nc: nc}
	c.Init(e.table, &e.opts, conns.AddrPort(nc.RemoteAddr()), conns.AddrPort(nc.LocalAddr()))
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
	c.cond.Broadcast()
	_ = c.raw.SetReadDeadline(longAgo)
}

// finish ends the connection; reason is the reader's, that of an earlier Close goes first.
func (c *conn) finish(reason error) {
	c.Mu.Lock()
	c.closeLocked(reason)
	c.closed = true
	reason = c.Reason
	pending := c.Out.Size()
	ours := reason != nil && !conns.IsBroken(reason) && !errors.Is(reason, reactor.ErrSlowReader)
	flushed := ours && c.flushLocked()
	c.hurry = true
	if c.writing {
		_ = c.raw.SetWriteDeadline(longAgo)
	}
	for c.writing {
		c.cond.Wait()
	}
	c.Out.Release()
	c.Mu.Unlock()
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
	c.eng.table.Remove(c.ID())
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
	return c.Out.Empty()
}
