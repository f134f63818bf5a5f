package broker

import (
	"skylark/broker/replicas"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// ReplicasProcessor serves what a broker in controller mode is told and asked: NOTIFY_BROKER_ROLE_CHANGED (1008) and
// GET_BROKER_EPOCH_CACHE (1007): Java AdminBrokerProcessor.
type ReplicasProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ReplicasProcessor) Process(r *rpc.Request) {
	if r.Cmd.Code == codec.ReqGetBrokerEpochCache {
		p.epochs(r)
		return
	}
	var h codec.NotifyBrokerRoleChangedRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	v, err := replicas.ReadNotice(&h, r.Cmd.Body)
	if err != nil {
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return
	}
	if s := p.b.replica.switching; s != nil {
		if m := s.manager.Load(); m != nil {
			m.Notified(v)
		}
	}
	r.OK()
}

func (p *ReplicasProcessor) epochs(r *rpc.Request) {
	b := p.b
	s := b.replica.switching
	if s == nil {
		r.ReplyError(codec.RespSystemError, "this request only for controllerMode ")
		return
	}
	list := s.ha.EpochEntries()
	out := &body.EpochEntryCache{BrokerID: b.brokerID(), BrokerName: b.cfg.broker.BrokerName,
		ClusterName: b.cfg.broker.BrokerClusterName, EpochList: make([]*body.EpochEntry, len(list)),
		MaxOffset: b.store.MaxPhyOffset()}
	for i, e := range list {
		out.EpochList[i] = &body.EpochEntry{Epoch: e.Epoch, StartOffset: e.StartOffset, EndOffset: e.EndOffset}
	}
	b.replyJSON(r, out)
}
