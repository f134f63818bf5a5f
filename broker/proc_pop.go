package broker

import (
	"fmt"
	"strconv"
	"sync"

	"skylark/broker/conn"
	"skylark/broker/group"
	"skylark/broker/pop"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// PopMessageProcessor serves POP_MESSAGE (200050): Java PopMessageProcessor. A pop that finds nothing waits, in the order
// of the deadlines of those who wait for the same.
//
// Deviations: see package pop.
type PopMessageProcessor struct{ b *Broker }

// maxPopMsgs is the most messages of one pop (Java).
const maxPopMsgs = 32

// popSlack is how much later than its deadline a pop may come, in ms (Java isTimeoutTooMuch).
const popSlack = 500

// popDeadline is when a request that waits is answered, in ms: 50 ms before its time is over (Java PopRequest.isTimeout)
// and a hundredth of that, at most 200 ms together. A proxy leaves itself 100 ms to answer in time, which are over sooner on
// a machine that is busy.
func popDeadline(born, wait int64) int64 {
	wait = min(wait, maxSuspendMillis)
	return born + wait - min(50+wait/100, 200)
}

// popping is a pop while it is served and while it waits.
type popping struct {
	b        *Broker
	d        rpc.Deferred
	req      pop.Request
	sub      *conn.Subscription
	topic    *topic.Topic
	group    *group.Group
	deadline int64 // ms
}

// Process implements rpc.Processor.
func (p *PopMessageProcessor) Process(r *rpc.Request) {
	b, now := p.b, p.b.clock.Millis()
	if t := r.Cmd.Get("bornTime"); t == "" || t == "0" {
		r.Cmd.Set("bornTime", strconv.FormatInt(now, 10))
	}
	var h codec.PopMessageRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if now-h.BornTime-h.PollTime > popSlack {
		r.ReplyError(codec.RespPollingTimeout, fmt.Sprintf("the broker[%s] pop message is timeout too much", b.storeHostText))
		return
	}
	if h.MaxMsgNums > maxPopMsgs || h.MaxMsgNums < 1 || h.InvisibleTime < 0 {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf(
			"the broker[%s] pop message's num is greater than 32, or maxMsgNums %d or invisibleTime %d is too small",
			b.storeHostText, h.MaxMsgNums, h.InvisibleTime))
		return
	}
	if b.svc().timer == nil {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf(
			"the broker[%s] pop message is forbidden because timerWheelEnable is false", b.storeHostText))
		return
	}
	if limit := int64(b.cfg.store.TimerMaxDelaySec) * 1000; h.InvisibleTime > limit {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("invisibleTime %d ms is more than timerMaxDelaySec allows: %d",
			h.InvisibleTime, limit))
		return
	}
	t, g := b.checkPop(r, h.Topic, h.ConsumerGroup, h.QueueID)
	if t == nil {
		return
	}
	q := &popping{b: b, d: r.Defer(), topic: t, group: g,
		deadline: popDeadline(h.BornTime, h.PollTime),
		req: pop.Request{Topic: t.Name, Group: g.Name, AttemptID: h.AttemptID, QueueID: max(h.QueueID, -1),
			MaxMsgs: int(h.MaxMsgNums), Invisible: h.InvisibleTime, FromMax: h.InitMode != codec.ConsumeInitModeMin,
			Order: h.Order}}
	sub, err := b.subscriptions.Get([]byte(h.Exp), []byte(h.ExpType))
	if err != nil {
		r.ReplyError(codec.RespSubscriptionParseFailed, "parse the consumer's subscription failed: "+err.Error())
		return
	}
	if !sub.All() {
		q.sub, q.req.Filter = sub, sub
	}
	b.consumers.Compensate(g.Name, t.Name, sub)
	if q.d.Oneway {
		return // nobody would get the messages
	}
	q.serve(h.PollTime <= 0)
}

// checkPop is what POP, PEEK, NOTIFICATION and POLLING_INFO check alike; a nil topic has been answered.
func (b *Broker) checkPop(r *rpc.Request, topicName, groupName string, queueID int32) (*topic.Topic, *group.Group) {
	if b.permission.Load()&codec.PermRead == 0 {
		r.ReplyError(codec.RespNoPermission, fmt.Sprintf("the broker[%s] pop message is forbidden", b.storeHostText))
		return nil, nil
	}
	t := b.topics.Get(topicName)
	switch {
	case t == nil:
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist, apply first please! %s", topicName, faqRemark))
		return nil, nil
	case t.Config.Perm&codec.PermRead == 0:
		r.ReplyError(codec.RespNoPermission, fmt.Sprintf("the topic[%s] peeking message is forbidden", topicName))
		return nil, nil
	case queueID >= t.Config.ReadQueueNums:
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf(
			"queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%s]", queueID, topicName,
			t.Config.ReadQueueNums, r.Conn().RemoteAddr()))
		return nil, nil
	}
	g, err := b.groups.Find(groupName)
	switch {
	case err != nil:
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("subscription group [%s] does not exist, %s", groupName,
			faqRemark))
		return nil, nil
	case !g.Config.ConsumeEnable:
		r.ReplyError(codec.RespNoPermission, "subscription group no permission, "+groupName)
		return nil, nil
	}
	return t, g
}

