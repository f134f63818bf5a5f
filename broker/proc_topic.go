package broker

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"skylark/broker/stats"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// TopicProcessor serves the topic commands of tools: UPDATE_AND_CREATE_TOPIC (17) and _LIST (18),
// GET_ALL_TOPIC_CONFIG (21), DELETE_TOPIC_IN_BROKER (215), GET_TOPIC_CONFIG (351), GET_TOPIC_STATS_INFO
// (202), QUERY_TOPIC_CONSUME_BY_WHO (300), GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305): Java
// AdminBrokerProcessor.
type TopicProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *TopicProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqUpdateAndCreateTopic:
		p.update(r)
	case codec.ReqUpdateAndCreateTopicList:
		p.updateList(r)
	case codec.ReqGetAllTopicConfig:
		w := p.b.topics.Wrapper()
		w.TopicQueueMappingDetailMap, w.MappingDataVersion = p.b.statics.Details()
		p.b.replyJSON(r, w)
	case codec.ReqDeleteTopicInBroker:
		p.delete(r)
	case codec.ReqGetTopicConfig:
		p.get(r)
	case codec.ReqGetTopicStatsInfo:
		p.stats(r)
	case codec.ReqQueryTopicConsumeByWho:
		p.consumers(r)
	case codec.ReqGetSystemTopicListFromBroker:
		p.systemTopics(r)
	}
}

func (p *TopicProcessor) update(r *rpc.Request) {
	var h codec.CreateTopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	c, err := topicConfig(&h)
	if err != nil {
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return
	}
	if c.Attributes, err = p.b.topics.AlterAttributes(p.b.topics.Get(h.Topic), h.Attributes); err == nil {
		err = p.b.topics.Update(c)
	}
	if err != nil {
		p.b.replyError(r, err)
		return
	}
	r.OK()
}

// topicConfig is the topic of a request, without attributes.
func topicConfig(h *codec.CreateTopicRequestHeader) (body.TopicConfig, error) {
	c := body.TopicConfig{TopicName: h.Topic, ReadQueueNums: h.ReadQueueNums, WriteQueueNums: h.WriteQueueNums,
		Perm: h.Perm, Order: h.Order}
	if err := c.TopicFilterType.UnmarshalText([]byte(h.TopicFilterType)); err != nil || c.TopicFilterType == "" {
		return c, fmt.Errorf("topicFilterType is %q, not %s or %s", h.TopicFilterType, body.SingleTag, body.MultiTag)
	}
	if h.TopicSysFlag != nil {
		c.TopicSysFlag = *h.TopicSysFlag
	}
	return c, nil
}

func (p *TopicProcessor) updateList(r *rpc.Request) {
	var q body.CreateTopicListRequestBody
	if err := body.Decode(r.Cmd.Body, &q); err != nil {
		r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
		return
	}
	list := make([]body.TopicConfig, 0, len(q.TopicConfigList))
	for _, c := range q.TopicConfigList {
		if c == nil {
			continue
		}
		attributes, err := p.b.topics.MergeAttributes(p.b.topics.Get(c.TopicName), c.Attributes)
		if err != nil {
			p.b.replyError(r, err)
			return
		}
		c.Attributes = attributes
		list = append(list, *c)
	}
	if err := p.b.topics.Update(list...); err != nil {
		p.b.replyError(r, err)
		return
	}
	r.OK()
}

// delete removes a topic with its POP retry topics, offsets, statistics and queues.
func (p *TopicProcessor) delete(r *rpc.Request) {
	var h codec.TopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	if strings.TrimSpace(h.Topic) == "" {
		r.ReplyError(codec.RespInvalidParameter, "The specified topic is blank.")
		return
	}
	if b.cfg.broker.ValidateSystemTopicWhenUpdateTopic && b.topics.IsSystem(h.Topic) {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("The topic[%s] is conflict with system topic.",
			h.Topic))
		return
	}
	names := p.withRetryTopics(h.Topic)
	if _, err := b.topics.Delete(names...); err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	var errs []error
	for _, name := range names {
		b.offsets.DeleteTopic(name)
		b.filters.DeleteTopic(name)
		errs = append(errs, b.store.DeleteTopic(name), b.statics.Set(name, nil))
		if b.svc().timer != nil {
			b.svc().timer.ForgetTopic(name)
		}
		b.pop.Forget(func(topic, _ string) bool { return topic == name })
		b.hold.WakeTopic(name) // they are answered TOPIC_NOT_EXIST
		if b.cfg.broker.AutoDeleteUnusedStats {
			b.stats.DeleteTopic(name)
		}
	}
	errs = append(errs, b.offsets.Persist()) // else a crash brings them back, for a topic made anew
	if err := errors.Join(errs...); err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	r.OK()
}

