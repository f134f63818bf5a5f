package replicas

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// world is a state with what a controller knows of the living.
type world struct {
	t       *testing.T
	s       *State
	live    map[int64]Live
	unknown []int64
	unclean bool
}

func newWorld(t *testing.T) *world { return &world{t: t, s: New(), live: map[int64]Live{}} }

// alive has brokers live with epoch, offset and priority.
func (w *world) alive(id int64, epoch int32, maxOffset int64, priority int32) {
	w.live[id] = Live{ID: id, Epoch: epoch, MaxOffset: maxOffset, Priority: priority}
}

func (w *world) apply(e Event) Decision {
	if e.Broker == "" {
		e.Broker = "b"
	}
	e.Cluster, e.Unclean, e.Unknown = "c", w.unclean, w.unknown
	for _, l := range w.live {
		e.Live = append(e.Live, l)
	}
	again, err := DecodeEvent(e.Encode())
	require.NoError(w.t, err)
	require.Equal(w.t, &e, again, "an event is what was written")
	return w.s.Apply(again)
}

func (w *world) take(id int64, check string) Decision {
	return w.apply(Event{Kind: KindApplyBrokerID, BrokerID: id, CheckCode: check})
}

func (w *world) elect(id int64) Decision { return w.apply(Event{Kind: KindElectMaster, BrokerID: id}) }

func (w *world) designate(id int64) Decision {
	return w.apply(Event{Kind: KindElectMaster, BrokerID: id, Designate: true})
}

func (w *world) lost() Decision {
	return w.apply(Event{Kind: KindElectMaster, BrokerID: NoBroker, MasterEpoch: w.s.Group("b").MasterEpoch})
}

func (w *world) alter(master int64, epoch, setEpoch int32, set ...int64) Decision {
	return w.apply(Event{Kind: KindAlterSyncStateSet, BrokerID: master, MasterEpoch: epoch, SetEpoch: setEpoch,
		SyncStateSet: set})
}

func (w *world) register(id int64, addr string) Decision {
	return w.apply(Event{Kind: KindRegisterBroker, BrokerID: id, Address: addr})
}

func (w *world) clean(living bool, ids ...int64) Decision {
	return w.apply(Event{Kind: KindCleanBroker, IDs: ids, CleanLiving: living})
}

// three makes replicas 1 to 3, all alive, 1 the master, all in sync.
func three(t *testing.T) *world {
	w := newWorld(t)
	for id := int64(1); id <= 3; id++ {
		w.alive(id, 0, 100, 9)
		require.True(t, w.take(id, string(rune('0'+id))+":1;0").OK())
	}
	require.True(t, w.elect(1).Elected)
	require.True(t, w.alter(1, 1, 1, 1, 2, 3).OK())
	return w
}

func code(t *testing.T, want int, d Decision) {
	t.Helper()
	require.Equal(t, codec.ResponseCodeName(want), codec.ResponseCodeName(d.Code), d.Remark)
}

// Java ReplicasInfoManager.applyBrokerId.
func TestBrokerIDs(t *testing.T) {
	w := newWorld(t)
	require.EqualValues(t, 1, w.s.NextID("b"))
	code(t, codec.RespControllerBrokerIDInvalid, w.take(2, "h2:1;0"))
	code(t, codec.RespSuccess, w.take(1, "h1:1;7"))
	code(t, codec.RespSuccess, w.take(1, "h1:1;7")) // the answer was lost
	code(t, codec.RespControllerBrokerIDInvalid, w.take(1, "h9:1;7"))
	require.EqualValues(t, 2, w.s.NextID("b"))
	code(t, codec.RespControllerBrokerIDInvalid, w.take(3, "h3:1;0"))
	code(t, codec.RespControllerBrokerIDInvalid, w.take(0, "h3:1;0"))
	code(t, codec.RespControllerBrokerIDInvalid, w.take(-5, "h3:1;0"))
	code(t, codec.RespSuccess, w.take(2, "h2:1;0"))
	require.Equal(t, "h2:1", w.s.Group("b").Address(2))
	require.EqualValues(t, 1, w.s.NextID("other"))

	code(t, codec.RespSuccess, w.clean(false, 1))
	require.EqualValues(t, 3, w.s.NextID("b"), "an id is not handed out twice")
	code(t, codec.RespSuccess, w.take(1, "h1:1;8"))
	require.EqualValues(t, 3, w.s.NextID("b"))
}

