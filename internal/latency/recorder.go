package latency

import (
	"runtime"
	"sync/atomic"
	"time"

	"skylark/internal/clock"
)

const (
	sampleBits = 4
	// SampleEvery: one turn in so many reads the clock at every change of stage.
	SampleEvery = 1 << sampleBits
	// hotFor is how long all turns are traced in full after a slow one.
	hotFor = int64(time.Minute)
	// wallFor is how long the distance of wall and monotonic clock is taken for unchanged.
	wallFor = int64(100 * time.Millisecond)
	// maxShards bounds the memory: a shard has 63 KiB.
	maxShards = 16
)

// shard is the counters of whoever got it.
type shard struct {
	total  [NumClasses]counters
	stages [NumClasses][NumStages]counters
}

// Recorder has the histograms of a broker and its slow requests. A nil Recorder records nothing.
type Recorder struct {
	now    func() int64 // monotonic, ns, never 0
	clock  clock.Clock
	shards []shard
	given  atomic.Uint32

	// slowAfter is the threshold, ns; 0 = nothing is slow.
	slowAfter atomic.Int64
	hotUntil  atomic.Int64
	slow      [NumClasses]atomic.Int64
	notTaken  atomic.Int64 // slow requests for which queue had no room
	queue     chan SlowRequest

	wallOffset, wallUntil atomic.Int64
}

// NewRecorder makes a recorder; slowAfter 0 switches the trace of slow requests off.
func NewRecorder(ck clock.Clock, slowAfter time.Duration) *Recorder {
	r := &Recorder{clock: ck, shards: make([]shard, min(runtime.GOMAXPROCS(0), maxShards)),
		queue: make(chan SlowRequest, maxQueuedSlow)}
	base := ck.Now()
	if ck == clock.System {
		r.now = func() int64 { return int64(time.Since(base)) + 1 } // half the price of Now().Sub
	} else {
		r.now = func() int64 { return int64(ck.Now().Sub(base)) + 1 }
	}
	r.wallUntil.Store(-1)
	r.SetSlowAfter(slowAfter)
	return r
}

// SetSlowAfter changes the threshold from which a request is slow; 0 = none is.
func (r *Recorder) SetSlowAfter(d time.Duration) { r.slowAfter.Store(int64(max(d, 0))) }

// Now is a monotonic time in ns, to be given to Begin.
func (r *Recorder) Now() int64 {
	if r == nil {
		return 0
	}
	return r.now()
}

// millis is the wall time, ms since 1970, at a monotonic time. A step of the wall clock is seen after wallFor.
func (r *Recorder) millis(now int64) int64 {
	if now >= r.wallUntil.Load() {
		r.wallOffset.Store(r.clock.Now().UnixNano() - now) // before wallUntil: nobody may see the old one as fresh
		r.wallUntil.Store(now + wallFor)
	}
	return (r.wallOffset.Load() + now) / int64(time.Millisecond)
}

// nextShard spreads the spans over the shards. Each begins its count of turns where the one before it did not: spans that
// live for one turn are sampled as often as others.
func (r *Recorder) nextShard() (*shard, uint64) {
	n := r.given.Add(1)
	return &r.shards[int(n)%len(r.shards)], uint64(n)
}

// Observe counts n events of a stage that no span goes through.
func (r *Recorder) Observe(c Class, st Stage, d time.Duration, n int64) {
	if r != nil {
		r.shards[0].stages[c][st].add(int64(d), n)
	}
}

// Snapshot is all histograms at one time, 63 KiB: made when somebody looks.
type Snapshot struct {
	// Total of all requests, by class, from arrival to the written answer.
	Total [NumClasses]Histogram
	// Stages by class. Those measured in sampled turns stand for all.
	Stages [NumClasses][NumStages]Histogram
	// Slow is the number of requests above the threshold.
	Slow [NumClasses]int64
}

// Snapshot copies all counts. They grow from the start of the process.
func (r *Recorder) Snapshot() *Snapshot {
	s := &Snapshot{}
	for i := range r.shards {
		sh := &r.shards[i]
		for c := range NumClasses {
			s.Total[c].merge(&sh.total[c])
			for st := range NumStages {
				s.Stages[c][st].merge(&sh.stages[c][st])
			}
		}
	}
	for c := range s.Slow {
		s.Slow[c] = r.slow[c].Load()
	}
	return s
}

// Sub takes away what an earlier snapshot has counted.
func (s *Snapshot) Sub(earlier *Snapshot) {
	for c := range NumClasses {
		s.Total[c].Sub(&earlier.Total[c])
		for st := range NumStages {
			s.Stages[c][st].Sub(&earlier.Stages[c][st])
		}
		s.Slow[c] -= earlier.Slow[c]
	}
}

// SlowCount is the number of slow requests of all classes.
func (s *Snapshot) SlowCount() (n int64) {
	for _, x := range s.Slow {
		n += x
	}
	return n
}
