package broker

import (
	"errors"
	"fmt"
	"strings"

	"skylark/broker/conn"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/filter"
	"skylark/reactor"
	"skylark/reactor/rpc"
)

// errSilent closes the connection of a client that sent no heartbeat for conn.ExpiredTimeout.
var errSilent = errors.New("broker: no heartbeat for 120 s")

// ClientManageProcessor serves HEART_BEAT (34), UNREGISTER_CLIENT (35) and CHECK_CLIENT_CONFIG (46): Java
// ClientManageProcessor.
type ClientManageProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ClientManageProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqHeartBeat:
		p.heartbeat(r)
	case codec.ReqUnregisterClient:
		p.unregister(r)
	case codec.ReqCheckClientConfig:
		p.checkConfig(r)
	}
}

func (p *ClientManageProcessor) heartbeat(r *rpc.Request) {
	var hb body.HeartbeatData
	if err := body.Decode(r.Cmd.Body, &hb); err != nil {
		r.ReplyError(codec.RespSystemError, "the heartbeat cannot be read: "+err.Error())
		return
	}
	if hb.ClientID == "" {
		r.ReplyError(codec.RespInvalidParameter, "the heartbeat has no clientID")
		return
	}
	cl := conn.Client{Conn: r.Conn(), ID: hb.ClientID, Language: r.Cmd.Language, Version: r.Cmd.Version,
		LastUpdate: r.Millis()}
	resend := false
	for _, cd := range hb.ConsumerDataSet {
		if cd == nil || cd.GroupName == "" {
			continue
		}
		again, err := p.consumer(r, cl, cd, hb.WithoutSub)
		if err != nil {
			r.ReplyError(codec.RespSubscriptionParseFailed, err.Error())
			return
		}
		resend = resend || again
	}
	if p.b.cfg.broker.EnableRegisterProducer {
		for _, pd := range hb.ProducerDataSet {
			if pd != nil && pd.GroupName != "" {
				p.b.producers.Register(pd.GroupName, cl)
			}
		}
	}
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	answer.SetBool(codec.ExtSubscriptionChanged, resend)
	answer.SetBool(codec.ExtSupportHeartbeatV2, true)
	r.Reply(answer)
}

// consumer registers one group of a heartbeat; resend asks a V2 client for its subscriptions.
func (p *ClientManageProcessor) consumer(r *rpc.Request, cl conn.Client, cd *body.ConsumerData, withoutSub bool) (
	resend bool, err error) {
	b := p.b
	if b.cfg.broker.RejectPullConsumerEnable && cd.ConsumeType == body.ConsumeActively {
		return false, nil
	}
	notify := true
	g, err := b.groups.Find(cd.GroupName)
	if err == nil {
		notify = g.Config.NotifyConsumerIDsChangedEnable
		if err := p.retryTopic(cd, int(g.Config.RetryQueueNums)); err != nil {
			b.log.Warn("retry topic not made", "group", cd.GroupName, "error", err)
		}
	}
	reg := conn.Registration{Client: cl, Group: cd.GroupName, Type: cd.ConsumeType, Model: cd.MessageModel,
		From: cd.ConsumeFromWhere, WithoutSub: withoutSub}
	for _, sd := range cd.SubscriptionDataSet {
		if sd == nil {
			continue
		}
		s, err := conn.NewSubscription(sd)
		if err != nil {
			return false, fmt.Errorf("the subscription of topic %s cannot be read: %w", sd.Topic, err)
		}
		reg.Subscription = append(reg.Subscription, s)
	}
	_, resend = b.consumers.Register(reg, notify)
	return resend, nil
}

// retryTopic makes the group's retry topic at its first heartbeat.
func (p *ClientManageProcessor) retryTopic(cd *body.ConsumerData, queues int) error {
	name := codec.RetryTopic(cd.GroupName)
	if p.b.topics.Get(name) != nil || queues <= 0 {
		return nil
	}
	order := false
	for _, sd := range cd.SubscriptionDataSet {
		if sd != nil {
			t := p.b.topics.Get(sd.Topic)
			order = order || t != nil && t.Order
		}
	}
	_, err := p.b.topics.CreateInSendBack(name, queues, codec.PermRead|codec.PermWrite, cd.UnitMode, order)
	return err
}

func (p *ClientManageProcessor) unregister(r *rpc.Request) {
	var h codec.UnregisterClientRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if h.ProducerGroup != "" {
		p.b.producers.Unregister(h.ProducerGroup, r.Conn())
	}
	if h.ConsumerGroup != "" {
		p.b.consumers.Unregister(h.ConsumerGroup, r.Conn(), p.b.wantsNotice(h.ConsumerGroup))
	}
	r.OK()
}

