package lock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec/body"
	"skylark/internal/clock"
)

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(clock.System)
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
	})
}