// serve pops and answers, or waits. last: it has waited long enough.
func (q *popping) serve(last bool) {
	b := q.b
	if st, ok := q.d.Conn.Context().(*connState); ok && st.closed.Load() {
		return // nobody would get the messages
	}
	began := b.clock.Millis()
	ends := b.pop.Ends(q.req.Topic, q.req.Group, q.req.QueueID)
	body := popBodies.Get().(*[]byte)
	q.req.Buf = *body
	resp, err := b.pop.Pop(&q.req)
	q.req.Buf = nil
	defer func() { // it is in the answer's frame now
		if resp != nil && cap(resp.Body) <= maxKeptPopBody {
			*body = resp.Body[:0]
			popBodies.Put(body)
		}
	}()
	switch {
	case err != nil:
		code, remark := popError(err)
		_ = q.d.Reply(q.d.Response(code, remark))
	case resp.Count > 0:
		q.count(resp, began)
		q.reply(codec.RespSuccess, store.GetFound, resp)
		if resp.More {
			b.pop.Polling().Notify(q.req.Topic, q.req.Group, q.req.QueueID)
		}
	case last, began >= q.deadline:
		q.reply(codec.RespPollingTimeout, store.GetNoMessageInQueue, resp)
	default:
		q.park(resp, ends)
	}
}

// park has the pop wait; ends is what its queues had before they were looked at.
func (q *popping) park(resp *pop.Response, ends int64) {
	b := q.b
	w := &pop.Waiter{Topic: q.req.Topic, Group: q.req.Group, QueueID: q.req.QueueID, Deadline: q.deadline,
		Conn: q.d.Conn.ID(), Fire: q.fire}
	if q.sub != nil {
		w.Interested = q.sub.Interested
	}
	if !b.pop.Polling().Park(w) {
		q.reply(codec.RespPollingFull, store.GetNoMessageInQueue, resp)
		return
	}
	b.forgetIfClosed(q.d.Conn)
	switch {
	case resp.More:
		b.pop.Polling().Notify(q.req.Topic, q.req.Group, q.req.QueueID)
	case b.pop.Ends(q.req.Topic, q.req.Group, q.req.QueueID) != ends:
		b.pop.Polling().Fire(w) // something came between the look and the wait
	}
}

// fire serves a waiting pop again: in a goroutine that may wait for the disk.
func (q *popping) fire(expired bool) {
	b := q.b
	b.inflight.add()
	if !b.readers.submit(func() { defer b.inflight.done(); q.wake(expired) }) {
		defer b.inflight.done()
		_ = q.d.Reply(q.d.Response(codec.RespSystemBusy, "too many pops are woken at once"))
	}
}

