package bench

import (
	"math"
	"sync/atomic"
	"time"
)

// timeline is the clock of a run. Times are nanoseconds since base; they do not jump when the wall clock is
// set.
type timeline struct {
	base        time.Time
	measureFrom atomic.Int64 // end of the warm-up
}

func newTimeline() *timeline {
	t := &timeline{base: time.Now()}
	t.measureFrom.Store(math.MaxInt64)
	return t
}

func (t *timeline) now() int64 { return int64(time.Since(t.base)) }

// begin starts the warm-up and returns when the measured part begins.
func (t *timeline) begin(warmup time.Duration) int64 {
	from := t.now() + int64(warmup)
	t.measureFrom.Store(from)
	return from
}