// topicsChanged is called for topics that were made or changed. One without any message has no progress: what is
// left over from a topic of that name is forgotten. Parked pulls are answered: they may ask for a queue that the
// topic does not have any more.
func (b *Broker) topicsChanged(changed []*topic.Topic) {
	all, empty := map[string]bool{}, map[string]bool{}
	for _, t := range changed {
		all[t.Name] = true
		if !b.isSlave() && len(b.store.Queues(t.Name)) == 0 { // a slave has its master's offsets, maybe before the messages
			empty[t.Name] = true
		}
	}
	for _, name := range b.offsets.WithProgress(empty) {
		b.log.Warn("consumer offsets of a former topic are forgotten", "topic", name)
		b.offsets.DeleteTopic(name)
	}
	b.hold.WakeTopics(all)
	b.registrar.topicsChanged(changed)
}

// withRetryTopics are a topic and what its groups have as POP retry topics of it.
func (p *TopicProcessor) withRetryTopics(name string) []string {
	b, names := p.b, []string{name}
	if !b.cfg.broker.ClearRetryTopicWhenDeleteTopic {
		return names
	}
	for _, g := range b.offsets.GroupsOf(name) {
		for _, retry := range []string{codec.PopRetryTopicV1(name, g), codec.PopRetryTopicV2(name, g)} {
			if b.topics.Get(retry) != nil {
				names = append(names, retry)
			}
		}
	}
	return names
}

func (p *TopicProcessor) get(r *rpc.Request) {
	var h codec.TopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	t := p.b.topics.Get(h.Topic)
	if t == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("No topic in this broker. topic: %s", h.Topic))
		return
	}
	if d := p.b.statics.Get(t.Name); d != nil && h.Logical != nil && *h.Logical {
		p.b.replyJSON(r, &body.TopicConfigAndQueueMapping{TopicConfig: t.Config, MappingDetail: d})
		return
	}
	p.b.replyJSON(r, &t.Config)
}

func (p *TopicProcessor) stats(r *rpc.Request) {
	var h codec.TopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	t := b.topics.Get(h.Topic)
	if t == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist", h.Topic))
		return
	}
	table := body.TopicStatsTable{OffsetTable: map[body.MessageQueue]*body.TopicOffset{}}
	for id := range max(t.Config.ReadQueueNums, t.Config.WriteQueueNums) {
		lo, hi := max(b.store.MinOffset(t.Name, id), 0), max(b.store.MaxOffset(t.Name, id), 0)
		o := &body.TopicOffset{MinOffset: lo, MaxOffset: hi}
		if hi > lo {
			o.LastUpdateTimestamp = max(b.store.StoreTimeOf(t.Name, id, hi-1), 0)
		}
		table.OffsetTable[b.queue(t.Name, id)] = o
	}
	table.TopicPutTPS = b.stats.TPS(stats.TopicPutNums, t.Name)
	b.replyJSON(r, &table)
}

// queue names a queue of this broker.
func (b *Broker) queue(topicName string, id int32) body.MessageQueue {
	return body.MessageQueue{BrokerName: b.cfg.broker.BrokerName, QueueID: id, Topic: topicName}
}

func (p *TopicProcessor) consumers(r *rpc.Request) {
	var h codec.TopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	set := map[string]bool{}
	for _, g := range append(p.b.consumers.GroupsOf(h.Topic), p.b.offsets.GroupsOf(h.Topic)...) {
		set[g] = true
	}
	p.b.replyJSON(r, &body.GroupList{GroupList: sortedKeys(set)})
}

func (p *TopicProcessor) systemTopics(r *rpc.Request) {
	p.b.replyJSON(r, &body.TopicList{TopicList: p.b.topics.SystemNames()})
}

// copyFields gives a request of ours the fields of another.
func copyFields(dst, src *codec.Command) {
	for i := range src.Fields {
		dst.Set(string(src.Fields[i].Key), src.Fields[i].Text())
	}
}

func sortedKeys(set map[string]bool) []string { return sorted(maps.Keys(set)) }
