package store

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// statsSampleInterval is the least distance of two samples; the clean-up service takes them as it comes by.
	statsSampleInterval = 10 * time.Second
	// maxStatsSamples cover the longest rate, 600 s.
	maxStatsSamples = 61
	// latencySlots count puts by their duration: slot 0 is below 1 ms, slot i below 2^i ms.
	latencySlots = 16
)

// putDistribution are the buckets of putMessageDistributeTime: upper bounds in ms.
var putDistribution = []struct {
	below int64
	name  string
}{
	{1, "[<=0ms]"}, {10, "[0~10ms]"}, {50, "[10~50ms]"}, {100, "[50~100ms]"}, {200, "[100~200ms]"},
	{500, "[200~500ms]"}, {1000, "[500ms~1s]"}, {2000, "[1~2s]"}, {3000, "[2~3s]"}, {4000, "[3~4s]"},
	{5000, "[4~5s]"}, {10000, "[5~10s]"}, {1 << 62, "[10s~]"},
}

// storeStats counts what the store did (Java StoreStatsService). Counters of the put path are added to outside the put
// lock, two atomic adds for a put that took less than a millisecond.
type storeStats struct {
	startMillis int64

	putMessages  atomic.Int64
	putBytes     atomic.Int64
	putFailed    atomic.Int64
	putMaxMillis atomic.Int64
	putBuckets   [13]atomic.Int64
	putLatency   [latencySlots]atomic.Int64

	getFound       atomic.Int64 // calls
	getMiss        atomic.Int64
	getTransferred atomic.Int64 // messages

	mu      sync.Mutex
	samples []statsSample // oldest first
}

// statsSample is the state of the rate counters at one time.
type statsSample struct {
	at                            time.Time
	put, found, miss, transferred int64
}

// put counts messages that were stored by one call, which stands for weight calls as slow.
func (s *storeStats) put(messages, sizeBytes int, elapsedMillis, weight int64) {
	s.putMessages.Add(int64(messages))
	s.putBytes.Add(int64(sizeBytes))
	if elapsedMillis <= 0 {
		return
	}
	raise(&s.putMaxMillis, elapsedMillis)
	bucket := 0
	for elapsedMillis >= putDistribution[bucket].below {
		bucket++
	}
	s.putBuckets[bucket].Add(weight)
	s.putLatency[min(bits.Len64(uint64(elapsedMillis)), latencySlots-1)].Add(weight)
}

// failed counts a refused put and passes it on.
func (s *storeStats) failed(r PutResult) PutResult {
	s.putFailed.Add(1)
	return r
}

// got counts one Get. GetCold is none: the caller comes again and may wait then.
func (s *storeStats) got(res *GetResult) {
	switch res.Status {
	case GetCold:
	case GetFound:
		s.getFound.Add(1)
		s.getTransferred.Add(int64(res.Count))
	default:
		s.getMiss.Add(1)
	}
}

// raise makes v at least x.
func raise(v *atomic.Int64, x int64) {
	for {
		old := v.Load()
		if x <= old || v.CompareAndSwap(old, x) {
			return
		}
	}
}

func (s *storeStats) now(at time.Time) statsSample {
	return statsSample{at, s.putMessages.Load(), s.getFound.Load(), s.getMiss.Load(), s.getTransferred.Load()}
}

// sample keeps the counters for the rates.
func (s *storeStats) sample(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.samples); n > 0 && at.Sub(s.samples[n-1].at) < statsSampleInterval {
		return
	}
	if len(s.samples) == maxStatsSamples {
		s.samples = append(s.samples[:0], s.samples[1:]...)
	}
	s.samples = append(s.samples, s.now(at))
}

// rates is "a b c": a counter's growth per second over the last 10, 60 and 600 s, or since the start if that is less.
func (s *storeStats) rates(at time.Time, counter func(statsSample) int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.now(at)
	var b strings.Builder
	for i, window := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
		base := current
		for _, old := range s.samples {
			base = old
			if at.Sub(old.at) <= window+statsSampleInterval/2 {
				break
			}
		}
		rate := 0.0
		if elapsed := at.Sub(base.at).Seconds(); elapsed > 0 {
			rate = float64(counter(current)-counter(base)) / elapsed
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%g", rate)
	}
	return b.String()
}

// latency is the duration that the share p of all puts stayed below, in ms.
func (s *storeStats) latency(p float64) float64 {
	var counts [latencySlots]int64
	total := s.putCalls(&counts)
	rank := int64(p * float64(total))
	seen := int64(0)
	for i, n := range counts {
		if seen += n; seen > rank {
			if i == 0 {
				return 0
			}
			return float64(int64(1) << i)
		}
	}
	return 0
}

// putCalls fills the latency slots. The puts below 1 ms are what is left of all: they are not counted one by one. A batch
// counts as so many messages there, which moves no percentile up.
func (s *storeStats) putCalls(counts *[latencySlots]int64) (total int64) {
	slow := int64(0)
	for i := 1; i < latencySlots; i++ {
		counts[i] = s.putLatency[i].Load()
		slow += counts[i]
	}
	counts[0] = max(s.putMessages.Load()-slow, 0)
	return counts[0] + slow
}

// distribution is the text of putMessageDistributeTime.
func (s *storeStats) distribution() string {
	slow := int64(0)
	var b strings.Builder
	for i := 1; i < len(putDistribution); i++ {
		slow += s.putBuckets[i].Load()
	}
	for i, d := range putDistribution {
		n := s.putBuckets[i].Load()
		if i == 0 {
			n = max(s.putMessages.Load()-slow, 0)
		}
		fmt.Fprintf(&b, "%s:%d ", d.name, n)
	}
	return b.String()
}

// uptime is the text of "runtime".
func (s *storeStats) uptime(nowMillis int64) string {
	seconds := max(nowMillis-s.startMillis, 0) / 1000
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]",
		seconds/86400, seconds/3600%24, seconds/60%60, seconds%60)
}
