package broker

import (
	"fmt"
	"sync"

	"skylark/broker/conn"
	"skylark/broker/group"
	"skylark/broker/hold"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// PullMessageProcessor serves PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): Java PullMessageProcessor and
// DefaultPullMessageResultHandler.
//
// A pull is served on the event loop: one pass over the ConsumeQueue, the answer is a header and ranges of mappings,
// written with one writev. What is not in memory goes to the pull pool, whose worker reads it in first. Nothing found
// and allowed to wait: the request is parked in hold and served by whoever reports the arrival.
//
// Deviations: a pull that carries its subscription is served with it even when the heartbeat's is older (the Java
// broker refuses for up to 30 s, spec client-quirks.md 1).
type PullMessageProcessor struct{ b *Broker }

// ProcessOnLoop implements rpc.LoopProcessor.
func (p *PullMessageProcessor) ProcessOnLoop(r *rpc.Request) bool { return p.pull(r) }

// Process implements rpc.Processor.
func (p *PullMessageProcessor) Process(r *rpc.Request) { p.pull(r) }

// pullState is the scratch of one pull.
type pullState struct {
	header codec.PullMessageHeader
	get    store.GetRequest
	res    store.GetResult
	resp   codec.PullResponse
	found  pulled
}

var pullStates = sync.Pool{New: func() any { return &pullState{} }}

func (ps *pullState) release() {
	ps.res.Messages.Release()
	ps.get, ps.found = store.GetRequest{}, pulled{}
	pullStates.Put(ps)
}

// pulled is what the checks of a pull found.
type pulled struct {
	topic *topic.Topic
	group *group.Group
	sub   *conn.Subscription
}

// pull serves one request; false only on a loop, when it would have to wait.
func (p *PullMessageProcessor) pull(r *rpc.Request) bool {
	b := p.b
	ps := pullStates.Get().(*pullState)
	defer ps.release()
	h := &ps.header
	if err := h.Decode(r.Cmd); err != nil {
		p.refuse(r, ps, codec.RespInvalidParameter, err.Error(), 0)
		return true
	}
	ok, served := p.check(r, ps)
	if !ok {
		return served
	}
	found := &ps.found
	first := h.SysFlag&codec.PullFlagCommitOffset != 0
	if off, reset := b.offsets.TakeReset(found.topic.Name, found.group.Name, h.QueueID); reset {
		ps.resp = codec.PullResponse{NextBeginOffset: off, MinOffset: b.store.MinOffset(found.topic.Name, h.QueueID),
			MaxOffset: b.store.MaxOffset(found.topic.Name, h.QueueID)}
		p.answerEmpty(r, ps, codec.RespPullOffsetMoved, store.GetOffsetReset)
		return true
	}
	ps.get = store.GetRequest{Topic: found.topic.Name, QueueID: h.QueueID, Offset: h.QueueOffset,
		MaxMsgs: int(h.MaxMsgNums), MaxBytes: int(h.MaxMsgBytes), AllowCold: !r.OnLoop()}
	if !found.sub.All() {
		ps.get.Filter = found.sub
	}
	b.store.Get(&ps.get, &ps.res)
	if ps.res.Status == store.GetCold {
		return false
	}
	if first {
		b.offsets.Commit(r.Conn().RemoteAddr(), found.group.Name, found.topic.Name, h.QueueID, h.CommitOffset)
	}
	p.answer(r, ps, found)
	return true
}

// check resolves group, topic and subscription into ps.found. !ok: answered (served), or not to be served on a loop.
func (p *PullMessageProcessor) check(r *rpc.Request, ps *pullState) (ok, served bool) {
	b, h := p.b, &ps.header
	if b.permission.Load()&codec.PermRead == 0 {
		p.refuse(r, ps, codec.RespNoPermission, fmt.Sprintf("the broker[%s] pulling message is forbidden",
			b.storeHostText), codec.ForbiddenBroker)
		return false, true
	}
	if r.Cmd.Code == codec.ReqLitePullMessage && !b.cfg.broker.LitePullMessageEnable {
		p.refuse(r, ps, codec.RespNoPermission, fmt.Sprintf("the broker[%s] for lite pull consumer is forbidden",
			b.storeHostText), codec.ForbiddenBroker)
		return false, true
	}
	g := b.groups.Lookup(h.ConsumerGroup)
	if g == nil {
		if r.OnLoop() {
			return false, false
		}
		var err error
		if g, err = b.groups.Find(string(h.ConsumerGroup)); err != nil {
			p.refuse(r, ps, codec.RespSubscriptionGroupNotExist, fmt.Sprintf("subscription group [%s] does not exist, %s",
				h.ConsumerGroup, faqRemark), 0)
			return false, true
		}
	}
	if !g.Config.ConsumeEnable {
		p.refuse(r, ps, codec.RespNoPermission, "subscription group no permission, "+g.Name, codec.ForbiddenGroup)
		return false, true
	}
	t := b.topics.Lookup(h.Topic)
	switch {
	case t == nil:
		p.refuse(r, ps, codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist, apply first please!%s", h.Topic,
			faqRemark), 0)
		return false, true
	case t.Config.Perm&codec.PermRead == 0:
		p.refuse(r, ps, codec.RespNoPermission, fmt.Sprintf("the topic[%s] pulling message is forbidden", t.Name),
			codec.ForbiddenTopic)
		return false, true
	case h.QueueID < 0 || h.QueueID >= t.Config.ReadQueueNums:
		p.refuse(r, ps, codec.RespInvalidParameter, fmt.Sprintf(
			"queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%s]", h.QueueID, t.Name,
			t.Config.ReadQueueNums, r.Conn().RemoteAddr()), 0)
		return false, true
	}
	sub, ok := p.subscription(r, ps, g, t)
	ps.found = pulled{topic: t, group: g, sub: sub}
	return ok, true
}

