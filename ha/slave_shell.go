package ha

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ClientState is where a slave is with its master (Java HAConnectionState).
type ClientState int32

// The states; the classic protocol has no handshake.
const (
	ClientReady     ClientState = 0 // not connected
	ClientHandshake ClientState = 1 // waits for its master's epochs
	ClientTransfer  ClientState = 2 // connected; what comes is compared or appended
)

var (
	errMoved        = errors.New("ha: the master is somewhere else now")
	errSilentMaster = errors.New("ha: the master has been silent for longer than haHousekeepingInterval")
)

// conversation is what a slave says to its master, and what it makes of what it hears. Times are ms. Only the goroutine of
// the shell calls it.
type conversation interface {
	// begin prepares for a new connection and gives what is said first. known is the master's log, if somebody could ask.
	begin(nowMillis int64, known *Range) (first []byte, err error)
	// begun is told that it was said.
	begun(address string)
	// received takes what the master says. An error ends the connection; with errAgain it is made again at once.
	received(b []byte, nowMillis int64) error
	// due is a report to make now, if there is something new or it is time. It is good until the next call.
	due(nowMillis, heartbeatMillis int64) (frame []byte, ok bool)
	// unreported is how much was compared or appended since the last report.
	unreported() int64
	// nextReport is when due is to be asked though nothing came.
	nextReport(live *Live) int64
	// expired tells that the master has been silent for too long.
	expired(nowMillis, housekeepingMillis int64) bool
}

// slaveShell is a slave's connection to its master, whatever they say to each other: one goroutine and a socket. It connects
// again after redialInterval, for as long as it runs, and follows a change of address at once.
type slaveShell struct {
	o    ClientOptions
	talk conversation

	state  atomic.Int32
	readAt atomic.Int64
	wrote  atomic.Int64

	mu      sync.Mutex
	address string
	conn    net.Conn
	changed chan struct{} // closed and made anew with each change of the address
	flow    flowBudget

	failing string // what was logged last; the goroutine's own

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

func (c *slaveShell) setUp(o ClientOptions, talk conversation) {
	c.o, c.talk, c.changed, c.done = o, talk, make(chan struct{}), make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
}

// Start begins to follow. The log must be a slave's (MessageStore.Follow).
func (c *slaveShell) Start() { go c.run() }

// move says where the master's HA port is, "" = nowhere for now. anew also ends a connection to the same address. The caller
// holds mu.
func (c *slaveShell) move(address string, anew bool) {
	if c.address == address && !anew {
		return
	}
	c.o.Slog.Info("master's HA address", "from", c.address, "to", address)
	c.address = address
	close(c.changed)
	c.changed = make(chan struct{})
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Master is the address that SetMaster said.
func (c *slaveShell) Master() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address
}

// State tells whether the client is connected.
func (c *slaveShell) State() ClientState { return ClientState(c.state.Load()) }

// Status is the state now.
func (c *slaveShell) Status() ClientStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ClientStatus{Activated: c.State() == ClientTransfer, Master: c.address, LastRead: c.readAt.Load(),
		LastWrite: c.wrote.Load(), BytesPerSecond: c.flow.perSecond(c.o.Clock.Millis()), Max: c.o.Log.MaxPhyOffset()}
}

// Close ends the connection and waits for the goroutine.
func (c *slaveShell) Close() {
	c.cancel()
	c.mu.Lock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.mu.Unlock()
	<-c.done
}

func (c *slaveShell) run() {
	defer close(c.done)
	for again := 0; c.ctx.Err() == nil; {
		c.mu.Lock()
		address, changed := c.address, c.changed
		c.mu.Unlock()
		if address != "" {
			err := c.follow(address)
			c.state.Store(int32(ClientReady))
			if c.ctx.Err() != nil {
				return
			}
			c.explain(address, err)
			if errors.Is(err, errAgain) && again < maxAgain {
				again++
				continue
			}
			again = 0
		}
		wait := time.NewTimer(redialInterval)
		select {
		case <-wait.C:
		case <-changed:
		case <-c.ctx.Done():
		}
		wait.Stop()
	}
}

// explain logs why a connection ended; the same reason once.
func (c *slaveShell) explain(address string, err error) {
	text := err.Error()
	if text == c.failing {
		return
	}
	c.failing = text
	c.o.Slog.Warn("not connected with the master", "remote", address, "err", err)
}

// follow is one connection.
func (c *slaveShell) follow(address string) error {
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	var known *Range
	if c.o.MasterRange != nil {
		var err error
		if known, err = c.o.MasterRange(ctx); err != nil {
			c.o.Slog.Debug("ends of the master's log unknown", "err", err)
		}
	}
	conn, err := c.o.Dial(ctx, address)
	if err != nil {
		return fmt.Errorf("ha: connect: %w", err)
	}
	defer conn.Close()
	c.mu.Lock()
	c.conn = conn
	moved := c.address != address
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
	}()
	if moved || c.ctx.Err() != nil {
		return errMoved
	}
	first, err := c.talk.begin(c.o.Clock.Millis(), known)
	if err == nil {
		err = c.say(conn, first)
	}
	if err != nil {
		return err
	}
	c.talk.begun(address)
	return c.transfer(conn)
}

// transfer reads until the connection ends. It reports when there is nothing more to read for now, after maxUnreported
// bytes, and when it is time.
func (c *slaveShell) transfer(conn net.Conn) error {
	buf := make([]byte, readBytes)
	reader := newSocketReader(conn, func() error {
		if c.talk.unreported() <= 0 {
			return nil
		}
		return c.report(conn)
	})
	for {
		live := c.o.Live()
		wait := time.Duration(max(c.talk.nextReport(live)-c.o.Clock.Millis(), 1)) * time.Millisecond
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return fmt.Errorf("ha: %w", err)
		}
		n, err := reader.read(buf)
		now := c.o.Clock.Millis()
		if n > 0 {
			c.readAt.Store(now)
			c.mu.Lock()
			c.flow.count(now, n)
			c.mu.Unlock()
			if err := c.talk.received(buf[:n], now); err != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("ha: read from the master: %w", err)
		}
		if now >= c.talk.nextReport(live) || c.talk.unreported() > maxUnreported || !reader.drains() {
			if err := c.report(conn); err != nil {
				return err
			}
		}
		if c.talk.expired(now, live.HousekeepingInterval.Milliseconds()) {
			return errSilentMaster
		}
	}
}

// report tells the master what the slave has, if there is something to tell.
func (c *slaveShell) report(conn net.Conn) error {
	frame, ok := c.talk.due(c.o.Clock.Millis(), c.o.Live().HeartbeatInterval.Milliseconds())
	if !ok {
		return nil
	}
	return c.say(conn, frame)
}

// say writes a frame.
func (c *slaveShell) say(conn net.Conn, frame []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(c.o.Live().HousekeepingInterval)); err != nil {
		return fmt.Errorf("ha: %w", err)
	}
	if _, err := conn.Write(frame); err != nil {
		return fmt.Errorf("ha: report to the master: %w", err)
	}
	c.wrote.Store(c.o.Clock.Millis())
	return nil
}
