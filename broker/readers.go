package broker

import "sync"

// readers are goroutines that may wait for the disk: what an event loop or the reput service must not do.
// They are started when there is work and stay.
type readers struct {
	mu      sync.Mutex
	work    sync.Cond
	queue   []func()
	max     int // goroutines
	limit   int // of the queue
	started int
	idle    int
	closed  bool
	wg      sync.WaitGroup
}

func newReaders(goroutines, limit int) *readers {
	r := &readers{max: goroutines, limit: limit}
	r.work.L = &r.mu
	return r
}

// submit queues f; false when too many wait or the broker stops.
func (r *readers) submit(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.queue) >= r.limit {
		return false
	}
	r.queue = append(r.queue, f)
	if r.idle > 0 {
		r.idle--
		r.work.Signal()
	} else if r.started < r.max {
		r.started++
		r.wg.Add(1)
		go r.run()
	}
	return true
}

func (r *readers) run() {
	defer r.wg.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for len(r.queue) == 0 {
			if r.closed {
				return
			}
			r.idle++ // whoever signals takes it off again
			r.work.Wait()
		}
		f := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.mu.Unlock()
		f()
		r.mu.Lock()
	}
}

// close serves what is queued and ends the goroutines.
func (r *readers) close() {
	r.mu.Lock()
	r.closed = true
	r.work.Broadcast()
	r.mu.Unlock()
	r.wg.Wait()
}
