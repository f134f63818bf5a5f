package lock

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec/body"
	"skylark/internal/clock"
)

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(clock.System, MaxLiveTime)
		q := func(ids ...int32) (out []body.MessageQueue) {
			for _, id := range ids {
				out = append(out, body.MessageQueue{BrokerName: "b", QueueID: id, Topic: "T"})
			}
			return out
		}
		require.Equal(t, q(0, 1), m.Lock("g", "a", q(0, 1)))
		require.Equal(t, q(2), m.Lock("g", "b", q(0, 1, 2)), "only what nobody holds")
		require.Equal(t, q(0), m.Lock("other", "b", q(0)), "groups do not disturb each other")
		m.Unlock("g", "b", q(0)) // not the holder
		require.Empty(t, m.Lock("g", "b", q(0)))
		m.Unlock("g", "a", q(0))
		require.Equal(t, q(0), m.Lock("g", "b", q(0)), "a released queue changes hands at once")
		require.True(t, m.AnyHeld("g"))

		time.Sleep(40 * time.Second) // virtual time
		require.Equal(t, q(1), m.Lock("g", "a", q(1)), "renewed")
		time.Sleep(40 * time.Second)
		require.Empty(t, m.Lock("g", "b", q(1)))
		require.Equal(t, q(2), m.Lock("g", "a", q(2)), "expired after 60 s without renewal")
		time.Sleep(61 * time.Second)
		require.False(t, m.AnyHeld("g"))
		m.Sweep()
		require.Empty(t, m.groups)
		require.Zero(t, m.count)
	})
}

func TestLocksAreBounded(t *testing.T) {
	m := New(clock.System, MaxLiveTime)
	q := body.MessageQueue{BrokerName: "b", Topic: "T"}
	require.Len(t, m.Lock("g", "a", []body.MessageQueue{q}), 1)
	m.count = MaxLocks
	other := body.MessageQueue{BrokerName: "b", Topic: "U"}
	require.Equal(t, []body.MessageQueue{q}, m.Lock("g", "a", []body.MessageQueue{q, other}),
		"what is held is renewed")
	m.count = 1
	long := strings.Repeat("x", maxNameBytes+1)
	require.Empty(t, m.Lock("g", "a", []body.MessageQueue{{BrokerName: "b", Topic: long},
		{BrokerName: long, Topic: "U"}}))
	require.Empty(t, m.Lock(long, "a", []body.MessageQueue{other}))
	require.Empty(t, m.Lock("g", long, []body.MessageQueue{other}))
	require.Empty(t, m.Lock("h", "a", nil))
	require.Len(t, m.groups, 1)
	m.Unlock("g", "", []body.MessageQueue{other}) // never held, by nobody
	require.Equal(t, 1, m.count)
	m.DeleteGroup("g")
	require.Zero(t, m.count)
	require.False(t, m.AnyHeld("g"))
}

// One queue has at most one holder, whoever asks at the same time.
func TestOneHolder(t *testing.T) {
	m := New(clock.System, MaxLiveTime)
	var queues []body.MessageQueue
	for id := range int32(64) {
		queues = append(queues, body.MessageQueue{BrokerName: "b", QueueID: id, Topic: "T"})
	}
	holders := make(chan int, 8)
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() { holders <- len(m.Lock("g", fmt.Sprint("c", c), queues)) })
	}
	wg.Wait()
	close(holders)
	sum := 0
	for n := range holders {
		sum += n
	}
	require.Equal(t, len(queues), sum)
}