func TestRegister(t *testing.T) {
	w := newWorld(t)
	code(t, codec.RespControllerBrokerNeedToBeRegistered, w.register(1, "h1:1"))
	w.take(1, "h1:1;0")
	code(t, codec.RespControllerBrokerNeedToBeRegistered, w.register(2, "h1:1"))
	d := w.register(1, "h1:2")
	code(t, codec.RespSuccess, d)
	require.False(t, d.MasterKnown)
	require.Equal(t, "h1:2", w.s.Group("b").Address(1))
	require.True(t, w.elect(1).Elected)
	require.False(t, w.register(1, "h1:2").MasterKnown, "a dead master is not told")
	w.unknown = []int64{1}
	require.True(t, w.register(1, "h1:2").MasterKnown, "one of which nothing is known is")
	w.unknown = nil
	w.alive(1, 1, 0, 0)
	d = w.register(1, "h1:3")
	require.True(t, d.MasterKnown)
	require.Equal(t, "h1:3", d.Group.Address(d.Group.Master))
}

// The checks of Java ReplicasInfoManager.alterSyncStateSet, in its order.
func TestAlterSyncStateSet(t *testing.T) {
	code(t, codec.RespControllerAlterSyncStateSetFailed, newWorld(t).alter(1, 1, 1, 1))
	w := three(t)
	code(t, codec.RespControllerAlterSyncStateSetFailed, w.alter(2, 9, 9, 3, 2, 1, 1)) // nothing changes
	code(t, codec.RespControllerInvalidMaster, w.alter(2, 9, 9, 1, 2))
	code(t, codec.RespControllerFencedMasterEpoch, w.alter(1, 2, 9, 1, 2))
	code(t, codec.RespControllerFencedSyncStateSetEpoch, w.alter(1, 1, 1, 1, 2))
	code(t, codec.RespControllerInvalidReplicas, w.alter(1, 1, 2, 1, 4))
	delete(w.live, 2)
	code(t, codec.RespControllerBrokerNotAlive, w.alter(1, 1, 2, 1, 2))
	code(t, codec.RespControllerAlterSyncStateSetFailed, w.alter(1, 1, 2, 3))
	code(t, codec.RespControllerAlterSyncStateSetFailed, w.alter(1, 1, 2)) // empty
	d := w.alter(1, 1, 2, 3, 1)
	code(t, codec.RespSuccess, d)
	require.Equal(t, []int64{1, 3}, d.Group.SyncStateSet)
	require.EqualValues(t, 3, d.Group.SyncStateSetEpoch)
	// apache/rocketmq#5663: the answer is lost, the master asks again with the epoch it knows
	code(t, codec.RespControllerFencedSyncStateSetEpoch, w.alter(1, 1, 2, 1))
	require.True(t, w.lost().Code == codec.RespControllerMasterStillExist)
	delete(w.live, 1)
	require.True(t, w.lost().Elected)
	w.alive(1, 1, 100, 9)
	code(t, codec.RespControllerInvalidMaster, w.alter(1, 1, 4, 1, 3)) // a master that does not know yet
}

func TestFirstElection(t *testing.T) {
	w := newWorld(t)
	code(t, codec.RespControllerBrokerNeedToBeRegistered, w.elect(1))
	w.take(1, "h1:1;0")
	w.take(2, "h2:1;0")
	code(t, codec.RespControllerBrokerNeedToBeRegistered, w.elect(3))
	d := w.elect(2)
	require.True(t, d.Elected)
	require.EqualValues(t, 2, d.Group.Master)
	require.EqualValues(t, 1, d.Group.MasterEpoch)
	require.Equal(t, []int64{2}, d.Group.SyncStateSet)
	require.EqualValues(t, 1, d.Group.SyncStateSetEpoch)
	d = w.elect(1)
	code(t, codec.RespControllerElectMasterFailed, d) // the master is dead, and 1 has not what it confirmed
	w.alive(2, 1, 0, 0)
	code(t, codec.RespControllerMasterStillExist, w.elect(1))
}

