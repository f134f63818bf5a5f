package broker

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"skylark/broker/conn"
	"skylark/broker/consumeradmin"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// ConsumerAdminProcessor serves what tools ask about groups and their offsets:
// INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223, which asks the clients by 221), QUERY_CONSUME_TIME_SPAN (303),
// QUERY_CORRECTION_OFFSET (308), CLONE_GROUP_OFFSET (314), GET_BROKER_CONSUME_STATS (317), QUERY_CONSUME_QUEUE
// (321), QUERY_TOPICS_BY_CONSUMER (343), QUERY_SUBSCRIPTION_BY_CONSUMER (345): Java AdminBrokerProcessor.
// Deviations: docs/compat.md.
type ConsumerAdminProcessor struct{ b *Broker }

// statusTimeout bounds how long a client may think about 221 (Java: 5 s for one after the other).
const statusTimeout = 5 * time.Second

// Process implements rpc.Processor.
func (p *ConsumerAdminProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqInvokeBrokerToGetConsumerStatus:
		p.status(r)
	case codec.ReqQueryConsumeTimeSpan:
		p.timeSpan(r)
	case codec.ReqQueryCorrectionOffset:
		p.correction(r)
	case codec.ReqCloneGroupOffset:
		p.clone(r)
	case codec.ReqGetBrokerConsumeStats:
		p.brokerStats(r)
	case codec.ReqQueryConsumeQueue:
		p.consumeQueue(r)
	case codec.ReqQueryTopicsByConsumer:
		p.topics(r)
	case codec.ReqQuerySubscriptionByConsumer:
		p.subscription(r)
	}
}

// status asks the members of a group, or one of them, for their offsets, all at once and without a goroutine that
// waits. Those that do not answer are left out, as in Java.
func (p *ConsumerAdminProcessor) status(r *rpc.Request) {
	var h codec.GetConsumerStatusRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	var members, ask []*conn.Client
	if cg := b.consumers.Get(h.Group); cg != nil {
		members = cg.Clients()
	}
	if len(members) == 0 {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("No Any Consumer online in the consumer group: [%s]", h.Group))
		return
	}
	for _, c := range members {
		if c.Version < codec.Version307Snapshot {
			r.ReplyError(codec.RespSystemError, "the client does not support this feature. version="+
				codec.VersionName(c.Version))
			return
		}
		if h.ClientAddr == "" || h.ClientAddr == c.ID {
			ask = append(ask, c)
		}
	}
	g := &statusGathering{b: b, h: h, open: len(ask), table: body.GetConsumerStatusBody{
		ConsumerTable:     map[string]map[body.MessageQueue]codec.QueueOffset{},
		MessageQueueTable: map[body.MessageQueue]codec.QueueOffset{}}}
	if len(ask) == 0 {
		b.replyJSON(r, &g.table)
		return
	}
	g.reply = r.Defer()
	b.inflight.add()
	for _, c := range ask {
		req := codec.NewRequest(codec.ReqGetConsumerStatusFromClient)
		codec.EncodeHeader(req, &codec.GetConsumerStatusRequestHeader{Topic: h.Topic, Group: h.Group})
		b.server.CallAsync(c.Conn, req, statusTimeout, func(answer *codec.Command, err error) { g.take(c.ID, answer, err) })
	}
}

// statusGathering is a 223 under way.
type statusGathering struct {
	b     *Broker
	h     codec.GetConsumerStatusRequestHeader
	reply rpc.Deferred
	mu    sync.Mutex
	open  int
	table body.GetConsumerStatusBody
}

// take enters a client's answer; the last one answers the tool.
func (g *statusGathering) take(clientID string, answer *codec.Command, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var got body.GetConsumerStatusBody
	switch {
	case err != nil:
	case answer.Code != codec.RespSuccess:
		err = fmt.Errorf("code %d: %s", answer.Code, answer.Remark)
	case len(answer.Body) > 0:
		if err = body.Decode(answer.Body, &got); err == nil {
			g.table.ConsumerTable[clientID] = got.MessageQueueTable
		}
	}
	if err != nil {
		g.b.log.Warn("member did not tell its offsets", "group", g.h.Group, "topic", g.h.Topic, "clientId", clientID,
			"error", err)
	}
	if g.open--; g.open > 0 {
		return
	}
	defer g.b.inflight.done()
	out := g.reply.Response(codec.RespSuccess, "")
	if out.Body, err = body.Encode(&g.table); err != nil {
		out.Code, out.Remark = codec.RespSystemError, err.Error()
	}
	_ = g.reply.Reply(out) // the tool may be gone
}

