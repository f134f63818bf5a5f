package broker

import (
	"sync"
	"time"

	"skylark/internal/clock"
)

// inflight counts answers that wait for something outside the pools: a flush, or a client that was asked. A
// stop waits for them.
type inflight struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n gets 0; nil while nobody waits
}

func (f *inflight) add() {
	f.mu.Lock()
	f.n++
	f.mu.Unlock()
}

func (f *inflight) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.zero != nil {
		close(f.zero)
		f.zero = nil
	}
}

// wait waits until nothing is under way, at most d, and tells whether that is so.
func (f *inflight) wait(ck clock.Clock, d time.Duration) bool {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return true
	}
	if f.zero == nil {
		f.zero = make(chan struct{})
	}
	zero := f.zero
	f.mu.Unlock()
	late := make(chan struct{})
	t := ck.AfterFunc(max(d, 0), func() { close(late) })
	defer t.Stop()
	select {
	case <-zero:
		return true
	case <-late:
		return false
	}
}
