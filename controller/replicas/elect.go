package replicas

import (
	"cmp"
	"slices"

	"skylark/codec"
)

// electMaster is Java's ReplicasInfoManager.electMaster with DefaultElectPolicy.
func (s *State) electMaster(g *Group, e *Event) Decision {
	byController := e.BrokerID == NoBroker
	switch {
	case g == nil:
		return refuse(nil, codec.RespControllerBrokerNeedToBeRegistered, "Broker hasn't been registered")
	case byController && !e.Designate && e.MasterEpoch != g.MasterEpoch:
		return refuse(g, codec.RespControllerFencedMasterEpoch,
			"the election was asked for in master epoch %d, now it is %d", e.MasterEpoch, g.MasterEpoch)
	case !byController && g.Replica(e.BrokerID) == nil:
		return refuse(g, codec.RespControllerBrokerNeedToBeRegistered,
			"BrokerId: %d hasn't been registered in broker-set: %s", e.BrokerID, e.Broker)
	}
	var elected int64
	if g.MasterEpoch == 0 && !byController {
		elected = e.BrokerID // there never was a master: who asks first gets it
	} else {
		elected = g.elect(e)
	}
	switch {
	case elected != 0 && elected == g.Master:
		return refuse(g, codec.RespControllerMasterStillExist,
			"The old master %d is still alive, not need to elect new master for broker %s", elected, e.Broker)
	case elected != 0:
		g.skipEpochs(e)
		g.setMaster(elected)
		g.setSyncStateSet([]int64{elected})
		d := done(g)
		d.Elected = true
		return d
	case byController:
		if g.Master != 0 {
			g.setMaster(0) // the set stays: one of it is elected when it comes back
		}
		return refuse(g, codec.RespControllerMasterNotAvailable, "Old master has down and failed to elect a new broker master")
	default:
		return refuse(g, codec.RespControllerElectMasterFailed, "Failed to elect a new master")
	}
}

// maxKnownEpoch is the highest epoch of a broker that is believed: counting on from it does not overflow.
const maxKnownEpoch = 1 << 30

// skipEpochs passes over the epochs that brokers have in their files: those that controllers before these counted. A
// master can begin an epoch only if it is higher than its last one.
func (g *Group) skipEpochs(e *Event) {
	for _, live := range e.Live {
		if live.Epoch < maxKnownEpoch {
			g.MasterEpoch = max(g.MasterEpoch, live.Epoch)
		}
	}
}

// elect looks in the SyncStateSet, then, if that is allowed, among all replicas. 0: nobody.
func (g *Group) elect(e *Event) int64 {
	set := g.SyncStateSet
	anybody := e.Unclean || len(set) == 0 // an operator has cleaned all members: there is nothing confirmed to lose
	if n := g.electFrom(set, e); n != 0 || !anybody {
		return n
	}
	all := make([]int64, len(g.Replicas))
	for i := range g.Replicas {
		all[i] = g.Replicas[i].ID
	}
	return g.electFrom(all, e)
}

func (g *Group) electFrom(ids []int64, e *Event) int64 {
	var best *Live
	for _, n := range ids {
		live := e.live(n)
		if n == g.Master && (!e.Designate || e.BrokerID == n) && (live != nil || slices.Contains(e.Unknown, n)) {
			return n
		}
		if live == nil || e.Designate && n != e.BrokerID {
			continue
		}
		if best == nil || better(live, best) < 0 {
			best = live
		}
	}
	if best == nil {
		return 0
	}
	return best.ID
}

// better orders candidates: the newest epoch, then the longest log, then the lowest priority number, then the lowest id.
func better(a, b *Live) int {
	return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(b.MaxOffset, a.MaxOffset),
		cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
}
