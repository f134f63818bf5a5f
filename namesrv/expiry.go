package namesrv

import (
	"sync"
	"time"

	"skylark/internal/clock"
)

// expiry is the one timer of the name server: it goes off when the first broker can have been silent for too
// long, and is not set while none is registered. Java scans every scanNotActiveBrokerInterval; here that is
// the least time between two scans.
type expiry struct {
	clock    clock.Clock
	interval time.Duration
	scan     func(now time.Time) (next time.Time)

	mu      sync.Mutex
	timer   clock.Timer
	at      time.Time // when timer goes off; zero: not set
	last    time.Time // scan
	running sync.WaitGroup
	closed  bool
}

func newExpiry(ck clock.Clock, interval time.Duration, scan func(now time.Time) time.Time) *expiry {
	return &expiry{clock: ck, interval: interval, scan: scan}
}

// arm has a scan done at t or a little later, if none is before.
func (e *expiry) arm(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armLocked(t)
}

// graceAfterDeadline makes a scan find what was due when it was set: a broker expires when it was silent for
// longer than its timeout.
const graceAfterDeadline = time.Millisecond

func (e *expiry) armLocked(t time.Time) {
	t = t.Add(graceAfterDeadline)
	if earliest := e.last.Add(e.interval); !e.last.IsZero() && t.Before(earliest) {
		t = earliest
	}
	if e.closed || !e.at.IsZero() && !t.Before(e.at) {
		return
	}
	if e.timer != nil && e.timer.Stop() {
		e.running.Done()
	}
	e.at = t
	e.running.Add(1)
	e.timer = e.clock.AfterFunc(max(t.Sub(e.clock.Now()), 0), func() { e.run(t) })
}

func (e *expiry) run(t time.Time) {
	defer e.running.Done()
	e.mu.Lock()
	if e.closed || !e.at.Equal(t) { // another one was set meanwhile
		e.mu.Unlock()
		return
	}
	now := e.clock.Now()
	e.at, e.last = time.Time{}, now
	e.mu.Unlock()
	if next := e.scan(now); !next.IsZero() {
		e.arm(next)
	}
}

// close waits for a scan under way.
func (e *expiry) close() {
	e.mu.Lock()
	if !e.closed && e.timer != nil && e.timer.Stop() {
		e.running.Done()
	}
	e.closed = true
	e.mu.Unlock()
	e.running.Wait()
}
