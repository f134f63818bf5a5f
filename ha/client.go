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

// The states that the classic protocol has.
const (
	ClientReady    ClientState = 0 // not connected
	ClientTransfer ClientState = 2 // connected; what comes is compared or appended
)

// HAClient is a slave's connection to its master (Java DefaultHAClient). It connects again after redialInterval, for as long
// as it runs, and follows a change of address at once.
type HAClient struct {
	o ClientOptions
	f *follower

	state  atomic.Int32
	readAt atomic.Int64
	wrote  atomic.Int64

	mu      sync.Mutex
	address string
	conn    net.Conn
	changed chan struct{} // closed and made anew with each change of the address
	flow    flowBudget
	failing string // what was logged last

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// NewHAClient makes a client that does nothing before Start.
func NewHAClient(o ClientOptions) *HAClient {
	c := &HAClient{o: o, f: newFollower(o.Log, o.Slog), changed: make(chan struct{}), done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Start begins to follow. The log must be a slave's (MessageStore.Follow).
func (c *HAClient) Start() { go c.run() }

// SetMaster says where the master's HA port is, "" = nowhere for now.
func (c *HAClient) SetMaster(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address == address {
		return
	}
	c.o.Slog.Info("master's HA address changed", "from", c.address, "to", address)
	c.address = address
	close(c.changed)
	c.changed = make(chan struct{})
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Master is the address that SetMaster said.
func (c *HAClient) Master() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address
}

// State tells whether the client is connected.
func (c *HAClient) State() ClientState { return ClientState(c.state.Load()) }

// Close ends the connection and waits for the goroutine.
func (c *HAClient) Close() {
	c.cancel()
	c.mu.Lock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.mu.Unlock()
	<-c.done
}

func (c *HAClient) run() {
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
			c.report(address, err)
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

// report logs why a connection ended; the same reason once.
func (c *HAClient) report(address string, err error) {
	text := err.Error()
	if text == c.failing {
		return
	}
	c.failing = text
	c.o.Slog.Warn("not connected with the master", "remote", address, "err", err)
}

// follow is one connection.
func (c *HAClient) follow(address string) error {
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
	first, err := c.f.begin(c.o.Clock.Millis(), known)
	if err == nil {
		err = c.say(conn, int64(first))
	}
	if err != nil {
		return err
	}
	c.state.Store(int32(ClientTransfer))
	c.o.Slog.Info("connected with the master", "remote", address, "phyOffset", first, "end", c.o.Log.MaxPhyOffset())
	return c.transfer(conn)
}

var (
	errMoved        = errors.New("ha: the master is somewhere else now")
	errSilentMaster = errors.New("ha: the master has been silent for longer than haHousekeepingInterval")
)

// transfer reads until the connection ends. It reports when there is nothing more to read for now, after maxUnreported
// bytes, and when it is time.
func (c *HAClient) transfer(conn net.Conn) error {
	buf := make([]byte, readBytes)
	reader := newSocketReader(conn, func() error {
		if c.f.unreported() <= 0 {
			return nil
		}
		return c.reportNow(conn)
	})
	for {
		live := c.o.Live()
		heartbeat := live.HeartbeatInterval.Milliseconds()
		now := c.o.Clock.Millis()
		wait := time.Duration(max(c.f.nextReport(heartbeat)-now, 1)) * time.Millisecond
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return fmt.Errorf("ha: %w", err)
		}
		n, err := reader.read(buf)
		now = c.o.Clock.Millis()
		if n > 0 {
			c.failing = ""
			c.readAt.Store(now)
			c.mu.Lock()
			c.flow.count(now, n)
			c.mu.Unlock()
			if err := c.f.received(buf[:n], now); err != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("ha: read from the master: %w", err)
		}
		if now >= c.f.nextReport(heartbeat) || c.f.unreported() > maxUnreported || !reader.drains() && c.f.unreported() > 0 {
			if err := c.reportNow(conn); err != nil {
				return err
			}
		}
		if c.f.expired(now, live.HousekeepingInterval.Milliseconds()) {
			return errSilentMaster
		}
	}
}

// reportNow tells the master what the slave has.
func (c *HAClient) reportNow(conn net.Conn) error {
	if offset, ok := c.f.report(c.o.Clock.Millis(), 0); ok {
		return c.say(conn, int64(offset))
	}
	return nil
}