// Java DefaultElectPolicy.
func TestElectionPolicy(t *testing.T) {
	f := func(want int64, prepare func(w *world)) {
		t.Helper()
		w := three(t)
		delete(w.live, 1)
		prepare(w)
		d := w.lost()
		if want == 0 {
			code(t, codec.RespControllerMasterNotAvailable, d)
			require.EqualValues(t, 2, d.Group.MasterEpoch, "the loss counts")
			require.Equal(t, []int64{1, 2, 3}, d.Group.SyncStateSet, "the set stays")
			epoch := d.Group.MasterEpoch
			code(t, codec.RespControllerMasterNotAvailable, w.lost())
			require.Equal(t, epoch, w.s.Group("b").MasterEpoch, "it is lost once")
			return
		}
		require.True(t, d.Elected, d.Remark)
		require.Equal(t, want, d.Group.Master)
		require.Equal(t, []int64{want}, d.Group.SyncStateSet)
		require.EqualValues(t, 2, d.Group.MasterEpoch)
		require.EqualValues(t, 3, d.Group.SyncStateSetEpoch)
	}
	f(2, func(*world) {}) // all equal
	f(3, func(w *world) { w.alive(3, 1, 0, 9) })
	f(3, func(w *world) { w.alive(3, 0, 101, 9) })
	f(3, func(w *world) { w.alive(3, 0, 100+1<<40, 9) }) // Java's comparator overflows
	f(3, func(w *world) { w.alive(3, 0, 100, 1) })
	f(2, func(w *world) { w.alive(3, 0, 99, 1) })
	f(3, func(w *world) { delete(w.live, 2) })
	f(0, func(w *world) { clear(w.live) })
	f(2, func(w *world) { w.unknown = []int64{3} }) // nobody unknown is elected
}

// Brokers that other controllers have counted epochs for: theirs are not used again.
func TestEpochsOfBefore(t *testing.T) {
	w := newWorld(t)
	w.take(1, "h1:1;0")
	w.alive(1, 7, 100, 0)
	w.alive(2, 5, 100, 0)
	w.alive(3, maxKnownEpoch, 0, 0)
	d := w.elect(1)
	require.True(t, d.Elected)
	require.EqualValues(t, 8, d.Group.MasterEpoch)
}

func TestDesignatedElection(t *testing.T) {
	w := three(t)
	d := w.designate(3)
	require.True(t, d.Elected)
	require.EqualValues(t, 3, d.Group.Master)
	code(t, codec.RespControllerMasterStillExist, w.designate(3))
	code(t, codec.RespControllerElectMasterFailed, w.designate(2)) // no longer in the set
	require.EqualValues(t, 3, w.s.Group("b").Master)
	require.True(t, w.alter(3, 2, 3, 3, 2).OK())
	delete(w.live, 2)
	code(t, codec.RespControllerElectMasterFailed, w.designate(2))
}

func TestUncleanElection(t *testing.T) {
	w := three(t)
	require.True(t, w.alter(1, 1, 2, 1).OK())
	delete(w.live, 1)
	code(t, codec.RespControllerElectMasterFailed, w.elect(2))
	w.unclean = true
	w.alive(3, 0, 200, 9)
	d := w.lost()
	require.True(t, d.Elected)
	require.EqualValues(t, 3, d.Group.Master)
}

// A controller that has just started knows nothing of a living master; and one that asks late changes nothing.
func TestElectionsOfTheController(t *testing.T) {
	w := three(t)
	delete(w.live, 1)
	w.unknown = []int64{1}
	code(t, codec.RespControllerMasterStillExist, w.lost())
	w.unknown = nil
	asked := Event{Kind: KindElectMaster, BrokerID: NoBroker, MasterEpoch: 1}
	require.True(t, w.apply(asked).Elected)
	delete(w.live, 2)
	asked.Live = nil
	code(t, codec.RespControllerFencedMasterEpoch, w.apply(asked))
	require.EqualValues(t, 2, w.s.Group("b").Master)
}

func TestMasterComesBack(t *testing.T) {
	w := three(t)
	clear(w.live)
	w.lost()
	require.Zero(t, w.s.Group("b").Master)
	w.alive(2, 1, 100, 9)
	d := w.elect(2)
	require.True(t, d.Elected)
	require.EqualValues(t, 2, d.Group.Master)
	require.EqualValues(t, 3, d.Group.MasterEpoch)
}

