package sim

import (
	"time"

	"skylark/ha"
)

// follower is a slave's side: ha.SwitchFollower and its connection.
type follower struct {
	r       *replication
	id      int64
	core    *ha.SwitchFollower
	to      *Host
	conn    *Conn
	dialing bool
	again   int // connections in a row that were made at once
	over    bool
}

const (
	redialInterval = time.Second
	maxAgain       = 16
)

func newFollower(r *replication, id int64) *follower {
	return &follower{r: r, id: id, core: ha.NewSwitchFollower(r.b.log, r.epochs, r.b.h.log)}
}

// setMaster tells where the master is, nil: unknown. anew also ends a connection to the same host.
func (f *follower) setMaster(to *Host, anew bool) {
	if f.to == to && !anew {
		return
	}
	f.to = to
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
	f.connect()
}

// close ends it.
func (f *follower) close() {
	f.over = true
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

func (f *follower) connect() {
	if f.dialing || f.over || f.to == nil || f.conn != nil {
		return
	}
	f.dialing = true
	to := f.to
	f.r.b.h.Dial(to, portHA, func(c *Conn) {
		f.dialing = false
		switch {
		case c == nil:
			f.later()
		case f.over || to != f.to:
			c.Close()
			f.connect()
		default:
			f.begin(c)
		}
	})
}

func (f *follower) later() {
	f.again = 0
	f.r.b.h.After(redialInterval, f.connect)
}

func (f *follower) begin(c *Conn) {
	f.conn = c
	c.Received = func(v any) {
		if f.conn == c {
			f.received(v.([]byte))
		}
	}
	c.Closed = func() {
		if f.conn == c {
			f.conn = nil
			f.later()
		}
	}
	c.Send(f.core.Begin(f.r.millis(), f.id, false, false, nil))
}

// received takes bytes in pieces that end anywhere.
func (f *follower) received(b []byte) {
	for len(b) > 0 {
		n := 1 + f.r.b.h.w.Rand.IntN(len(b))
		err := f.core.Received(b[:n], f.r.millis())
		b = b[n:]
		if f.r.b.h.image != nil {
			return
		}
		if err != nil {
			f.failed(err)
			return
		}
	}
	f.again = 0
}

func (f *follower) failed(err error) {
	f.r.b.h.w.Tracef("%s: follows no more: %v", f.r.b.h.Name, err)
	f.conn.Close()
	f.conn = nil
	if f.again++; f.core.Again(err) && f.again <= maxAgain {
		f.connect()
		return
	}
	f.later()
}

// work is called after everything that happens.
func (f *follower) work() {
	if f.conn == nil {
		return
	}
	if f.core.Expired(f.r.millis(), housekeepingMillis) {
		f.r.b.h.w.Tracef("%s: the master is silent", f.r.b.h.Name)
		f.conn.Close()
		f.conn = nil
		f.later()
		return
	}
	if report, ok := f.core.Due(f.r.millis(), heartbeatMillis); ok {
		f.conn.Send(report)
	}
	f.r.confirm = f.core.Confirmed()
	f.r.b.log.ConfirmTo(f.r.confirm)
}