func (p *ClientManageProcessor) checkConfig(r *rpc.Request) {
	var q body.CheckClientRequestBody
	if err := body.Decode(r.Cmd.Body, &q); err != nil {
		r.ReplyError(codec.RespSystemError, "the request body cannot be read: "+err.Error())
		return
	}
	sd := q.SubscriptionData
	if sd == nil || sd.IsTag() {
		r.OK()
		return
	}
	if !p.b.cfg.broker.EnablePropertyFilter {
		r.ReplyError(codec.RespSystemError, "The broker does not support consumer to filter message by "+sd.ExpressionType)
		return
	}
	if _, err := filter.Compile(sd.SubString); err != nil {
		r.ReplyError(codec.RespSubscriptionParseFailed, err.Error())
		return
	}
	r.OK()
}

// wantsNotice tells whether a group's members are told about changes among them.
func (b *Broker) wantsNotice(name string) bool {
	g := b.groups.Get(name)
	return b.cfg.broker.NotifyConsumerIdsChangedEnable && (g == nil || g.Config.NotifyConsumerIDsChangedEnable)
}

// notifyConsumers sends NOTIFY_CONSUMER_IDS_CHANGED (40) to the members of a group.
func (b *Broker) notifyConsumers(groupName string, members []reactor.Conn) {
	if !b.cfg.broker.NotifyConsumerIdsChangedEnable {
		return
	}
	for _, c := range members {
		req := codec.NewRequest(codec.ReqNotifyConsumerIDsChanged)
		req.Set("consumerGroup", groupName)
		if err := b.server.Oneway(c, req); err != nil {
			b.log.Debug("member not told of a change", "group", groupName, "remote", c.RemoteAddr(), "error", err)
		}
	}
}

// ConsumerManageProcessor serves GET_CONSUMER_LIST_BY_GROUP (38), UPDATE_CONSUMER_OFFSET (15) and QUERY_CONSUMER_OFFSET
// (14): Java ConsumerManageProcessor.
type ConsumerManageProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ConsumerManageProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqGetConsumerListByGroup:
		p.list(r)
	case codec.ReqUpdateConsumerOffset:
		p.update(r)
	case codec.ReqQueryConsumerOffset:
		p.query(r)
	}
}

func (p *ConsumerManageProcessor) list(r *rpc.Request) {
	var h codec.ConsumerGroupRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if cg := p.b.consumers.Get(h.ConsumerGroup); cg != nil {
		if ids := cg.IDs(); len(ids) > 0 {
			p.b.replyJSON(r, &body.GetConsumerListByGroupResponseBody{ConsumerIDList: ids})
			return
		}
	}
	r.ReplyError(codec.RespSystemError, "no consumer for this group, "+h.ConsumerGroup)
}

func (p *ConsumerManageProcessor) update(r *rpc.Request) {
	var h codec.UpdateConsumerOffsetRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	if _, err := b.groups.Find(h.ConsumerGroup); err != nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("Group %s not exist!", h.ConsumerGroup))
		return
	}
	if b.topics.Get(h.Topic) == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("Topic %s not exist!", h.Topic))
		return
	}
	if b.offsets.HasReset(h.Topic, h.ConsumerGroup, h.QueueID) {
		r.ReplyError(codec.RespSuccess, "Offset has been previously reset")
		return
	}
	b.offsets.Commit(r.Conn().RemoteAddr(), h.ConsumerGroup, h.Topic, h.QueueID, h.CommitOffset)
	r.OK()
}

func (p *ConsumerManageProcessor) query(r *rpc.Request) {
	var h codec.QueryConsumerOffsetRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	if at, ok := b.offsets.Query(h.ConsumerGroup, h.Topic, h.QueueID); ok {
		r.ReplyHeader(&codec.OffsetResponseHeader{Offset: at})
		return
	}
	zero := h.SetZeroIfNotFound == nil || *h.SetZeroIfNotFound
	if zero && b.store.MinOffset(h.Topic, h.QueueID) <= 0 && b.store.CheckInMemory(h.Topic, h.QueueID, 0) {
		r.ReplyHeader(&codec.OffsetResponseHeader{Offset: 0})
		return
	}
	r.ReplyError(codec.RespQueryNotFound, "Not found, maybe this group consumer boot first")
}

// replyJSON answers with a body in Java's shape.
func (b *Broker) replyJSON(r *rpc.Request, v any) {
	data, err := body.Encode(v)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	r.ReplyBody(data)
}

// splitList reads a list as tools send it: parts joined by sep, empty ones left out.
func splitList(text, sep string) (out []string) {
	for part := range strings.SplitSeq(text, sep) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
