package ha

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"skylark/store"
)

// HAConnection is one slave's connection on the master (Java DefaultHAConnection): a goroutine reads its reports, another
// one pushes the log, see masterShell.
type HAConnection struct {
	masterShell
	s *HAService

	ack atomic.Int64 // up to where the slave has the log; -1 before its first report

	mu     sync.Mutex
	link   masterLink
	flow   flowBudget
	closed bool
}

func newHAConnection(s *HAService, conn net.Conn) *HAConnection {
	c := &HAConnection{s: s, link: newMasterLink(s.o.Clock.Millis())}
	c.ack.Store(-1)
	c.setUp(conn, s.o.Live, c)
	return c
}

// close ends the connection, once.
func (c *HAConnection) close(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.ack.Store(-1)
	c.s.remove(c)
	c.end()
	if !errors.Is(why, errServiceClosed) {
		c.s.o.Slog.Warn("connection of a slave closed", "remote", c.conn.RemoteAddr(), "phyOffset", c.link.next,
			"err", why)
	}
}

// expired also ends a peer that drips single bytes.
func (c *HAConnection) expired(limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.expired(c.s.o.Clock.Millis(), limit.Milliseconds())
}

// received takes bytes of reports.
func (c *HAConnection) received(b []byte) error {
	log := c.s.o.Log
	c.mu.Lock()
	first := !c.link.started
	acked, err := c.link.received(b, c.s.o.Clock.Millis(),
		logEnds{min: log.MinPhyOffset(), max: log.MaxPhyOffset(), fileBytes: log.LogFileBytes()})
	refusal, refused := c.link.refusal()
	ack, from := c.link.ack, c.link.next
	if err == nil && acked && !c.closed {
		c.ack.Store(int64(ack))
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		if refused {
			c.refuse(appendHeader(nil, refusal))
		}
		return err
	case !acked:
		return nil
	case first:
		c.s.o.Slog.Info("slave begins", "remote", c.conn.RemoteAddr(), "asked", ack, "phyOffset", from)
		c.wakeNow()
	}
	c.s.acked(ack)
	return nil
}

func (c *HAConnection) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.started && c.link.next < c.s.o.Log.MaxPhyOffset()
}

// turn sends what is due: a heartbeat, or frames of batchBytes together.
func (c *HAConnection) turn() (sent bool, wait time.Duration, err error) {
	live, log := c.s.o.Live(), c.s.o.Log
	now := c.s.o.Clock.Millis()
	heartbeat := live.HeartbeatInterval.Milliseconds()
	c.mu.Lock()
	what, ok := c.link.due(now, heartbeat, log.MaxPhyOffset())
	budget := live.budgetNow(&c.flow, now)
	idleFor := heartbeat
	if c.link.started {
		idleFor = c.link.wroteAt + heartbeat - now
	}
	c.mu.Unlock()
	switch {
	case !ok:
		return false, time.Duration(max(idleFor, 1)) * time.Millisecond, nil
	case what.heartbeat:
		c.out.head(header{phyOffset: what.from})
	case budget <= 0:
		return true, nextSecond(now), nil
	}
	defer c.out.reset()
	n := 0
	if !what.heartbeat {
		n = c.gather(what.from, int(budget), live.frameBytes(int64(log.MaxPhyOffset()-what.from)))
		if n == 0 {
			if what.from < log.MinPhyOffset() {
				return false, 0, errLeftBehind
			}
			return true, holeWait, nil // the file is deleted this moment, or lost
		}
	}
	c.mu.Lock()
	c.link.sent(n, now) // before it is written: the answer may be faster than we are
	c.flow.count(now, n)
	c.mu.Unlock()
	if err := c.out.write(); err != nil {
		return false, 0, err
	}
	if n < int(budget) && live.Rule == NoCopies && !what.heartbeat { // that was all, and nobody waits for the copies
		return true, gatherTime, nil
	}
	return true, 0, nil
}

// gather takes frames from an offset on.
func (c *HAConnection) gather(from store.PhyOffset, budget, frame int) (n int) {
	for n < budget && c.out.room() {
		seg, ok := c.s.o.Log.ReadLog(from+store.PhyOffset(n), min(frame, budget-n))
		if !ok {
			break
		}
		c.out.head(header{phyOffset: from + store.PhyOffset(n), size: len(seg.Bytes)})
		c.out.body(seg)
		n += len(seg.Bytes)
	}
	return n
}
