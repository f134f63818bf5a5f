package broker

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"skylark/broker/group"
	"skylark/broker/stats"
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// SendBackProcessor serves CONSUMER_SEND_MSG_BACK (36): Java AbstractSendMessageProcessor.consumerSendMsgBack, spec
// messages.md §11. The message goes to the group's retry topic with a delay, or to its dead letters after too many
// tries.
type SendBackProcessor struct{ b *Broker }

// retryDelayLevel is the level of the first retry when the client leaves it to the broker.
const retryDelayLevel = 3

// Process implements rpc.Processor.
func (p *SendBackProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.ConsumerSendMsgBackRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	g, err := b.groups.Find(h.Group)
	if err != nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("subscription group not exist, %s%s", h.Group, faqRemark))
		return
	}
	if b.permission.Load()&codec.PermWrite == 0 {
		r.ReplyError(codec.RespNoPermission, fmt.Sprintf("the broker[%s] sending message is forbidden", b.storeHostText))
		return
	}
	if g.Config.RetryQueueNums <= 0 {
		r.OK() // the group wants no retries
		return
	}
	raw, err := b.store.ReadRecord(h.Offset, nil)
	if err != nil {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("look message by offset failed, %d", h.Offset))
		return
	}
	rec, err := codec.ParseRecord(raw, false)
	if err != nil {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("look message by offset failed, %d: %v", h.Offset, err))
		return
	}
	m, dead, err := p.message(r, &h, g, &rec)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	put := b.store.Put(m)
	if put.Status != store.PutOK {
		_, why := putError(put)
		r.ReplyError(codec.RespSystemError, put.Status.String()+": "+why)
		return
	}
	key := string(rec.Topic) + codec.TopicGroupSeparator + h.Group
	if dead {
		b.stats.Inc(stats.DLQPutNums, key, 1)
	} else {
		b.stats.Inc(stats.SendBackNums, key, 1)
	}
	b.stats.CountPut(1)
	b.brokerPut.Add(1)
	r.OK()
}

// message makes the copy that is put.
func (p *SendBackProcessor) message(r *rpc.Request, h *codec.ConsumerSendMsgBackRequestHeader, g *group.Group,
	rec *codec.Record) (m *codec.Message, dead bool, err error) {
	b := p.b
	limit := g.Config.RetryMaxTimes
	if r.Cmd.Version >= codec.Version349 && h.MaxReconsumeTimes != nil {
		limit = *h.MaxReconsumeTimes
	}
	m = rec.Message()
	m.Properties = append(make([]byte, 0, len(rec.Properties)+128), rec.Properties...)
	if _, ok := m.Property(codec.PropRetryTopic); !ok {
		m.Properties = codec.AppendProperty(m.Properties, codec.PropRetryTopic, rec.Topic)
	}
	if _, ok := m.Property(codec.PropOriginMessageID); !ok {
		m.Properties = codec.AppendProperty(m.Properties, codec.PropOriginMessageID, offsetMsgID(rec.StoreHost, rec.PhyOffset))
	}
	m.Properties = codec.RemoveProperty(m.Properties[:0:len(m.Properties)], m.Properties, codec.PropDelayTimeLevel,
		codec.PropRealTopic, codec.PropRealQueueID)
	m.ReconsumeTimes = rec.ReconsumeTimes + 1
	m.StoreHost = b.storeHost
	m.PreparedTransactionOffset = 0
	m.WaitStoreMsgOK = true
	level := int(h.DelayLevel)
	if rec.ReconsumeTimes >= limit || level < 0 {
		t, err := b.topics.CreateInSendBack(codec.DLQTopic(g.Name), 1, codec.PermRead|codec.PermWrite, false, false)
		if err != nil {
			return nil, false, fmt.Errorf("the dead letter topic cannot be made: %w", err)
		}
		m.Topic, m.QueueID = t.Name, 0
		return m, true, nil
	}
	t, err := b.topics.CreateInSendBack(codec.RetryTopic(g.Name), int(g.Config.RetryQueueNums),
		codec.PermRead|codec.PermWrite, h.UnitMode, false)
	if err != nil {
		return nil, false, fmt.Errorf("topic[%s] not exist: %w", codec.RetryTopic(g.Name), err)
	}
	if t.Config.Perm&codec.PermWrite == 0 {
		return nil, false, fmt.Errorf("the topic[%s] sending message is forbidden", t.Name)
	}
	if level == 0 {
		level = retryDelayLevel + int(rec.ReconsumeTimes)
	}
	m.Topic, m.QueueID = t.Name, rand.Int32N(max(g.Config.RetryQueueNums, 1))
	level = b.schedule.Levels().Clamp(level)
	m.Properties = codec.AppendProperty(m.Properties, codec.PropDelayTimeLevel, strconv.Itoa(level))
	b.schedule.Rewrite(m, level)
	return m, false, nil
}
