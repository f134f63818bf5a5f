package ha

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

var (
	errSilentSlave = errors.New("ha: the slave has been silent for longer than haHousekeepingInterval")
	errLeftBehind  = errors.New("ha: the log that the slave needs next has been deleted: it has to be copied anew")
)

// holeWait is how long a sender waits at a place of the log that cannot be read.
const holeWait = 100 * time.Millisecond

// slaveTalk is what a master says to one slave, and what it makes of what it hears.
type slaveTalk interface {
	// received takes what the slave says. An error ends the connection.
	received(b []byte) error
	// expired tells that the slave has been silent for too long, or drips single bytes.
	expired(limit time.Duration) bool
	// turn sends what is due. sent and wait tell what follows: at once again, after a moment for more to gather, or when
	// somebody wakes us, at the latest after wait.
	turn() (sent bool, wait time.Duration, err error)
	// more tells that the log has more than was sent.
	more() bool
	// close ends the connection, once.
	close(why error)
}

// masterShell is a master's connection with one slave, whatever they say to each other: a goroutine reads what the slave
// says, another one pushes the log. The bytes go from the files of the log to the socket by sendfile, or in one writev from
// their mappings, never through the heap.
type masterShell struct {
	conn net.Conn
	out  pen
	live func() *Live
	talk slaveTalk

	idle   atomic.Bool
	wakeup chan struct{}
	stop   chan struct{}
}

func (c *masterShell) setUp(conn net.Conn, live func() *Live, talk slaveTalk) {
	c.conn, c.live, c.talk = conn, live, talk
	c.wakeup, c.stop = make(chan struct{}, 1), make(chan struct{})
	c.out.conn = conn
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
}

// end is the part of close that is done once.
func (c *masterShell) end() {
	close(c.stop)
	_ = c.conn.Close()
}

// wake tells the pushing goroutine that there is more. One atomic load while it is awake.
func (c *masterShell) wake() {
	if c.idle.Load() && c.idle.CompareAndSwap(true, false) {
		c.wakeNow()
	}
}

func (c *masterShell) wakeNow() {
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// refuse tells the slave why the connection ends, if it listens.
func (c *masterShell) refuse(frame []byte) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.conn.Write(frame)
}

// readReports takes what the slave says until the connection ends.
func (c *masterShell) readReports() {
	buf := make([]byte, 4<<10)
	for {
		limit := c.live().HousekeepingInterval
		if err := c.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			c.talk.close(err)
			return
		}
		n, err := c.conn.Read(buf)
		if n > 0 {
			if err := c.talk.received(buf[:n]); err != nil {
				c.talk.close(err)
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) || err == nil && c.talk.expired(limit) {
			err = errSilentSlave
		}
		if err != nil {
			c.talk.close(err)
			return
		}
	}
}

// push sends the log and heartbeats until the connection ends.
func (c *masterShell) push() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		sent, wait, err := c.talk.turn()
		if err != nil {
			c.talk.close(err)
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
func (c *masterShell) sleep(timer *time.Timer, sent bool, wait time.Duration) bool {
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
	if !c.talk.more() {
		timer.Reset(wait)
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

// budgetNow is how many bytes may be sent in one turn. The caller holds the lock of flow.
func (l *Live) budgetNow(flow *flowBudget, nowMillis int64) int64 {
	if l.MaxBytesInSecond > 0 {
		return min(batchBytes, flow.left(nowMillis, l.MaxBytesInSecond))
	}
	return batchBytes
}

// nextSecond is how long a sender waits whose budget is spent.
func nextSecond(nowMillis int64) time.Duration {
	return time.Duration(1000-nowMillis%1000) * time.Millisecond
}

// connections are those of a master with its slaves. They are copied on change: who wakes them takes no lock. Changes are
// made under the lock of the service.
type connections[C interface {
	comparable
	wake()
}] struct {
	log MasterLog
	all atomic.Pointer[[]C]
}

// list is not to be changed.
func (t *connections[C]) list() []C {
	if all := t.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (t *connections[C]) add(c C) {
	all := append(slices.Clone(t.list()), c)
	t.all.Store(&all)
	if len(all) == 1 {
		t.log.WatchLog(t.grew)
	}
}

// remove forgets a connection that ended.
func (t *connections[C]) remove(c C) {
	before := t.list()
	all := slices.DeleteFunc(slices.Clone(before), func(x C) bool { return x == c })
	t.all.Store(&all)
	if len(before) > 0 && len(all) == 0 {
		t.log.WatchLog(nil)
	}
}

// grew wakes the senders that sleep.
func (t *connections[C]) grew() {
	for _, c := range t.list() {
		c.wake()
	}
}

// acceptSlaves gives connections to add until the listener is closed.
func acceptSlaves(l net.Listener, log *slog.Logger, add func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				log.Error("no more slaves are accepted", "err", err)
			}
			return
		}
		add(conn)
	}
}
