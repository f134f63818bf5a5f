package hold

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
	"skylark/internal/clock"
)

// TestLine: a line gives out who is asked for and keeps the others in their order, whatever was done to it before.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		var model []entry
		l.due = never
		now, id := int64(0), uint64(0)
		equal := rapid.Bool().Draw(t, "equal waits")
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				now += int64(rapid.IntRange(0, 20).Draw(t, "time"))
				var want []entry
				model = slices.DeleteFunc(model, func(e entry) bool {
					if e.deadline <= now {
						want = append(want, e)
					}
					return e.deadline <= now
				})
				require.Equal(t, want, l.expire(nil, now))
			case 1:
				conn := uint64(rapid.IntRange(0, 2).Draw(t, "conn"))
				model = slices.DeleteFunc(model, func(e entry) bool { return e.conn == conn })
				for _, e := range l.keep(nil, func(e *entry) bool { return e.conn != conn }) {
					require.Equal(t, conn, e.conn)
				}
			default:
				id++
				e := entry{id: id, conn: id % 3, deadline: now + 15}
				if !equal {
					e.deadline = now + int64(rapid.IntRange(0, 30).Draw(t, "wait"))
				}
				l.add(e)
				model = append(model, e)
			}
			require.True(t, slices.Equal(model, l.all()), "%v, want %v", l.all(), model)
			for _, e := range model {
				require.LessOrEqual(t, l.due, e.deadline)
			}
			require.False(t, equal && l.unsorted)
			for _, e := range l.list[:l.head] {
				require.Zero(t, e, "nothing stays behind")
			}
		}
	})
}

// TestManyAreLookedAtLessOften: and still answered soon after their time.
func TestManyAreLookedAtLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		s := New(Options{Clock: clock.System, MaxOffset: func(string, int32) codec.QueueOffset { return 0 },
			Expired: func(waits []Wait) { at = append(at, time.Since(start)) }})
		defer s.Close()
		park := func(n int, wait time.Duration) {
			for i := range n {
				require.True(t, s.Park(Key{"T", int32(i % 8)}, 1, time.Now().Add(wait).UnixMilli(), &waiter{}))
			}
		}
		park(100_000, time.Minute)
		time.Sleep(time.Second)
		park(100, 900*time.Millisecond)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, at, 1)
		require.GreaterOrEqual(t, at[0], 1900*time.Millisecond)
		require.LessOrEqual(t, at[0], 1900*time.Millisecond+maxTick)
	})
}