func (p *ConsumerAdminProcessor) timeSpan(r *rpc.Request) {
	var h codec.QueryConsumeTimeSpanRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	spans, err := p.b.groupAdmin.TimeSpan(h.Topic, h.Group)
	if err != nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist", h.Topic))
		return
	}
	p.b.replyJSON(r, spans)
}

func (p *ConsumerAdminProcessor) correction(r *rpc.Request) {
	var h codec.QueryCorrectionOffsetRequestHeader
	if r.Decode(&h, codec.RespInvalidParameter) {
		p.b.replyJSON(r, p.b.groupAdmin.CorrectionOffsets(h.Topic, h.FilterGroups, h.CompareGroup))
	}
}

func (p *ConsumerAdminProcessor) clone(r *rpc.Request) {
	var h codec.CloneGroupOffsetRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	topics, err := p.b.groupAdmin.CloneOffsets(h.SrcGroup, h.DestGroup, h.Topic, h.Offline)
	if err == nil {
		err = p.b.offsets.Persist()
	}
	if err != nil {
		p.b.replyError(r, err)
		return
	}
	p.b.log.Info("offsets cloned", "from", h.SrcGroup, "group", h.DestGroup, "topics", topics)
	r.OK()
}

func (p *ConsumerAdminProcessor) brokerStats(r *rpc.Request) {
	var h codec.GetBrokerConsumeStatsRequestHeader
	if r.Decode(&h, codec.RespInvalidParameter) {
		p.b.replyJSON(r, p.b.groupAdmin.BrokerConsumeStats(p.b.advertised.Text, h.IsOrder))
	}
}

func (p *ConsumerAdminProcessor) consumeQueue(r *rpc.Request) {
	var h codec.QueryConsumeQueueRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	answer, err := p.b.groupAdmin.ConsumeQueue(&h)
	if errors.Is(err, consumeradmin.ErrNoQueue) {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("%d@%s is not exist!", h.QueueID, h.Topic))
		return
	}
	out := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	if len(answer.QueueData) == 0 {
		out.Remark = fmt.Sprintf("Index %d of %d@%s is not exist!", h.Index, h.QueueID, h.Topic)
	}
	if out.Body, err = body.Encode(answer); err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	r.Reply(out)
}

func (p *ConsumerAdminProcessor) topics(r *rpc.Request) {
	var h codec.GroupRequestHeader
	if r.Decode(&h, codec.RespInvalidParameter) {
		p.b.replyJSON(r, &body.TopicList{TopicList: p.b.offsets.TopicsOf(h.Group), BrokerAddr: p.b.advertised.Text})
	}
}

func (p *ConsumerAdminProcessor) subscription(r *rpc.Request) {
	var h codec.QuerySubscriptionByConsumerRequestHeader
	if r.Decode(&h, codec.RespInvalidParameter) {
		p.b.replyJSON(r, &body.QuerySubscriptionResponseBody{Group: h.Group, Topic: h.Topic,
			SubscriptionData: p.b.groupAdmin.Subscription(h.Group, h.Topic)})
	}
}

// maxConflictsShown bounds the conflicts that the runtime info names.
const maxConflictsShown = 16

// consumerInfo tells operators about groups that are not well: in GET_BROKER_RUNTIME_INFO, which mqadmin's
// brokerStatus prints.
func (b *Broker) consumerInfo(info map[string]string) {
	conflicts := b.consumers.Conflicts()
	for _, c := range conflicts[:min(len(conflicts), maxConflictsShown)] {
		info["subscriptionConflict_"+c.Group] = c.Text
	}
	info["subscriptionConflicts"] = strconv.Itoa(len(conflicts))
	info["subscriptionConflictsTotal"] = strconv.FormatInt(b.consumers.ConflictCount(), 10)
	info["consumerGhostsTotal"] = strconv.FormatInt(b.consumers.GhostCount(), 10)
	info["consumerClientIdTwiceTotal"] = strconv.FormatInt(b.consumers.DoubleCount(), 10)
	locks, contested := b.locks.Counts()
	info["queueLocks"], info["queueLocksContested"] = strconv.Itoa(locks), strconv.Itoa(contested)
}
