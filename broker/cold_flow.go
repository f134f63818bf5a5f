package broker

import (
	"sync"
	"time"

	"skylark/codec"
)

// Limits of pulls that are held because their group reads too much cold data (Java ColdDataPullRequestHoldService).
const (
	coldHoldTime     = 3 * time.Second
	coldHoldInterval = time.Second
	maxColdHolds     = 10000
	coldRemark       = "This consumer group is reading cold data. It has been flow control"
)

// coldHold is the pulls that are held, in the order of their time.
type coldHold struct {
	mu    sync.Mutex
	pulls []coldPull
}

type coldPull struct {
	due int64 // ms
	w   *heldPull
}

// limitCold slows a group down that is over its threshold of cold data and wants more (Java PullMessageProcessor): a push
// consumer is told SYSTEM_BUSY and comes back by itself, a pull consumer is held for some seconds and gets one message.
func (q *pull) limitCold() (outcome pullOutcome, done bool) {
	b := q.b
	if ownGroup(q.group.Name) || !b.cold.Limited(q.group.Name) ||
		!b.store.InColdArea(q.topic.Name, q.h.QueueID, q.h.QueueOffset) {
		return 0, false
	}
	if cg := b.consumers.Get(q.group.Name); cg != nil && cg.Pushes() {
		q.refuse(codec.RespSystemBusy, coldRemark, 0)
		return pullAnswered, true
	}
	if !q.afterCold && !q.oneway {
		if b.coldHold.add(q) {
			return pullParked, true
		}
		q.refuse(codec.RespSystemBusy, coldRemark, 0)
		return pullAnswered, true
	}
	q.h.MaxMsgNums = 1
	return 0, false
}

// ownGroup tells groups that are never limited (Java MixAll.isSysConsumerGroupPullMessage).
func ownGroup(name string) bool { return codec.IsPredefinedGroup(name) || codec.IsSystemGroup(name) }

func (c *coldHold) add(q *pull) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pulls) >= maxColdHolds {
		return false
	}
	w := q.keep()
	w.cold = true
	c.pulls = append(c.pulls, coldPull{due: q.b.clock.Millis() + coldHoldTime.Milliseconds(), w: w})
	return true
}

// take removes those whose time has come.
func (c *coldHold) take(now int64) []coldPull {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.pulls) && c.pulls[n].due <= now {
		n++
	}
	due := append([]coldPull(nil), c.pulls[:n]...)
	c.pulls = append(c.pulls[:0], c.pulls[n:]...)
	return due
}

// releaseCold serves the pulls that were held long enough.
func (b *Broker) releaseCold() {
	for _, p := range b.coldHold.take(b.clock.Millis()) {
		w := p.w
		if !b.readers.submit(func() { w.serve(true) }) {
			w.serve(false)
		}
	}
}
