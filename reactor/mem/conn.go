package mem

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferBytes is what one direction of a connection holds before its writer waits, as two socket buffers
// would.
const bufferBytes = 256 << 10

// conn is one end of a connection.
type conn struct {
	net         *Network
	local, peer netip.AddrPort
	in, out     *pipe
}

func (n *Network) pair(a, b netip.AddrPort) (*conn, *conn) {
	ab, ba := newPipe(), newPipe()
	return &conn{net: n, local: a, peer: b, in: ba, out: ab},
		&conn{net: n, local: b, peer: a, in: ab, out: ba}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	fate := c.net.fate(c.local, c.peer, len(p))
	if fate.Reset {
		c.reset()
	}
	n, err := c.out.write(p, fate)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "mem", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Close lets the peer read what was written before; what the peer has written is dropped.
func (c *conn) Close() error {
	if !c.out.closeWriter() {
		return c.opError("close", net.ErrClosed)
	}
	c.in.closeReader()
	return nil
}

// reset is the end without a farewell, in both directions.
func (c *conn) reset() {
	c.in.fail(syscall.ECONNRESET)
	c.out.fail(syscall.ECONNRESET)
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readDeadline, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeDeadline, t)
	return nil
}

// pipe is one direction.
type pipe struct {
	mu            sync.Mutex
	changed       chan struct{} // closed at every change, and made anew by the next who waits
	parts         []part
	size          int // of parts and of what was lost
	lost          bool
	writerClosed  bool
	readerClosed  bool
	failure       error
	readDeadline  time.Time
	writeDeadline time.Time
}

// part is bytes that arrive at one time.
type part struct {
	b  []byte
	at time.Time
}

func newPipe() *pipe { return &pipe{} }

// notify wakes all who wait; mu is held.
func (p *pipe) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// wait lets go of mu until something changes, or until the earlier of two times; zero times do not count.
func (p *pipe) wait(a, b time.Time) {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		a = b
	}
	if a.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(a))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

func expired(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := time.Now()
		var next time.Time
		switch {
		case p.readerClosed:
			return 0, net.ErrClosed
		case expired(p.readDeadline, now):
			return 0, os.ErrDeadlineExceeded
		case p.failure != nil:
			return 0, p.failure
		case len(p.parts) > 0 && !p.parts[0].at.After(now):
			return p.takeOut(b, now), nil
		case len(p.parts) > 0:
			next = p.parts[0].at
		case p.writerClosed && !p.lost:
			return 0, io.EOF
		}
		p.wait(p.readDeadline, next)
	}
}

func (p *pipe) takeOut(b []byte, now time.Time) (n int) {
	for len(p.parts) > 0 && n < len(b) && !p.parts[0].at.After(now) {
		first := &p.parts[0]
		k := copy(b[n:], first.b)
		n += k
		if first.b = first.b[k:]; len(first.b) == 0 {
			p.parts = p.parts[1:]
		}
	}
	p.size -= n
	p.notify()
	return n
}

func (p *pipe) write(b []byte, fate Fate) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = p.lost || fate.Lost
	for len(b) > 0 {
		now := time.Now()
		switch {
		case p.writerClosed:
			return n, net.ErrClosed
		case expired(p.writeDeadline, now):
			return n, os.ErrDeadlineExceeded
		case p.failure != nil:
			return n, p.failure
		case p.readerClosed:
			return n, syscall.EPIPE
		case p.size >= bufferBytes:
			p.wait(p.writeDeadline, time.Time{})
			continue
		}
		k := min(bufferBytes-p.size, len(b))
		p.putIn(b[:k], now.Add(fate.Delay))
		n, b = n+k, b[k:]
	}
	return n, nil
}

func (p *pipe) putIn(b []byte, at time.Time) {
	p.size += len(b)
	if p.lost {
		return
	}
	if last := len(p.parts) - 1; last >= 0 && p.parts[last].at.After(at) {
		at = p.parts[last].at
	}
	p.parts = append(p.parts, part{b: append([]byte(nil), b...), at: at})
	p.notify()
}

func (p *pipe) setDeadline(which *time.Time, t time.Time) {
	p.mu.Lock()
	*which = t
	p.notify()
	p.mu.Unlock()
}

// closeWriter tells whether it was open.
func (p *pipe) closeWriter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.writerClosed
	p.writerClosed = true
	p.notify()
	return !was
}

func (p *pipe) closeReader() {
	p.mu.Lock()
	p.readerClosed = true
	p.parts = nil
	p.notify()
	p.mu.Unlock()
}

func (p *pipe) fail(err error) {
	p.mu.Lock()
	p.failure = err
	p.notify()
	p.mu.Unlock()
}
