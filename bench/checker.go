package bench

import (
	"fmt"
	"slices"
	"sync"
)

// maxListed is how many messages of each fault a report names.
const maxListed = 20

// Checker compares what a consumer group saw of a run with what was acknowledged. Its methods may be called
// from any goroutine.
type Checker struct {
	run uint64

	mu         sync.Mutex
	seen       map[uint32]*bitmap
	n          int64
	duplicates int64
	foreign    int64 // messages of other runs, or without a stamp
}

// NewChecker makes a checker of one consumer group.
func NewChecker(run uint64) *Checker { return &Checker{run: run, seen: map[uint32]*bitmap{}} }

// Saw notes a message that was received, once more if it comes again.
func (c *Checker) Saw(s Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saw(s)
}

func (c *Checker) saw(s Stamp) {
	if s.Run != c.run {
		c.foreign++
		return
	}
	b := c.seen[s.Producer]
	if b == nil {
		b = &bitmap{}
		c.seen[s.Producer] = b
	}
	if b.set(s.Seq) {
		c.n++
	} else {
		c.duplicates++
	}
}

// SawOther notes a message that has no stamp.
func (c *Checker) SawOther() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.foreign++
}

// complete is Complete for one producer.
func (c *Checker) complete(producer uint32, acked *bitmap) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.seen[producer]
	if b == nil {
		return acked.n == 0
	}
	return b.n >= acked.n && b.covers(acked)
}

// Complete tells whether all acknowledged messages were seen.
func (c *Checker) Complete(a *Acked) bool {
	for producer, b := range a.sets {
		if !c.complete(producer, b) {
			return false
		}
	}
	return true
}

// Verdict is the result of a verification, of all consumer groups together.
type Verdict struct {
	Acked      int64    `json:"acked"`      // messages that were acknowledged, once for each group
	Seen       int64    `json:"seen"`       // different messages of the run that were seen
	Missing    int64    `json:"missing"`    // acknowledged and not seen: lost
	Duplicates int64    `json:"duplicates"` // seen again
	Unacked    int64    `json:"unacked"`    // seen and not acknowledged: their answer was lost, or said something else
	Foreign    int64    `json:"foreign"`    // of other runs
	Listed     []string `json:"listed"`     // the first of the missing ones: producer and sequence number
}

// OK tells that nothing is lost.
func (v *Verdict) OK() bool { return v.Missing == 0 }

// Verify adds what the checker's group is short of to v.
func (c *Checker) Verify(a *Acked, v *Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Seen += c.n
	v.Duplicates += c.duplicates
	v.Foreign += c.foreign
	v.Acked += a.Count()
	both := int64(0)
	var producers []uint32
	for producer := range a.sets {
		producers = append(producers, producer)
	}
	slices.Sort(producers)
	for _, producer := range producers {
		acked, seen := a.sets[producer], c.seen[producer]
		if seen == nil {
			seen = &bitmap{}
		}
		both += acked.n
		acked.without(seen, func(seq uint64) bool {
			v.Missing++
			both--
			if len(v.Listed) < maxListed {
				v.Listed = append(v.Listed, fmt.Sprintf("%d/%d", producer, seq))
			}
			return true
		})
	}
	v.Unacked += c.n - both
}
