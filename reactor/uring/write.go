//go:build iouring && linux

package uring

import (
	"slices"
	"syscall"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
	"skylark/zerocopy"
)

const (
	// maxQueueWrite is what one system call or one request in the ring takes of queued bytes, but for the last
	// run: the bytes in flight of a connection.
	maxQueueWrite = 256 << 10
	// maxPenRounds is how many system calls for others the holder of the pen makes before the ring takes over.
	maxPenRounds = 4
	// maxRingAnswer: longer answers of a turn are written at once, their copy would hold up all others of the turn.
	maxRingAnswer = 64 << 10
)

// Send implements reactor.Conn.
func (c *conn) Send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	c.Mu.Lock()
	if c.Closing.Load() {
		defer c.Mu.Unlock()
		return c.RefusalLocked()
	}
	if c.busyLocked() {
		c.Out.AppendBytes(p, c.eng.table.Now())
		return c.queuedUnlock()
	}
	c.writing = true
	c.Mu.Unlock()
	n, err := zerocopy.Write(c.fd, p)
	c.Mu.Lock()
	if err == nil && n < len(p) {
		c.Out.PutBackBytes(p[n:], c.eng.table.Now())
	}
	return c.wroteUnlock(n, n < len(p), err)
}

// SendOutbox implements reactor.Conn.
func (c *conn) SendOutbox(o *reactor.Outbox) error { return c.send(o, false) }

// send writes or queues what o holds. last lets the answers of a turn pass though its handler has called
// Close.
func (c *conn) send(o *reactor.Outbox, last bool) error {
	size := o.Size()
	if size == 0 {
		o.Release()
		return nil
	}
	c.Mu.Lock()
	if c.closed || c.Closing.Load() && !last {
		defer c.Mu.Unlock()
		o.Release()
		return c.RefusalLocked()
	}
	if c.busyLocked() {
		c.Out.Append(o, 0, c.eng.table.Now())
		return c.queuedUnlock()
	}
	c.writing = true
	c.Mu.Unlock()
	n, asked, err := conns.WriteOutbox(c.fd, o)
	c.Mu.Lock()
	if err == nil && n < size {
		c.Out.PutBack(o, n, c.eng.table.Now())
	} else {
		o.Release()
	}
	return c.wroteUnlock(n, n < asked, err)
}

// busyLocked: somebody else writes, or bytes wait that come before the new ones.
func (c *conn) busyLocked() bool { return c.writing || !c.Out.Empty() }

// queuedUnlock ends a call that only queued.
func (c *conn) queuedUnlock() error {
	defer c.Mu.Unlock()
	if c.inline {
		c.lp.post(c) // the loop may sleep upon the completion
	}
	return c.overflowLocked()
}

func (c *conn) overflowLocked() error {
	if c.Out.Overflowed() {
		c.closeLocked(reactor.ErrSlowReader)
		return reactor.ErrSlowReader
	}
	return nil
}

// wroteUnlock is called with the lock and the pen after a direct write of n bytes, and puts the pen down: it
// writes what others queued meanwhile, and leaves to the ring what a full socket does not take.
func (c *conn) wroteUnlock(n int, full bool, err error) error {
	defer c.Mu.Unlock()
	if n > 0 {
		c.Touch()
	}
	if err == nil && !full && !c.Out.Empty() {
		err = c.writeQueueLocked()
	}
	c.writing = false
	switch {
	case c.closed:
		c.lp.post(c) // the loop waits for the pen
		return c.RefusalLocked()
	case err != nil:
		c.closeLocked(conns.Broken(err))
		return reactor.ErrClosed
	case c.Out.Empty():
		return nil
	}
	if err := c.overflowLocked(); err != nil {
		return err
	}
	c.lp.post(c)
	return nil
}

// writeQueueLocked writes what waits until it is through, the socket is full, or it is the ring's turn. It lets
// go of the lock for each system call; the caller has the pen.
func (c *conn) writeQueueLocked() error {
	v := conns.GetBatch()
	defer conns.PutBatch(v)
	for round := 0; round < maxPenRounds && !c.Out.Empty() && !c.closed; round++ {
		c.Out.Fill(v, maxQueueWrite)
		c.Mu.Unlock()
		n, err := v.Write(c.fd)
		full := n < v.Size()
		v.Reset()
		c.Mu.Lock()
		c.advanceLocked(n)
		if err != nil || full {
			return err
		}
	}
	return nil
}

