package controller

import (
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/controller/node"
	"skylark/controller/replicas"
	"skylark/reactor/rpc"
)

var brokerCodes = []int{codec.ReqControllerAlterSyncStateSet, codec.ReqControllerElectMaster,
	codec.ReqControllerRegisterBroker, codec.ReqControllerGetReplicaInfo, codec.ReqControllerGetMetadataInfo,
	codec.ReqControllerGetNextBrokerID, codec.ReqControllerApplyBrokerID}

// BrokerProcessor serves what brokers ask for (Java ControllerRequestProcessor: 1001 to 1005, 1012, 1013).
type BrokerProcessor struct{ c *Controller }

// Process implements rpc.Processor.
func (p *BrokerProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqControllerAlterSyncStateSet:
		p.alterSyncStateSet(r)
	case codec.ReqControllerElectMaster:
		p.electMaster(r)
	case codec.ReqControllerRegisterBroker:
		p.registerBroker(r)
	case codec.ReqControllerGetReplicaInfo:
		p.getReplicaInfo(r)
	case codec.ReqControllerGetMetadataInfo:
		p.getMetadata(r)
	case codec.ReqControllerGetNextBrokerID:
		p.getNextBrokerID(r)
	case codec.ReqControllerApplyBrokerID:
		p.applyBrokerID(r)
	}
}

func (p *BrokerProcessor) alterSyncStateSet(r *rpc.Request) {
	var h codec.AlterSyncStateSetRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) || absent(r, "masterBrokerId", h.MasterBrokerID) ||
		absent(r, "masterEpoch", h.MasterEpoch) {
		return
	}
	var set body.SyncStateSet
	if err := body.Decode(r.Cmd.Body, &set); err != nil {
		r.ReplyError(codec.RespControllerInvalidRequest, "body: "+err.Error())
		return
	}
	e := &replicas.Event{Kind: replicas.KindAlterSyncStateSet, Broker: h.BrokerName, BrokerID: *h.MasterBrokerID,
		MasterEpoch: *h.MasterEpoch, SetEpoch: set.SyncStateSetEpoch, SyncStateSet: set.SyncStateSet}
	p.c.propose(r, e, func(d *rpc.Deferred, dec *replicas.Decision) *codec.Command {
		if !dec.OK() {
			return respond(d, dec.Code, dec.Remark, &codec.AlterSyncStateSetResponseHeader{}, nil)
		}
		p.c.tally.setsAltered.Add(1)
		p.c.o.Log.Info("SyncStateSet", "broker", dec.Group.Name, "syncStateSet", dec.Group.SyncStateSet, "epoch",
			dec.Group.SyncStateSetEpoch)
		header := &codec.AlterSyncStateSetResponseHeader{NewSyncStateSetEpoch: dec.Group.SyncStateSetEpoch}
		return respond(d, dec.Code, "", header, syncStateSet(dec.Group))
	})
}

func (p *BrokerProcessor) electMaster(r *rpc.Request) {
	var h codec.ElectMasterRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if h.BrokerID < 1 { // the controllers' own kind of election has to name the epoch it saw
		r.ReplyError(codec.RespControllerInvalidRequest, "brokerId is missing")
		return
	}
	e := &replicas.Event{Kind: replicas.KindElectMaster, Cluster: h.ClusterName, Broker: h.BrokerName, BrokerID: h.BrokerID,
		Designate: h.DesignateElect, Unclean: p.c.settings().EnableElectUncleanMaster}
	p.c.proposeWhen(r, e, p.heardOf(e), func(d *rpc.Deferred, dec *replicas.Decision) *codec.Command {
		if !dec.OK() && dec.Code != codec.RespControllerMasterStillExist {
			return respond(d, dec.Code, dec.Remark, nil, nil)
		}
		g := dec.Group
		content := &body.ElectMasterResponseBody{SyncStateSet: g.SyncStateSet}
		if dec.Elected {
			addrs := map[int64]string{}
			for _, rep := range g.Replicas {
				addrs[rep.ID] = rep.Address
			}
			content.BrokerMemberGroup = &body.BrokerMemberGroup{Cluster: g.Cluster, BrokerName: g.Name, BrokerAddrs: addrs}
			p.c.elected(g)
		}
		return respond(d, dec.Code, dec.Remark, &codec.ElectMasterResponseHeader{MasterBrokerID: masterID(g),
			MasterAddress: g.Address(g.Master), MasterEpoch: &g.MasterEpoch, SyncStateSetEpoch: &g.SyncStateSetEpoch}, content)
	})
}

