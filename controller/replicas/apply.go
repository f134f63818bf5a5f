package replicas

import (
	"fmt"
	"slices"
	"strings"

	"skylark/codec"
)

// firstID is the id of the first replica of a broker name (Java MixAll.FIRST_BROKER_CONTROLLER_ID).
const firstID = 1

// Decision is what became of an event. Code and Remark are Java's; the shell makes headers and body of the rest.
type Decision struct {
	Code   int // codec.RespSuccess, …
	Remark string
	// Group is the broker name as it is after the event; nil if there is none.
	Group *Group
	// Elected tells that this very event made Group.Master master.
	Elected bool
	// MasterKnown: the answer to a registration tells the master. It is false while the master is known to be dead.
	MasterKnown bool
}

// OK tells whether the event was done.
func (d Decision) OK() bool { return d.Code == codec.RespSuccess }

func refuse(g *Group, code int, format string, args ...any) Decision {
	d := Decision{Code: code, Remark: fmt.Sprintf(format, args...)}
	if g != nil {
		d.Group = g.clone()
	}
	return d
}

func done(g *Group) Decision { return Decision{Code: codec.RespSuccess, Group: g.clone()} }

// Apply decides an event and changes the state accordingly. An event that Validate refuses changes nothing.
func (s *State) Apply(e *Event) Decision {
	if err := e.Validate(); err != nil {
		return refuse(nil, codec.RespControllerInvalidRequest, "%v", err)
	}
	switch g := s.groups[e.Broker]; e.Kind {
	case KindAlterSyncStateSet:
		return s.alterSyncStateSet(g, e)
	case KindApplyBrokerID:
		return s.applyBrokerID(g, e)
	case KindElectMaster:
		return s.electMaster(g, e)
	case KindCleanBroker:
		return s.cleanBroker(g, e)
	default:
		return s.registerBroker(g, e)
	}
}

// id prints a broker id as Java prints a Long that may be null.
func id(n int64) string {
	if n <= 0 {
		return "null"
	}
	return fmt.Sprint(n)
}

// alterSyncStateSet makes Java's checks in Java's order.
func (s *State) alterSyncStateSet(g *Group, e *Event) Decision {
	if g == nil {
		return refuse(nil, codec.RespControllerAlterSyncStateSetFailed, "Broker metadata is not existed")
	}
	set := slices.Clone(e.SyncStateSet)
	slices.Sort(set)
	set = slices.Compact(set)
	switch {
	case slices.Equal(set, g.SyncStateSet):
		return refuse(g, codec.RespControllerAlterSyncStateSetFailed,
			"The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet")
	case g.Master == 0 || g.Master != e.BrokerID:
		return refuse(g, codec.RespControllerInvalidMaster,
			"Rejecting alter syncStateSet request because the current leader is:{%s}, not {%d}", id(g.Master), e.BrokerID)
	case g.MasterEpoch != e.MasterEpoch:
		return refuse(g, codec.RespControllerFencedMasterEpoch,
			"Rejecting alter syncStateSet request because the current master epoch is:{%d}, not {%d}", g.MasterEpoch, e.MasterEpoch)
	case g.SyncStateSetEpoch != e.SetEpoch:
		return refuse(g, codec.RespControllerFencedSyncStateSetEpoch,
			"Rejecting alter syncStateSet request because the current syncStateSet epoch is:{%d}, not {%d}",
			g.SyncStateSetEpoch, e.SetEpoch)
	}
	for _, m := range set {
		if g.Replica(m) == nil {
			return refuse(g, codec.RespControllerInvalidReplicas,
				"Rejecting alter syncStateSet request because the replicas {%d} don't exist", m)
		}
		if e.live(m) == nil {
			return refuse(g, codec.RespControllerBrokerNotAlive,
				"Rejecting alter syncStateSet request because the replicas {%d} don't alive", m)
		}
	}
	if !slices.Contains(set, g.Master) {
		return refuse(g, codec.RespControllerAlterSyncStateSetFailed,
			"Rejecting alter syncStateSet request because the newSyncStateSet don't contains origin leader {%d}", g.Master)
	}
	g.setSyncStateSet(set)
	return done(g)
}

func (g *Group) setSyncStateSet(set []int64) {
	g.SyncStateSet = set
	g.SyncStateSetEpoch++
}

// setMaster also stands for the loss of one (0): a broker that knows the epoch before is behind in both cases.
func (g *Group) setMaster(id int64) {
	g.Master = id
	g.MasterEpoch++
}

