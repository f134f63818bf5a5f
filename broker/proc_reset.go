package broker

import (
	"fmt"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
	"skylark/store"
)

// ResetOffsetProcessor serves INVOKE_BROKER_TO_RESET_OFFSET (222): Java AdminBrokerProcessor.resetOffset. With
// useServerSideResetOffset (default) the next pull of the group is answered PULL_OFFSET_MOVED; without it the table is
// sent to the group's members (220).
type ResetOffsetProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ResetOffsetProcessor) Process(r *rpc.Request) {
	var h codec.ResetOffsetRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	t := b.topics.Get(h.Topic)
	if t == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("Topic %s does not exist", h.Topic))
		return
	}
	if b.groups.Get(h.Group) == nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("Group %s does not exist", h.Group))
		return
	}
	table := map[body.MessageQueue]codec.QueueOffset{}
	if h.QueueID >= 0 {
		if h.Offset == nil || h.QueueID >= t.Config.ReadQueueNums {
			r.ReplyError(codec.RespSystemError, fmt.Sprintf("queue %d has no offset to reset to", h.QueueID))
			return
		}
		lo, hi := b.store.MinOffset(t.Name, h.QueueID), b.store.MaxOffset(t.Name, h.QueueID)
		if *h.Offset < lo || *h.Offset > hi+1 {
			r.ReplyError(codec.RespSystemError, fmt.Sprintf("Target offset %d not in consume queue range [%d-%d]",
				*h.Offset, lo, hi))
			return
		}
		table[b.queue(t.Name, h.QueueID)] = *h.Offset
	} else {
		for id := range t.Config.ReadQueueNums {
			if at, ok := p.target(r, &h, t.Name, id); ok {
				table[b.queue(t.Name, id)] = at
			}
		}
	}
	if b.cfg.broker.UseServerSideResetOffset {
		for q, at := range table {
			b.offsets.AssignReset(q.Topic, h.Group, q.QueueID, at)
			b.wakeQueue(q)
		}
	} else if !p.tellMembers(r, &h, table) {
		return
	}
	b.replyJSON(r, &body.ResetOffsetBody{OffsetTable: table})
}

// target is where one queue goes. Without force an offset is only moved back.
func (p *ResetOffsetProcessor) target(r *rpc.Request, h *codec.ResetOffsetRequestHeader, topicName string, id int32) (
	at codec.QueueOffset, ok bool) {
	st := p.b.store
	if h.Timestamp < 0 {
		at = st.MaxOffset(topicName, id)
	} else {
		at = st.OffsetByTime(topicName, id, h.Timestamp, store.BoundaryLower)
	}
	at = max(at, 0)
	if !h.IsForce {
		if now, has := p.b.offsets.Query(h.Group, topicName, id); has && now < at {
			at = now
		}
	}
	return at, true
}

// tellMembers sends RESET_CONSUMER_CLIENT_OFFSET to the group; false: answered.
func (p *ResetOffsetProcessor) tellMembers(r *rpc.Request, h *codec.ResetOffsetRequestHeader,
	table map[body.MessageQueue]codec.QueueOffset) bool {
	b := p.b
	cg := b.consumers.Get(h.Group)
	if cg == nil {
		r.ReplyError(codec.RespConsumerNotOnline, fmt.Sprintf("Consumer not online, so can not reset offset, Group: %s "+
			"Topic: %s Timestamp: %d", h.Group, h.Topic, h.Timestamp))
		return false
	}
	data, err := body.Encode(&body.ResetOffsetBody{OffsetTable: table})
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return false
	}
	for _, c := range cg.Clients() {
		req := codec.NewRequest(codec.ReqResetConsumerClientOffset)
		codec.EncodeHeader(req, h)
		req.Body = data
		if err := b.server.Oneway(c.Conn, req); err != nil {
			b.log.Warn("member not told to reset its offsets", "group", h.Group, "remote", c.Conn.RemoteAddr(), "error", err)
		}
	}
	return true
}