// heardOf tells whether the one who wants to be the first master has been heard of. Java's brokers send the heartbeat that
// tells their last epoch just before, but in another thread.
func (p *BrokerProcessor) heardOf(e *replicas.Event) func() bool {
	return func() bool {
		g := p.c.loop.node.State().Group(e.Broker)
		if g == nil || g.MasterEpoch > 0 {
			return true
		}
		live, _ := p.c.beats.look(p.c.o.Clock.Now(), e.Broker, []int64{e.BrokerID})
		return len(live) > 0
	}
}

func (p *BrokerProcessor) registerBroker(r *rpc.Request) {
	var h codec.RegisterBrokerToControllerRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) || absent(r, "brokerId", h.BrokerID) {
		return
	}
	e := &replicas.Event{Kind: replicas.KindRegisterBroker, Cluster: h.ClusterName, Broker: h.BrokerName, BrokerID: *h.BrokerID,
		Address: h.BrokerAddress}
	p.c.propose(r, e, func(d *rpc.Deferred, dec *replicas.Decision) *codec.Command {
		header := &codec.RegisterBrokerToControllerResponseHeader{ClusterName: e.Cluster, BrokerName: e.Broker}
		if !dec.OK() {
			return respond(d, dec.Code, dec.Remark, header, nil)
		}
		if g := dec.Group; dec.MasterKnown {
			header.MasterBrokerID, header.MasterAddress = masterID(g), g.Address(g.Master)
			header.MasterEpoch, header.SyncStateSetEpoch = &g.MasterEpoch, &g.SyncStateSetEpoch
		} else {
			p.c.loop.elections.missed(g)
		}
		return respond(d, dec.Code, "", header, syncStateSet(dec.Group))
	})
}

func (p *BrokerProcessor) getReplicaInfo(r *rpc.Request) {
	var h codec.GetReplicaInfoRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	p.c.read(r, func(d *rpc.Deferred, s *replicas.State) *codec.Command {
		g := s.Group(h.BrokerName)
		if g == nil {
			return respond(d, codec.RespControllerBrokerMetadataNotExist, "Broker metadata is not existed", nil, nil)
		}
		return respond(d, codec.RespSuccess, "", &codec.GetReplicaInfoResponseHeader{MasterBrokerID: masterID(g),
			MasterAddress: g.Address(g.Master), MasterEpoch: &g.MasterEpoch}, syncStateSet(g))
	})
}

// getMetadata is answered by every member, leader or not.
func (p *BrokerProcessor) getMetadata(r *rpc.Request) {
	role := p.c.loop.role.Load()
	leader := p.c.byRaftID(role.LeaderID)
	r.ReplyHeader(&codec.GetMetadataResponseHeader{Group: p.c.members.group, ControllerLeaderID: leader.id,
		ControllerLeaderAddress: leader.addr, IsLeader: role.Leader, Peers: p.c.members.String()})
}

func (p *BrokerProcessor) getNextBrokerID(r *rpc.Request) {
	var h codec.GetNextBrokerIDRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	p.c.read(r, func(d *rpc.Deferred, s *replicas.State) *codec.Command {
		id := s.NextID(h.BrokerName)
		return respond(d, codec.RespSuccess, "",
			&codec.GetNextBrokerIDResponseHeader{ClusterName: h.ClusterName, BrokerName: h.BrokerName, NextBrokerID: &id}, nil)
	})
}

