package ha

import (
	"errors"
	"net"
	"sync"
	"time"

	"skylark/store"
)

// switchConnection is one slave's connection on a master whose role a controller decided (Java AutoSwitchHAConnection).
type switchConnection struct {
	masterShell
	s *AutoSwitchHAService

	mu         sync.Mutex
	link       *SwitchLink
	flow       flowBudget
	introduced bool
	closed     bool
}

func newSwitchConnection(s *AutoSwitchHAService, conn net.Conn) *switchConnection {
	c := &switchConnection{s: s, link: NewSwitchLink(s.o.Epochs, s.o.Clock.Millis())}
	c.setUp(conn, s.o.Live, c)
	return c
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
	c.end()
	if !errors.Is(why, errServiceClosed) {
		c.s.o.Slog.Warn("connection of a slave closed", "remote", c.conn.RemoteAddr(), "brokerId", id, "phyOffset", next,
			"err", why)
	}
	c.s.remove(c, id)
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
			c.refuse(refusal)
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

func (c *switchConnection) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.Started() && c.link.Next() < c.s.o.Log.MaxPhyOffset()
}

// turn sends what is due: the handshake, a heartbeat, or frames of batchBytes together.
func (c *switchConnection) turn() (sent bool, wait time.Duration, err error) {
	live, log := c.s.o.Live(), c.s.o.Log
	now, end, confirm := c.s.o.Clock.Millis(), log.MaxPhyOffset(), c.s.ConfirmOffset()
	heartbeat := live.HeartbeatInterval.Milliseconds()
	c.mu.Lock()
	what, ok := c.link.Due(now, heartbeat, end, confirm)
	budget := live.budgetNow(&c.flow, now)
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
		return true, nextSecond(now), nil
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
