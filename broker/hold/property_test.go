package hold

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
	"skylark/internal/clock"
)

// world is a broker as far as parked pulls are concerned: queues with an end, topics that come and go. Property: when
// all is quiet nobody waits at another offset than the end of the queue, and nobody waits on a topic that does not
// exist: so whatever is stored wakes who wants it, and nobody waits for what cannot come.
type world struct {
	t      *rapid.T
	s      *PullRequestHoldService
	topics map[string]bool
	end    map[Key]codec.QueueOffset
	parked map[*want]bool
	// between is done once between the miss and the parking of a pull, or between its parking and the second look.
	between func()
}

// want is a parked pull.
type want struct {
	w   *world
	key Key
	at  codec.QueueOffset
}

func (p *want) Want() codec.QueueOffset {
	p.w.interfere()
	return p.at
}
func (p *want) Interested(int64, []byte) bool { return true }
func (p *want) Wake()                         { p.answered() }
func (p *want) Expire()                       { p.answered() }

func (p *want) answered() {
	require.True(p.w.t, p.w.parked[p], "answered twice")
	delete(p.w.parked, p)
}

func (w *world) interfere() {
	if f := w.between; f != nil {
		w.between = nil
		f()
	}
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, topics: map[string]bool{}, end: map[Key]codec.QueueOffset{}, parked: map[*want]bool{}}
	w.s = New(Options{Clock: clock.System, Tick: 1 << 40, MaxOffset: func(topic string, queueID int32) codec.QueueOffset {
		w.interfere()
		return w.end[Key{topic, queueID}]
	}})
	return w
}

func (w *world) key() Key {
	return Key{fmt.Sprint("T", rapid.IntRange(0, 1).Draw(w.t, "topic")), rapid.Int32Range(0, 2).Draw(w.t, "queue")}
}

// pull is served as the broker serves it: it parks when the topic is there and there is nothing at the offset.
func (w *world) pull() {
	k := w.key()
	at := w.end[k]
	if !w.topics[k.Topic] {
		return // answered TOPIC_NOT_EXIST
	}
	p := &want{w, k, at}
	w.parked[p] = true
	if rapid.Bool().Draw(w.t, "interference") {
		w.between = w.change
	}
	require.True(w.t, w.s.Park(k, uint64(rapid.IntRange(1, 3).Draw(w.t, "conn")), 1<<60, p))
	w.between = nil
	if w.parked[p] && !w.topics[k.Topic] { // Broker.mayHold
		w.s.WakeQueue(k)
	}
}

// change is what may happen at any time.
func (w *world) change() {
	k := w.key()
	switch rapid.SampledFrom([]string{"arrive", "arrive", "delete", "reset", "shrink"}).Draw(w.t, "change") {
	case "arrive": // makes the topic and the queue if need be
		w.topics[k.Topic] = true
		w.end[k]++
		w.s.Arrived(k.Topic, k.QueueID, w.end[k]-1, 0, nil)
	case "delete":
		delete(w.topics, k.Topic)
		for q := range w.end {
			if q.Topic == k.Topic {
				delete(w.end, q)
			}
		}
		w.s.WakeTopic(k.Topic)
	case "reset":
		w.s.WakeQueue(k)
	case "shrink":
		w.s.WakeTopic(k.Topic)
	}
}

func (w *world) drop() {
	id := uint64(rapid.IntRange(1, 3).Draw(w.t, "conn"))
	before := w.s.Parked()
	w.s.Drop(id)
	if w.s.Parked() < before { // the connection is gone, its pulls with it
		left := map[*want]bool{}
		for i := range w.s.shard {
			for _, l := range w.s.shard[i].waits {
				for _, e := range l.all() {
					left[e.wait.(*want)] = true
				}
			}
		}
		w.parked = left
	}
}

func (w *world) check() {
	require.Equal(w.t, len(w.parked), w.s.Parked())
	for p := range w.parked {
		require.Equal(w.t, w.end[p.key], p.at, "waits on %v", p.key)
		require.True(w.t, w.topics[p.key.Topic])
	}
}

// No parked pull is left unanswered once there is something for it, whatever happened meanwhile.
func TestNobodyIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		defer func() { w.s.Close(); require.Empty(t, w.parked) }()
		for _, op := range rapid.SliceOfN(rapid.SampledFrom([]string{"pull", "pull", "change", "drop"}), 1, 60).
			Draw(t, "ops") {
			switch op {
			case "pull":
				w.pull()
			case "change":
				w.change()
			case "drop":
				w.drop()
			}
			w.check()
		}
	})
}
