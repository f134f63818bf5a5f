package timer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A slave that becomes master delivers what its master had not delivered, and nothing else.
func TestStartAfterFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prepare(t, setup{fs: newFS(t)})
		require.NoError(t, s.Load())
		s.put("a", 2*time.Second)
		s.put("b", 10*time.Second)
		s.put("c", 20*time.Second)
		after(12 * time.Second)
		require.NoError(t, s.Follow(Checkpoint{LastReadTimeMs: time.Now().UnixMilli(), LastTimerLogFlushPos: 156,
			LastTimerQueueOffset: 3}))
		s.put("d", time.Second) // the master has not even taken it in
		after(3 * time.Second)
		require.Empty(t, s.delivered())
		require.NoError(t, s.Start())
		after(time.Second)
		require.Equal(t, []string{"d"}, s.delivered())
		after(8 * time.Second)
		require.Equal(t, []string{"d", "c"}, s.delivered())
		s.stop()
	})
}

// A slave that acted as master leaves what comes next to the master, and goes on where that one was.
func TestFollowWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prepare(t, setup{fs: newFS(t)})
		var paused atomic.Bool
		s.o.Live = func() Live {
			l := DefaultLive()
			l.StopDequeue, l.StopEnqueue = paused.Load(), paused.Load()
			return l
		}
		require.NoError(t, s.Load())
		require.NoError(t, s.Start())
		s.put("a", 2*time.Second)
		s.put("b", 10*time.Second) // in the wheel when the master comes back
		s.put("c", 30*time.Second)
		after(4 * time.Second)
		require.Equal(t, []string{"a"}, s.delivered())
		paused.Store(true)
		s.put("d", 2*time.Second)
		s.put("e", 30*time.Second)
		after(12 * time.Second)
		require.NoError(t, s.Follow(Checkpoint{LastReadTimeMs: time.Now().UnixMilli(), LastTimerQueueOffset: 5}))
		after(time.Second)
		require.Equal(t, []string{"a"}, s.delivered())
		paused.Store(false)
		after(40 * time.Second)
		require.Equal(t, []string{"a", "c", "e"}, s.delivered())
		s.stop()
	})
}
