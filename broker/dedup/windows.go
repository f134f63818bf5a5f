package dedup

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
)

// MaxTopics bounds the windows; topics beyond it have none.
const MaxTopics = 1 << 16

// Options of all windows.
type Options struct {
	Count    int           // messages that a topic's window holds at most
	Keep     time.Duration // how long it holds them at most
	MaxBytes int64         // of memory, over all topics
	Topics   []string      // that have a window; empty: all but those of the system, retries and dead letters
}

// Windows are those of all topics.
type Windows struct {
	o     Options
	table atomic.Pointer[map[string]*Window]
	mu    sync.Mutex // changes of the table
	free  atomic.Int64
	total int64

	suppressed, early, missed atomic.Int64
	starved                   atomic.Bool // a window could not grow since the last sweep
}

// New makes windows that hold nothing yet.
func New(o Options) *Windows {
	ws := &Windows{o: o, total: o.MaxBytes / entryBytes}
	ws.free.Store(ws.total)
	ws.table.Store(&map[string]*Window{})
	return ws
}

// Of is the window of a topic, nil for one that has none.
func (ws *Windows) Of(topic string) *Window {
	if w, ok := (*ws.table.Load())[topic]; ok {
		return w
	}
	return ws.make(topic)
}

// wanted tells whether a topic has a window. Retries and dead letters have none: a consumer sends the same message there,
// under the same id, each time it fails.
func (ws *Windows) wanted(topic string) bool {
	if codec.IsRetryTopic(topic) || codec.IsDLQTopic(topic) || codec.IsSystemTopic(topic) {
		return false
	}
	return len(ws.o.Topics) == 0 || slices.Contains(ws.o.Topics, topic)
}

func (ws *Windows) make(topic string) *Window {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	table := *ws.table.Load()
	if w, ok := table[topic]; ok || len(table) >= MaxTopics {
		return w
	}
	var w *Window
	if ws.wanted(topic) {
		w = &Window{o: &ws.o, all: ws}
	}
	next := maps.Clone(table)
	next[topic] = w
	ws.table.Store(&next)
	return w
}

// Clear forgets everything: the log is not the one any more in which the messages were. nil has nothing to forget. A send
// that has claimed an id settles it where nobody looks.
func (ws *Windows) Clear() {
	if ws == nil {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.table.Store(&map[string]*Window{})
	ws.free.Store(ws.total)
}

// take takes places for messages of what is free.
func (ws *Windows) take(n int) bool {
	if ws.free.Add(-int64(n)) >= 0 {
		return true
	}
	ws.free.Add(int64(n))
	ws.starved.Store(true)
	return false
}

// Sweep gives back the memory of what is out of its window at a time in ms, and forgets topics for which exists is false.
// When a window could not grow, the largest is halved.
func (ws *Windows) Sweep(now int64, exists func(topic string) bool) {
	starved := ws.starved.Swap(false)
	var largest *Window
	most := 0
	for topic, w := range *ws.table.Load() {
		if !exists(topic) {
			ws.forget(topic)
			continue
		}
		if w == nil {
			continue
		}
		if n := w.sweep(now); n > most {
			most, largest = n, w
		}
	}
	if starved && largest != nil {
		largest.halve()
	}
}

// forget takes a topic's window away.
func (ws *Windows) forget(topic string) {
	ws.mu.Lock()
	table := *ws.table.Load()
	w := table[topic]
	next := maps.Clone(table)
	delete(next, topic)
	ws.table.Store(&next)
	ws.mu.Unlock()
	if w == nil {
		return
	}
	for i := range w.shard {
		sh := &w.shard[i]
		sh.mu.Lock()
		for sh.n > 0 {
			sh.drop()
		}
		w.shrink(sh, 0)
		sh.wake()
		sh.mu.Unlock()
	}
}

// sweep gives back what a quarter would do for, and returns the window's capacity.
func (w *Window) sweep(now int64) (places int) {
	for i := range w.shard {
		sh := &w.shard[i]
		sh.mu.Lock()
		w.expire(sh, now)
		switch {
		case sh.n == 0 && len(sh.ring) > 0:
			w.shrink(sh, 0)
		case len(sh.ring) > firstCap && sh.n < len(sh.ring)/4:
			w.shrink(sh, len(sh.ring)/2)
		}
		places += len(sh.ring)
		sh.mu.Unlock()
	}
	return places
}

// halve makes room for others.
func (w *Window) halve() {
	for i := range w.shard {
		sh := &w.shard[i]
		sh.mu.Lock()
		if to := len(sh.ring) / 2; to >= firstCap {
			for sh.n > to {
				sh.drop()
				w.all.early.Add(1)
			}
			w.shrink(sh, to)
		}
		sh.mu.Unlock()
	}
}

// shrink gives back places; mu of the shard is held.
func (w *Window) shrink(sh *shard, to int) {
	w.all.free.Add(int64(len(sh.ring) - to))
	sh.resize(to)
}

// Stats are counts since the start, and what is remembered now.
type Stats struct {
	Suppressed int64 // sends that were answered with an earlier result
	Early      int64 // messages that were forgotten before their time for lack of memory
	Missed     int64 // messages that were never remembered for lack of memory
	Messages   int64 // that are remembered, of all topics
	Bytes      int64 // of memory that the windows have
	Topics     int

	ByTopic map[string]int64 // Suppressed of each topic that has any
}

// Stats counts.
func (ws *Windows) Stats() Stats {
	s := Stats{Suppressed: ws.suppressed.Load(), Early: ws.early.Load(), Missed: ws.missed.Load(),
		Bytes: (ws.total - ws.free.Load()) * entryBytes, ByTopic: map[string]int64{}}
	for topic, w := range *ws.table.Load() {
		if w == nil {
			continue
		}
		s.Topics++
		if n := w.suppressed.Load(); n > 0 {
			s.ByTopic[topic] = n
		}
		for i := range w.shard {
			sh := &w.shard[i]
			sh.mu.Lock()
			s.Messages += int64(sh.n)
			sh.mu.Unlock()
		}
	}
	return s
}

// RuntimeInfo adds the counts under keys of our own.
func (ws *Windows) RuntimeInfo(into map[string]string) {
	s := ws.Stats()
	for topic, n := range s.ByTopic {
		into["duplicatesSuppressed_"+topic] = strconv.FormatInt(n, 10)
	}
	for key, v := range map[string]int64{"duplicatesSuppressed": s.Suppressed, "duplicateWindowMessages": s.Messages,
		"duplicateWindowBytes": s.Bytes, "duplicateWindowEarly": s.Early, "duplicateWindowMissed": s.Missed} {
		into[key] = strconv.FormatInt(v, 10)
	}
}
