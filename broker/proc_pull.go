package broker

import (
	"fmt"
	"sync"

	"skylark/broker/conn"
	"skylark/broker/consumerfilter"
	"skylark/broker/group"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/internal/latency"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// PullMessageProcessor serves PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): Java PullMessageProcessor and
// DefaultPullMessageResultHandler.
//
// A pull is served on the event loop: one pass over the ConsumeQueue, the answer is a header and ranges of
// mappings, written with one writev. What is not in memory goes to the pull pool, whose worker reads it in
// first. Nothing found and allowed to wait: the request is parked in hold (pull_hold.go) and served again by
// whoever reports the arrival.
//
// Deviations: a pull that carries its subscription is served with it even when the heartbeat's is older (the
// Java broker refuses for up to 30 s, spec client-quirks.md 1). An offset reset that waits is answered before
// the request's own offset is committed, which would undo it.
type PullMessageProcessor struct{ b *Broker }

// ProcessOnLoop implements rpc.LoopProcessor.
func (p *PullMessageProcessor) ProcessOnLoop(r *rpc.Request) bool { return p.process(r) }

// Process implements rpc.Processor.
func (p *PullMessageProcessor) Process(r *rpc.Request) { p.process(r) }

// pull is one execution: of a request, or of a parked one that was woken.
type pull struct {
	b      *Broker
	h      codec.PullMessageHeader
	conn   reactor.Conn
	code   int // of the request
	typ    codec.SerializeType
	opaque int32
	oneway bool
	// first: not woken; the offset is committed, and the request may be parked.
	first bool
	// mayWait: for the disk, and for a group to be made. Without it (on a loop, in the reput service) process
	// gives up.
	mayWait bool
	// afterCold: it was held for cold data (cold_flow.go) and is served now.
	afterCold bool
	refused   bool
	millis    int64 // when it began
	out       *reactor.Outbox
	span      *latency.Span

	topic *topic.Topic
	group *group.Group
	sub   *conn.Subscription
	data  *consumerfilter.Entry // of a SQL92 subscription that a heartbeat brought

	match consumerfilter.MessageFilter
	get   store.GetRequest
	res   store.GetResult
	resp  codec.PullResponse
}

var pulls = sync.Pool{New: func() any { return &pull{} }}

func (q *pull) release() {
	q.res.Messages.Release()
	*q = pull{h: q.h, res: store.GetResult{Messages: q.res.Messages}} // the scratch and the capacity stay
	pulls.Put(q)
}

// process serves one request; false only on a loop, when it would have to wait.
func (p *PullMessageProcessor) process(r *rpc.Request) bool {
	q := pulls.Get().(*pull)
	defer q.release()
	q.b, q.conn, q.out, q.millis = p.b, r.Conn(), r.Out(), r.Millis()
	q.code, q.typ, q.opaque, q.oneway = r.Cmd.Code, r.Cmd.Type, r.Cmd.Opaque, r.Cmd.IsOneway()
	q.first, q.mayWait, q.span = true, !r.OnLoop(), r.Turn().Span()
	if err := q.h.Decode(r.Cmd); err != nil {
		q.refuse(codec.RespInvalidParameter, err.Error(), 0)
		return true
	}
	st, known := q.conn.Context().(*connState)
	if known {
		q.beginAt(st)
	}
	outcome := q.serve()
	if outcome == pullParked {
		q.span.Uncount(latency.Pull)
	}
	if known && outcome != pullWouldWait && !q.refused { // who was refused asks again
		q.begun(st)
	}
	return outcome != pullWouldWait
}

// pullOutcome is what became of an execution.
type pullOutcome int

const (
	pullAnswered  pullOutcome = iota // in out, nothing for a oneway request
	pullParked                       // somebody else answers
	pullWouldWait                    // nothing was done
)

func (q *pull) serve() pullOutcome {
	switch ok, outcome := q.check(); {
	case outcome == pullWouldWait:
		return outcome
	case !ok:
		return pullAnswered
	}
	b, h := q.b, &q.h
	if b.cold.Enabled() {
		if outcome, done := q.limitCold(); done {
			return outcome
		}
	}
	if at, reset := b.offsets.TakeReset(q.topic.Name, q.group.Name, h.QueueID); reset {
		q.res.Status, q.res.NextOffset = store.GetOffsetReset, at
		q.res.MinOffset = b.store.MinOffset(q.topic.Name, h.QueueID)
		q.res.MaxOffset = b.store.MaxOffset(q.topic.Name, h.QueueID)
		q.res.SuggestSlave = false
		return q.answer()
	}
	q.get = store.GetRequest{Topic: q.topic.Name, QueueID: h.QueueID, Offset: h.QueueOffset,
		MaxMsgs: int(h.MaxMsgNums), MaxBytes: int(h.MaxMsgBytes), AllowCold: q.mayWait}
	if !q.sub.All() {
		q.get.Filter = q.filter()
	}
	q.span.About(q.topic.Name, h.QueueID)
	q.span.Enter(latency.Read)
	b.store.Get(&q.get, &q.res)
	q.span.Enter(latency.Serve)
	if q.res.Status == store.GetCold {
		return pullWouldWait
	}
	if q.res.ColdBytes > 0 && !ownGroup(q.group.Name) {
		b.cold.Count(q.group.Name, q.res.ColdBytes)
	}
	if q.first && h.SysFlag&codec.PullFlagCommitOffset != 0 && h.CommitOffset >= 0 {
		if err := b.offsets.Commit(q.conn.RemoteAddr(), q.group.Name, q.topic.Name, h.QueueID,
			h.CommitOffset); err != nil {
			b.log.Warn("consumer offset not taken", "group", q.group.Name, "topic", q.topic.Name, "error", err)
		}
	}
	return q.answer()
}

// check resolves group, topic and subscription in Java's order. !ok: answered, or the outcome is
// pullWouldWait.
func (q *pull) check() (ok bool, outcome pullOutcome) {
	b, h := q.b, &q.h
	if b.permission.Load()&codec.PermRead == 0 {
		return q.refuse(codec.RespNoPermission, fmt.Sprintf("the broker[%s] pulling message is forbidden",
			b.storeHostText), codec.ForbiddenBroker)
	}
	if q.code == codec.ReqLitePullMessage && !b.cfg.broker.LitePullMessageEnable {
		return q.refuse(codec.RespNoPermission, fmt.Sprintf("the broker[%s] for lite pull consumer is forbidden",
			b.storeHostText), codec.ForbiddenBroker)
	}
	if q.group = b.groups.Lookup(h.ConsumerGroup); q.group == nil {
		if !q.mayWait {
			return false, pullWouldWait
		}
		var err error
		if q.group, err = b.groups.Find(string(h.ConsumerGroup)); err != nil {
			return q.refuse(codec.RespSubscriptionGroupNotExist,
				fmt.Sprintf("subscription group [%s] does not exist, %s", h.ConsumerGroup, faqRemark), 0)
		}
	}
	if !q.group.Config.ConsumeEnable {
		return q.refuse(codec.RespNoPermission, "subscription group no permission, "+q.group.Name,
			codec.ForbiddenGroup)
	}
	t := b.topics.Lookup(h.Topic)
	switch q.topic = t; {
	case t == nil:
		return q.refuse(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist, apply first please! %s", h.Topic,
			faqRemark), 0)
	case t.Config.Perm&codec.PermRead == 0:
		return q.refuse(codec.RespNoPermission, fmt.Sprintf("the topic[%s] pulling message is forbidden", t.Name),
			codec.ForbiddenTopic)
	case h.QueueID < 0 || h.QueueID >= t.Config.ReadQueueNums:
		return q.refuse(codec.RespInvalidParameter, fmt.Sprintf(
			"queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%s]", h.QueueID, t.Name,
			t.Config.ReadQueueNums, q.conn.RemoteAddr()), 0)
	}
	if h.SysFlag&codec.PullFlagSubscription != 0 {
		return q.ownSubscription()
	}
	return q.groupSubscription()
}

