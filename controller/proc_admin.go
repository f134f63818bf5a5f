package controller

import (
	"fmt"
	"strconv"
	"strings"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/config/update"
	"skylark/controller/replicas"
	"skylark/reactor/rpc"
)

var adminCodes = []int{codec.ReqControllerGetSyncStateData, codec.ReqCleanBrokerData, codec.ReqUpdateControllerConfig,
	codec.ReqGetControllerConfig}

// maxNames bounds the broker names of one GET_SYNC_STATE_DATA.
const maxNames = 4096

// AdminProcessor serves what operators ask for (Java ControllerRequestProcessor: 1006, 1009 to 1011). Deviations: those
// of package update.
type AdminProcessor struct {
	c        *Controller
	settings *update.Settings
}

// Process implements rpc.Processor.
func (p *AdminProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqControllerGetSyncStateData:
		p.getSyncStateData(r)
	case codec.ReqCleanBrokerData:
		p.cleanBrokerData(r)
	case codec.ReqGetControllerConfig:
		p.settings.Show(r)
	case codec.ReqUpdateControllerConfig:
		p.settings.Change(r)
	}
}

func (p *AdminProcessor) getSyncStateData(r *rpc.Request) {
	var names []string
	if len(r.Cmd.Body) > 0 {
		if err := body.Decode(r.Cmd.Body, &names); err != nil {
			r.ReplyError(codec.RespInvalidParameter, "body: "+err.Error())
			return
		}
	}
	if len(names) > maxNames {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("%d broker names, at most %d", len(names), maxNames))
		return
	}
	p.c.read(r, func(d *rpc.Deferred, s *replicas.State) *codec.Command {
		out := &body.BrokerReplicasInfo{ReplicasInfoTable: map[string]*body.ReplicasInfo{}}
		for _, name := range names {
			if g := s.Group(name); g != nil {
				out.ReplicasInfoTable[name] = p.replicasInfo(g)
			}
		}
		return respond(d, codec.RespSuccess, "", nil, out)
	})
}

func (p *AdminProcessor) replicasInfo(g *replicas.Group) *body.ReplicasInfo {
	info := &body.ReplicasInfo{MasterBrokerID: masterID(g), MasterAddress: g.Address(g.Master), MasterEpoch: &g.MasterEpoch,
		SyncStateSetEpoch: &g.SyncStateSetEpoch, InSyncReplicas: []*body.ReplicaIdentity{},
		NotInSyncReplicas: []*body.ReplicaIdentity{}}
	now := p.c.o.Clock.Now()
	for _, rep := range g.Replicas {
		live, _ := p.c.beats.look(now, g.Name, []int64{rep.ID})
		alive := len(live) > 0
		id := &body.ReplicaIdentity{Alive: &alive, BrokerAddress: rep.Address, BrokerID: rep.ID, BrokerName: g.Name}
		if g.InSync(rep.ID) {
			info.InSyncReplicas = append(info.InSyncReplicas, id)
		} else {
			info.NotInSyncReplicas = append(info.NotInSyncReplicas, id)
		}
	}
	return info
}

func (p *AdminProcessor) cleanBrokerData(r *rpc.Request) {
	var h codec.CleanBrokerDataRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	e := &replicas.Event{Kind: replicas.KindCleanBroker, Cluster: h.ClusterName, Broker: h.BrokerName,
		CleanLiving: h.IsCleanLivingBroker}
	for text := range strings.SplitSeq(h.BrokerControllerIDsToClean, ";") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			r.ReplyError(codec.RespControllerInvalidCleanBrokerMetadata,
				"Please set the option <brokerControllerIdsToClean> according to the format, exception: "+err.Error())
			return
		}
		e.IDs = append(e.IDs, id)
	}
	remote := r.Conn().RemoteAddr()
	p.c.propose(r, e, func(d *rpc.Deferred, dec *replicas.Decision) *codec.Command {
		if dec.OK() {
			p.c.o.Log.Warn("replicas removed", "broker", e.Broker, "ids", e.IDs, "living", e.CleanLiving, "remote", remote)
		}
		return respond(d, dec.Code, dec.Remark, nil, nil)
	})
}
