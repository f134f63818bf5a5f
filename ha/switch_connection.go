package ha

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"skylark/store"
)

// switchConnection is one slave's connection on a master whose role a controller decided (Java AutoSwitchHAConnection): as
// HAConnection a goroutine that reads reports and one that pushes the log, from its files to the socket.
type switchConnection struct {
	s    *AutoSwitchHAService
	conn net.Conn
	out  pen

	mu         sync.Mutex
	link       *SwitchLink
	flow       flowBudget
	introduced bool
	closed     bool

	idle   atomic.Bool
	wakeup chan struct{}
	stop   chan struct{}
}

func newSwitchConnection(s *AutoSwitchHAService, conn net.Conn) *switchConnection {
	c := &switchConnection{s: s, conn: conn, wakeup: make(chan struct{}, 1), stop: make(chan struct{})}
	c.link = NewSwitchLink(s.o.Epochs, s.o.Clock.Millis())
	c.out.conn = conn
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
	return c
}

// wake tells the pushing goroutine that there is more. One atomic load while it is awake.
func (c *switchConnection) wake() {
	if c.idle.Load() && c.idle.CompareAndSwap(true, false) {
		c.wakeNow()
	}
}

func (c *switchConnection) wakeNow() {
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// close ends the connection, once.
func (c *switchConnection) close(why error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	id, _, _ := c.link.Slave()
	next := c.link.next
	c.mu.Unlock()
	close(c.stop)
	_ = c.conn.Close()
	if !errors.Is(why, errServiceClosed) {
		c.s.o.Slog.Warn("connection of a slave closed", "remote", c.conn.RemoteAddr(), "brokerId", id, "phyOffset", next,
			"err", why)
	}
	c.s.remove(c, id)
}

// readReports takes what the slave says until the connection ends.
func (c *switchConnection) readReports() {
	buf := make([]byte, 4<<10)
	for {
		limit := c.s.o.Live().HousekeepingInterval
		if err := c.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			c.close(err)
			return
		}
		n, err := c.conn.Read(buf)
		if n > 0 {
			if err := c.received(buf[:n]); err != nil {
				c.close(err)
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) || err == nil && c.expired(limit) {
			err = errSilentSlave
		}
		if err != nil {
			c.close(err)
			return
		}
	}
}

// expired also ends a peer that drips single bytes.
func (c *switchConnection) expired(limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.Expired(c.s.o.Clock.Millis(), limit.Milliseconds())
}

// received takes bytes of the slave.
func (c *switchConnection) received(b []byte) error {
	log := c.s.o.Log
	c.mu.Lock()
	before, begun := c.link.Ack(), c.link.Started()
	err := c.link.Received(b, c.s.o.Clock.Millis(),
		LogEnds{Min: log.MinPhyOffset(), Max: log.MaxPhyOffset(), FileBytes: log.LogFileBytes()})
	refusal, refused := c.link.Refusal()
	id, learner, shook := c.link.Slave()
	introduce := shook && !c.introduced
	c.introduced = shook
	ack, begins, from := c.link.Ack(), c.link.Started() && !begun, c.link.Next()
	c.mu.Unlock()
	if err != nil {
		if refused {
			_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.conn.Write(refusal) // the connection ends anyway
		}
		return err
	}
	if introduce {
		if err := c.s.introduced(c, id, learner); err != nil {
			return err
		}
		c.wakeNow()
	}
	if begins {
		c.s.o.Slog.Info("slave begins", "remote", c.conn.RemoteAddr(), "brokerId", id, "asked", ack, "phyOffset", from)
		c.wakeNow()
	}
	if ack > before {
		c.s.acked(c, id, ack)
	}
	return nil
}

// push sends the log and heartbeats until the connection ends.
func (c *switchConnection) push() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		sent, wait, err := c.turn()
		if err != nil {
			c.close(err)
			return
		}
		if sent && wait == 0 {
			select {
			case <-c.stop:
				return
			default:
				continue
			}
		}
		if !c.sleep(timer, sent, wait) {
			return
		}
	}
}

