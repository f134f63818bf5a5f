package pop

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
)

// pollTick is the resolution of deadlines (Java: 20 ms). No timer runs while nobody waits.
const pollTick = 20 * time.Millisecond

// Waiter is a request that found nothing and waits. Exactly one call of Fire ends it, or Drop.
type Waiter struct {
	Topic, Group string
	QueueID      int32 // -1: any
	Deadline     int64 // ms
	Conn         uint64
	// Interested tells whether a message that arrived may be for the waiter; nil = every one.
	Interested func(tagsCode int64, properties []byte) bool
	// Fire is called when a message may be there, or with expired when the time is up. It must not wait.
	Fire func(expired bool)
}

type pair struct{ topic, group string }

// Polling holds requests until messages arrive (Java PopLongPollingService). Who has the earliest deadline is served
// first. All methods may be called from any goroutine.
type Polling struct {
	clock    clock.Clock
	settings func() Settings

	mu     sync.Mutex
	pairs  map[pair]map[int32][]*Waiter // by queue id, in the order of their deadlines
	topics map[string][]pair            // who waits for messages of a topic, by it and by its retry topics
	n      atomic.Int64
	ticks  bool
	closed bool
}

func (p *Polling) init(ck clock.Clock, settings func() Settings) {
	p.clock, p.settings = ck, settings
	p.pairs, p.topics = map[pair]map[int32][]*Waiter{}, map[string][]pair{}
}

// NewPolling makes a table of its own, for those who wait for messages without taking them.
func NewPolling(ck clock.Clock, settings func() Settings) *Polling {
	p := &Polling{}
	p.init(ck, settings)
	return p
}

// names are the topics whose messages concern a pair.
func (k pair) names() [3]string {
	return [3]string{k.topic, codec.PopRetryTopicV1(k.topic, k.group), codec.PopRetryTopicV2(k.topic, k.group)}
}

// Park keeps w. false: too many wait already, or the service is closed.
func (p *Polling) Park(w *Waiter) bool {
	set := p.settings()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := pair{w.Topic, w.Group}
	list := p.pairs[k][w.QueueID]
	if p.closed || p.n.Load() >= int64(set.MaxPolling) || len(list) > set.PollingSize {
		return false
	}
	if p.pairs[k] == nil {
		p.pairs[k] = map[int32][]*Waiter{}
		for _, name := range k.names() {
			p.topics[name] = append(p.topics[name], k)
		}
	}
	at, _ := slices.BinarySearchFunc(list, w.Deadline+1, func(o *Waiter, d int64) int { return int(o.Deadline - d) })
	p.pairs[k][w.QueueID] = slices.Insert(list, at, w)
	p.n.Add(1)
	if !p.ticks {
		p.ticks = true
		p.clock.AfterFunc(pollTick, p.tick)
	}
	return true
}

// removeAt takes a waiter out. Called with mu.
func (p *Polling) removeAt(k pair, queueID int32, i int) *Waiter {
	list := p.pairs[k][queueID]
	w := list[i]
	list = slices.Delete(list, i, i+1)
	p.pairs[k][queueID] = list
	p.n.Add(-1)
	if len(list) > 0 {
		return w
	}
	delete(p.pairs[k], queueID)
	if len(p.pairs[k]) == 0 {
		delete(p.pairs, k)
		for _, name := range k.names() {
			rest := slices.DeleteFunc(p.topics[name], func(o pair) bool { return o == k })
			if p.topics[name] = rest; len(rest) == 0 {
				delete(p.topics, name)
			}
		}
	}
	return w
}

// first takes the first waiter of a queue that match wants. Called with mu.
func (p *Polling) first(k pair, queueID int32, match func(*Waiter) bool) *Waiter {
	for i, w := range p.pairs[k][queueID] {
		if match == nil || w.Interested == nil || match(w) {
			return p.removeAt(k, queueID, i)
		}
	}
	return nil
}

// Arrived wakes, of every group that waits for the topic, who pops from any queue and who pops from this one: one each.
// A message of a retry topic concerns all queues. force wakes whatever the filters say.
func (p *Polling) Arrived(topic string, queueID int32, force bool, tagsCode int64, properties []byte) {
	if p.n.Load() == 0 {
		return
	}
	p.mu.Lock()
	match := func(w *Waiter) bool { return w.Interested(tagsCode, properties) }
	if force {
		match = nil
	}
	var wake []*Waiter
	for _, k := range slices.Clone(p.topics[topic]) {
		if w := p.first(k, -1, match); w != nil {
			wake = append(wake, w)
		}
		if k.topic == topic {
			if w := p.first(k, queueID, match); w != nil && queueID >= 0 {
				wake = append(wake, w)
			}
			continue
		}
		for id := range p.pairs[k] {
			if w := p.first(k, id, match); w != nil {
				wake = append(wake, w)
				break
			}
		}
	}
	p.mu.Unlock()
	for _, w := range wake {
		w.Fire(false)
	}
}

// Notify wakes one waiter of exactly this queue id: what was popped left something.
func (p *Polling) Notify(topic, group string, queueID int32) {
	p.mu.Lock()
	w := p.first(pair{topic, group}, queueID, nil)
	p.mu.Unlock()
	if w != nil {
		w.Fire(false)
	}
}

// Fire wakes w if it still waits.
func (p *Polling) Fire(w *Waiter) {
	p.mu.Lock()
	k := pair{w.Topic, w.Group}
	i := slices.Index(p.pairs[k][w.QueueID], w)
	if i >= 0 {
		p.removeAt(k, w.QueueID, i)
	}
	p.mu.Unlock()
	if i >= 0 {
		w.Fire(false)
	}
}

// Count is how many wait for a queue id of a topic.
func (p *Polling) Count(topic, group string, queueID int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs[pair{topic, group}][queueID])
}

// Len is how many wait in all.
func (p *Polling) Len() int { return int(p.n.Load()) }

// Drop forgets what waits for a connection that is gone.
func (p *Polling) Drop(conn uint64) { p.collect(func(w *Waiter) bool { return w.Conn == conn }) }

// collect takes out what match selects.
func (p *Polling) collect(match func(*Waiter) bool) (out []*Waiter) {
	if p.n.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, byQueue := range p.pairs {
		for id, list := range byQueue {
			for i := len(list) - 1; i >= 0; i-- {
				if match(list[i]) {
					out = append(out, p.removeAt(k, id, i))
					list = p.pairs[k][id]
				}
			}
		}
	}
	return out
}

func (p *Polling) tick() {
	now := p.clock.Millis()
	for _, w := range p.collect(func(w *Waiter) bool { return w.Deadline <= now }) {
		w.Fire(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ticks = p.n.Load() > 0; p.ticks {
		p.clock.AfterFunc(pollTick, p.tick)
	}
}

// Close answers everybody and takes nothing more.
func (p *Polling) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, w := range p.collect(func(*Waiter) bool { return true }) {
		w.Fire(true)
	}
}
