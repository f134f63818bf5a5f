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

// HAConnection is one slave's connection on the master (Java DefaultHAConnection): a goroutine reads its reports, another
// one pushes the log. The bytes go from the files of the log to the socket by sendfile, or in one writev from their
// mappings, never through the heap.
type HAConnection struct {
	s    *HAService
	conn net.Conn
	out  pen

	ack atomic.Int64 // up to where the slave has the log; -1 before its first report

	mu     sync.Mutex
	link   masterLink
	flow   flowBudget
	closed bool

	idle   atomic.Bool
	wakeup chan struct{}
	stop   chan struct{}
}

func newHAConnection(s *HAService, conn net.Conn) *HAConnection {
	c := &HAConnection{s: s, conn: conn, wakeup: make(chan struct{}, 1), stop: make(chan struct{})}
	c.ack.Store(-1)
	c.link = newMasterLink(s.o.Clock.Millis())
	c.out.conn = conn
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
	return c
}

// wake tells the pushing goroutine that there is more. One atomic load while it is awake.
func (c *HAConnection) wake() {
	if c.idle.Load() && c.idle.CompareAndSwap(true, false) {
		select {
		case c.wakeup <- struct{}{}:
		default:
		}
	}
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
	close(c.stop)
	_ = c.conn.Close()
	if !errors.Is(why, errServiceClosed) {
		c.s.o.Slog.Warn("connection of a slave closed", "remote", c.conn.RemoteAddr(), "phyOffset", c.link.next,
			"err", why)
	}
}

// readReports takes what the slave says until the connection ends.
func (c *HAConnection) readReports() {
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
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.close(errSilentSlave)
			return
		}
		if err != nil {
			c.close(err)
			return
		}
		if c.expired(limit) {
			c.close(errSilentSlave)
			return
		}
	}
}

var errSilentSlave = errors.New("ha: the slave has been silent for longer than haHousekeepingInterval")

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
			_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.conn.Write(appendHeader(nil, refusal)) // the connection ends anyway
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

func (c *HAConnection) wakeNow() {
	c.idle.Store(false)
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// push sends the log and heartbeats until the connection ends.
func (c *HAConnection) push() {
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

var errLeftBehind = errors.New("ha: the log that the slave needs next has been deleted: it has to be copied anew")

// holeWait is how long a sender waits at a place of the log that cannot be read.
const holeWait = 100 * time.Millisecond

// sleep waits until there may be something to send; false at the end.
func (c *HAConnection) sleep(timer *time.Timer, sent bool, wait time.Duration) bool {
	if sent { // a moment for more to come, whoever wakes us
		timer.Reset(wait)
		select {
		case <-timer.C:
			return true
		case <-c.stop:
			return false
		}
	}
	c.idle.Store(true)
	c.mu.Lock()
	more := c.link.started && c.link.next < c.s.o.Log.MaxPhyOffset()
	c.mu.Unlock()
	if more {
		c.idle.Store(false)
		return true
	}
	timer.Reset(wait)
	select {
	case <-c.wakeup:
	case <-timer.C:
	case <-c.stop:
		return false
	}
	c.idle.Store(false)
	return true
}

// turn sends what is due: a heartbeat, or frames of batchBytes together. sent and wait tell what follows: at once again,
// after a moment for more to gather, or when somebody wakes us, at the latest after wait.
func (c *HAConnection) turn() (sent bool, wait time.Duration, err error) {
	live, log := c.s.o.Live(), c.s.o.Log
	now := c.s.o.Clock.Millis()
	heartbeat := live.HeartbeatInterval.Milliseconds()
	c.mu.Lock()
	what, ok := c.link.due(now, heartbeat, log.MaxPhyOffset())
	budget := int64(batchBytes)
	if live.MaxBytesInSecond > 0 {
		budget = min(budget, c.flow.left(now, live.MaxBytesInSecond))
	}
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
		return true, time.Duration(1000-now%1000) * time.Millisecond, nil
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
