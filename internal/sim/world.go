package sim

import (
	"container/heap"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"
)

// World is one run: time, hosts, network, and what the checkers remember. Nothing in it runs but what Run calls.
type World struct {
	Seed  uint64
	Rand  *rand.Rand
	Hosts []*Host
	Net   *Network
	// Check is told of everything that was promised.
	Check *Checker

	now     time.Duration
	events  eventHeap
	nextSeq uint64
	failure error

	traceTo io.Writer // nil: only the hash
	hash    hash.Hash64
	steps   int
}

// epoch is when runs begin, on the wall clocks of the hosts.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxSteps ends a run that goes round in circles.
const maxSteps = 5_000_000

// NewWorld makes an empty world. traceTo, if it is not nil, gets a line for everything that happens.
func NewWorld(seed uint64, traceTo io.Writer) *World {
	w := &World{Seed: seed, Rand: rand.New(rand.NewPCG(seed, 0x5_1e_a7)), traceTo: traceTo, hash: fnv.New64a()}
	w.Net = &Network{w: w, cut: map[[2]int]bool{}, minDelay: 200 * time.Microsecond, maxDelay: 2 * time.Millisecond}
	w.Check = newChecker(w)
	return w
}

// event happens at a time; of several at one time the one that was asked for first.
type event struct {
	at  time.Duration
	seq uint64
	f   func()
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// Now is how long the run has gone on.
func (w *World) Now() time.Duration { return w.now }

// After has f called once d has passed. The world itself does it: no host has to be up.
func (w *World) After(d time.Duration, f func()) *event {
	w.nextSeq++
	e := &event{at: w.now + max(d, 0), seq: w.nextSeq, f: f}
	heap.Push(&w.events, e)
	return e
}

// Run lets d pass. It ends early when a checker has found something, and returns that.
func (w *World) Run(d time.Duration) error {
	return w.RunUntil(d, func() bool { return false })
}

// RunUntil is Run that ends when cond holds. cond is asked after every event.
func (w *World) RunUntil(d time.Duration, cond func() bool) error {
	end := w.now + d
	for w.failure == nil && len(w.events) > 0 && w.events[0].at <= end && !cond() {
		e := heap.Pop(&w.events).(*event)
		w.now = e.at
		if e.f != nil {
			e.f()
		}
		if w.steps++; w.steps > maxSteps {
			w.Fail("the run goes on for ever: %d events", w.steps)
		}
	}
	if w.failure == nil && !cond() {
		w.now = max(w.now, end)
	}
	return w.failure
}

// Fail ends the run. The first failure counts.
func (w *World) Fail(format string, args ...any) {
	if w.failure != nil {
		return
	}
	w.failure = fmt.Errorf("seed %d, at %v: %w", w.Seed, w.now, fmt.Errorf(format, args...))
	w.Tracef("FAILED: %v", w.failure)
}

// Failed tells whether a checker has found something.
func (w *World) Failed() bool { return w.failure != nil }

// Tracef tells what happens. Equal runs have equal traces.
func (w *World) Tracef(format string, args ...any) {
	line := fmt.Sprintf("%11.6f "+format+"\n", append([]any{w.now.Seconds()}, args...)...)
	_, _ = io.WriteString(w.hash, line) // never fails
	if w.traceTo != nil {
		_, _ = io.WriteString(w.traceTo, line) // a trace that is cut off is seen
	}
}

// TraceSum tells traces apart.
func (w *World) TraceSum() uint64 { return w.hash.Sum64() }

// between draws a time in [from, to).
func (w *World) between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(w.Rand.Int64N(int64(to-from)))
}

// chance is true with a probability.
func (w *World) chance(p float64) bool { return w.Rand.Float64() < p }

// notef is a line in the trace that does not count: logs, which are not made without one.
func (w *World) notef(format string, args ...any) {
	if w.traceTo != nil {
		_, _ = fmt.Fprintf(w.traceTo, "%11.6f   "+format+"\n", append([]any{w.now.Seconds()}, args...)...) // as Tracef
	}
}