// sleep waits until there may be something to send; false at the end.
func (c *switchConnection) sleep(timer *time.Timer, sent bool, wait time.Duration) bool {
	timer.Reset(wait)
	if sent { // a moment for more to come, whoever wakes us
		select {
		case <-timer.C:
			return true
		case <-c.stop:
			return false
		}
	}
	c.idle.Store(true)
	c.mu.Lock()
	more := c.link.Started() && c.link.Next() < c.s.o.Log.MaxPhyOffset()
	c.mu.Unlock()
	if !more {
		select {
		case <-c.wakeup:
		case <-timer.C:
		case <-c.stop:
			return false
		}
	}
	c.idle.Store(false)
	return true
}

// turn sends what is due: the handshake, a heartbeat, or frames of batchBytes together. sent and wait tell what follows: at
// once again, after a moment for more to gather, or when somebody wakes us, at the latest after wait.
func (c *switchConnection) turn() (sent bool, wait time.Duration, err error) {
	live, log := c.s.o.Live(), c.s.o.Log
	now, end, confirm := c.s.o.Clock.Millis(), log.MaxPhyOffset(), c.s.ConfirmOffset()
	heartbeat := live.HeartbeatInterval.Milliseconds()
	c.mu.Lock()
	what, ok := c.link.Due(now, heartbeat, end, confirm)
	budget := int64(batchBytes)
	if live.MaxBytesInSecond > 0 {
		budget = min(budget, c.flow.left(now, live.MaxBytesInSecond))
	}
	idle := c.link.IdleMillis(now, heartbeat)
	c.mu.Unlock()
	defer c.out.reset()
	n, frame := 0, live.frameBytes(int64(end-what.From))
	switch {
	case !ok:
		return false, time.Duration(idle) * time.Millisecond, nil
	case what.Handshake:
		return c.handshake(now, end)
	case what.Heartbeat:
		c.out.wrote(c.link.AppendHead(c.out.space(), what.From, 0, confirm))
	case budget <= 0:
		return true, time.Duration(1000-now%1000) * time.Millisecond, nil
	default:
		if n = c.gather(what.From, int(budget), frame, confirm); n == 0 {
			if what.From < log.MinPhyOffset() {
				return false, 0, errLeftBehind
			}
			return true, holeWait, nil // the file is deleted this moment, or lost
		}
	}
	c.mu.Lock()
	c.link.Sent(n, confirm, now) // before it is written: the answer may be faster than we are
	c.flow.count(now, n)
	c.mu.Unlock()
	if err := c.out.write(); err != nil {
		return false, 0, err
	}
	if n < frame && !c.s.waits(live) && !what.Heartbeat { // nobody waits for the copies
		return true, gatherTime, nil
	}
	return true, 0, nil
}

// handshake tells the slave the epochs.
func (c *switchConnection) handshake(nowMillis int64, end store.PhyOffset) (sent bool, wait time.Duration, err error) {
	c.mu.Lock()
	frame := c.link.Handshake(nowMillis, end)
	c.mu.Unlock()
	c.out.wrote(frame)
	return true, 0, c.out.write()
}

// gather takes frames from an offset on. The link's epochs may be asked without its lock.
func (c *switchConnection) gather(from store.PhyOffset, budget, frame int, confirm store.PhyOffset) (n int) {
	for n < budget && c.out.room() {
		at := from + store.PhyOffset(n)
		seg, ok := c.s.o.Log.ReadLog(at, min(frame, budget-n))
		if !ok {
			break
		}
		seg.Bytes = seg.Bytes[:c.link.Limit(at, len(seg.Bytes))] // an epoch that begins from here on begins behind them
		c.out.wrote(c.link.AppendHead(c.out.space(), at, len(seg.Bytes), confirm))
		c.out.body(seg)
		n += len(seg.Bytes)
	}
	return n
}
