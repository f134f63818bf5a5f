package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"skylark/broker/group"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// SendBackProcessor serves CONSUMER_SEND_MSG_BACK (36): Java
// AbstractSendMessageProcessor.consumerSendMsgBack, spec messages.md §11. The message goes to the group's
// retry topic with a delay, or to its dead letters after too many tries. The answer waits for the promised
// durability (Java: not with SYNC_FLUSH), without holding a worker.
type SendBackProcessor struct{ b *Broker }

// retryDelayLevel is the level of the first retry when the client leaves it to the broker.
const retryDelayLevel = 3

// refusal is an answer with a code.
type refusal struct {
	code   int
	remark string
}

// Error is the remark.
func (e *refusal) Error() string { return e.remark }

// Process implements rpc.Processor.
func (p *SendBackProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.ConsumerSendMsgBackRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	g, err := b.groups.Find(h.Group)
	if err != nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("subscription group not exist, %s %s",
			h.Group, faqRemark))
		return
	}
	if b.permission.Load()&codec.PermWrite == 0 {
		r.ReplyError(codec.RespNoPermission, fmt.Sprintf("the broker[%s] sending message is forbidden",
			b.storeHostText))
		return
	}
	if g.Config.RetryQueueNums <= 0 {
		r.OK() // the group wants no retries
		return
	}
	raw, err := b.store.ReadRecord(h.Offset, nil)
	var rec codec.Record
	if err == nil {
		rec, err = codec.ParseRecord(raw, true)
	}
	if err != nil {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("look message by offset failed, %d (%v)", h.Offset, err))
		return
	}
	m, t, dead, err := p.message(r, &h, g, &rec)
	if err != nil {
		var no *refusal
		if errors.As(err, &no) {
			r.ReplyError(no.code, no.remark)
		} else {
			r.ReplyError(codec.RespSystemError, err.Error())
		}
		return
	}
	put := b.store.Append(m)
	if put.Status != store.PutOK {
		_, why := putError(&put)
		r.ReplyError(codec.RespSystemError, put.Status.String()+": "+why)
		return
	}
	b.countPut(t, m, &put, 0)
	from, ok := rec.Property(codec.PropRetryTopic)
	if !ok {
		from = rec.Topic
	}
	b.stats.SendBack(g.Name, string(from), r.Cmd.Get("Owner"), dead)
	if dead {
		b.log.Info("message is dead", "group", g.Name, "topic", string(from), "queueOffset", rec.QueueOffset,
			"phyOffset", int64(rec.PhyOffset), "reconsumeTimes", rec.ReconsumeTimes)
	}
	b.replyDurable(r, put.EndOffset)
}

// replyDurable answers code 0 once everything before end is as durable as promised. A slave that is late or missing is no
// failure here, as in Java: the message is stored, and whoever got an error would store it once more.
func (b *Broker) replyDurable(r *rpc.Request, end store.PhyOffset) {
	d := r.Defer()
	b.inflight.add()
	done := func(status store.PutStatus) {
		defer b.inflight.done()
		answer := d.Response(codec.RespSuccess, "")
		switch status {
		case store.PutOK, store.FlushSlaveTimeout, store.SlaveNotAvailable:
		default:
			answer.Code, answer.Remark = codec.RespSystemError, status.String()
		}
		_ = d.Reply(answer) // a closed connection needs no answer
	}
	if b.store.Durable(end, b.syncFlushTimeout(), done) {
		b.inflight.done()
		r.OK()
	}
}

// message makes the copy that is put, and tells to which topic it goes in the end.
func (p *SendBackProcessor) message(r *rpc.Request, h *codec.ConsumerSendMsgBackRequestHeader, g *group.Group,
	rec *codec.Record) (m *codec.Message, t *topic.Topic, dead bool, err error) {
	b := p.b
	limit := g.Config.RetryMaxTimes
	if r.Cmd.Version >= codec.Version349 && h.MaxReconsumeTimes != nil {
		limit = *h.MaxReconsumeTimes
	}
	level := int(h.DelayLevel)
	dead = rec.ReconsumeTimes >= limit || level < 0
	name, queues := codec.RetryTopic(g.Name), int(g.Config.RetryQueueNums)
	if dead {
		name, queues = codec.DLQTopic(g.Name), 1
	}
	t, err = b.topics.CreateInSendBack(name, queues, codec.PermRead|codec.PermWrite, h.UnitMode && !dead, false)
	if err != nil {
		return nil, nil, dead, fmt.Errorf("topic[%s] not exist: %w", name, err)
	}
	if t.Config.Perm&codec.PermWrite == 0 && !dead {
		return nil, nil, dead, &refusal{codec.RespNoPermission,
			fmt.Sprintf("the topic[%s] sending message is forbidden", name)}
	}
	m = rec.Message()
	props := make([]byte, 0, len(rec.Properties)+256)
	props = codec.RemoveProperty(props, rec.Properties, codec.PropDelayTimeLevel, codec.PropRealTopic,
		codec.PropRealQueueID)
	if _, ok := rec.Property(codec.PropRetryTopic); !ok {
		props = codec.AppendProperty(props, codec.PropRetryTopic, rec.Topic)
	}
	if _, ok := rec.Property(codec.PropOriginMessageID); !ok {
		props = codec.AppendProperty(props, codec.PropOriginMessageID, offsetMsgID(rec.StoreHost, rec.PhyOffset))
	}
	m.Properties = props
	m.Topic, m.QueueID = t.Name, rand.Int32N(int32(queues))
	m.ReconsumeTimes = rec.ReconsumeTimes + 1
	m.StoreHost = b.storeHost
	m.PreparedTransactionOffset = 0
	if !dead {
		if level == 0 {
			level = retryDelayLevel + int(rec.ReconsumeTimes)
		}
		level = b.svc().schedule.Levels().Clamp(level)
		m.Properties = codec.AppendProperty(m.Properties, codec.PropDelayTimeLevel, strconv.Itoa(level))
		b.svc().schedule.Rewrite(m, level)
	}
	return m, t, dead, nil
}
