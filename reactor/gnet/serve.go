//go:build unix

package gnet

import (
	"fmt"
	"net"
	"os"

	gn "github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

// serve is one turn of the loop: p is what was read, empty after a wake-up.
func (c *conn) serve(p []byte) gn.Action {
	if len(p) > 0 {
		c.Touch()
	}
	if !c.opened {
		if len(p) == 0 {
			return gn.None
		}
		if action := c.begin(p); action != gn.None {
			return action
		}
	}
	lp := c.loop
	for {
		if c.Out.Paused() {
			return c.hold(p)
		}
		c.pausedBytes = 0
		frames, rest, err := c.in.Split(p, lp.frames[:0])
		p = rest
		if len(frames) > 0 {
			if perr := c.eng.guard.Frames(c, frames, &lp.out); perr != nil {
				err = perr
			}
			_ = c.send(&lp.out, true) // a closed connection is seen below
		}
		if err != nil {
			return c.closeNow(err)
		}
		if c.Closing.Load() {
			return gn.Close
		}
		if len(frames) == 0 {
			c.in.Keep(p)
			return gn.None
		}
	}
}

// closeNow ends the connection from the loop.
func (c *conn) closeNow(reason error) gn.Action {
	c.Mu.Lock()
	if !c.Closing.Load() {
		c.Closing.Store(true)
		c.Reason = reason
	}
	c.Mu.Unlock()
	return gn.Close
}

// hold keeps what a paused connection sends. gnet cannot stop reading, so there is a limit.
func (c *conn) hold(p []byte) gn.Action {
	if c.Closing.Load() {
		return gn.Close
	}
	if c.pausedBytes += len(p); c.pausedBytes > c.eng.opts.MaxPausedInboundBytes {
		return c.closeNow(fmt.Errorf("%w and keeps sending", reactor.ErrSlowReader))
	}
	c.in.Keep(p)
	return gn.None
}

// begin looks at the first bytes of a connection.
func (c *conn) begin(p []byte) gn.Action {
	if p[0] == conns.TLSHandshakeByte {
		return c.handOver(p)
	}
	if c.eng.opts.RequireTLS {
		return c.closeNow(reactor.ErrTLSRequired)
	}
	if err := c.eng.guard.Open(c); err != nil {
		return c.closeNow(err)
	}
	c.opened = true
	return gn.None
}

// handOver passes the connection to the TLS engine. Nobody but this loop knows it yet, so nothing can be
// under way on it. The descriptor is duplicated; gnet closes its own without a shutdown, which the other does
// not feel.
func (c *conn) handOver(head []byte) gn.Action {
	if c.eng.opts.TLS == nil {
		return c.closeNow(reactor.ErrTLSDisabled)
	}
	nc, err := duplicate(c.fd)
	if err != nil {
		return c.closeNow(fmt.Errorf("reactor: cannot hand a TLS connection over: %w", err))
	}
	c.handedOver = true
	c.eng.tls.Adopt(nc, append([]byte(nil), head...))
	return gn.Close
}

func duplicate(fd int) (net.Conn, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(dup), "tls")
	defer f.Close()
	return net.FileConn(f) // duplicates once more
}
