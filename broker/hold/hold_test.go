package hold

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/internal/clock"
)

type waiter struct {
	want  codec.QueueOffset
	tags  int64 // 0 = any
	woken atomic.Int32
	ended atomic.Int32
	done  func()
}

func (w *waiter) Want() codec.QueueOffset              { return w.want }
func (w *waiter) Interested(tags int64, _ []byte) bool { return w.tags == 0 || w.tags == tags }
func (w *waiter) Wake() {
	w.woken.Add(1)
	if w.done != nil {
		w.done()
	}
}
func (w *waiter) Expire() { w.ended.Add(1) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newService(maxOffset func(string, int32) codec.QueueOffset) *PullRequestHoldService {
	if maxOffset == nil {
		maxOffset = func(string, int32) codec.QueueOffset { return 0 }
	}
	return New(Options{Clock: clock.System, MaxOffset: maxOffset})
}

func TestWakeByQueueOffsetAndTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := codec.QueueOffset(0)
		s := newService(func(string, int32) codec.QueueOffset { return end })
		defer s.Close()
		any, tagged, later := &waiter{}, &waiter{tags: 7}, &waiter{want: 3}
		deadline := time.Now().Add(time.Minute).UnixMilli()
		for _, w := range []*waiter{any, tagged, later} {
			end = w.want // three messages are in the queue when later comes, and not reported yet
			require.True(t, s.Park(Key{"T", 1}, 1, deadline, w))
		}
		s.Arrived("T", 0, 0, 7, nil) // another queue
		s.Arrived("U", 1, 0, 7, nil) // another topic
		require.Equal(t, 3, s.Parked())
		s.Arrived("T", 1, 0, 5, nil)
		require.Equal(t, []int32{1, 0, 0}, []int32{any.woken.Load(), tagged.woken.Load(), later.woken.Load()})
		s.Arrived("T", 1, 1, 7, nil)
		require.EqualValues(t, 1, tagged.woken.Load())
		s.Arrived("T", 1, 3, 7, nil)
		require.EqualValues(t, 1, later.woken.Load())
		require.Zero(t, s.Parked())
	})
}

// Who waits beyond the end of a queue, or before it, waits for nothing: the queue has changed since it was looked at.
func TestNobodyWaitsElsewhereThanAtTheEnd(t *testing.T) {
	s := newService(func(string, int32) codec.QueueOffset { return 5 })
	defer s.Close()
	f := func(at codec.QueueOffset, woken int32) {
		t.Helper()
		w := &waiter{want: at}
		require.True(t, s.Park(Key{"T", 0}, 1, never, w))
		require.Equal(t, woken, w.woken.Load())
	}
	f(4, 1)
	f(6, 1)
	f(5, 0)
}

func TestDeadlineExpiresOnceAndOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(nil)
		defer s.Close()
		start := time.Now()
		w := &waiter{}
		require.True(t, s.Park(Key{"T", 0}, 1, start.Add(15*time.Second).UnixMilli(), w))
		time.Sleep(14900 * time.Millisecond) // virtual time
		require.Zero(t, w.ended.Load())
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, w.ended.Load())
		s.Arrived("T", 0, 0, 0, nil)
		require.Zero(t, w.woken.Load())
	})
}

// Those whose time is up together are handed over together.
func TestExpiredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches []int
		s := New(Options{Clock: clock.System, MaxOffset: func(string, int32) codec.QueueOffset { return 0 },
			Expired: func(waits []Wait) { batches = append(batches, len(waits)) }})
		soon, late := time.Now().Add(time.Second).UnixMilli(), time.Now().Add(time.Minute).UnixMilli()
		for i := range 10 {
			require.True(t, s.Park(Key{"T", int32(i)}, uint64(i), soon, &waiter{}))
		}
		require.True(t, s.Park(Key{"T", 0}, 1, late, &waiter{}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{10}, batches)
		require.Equal(t, 1, s.Parked())
		s.Close()
		require.Equal(t, []int{10, 1}, batches)
	})
}

func TestDropForgetsAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(nil)
		defer s.Close()
		gone, stays := &waiter{}, &waiter{}
		deadline := time.Now().Add(time.Second).UnixMilli()
		require.True(t, s.Park(Key{"T", 0}, 1, deadline, gone))
		require.True(t, s.Park(Key{"T", 0}, 2, deadline, stays))
		s.Drop(1)
		require.Equal(t, 1, s.Parked())
		s.Arrived("T", 0, 0, 0, nil)
		require.Zero(t, gone.woken.Load()+gone.ended.Load())
		require.EqualValues(t, 1, stays.woken.Load())
	})
}

func TestParkRefusesBeyondItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Clock: clock.System, MaxWaits: 2,
			MaxOffset: func(string, int32) codec.QueueOffset { return 0 }})
		defer s.Close()
		deadline := time.Now().Add(time.Second).UnixMilli()
		require.True(t, s.Park(Key{"T", 0}, 1, deadline, &waiter{}))
		require.True(t, s.Park(Key{"T", 1}, 1, deadline, &waiter{}))
		require.False(t, s.Park(Key{"T", 2}, 1, deadline, &waiter{}))
	})
}

func TestWakeTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(nil)
		defer s.Close()
		deadline := time.Now().Add(time.Second).UnixMilli()
		var of [3]waiter
		for i, k := range []Key{{"T", 0}, {"T", 70}, {"U", 0}} {
			require.True(t, s.Park(k, 1, deadline, &of[i]))
		}
		s.WakeTopic("T")
		require.EqualValues(t, 1, of[0].woken.Load())
		require.EqualValues(t, 1, of[1].woken.Load())
		require.Zero(t, of[2].woken.Load())
		s.WakeQueue(Key{"U", 0})
		require.EqualValues(t, 1, of[2].woken.Load())
		require.Zero(t, s.Parked())
	})
}

// Whoever parks while the service closes is answered by one of the two, never forgotten.
func TestCloseAnswersEverybody(t *testing.T) {
	for range 200 {
		s := newService(nil)
		var waiters [8]waiter
		var refused atomic.Int32
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				if !s.Park(Key{"T", int32(i)}, 1, never, &waiters[i]) {
					refused.Add(1)
				}
			})
		}
		s.Close()
		wg.Wait()
		ended := refused.Load()
		for i := range waiters {
			ended += waiters[i].ended.Load()
		}
		require.EqualValues(t, len(waiters), ended)
		require.Zero(t, s.Parked())
	}
}

// Every message wakes the one who parked for it, however parking and arrival interleave (case B10).
func TestNoLostWakeUp(t *testing.T) {
	var end atomic.Int64
	s := newService(func(string, int32) codec.QueueOffset { return codec.QueueOffset(end.Load()) })
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		var wg sync.WaitGroup
		wg.Add(2)
		w := &waiter{want: codec.QueueOffset(i)}
		woken := make(chan struct{})
		w.done = func() { close(woken) }
		spin := rng.IntN(300)
		go func() {
			defer wg.Done()
			s.Park(Key{"T", 0}, 1, never, w)
		}()
		go func() {
			defer wg.Done()
			for range spin {
				_ = end.Load()
			}
			end.Store(int64(i) + 1) // the queue has grown
			s.Arrived("T", 0, codec.QueueOffset(i), 0, nil)
		}()
		wg.Wait()
		<-woken
		require.EqualValues(t, 1, w.woken.Load())
	}
	require.Zero(t, s.Parked())
}