// ownSubscription takes the subscription of the request.
func (q *pull) ownSubscription() (ok bool, outcome pullOutcome) {
	sub, err := q.b.subscriptions.Get(q.h.Subscription, q.h.ExpressionType)
	if err != nil {
		return q.refuse(codec.RespSubscriptionParseFailed, "parse the consumer's subscription failed: "+err.Error(),
			0)
	}
	q.sub = sub
	return q.allowed()
}

// groupSubscription takes what the group's heartbeat said.
func (q *pull) groupSubscription() (ok bool, outcome pullOutcome) {
	b, h := q.b, &q.h
	cg := b.consumers.Lookup(h.ConsumerGroup)
	if cg == nil {
		return q.refuse(codec.RespSubscriptionNotExist, "the consumer's group info not exist"+faqRemark, 0)
	}
	if !q.group.Config.ConsumeBroadcastEnable && cg.Broadcasting() {
		return q.refuse(codec.RespNoPermission,
			fmt.Sprintf("the consumer group[%s] can not consume by broadcast way", q.group.Name),
			codec.ForbiddenBroadcastDisable)
	}
	if b.groups.Forbidden(q.group.Name, q.topic.Name) {
		return q.refuse(codec.RespNoPermission, fmt.Sprintf("the consumer group[%s] is forbidden for topic[%s]",
			q.group.Name, q.topic.Name), codec.ForbiddenSubscription)
	}
	sub := cg.Subscription(h.Topic)
	switch {
	case sub == nil:
		return q.refuse(codec.RespSubscriptionNotExist, "the consumer's subscription not exist"+faqRemark, 0)
	case sub.Data.SubVersion < h.SubVersion:
		return q.refuse(codec.RespSubscriptionNotLatest, "the consumer's subscription not latest", 0)
	case sub.Err != nil && sub.IsTag():
		return q.refuse(codec.RespSubscriptionParseFailed,
			"parse the consumer's subscription failed: "+sub.Err.Error(), 0)
	}
	if !sub.IsTag() {
		data := b.filters.Lookup(q.topic.Name, q.group.Name)
		switch {
		case data == nil, sub.Err != nil:
			remark := "The broker's consumer filter data is not exist!Your expression may be wrong!"
			if sub.Err != nil {
				remark += " " + sub.Err.Error()
			}
			return q.refuse(codec.RespFilterDataNotExist, remark, 0)
		case data.ClientVersion < h.SubVersion:
			return q.refuse(codec.RespFilterDataNotLatest, "the consumer's consumer filter data not latest", 0)
		}
		q.data = data
	}
	q.sub = sub
	return q.allowed()
}

