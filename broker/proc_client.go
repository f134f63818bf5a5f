package broker

import (
	"fmt"
	"strings"

	"skylark/broker/conn"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

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
	// Names are cloned where they are kept: they are pieces of the request's text.
	cl := conn.Client{Conn: r.Conn(), ID: strings.Clone(hb.ClientID), Language: r.Cmd.Language,
		Version: r.Cmd.Version, LastUpdate: r.Millis()}
	defer p.b.forgetIfClosed(cl.Conn)
	// Java answers true to every V1 heartbeat: the client has sent its subscriptions and shall go on so.
	resend := hb.HeartbeatFingerprint == 0
	if len(hb.ConsumerDataSet) > 1 {
		p.manyGroups(&hb)
	}
	for _, cd := range hb.ConsumerDataSet {
		if cd == nil || cd.GroupName == "" {
			continue
		}
		again, err := p.consumer(cl, cd, &hb)
		if err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		resend = resend || again
	}
	if p.b.cfg.broker.EnableRegisterProducer {
		for _, pd := range hb.ProducerDataSet {
			if pd == nil || pd.GroupName == "" {
				continue
			}
			if err := p.b.producers.Register(strings.Clone(pd.GroupName), cl); err != nil {
				r.ReplyError(codec.RespSystemError, err.Error())
				return
			}
		}
	}
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	answer.SetBool(codec.ExtSubscriptionChanged, resend)
	answer.SetBool(codec.ExtSupportHeartbeatV2, true)
	r.Reply(answer)
}

// consumer registers one group of a heartbeat; resend asks a V2 client for its subscriptions. A group that
// does not exist and may not be made is passed over, as in Java: its pulls say why.
func (p *ClientManageProcessor) consumer(cl conn.Client, cd *body.ConsumerData,
	hb *body.HeartbeatData) (resend bool, err error) {
	b := p.b
	if b.cfg.broker.RejectPullConsumerEnable && cd.ConsumeType == body.ConsumeActively {
		return false, nil
	}
	g, err := b.groups.Find(strings.Clone(cd.GroupName))
	if err != nil {
		b.log.Warn("consumer not registered", "group", cd.GroupName, "client", cl.ID, "remote",
			cl.Conn.RemoteAddr(), "error", err)
		return false, nil
	}
	if err := p.retryTopic(cd, int(g.Config.RetryQueueNums)); err != nil {
		b.log.Warn("retry topic not made", "group", cd.GroupName, "error", err)
	}
	reg := conn.Registration{Client: cl, Group: g.Name, Type: cd.ConsumeType, Model: cd.MessageModel,
		From: cd.ConsumeFromWhere, WithoutSub: hb.WithoutSub && hb.HeartbeatFingerprint != 0,
		Fingerprint: hb.HeartbeatFingerprint}
	for _, sd := range cd.SubscriptionDataSet {
		if sd == nil || sd.Topic == "" {
			continue
		}
		// One that cannot be compiled is registered too: it harms nobody, and its pulls are answered with the
		// reason.
		s, _ := conn.NewSubscription(cloneSubscription(sd))
		reg.Subscription = append(reg.Subscription, s)
	}
	b.noteBegin(cl, cd)
	return b.consumers.Register(reg, g.Config.NotifyConsumerIDsChangedEnable)
}

func cloneSubscription(sd *body.SubscriptionData) *body.SubscriptionData {
	c := *sd
	c.Topic, c.SubString = strings.Clone(sd.Topic), strings.Clone(sd.SubString)
	c.ExpressionType = strings.Clone(sd.ExpressionType)
	c.TagsSet = make([]string, len(sd.TagsSet))
	for i, t := range sd.TagsSet {
		c.TagsSet[i] = strings.Clone(t)
	}
	return &c
}

// retryTopic makes the group's retry topic at its first heartbeat. It is an order topic if one of the
// subscribed topics is.
func (p *ClientManageProcessor) retryTopic(cd *body.ConsumerData, queues int) error {
	if queues <= 0 {
		return nil
	}
	order := p.ordered(cd)
	name := codec.RetryTopic(cd.GroupName)
	if t := p.b.topics.Get(name); t != nil {
		if order && !t.Order {
			return p.b.topics.SetOrder(name)
		}
		return nil
	}
	_, err := p.b.topics.CreateInSendBack(name, queues, codec.PermRead|codec.PermWrite, cd.UnitMode, order)
	return err
}

