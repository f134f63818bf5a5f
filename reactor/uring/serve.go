//go:build iouring && linux

package uring

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

// receive puts a receive into the ring, unless there is one or none is wanted: a paused connection is not read
// from, its peer's socket fills up.
func (c *conn) receive() {
	if c.receiving || c.finishing || c.Closing.Load() || c.Out.Paused() {
		return
	}
	e := c.lp.ring.entry()
	if c.opened {
		e.PrepareRecvMultishot(c.fd, 0, 0, 0)
	} else {
		e.PrepareRecv(c.fd, 0, 0, 0)
	}
	e.Flags |= giouring.SqeBufferSelect
	e.BufIG = bufferGroup
	e.UserData = tag(kindReceive, c.slot)
	c.receiving = true
	c.inflight++
}

// received is a completion of the receive.
func (c *conn) received(res int32, flags uint32) {
	if flags&giouring.CQEFMore == 0 {
		c.receiving = false
		c.inflight--
	}
	if flags&giouring.CQEFBuffer != 0 {
		bid := uint16(flags >> giouring.CQEBufferShift)
		if res > 0 && !c.finishing {
			c.Touch()
			c.serve(c.lp.ring.buffer(bid, int(res)))
		}
		c.lp.ring.giveBack(bid)
	}
	switch {
	case c.finishing:
		c.tryEnd()
		return
	case res == 0:
		c.finish(nil)
		return
	case res < 0:
		switch err := syscall.Errno(-res); err {
		case unix.ENOBUFS, unix.ECANCELED, unix.EAGAIN, unix.EINTR:
			// buffers are given back before the next submission; a cancelled one was paused
		default:
			c.finish(conns.Broken(err))
			return
		}
	}
	c.receive()
}

// stopReceiving takes the receive out of the ring: the connection is paused.
func (c *conn) stopReceiving() {
	if !c.receiving || c.cancelling {
		return
	}
	e := c.lp.ring.entry()
	e.PrepareCancel64(tag(kindReceive, c.slot), 0)
	e.UserData = tag(kindCancel, c.slot)
	c.cancelling = true
	c.inflight++
}

func (c *conn) cancelled() {
	c.cancelling = false
	if c.finishing {
		c.tryEnd()
		return
	}
	c.receive()
}

// serve is one turn: p is what was received, empty after a pause.
func (c *conn) serve(p []byte) {
	if !c.opened {
		if len(p) == 0 || !c.begin(p) {
			return
		}
	}
	lp := c.lp
	for {
		if c.Out.Paused() {
			c.hold(p)
			return
		}
		c.held = 0
		frames, rest, err := c.in.Split(p, lp.frames[:0])
		p = rest
		if len(frames) > 0 {
			if perr := c.eng.guard.Frames(c, frames, lp.out); perr != nil {
				err = perr
			}
			c.answer()
		}
		if err != nil {
			c.finish(err)
			return
		}
		if c.Closing.Load() {
			return // in the mail
		}
		if len(frames) == 0 {
			c.in.Keep(p)
			c.receive()
			return
		}
	}
}

// hold keeps what came before the receive could be stopped.
func (c *conn) hold(p []byte) {
	c.stopReceiving()
	if c.held += len(p); c.held > c.eng.opts.MaxPausedInboundBytes {
		c.finish(fmt.Errorf("%w and keeps sending", reactor.ErrSlowReader))
		return
	}
	c.in.Keep(p)
}

// begin looks at the first bytes of a connection; false ends the turn.
func (c *conn) begin(p []byte) bool {
	if p[0] == conns.TLSHandshakeByte {
		c.handOver(p)
		return false
	}
	if c.eng.opts.RequireTLS {
		c.finish(reactor.ErrTLSRequired)
		return false
	}
	if err := c.eng.guard.Open(c); err != nil {
		c.finish(err)
		return false
	}
	c.opened = true
	return true
}

// handOver passes the connection to the TLS engine. Nobody but this loop knows it yet and its only receive is
// done, so nothing can be under way on it.
func (c *conn) handOver(head []byte) {
	if c.eng.opts.TLS == nil {
		c.finish(reactor.ErrTLSDisabled)
		return
	}
	f := os.NewFile(uintptr(c.fd), "tls")
	nc, err := net.FileConn(f) // duplicates
	if err != nil {
		c.finish(fmt.Errorf("reactor: cannot hand a TLS connection over: %w", err))
		return
	}
	c.handedOver = true
	_ = f.Close()
	c.eng.tls.Adopt(nc, append([]byte(nil), head...))
	c.finish(nil)
}

// finish begins the end, on the loop. reason counts unless Close was called before; nil: the peer closed.
func (c *conn) finish(reason error) {
	if c.finishing {
		return
	}
	c.finishing = true
	c.Mu.Lock()
	c.ours = reason != nil && !conns.IsBroken(reason) || c.Closing.Load()
	if !c.Closing.Load() {
		c.Closing.Store(true)
		c.Reason = reason
	}
	c.closed = true
	c.Mu.Unlock()
	if c.inflight > 0 { // sends of this turn go before it, and complete
		e := c.lp.ring.entry()
		e.PrepareCancelFd(c.fd, giouring.AsyncCancelAll)
		e.UserData = tag(kindCancel, c.slot)
		c.inflight++
	}
	c.tryEnd()
}

// tryEnd ends the connection if nothing of it is in the ring and nobody has the pen. Who has it posts c when he
// puts it down.
func (c *conn) tryEnd() {
	if c.slot == 0 || c.inflight > 0 {
		return
	}
	c.Mu.Lock()
	if c.writing {
		c.Mu.Unlock()
		return
	}
	reason, pending := c.Reason, c.Out.Size()
	if c.ours && !c.handedOver && !conns.IsBroken(reason) && !errors.Is(reason, reactor.ErrSlowReader) {
		c.writeLast()
	}
	c.Out.Release()
	c.Mu.Unlock()
	held := c.in.Buffered()
	c.in.Release()
	c.lp.forget(c)
	c.slot = 0
	if !c.handedOver {
		_ = unix.Close(c.fd)
		c.eng.journal.Closed(c, conns.End{Reason: reason, PendingBytes: pending, HeldBytes: held})
		if c.opened {
			c.eng.guard.Close(c, reason)
		}
		c.eng.slots.Release()
	}
	c.eng.table.Remove(c.ID())
}
