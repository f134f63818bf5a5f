package replicas

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// genEvent draws an event that often fits the state.
func genEvent(t *rapid.T, s *State) *Event {
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
	e := &Event{Kind: Kind(rapid.IntRange(1, 5).Draw(t, "kind")), Cluster: "c", Broker: name,
		BrokerID:  rapid.SampledFrom([]int64{NoBroker, 0, 1, 2, 3, 4}).Draw(t, "id"),
		Designate: rapid.IntRange(0, 4).Draw(t, "designate") == 0, Unclean: rapid.IntRange(0, 9).Draw(t, "unclean") == 0,
		CleanLiving: rapid.Bool().Draw(t, "living"), Address: rapid.SampledFrom([]string{"", "x:1", "y:1"}).Draw(t, "addr"),
		CheckCode:    rapid.SampledFrom([]string{"", "x:1;1", "y:1;2"}).Draw(t, "check"),
		SyncStateSet: rapid.SliceOfN(rapid.Int64Range(0, 4), 0, 4).Draw(t, "set"),
		IDs:          rapid.SliceOfN(rapid.Int64Range(1, 4), 0, 2).Draw(t, "ids")}
	if e.Kind == KindCleanBroker && rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		e.Kind = KindElectMaster
	}
	if g := s.Group(name); g != nil && rapid.IntRange(0, 3).Draw(t, "fits") > 0 {
		e.MasterEpoch, e.SetEpoch = g.MasterEpoch, g.SyncStateSetEpoch
		if e.Kind == KindAlterSyncStateSet {
			e.BrokerID = g.Master
		}
		if e.Kind == KindApplyBrokerID {
			e.BrokerID = g.NextID
		}
	}
	for id := int64(1); id <= 4; id++ {
		switch rapid.IntRange(0, 3).Draw(t, "life") {
		case 0:
			e.Unknown = append(e.Unknown, id)
		case 1, 2:
			e.Live = append(e.Live, Live{ID: id, Epoch: rapid.Int32Range(-1, 3).Draw(t, "epoch"),
				MaxOffset: rapid.Int64Range(-1, 9).Draw(t, "offset"), Priority: rapid.Int32Range(0, 2).Draw(t, "priority")})
		}
	}
	return e
}

// The rules of the package comment, after every event; and that two machines with the same events are equal, also over a
// snapshot in between.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, twin := New(), New()
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			before := map[string]*Group{"a": s.Group("a"), "b": s.Group("b")}
			e := genEvent(t, s)
			d := s.Apply(e)
			again, err := DecodeEvent(e.Encode())
			require.NoError(t, err)
			require.Equal(t, d, twin.Apply(again))
			require.Equal(t, s.Snapshot(), twin.Snapshot())
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				twin, err = Restore(twin.Snapshot())
				require.NoError(t, err)
			}
			count := 0
			for _, name := range s.Names() {
				g := s.Group(name)
				count += len(g.Replicas)
				checkGroup(t, g)
				if name != e.Broker {
					require.Equal(t, before[name], g)
				} else if before[name] != nil {
					checkStep(t, before[name], g, e, &d)
				}
			}
			require.Equal(t, count, s.replicas)
		}
	})
}

func checkGroup(t require.TestingT, g *Group) {
	require.NotEmpty(t, g.Replicas)
	require.True(t, slices.IsSortedFunc(g.Replicas, func(a, b Replica) int { return int(a.ID - b.ID) }))
	for _, r := range g.Replicas {
		require.GreaterOrEqual(t, r.ID, int64(1))
		require.Less(t, r.ID, g.NextID)
	}
	require.True(t, slices.IsSorted(g.SyncStateSet))
	for _, id := range g.SyncStateSet {
		require.NotNil(t, g.Replica(id), "members of the set are registered")
	}
	if g.Master != 0 {
		require.True(t, g.InSync(g.Master), "the master has everything")
		require.Positive(t, g.MasterEpoch)
	}
}

func checkStep(t require.TestingT, was, g *Group, e *Event, d *Decision) {
	require.GreaterOrEqual(t, g.MasterEpoch, was.MasterEpoch)
	if g.MasterEpoch > was.MasterEpoch+1 {
		require.True(t, d.Elected && slices.ContainsFunc(e.Live, func(l Live) bool { return l.Epoch == g.MasterEpoch-1 }))
	}
	require.GreaterOrEqual(t, g.SyncStateSetEpoch, was.SyncStateSetEpoch)
	require.GreaterOrEqual(t, g.NextID, was.NextID)
	require.Equal(t, g.Master != was.Master || d.Elected, g.MasterEpoch > was.MasterEpoch)
	if !slices.Equal(was.SyncStateSet, g.SyncStateSet) {
		require.Greater(t, g.SyncStateSetEpoch, was.SyncStateSetEpoch)
	}
	if d.Elected {
		require.Equal(t, []int64{g.Master}, g.SyncStateSet)
		if was.MasterEpoch > 0 && len(was.SyncStateSet) > 0 && !e.Unclean {
			require.True(t, was.InSync(g.Master), "nothing confirmed is lost")
		}
		if was.MasterEpoch > 0 {
			require.NotNil(t, e.live(g.Master), "the new master lives")
		}
	}
}
