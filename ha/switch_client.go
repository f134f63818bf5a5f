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

	"skylark/store"
)

// ClientHandshake is the state of a slave that waits for its master's epochs (Java HAConnectionState.HANDSHAKE).
const ClientHandshake ClientState = 1

// switchClient is a slave's connection to its master (Java AutoSwitchHAClient). It connects again after redialInterval, for
// as long as it runs.
type switchClient struct {
	o *SwitchOptions
	f *SwitchFollower
	// confirmed is told what the master says that it is.
	confirmed func(store.PhyOffset)

	state  atomic.Int32
	readAt atomic.Int64
	wrote  atomic.Int64

	mu      sync.Mutex
	id      int64 // of this replica
	address string
	conn    net.Conn
	changed chan struct{} // closed and made anew with each change of the address
	flow    flowBudget
	failing string          // what was logged last
	told    store.PhyOffset // of confirmed, last; the goroutine's own

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

func startSwitchClient(o *SwitchOptions, id int64, address string, confirmed func(store.PhyOffset)) *switchClient {
	c := &switchClient{o: o, f: NewSwitchFollower(o.Log, o.Epochs, o.Slog), confirmed: confirmed, id: id, address: address,
		changed: make(chan struct{}), done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c
}

// setMaster says who this replica is and where the master's HA port is. anew also ends a connection to the same address.
func (c *switchClient) setMaster(id int64, address string, anew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address == address && c.id == id && !anew {
		return
	}
	c.id = id
	c.o.Slog.Info("master's HA address", "from", c.address, "to", address)
	c.address = address
	close(c.changed)
	c.changed = make(chan struct{})
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// close ends the connection and waits for the goroutine.
func (c *switchClient) close() {
	c.cancel()
	c.mu.Lock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.mu.Unlock()
	<-c.done
}

func (c *switchClient) run() {
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
			if c.f.Again(err) && again < maxAgain {
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
func (c *switchClient) report(address string, err error) {
	text := err.Error()
	if text == c.failing {
		return
	}
	c.failing = text
	c.o.Slog.Warn("not connected with the master", "remote", address, "err", err)
}

// follow is one connection.
func (c *switchClient) follow(address string) error {
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
	moved, id := c.address != address, c.id
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
	}()
	if moved || c.ctx.Err() != nil {
		return errMoved
	}
	if _, err := c.o.Log.CutTail(); err != nil { // the log ends where readers see it end, with a whole record
		return err
	}
	live := c.o.Live()
	hello := c.f.Begin(c.o.Clock.Millis(), id, live.SyncFromLastFile, live.AsyncLearner, known)
	if err := c.say(conn, hello); err != nil {
		return err
	}
	c.state.Store(int32(ClientHandshake))
	return c.transfer(conn, address)
}

// transfer reads until the connection ends. It reports as HAClient does.
func (c *switchClient) transfer(conn net.Conn, address string) error {
	buf := make([]byte, readBytes)
	reader := newSocketReader(conn, func() error {
		if c.f.Unreported() <= 0 {
			return nil
		}
		return c.reportNow(conn)
	})
	for {
		live := c.o.Live()
		heartbeat := live.HeartbeatInterval.Milliseconds()
		now := c.o.Clock.Millis()
		wait := time.Duration(max(c.f.NextReport(heartbeat)-now, 1)) * time.Millisecond
		if !c.f.Shaken() {
			wait = live.HousekeepingInterval
		}
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return fmt.Errorf("ha: %w", err)
		}
		n, err := reader.read(buf)
		now = c.o.Clock.Millis()
		if n > 0 {
			if err := c.received(buf[:n], now, address); err != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("ha: read from the master: %w", err)
		}
		if now >= c.f.NextReport(heartbeat) || c.f.Unreported() > maxUnreported || !reader.drains() {
			if err := c.reportNow(conn); err != nil {
				return err
			}
		}
		if c.f.Expired(now, live.HousekeepingInterval.Milliseconds()) {
			return errSilentMaster
		}
	}
}

// reportNow tells the master what the slave has, if there is something to tell.
func (c *switchClient) reportNow(conn net.Conn) error {
	frame, ok := c.f.Due(c.o.Clock.Millis(), c.o.Live().HeartbeatInterval.Milliseconds())
	if !ok {
		return nil
	}
	return c.say(conn, frame)
}

// received takes bytes of the master and shows consumers what it confirms.
func (c *switchClient) received(b []byte, now int64, address string) error {
	c.readAt.Store(now)
	c.mu.Lock()
	c.flow.count(now, len(b))
	c.mu.Unlock()
	if err := c.f.Received(b, now); err != nil {
		return err
	}
	if c.f.Shaken() && ClientState(c.state.Load()) != ClientTransfer {
		c.failing = ""
		c.state.Store(int32(ClientTransfer))
		c.o.Slog.Info("connected with the master", "remote", address, "end", c.o.Log.MaxPhyOffset())
	}
	if confirmed := c.f.Confirmed(); confirmed != c.told {
		c.told = confirmed
		c.confirmed(confirmed)
	}
	return nil
}

// say writes a frame.
func (c *switchClient) say(conn net.Conn, frame []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(c.o.Live().HousekeepingInterval)); err != nil {
		return fmt.Errorf("ha: %w", err)
	}
	if _, err := conn.Write(frame); err != nil {
		return fmt.Errorf("ha: report to the master: %w", err)
	}
	c.wrote.Store(c.o.Clock.Millis())
	return nil
}

// status is the state now.
func (c *switchClient) status() ClientStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ClientStatus{Activated: ClientState(c.state.Load()) == ClientTransfer, Master: c.address,
		LastRead: c.readAt.Load(), LastWrite: c.wrote.Load(), BytesPerSecond: c.flow.perSecond(c.o.Clock.Millis()),
		Max: c.o.Log.MaxPhyOffset()}
}
