package accept

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"skylark/reactor/internal/conns"
)

// How a boss behaves when it cannot accept.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
	// maxShed is how many waiting peers are sent away before each wait.
	maxShed = 128
	// shedWait is how long the boss waits for one more of them.
	shedWait = time.Millisecond
)

// Boss accepts from one listener.
type Boss struct {
	take  func(net.Conn) error
	ln    net.Listener
	slots *conns.Slots
	log   *slog.Logger

	full, starved conns.Gate
	spare         *os.File
	stop          chan struct{}
	done          chan struct{}
	once          sync.Once
}

// Start accepts in a goroutine of its own. take gets every connection there is a slot for; it owns the
// connection and, unless it fails, the slot.
func Start(ln net.Listener, slots *conns.Slots, log *slog.Logger, take func(net.Conn) error) *Boss {
	b := &Boss{
		take: take, ln: ln, slots: slots, log: log,
		full: conns.Gate{PerSecond: 1}, starved: conns.Gate{PerSecond: 1},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go b.run()
	return b
}

// Close closes the listener and waits until the boss is through with what it has accepted.
func (b *Boss) Close() {
	b.once.Do(func() {
		close(b.stop)
		_ = b.ln.Close()
	})
	<-b.done
}

func (b *Boss) run() {
	defer close(b.done)
	b.refillSpare()
	defer b.dropSpare()
	var backoff time.Duration
	for {
		c, err := b.ln.Accept()
		if err == nil {
			err = b.admit(c)
		}
		switch {
		case err == nil:
			backoff = 0
			continue
		case b.stopped(), errors.Is(err, net.ErrClosed):
			return
		}
		if outOfDescriptors(err) {
			b.shed(err)
		} else if ok, suppressed := b.starved.Allow(); ok {
			b.log.Warn("cannot accept connections",
				"listen", b.ln.Addr(), "error", err, "suppressed", suppressed)
		}
		if backoff = min(max(2*backoff, minBackoff), maxBackoff); !b.wait(backoff) {
			return
		}
	}
}

// admit passes a connection on. Errors of one connection are logged; only those that will hit the next one
// too, the lack of descriptors, are returned.
func (b *Boss) admit(c net.Conn) error {
	if !b.slots.Acquire() {
		remote := c.RemoteAddr()
		_ = c.Close()
		if ok, suppressed := b.full.Allow(); ok {
			b.log.Warn("connection refused: too many", "listen", b.ln.Addr(), "remote", remote,
				"maxConnections", b.slots.Max(), "suppressed", suppressed)
		}
		return nil
	}
	err := b.take(c)
	if err == nil {
		return nil
	}
	b.slots.Release()
	if outOfDescriptors(err) || b.stopped() {
		return err
	}
	if ok, suppressed := b.starved.Allow(); ok {
		b.log.Warn("cannot take a connection", "listen", b.ln.Addr(), "error", err, "suppressed", suppressed)
	}
	return nil
}

// shed closes waiting peers with the help of the spare descriptor.
func (b *Boss) shed(cause error) {
	sent := 0
	d, ok := b.ln.(interface{ SetDeadline(time.Time) error })
	for ok && b.spare != nil && sent < maxShed {
		b.dropSpare()
		_ = d.SetDeadline(time.Now().Add(shedWait))
		c, err := b.ln.Accept()
		if err == nil {
			_ = c.Close()
			sent++
		}
		b.refillSpare()
		if err != nil {
			break // nobody waits any more, or somebody else took the descriptor
		}
	}
	if ok {
		_ = d.SetDeadline(time.Time{})
		b.refillSpare()
	}
	if ok, suppressed := b.starved.Allow(); ok {
		b.log.Error("out of file descriptors, peers are sent away", "listen", b.ln.Addr(), "error", cause,
			"sentAway", sent, "connections", b.slots.InUse(), "suppressed", suppressed)
	}
}

func (b *Boss) refillSpare() {
	if b.spare == nil {
		b.spare, _ = os.Open(os.DevNull) // without one peers wait until there are descriptors again
	}
}

func (b *Boss) dropSpare() {
	if b.spare != nil {
		_ = b.spare.Close()
		b.spare = nil
	}
}

func (b *Boss) stopped() bool {
	select {
	case <-b.stop:
		return true
	default:
		return false
	}
}

func (b *Boss) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.stop:
		return false
	}
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}