func TestClean(t *testing.T) {
	w := three(t)
	code(t, codec.RespControllerInvalidCleanBrokerMetadata, w.clean(false))
	code(t, codec.RespControllerInvalidCleanBrokerMetadata, w.clean(false, 2))
	delete(w.live, 2)
	w.unknown = []int64{2}
	code(t, codec.RespControllerInvalidCleanBrokerMetadata, w.clean(false, 2))
	w.unknown = nil
	code(t, codec.RespSuccess, w.clean(false, 2, 77))
	g := w.s.Group("b")
	require.Nil(t, g.Replica(2))
	require.Equal(t, []int64{1, 3}, g.SyncStateSet)
	require.EqualValues(t, 3, g.SyncStateSetEpoch)

	// all that have everything are removed: epochs go on, the others may be elected
	delete(w.live, 1)
	require.True(t, w.alter(1, 1, 3, 1).Code == codec.RespControllerBrokerNotAlive)
	w.alive(1, 1, 0, 0)
	require.True(t, w.alter(1, 1, 3, 1).OK())
	code(t, codec.RespSuccess, w.clean(true, 1))
	g = w.s.Group("b")
	require.Zero(t, g.Master)
	require.Empty(t, g.SyncStateSet)
	require.EqualValues(t, 2, g.MasterEpoch)
	d := w.elect(3)
	require.True(t, d.Elected)
	require.EqualValues(t, 3, d.Group.MasterEpoch)

	code(t, codec.RespSuccess, w.clean(true, 3))
	require.Nil(t, w.s.Group("b"))
	require.Empty(t, w.s.Names())
	code(t, codec.RespControllerInvalidCleanBrokerMetadata, w.clean(true))
	require.Zero(t, w.s.replicas)
	w = three(t)
	code(t, codec.RespSuccess, w.clean(true))
	require.Zero(t, w.s.replicas)
}

func TestInvalidEvents(t *testing.T) {
	f := func(word string, e Event) {
		t.Helper()
		require.ErrorContains(t, e.Validate(), word)
		s := New()
		code(t, codec.RespControllerInvalidRequest, s.Apply(&e))
		require.Equal(t, New().Snapshot(), s.Snapshot())
	}
	long := string(make([]byte, MaxText+1))
	f("brokerName", Event{Kind: KindElectMaster})
	f("brokerName", Event{Kind: KindElectMaster, Broker: long})
	f("clusterName", Event{Kind: KindElectMaster, Broker: "b", Cluster: long})
	f("UTF-8", Event{Kind: KindElectMaster, Broker: "b\xff"})
	f("control", Event{Kind: KindElectMaster, Broker: "b\n"})
	f("registerCheckCode", Event{Kind: KindApplyBrokerID, Broker: "b"})
	f("brokerAddress", Event{Kind: KindRegisterBroker, Broker: "b"})
	f("kind 77", Event{Kind: 77, Broker: "b"})
	f("ids", Event{Kind: KindCleanBroker, Broker: "b", IDs: make([]int64, MaxIDs+1)})
	_, err := DecodeEvent([]byte("{"))
	require.Error(t, err)
}

func TestSnapshot(t *testing.T) {
	s, err := Restore(nil)
	require.NoError(t, err)
	require.Empty(t, s.Names())
	w := three(t)
	s, err = Restore(w.s.Snapshot())
	require.NoError(t, err)
	require.Equal(t, w.s, s)
	for _, bad := range []string{"{", `{"version":2}`, `{"version":1,"groups":[{"name":""}]}`,
		`{"version":1,"groups":[{"name":"a"},{"name":"a"}]}`, `{"version":1,"groups":[null]}`} {
		_, err := Restore([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestLimitOfReplicas(t *testing.T) {
	w := newWorld(t)
	w.take(1, "h:1;0")
	g := w.s.groups["b"]
	for id := int64(2); id <= MaxIDs; id++ {
		g.Replicas = append(g.Replicas, Replica{ID: id})
	}
	g.NextID = MaxIDs + 1
	code(t, codec.RespControllerBrokerIDInvalid, w.take(g.NextID, "h:2;0"))
	w.s.replicas = MaxReplicas
	code(t, codec.RespControllerBrokerIDInvalid, w.take(2, "h:2;0"))
	other := Event{Kind: KindApplyBrokerID, Broker: "x", BrokerID: 1, CheckCode: "h:1;0"}
	code(t, codec.RespControllerBrokerIDInvalid, w.apply(other))
}
