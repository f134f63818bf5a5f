package std

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

const (
	// maxReadBuffer is the most a connection's own read buffer takes: a TLS record is 16 KiB.
	maxReadBuffer = 32 << 10
	// handshakeTimeout bounds a TLS handshake.
	handshakeTimeout = 10 * time.Second
)

// errPeerEnd is the reader's reason when the peer closed in order; the handler gets nil.
var errPeerEnd = errors.New("the peer closed")

// run is the reader.
func (c *conn) run(head []byte) {
	defer c.eng.readers.Done()
	reason := c.serve(head)
	if reason == errPeerEnd {
		reason = nil
	}
	c.finish(reason)
}

// serve reads until there is a reason to end.
func (c *conn) serve(head []byte) error {
	buf := make([]byte, min(c.eng.opts.ReadBufferBytes, maxReadBuffer))
	p, err := head, error(nil)
	if len(p) == 0 {
		if p, err = c.read(buf); err != nil {
			return err
		}
	}
	if p[0] == conns.TLSHandshakeByte {
		if err = c.startTLS(p); err != nil {
			return err
		}
		if p, err = c.read(buf); err != nil {
			return err
		}
	} else if c.eng.opts.RequireTLS {
		return reactor.ErrTLSRequired
	}
	if err := c.eng.guard.Open(c); err != nil {
		return err
	}
	c.opened = true
	frames := make([]codec.Frame, 0, 16)
	for {
		c.Touch()
		if frames, err = c.turn(p, frames); err != nil {
			return err
		}
		if p, err = c.read(buf); err != nil {
			return err
		}
	}
}

// read returns what came, at least one byte, or why nothing will.
func (c *conn) read(buf []byte) ([]byte, error) {
	for {
		n, err := c.nc.Read(buf)
		switch {
		case n > 0:
			return buf[:n], nil // an error comes again with the next call
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errPeerEnd
		default:
			return nil, conns.Broken(err)
		}
	}
}

// turn serves the frames that p completes. scratch is reused for them.
func (c *conn) turn(p []byte, scratch []codec.Frame) ([]codec.Frame, error) {
	for {
		if c.Out.Paused() && !c.waitResumed() {
			return scratch, reactor.ErrClosed
		}
		frames, rest, err := c.in.Split(p, scratch[:0])
		scratch, p = frames, rest
		if len(frames) > 0 {
			if perr := c.eng.guard.Frames(c, frames, &c.outbox); perr != nil {
				return scratch, perr
			}
			_ = c.queue(&c.outbox, nil, true) // the loop ends by closing
		}
		switch {
		case err != nil:
			return scratch, err
		case c.Closing.Load():
			return scratch, reactor.ErrClosed
		case len(frames) == 0:
			c.in.Keep(p)
			return scratch, nil
		}
	}
}

// waitResumed waits until the peer has read enough; false when the connection is closing.
func (c *conn) waitResumed() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for c.Out.Paused() && !c.Closing.Load() {
		c.cond.Wait()
	}
	return !c.Closing.Load()
}

// startTLS goes on with TLS; head is the beginning of the handshake.
func (c *conn) startTLS(head []byte) error {
	if c.eng.opts.TLS == nil {
		return reactor.ErrTLSDisabled
	}
	tc := c.eng.opts.TLS(&prefixed{Conn: c.raw, head: append([]byte(nil), head...)})
	if h, ok := tc.(interface{ HandshakeContext(context.Context) error }); ok {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		defer cancel()
		if err := h.HandshakeContext(ctx); err != nil {
			return conns.Broken(err)
		}
	}
	c.nc = tc
	return nil
}

// prefixed is a connection of which head was read already.
type prefixed struct {
	net.Conn
	head []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
