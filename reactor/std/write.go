package std

import (
	"net"
	"sync"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

// The most one write takes. Progress of a slow reader is seen after each. Connections without a writev get
// their runs copied together, which TLS does to them anyway.
const (
	maxVecWrite    = 256 << 10
	maxJoinedWrite = 64 << 10
)

// Send implements reactor.Conn.
func (c *conn) Send(p []byte) error { return c.queue(nil, p, false) }

// SendOutbox implements reactor.Conn.
func (c *conn) SendOutbox(o *reactor.Outbox) error { return c.queue(o, nil, false) }

// queue appends what o holds, or p, and sees to it that a writer runs. last lets the reader's own answers
// pass though the connection is closing.
func (c *conn) queue(o *reactor.Outbox, p []byte, last bool) error {
	if o != nil && o.Empty() {
		return nil
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.closed || c.Closing.Load() && !last {
		if o != nil {
			o.Release()
		}
		return c.RefusalLocked()
	}
	now := c.eng.table.Now()
	if o != nil {
		c.Out.Append(o, 0, now)
	} else {
		c.Out.AppendBytes(p, now)
	}
	if !c.writing && !c.Out.Empty() {
		c.writing = true
		go c.writeAll()
	}
	if c.Out.Overflowed() {
		c.closeLocked(reactor.ErrSlowReader)
		return reactor.ErrSlowReader
	}
	return nil
}

// writeAll is the writer.
func (c *conn) writeAll() {
	w := writers.Get().(*writer)
	c.Mu.Lock()
	for !c.Out.Empty() && !c.hurry {
		w.fill(&c.Out, c.nc)
		c.Mu.Unlock()
		n, err := w.write(c.nc)
		c.Mu.Lock()
		if n > 0 {
			c.Touch()
		}
		if c.Out.Advance(n, c.eng.table.Now()) {
			c.cond.Broadcast()
		}
		if err != nil {
			c.closeLocked(conns.Broken(err))
			break
		}
	}
	c.writing = false
	c.cond.Broadcast()
	c.Mu.Unlock()
	w.reset()
	writers.Put(w)
}

// writer is what a writer goroutine needs, pooled.
type writer struct {
	runs   [][]byte
	vec    net.Buffers
	joined []byte
}

var writers = sync.Pool{New: func() any { return &writer{} }}

// fill takes the first runs of q, as they are for a connection with writev, else joined.
func (w *writer) fill(q *reactor.Outbound, nc net.Conn) {
	if _, ok := nc.(*net.TCPConn); ok {
		w.runs = q.Buffers(w.runs[:0], maxVecWrite)
		return
	}
	w.runs = q.Buffers(w.runs[:0], maxJoinedWrite)
	if len(w.runs) > 1 {
		w.joined = w.joined[:0]
		for _, b := range w.runs {
			w.joined = append(w.joined, b...)
		}
		w.runs = append(w.runs[:0], w.joined)
	}
}

func (w *writer) write(nc net.Conn) (int, error) {
	if len(w.runs) == 1 {
		return nc.Write(w.runs[0])
	}
	w.vec = w.runs // WriteTo moves the slice header and clears what it points to
	n, err := w.vec.WriteTo(nc)
	return int(n), err
}

func (w *writer) reset() {
	clear(w.runs[:cap(w.runs)])
	w.runs, w.vec = w.runs[:0], nil
}
