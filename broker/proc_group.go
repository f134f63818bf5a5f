package broker

import (
	"fmt"
	"iter"
	"slices"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// GroupProcessor serves the group commands of tools: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) and _LIST
// (225), GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), DELETE_SUBSCRIPTIONGROUP (207), GET_SUBSCRIPTIONGROUP_CONFIG
// (352), UPDATE_AND_GET_GROUP_FORBIDDEN (353): Java AdminBrokerProcessor.
type GroupProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *GroupProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqUpdateAndCreateSubscriptionGroup:
		var c body.SubscriptionGroupConfig
		if err := body.Decode(r.Cmd.Body, &c); err != nil {
			r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
			return
		}
		p.update(r, &c)
	case codec.ReqUpdateAndCreateSubscriptionGroupList:
		var l body.SubscriptionGroupList
		if err := body.Decode(r.Cmd.Body, &l); err != nil {
			r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
			return
		}
		p.update(r, l.GroupConfigList...)
	case codec.ReqGetAllSubscriptionGroupConfig:
		p.b.replyJSON(r, p.b.groups.Wrapper())
	case codec.ReqDeleteSubscriptionGroup:
		p.delete(r)
	case codec.ReqGetSubscriptionGroupConfig:
		p.get(r)
	case codec.ReqUpdateAndGetGroupForbidden:
		p.forbidden(r)
	}
}

func (p *GroupProcessor) update(r *rpc.Request, list ...*body.SubscriptionGroupConfig) {
	for i, c := range list {
		if c == nil {
			r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("groupConfigList[%d] is null", i))
			return
		}
	}
	if err := p.b.groups.Update(list...); err != nil {
		p.b.replyError(r, err)
		return
	}
	r.OK()
}

func (p *GroupProcessor) delete(r *rpc.Request) {
	var h codec.DeleteSubscriptionGroupRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	if _, err := b.groups.Delete(h.GroupName); err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	if h.RemovesOffsets() {
		b.offsets.DeleteGroup(h.GroupName)
		if err := b.offsets.Persist(); err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		b.pop.Forget(func(_, group string) bool { return group == h.GroupName })
	}
	if b.cfg.broker.AutoDeleteUnusedStats {
		b.stats.DeleteGroup(h.GroupName)
	}
	b.filters.DeleteGroup(h.GroupName)
	b.locks.DeleteGroup(h.GroupName)
	r.OK()
}

func (p *GroupProcessor) get(r *rpc.Request) {
	var h codec.GroupRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	g, err := p.b.groups.Find(h.Group) // as Java: asking makes it
	if err != nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, "No group in this broker. group: "+h.Group)
		return
	}
	p.b.replyJSON(r, &g.Config)
}

func (p *GroupProcessor) forbidden(r *rpc.Request) {
	var h codec.UpdateGroupForbiddenRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if h.Readable != nil {
		if p.b.topics.Get(h.Topic) == nil {
			r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("Topic %s not exist!", h.Topic))
			return
		}
		if err := p.b.groups.SetForbidden(h.Group, h.Topic, !*h.Readable); err != nil {
			p.b.replyError(r, err)
			return
		}
	}
	readable := !p.b.groups.Forbidden(h.Group, h.Topic)
	p.b.replyJSON(r, &body.GroupForbidden{Group: h.Group, Topic: h.Topic, Readable: &readable})
}

// sorted collects and sorts texts.
func sorted(seq iter.Seq[string]) []string { return slices.Sorted(seq) }
