package lock

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/vfs"
)

// table is a RebalanceLockManager with short words.
type table struct{ *RebalanceLockManager }

func newTable() table {
	return table{New(Options{Clock: clock.System, Log: slog.Default(), MaxLive: MaxLiveTime})}
}

// queues are those of topic T.
func queues(ids ...int32) (out []body.MessageQueue) {
	for _, id := range ids {
		out = append(out, body.MessageQueue{BrokerName: "b", QueueID: id, Topic: "T"})
	}
	return out
}

// lock asks by the connection whose number is the first byte of the client's name.
func (m table) lock(group, client string, of []body.MessageQueue) []body.MessageQueue {
	return m.Lock(Request{Group: group, ClientID: client, Conn: uint64(client[0]), Queues: of})
}

func (m table) unlock(group, client string, of []body.MessageQueue) []Notice {
	return m.Unlock(Request{Group: group, ClientID: client, Queues: of})
}

func tell(group string, clients ...string) (out []Notice) {
	for _, c := range clients {
		out = append(out, Notice{group, c})
	}
	return out
}

// nowhere is for clients that have no other connection.
func nowhere(string, string) uint64 { return 0 }

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, q := newTable(), queues
		require.Equal(t, q(0, 1), m.lock("g", "a", q(0, 1)))
		require.Equal(t, q(2), m.lock("g", "b", q(0, 1, 2)), "only what nobody holds")
		require.Equal(t, q(0), m.lock("other", "b", q(0)), "groups do not disturb each other")
		require.Empty(t, m.unlock("g", "b", q(0)), "not the holder")
		require.Empty(t, m.lock("g", "b", q(0)))
		require.Equal(t, "a", m.Owner("g", q(0)[0]))
		m.unlock("g", "a", q(0))
		require.Equal(t, q(0), m.lock("g", "b", q(0)), "a released queue changes hands at once")
		require.True(t, m.AnyHeld("g"))

		time.Sleep(40 * time.Second) // virtual time
		require.Equal(t, q(1), m.lock("g", "a", q(1)), "renewed")
		time.Sleep(40 * time.Second)
		require.Empty(t, m.lock("g", "b", q(1)))
		require.Equal(t, q(2), m.lock("g", "a", q(2)), "expired after 60 s without renewal")
		time.Sleep(61 * time.Second)
		require.False(t, m.AnyHeld("g"))
		require.Empty(t, m.Owner("g", q(0)[0]))
		require.Empty(t, m.Step(), "who asked so long ago does not wait any more")
		m.Sweep()
		require.Empty(t, m.groups)
		require.Empty(t, m.contested)
		require.Zero(t, m.count)
	})
}

// Who was refused is told when the queue is free, whatever made it so.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queues
		f := func(want []Notice, release func(m table) []Notice) {
			t.Helper()
			m := newTable()
			require.Equal(t, q(0, 1, 2), m.lock("g", "a", q(0, 1, 2)))
			require.Empty(t, m.lock("g", "b", q(0, 1)))
			require.Empty(t, m.lock("g", "c", q(1)))
			require.Empty(t, m.lock("g", "c", q(1)), "it asks again")
			_, contested := m.Counts()
			require.Equal(t, 2, contested)
			require.Equal(t, want, release(m))
			_, contested = m.Counts()
			require.Zero(t, contested)
			require.Equal(t, q(0, 1), m.lock("g", "b", q(0, 1)))
		}
		f(tell("g", "b", "c"), func(m table) []Notice { return m.unlock("g", "a", q(0, 1)) })
		f(tell("g", "b", "c"), func(m table) []Notice { return m.ReleaseClient("g", "a") })
		f(tell("g", "b", "c"), func(m table) []Notice { return m.ReleaseConn('a', nowhere) })
		f(nil, func(m table) []Notice { m.DeleteGroup("g"); return nil })
		f(tell("g", "b", "c"), func(m table) []Notice {
			time.Sleep(50 * time.Second)
			require.Empty(t, m.lock("g", "b", q(0, 1)))
			require.Empty(t, m.lock("g", "c", q(1)))
			m.Step()
			time.Sleep(11 * time.Second)
			return m.Step()
		})

		m := newTable()
		m.lock("g", "a", q(0))
		m.lock("g", "b", q(0))
		require.Empty(t, m.ReleaseConn('b', nowhere), "one that waited has gone")
		require.Empty(t, m.unlock("g", "a", q(0)), "and is not told")
		require.Empty(t, m.conns[uint64('b')])

		m.lock("g", "a", q(0))
		m.lock("g", "b", q(0))
		require.Empty(t, m.ReleaseConn('a', func(group, client string) uint64 {
			require.Equal(t, []string{"g", "a"}, []string{group, client})
			return 'x'
		}), "the owner is here by another connection")
		require.Empty(t, m.lock("g", "b", q(0)))
		require.Equal(t, tell("g", "b"), m.ReleaseConn('x', nowhere))
		require.Empty(t, m.groups)
	})
}

