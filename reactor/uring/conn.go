//go:build iouring && linux

package uring

import (
	"net/netip"
	"sync/atomic"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

type conn struct {
	conns.Conn

	eng     *Engine
	lp      *loop
	fd      int
	posted  atomic.Bool // in the loop's mail
	resumed atomic.Bool // the loop is to serve what was held back

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

	// guarded by Mu
	writing bool // somebody has the pen: a goroutine in a system call, or the ring
	inline  bool // the ring has the pen for an answer, until the loop sees its completion
	closed  bool // nobody takes the pen any more
}

func newConn(e *Engine, fd int, remote, local netip.AddrPort) *conn {
	c := &conn{eng: e, fd: fd}
	c.Init(e.table, &e.opts, remote, local)
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
	c.lp.post(c) // calls finish
}
