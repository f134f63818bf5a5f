package bench

import (
	"math/bits"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"skylark/codec"
)

// maxShards is how many shards the connections of a run share: each has a few histograms of 230 KB.
const maxShards = 16

// Histograms hold nanoseconds up to maxLatency in three digits; longer ones count as that.
const maxLatency = 10 * time.Minute

func newHistogram() *hdr.Histogram { return hdr.New(1, int64(maxLatency), 3) }

// record counts one value; a negative one, of a clock that went back between two machines, as 0.
func record(h *hdr.Histogram, v int64) {
	_ = h.RecordValue(min(max(v, 0), int64(maxLatency))) // cannot fail within the bounds
}

// sums are the plain counts of a shard.
type sums struct {
	requests int64 // answered with success
	messages int64 // in them
	bytes    int64
	failed   int64 // messages of requests that failed
}

func (s *sums) add(o sums) {
	s.requests += o.requests
	s.messages += o.messages
	s.bytes += o.bytes
	s.failed += o.failed
}

// shard gathers what several connections measure.
type shard struct {
	mu       sync.Mutex
	total    sums
	latency  *hdr.Histogram // from the time due
	service  *hdr.Histogram // from the time sent; nil in a closed loop, where both are one
	failures map[string]int64
	last     int64 // when the last answer came

	live     coarse // latencies since the last look
	liveSums sums
}

func newShard(open bool) *shard {
	s := &shard{latency: newHistogram(), failures: map[string]int64{}}
	if open {
		s.service = newHistogram()
	}
	return s
}

// reset forgets all that was measured: the warm-up is over. The second that is under way goes on.
func (s *shard) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.last = sums{}, 0
	clear(s.failures)
	s.latency.Reset()
	if s.service != nil {
		s.service.Reset()
	}
}

// sample is one answer: when its message was due and when it was sent.
type sample struct{ due, sent int64 }

// answered counts requests that succeeded at now.
func (s *shard) answered(now int64, samples []sample, n sums) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range samples {
		record(s.latency, now-x.due)
		s.live.add(now - x.due)
		if s.service != nil {
			record(s.service, now-x.sent)
		}
	}
	s.total.add(n)
	s.liveSums.add(n)
	s.last = now
}

// fail counts the messages of requests that failed.
func (s *shard) fail(why string, requests, messages int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[why] += requests
	s.total.failed += messages
	s.liveSums.failed += messages
}

// timedOut counts a request that got no answer: a failure, and a latency of at least that much.
func (s *shard) timedOut(now int64, x sample, messages int64) {
	s.fail(failTimeout, 1, messages)
	s.mu.Lock()
	defer s.mu.Unlock()
	record(s.latency, now-x.due)
	s.live.add(now - x.due)
}

// look takes what came since the last look.
func (s *shard) look(into *coarse) (n sums, failed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	into.merge(&s.live)
	n = s.liveSums
	s.live, s.liveSums = coarse{}, sums{}
	return n, s.total.failed
}

// Reasons of failures that no broker answered.
const (
	failTimeout = "timeout"
	failLost    = "connection lost"
	failUnsent  = "not sent"
	failOpening = "while the connections were opened"
)

// failCode is the reason for an answer's code, in Java's spelling.
func failCode(code int) string {
	return codec.ResponseCodeName(code)
}

// coarse is a histogram for the line of each second: 16 buckets for each doubling, so about 3% off. It is
// cheap to clear and to add up, which an HDR histogram is not.
type coarse struct {
	counts [61 * 16]uint32
	n      int64
	max    int64
}

func coarseIndex(v int64) int {
	if v < 16 {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 5 // v>>e is in [16, 32)
	return e*16 + int(v>>e)
}

// coarseValue is the middle of a bucket.
func coarseValue(i int) int64 {
	if i < 16 {
		return int64(i)
	}
	e := i/16 - 1
	return int64(i-e*16)<<e + int64(1)<<e/2
}

func (c *coarse) add(v int64) {
	c.counts[coarseIndex(v)]++
	c.n++
	c.max = max(c.max, v)
}

func (c *coarse) merge(o *coarse) {
	for i, n := range o.counts {
		c.counts[i] += n
	}
	c.n += o.n
	c.max = max(c.max, o.max)
}

// quantile is the value below which the share q lies, 0 without values.
func (c *coarse) quantile(q float64) int64 {
	rank := int64(q*float64(c.n) + 0.5)
	for i, n := range c.counts {
		if rank -= int64(n); n > 0 && rank <= 0 {
			return min(coarseValue(i), c.max)
		}
	}
	return c.max
}
