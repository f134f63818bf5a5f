//go:build interop && linux

package failover

import (
	"sync"
	"time"
)

// place is where a message is.
type place struct {
	queue  int32
	offset int64
}

// ack is a send that was answered SEND_OK.
type ack struct {
	key   string
	addr  string // who stored it
	at    place
	start time.Time
	end   time.Time
}

// commit is progress that a broker took.
type commit struct {
	queue int32
	next  int64
	at    time.Time
}

// setback is progress that was gone when a new master was asked.
type setback struct {
	queue    int32
	had, got int64
	lost     time.Duration // how long before the fault the oldest lost commit was
}

// record is everything clients were told, in the order they were.
type record struct {
	mu        sync.Mutex
	acks      map[string][]ack            // by producer: ours, Java's
	unsure    int                         // stored, and answered that a replica or the disk is late
	delivered map[string]map[place]string // by group: the keys
	keys      map[string]map[string]bool  // by group
	again     map[string]int              // by group: deliveries of what it had already had
	changed   []string                    // by group: the key at a place was another one before
	commits   []commit
	setbacks  []setback
	faultAt   time.Time
}

func newRecord() *record {
	r := &record{acks: map[string][]ack{}, delivered: map[string]map[place]string{}, keys: map[string]map[string]bool{},
		again: map[string]int{}}
	for _, g := range []string{goGroup, javaGroup} {
		r.delivered[g], r.keys[g] = map[place]string{}, map[string]bool{}
	}
	return r
}

func (r *record) ack(producer string, a ack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks[producer] = append(r.acks[producer], a)
}

func (r *record) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsure++
}

func (r *record) deliver(group, key string, at place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[group][key] = true
	before, had := r.delivered[group][at]
	if had {
		r.again[group]++
	}
	if had && before != key {
		r.changed = append(r.changed, group+": "+before+" became "+key)
	}
	r.delivered[group][at] = key
}

func (r *record) committed(queue int32, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits = append(r.commits, commit{queue, next, time.Now()})
}

// found compares a new master's word on a queue's progress with what had been committed before the fault.
func (r *record) found(queue int32, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := setback{queue: queue, got: next}
	for _, c := range r.commits {
		if c.queue != queue || c.next <= next {
			continue
		}
		s.had = max(s.had, c.next)
		s.lost = max(s.lost, r.faultAt.Sub(c.at))
	}
	if s.had > 0 {
		r.setbacks = append(r.setbacks, s)
	}
}

func (r *record) fault() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faultAt = time.Now()
}

// count is how many acknowledgements and repeated deliveries there were.
func (r *record) count() (acked, again int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.acks {
		acked += len(a)
	}
	for _, n := range r.again {
		again += n
	}
	return acked, again
}

// since gives a producer's acknowledgements from n on.
func (r *record) since(producer string, n int) []ack {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acks[producer][n:]
}

// gap is the longest time between from and to without an acknowledgement.
func gap(acks []ack, from, to time.Time) time.Duration {
	longest, last := time.Duration(0), from
	for _, a := range acks { // in the order of their ends, nearly
		if a.end.Before(last) || a.end.After(to) {
			continue
		}
		longest, last = max(longest, a.end.Sub(last)), a.end
	}
	return max(longest, to.Sub(last))
}
