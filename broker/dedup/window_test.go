package dedup

import (
	"fmt"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func small(count int, bytes int64) *Windows {
	return New(Options{Count: count, Keep: time.Minute, MaxBytes: bytes})
}

func at(n int) Found {
	return Found{PhyOffset: codec.PhyOffset(n * 100), End: codec.PhyOffset(n*100 + 100), QueueOffset: codec.QueueOffset(n),
		QueueID: int32(n % 8)}
}

func name(n int) []byte { return fmt.Appendf(nil, "id-%d", n) }

// put claims and stores message n; it has to be fresh.
func put(t testing.TB, w *Window, n int, now int64) {
	t.Helper()
	ticket, _, state := w.Claim(name(n), now)
	require.Equal(t, Fresh, state, n)
	require.True(t, ticket.Valid())
	ticket.Store(at(n), now)
	require.False(t, ticket.Valid())
}

func known(w *Window, n int, now int64) bool {
	ticket, found, state := w.Claim(name(n), now)
	ticket.Drop()
	return state == Known && found == at(n)
}

func TestWindowKnowsTheLast(t *testing.T) {
	const count = 1000
	w := small(count, 1<<20).Of("T")
	for n := range 5000 {
		put(t, w, n, int64(n/100)) // all within the time
	}
	for n := 5000 - count; n < 5000; n++ {
		require.True(t, known(w, n, 50), n)
	}
	for n := range 5000 - count {
		_, _, state := w.Claim(name(n), 50)
		require.NotEqual(t, Known, state, "message %d is %d messages back", n, 5000-n)
		break // a claim counts as a message
	}
}

func TestWindowForgetsByTime(t *testing.T) {
	ws := small(1000, 1<<20)
	w := ws.Of("T")
	put(t, w, 1, 0)
	put(t, w, 2, 30_000)
	require.True(t, known(w, 1, 60_000))
	require.False(t, known(w, 1, 60_001))
	require.True(t, known(w, 2, 60_001))
	ws.Sweep(200_000, func(string) bool { return true })
	require.Zero(t, ws.Stats().Messages)
	require.Zero(t, ws.Stats().Bytes)
}

func TestDroppedClaimIsFreshAgain(t *testing.T) {
	w := small(1000, 1<<20).Of("T")
	ticket, _, _ := w.Claim(name(1), 0)
	_, _, state := w.Claim(name(1), 0)
	require.Equal(t, Pending, state)
	ticket.Drop()
	put(t, w, 1, 0)
	require.True(t, known(w, 1, 0))

	lost, _, _ := w.Claim(name(2), 0) // never settled
	_, _, state = w.Claim(name(2), claimLimit.Milliseconds()-1)
	require.Equal(t, Pending, state)
	put(t, w, 2, claimLimit.Milliseconds())
	lost.Store(at(7), 0) // too late: somebody else's message is there
	require.True(t, known(w, 2, claimLimit.Milliseconds()))

	anew, _, state := w.ClaimAnew(name(2), claimLimit.Milliseconds())
	require.Equal(t, Fresh, state)
	anew.Store(at(3), 0)
	_, found, state := w.Claim(name(2), 0)
	require.Equal(t, Known, state)
	require.Equal(t, at(3), found)
}

// Whatever comes in whatever order, the window says what a plain list says.
func TestWindowAgainstModel(t *testing.T) {
	type entry struct{ id, seq int }
	const count, ids = 50, 300
	r := rand.New(rand.NewPCG(1, 2))
	w := small(count, 1<<20).Of("T")
	var list []entry
	seq := 0
	for range 20_000 {
		n := r.IntN(ids)
		inWindow := false
		for _, e := range list {
			inWindow = inWindow || e.id == n && seq-e.seq < count
		}
		ticket, found, state := w.Claim(name(n), 0)
		if inWindow {
			require.Equal(t, Known, state)
			require.Equal(t, at(n), found)
			continue
		}
		require.Equal(t, Fresh, state)
		seq++
		list = append(list, entry{n, seq})
		if len(list) > 2*count {
			list = list[count:]
		}
		if r.IntN(10) == 0 {
			ticket.Drop()
			list = list[:len(list)-1]
		} else {
			ticket.Store(at(n), 0)
		}
	}
}

// All windows together stay within their memory, and none keeps the others out.
func TestMemoryIsShared(t *testing.T) {
	const messages = 16 * 1024
	ws := small(1<<20, messages*entryBytes)
	big, late := ws.Of("big"), ws.Of("late")
	for n := range 4 * messages {
		put(t, big, n, 0)
	}
	s := ws.Stats()
	require.LessOrEqual(t, s.Bytes, int64(messages*entryBytes))
	require.EqualValues(t, messages, s.Messages)
	require.EqualValues(t, 3*messages, s.Early)
	n := 0
	claim := func() {
		ticket, _, state := late.Claim(name(n), 0)
		require.Equal(t, Fresh, state)
		ticket.Store(at(n), 0)
		n++
	}
	for range 100 {
		claim()
	}
	require.Positive(t, ws.Stats().Missed)
	all := func(string) bool { return true }
	for range 5 { // as the clock does it
		ws.Sweep(0, all)
		for range messages / 4 {
			claim()
		}
	}
	for i := n - messages/4; i < n; i++ {
		require.True(t, known(late, i, 0), i)
	}
	require.LessOrEqual(t, ws.Stats().Bytes, int64(messages*entryBytes))
	ws.Sweep(0, func(topic string) bool { return topic == "late" }) // big was deleted
	require.Equal(t, 1, ws.Stats().Topics)
	ws.Sweep(0, func(string) bool { return false })
	require.Zero(t, ws.Stats().Bytes)
}

func TestTopicsWithoutWindow(t *testing.T) {
	ws := New(Options{Count: 10, Keep: time.Minute, MaxBytes: 1 << 20, Topics: []string{"A"}})
	require.NotNil(t, ws.Of("A"))
	require.Same(t, ws.Of("A"), ws.Of("A"))
	require.Nil(t, ws.Of("B"))
	all := small(10, 1<<20)
	require.NotNil(t, all.Of("B"))
	for _, topic := range []string{"%RETRY%g", "%DLQ%g", codec.ScheduleTopic, codec.HalfTopic, codec.TimerTopic} {
		require.Nil(t, all.Of(topic), topic)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(10, 1<<20).Of("T")
		ticket, _, _ := w.Claim(name(1), 0)
		require.False(t, w.Wait(name(1), time.Second, clock.System))
		var woken atomic.Int32
		for range 3 {
			go func() {
				if w.Wait(name(1), time.Minute, clock.System) {
					woken.Add(1)
				}
			}()
		}
		synctest.Wait()
		require.Zero(t, woken.Load())
		ticket.Store(at(1), 0)
		synctest.Wait()
		require.EqualValues(t, 3, woken.Load())
		require.True(t, w.Wait(name(2), time.Second, clock.System), "nobody has it")
	})
}

// Of many who send one message at once exactly one puts it, and all get its place.
func TestOneOfManyPuts(t *testing.T) {
	w := small(100_000, 1<<24).Of("T")
	var wg sync.WaitGroup
	var puts [500]atomic.Int32
	for range 8 {
		wg.Go(func() {
			for n := range puts {
				for done := false; !done; {
					ticket, found, state := w.Claim(name(n), 0)
					switch state {
					case Fresh:
						puts[n].Add(1)
						ticket.Store(at(n), 0)
						done = true
					case Known:
						done = found == at(n)
					default:
						w.Wait(name(n), time.Second, clock.System)
					}
				}
			}
		})
	}
	wg.Wait()
	for n := range puts {
		require.EqualValues(t, 1, puts[n].Load(), n)
	}
}