func (s *State) applyBrokerID(g *Group, e *Event) Decision {
	if g == nil {
		if e.BrokerID != firstID {
			return refuse(nil, codec.RespControllerBrokerIDInvalid,
				"Broker-set: %s hasn't been registered in controller, but broker try to apply brokerId: %d", e.Broker, e.BrokerID)
		}
		if s.replicas >= MaxReplicas {
			return refuse(nil, codec.RespControllerBrokerIDInvalid, "there are %d replicas, at most %d", s.replicas, MaxReplicas)
		}
		g = &Group{Cluster: e.Cluster, Name: e.Broker, NextID: firstID, SyncStateSet: []int64{}}
		s.groups[e.Broker] = g
		s.addReplica(g, e)
		return done(g)
	}
	r := g.Replica(e.BrokerID)
	switch {
	case r != nil && r.CheckCode == e.CheckCode:
		return done(g) // it asks again: the answer was lost
	case r != nil || e.BrokerID < firstID || e.BrokerID > g.NextID:
		return refuse(g, codec.RespControllerBrokerIDInvalid, "Fail to apply brokerId: %d in broker-set: %s", e.BrokerID, e.Broker)
	case s.replicas >= MaxReplicas:
		return refuse(g, codec.RespControllerBrokerIDInvalid, "there are %d replicas, at most %d", s.replicas, MaxReplicas)
	case len(g.Replicas) >= MaxIDs:
		return refuse(g, codec.RespControllerBrokerIDInvalid, "%s has %d replicas, at most %d", g.Name, len(g.Replicas), MaxIDs)
	}
	s.addReplica(g, e)
	return done(g)
}

func (s *State) addReplica(g *Group, e *Event) {
	address, _, _ := strings.Cut(e.CheckCode, ";")
	i, _ := g.find(e.BrokerID)
	g.Replicas = slices.Insert(g.Replicas, i, Replica{ID: e.BrokerID, Address: address, CheckCode: e.CheckCode})
	g.NextID = max(g.NextID, e.BrokerID+1)
	s.replicas++
}

func (s *State) registerBroker(g *Group, e *Event) Decision {
	if g == nil {
		return refuse(nil, codec.RespControllerBrokerNeedToBeRegistered,
			"Broker-set: %s hasn't been registered in controller", e.Broker)
	}
	r := g.Replica(e.BrokerID)
	if r == nil {
		return refuse(g, codec.RespControllerBrokerNeedToBeRegistered,
			"BrokerId: %d hasn't been registered in broker-set: %s", e.BrokerID, e.Broker)
	}
	r.Address = e.Address
	d := done(g)
	d.MasterKnown = g.Master != 0 && (e.live(g.Master) != nil || slices.Contains(e.Unknown, g.Master))
	return d
}

func (s *State) cleanBroker(g *Group, e *Event) Decision {
	if !e.CleanLiving {
		if len(e.IDs) == 0 && g != nil && g.Master != 0 {
			return refuse(g, codec.RespControllerInvalidCleanBrokerMetadata, "Broker %s is still alive, clean up failure", e.Broker)
		}
		for _, n := range e.IDs {
			if e.live(n) != nil || slices.Contains(e.Unknown, n) {
				return refuse(g, codec.RespControllerInvalidCleanBrokerMetadata,
					"Broker [%s,  %d] is still alive, clean up failure", e.Broker, n)
			}
		}
	}
	if g == nil {
		return refuse(nil, codec.RespControllerInvalidCleanBrokerMetadata,
			"Broker %s is not existed,clean broker data failure.", e.Broker)
	}
	if len(e.IDs) == 0 {
		s.remove(g)
		return Decision{Code: codec.RespSuccess}
	}
	for _, n := range e.IDs {
		i, ok := g.find(n)
		if !ok {
			continue
		}
		g.Replicas = slices.Delete(g.Replicas, i, i+1)
		s.replicas--
		if i := slices.Index(g.SyncStateSet, n); i >= 0 {
			g.setSyncStateSet(slices.Delete(g.SyncStateSet, i, i+1))
		}
		if n == g.Master {
			g.setMaster(0)
		}
	}
	if len(g.Replicas) == 0 {
		s.remove(g)
		return Decision{Code: codec.RespSuccess}
	}
	return done(g)
}

func (s *State) remove(g *Group) {
	s.replicas -= len(g.Replicas)
	delete(s.groups, g.Name)
}