// subscription is the request's own, or what the group's heartbeat said. !ok: answered.
func (p *PullMessageProcessor) subscription(r *rpc.Request, ps *pullState, g *group.Group, t *topic.Topic) (
	*conn.Subscription, bool) {
	b, h := p.b, &ps.header
	if h.SysFlag&codec.PullFlagSubscription != 0 {
		sub, err := b.subscriptions.Get(h.Subscription, h.ExpressionType)
		if err != nil {
			p.refuse(r, ps, codec.RespSubscriptionParseFailed, "parse the consumer's subscription failed: "+err.Error(), 0)
			return nil, false
		}
		return sub, p.allowed(r, ps, sub)
	}
	cg := b.consumers.Lookup(h.ConsumerGroup)
	if cg == nil {
		p.refuse(r, ps, codec.RespSubscriptionNotExist, "the consumer's group info not exist"+faqRemark, 0)
		return nil, false
	}
	if !g.Config.ConsumeBroadcastEnable && cg.Broadcasting() {
		p.refuse(r, ps, codec.RespNoPermission, fmt.Sprintf("the consumer group[%s] can not consume by broadcast way",
			g.Name), codec.ForbiddenBroadcastDisable)
		return nil, false
	}
	if b.groups.Forbidden(g.Name, t.Name) {
		p.refuse(r, ps, codec.RespNoPermission, fmt.Sprintf("the consumer group[%s] is forbidden for topic[%s]", g.Name,
			t.Name), codec.ForbiddenSubscription)
		return nil, false
	}
	sub := cg.Subscription(h.Topic)
	if sub == nil {
		p.refuse(r, ps, codec.RespSubscriptionNotExist, "the consumer's subscription not exist"+faqRemark, 0)
		return nil, false
	}
	if sub.Data.SubVersion < h.SubVersion {
		p.refuse(r, ps, codec.RespSubscriptionNotLatest, "the consumer's subscription not latest", 0)
		return nil, false
	}
	return sub, p.allowed(r, ps, sub)
}

// allowed refuses SQL92 where the operator has not switched it on.
func (p *PullMessageProcessor) allowed(r *rpc.Request, ps *pullState, sub *conn.Subscription) bool {
	if sub.IsTag() || p.b.cfg.broker.EnablePropertyFilter {
		return true
	}
	p.refuse(r, ps, codec.RespSystemError, "The broker does not support consumer to filter message by "+
		sub.Data.ExpressionType, 0)
	return false
}

// answer writes the result of a read, or parks the request.
func (p *PullMessageProcessor) answer(r *rpc.Request, ps *pullState, f *pulled) {
	res, h := &ps.res, &ps.header
	code := getStatusCode(res.Status, h.QueueOffset)
	ps.resp = codec.PullResponse{SuggestWhichBrokerID: p.suggest(res, f.group), NextBeginOffset: res.NextOffset,
		MinOffset: res.MinOffset, MaxOffset: res.MaxOffset}
	switch {
	case code == codec.RespSuccess:
		p.count(ps, f)
		p.answerFound(r, ps, r.Cmd.Type, r.Cmd.Opaque, r.Out())
	case code == codec.RespPullNotFound && h.SysFlag&codec.PullFlagSuspend != 0 && p.park(r, ps, f):
	default:
		p.answerEmpty(r, ps, code, res.Status)
	}
}

// suggest names the broker id the consumer should read from next.
func (p *PullMessageProcessor) suggest(res *store.GetResult, g *group.Group) int64 {
	switch {
	case !p.b.cfg.broker.SlaveReadEnable:
		return codec.MasterID
	case res.SuggestSlave:
		return g.Config.WhichBrokerWhenConsumeSlowly
	}
	return g.Config.BrokerID
}

// answerFound appends header and messages; by heap if the operator wants it so.
func (p *PullMessageProcessor) answerFound(r *rpc.Request, ps *pullState, typ codec.SerializeType, opaque int32,
	out *reactor.Outbox) {
	if r != nil && r.Cmd.IsOneway() {
		return
	}
	res := &ps.res
	out.SetBuffer(codec.AppendPullResponse(out.Buffer(), typ, opaque, codec.RespSuccess, res.Status.String(), &ps.resp,
		res.Messages.Size()))
	if p.b.cfg.heapTransfer {
		out.SetBuffer(res.Messages.AppendTo(out.Buffer()))
		return
	}
	out.AddSegments(&res.Messages)
}

