package latency

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets are log-linear, as HdrHistogram's: durations in units of 128 ns, the first 8 units one by one, then every power
// of two in 8 steps. A bucket is at most 1/8 wide of what it holds. The last one holds everything from 64 s on.
const (
	unitBits = 7
	subBits  = 3
	subs     = 1 << subBits
	// NumBuckets of a Histogram: 1.75 KiB.
	NumBuckets = 224
)

func bucketOf(d int64) int {
	if d < 0 {
		d = 0 // a clock that was set back
	}
	u := uint64(d) >> unitBits
	if u < subs {
		return int(u)
	}
	n := bits.Len64(u)
	return min((n-subBits)<<subBits|int(u>>(n-subBits-1)&(subs-1)), NumBuckets-1)
}

// BucketBound is the upper bound of bucket i, exclusive.
func BucketBound(i int) time.Duration {
	i++
	if i < subs {
		return time.Duration(i) << unitBits
	}
	return time.Duration(subs|i&(subs-1)) << (i>>subBits - 1) << unitBits
}

// counters are a histogram that is being added to.
type counters struct {
	sum     atomic.Int64
	buckets [NumBuckets]atomic.Int64
}

func (c *counters) add(d, n int64) {
	c.sum.Add(d * n)
	c.buckets[bucketOf(d)].Add(n)
}

// Histogram is a copy of the counts at one time. Counts only grow: the difference of two is what happened between.
type Histogram struct {
	// Sum of the durations, ns. Its share of the sampled stages is an estimate.
	Sum     int64
	Buckets [NumBuckets]int64
}

func (h *Histogram) merge(c *counters) {
	h.Sum += c.sum.Load()
	for i := range c.buckets {
		h.Buckets[i] += c.buckets[i].Load()
	}
}

// Sub takes away what an earlier copy has counted.
func (h *Histogram) Sub(earlier *Histogram) {
	h.Sum -= earlier.Sum
	for i := range h.Buckets {
		h.Buckets[i] -= earlier.Buckets[i]
	}
}

// Count is the number of requests.
func (h *Histogram) Count() (n int64) {
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// Quantile is the duration that the share p of the requests stayed below (the upper bound of its bucket); 0 of nothing.
func (h *Histogram) Quantile(p float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := min(int64(p*float64(total)), total-1)
	for i, n := range h.Buckets {
		if rank -= n; rank < 0 {
			return BucketBound(i)
		}
	}
	return BucketBound(NumBuckets - 1)
}

// Max is the upper bound of the longest; 0 of nothing.
func (h *Histogram) Max() time.Duration { return h.Quantile(1) }

// Mean is 0 of nothing.
func (h *Histogram) Mean() time.Duration {
	if n := h.Count(); n > 0 {
		return time.Duration(h.Sum / n)
	}
	return 0
}

// String is "n=.. p50=.. p99=.. p999=.. max=..".
func (h *Histogram) String() string {
	return fmt.Sprintf("n=%d p50=%v p99=%v p999=%v max=%v", h.Count(), short(h.Quantile(0.5)), short(h.Quantile(0.99)),
		short(h.Quantile(0.999)), short(h.Max()))
}

// short rounds to three digits.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d >= time.Microsecond:
		return d.Round(10 * time.Nanosecond)
	}
	return d
}
