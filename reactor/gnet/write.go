//go:build unix

package gnet

import (
	"sync"

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

var batches = sync.Pool{New: func() any { return new(zerocopy.Batch) }}

func putBatch(b *zerocopy.Batch) {
	b.Reset()
	batches.Put(b)
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
	n, err := zerocopy.Write(c.fd, p)
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

// writeOutbox makes one system call, or a few for long runs of files; asked is how much of o they were given.
func (c *conn) writeOutbox(o *reactor.Outbox) (n, asked int, err error) {
	if !o.HasSegments() {
		n, err = zerocopy.Write(c.fd, o.Buffer())
		return n, len(o.Buffer()), err
	}
	v := batches.Get().(*zerocopy.Batch)
	// what is beyond a full batch stays for the next one
	full := false
	o.Each(func(b []byte, owner zerocopy.Owner) { full = full || !v.Add(b, owner) })
	n, err = v.Write(c.fd)
	asked = v.Size()
	putBatch(v)
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
// writes what others queued meanwhile, and leaves to the drainer what a full socket does not take.
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
		c.cond.Broadcast() // the loop waits in finish
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
	return c.armLocked()
}

// writeQueueLocked writes what waits until it is through, the socket is full, or it is the drainer's turn. It
// lets go of the lock for each system call; the caller has the pen.
func (c *conn) writeQueueLocked() error {
	v := batches.Get().(*zerocopy.Batch)
	defer putBatch(v)
	for round := 0; round < maxPenRounds && !c.out.Empty() && !c.closed; round++ {
		c.out.Fill(v, maxQueueWrite)
		c.mu.Unlock()
		n, err := v.Write(c.fd)
		full := n < v.Size()
		v.Reset()
		c.mu.Lock()
		if n > 0 {
			c.touch()
		}
		if c.out.Advance(n, c.eng.table.Now()) && !c.closing.Load() {
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
	c.mu.Lock()
	c.armed = false
	if c.closed || c.writing || c.out.Empty() {
		c.mu.Unlock()
		return
	}
	c.writing = true
	_ = c.wroteUnlock(0, false, nil) // errors close the connection
}

// writeLast gives what waits one more chance, without waiting. The loop is in finish, nobody has the pen.
func (c *conn) writeLast() {
	if c.out.Empty() {
		return
	}
	v := batches.Get().(*zerocopy.Batch)
	defer putBatch(v)
	c.out.Fill(v, maxQueueWrite)
	if n, err := v.Write(c.fd); err == nil {
		c.out.Advance(n, c.eng.table.Now())
	}
}
