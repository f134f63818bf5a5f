//go:build unix

package gnet

import (
	"skylark/reactor"
	"skylark/reactor/internal/conns"
	"skylark/zerocopy"
)

const (
	// maxQueueWrite is what one write of queued bytes asks for, but for the last run.
	maxQueueWrite = 256 << 10
	// maxPenRounds is how many system calls for others the holder of the pen makes before the drainer takes
	// over. The holder may be a loop: 1 MiB is some 200 µs.
	maxPenRounds = 4
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
// writes what others queued meanwhile, and leaves to the drainer what a full socket does not take.
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
		c.cond.Broadcast() // the loop waits in finish
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
	return c.armLocked()
}

// writeQueueLocked writes what waits until it is through, the socket is full, or it is the drainer's turn. It
// lets go of the lock for each system call; the caller has the pen.
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
		if n > 0 {
			c.Touch()
		}
		if c.Out.Advance(n, c.eng.table.Now()) && !c.Closing.Load() {
			_ = c.g.Wake(nil) // served again
		}
		if err != nil || full {
			return err
		}
	}
	return nil
}

func (c *conn) armLocked() error {
	if c.armed {
		return nil
	}
	if err := c.eng.drain.arm(c); err != nil {
		c.closeLocked(err)
		return reactor.ErrClosed
	}
	c.armed = true
	return nil
}

// writable is called by the drainer: the socket has room, and is not watched any more.
func (c *conn) writable() {
	c.Mu.Lock()
	c.armed = false
	if c.closed || c.writing || c.Out.Empty() {
		c.Mu.Unlock()
		return
	}
	c.writing = true
	_ = c.wroteUnlock(0, false, nil) // errors close the connection
}

// writeLast gives what waits one more chance, without waiting. The loop is in finish, nobody has the pen.
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
