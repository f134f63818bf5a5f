package transaction

import (
	"slices"
	"sync"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/persist"
)

// maxTopics bounds the topics that open half messages are counted for.
const maxTopics = 1 << 16

// floorStep is how far the floor moves before it is written for its own sake: what a start searches at most because
// nothing was settled for long.
const floorStep = 64 << 20

// countFile is config/transactionMetrics (Java TransactionMetrics). OpFloor is ours; Java drops it.
type countFile struct {
	DataVersion      body.DataVersion       `json:"dataVersion"`
	TransactionCount map[string]*topicCount `json:"transactionCount"`
	OpFloor          int64                  `json:"opFloor"`
	// Resumed are given-up messages that were brought back, the last MaxGivenUp: physical offsets. Ours.
	Resumed []int64 `json:"resumed"`
}

// topicCount is how many half messages of a topic are open (Java TransactionMetrics.Metric).
type topicCount struct {
	Count     int64 `json:"count"`
	TimeStamp int64 `json:"timeStamp"` // ms, of the last change
}

// metrics counts open half messages by topic.
type metrics struct {
	o    *Options
	wake func()

	mu    sync.Mutex
	file  countFile
	dirty bool
	saved time.Time
}

func (c *metrics) init(o *Options, wake func()) {
	c.o, c.wake = o, wake
	c.file.TransactionCount = map[string]*topicCount{}
}

func (c *metrics) load() error {
	var f countFile
	if _, err := persist.Load(c.o.FS, c.o.File, &f, c.o.Log); err != nil {
		return err
	}
	if f.TransactionCount == nil {
		f.TransactionCount = map[string]*topicCount{}
	}
	c.file = f
	return nil
}

// add counts for a topic.
func (c *metrics) add(topic string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.file.TransactionCount[topic]
	if t == nil {
		if len(c.file.TransactionCount) >= maxTopics {
			return
		}
		t = &topicCount{}
		c.file.TransactionCount[topic] = t
	}
	t.Count += n
	t.TimeStamp = c.o.Clock.Millis()
	if !c.dirty {
		c.dirty = true
		c.wake()
	}
}

// correct replaces the counts by those of the table: after a crash the file is behind.
func (c *metrics) correct(counts map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, t := range c.file.TransactionCount {
		if n := counts[topic]; n != t.Count {
			t.Count, c.dirty = n, true
		}
	}
	for topic, n := range counts {
		if c.file.TransactionCount[topic] == nil && len(c.file.TransactionCount) < maxTopics {
			c.file.TransactionCount[topic] = &topicCount{Count: n, TimeStamp: c.o.Clock.Millis()}
			c.dirty = true
		}
	}
}

// counts are the open half messages by topic.
func (c *metrics) counts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]int64, len(c.file.TransactionCount))
	for topic, t := range c.file.TransactionCount {
		out[topic] = t.Count
	}
	return out
}

func (c *metrics) floor() codec.PhyOffset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return codec.PhyOffset(c.file.OpFloor)
}

// moveFloor has the file written when the floor has moved far.
func (c *metrics) moveFloor(floor codec.PhyOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty && int64(floor)-c.file.OpFloor >= floorStep {
		c.dirty = true
		c.wake()
	}
}

// saveSome writes the file if it is time, and tells when to come again.
func (c *metrics) saveSome(floor codec.PhyOffset) (time.Duration, error) {
	c.mu.Lock()
	dirty, waited := c.dirty, c.o.Clock.Now().Sub(c.saved)
	c.mu.Unlock()
	interval := c.o.Settings().MetricsInterval
	switch {
	case !dirty:
		return idleSleep, nil
	case waited < interval:
		return interval - waited, nil
	}
	return interval, c.save(floor)
}

// save writes the file unless nothing changed.
func (c *metrics) save(floor codec.PhyOffset) error {
	c.mu.Lock()
	if !c.dirty && c.file.OpFloor == int64(floor) {
		c.mu.Unlock()
		return nil
	}
	c.dirty, c.saved = false, c.o.Clock.Now()
	c.file.OpFloor = int64(floor)
	c.file.DataVersion = c.file.DataVersion.Next(c.o.Clock.Millis(), c.file.DataVersion.StateVersion)
	f := c.file
	f.TransactionCount = make(map[string]*topicCount, len(c.file.TransactionCount))
	for topic, t := range c.file.TransactionCount {
		one := *t
		f.TransactionCount[topic] = &one
	}
	c.mu.Unlock()
	err := persist.Save(c.o.FS, c.o.File, &f)
	if err != nil {
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
	}
	return err
}

// resume notes in the file that a given-up message is brought back, false when it has been before.
func (c *metrics) resume(p codec.PhyOffset, floor codec.PhyOffset) (bool, error) {
	c.mu.Lock()
	if slices.Contains(c.file.Resumed, int64(p)) {
		c.mu.Unlock()
		return false, nil
	}
	list := append(slices.Clone(c.file.Resumed), int64(p))
	c.file.Resumed = list[max(len(list)-MaxGivenUp, 0):]
	c.dirty = true
	c.mu.Unlock()
	return true, c.save(floor)
}

// notResumed takes resume back.
func (c *metrics) notResumed(p codec.PhyOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.file.Resumed = slices.DeleteFunc(slices.Clone(c.file.Resumed), func(x int64) bool { return x == int64(p) })
	c.dirty = true
	c.wake()
}

func (c *metrics) isResumed(p codec.PhyOffset) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.file.Resumed, int64(p))
}
