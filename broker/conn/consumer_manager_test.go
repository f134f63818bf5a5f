package conn

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
	"skylark/reactor"
)

func TestMembersAreToldOfChangesAmongThem(t *testing.T) {
	m := newManager(t)
	s := sub(t, "T", "*", 1)
	m.heartbeat("g", "a", 1, s)
	require.Equal(t, []string{"changed g 1"}, m.take(), "the first member is told too: it rebalances")
	m.heartbeat("g", "a", 1, s)
	require.Empty(t, m.take(), "a heartbeat without news tells nobody")
	m.heartbeat("g", "b", 2, s)
	require.Equal(t, []string{"changed g 1,2"}, m.take())
	require.Equal(t, []string{"a", "b"}, m.Get("g").IDs())
	m.heartbeat("g", "b", 2, s, sub(t, "U", "*", 1))
	require.Equal(t, []string{"changed g 1,2"}, m.take(), "a topic came")
	m.heartbeat("g", "b", 2, sub(t, "U", "*", 1))
	require.Equal(t, []string{"changed g 1,2"}, m.take(), "a topic went")
	m.heartbeat("g", "b", 2, sub(t, "U", "A", 2))
	require.Empty(t, m.take(), "another expression is no other topic")

	m.Unregister("g", fakeConn{id: 1}, true)
	require.Equal(t, []string{"changed g 2"}, m.take())
	m.Unregister("g", fakeConn{id: 1}, true)
	require.Empty(t, m.take(), "who is no member any more changes nothing")
	m.ConnClosed(fakeConn{id: 2}, always)
	require.Equal(t, []string{"gone g"}, m.take())
	require.Nil(t, m.Get("g"))
	require.Nil(t, m.Lookup([]byte("g")))
	require.Empty(t, m.conns)
	require.Zero(t, m.members)
}

func TestNobodyIsToldWhoDoesNotWantTo(t *testing.T) {
	m := newManager(t)
	register := func(model body.MessageModel, conn uint64, notify bool) {
		_, err := m.Register(Registration{Client: client("c", conn), Group: "g", Model: model,
			Subscription: []*Subscription{sub(t, "T", "*", 1)}}, notify)
		require.NoError(t, err)
	}
	register(body.Broadcasting, 1, true)
	register(body.Broadcasting, 2, true)
	m.ConnClosed(fakeConn{id: 2}, always)
	require.Empty(t, m.take(), "members of a broadcast group do not share queues")
	register(body.Clustering, 3, false)
	require.Empty(t, m.take(), "notifyConsumerIdsChangedEnable is off")
	m.ConnClosed(fakeConn{id: 3}, func(string) bool { return false })
	require.Empty(t, m.take())
}

// One connection carries the groups of one client process; its end takes it out of all.
func TestConnectionOfManyGroups(t *testing.T) {
	m := newManager(t)
	for _, g := range []string{"g1", "g2", "g3"} {
		m.heartbeat(g, "a", 1, sub(t, "T", "*", 1))
	}
	m.heartbeat("g2", "b", 2, sub(t, "T", "*", 1))
	m.take()
	require.Equal(t, []string{"g1", "g2", "g3"}, m.GroupsOf("T"))
	m.Unregister("g3", fakeConn{id: 1}, true)
	require.Equal(t, []string{"gone g3"}, m.take())
	m.ConnClosed(fakeConn{id: 1}, always)
	require.ElementsMatch(t, []string{"gone g1", "changed g2 2"}, m.take())
	require.Equal(t, []string{"g2"}, m.Groups())
}

// B11 (b) to (d): a newer version replaces, an older one never.
func TestSubscriptionVersions(t *testing.T) {
	m := newManager(t)
	version := func() int64 { return m.Get("g").Subscription([]byte("T")).Data.SubVersion }
	m.heartbeat("g", "a", 1, sub(t, "T", "A", 100))
	require.EqualValues(t, 100, version())
	m.heartbeat("g", "a", 1, sub(t, "T", "B", 101))
	require.EqualValues(t, 101, version())
	m.heartbeat("g", "a", 1, sub(t, "T", "C", 100))
	require.EqualValues(t, 101, version())
	require.Equal(t, "B", m.Get("g").Subscription([]byte("T")).Data.SubString)
	m.heartbeat("g", "a", 1, sub(t, "U", "*", 1))
	require.Nil(t, m.Get("g").Subscription([]byte("T")), "a topic that is not named any more is gone")
}

