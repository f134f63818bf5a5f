package store

import (
	"sync"
	"time"
)

const (
	// indexGather is how long records gather before they are indexed: a batch costs two goroutine switches and a
	// pwrite however small it is, which at a few thousand messages a second is more than all the rest of a message.
	indexGather = 10 * time.Millisecond
	// indexGatherBytes of dispatched log are indexed at once instead.
	indexGatherBytes = 4 << 20
	// indexQueryWait is how long a query waits for the keys of what was dispatched before it.
	indexQueryWait = time.Second
)

// indexPace decides when the index catches up: indexGather after the first record, or at once when a query asks. So a
// query finds whatever could be consumed when it began, and nobody else pays for that.
type indexPace struct {
	hurry chan struct{} // a query waits

	mu      sync.Mutex
	waiting []indexWaiter
}

// indexWaiter is a query that waits until everything before to is indexed.
type indexWaiter struct {
	to   int64
	done chan struct{}
}

func newIndexPace() indexPace { return indexPace{hurry: make(chan struct{}, 1)} }

// gather waits until it is time to index.
func (x *indexService) gather() {
	p := &x.pace
	if x.behind() >= indexGatherBytes || p.asked() {
		return
	}
	over := make(chan struct{})
	t := x.o.Clock.AfterFunc(indexGather, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
	case <-p.hurry:
	case <-x.stop:
	}
}

// asked tells that queries wait.
func (p *indexPace) asked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 0
}

// reached lets go the queries that wait for what lies before position.
func (p *indexPace) reached(position int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.waiting[:0]
	for _, w := range p.waiting {
		if w.to <= position {
			close(w.done)
		} else {
			rest = append(rest, w)
		}
	}
	clear(p.waiting[len(rest):])
	p.waiting = rest
}

// catchUp waits until what is dispatched now is indexed. It does not wait for a disk that is full, for a backlog of more
// than indexGatherBytes, which a start after a crash leaves, or longer than indexQueryWait.
func (x *indexService) catchUp() {
	to := int64(x.limit())
	if behind := x.behind(); behind == 0 || behind > indexGatherBytes || x.flags.has(flagIndexFileError) {
		return
	}
	w := indexWaiter{to: to, done: make(chan struct{})}
	x.pace.mu.Lock()
	x.pace.waiting = append(x.pace.waiting, w)
	x.pace.mu.Unlock()
	x.wake()
	select {
	case x.pace.hurry <- struct{}{}:
	default:
	}
	if x.position.Load() >= to { // it got there before it could see us
		x.pace.reached(x.position.Load())
		return
	}
	late := make(chan struct{})
	t := x.o.Clock.AfterFunc(indexQueryWait, func() { close(late) })
	defer t.Stop()
	select {
	case <-w.done:
	case <-late:
	case <-x.done:
	}
}
