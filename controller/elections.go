package controller

import (
	"time"

	"skylark/codec"
	"skylark/controller/node"
	"skylark/controller/replicas"
)

// elections has a new master elected where one is missing (Java ControllerManager.onBrokerInactive and
// DLedgerController.scanInactiveMasterAndTriggerReelect). It belongs to the loop. Deviations: broker names that have lost
// their master are looked at as well, and again when one of their replicas comes back, so that they do not wait for a
// broker's own request; a master that does not know yet is told again; an election that fails is tried again with the next
// look, so electMasterMaxRetryCount has no effect.
type elections struct {
	c        *Controller
	l        *loop
	next     time.Time // of the look at all broker names
	checkAll bool
	running  map[string]bool // broker names with an election under way; at most node.MaxPending
}

// tick looks at the broker names of which somebody died, and at all now and then. Every controller forgets the dead, the
// leader elects.
func (e *elections) tick(now time.Time) {
	dead := e.c.beats.expire(now)
	for _, k := range dead {
		e.c.o.Log.Warn("broker is not heard of any more", "broker", k.name, "id", k.id)
	}
	if !e.l.node.Role().Ready {
		return
	}
	state := e.l.node.State()
	if !e.checkAll && now.Before(e.next) {
		for _, k := range dead {
			e.check(state, k.name)
		}
		return
	}
	e.checkAll = false
	e.next = now.Add(time.Duration(e.c.settings().ScanInactiveMasterInterval) * time.Millisecond)
	for _, name := range state.Names() {
		e.check(state, name)
	}
}

// back looks at a broker name of which a replica came back.
func (e *elections) back(name string) {
	if e.l.node.Role().Ready {
		e.check(e.l.node.State(), name)
	}
}

// missed looks at a broker name whose master has just been found dead: at once, because the one who asks may be that master,
// which was killed and may lack the end of its log. With its next heartbeat it would be alive, and stay master.
func (e *elections) missed(g *replicas.Group) {
	if g.Master != 0 {
		e.check(e.l.node.State(), g.Name)
	}
}

// check has a master elected for a broker name if it has none and can have one, or has a dead one.
func (e *elections) check(state *replicas.State, name string) {
	g := state.Group(name)
	if g == nil || g.MasterEpoch == 0 || e.running[name] {
		return
	}
	ev := &replicas.Event{Kind: replicas.KindElectMaster, Cluster: g.Cluster, Broker: name, BrokerID: replicas.NoBroker,
		MasterEpoch: g.MasterEpoch, Unclean: e.c.settings().EnableElectUncleanMaster}
	e.l.lookAround(ev)
	if !needsElection(g, ev) {
		if unaware(g, ev.Live) {
			e.c.tell(g)
		}
		return
	}
	e.running[name] = true
	e.l.propose(ev, func(r node.Result) { e.finished(name, r) })
}

// needsElection tells whether an election could change something.
func needsElection(g *replicas.Group, ev *replicas.Event) bool {
	candidate := false
	for _, live := range ev.Live {
		if live.ID == g.Master {
			return false
		}
		candidate = candidate || ev.Unclean || len(g.SyncStateSet) == 0 || g.InSync(live.ID)
	}
	for _, id := range ev.Unknown {
		if id == g.Master {
			return false
		}
	}
	return candidate || g.Master != 0
}

// unaware tells whether a master does not know that it is one: the last epoch in its file, which its heartbeats tell, is not
// that of its election. The notification was lost, or the leader that would have sent it died.
func unaware(g *replicas.Group, all []replicas.Live) bool {
	for _, live := range all {
		if live.ID == g.Master {
			return live.Epoch >= 0 && live.Epoch < g.MasterEpoch
		}
	}
	return false
}

func (e *elections) finished(name string, r node.Result) {
	delete(e.running, name)
	switch {
	case r.Err != nil:
		e.c.tally.electionsFailed.Add(1)
		e.c.o.Log.Warn("election came to nothing", "broker", name, "error", r.Err)
	case r.Decision.Elected:
		e.c.elected(r.Decision.Group)
	case r.Decision.Code == codec.RespControllerMasterNotAvailable:
		e.c.tally.electionsFailed.Add(1)
		e.c.o.Log.Error("no replica that has everything is alive: the broker name is without master", "broker", name,
			"syncStateSet", r.Decision.Group.SyncStateSet)
	}
}

// elected tells the log and, if notifyBrokerRoleChanged is on, the replicas.
func (c *Controller) elected(g *replicas.Group) {
	c.tally.mastersElected.Add(1)
	c.o.Log.Info("new master", "broker", g.Name, "master", g.Master, "remote", g.Address(g.Master), "masterEpoch",
		g.MasterEpoch)
	c.tell(g)
}

// tell sends the living replicas their master. Those who know already ignore it.
func (c *Controller) tell(g *replicas.Group) {
	if !c.settings().NotifyBrokerRoleChanged {
		return
	}
	ids := make([]int64, len(g.Replicas))
	for i := range g.Replicas {
		ids[i] = g.Replicas[i].ID
	}
	live, _ := c.beats.look(c.o.Clock.Now(), g.Name, ids)
	var addrs []string
	for _, l := range live {
		addrs = append(addrs, g.Address(l.ID))
	}
	c.sendNotice(addrs, g)
}
