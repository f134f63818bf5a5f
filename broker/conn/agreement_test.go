package conn

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Members that disagree are named, at most once a minute, and it is said when they agree again.
func TestConflictsAreSaidSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		said := func() (conflicts, ends int) {
			return strings.Count(m.log.String(), "subscribe differently"), strings.Count(m.log.String(), "the same again")
		}
		m.heartbeat("g", "a", 1, sub(t, "T", "A", 1))
		require.Empty(t, m.Conflicts())
		m.heartbeat("g", "b", 2, sub(t, "T", "A", 2))
		require.Empty(t, m.Conflicts(), "versions do not matter")
		m.heartbeat("g", "b", 2, sub(t, "T", "B", 3))
		require.Equal(t, []Conflict{{"g", "clients a [T TAG A] and b [T TAG B]"}}, m.Conflicts())
		conflicts, _ := said()
		require.Equal(t, 1, conflicts)
		for i := range 59 { // one every second, each another one
			m.heartbeat("g", "b", 2, sub(t, "T", fmt.Sprint("B", i), int64(i+4)))
			time.Sleep(time.Second)
		}
		conflicts, _ = said()
		require.Equal(t, 1, conflicts)
		time.Sleep(time.Second)
		m.heartbeat("g", "a", 1, sub(t, "T", "A", 100))
		conflicts, _ = said()
		require.Equal(t, 2, conflicts, "the latest one, a minute later")
		require.Contains(t, m.log.String(), "B58")
		require.EqualValues(t, 2, m.ConflictCount())
		m.heartbeat("g", "b", 2, sub(t, "T", "A", 101))
		conflicts, ends := said()
		require.Equal(t, []int{2, 1}, []int{conflicts, ends})
		require.Empty(t, m.Conflicts())
	})
}

// The subscriptions of a client count as long as one of its connections is here.
func TestConflictOfAClientWithTwoConnections(t *testing.T) {
	m := newManager(t)
	m.heartbeat("g", "a", 1, sub(t, "T", "A", 1))
	m.heartbeat("g", "b", 2, sub(t, "T", "B", 1))
	m.heartbeat("g", "b", 3, sub(t, "T", "B", 1))
	m.ConnClosed(fakeConn{id: 2}, always)
	require.Len(t, m.Conflicts(), 1)
	require.EqualValues(t, 3, m.Elsewhere("g", "b", 2).ID())
	require.Nil(t, m.Elsewhere("g", "b", 3))
	require.Nil(t, m.Elsewhere("g", "c", 0))
	require.Nil(t, m.Elsewhere("h", "b", 0))
	m.ConnClosed(fakeConn{id: 3}, always)
	require.Empty(t, m.Conflicts())
}

// A member whose client goes on elsewhere is a ghost after GhostBeats heartbeats there and GhostAge without one here;
// a burst of heartbeats does not make one, nor does a slower rhythm.
func TestGhosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		m.heartbeat("g", "a", 1, sub(t, "T", "*", 1))
		for range 10 {
			m.heartbeat("g", "a", 2, sub(t, "T", "*", 1))
		}
		time.Sleep(GhostAge - time.Second)
		m.heartbeat("g", "a", 1, sub(t, "T", "*", 1))
		require.EqualValues(t, 1, m.DoubleCount())
		time.Sleep(GhostAge + time.Second)
		m.take()
		m.heartbeat("g", "a", 2, sub(t, "T", "*", 1))
		m.heartbeat("g", "a", 2, sub(t, "T", "*", 1))
		require.Empty(t, m.take())
		m.heartbeat("g", "a", 2, sub(t, "T", "*", 1))
		require.Equal(t, []string{"ghost 1", "changed g 2"}, m.take())
		require.EqualValues(t, 1, m.GhostCount())
		require.Len(t, m.Get("g").Clients(), 1)
	})
}