func (q *popping) wake(expired bool) {
	b := q.b
	select {
	case <-b.stop: // the messages would be invisible for nothing
		q.reply(codec.RespPollingTimeout, store.GetNoMessageInQueue, &pop.Response{PopTime: b.clock.Millis()})
		return
	default:
	}
	t, g := b.topics.Get(q.req.Topic), b.groups.Get(q.req.Group)
	switch { // what the request's checks were may have changed
	case t == nil:
		_ = q.d.Reply(q.d.Response(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist", q.req.Topic)))
	case t.Config.Perm&b.permission.Load()&codec.PermRead == 0, g != nil && !g.Config.ConsumeEnable:
		_ = q.d.Reply(q.d.Response(codec.RespNoPermission, "popping was forbidden meanwhile"))
	default:
		q.serve(expired)
	}
}

func (q *popping) reply(code int, status store.GetStatus, resp *pop.Response) {
	answer := q.d.Response(code, status.String())
	h := codec.PopMessageResponseHeader{PopTime: resp.PopTime, InvisibleTime: q.req.Invisible, ReviveQID: resp.ReviveQID,
		RestNum: resp.Rest}
	h.StartOffsetInfo, h.MsgOffsetInfo, h.OrderCountInfo = resp.Info()
	codec.EncodeHeader(answer, &h)
	answer.Body = resp.Body
	if q.d.Oneway {
		return
	}
	s := wakes.Get().(*wake)
	defer wakes.Put(s)
	s.out.SetBuffer(answer.AppendTo(s.out.Buffer()))
	_ = q.d.Conn.SendOutbox(&s.out) // a closed connection: the messages come again
}

// popBodies are buffers of messages that were popped.
var popBodies = sync.Pool{New: func() any { return new([]byte) }}

// maxKeptPopBody bounds one of them.
const maxKeptPopBody = 256 << 10

func (q *popping) count(resp *pop.Response, began int64) {
	b := q.b
	for i := range resp.Taken {
		n := &resp.Taken[i]
		c := b.stats.GroupGet(q.group.Name, n.Topic)
		c.Count(n.QueueID, n.Count, n.Bytes, b.clock.Millis()-began)
		if !q.req.Order {
			c.CheckPoint()
		}
	}
	b.stats.CountGet(resp.Count, q.topic.System)
}

// NotificationProcessor serves NOTIFICATION (200054), which waits until there is something to pop, and POLLING_INFO
// (200055), which tells how many pops wait: Java NotificationProcessor, PollingInfoProcessor.
type NotificationProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *NotificationProcessor) Process(r *rpc.Request) {
	b := p.b
	if r.Cmd.Code == codec.ReqPollingInfo {
		var h codec.PollingInfoRequestHeader
		if !r.Decode(&h, codec.RespInvalidParameter) {
			return
		}
		if t, _ := b.checkPop(r, h.Topic, h.ConsumerGroup, h.QueueID); t != nil {
			r.ReplyHeader(&codec.PollingInfoResponseHeader{
				PollingNum: int32(b.pop.Polling().Count(h.Topic, h.ConsumerGroup, max(h.QueueID, -1)))})
		}
		return
	}
	now := b.clock.Millis()
	if t := r.Cmd.Get("bornTime"); t == "" || t == "0" {
		r.Cmd.Set("bornTime", strconv.FormatInt(now, 10))
	}
	var h codec.NotificationRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if t, _ := b.checkPop(r, h.Topic, h.ConsumerGroup, h.QueueID); t == nil {
		return
	}
	d, queueID := r.Defer(), max(h.QueueID, -1)
	reply := func(has, full bool) {
		answer := d.Response(codec.RespSuccess, "")
		codec.EncodeHeader(answer, &codec.NotificationResponseHeader{HasMsg: has, PollingFull: full})
		_ = d.Reply(answer) // a closed connection needs no answer
	}
	has := func() bool { return b.pop.Has(h.Topic, h.ConsumerGroup, queueID, h.Order, h.AttemptID) }
	deadline := popDeadline(h.BornTime, h.PollTime)
	if got := has(); got || h.PollTime <= 0 || now >= deadline {
		reply(got, false)
		return
	}
	w := &pop.Waiter{Topic: h.Topic, Group: h.ConsumerGroup, QueueID: queueID, Deadline: deadline, Conn: d.Conn.ID()}
	park := func() {
		if !b.popNotices.Park(w) {
			reply(false, true)
			return
		}
		b.forgetIfClosed(d.Conn)
		if has() {
			b.popNotices.Fire(w)
		}
	}
	w.Fire = func(expired bool) {
		look := func() {
			switch got := has(); {
			case got, expired:
				reply(got, false)
			default:
				park() // somebody else was faster
			}
		}
		b.inflight.add()
		if !b.readers.submit(func() { defer b.inflight.done(); look() }) {
			defer b.inflight.done()
			reply(false, false)
		}
	}
	park()
}

// PeekMessageProcessor serves PEEK_MESSAGE (200052): what a pop would give, without taking it. Java
// PeekMessageProcessor.
type PeekMessageProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *PeekMessageProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.PeekMessageRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if h.MaxMsgNums < 1 || h.MaxMsgNums > maxPopMsgs {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("maxMsgNums is %d, 1 to 32 are allowed", h.MaxMsgNums))
		return
	}
	t, g := b.checkPop(r, h.Topic, h.ConsumerGroup, h.QueueID)
	if t == nil {
		return
	}
	k := &peek{b: b, group: g.Name, room: int(h.MaxMsgNums)}
	if h.QueueID >= 0 {
		k.queue(t.Name, h.QueueID)
	} else {
		k.topic(t.Name)
	}
	for _, name := range b.pop.RetryTopics(t.Name, g.Name) {
		k.topic(name)
	}
	code, status := codec.RespSuccess, store.GetFound
	if len(k.body) == 0 {
		code, status = codec.RespPullNotFound, store.GetNoMessageInQueue
	}
	answer := codec.NewResponse(r.Cmd, code, status.String())
	codec.EncodeHeader(answer, &codec.PopMessageResponseHeader{RestNum: k.rest})
	answer.Body = k.body
	r.Reply(answer)
}

// peek gathers what the queues have.
type peek struct {
	b     *Broker
	group string
	room  int
	rest  int64
	body  []byte
	res   store.GetResult
}

func (k *peek) topic(name string) {
	for id := range k.b.readableQueues(name) {
		k.queue(name, id)
	}
}

func (k *peek) queue(name string, queueID int32) {
	b := k.b
	at, _ := b.pop.Position(name, k.group, queueID)
	k.rest += int64(max(b.store.MaxOffset(name, queueID)-at, 0))
	for range 2 { // once more where the queue begins, if it begins later
		if k.room == 0 {
			return
		}
		b.store.Get(&store.GetRequest{Topic: name, QueueID: queueID, Offset: at, MaxMsgs: k.room, AllowCold: true}, &k.res)
		k.room -= k.res.Count
		k.body = k.res.Messages.AppendTo(k.body)
		k.res.Messages.Release()
		b.stats.GroupGet(k.group, name).Count(queueID, k.res.Count, 0, 0)
		if k.res.Status != store.GetOffsetTooSmall && k.res.Status != store.GetOffsetOverflowBadly {
			return
		}
		at = k.res.NextOffset
	}
}