func (p *BrokerProcessor) applyBrokerID(r *rpc.Request) {
	var h codec.ApplyBrokerIDRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) || absent(r, "appliedBrokerId", h.AppliedBrokerID) {
		return
	}
	e := &replicas.Event{Kind: replicas.KindApplyBrokerID, Cluster: h.ClusterName, Broker: h.BrokerName,
		BrokerID: *h.AppliedBrokerID, CheckCode: h.RegisterCheckCode}
	p.c.propose(r, e, func(d *rpc.Deferred, dec *replicas.Decision) *codec.Command {
		if dec.OK() {
			p.c.o.Log.Info("broker id given out", "broker", e.Broker, "id", e.BrokerID, "checkCode", e.CheckCode)
		}
		header := &codec.ApplyBrokerIDResponseHeader{ClusterName: e.Cluster, BrokerName: e.Broker}
		return respond(d, dec.Code, dec.Remark, header, nil)
	})
}

// absent answers a request that lacks a field.
func absent[T any](r *rpc.Request, field string, value *T) bool {
	if value != nil {
		return false
	}
	r.ReplyError(codec.RespInvalidParameter, "the header field \""+field+"\" is missing")
	return true
}

// HeartbeatProcessor hears brokers (Java ControllerRequestProcessor: 904). Every member hears them itself.
type HeartbeatProcessor struct{ c *Controller }

// Values of a heartbeat that does not have the field (Java DefaultBrokerHeartbeatManager.onBrokerHeartbeat).
const (
	unknownEpoch    = -1
	unknownOffset   = -1
	lowestPriority  = 1<<31 - 1
	heartbeatRemark = "Heart beat success"
)

// ProcessOnLoop implements rpc.LoopProcessor. It never waits: a heartbeat is there before what the broker asks next.
func (p *HeartbeatProcessor) ProcessOnLoop(r *rpc.Request) bool {
	p.Process(r)
	return true
}

// Process implements rpc.Processor.
func (p *HeartbeatProcessor) Process(r *rpc.Request) {
	var h codec.BrokerHeartbeatRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if h.BrokerID == nil {
		r.ReplyError(codec.RespControllerInvalidRequest, "Heart beat with empty brokerId")
		return
	}
	if len(h.BrokerName) > replicas.MaxText {
		r.ReplyError(codec.RespInvalidParameter, "brokerName is too long")
		return
	}
	b := beat{conn: r.Conn().ID(), addr: h.BrokerAddr,
		live: replicas.Live{ID: *h.BrokerID, Epoch: unknownEpoch, MaxOffset: unknownOffset, Priority: lowestPriority}}
	if h.Epoch != nil {
		b.live.Epoch = *h.Epoch
	}
	if h.MaxOffset != nil {
		b.live.MaxOffset = int64(*h.MaxOffset)
	}
	if h.ElectionPriority != nil {
		b.live.Priority = *h.ElectionPriority
	}
	if h.HeartbeatTimeoutMillis != nil {
		b.timeout = time.Duration(min(*h.HeartbeatTimeoutMillis, maxBeatTimeout.Milliseconds())) * time.Millisecond
	}
	p.c.tally.heartbeats.Add(1)
	fresh, ok := p.c.beats.hear(p.c.o.Clock.Now(), brokerKey{h.BrokerName, *h.BrokerID}, b)
	if !ok {
		r.ReplyError(codec.RespSystemBusy, "too many brokers are heard of")
		return
	}
	if fresh {
		p.c.o.Log.Info("broker is heard of", "broker", h.BrokerName, "id", *h.BrokerID, "remote", h.BrokerAddr)
		p.c.loop.post(func() { p.c.loop.elections.back(h.BrokerName) })
	}
	r.ReplyError(codec.RespSuccess, heartbeatRemark)
}

// RaftProcessor takes the messages of other members.
type RaftProcessor struct{ c *Controller }

// Process implements rpc.Processor.
func (p *RaftProcessor) Process(r *rpc.Request) {
	group, from, to := r.Cmd.Get(fieldGroup), r.Cmd.Get(fieldFrom), r.Cmd.Get(fieldTo)
	if _, known := p.c.links[node.RaftID(from)]; group != p.c.members.group || to != p.c.members.self.id || !known {
		r.ReplyError(codec.RespNoPermission, "this is "+p.c.members.self.id+" of the group "+p.c.members.group+
			", which does not know you")
		return
	}
	ms, err := decodeMessages(r.Cmd.Body, from)
	if err != nil {
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return
	}
	if !p.c.loop.step(ms) {
		r.ReplyError(p.c.loop.refusal(node.ErrBusy))
		return
	}
	r.OK()
}