// ordered tells whether one of the subscribed topics is.
func (p *ClientManageProcessor) ordered(cd *body.ConsumerData) bool {
	for _, sd := range cd.SubscriptionDataSet {
		if sd != nil {
			if t := p.b.topics.Get(sd.Topic); t != nil && t.Order {
				return true
			}
		}
	}
	return false
}

// manyGroups makes what a client with many groups wants and the broker lacks, the groups and their retry topics, with one
// write for each kind. What it leaves, each group makes for itself.
func (p *ClientManageProcessor) manyGroups(hb *body.HeartbeatData) {
	var unknown []string
	for _, cd := range hb.ConsumerDataSet {
		if cd != nil && cd.GroupName != "" && p.b.groups.Get(cd.GroupName) == nil {
			unknown = append(unknown, strings.Clone(cd.GroupName))
		}
	}
	if len(unknown) > 0 {
		p.b.groups.FindAll(unknown)
	}
	var list []topic.SendBack
	for _, cd := range hb.ConsumerDataSet {
		if cd == nil || cd.GroupName == "" || p.b.topics.Get(codec.RetryTopic(cd.GroupName)) != nil {
			continue
		}
		if g := p.b.groups.Get(cd.GroupName); g != nil && g.Config.RetryQueueNums > 0 {
			list = append(list, topic.SendBack{Name: codec.RetryTopic(cd.GroupName), QueueNums: int(g.Config.RetryQueueNums),
				Perm: codec.PermRead | codec.PermWrite, Unit: cd.UnitMode, Order: p.ordered(cd)})
		}
	}
	if err := p.b.topics.CreateAllInSendBack(list); err != nil {
		p.b.log.Warn("retry topics not made", "groups", len(list), "error", err)
	}
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
		tell := p.b.locks.ReleaseClient(h.ConsumerGroup, h.ClientID)
		p.b.consumers.Unregister(h.ConsumerGroup, r.Conn(), p.b.wantsNotice(h.ConsumerGroup))
		p.b.tellToRebalance(tell)
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
		r.ReplyError(codec.RespSystemError,
			"The broker does not support consumer to filter message by "+sd.ExpressionType)
		return
	}
	if _, err := conn.NewSubscription(sd); err != nil {
		r.ReplyError(codec.RespSubscriptionParseFailed, err.Error())
		return
	}
	r.OK()
}

// ConsumerManageProcessor serves GET_CONSUMER_LIST_BY_GROUP (38), UPDATE_CONSUMER_OFFSET (15) and
// QUERY_CONSUMER_OFFSET (14): Java ConsumerManageProcessor.
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
	if b.groups.Get(h.ConsumerGroup) == nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("Group %s not exist!", h.ConsumerGroup))
		return
	}
	t := b.topics.Get(h.Topic)
	if t == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("Topic %s not exist!", h.Topic))
		return
	}
	if n := max(t.Config.ReadQueueNums, t.Config.WriteQueueNums); h.QueueID < 0 || h.QueueID >= n {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("queueId %d is illegal, topic %s has %d queues",
			h.QueueID, h.Topic, n))
		return
	}
	if b.cfg.broker.UseServerSideResetOffset && b.offsets.HasReset(h.Topic, h.ConsumerGroup, h.QueueID) {
		r.ReplyError(codec.RespSuccess, "Offset has been previously reset")
		return
	}
	if err := b.offsets.Commit(r.Conn().RemoteAddr(), h.ConsumerGroup, h.Topic, h.QueueID,
		h.CommitOffset); err != nil {
		b.replyError(r, err)
		return
	}
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
	switch {
	case h.SetZeroIfNotFound != nil && !*h.SetZeroIfNotFound:
		r.ReplyError(codec.RespQueryNotFound, "Not found, do not set to zero, maybe this group boot first")
	case b.store.MinOffset(h.Topic, h.QueueID) <= 0 && b.store.CheckInMemory(h.Topic, h.QueueID, 0):
		r.ReplyHeader(&codec.OffsetResponseHeader{Offset: 0})
	default:
		r.ReplyError(codec.RespQueryNotFound, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
	}
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