// advanceLocked drops n bytes, which the socket took, from the queue.
func (c *conn) advanceLocked(n int) {
	if n > 0 {
		c.Touch()
	}
	if c.Out.Advance(n, c.eng.table.Now()) && !c.Closing.Load() {
		c.resumed.Store(true) // served again
		c.lp.post(c)
	}
}

// writeLast gives what waits one more chance, without waiting. Nobody has the pen.
func (c *conn) writeLast() {
	if c.Out.Empty() {
		return
	}
	v := conns.GetBatch()
	defer conns.PutBatch(v)
	c.Out.Fill(v, maxQueueWrite)
	if n, err := v.Write(c.fd); err == nil {
		c.Out.Advance(n, c.eng.table.Now())
	}
}

// answer sends the outbox of the turn, on the loop: through the ring, which takes the outbox as it is and submits
// it together with the next wait, or at once where that does not go.
func (c *conn) answer() {
	lp := c.lp
	size := lp.out.Size()
	if size == 0 || size > maxRingAnswer || len(lp.freeOps) == 0 || lp.out.HasSegments() {
		_ = c.send(lp.out, true) // a closed connection is seen by the caller
		return
	}
	c.Mu.Lock()
	if c.closed || c.busyLocked() {
		c.Mu.Unlock()
		_ = c.send(lp.out, true)
		return
	}
	c.writing, c.inline = true, true
	c.Mu.Unlock()
	op := lp.takeOp(c)
	op.box, lp.out = lp.out, lp.newBox()
	b := op.box.Buffer()
	e := lp.ring.entry()
	e.PrepareSend(c.fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uint32(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	e.UserData = tag(kindSend, op.n)
	c.inflight++
	lp.inline++
	op.box.Submitted() // the wait of this turn writes it, and may last: its completion is no reason to return
}

func (lp *loop) newBox() *reactor.Outbox {
	if n := len(lp.boxes); n > 0 {
		box := lp.boxes[n-1]
		lp.boxes = lp.boxes[:n-1]
		return box
	}
	return &reactor.Outbox{}
}

// writeOn puts the front of the queue into the ring, if something waits and nobody has the pen. The request
// completes when the socket has taken some of it. Mapped ranges are sent by a worker of the kernel: their pages
// may be cold by now, and the loop must not wait for the disk.
func (c *conn) writeOn() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.lp.hurry = c.lp.hurry || c.inline && !c.Out.Empty()
	if c.writing || c.closed || c.Out.Empty() {
		return
	}
	op := c.lp.takeOp(c)
	if op == nil {
		return
	}
	c.writing = true
	c.Out.Fill(op, maxQueueWrite)
	e := c.lp.ring.entry()
	op.prepare(e, c.fd, unix.MSG_NOSIGNAL)
	if op.mapped {
		e.Flags |= giouring.SqeAsync
	}
	c.inflight++
}

// takeOp takes a send for c, or notes that c waits for one.
func (lp *loop) takeOp(c *conn) *sendOp {
	n := len(lp.freeOps)
	if n == 0 {
		if !c.inLine {
			c.inLine = true
			lp.waiting = append(lp.waiting, c)
		}
		lp.hurry = true
		return nil
	}
	op := lp.freeOps[n-1]
	lp.freeOps = lp.freeOps[:n-1]
	op.c = c
	return op
}

// sent is the completion of a send: references are dropped here and not before, whatever became of the peer.
func (lp *loop) sent(op *sendOp, res int32) {
	c := op.c
	c.inflight--
	n, err := int(max(res, 0)), error(nil)
	if res < 0 {
		switch errno := syscall.Errno(-res); errno {
		case unix.EAGAIN, unix.EINTR, unix.ECANCELED:
		default:
			err = conns.Broken(errno)
		}
	}
	box := op.box
	op.reset()
	lp.freeOps = append(lp.freeOps, op)
	c.Mu.Lock()
	switch {
	case box == nil:
		c.advanceLocked(n)
	case err == nil && n < box.Size():
		c.Out.PutBack(box, n, c.eng.table.Now())
		_ = c.overflowLocked()
	}
	if n > 0 {
		c.Touch()
	}
	c.writing, c.inline = false, false
	if err != nil {
		c.closeLocked(err)
	}
	c.Mu.Unlock()
	if box != nil {
		box.Release()
		lp.boxes = append(lp.boxes, box)
	}
	if c.finishing {
		c.tryEnd()
	} else {
		c.writeOn()
	}
	for len(lp.freeOps) > 0 && len(lp.waiting) > 0 {
		next := lp.waiting[0]
		lp.waiting = slices.Delete(lp.waiting, 0, 1)
		next.inLine = false
		next.writeOn()
	}
}
