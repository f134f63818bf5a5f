package controller

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// tally counts since the start what an operator wants to know. Every member counts what it saw itself.
type tally struct {
	heartbeats      atomic.Int64 // of brokers
	proposals       atomic.Int64 // events that were to be decided here
	leaderChanges   atomic.Int64 // of the controllers' group
	mastersElected  atomic.Int64 // by this member, leading
	electionsFailed atomic.Int64
	setsAltered     atomic.Int64 // SyncStateSets
}

// StatusProcessor serves GET_BROKER_RUNTIME_INFO (28) at a controller, so that mqadmin brokerStatus -b CONTROLLER shows how
// it is. Java's controllers have no such request; theirs export some of it as metrics (ControllerMetricsManager).
type StatusProcessor struct{ c *Controller }

// Process implements rpc.Processor.
func (p *StatusProcessor) Process(r *rpc.Request) {
	c, d := p.c, r.Defer()
	info := map[string]string{}
	c.ownStatus(info)
	posted := c.loop.post(func() {
		c.loop.status(info)
		c.answer(&d, respond(&d, codec.RespSuccess, "", nil, &body.KVTable{Table: info}))
	})
	if !posted { // the loop has ended or is overwhelmed: what is known without it
		if err := c.Err(); err != nil {
			info["failed"] = err.Error()
		}
		c.answer(&d, respond(&d, codec.RespSuccess, "", nil, &body.KVTable{Table: info}))
	}
}

// ownStatus is what can be told from any goroutine.
func (c *Controller) ownStatus(info map[string]string) {
	role := c.loop.role.Load()
	leader := c.byRaftID(role.LeaderID)
	info["controllerGroup"], info["controllerSelfId"] = c.members.group, c.members.self.id
	info["controllerPeers"] = c.members.String()
	info["controllerLeaderId"], info["controllerLeaderAddress"] = leader.id, leader.addr
	info["isLeader"], info["isReady"] = strconv.FormatBool(role.Leader), strconv.FormatBool(role.Ready)
	info["term"] = strconv.FormatUint(role.Term, 10)
	info["brokerVersionDesc"] = codec.VersionName(codec.AnnouncedVersion)
	info["bootTimestamp"] = strconv.FormatInt(c.started, 10)
	info["runtimeMillis"] = strconv.FormatInt(c.o.Clock.Millis()-c.started, 10)
	for key, n := range map[string]int64{
		"heartbeatsTotal":      c.tally.heartbeats.Load(),
		"proposalsTotal":       c.tally.proposals.Load(),
		"leaderChangesTotal":   c.tally.leaderChanges.Load(),
		"mastersElectedTotal":  c.tally.mastersElected.Load(),
		"electionsFailedTotal": c.tally.electionsFailed.Load(),
		"syncStateSetsTotal":   c.tally.setsAltered.Load(),
		"notificationsTotal":   c.notify.told.Load(),
		"notificationsFailed":  c.notify.missed.Load(),
		"brokersAlive":         int64(c.beats.alive(c.o.Clock.Now())),
	} {
		info[key] = strconv.FormatInt(n, 10)
	}
}

// status is what belongs to the loop.
func (l *loop) status(info map[string]string) {
	info["proposalsPending"], info["readsPending"] = strconv.Itoa(len(l.proposals)), strconv.Itoa(len(l.reads))
	info["electionsRunning"], info["requestsWaiting"] = strconv.Itoa(len(l.elections.running)), strconv.Itoa(len(l.posts))
	info["appliedIndex"] = strconv.FormatUint(l.node.Applied(), 10)
	state := l.node.State()
	names, without, behind := state.Names(), 0, 0
	for _, name := range names {
		g := state.Group(name)
		if g.Master == 0 {
			without++
		}
		if len(g.SyncStateSet) < len(g.Replicas) {
			behind++
		}
		if len(info) < maxStatusKeys {
			info["master_"+name] = fmt.Sprintf("%d, epoch %d, %d of %d replicas in sync", g.Master, g.MasterEpoch,
				len(g.SyncStateSet), len(g.Replicas))
		}
	}
	info["brokerNames"] = strconv.Itoa(len(names))
	info["brokerNamesWithoutMaster"], info["brokerNamesNotInSync"] = strconv.Itoa(without), strconv.Itoa(behind)
}

// maxStatusKeys bounds the answer: further broker names are counted only.
const maxStatusKeys = 2000

// alive counts the brokers that are heard of.
func (h *heartbeats) alive(now time.Time) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.beats {
		if b.alive(now) {
			n++
		}
	}
	return n
}
