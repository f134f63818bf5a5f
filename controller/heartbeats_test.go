package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/controller/replicas"
)

func TestHeartbeats(t *testing.T) {
	start := time.Unix(1000, 0)
	h := newHeartbeats(start)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	hear := func(d time.Duration, id int64, conn uint64, timeout time.Duration) (fresh bool) {
		fresh, ok := h.hear(at(d), brokerKey{"b", id}, beat{live: replicas.Live{ID: id}, conn: conn, timeout: timeout})
		require.True(t, ok)
		return fresh
	}
	look := func(d time.Duration) (live, unknown []int64) {
		all, unknown := h.look(at(d), "b", []int64{1, 2, 3})
		for _, l := range all {
			live = append(live, l.ID)
		}
		return live, unknown
	}
	check := func(d time.Duration, wantLive, wantUnknown []int64) {
		t.Helper()
		live, unknown := look(d)
		require.Equal(t, wantLive, live)
		require.Equal(t, wantUnknown, unknown)
	}
	check(0, nil, []int64{1, 2, 3})
	require.True(t, hear(0, 1, 1, 0))
	require.False(t, hear(time.Second, 1, 1, 0))
	require.True(t, hear(time.Second, 2, 1, 0)) // two brokers in one process
	check(time.Second, []int64{1, 2}, []int64{3})

	h.connClosed(at(time.Second), 1)
	check(2*time.Second, []int64{1, 2}, []int64{3})
	require.False(t, hear(2*time.Second, 2, 2, 0)) // back in time
	require.Empty(t, h.expire(at(2*time.Second)))
	require.Equal(t, []brokerKey{{"b", 1}}, h.expire(at(3*time.Second)))
	check(3*time.Second, []int64{2}, []int64{3}) // 1 was heard of: it is dead and not unknown
	require.True(t, hear(4*time.Second, 1, 3, 0))
	check(startGrace, []int64{1, 2}, nil)
	require.Empty(t, h.expire(at(12*time.Second)))
	check(12*time.Second, []int64{1, 2}, nil)
	check(12*time.Second+1, []int64{1}, nil)
	require.Equal(t, []brokerKey{{"b", 1}, {"b", 2}}, h.expire(at(20*time.Second)))
	require.Empty(t, h.byConn)
	require.Empty(t, h.died)

	require.True(t, hear(30*time.Second, 1, 1, time.Second))
	check(31*time.Second, []int64{1}, nil)
	check(31*time.Second+1, nil, nil)
	require.True(t, hear(32*time.Second, 1, 1, -1), "it was dead, if nobody has looked yet")
	check(42*time.Second, []int64{1}, nil)
	h.connClosed(at(50*time.Second), 77)

	for i := len(h.beats); i < maxBeats; i++ {
		h.beats[brokerKey{fmt.Sprint(i), 1}] = &beat{}
	}
	_, ok := h.hear(at(0), brokerKey{"new", 1}, beat{})
	require.False(t, ok)
	_, ok = h.hear(at(0), brokerKey{"b", 1}, beat{conn: 1})
	require.True(t, ok)
}