// filter is what leaves messages out: the subscription itself, unless it is SQL92.
func (q *pull) filter() store.MessageFilter {
	switch {
	case q.sub.IsTag():
		return q.sub
	case q.byOrigin():
		q.match.ForRetry(q.b.filters, codec.GroupOfRetryTopic(q.topic.Name))
	case q.data != nil:
		q.match.ForEntry(q.b.filters, q.data)
	default:
		q.match.ForExpression(q.sub.SQL())
	}
	return &q.match
}

// byOrigin tells that the messages of a retry topic are judged by the condition of the topic they come from.
func (q *pull) byOrigin() bool {
	return q.b.cfg.broker.FilterSupportRetry && codec.IsRetryTopic(q.topic.Name) && !q.sub.IsTag()
}

// allowed refuses SQL92, and consumers that only pull, where the operator wants it so.
func (q *pull) allowed() (ok bool, outcome pullOutcome) {
	c := q.b.cfg.broker
	if !q.sub.IsTag() && !c.EnablePropertyFilter {
		return q.refuse(codec.RespSystemError, "The broker does not support consumer to filter message by "+
			q.sub.Data.ExpressionType, 0)
	}
	if c.RejectPullConsumerEnable && !q.b.isMember(q.group.Name, q.conn) &&
		!codec.IsPredefinedGroup(q.group.Name) {
		return q.refuse(codec.RespSubscriptionNotExist,
			"the consumer's group info not exist, or the pull consumer is rejected by server."+faqRemark, 0)
	}
	return true, pullAnswered
}

