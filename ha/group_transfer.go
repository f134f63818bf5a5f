package ha

import (
	"slices"
	"sync"
	"time"

	"skylark/internal/clock"
	"skylark/store"
)

// maxWaiting bounds the puts that wait for copies; further ones are answered FLUSH_SLAVE_TIMEOUT at once. 40 bytes each.
const maxWaiting = 65536

// GroupTransferService are the puts that wait for copies (Java GroupTransferService), in the order of their offsets. A
// report of a slave answers everybody at the front who has what he waits for; a single timer answers those whose time is
// over.
//
//	per put     one lock, an append to a list; no goroutine, no timer, no allocation beyond the caller's closure
//	per report  one lock, one look at the first that waits, one callback for each that is answered
type GroupTransferService struct {
	clock clock.Clock
	// confirmed is up to where so many slaves have the log.
	confirmed func(slaves int) store.PhyOffset

	mu      sync.Mutex
	waiting []transferRequest // by end
	mixed   bool              // not all wait for as many slaves
	closed  bool
	timer   clock.Timer // nil when not armed
	timerAt int64       // ms
}

// transferRequest is a put that waits.
type transferRequest struct {
	end      store.PhyOffset
	slaves   int
	deadline int64 // ms
	done     func(store.PutStatus)
}

func newGroupTransferService(c clock.Clock, confirmed func(slaves int) store.PhyOffset) *GroupTransferService {
	return &GroupTransferService{clock: c, confirmed: confirmed}
}

// wait has done called when so many slaves have everything before end, or after timeout. true: they have it already, and
// done is not called. It may be called before wait returns.
func (g *GroupTransferService) wait(end store.PhyOffset, slaves int, timeout time.Duration,
	done func(store.PutStatus)) bool {
	if g.confirmed(slaves) >= end {
		return true
	}
	deadline := g.clock.Millis() + timeout.Milliseconds()
	g.mu.Lock()
	if g.closed || len(g.waiting) >= maxWaiting {
		g.mu.Unlock()
		done(store.FlushSlaveTimeout)
		return false
	}
	r := transferRequest{end, slaves, deadline, done}
	at := len(g.waiting)
	for at > 0 && g.waiting[at-1].end > end {
		at--
	}
	g.mixed = g.mixed || len(g.waiting) > 0 && g.waiting[0].slaves != slaves
	g.waiting = slices.Insert(g.waiting, at, r)
	g.arm(deadline)
	g.mu.Unlock()
	if g.confirmed(slaves) >= end { // a report that came before the request was in the list did not see it
		g.advance()
	}
	return false
}

// advance answers those who have what they wait for.
func (g *GroupTransferService) advance() {
	g.mu.Lock()
	if len(g.waiting) == 0 {
		g.mu.Unlock()
		return
	}
	var ready []func(store.PutStatus)
	if g.mixed {
		g.waiting = slices.DeleteFunc(g.waiting, func(r transferRequest) bool {
			ok := g.confirmed(r.slaves) >= r.end
			if ok {
				ready = append(ready, r.done)
			}
			return ok
		})
		g.mixed = len(g.waiting) > 0
	} else {
		end := g.confirmed(g.waiting[0].slaves)
		n := 0
		for n < len(g.waiting) && g.waiting[n].end <= end {
			ready = append(ready, g.waiting[n].done)
			n++
		}
		g.waiting = slices.Delete(g.waiting, 0, n)
	}
	g.mu.Unlock()
	for _, done := range ready {
		done(store.PutOK)
	}
}

// arm makes the timer fire at deadline or earlier. The caller holds mu.
func (g *GroupTransferService) arm(deadline int64) {
	if g.timer != nil {
		if g.timerAt <= deadline {
			return
		}
		g.timer.Stop()
	}
	g.timerAt = deadline
	g.timer = g.clock.AfterFunc(time.Duration(max(deadline-g.clock.Millis(), 0))*time.Millisecond, g.expire)
}

// expire answers those whose time is over.
func (g *GroupTransferService) expire() {
	now := g.clock.Millis()
	var due []func(store.PutStatus)
	g.mu.Lock()
	g.timer = nil
	next := int64(0)
	g.waiting = slices.DeleteFunc(g.waiting, func(r transferRequest) bool {
		if r.deadline <= now {
			due = append(due, r.done)
			return true
		}
		if next == 0 || r.deadline < next {
			next = r.deadline
		}
		return false
	})
	if next != 0 && !g.closed {
		g.arm(next)
	}
	g.mu.Unlock()
	for _, done := range due {
		done(store.FlushSlaveTimeout)
	}
}

// Waiting is the number of puts that wait.
func (g *GroupTransferService) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// close answers everybody; what is stored stays stored, and nobody knows how many have it.
func (g *GroupTransferService) close() {
	g.mu.Lock()
	g.closed = true
	late := g.waiting
	g.waiting = nil
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	g.mu.Unlock()
	for _, r := range late {
		r.done(store.FlushSlaveTimeout)
	}
}
