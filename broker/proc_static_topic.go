package broker

import (
	"errors"
	"fmt"

	"skylark/broker/statictopic"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// StaticTopicProcessor serves UPDATE_AND_CREATE_STATIC_TOPIC (513): Java AdminBrokerProcessor.updateAndCreateStaticTopic,
// for topics on this broker alone (package statictopic). An error changes nothing; Java keeps the topic without its
// mapping.
type StaticTopicProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *StaticTopicProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.CreateTopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	var d body.TopicQueueMappingDetail
	if err := body.Decode(r.Cmd.Body, &d); err != nil {
		r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
		return
	}
	if d.Topic != h.Topic {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("the mapping is for topic %q, the request for %q", d.Topic,
			h.Topic))
		return
	}
	c, err := topicConfig(&h)
	if err != nil {
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return
	}
	if n := min(c.ReadQueueNums, c.WriteQueueNums); d.TotalQueues > n {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("%d logical queues on %d physical ones", d.TotalQueues, n))
		return
	}
	if old := b.topics.Get(h.Topic); old != nil {
		c.Attributes = old.Config.Attributes
	}
	if err := p.update(&c, &d, h.Force); err != nil {
		if errors.Is(err, statictopic.ErrInvalid) || errors.Is(err, statictopic.ErrNotServed) {
			r.ReplyError(codec.RespInvalidParameter, err.Error())
			return
		}
		b.replyError(r, err)
		return
	}
	r.OK()
}

// update takes over both, the mapping first: the topic's registration carries it.
func (p *StaticTopicProcessor) update(c *body.TopicConfig, d *body.TopicQueueMappingDetail, force bool) error {
	b := p.b
	old, version := b.statics.Get(d.Topic), b.topics.DataVersion()
	if err := b.statics.Update(d, force); err != nil {
		return err
	}
	if err := b.topics.Update(*c); err != nil {
		return errors.Join(err, b.statics.Set(d.Topic, old))
	}
	if b.topics.DataVersion() != version {
		return nil
	}
	if err := b.topics.NextVersion(); err != nil { // else name servers would not look at the mapping
		return err
	}
	b.registrar.topicsChanged([]*topic.Topic{b.topics.Get(d.Topic)})
	return nil
}

// withMappings adds what the name servers have to know of static topics.
func (b *Broker) withMappings(w *body.TopicConfigAndMappingSerializeWrapper) {
	_, w.MappingDataVersion = b.statics.Details()
	w.TopicQueueMappingInfoMap = map[string]*body.TopicQueueMappingInfo{}
	for name := range w.TopicConfigTable {
		if info := b.statics.Info(name); info != nil {
			w.TopicQueueMappingInfoMap[name] = info
		}
	}
}