// B11 (e): unequal subscriptions are reported once per change, naming both clients.
func TestConflictIsReportedOncePerChange(t *testing.T) {
	m := newManager(t)
	news := func() int {
		n := strings.Count(m.log.String(), "subscribe differently")
		m.log.Reset()
		return n
	}
	a, b, c := sub(t, "A", "*", 1), sub(t, "B", "x || y", 1), sub(t, "C", "*", 1)
	m.heartbeat("g", "client-a", 1, a)
	require.Empty(t, m.Get("g").Conflict())
	m.heartbeat("g", "client-b", 2, b)
	conflict := m.Get("g").Conflict()
	for _, part := range []string{"client-a", "client-b", "A TAG *", "B TAG x || y"} {
		require.Contains(t, conflict, part)
	}
	require.Contains(t, m.log.String(), "client-a")
	require.Equal(t, 1, news())
	for range 10 { // heartbeats in turn
		m.heartbeat("g", "client-a", 1, a)
		m.heartbeat("g", "client-b", 2, b)
	}
	require.Zero(t, news(), "what has been said is not said again")
	require.Equal(t, conflict, m.Get("g").Conflict())
	m.heartbeat("g", "client-c", 3, c)
	require.Zero(t, news(), "the same two still differ")
	m.ConnClosed(fakeConn{id: 2}, always)
	require.Contains(t, m.Get("g").Conflict(), "client-c")
	m.ConnClosed(fakeConn{id: 3}, always)
	require.Empty(t, m.Get("g").Conflict(), "nobody is left to differ from")
	m.heartbeat("g", "client-a", 1, sub(t, "A", "*", 2))
	require.Empty(t, m.Get("g").Conflict(), "versions alone are no difference")
}

// A rolling change of a subscription: the conflict ends when all have changed.
func TestConflictEndsWithAgreement(t *testing.T) {
	m := newManager(t)
	for i := range uint64(3) {
		m.heartbeat("g", fmt.Sprint("c", i), i, sub(t, "T", "A", 1))
	}
	for i := range uint64(3) {
		m.heartbeat("g", fmt.Sprint("c", i), i, sub(t, "T", "B", 2))
		require.Equal(t, i == 2, m.Get("g").Conflict() == "", i)
	}
	require.Len(t, m.Get("g").spoken, 1)
}

// Heartbeat V2: subscriptions are sent once; the broker asks for them when it does not know them.
func TestHeartbeatV2(t *testing.T) {
	m := newManager(t)
	v2 := func(conn uint64, fingerprint int32, subs ...*Subscription) (resend bool) {
		resend, err := m.Register(Registration{Client: client("c", conn), Group: "g", Model: body.Clustering,
			Subscription: subs, WithoutSub: len(subs) == 0, Fingerprint: fingerprint}, true)
		require.NoError(t, err)
		return resend
	}
	s := sub(t, "T", "*", 1)
	require.True(t, v2(1, 7), "the broker was restarted: it knows nothing")
	require.False(t, v2(1, 7, s))
	require.False(t, v2(1, 7))
	require.NotNil(t, m.Get("g").Subscription([]byte("T")), "a heartbeat without subscriptions keeps them")
	require.True(t, v2(2, 7), "a connection that is not known")
	require.False(t, v2(2, 7, s))
	require.True(t, v2(2, 8, s), "the group's last heartbeat was another one's (Java)")
}

func TestSilentClientsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		m.heartbeat("g", "a", 1, sub(t, "T", "*", 1))
		time.Sleep(100 * time.Second)
		m.heartbeat("g", "b", 2, sub(t, "T", "*", 1))
		time.Sleep(19 * time.Second)
		require.Empty(t, m.Expired())
		time.Sleep(2 * time.Second)
		expired := m.Expired()
		require.Len(t, expired, 1)
		require.EqualValues(t, 1, expired[0].ID())

		p := NewProducerManager(clock.System)
		require.NoError(t, p.Register("pg", client("a", 1)))
		time.Sleep(ExpiredTimeout)
		require.Empty(t, p.Expired())
		time.Sleep(time.Second)
		require.Len(t, p.Expired(), 1)
	})
}

