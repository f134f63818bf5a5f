package timer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The next slot in use is found without a look at every step of the way: one that is 2⁶² ms off would take for ever.
func TestNextDoesNotScan(t *testing.T) {
	const far = math.MaxInt64 / 2
	w := newWheel(1000, testSlots)
	require.EqualValues(t, far, w.next(0, far), "an empty wheel")
	require.EqualValues(t, 5, w.next(9, 5), "a limit that is over")
	w.put(1_700_000_000_000, slot{num: 3})
	w.put(1_700_000_123_000, slot{num: 1})
	require.EqualValues(t, 1_700_000_000_000, w.next(0, far))
	require.EqualValues(t, 1_700_000_123_000, w.next(1_700_000_001_000, far))
	require.EqualValues(t, far, w.next(1_700_000_124_000, far))
	require.EqualValues(t, 1_600_000_000_000, w.next(0, 1_600_000_000_000))
	require.EqualValues(t, 4, w.waiting)
	w.clear(1_700_000_000_000)
	w.clear(1_700_000_000_000)
	require.EqualValues(t, 1_700_000_123_000, w.next(0, far))
	w.clear(1_700_000_123_000)
	require.EqualValues(t, far, w.next(0, far))
	require.Zero(t, w.waiting)
}

// Near and far limits find the same slots as a look at each of them, whatever was put and cleared.
func TestNextFindsTheFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w, in := newWheel(1000, 2*slotsPerPage), map[int64]bool{}
	base := 1000 * w.size * w.precision
	for range 2000 {
		at := base + r.Int64N(w.size)*w.precision
		if r.IntN(3) == 0 {
			w.clear(at)
			delete(in, at)
		} else {
			w.put(at, slot{num: 1})
			in[at] = true
		}
		from, limit := base+r.Int64N(w.size)*w.precision, base+r.Int64N(3*w.size)*w.precision
		want := limit
		for at := range in {
			if at >= from {
				want = min(want, at)
			}
		}
		require.Equal(t, want, w.next(from, limit), "from %d to %d", from, limit)
		require.Equal(t, len(in), w.used)
	}
}

// A service that was never started, as a slave's, is at time 0: its status costs nothing either.
func TestStatusBeforeStart(t *testing.T) {
	s := prepare(t, setup{fs: newFS(t)})
	require.NoError(t, s.Load())
	s.mu.Lock()
	s.readTime = math.MinInt64 / 2
	s.mu.Unlock()
	require.Zero(t, s.Status().ReadBehindMillis)
	s.stop()
}
