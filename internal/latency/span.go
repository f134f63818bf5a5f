package latency

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Span is the timeline of one turn, unit or woken pull. It belongs to one goroutine at a time and is reused: Begin
// empties it. The zero Span, never begun, takes all calls and does nothing.
type Span struct {
	rec   *Recorder
	shard *shard
	turns uint64 // one in SampleEvery is sampled

	began, last int64
	detail      bool  // the clock is read at every change of stage
	sampled     bool  // because the turn is one of SampleEvery, for which it stands
	class       Class // of the stages: the last request's that is not Other
	cur         Stage
	known       uint16 // stages that were measured, one bit each
	always      uint16 // those of them that are measured in every turn
	code        int32
	depth       int32
	queueID     int32
	topic       string
	counts      [NumClasses]int32
	stages      [NumStages]int64
	watch       *atomic.Uint32 // what it is in, for others to see; nil: nobody looks
}

// spread is 2^64 divided by the golden ratio: multiples are spread evenly.
const spread = 0x9E3779B97F4A7C15

// Begin starts a timeline at the stage Serve. arrived is when the requests came (Recorder.Now), 0 = now; what lies
// between was spent in Queue, depth is how many others waited there. It returns the wall time, ms since 1970. A span that
// waits for others anyway (pooled) is measured in full.
func (s *Span) Begin(r *Recorder, arrived int64, depth int, pooled bool) (millis int64) {
	now := r.now()
	if s.rec != r {
		s.rec = r
		s.shard, s.turns = r.nextShard()
	}
	s.turns++
	s.began, s.last, s.depth = now, now, int32(depth)
	s.cur, s.class, s.code, s.topic = Serve, Other, 0, ""
	s.known, s.always, s.sampled, s.counts = 0, 0, false, [NumClasses]int32{} // stages that are not known are not looked at
	if arrived > 0 && arrived < now {
		s.began = arrived
		s.set(Queue, now-arrived)
		s.always = 1 << Queue
	}
	s.detail = pooled || now < r.hotUntil.Load()
	if !s.detail && s.turns*spread>>(64-sampleBits) == 0 {
		s.detail, s.sampled = true, true
	}
	return r.millis(now)
}

// Began is when the requests came, Recorder.Now.
func (s *Span) Began() int64 { return s.began }

// Watch publishes what stage a pooled span is in: the stage's number + 1, 0 when it is in none.
func (s *Span) Watch(w *atomic.Uint32) { s.watch = w }

func (s *Span) set(st Stage, d int64) {
	if s.known&(1<<st) == 0 {
		s.known |= 1 << st
		s.stages[st] = 0
	}
	s.stages[st] += d
}

// Count adds a request to the timeline.
func (s *Span) Count(c Class, code int) {
	if s.rec == nil {
		return
	}
	s.counts[c]++
	if c != Other || s.class == Other {
		s.class, s.code = c, int32(code)
	}
}

// Uncount takes a request off again: somebody else answers it.
func (s *Span) Uncount(c Class) {
	if s.rec == nil {
		return
	}
	if s.counts[c]--; s.counts[c] == 0 && c == s.class {
		s.class = Other
		for x := range NumClasses {
			if s.counts[x] > 0 {
				s.class = x
			}
		}
	}
}

// About names what the request is about, should it be slow. topic is kept, not copied.
func (s *Span) About(topic string, queueID int32) { s.topic, s.queueID = topic, queueID }

// Enter ends the stage the requests are in and begins another.
func (s *Span) Enter(st Stage) {
	if s.detail {
		s.lapNow()
		if s.watch != nil {
			s.watch.Store(uint32(st) + 1)
		}
	}
	s.cur = st
}

func (s *Span) lapNow() { s.lap(s.rec.now()) }

// Lapped is when the stage before the current one ended, Recorder.Now; 0 if the turn is not measured in full.
func (s *Span) Lapped() int64 {
	if s.detail {
		return s.last
	}
	return 0
}

func (s *Span) lap(now int64) {
	s.set(s.cur, max(now-s.last, 0)) // Waited may have rounded up
	s.last = now
}

// Waited tells that d of the current stage were spent in another one, as whoever waited there measured.
func (s *Span) Waited(st Stage, d time.Duration) {
	if s.rec == nil || d <= 0 {
		return
	}
	s.set(st, int64(d))
	s.always |= 1 << st
	s.last += int64(d)
}

// Detach moves n requests of a class into a timeline of their own, which goes on in stage st while s ends without them.
// It is measured in full from here on.
func (s *Span) Detach(to *Span, c Class, n int, st Stage) {
	if s.rec == nil {
		*to = Span{}
		return
	}
	*to = *s
	to.watch, to.counts = nil, [NumClasses]int32{}
	to.counts[c], to.class = int32(n), c
	s.counts[c] -= int32(n)
	now := s.rec.now()
	if s.detail {
		to.lap(now)
	}
	to.last, to.cur, to.detail = now, st, true
	to.always |= 1<<st | 1<<Write
	if s.counts[c] == 0 && s.class == c {
		s.known = 0 // the stages were theirs
	}
}

// End is called when the answers were written. remote is where the requests came from.
func (s *Span) End(remote netip.AddrPort) {
	r := s.rec
	if r == nil {
		return
	}
	if s.watch != nil {
		s.watch.Store(0)
	}
	now := r.now()
	total := now - s.began
	requests := int32(0)
	for c := range s.counts {
		if n := s.counts[c]; n > 0 {
			s.shard.total[c].add(total, int64(n))
			requests += n
		}
	}
	if requests == 0 {
		return
	}
	if s.detail {
		s.lap(now)
	}
	if n := s.counts[s.class]; n > 0 && s.known != 0 {
		s.record(int64(n))
	}
	if after := r.slowAfter.Load(); after > 0 && total >= after {
		s.tell(remote, total, requests, now)
	}
}

// record counts the stages that were measured.
func (s *Span) record(n int64) {
	for st := range NumStages {
		bit := uint16(1) << st
		if s.known&bit == 0 {
			continue
		}
		weight := n
		if s.sampled && s.always&bit == 0 {
			weight *= SampleEvery
		}
		s.shard.stages[s.class][st].add(s.stages[st], weight)
	}
}
