//go:build iouring && linux

package uring

import (
	"slices"
	"sync"
	"syscall"
	"unsafe"

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

	sendFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
)

// vec is a sendmsg under construction. unix.SendmsgBuffers builds one on every call.
type vec struct {
	hdr  unix.Msghdr
	iov  []unix.Iovec
	size int
}

var vecs = sync.Pool{New: func() any { return new(vec) }}

func (v *vec) add(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if len(v.iov) == zerocopy.MaxVec {
		return false
	}
	e := unix.Iovec{Base: unsafe.SliceData(b)}
	e.SetLen(len(b))
	v.iov = append(v.iov, e)
	v.size += len(b)
	return true
}

func (v *vec) reset() {
	clear(v.iov)
	v.iov, v.size = v.iov[:0], 0
}

// send makes one system call. A full socket is no error: n is then less than the size.
func (v *vec) send(fd int) (n int, err error) {
	if len(v.iov) == 0 {
		return 0, nil
	}
	v.hdr.Iov = &v.iov[0]
	v.hdr.SetIovlen(len(v.iov))
	r, errno := again(unix.SYS_SENDMSG, fd, unsafe.Pointer(&v.hdr), sendFlags, 0)
	v.hdr.Iov = nil
	return r, errno
}

// sendBytes is send for one run.
func sendBytes(fd int, b []byte) (n int, err error) {
	return again(unix.SYS_SENDTO, fd, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), sendFlags)
}

func again(call uintptr, fd int, p unsafe.Pointer, a, b uintptr) (int, error) {
	for {
		r, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(p), a, b, 0, 0)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}

// Send implements reactor.Conn.
func (c *conn) Send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	c.mu.Lock()
	if c.closing.Load() {
		defer c.mu.Unlock()
		return c.refusal()
	}
	if c.busyLocked() {
		c.out.AppendBytes(p, c.eng.table.Now())
		return c.queuedUnlock()
	}
	c.writing = true
	c.mu.Unlock()
	n, err := sendBytes(c.fd, p)
	c.mu.Lock()
	if err == nil && n < len(p) {
		c.out.PutBackBytes(p[n:], c.eng.table.Now())
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
	c.mu.Lock()
	if c.closed || c.closing.Load() && !last {
		defer c.mu.Unlock()
		o.Release()
		return c.refusal()
	}
	if c.busyLocked() {
		c.out.Append(o, 0, c.eng.table.Now())
		return c.queuedUnlock()
	}
	c.writing = true
	c.mu.Unlock()
	n, asked, err := c.writeOutbox(o)
	c.mu.Lock()
	if err == nil && n < size {
		c.out.PutBack(o, n, c.eng.table.Now())
	} else {
		o.Release()
	}
	return c.wroteUnlock(n, n < asked, err)
}

// writeOutbox makes one system call; asked is how much of o it was given.
func (c *conn) writeOutbox(o *reactor.Outbox) (n, asked int, err error) {
	if !o.HasSegments() {
		n, err = sendBytes(c.fd, o.Buffer())
		return n, len(o.Buffer()), err
	}
	v := vecs.Get().(*vec)
	// what is beyond a full vector stays for the next one
	o.Each(func(b []byte, _ zerocopy.Owner) { v.add(b) })
	n, err = v.send(c.fd)
	asked = v.size
	v.reset()
	vecs.Put(v)
	return n, asked, err
}

// busyLocked: somebody else writes, or bytes wait that come before the new ones.
func (c *conn) busyLocked() bool { return c.writing || !c.out.Empty() }

// queuedUnlock ends a call that only queued.
func (c *conn) queuedUnlock() error {
	defer c.mu.Unlock()
	return c.overflowLocked()
}

func (c *conn) overflowLocked() error {
	if c.out.Overflowed() {
		c.closeLocked(reactor.ErrSlowReader)
		return reactor.ErrSlowReader
	}
	return nil
}

// wroteUnlock is called with the lock and the pen after a direct write of n bytes, and puts the pen down: it
// writes what others queued meanwhile, and leaves to the ring what a full socket does not take.
func (c *conn) wroteUnlock(n int, full bool, err error) error {
	defer c.mu.Unlock()
	if n > 0 {
		c.touch()
	}
	if err == nil && !full && !c.out.Empty() {
		err = c.writeQueueLocked()
	}
	c.writing = false
	switch {
	case c.closed:
		c.lp.post(c) // the loop waits for the pen
		return c.refusal()
	case err != nil:
		c.closeLocked(conns.Broken(err))
		return reactor.ErrClosed
	case c.out.Empty():
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
	v := vecs.Get().(*vec)
	defer vecs.Put(v)
	for round := 0; round < maxPenRounds && !c.out.Empty() && !c.closed; round++ {
		c.fill(v)
		c.mu.Unlock()
		n, err := v.send(c.fd)
		full := n < v.size
		v.reset()
		c.mu.Lock()
		c.advanceLocked(n)
		if err != nil || full {
			return err
		}
	}
	return nil
}

// fill takes the front of the queue.
func (c *conn) fill(v *vec) { c.out.Each(maxQueueWrite, v.add) }

// advanceLocked drops n bytes, which the socket took, from the queue.
func (c *conn) advanceLocked(n int) {
	if n > 0 {
		c.touch()
	}
	if c.out.Advance(n, c.eng.table.Now()) && !c.closing.Load() {
		c.resumed.Store(true) // served again
		c.lp.post(c)
	}
}

// writeLast gives what waits one more chance, without waiting. Nobody has the pen.
func (c *conn) writeLast() {
	if c.out.Empty() {
		return
	}
	v := vecs.Get().(*vec)
	defer vecs.Put(v)
	c.fill(v)
	if n, err := v.send(c.fd); err == nil {
		c.out.Advance(n, c.eng.table.Now())
	}
	v.reset()
}

// answer sends the outbox of the turn, on the loop.
func (c *conn) answer() {
	_ = c.send(c.lp.out, true) // a closed connection is seen by the caller
}

// writeOn puts the front of the queue into the ring, if something waits and nobody has the pen. The request
// completes when the socket has taken some of it.
func (c *conn) writeOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing || c.closed || c.out.Empty() {
		return
	}
	op := c.lp.takeOp(c)
	if op == nil {
		return
	}
	c.writing = true
	c.out.Each(maxQueueWrite, op.add)
	op.prepare(c.lp.ring.entry(), c.fd, unix.MSG_NOSIGNAL)
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
	clear(op.iov[:op.used])
	op.c, op.used = nil, 0
	lp.freeOps = append(lp.freeOps, op)
	c.mu.Lock()
	c.advanceLocked(n)
	c.writing = false
	if err != nil {
		c.closeLocked(err)
	}
	c.mu.Unlock()
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