// isMember tells whether a connection may pull for a group under rejectPullConsumerEnable: it has sent a
// heartbeat, or others of the group push.
func (b *Broker) isMember(groupName string, c reactor.Conn) bool {
	cg := b.consumers.Get(groupName)
	return cg != nil && (cg.Pushes() || cg.Has(c))
}

// answer writes the result of a read, or parks the request.
func (q *pull) answer() pullOutcome {
	res, h := &q.res, &q.h
	if q.first || res.NextOffset != h.QueueOffset { // else it was noted before the pull was parked
		q.b.offsets.CommitPull(q.group.Name, q.topic.Name, h.QueueID, res.NextOffset)
	}
	code := getStatusCode(res.Status, h.QueueOffset)
	if q.b.isSlave() {
		code = q.onSlave(code)
	}
	q.resp = codec.PullResponse{SuggestWhichBrokerID: q.suggest(), NextBeginOffset: res.NextOffset,
		MinOffset: res.MinOffset, MaxOffset: res.MaxOffset, TopicSysFlag: &q.topic.Config.TopicSysFlag,
		GroupSysFlag: &q.group.Config.GroupSysFlag}
	switch {
	case code == codec.RespSuccess:
		q.count()
		q.found()
	case code == codec.RespPullNotFound && q.first && h.SysFlag&codec.PullFlagSuspend != 0 && q.park():
		return pullParked
	default:
		q.write(code, res.Status.String(), 0)
	}
	return pullAnswered
}

// suggest names the broker id the consumer should read from next.
func (q *pull) suggest() int64 {
	switch {
	case !q.b.cfg.broker.SlaveReadEnable, q.b.isSlave() && q.toMaster():
		return codec.MasterID
	case q.res.SuggestSlave:
		return q.group.Config.WhichBrokerWhenConsumeSlowly
	}
	return q.group.Config.BrokerID
}

func (q *pull) write(code int, remark string, bodyBytes int) {
	if q.oneway {
		return
	}
	q.out.SetBuffer(codec.AppendPullResponse(q.out.Buffer(), q.typ, q.opaque, code, remark, &q.resp, bodyBytes))
}

// found appends header and messages; by heap if the operator wants it so.
func (q *pull) found() {
	if q.oneway {
		return
	}
	q.write(codec.RespSuccess, q.res.Status.String(), q.res.Messages.Size())
	if q.b.cfg.heapTransfer {
		q.out.SetBuffer(q.res.Messages.AppendTo(q.out.Buffer()))
		return
	}
	q.out.AddSegments(&q.res.Messages)
}

// refuse answers with a remark; all four offsets are there, as Java clients want them with any code.
func (q *pull) refuse(code int, remark string, forbidden int32) (ok bool, outcome pullOutcome) {
	q.resp, q.refused = codec.PullResponse{}, true
	if forbidden != 0 {
		q.resp.ForbiddenType = &forbidden
	}
	q.write(code, remark, 0)
	return false, pullAnswered
}

func (q *pull) count() {
	latency := int64(0)
	if q.mayWait { // else it took no time
		latency = q.b.clock.Millis() - q.millis
	}
	q.b.stats.GroupGet(q.group.Name, q.topic.Name).Count(q.h.QueueID, q.res.Count, q.res.Messages.Size(),
		latency)
	q.b.stats.CountGet(q.res.Count, q.topic.System)
}

// getStatusCode is the response code of a read (spec store-behaviour.md §7).
func getStatusCode(s store.GetStatus, offset store.QueueOffset) int {
	switch s {
	case store.GetFound:
		return codec.RespSuccess
	case store.GetNoMatchedMessage, store.GetMessageWasRemoving:
		return codec.RespPullRetryImmediately
	case store.GetNoMatchedLogicQueue, store.GetNoMessageInQueue:
		if offset != 0 {
			return codec.RespPullOffsetMoved
		}
		return codec.RespPullNotFound
	case store.GetOffsetFoundNull, store.GetOffsetOverflowOne:
		return codec.RespPullNotFound
	default:
		return codec.RespPullOffsetMoved
	}
}