// The owner of a queue that others want is told after a second, then less and less often.
func TestOwnersAreReminded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, q := newTable(), queues
		begin := time.Now()
		m.lock("g", "a", q(0, 1))
		m.lock("g", "b", q(0, 1))
		var told []int
		for range 80 {
			if got := m.Step(); len(got) > 0 {
				require.Equal(t, tell("g", "a"), got)
				told = append(told, int(time.Since(begin).Seconds()))
			}
			time.Sleep(time.Second)
			m.lock("g", "a", q(0, 1))
			m.lock("g", "b", q(0))
		}
		require.Equal(t, []int{1, 3, 7, 15, 31, 51, 71}, told)
		// Who does not ask any more does not wait any more.
		time.Sleep(50 * time.Second)
		m.lock("g", "a", q(0, 1))
		time.Sleep(11 * time.Second)
		require.Empty(t, m.Step())
		_, contested := m.Counts()
		require.Zero(t, contested)
	})
}

func TestLocksAreBounded(t *testing.T) {
	m := newTable()
	q := body.MessageQueue{BrokerName: "b", Topic: "T"}
	require.Len(t, m.lock("g", "a", []body.MessageQueue{q}), 1)
	m.count = MaxLocks
	other := body.MessageQueue{BrokerName: "b", Topic: "U"}
	require.Equal(t, []body.MessageQueue{q}, m.lock("g", "a", []body.MessageQueue{q, other}), "what is held is renewed")
	m.count = 1
	long := strings.Repeat("x", maxNameBytes+1)
	require.Empty(t, m.lock("g", "a", []body.MessageQueue{{BrokerName: "b", Topic: long}, {BrokerName: long, Topic: "U"}}))
	require.Empty(t, m.lock(long, "a", []body.MessageQueue{other}))
	require.Empty(t, m.lock("g", long, []body.MessageQueue{other}))
	require.Empty(t, m.lock("h", "a", nil))
	require.Len(t, m.groups, 1)
	m.unlock("g", "", []body.MessageQueue{other}) // never held, by nobody
	require.Equal(t, 1, m.count)
	for i := range 2 * MaxWaiting {
		m.lock("g", fmt.Sprint("w", i), []body.MessageQueue{q})
	}
	require.Len(t, m.groups["g"][q].waiting, MaxWaiting)
	for i := range 2 * MaxGroupsPerConn {
		m.lock(fmt.Sprint("g", i), "z", []body.MessageQueue{q})
		m.unlock(fmt.Sprint("g", i), "z", []body.MessageQueue{q})
	}
	require.Len(t, m.conns[uint64('z')], MaxGroupsPerConn)
	m.ReleaseConn('z', nowhere)
	m.ReleaseConn('a', nowhere)
	require.Empty(t, m.conns)
	require.Zero(t, m.count)
	require.False(t, m.AnyHeld("g"))
}

// One queue has at most one holder, whoever asks at the same time.
func TestOneHolder(t *testing.T) {
	m := newTable()
	var all []body.MessageQueue
	for id := range int32(64) {
		all = append(all, queues(id)...)
	}
	holders := make(chan int, 8)
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() { holders <- len(m.lock("g", fmt.Sprint(c), all)) })
	}
	wg.Wait()
	close(holders)
	sum := 0
	for n := range holders {
		sum += n
	}
	require.Equal(t, len(all), sum)
}

// Owners find their queues again after a restart, for half a minute.
func TestLocksSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, q := vfs.NewMem(), queues
		open := func() table {
			m := New(Options{Clock: clock.System, Log: slog.Default(), MaxLive: MaxLiveTime, FS: fs, File: "queueLocks.json"})
			require.NoError(t, m.Load())
			return table{m}
		}
		m := open()
		require.NoError(t, m.Persist())
		names, err := fs.List(".")
		require.NoError(t, err)
		require.Empty(t, names, "nothing to say, nothing written")
		m.lock("g", "a", q(0, 1))
		m.lock("h", "b", q(0))
		require.NoError(t, m.Persist())
		m.unlock("g", "a", q(1))
		m.lock("g", "b", q(2))
		require.NoError(t, m.Close())
		require.Empty(t, m.ReleaseConn('a', nowhere), "the connections end because the broker does")
		require.NoError(t, m.Persist())

		m = open()
		require.Equal(t, q(1, 2), m.lock("g", "b", q(0, 1, 2)), "its own, and what is free")
		time.Sleep(29 * time.Second)
		require.Equal(t, q(0), m.lock("g", "a", q(0)), "renewed")
		require.Empty(t, m.lock("h", "c", q(0)))
		time.Sleep(2 * time.Second)
		require.Equal(t, append(tell("g", "a"), tell("h", "c")...), m.Step(), "reminded; not renewed")
		require.Equal(t, q(0), m.lock("h", "c", q(0)))
		require.Empty(t, m.lock("g", "b", q(0)))

		require.NoError(t, m.Persist()) // and now a crash
		m = open()
		require.Equal(t, []string{"a", "b", "b", "c"}, []string{m.Owner("g", q(0)[0]), m.Owner("g", q(1)[0]),
			m.Owner("g", q(2)[0]), m.Owner("h", q(0)[0])})
	})
}