func TestMembershipIsBounded(t *testing.T) {
	m := newManager(t)
	for i := range MaxGroupsPerConn {
		m.heartbeat(fmt.Sprint("g", i), "a", 1)
	}
	_, err := m.Register(Registration{Client: client("a", 1), Group: "one-more"}, true)
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "4096 consumer groups on one connection")
	require.Nil(t, m.Get("one-more"))
	m.heartbeat("g7", "a", 1) // what is known goes on
	m.members = MaxMemberships
	_, err = m.Register(Registration{Client: client("b", 2), Group: "g7"}, true)
	require.ErrorIs(t, err, ErrLimit)

	_, err = m.Register(Registration{Client: client(strings.Repeat("x", MaxClientID+1), 3), Group: "g"}, true)
	require.ErrorIs(t, err, ErrLimit)
	long := sub(t, "T", strings.Repeat("x", 100<<10), 1)
	many := make([]*Subscription, 11)
	for i := range many {
		many[i] = long
	}
	_, err = m.Register(Registration{Client: client("b", 3), Group: "g", Subscription: many}, true)
	require.ErrorIs(t, err, ErrLimit)

	p := NewProducerManager(clock.System)
	for i := range MaxGroupsPerConn {
		require.NoError(t, p.Register(fmt.Sprint("g", i), client("a", 1)))
	}
	require.ErrorIs(t, p.Register("one-more", client("a", 1)), ErrLimit)
	require.NoError(t, p.Register("g1", client("a", 1)))
	require.ErrorIs(t, p.Register("g", client(strings.Repeat("x", MaxClientID+1), 2)), ErrLimit)
	p.ConnClosed(fakeConn{id: 1})
	require.Zero(t, p.count)
	require.Empty(t, p.groups)
}

func TestProducers(t *testing.T) {
	p := NewProducerManager(clock.System)
	require.Nil(t, p.OneOf("pg"))
	for i, id := range []string{"b", "a", "c"} {
		require.NoError(t, p.Register("pg", client(id, uint64(i))))
	}
	require.NoError(t, p.Register("other", client("a", 1)))
	ids := func(list []*Client) (out []string) {
		for _, c := range list {
			out = append(out, c.ID)
		}
		return out
	}
	require.Equal(t, []string{"a", "b", "c"}, ids(p.Clients("pg")))
	require.Equal(t, []string{"other", "pg"}, p.Groups())
	require.Equal(t, "c", p.ByClientID("c").ID)
	require.Nil(t, p.ByClientID("z"))
	seen := map[string]int{}
	for range 9 {
		seen[p.OneOf("pg").ID]++
	}
	require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, seen, "each in turn")
	p.Unregister("pg", fakeConn{id: 2})
	p.Unregister("nobody", fakeConn{id: 2})
	require.Equal(t, []string{"a", "b"}, ids(p.Clients("pg")))
	p.ConnClosed(fakeConn{id: 1})
	require.Equal(t, []string{"b"}, ids(p.Clients("pg")))
	require.Empty(t, p.Clients("other"))
}

// A client is found by its id while it has one group on one connection left, by the connection heard of last.
func TestProducerByClientID(t *testing.T) {
	p := NewProducerManager(clock.System)
	register := func(group, id string, conn uint64, at int64) {
		require.NoError(t, p.Register(group, Client{Conn: fakeConn{id: conn}, ID: id, LastUpdate: at}))
	}
	found := func() uint64 {
		if c := p.ByClientID("a"); c != nil {
			return c.Conn.ID()
		}
		return 0
	}
	register("g", "a", 1, 10)
	register("h", "a", 1, 10)
	register("g", "a", 2, 20)
	require.EqualValues(t, 2, found())
	register("h", "a", 1, 30)
	require.EqualValues(t, 1, found())
	p.Unregister("h", fakeConn{id: 1})
	require.NotZero(t, found())
	p.ConnClosed(fakeConn{id: 2})
	require.EqualValues(t, 1, found())
	register("g", "b", 1, 40) // another client on the same connection
	require.Zero(t, found())
	require.Equal(t, "b", p.ByClientID("b").ID)
	p.Unregister("g", fakeConn{id: 1})
	require.Zero(t, found())
	require.Empty(t, p.ids)
}

// Lookups go on while members come and go; the race detector looks on.
func TestLookupsDuringChanges(t *testing.T) {
	m := NewConsumerManager(clock.System, silent, ExpiredTimeout, Events{
		Changed: func(string, []reactor.Conn) {}, Registered: func(string, []*Subscription) {}, Gone: func(string) {},
		Ghost: func(reactor.Conn) {}})
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			for i := range 300 {
				s := sub(t, "T", fmt.Sprint("A", i%3), int64(i))
				_, err := m.Register(Registration{Client: client(fmt.Sprint("c", w), w), Group: fmt.Sprint("g", i%2),
					Subscription: []*Subscription{s}}, true)
				if err != nil {
					panic(err)
				}
				if c := m.Lookup([]byte("g0")); c != nil {
					_, _, _ = c.Subscription([]byte("T")), c.IDs(), c.Conflict()
				}
				if i%7 == 0 {
					m.ConnClosed(fakeConn{id: w}, always)
				}
			}
			m.ConnClosed(fakeConn{id: w}, always)
		})
	}
	wg.Wait()
	require.Empty(t, m.Groups())
	require.Empty(t, m.conns)
	require.Zero(t, m.members)
}