func (p *PullMessageProcessor) answerEmpty(r *rpc.Request, ps *pullState, code int, status store.GetStatus) {
	if r.Cmd.IsOneway() {
		return
	}
	out := r.Out()
	out.SetBuffer(codec.AppendPullResponse(out.Buffer(), r.Cmd.Type, r.Cmd.Opaque, code, status.String(), &ps.resp, 0))
}

// refuse answers with a remark; all four offsets are there, as Java clients want them with any code.
func (p *PullMessageProcessor) refuse(r *rpc.Request, ps *pullState, code int, remark string, forbidden int32) {
	if r.Cmd.IsOneway() {
		return
	}
	ps.resp = codec.PullResponse{}
	if forbidden != 0 {
		ps.resp.ForbiddenType = &forbidden
	}
	out := r.Out()
	out.SetBuffer(codec.AppendPullResponse(out.Buffer(), r.Cmd.Type, r.Cmd.Opaque, code, remark, &ps.resp, 0))
}

func (p *PullMessageProcessor) count(ps *pullState, f *pulled) {
	b := p.b
	b.stats.GroupGet(f.group.Name, f.topic.Name, ps.res.Count, ps.res.Messages.Size())
	b.stats.CountGet(int64(ps.res.Count))
}

// heldPull is a parked pull: what is needed to serve it again, nothing of the frame.
type heldPull struct {
	p     *PullMessageProcessor
	d     rpc.Deferred
	get   store.GetRequest
	found pulled
}

// park holds the request; false when too many are held already.
func (p *PullMessageProcessor) park(r *rpc.Request, ps *pullState, f *pulled) bool {
	if r.Cmd.IsOneway() {
		return true
	}
	b := p.b
	wait := ps.header.SuspendTimeoutMillis
	if !b.cfg.broker.LongPollingEnable {
		wait = b.cfg.broker.ShortPollingTimeMills
	}
	if wait <= 0 {
		return false
	}
	hp := &heldPull{p: p, d: r.Defer(), get: ps.get, found: *f}
	hp.get.AllowCold = false
	key := hold.Key{Topic: f.topic.Name, QueueID: ps.header.QueueID}
	return b.hold.Park(key, r.Conn().ID(), r.Millis()+wait, hp)
}

// Want implements hold.Wait.
func (h *heldPull) Want() codec.QueueOffset { return h.get.Offset }

// Interested implements hold.Wait.
func (h *heldPull) Interested(tagsCode int64, properties []byte) bool {
	return h.found.sub.Interested(tagsCode, properties)
}

// Wake implements hold.Wait: the pull runs once more, in the goroutine that reports the message, without waiting for
// the disk; should the range be cold it is served by the pull pool's rules through a reader goroutine.
func (h *heldPull) Wake() { h.serve(false) }

// Expire implements hold.Wait.
func (h *heldPull) Expire() { h.serve(false) }

func (h *heldPull) serve(allowCold bool) {
	p := h.p
	ps := pullStates.Get().(*pullState)
	defer ps.release()
	res := &ps.res
	if at, reset := p.b.offsets.TakeReset(h.get.Topic, h.found.group.Name, h.get.QueueID); reset {
		*res = store.GetResult{Status: store.GetOffsetReset, NextOffset: at, Messages: res.Messages,
			MinOffset: p.b.store.MinOffset(h.get.Topic, h.get.QueueID),
			MaxOffset: p.b.store.MaxOffset(h.get.Topic, h.get.QueueID)}
	} else {
		ps.get = h.get
		ps.get.AllowCold = allowCold
		p.b.store.Get(&ps.get, res)
	}
	if res.Status == store.GetCold {
		if !p.b.readers.submit(func() { h.serve(true) }) {
			_ = h.d.Reply(h.d.Response(codec.RespSystemBusy, "too many reads of cold data wait"))
		}
		return
	}
	ps.resp = codec.PullResponse{SuggestWhichBrokerID: p.suggest(res, h.found.group), NextBeginOffset: res.NextOffset,
		MinOffset: res.MinOffset, MaxOffset: res.MaxOffset}
	out := outboxes.Get().(*reactor.Outbox)
	defer outboxes.Put(out)
	code := getStatusCode(res.Status, h.get.Offset)
	if code == codec.RespSuccess {
		p.count(ps, &h.found)
		p.answerFound(nil, ps, h.d.Type, h.d.Opaque, out)
	} else {
		out.SetBuffer(codec.AppendPullResponse(out.Buffer(), h.d.Type, h.d.Opaque, code, res.Status.String(), &ps.resp, 0))
	}
	_ = h.d.Conn.SendOutbox(out) // a closed connection needs no answer
}

var outboxes = sync.Pool{New: func() any { return &reactor.Outbox{} }}

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
