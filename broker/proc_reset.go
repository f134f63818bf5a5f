package broker

import (
	"fmt"
	"slices"

	"skylark/broker/topic"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
	"skylark/store"
)

// ResetOffsetProcessor serves INVOKE_BROKER_TO_RESET_OFFSET (222): Java AdminBrokerProcessor.resetOffset and
// Broker2Client. With useServerSideResetOffset (default) the next pull of the group is answered
// PULL_OFFSET_MOVED; without it the table is sent to the group's members (220).
type ResetOffsetProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ResetOffsetProcessor) Process(r *rpc.Request) {
	var h codec.ResetOffsetRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	t := p.b.topics.Get(h.Topic)
	if t == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("Topic %s does not exist", h.Topic))
		return
	}
	if p.b.groups.Get(h.Group) == nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, fmt.Sprintf("Group %s does not exist", h.Group))
		return
	}
	if p.b.cfg.broker.UseServerSideResetOffset {
		p.inBroker(r, &h, t)
	} else {
		p.inClients(r, &h, t)
	}
}

// inBroker moves the group's offsets here, whether it is online or not. isForce has no meaning, as in Java.
func (p *ResetOffsetProcessor) inBroker(r *rpc.Request, h *codec.ResetOffsetRequestHeader, t *topic.Topic) {
	b := p.b
	table := map[body.MessageQueue]codec.QueueOffset{}
	if h.QueueID >= 0 {
		at, err := p.ofQueue(h, t)
		if err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		table[b.queue(t.Name, h.QueueID)] = at
	} else {
		for id := range t.Config.ReadQueueNums {
			table[b.queue(t.Name, id)] = p.byTime(t.Name, id, h.Timestamp)
		}
	}
	for q, at := range table {
		if err := b.offsets.AssignReset(q.Topic, h.Group, q.QueueID, at); err != nil {
			b.replyError(r, err)
			return
		}
		b.pop.Moved(q.Topic, h.Group, q.QueueID, at)
		b.wakeQueue(q)
	}
	if err := b.offsets.Persist(); err != nil {
		b.replyError(r, err)
		return
	}
	b.log.Info("offsets reset", "group", h.Group, "topic", t.Name, "queues", len(table), "timestamp",
		h.Timestamp)
	b.replyJSON(r, &body.ResetOffsetBody{OffsetTable: table})
}

// ofQueue is the target of a single queue: the offset of the request, or without one that of its time.
func (p *ResetOffsetProcessor) ofQueue(h *codec.ResetOffsetRequestHeader,
	t *topic.Topic) (codec.QueueOffset, error) {
	if h.QueueID >= t.Config.ReadQueueNums {
		return 0, fmt.Errorf("queue %d of topic %s does not exist, it has %d", h.QueueID, t.Name,
			t.Config.ReadQueueNums)
	}
	if h.Offset == nil || *h.Offset == -1 {
		return p.byTime(t.Name, h.QueueID, h.Timestamp), nil
	}
	lo, hi := p.b.store.MinOffset(t.Name, h.QueueID), p.b.store.MaxOffset(t.Name, h.QueueID)
	if *h.Offset < lo || *h.Offset > hi+1 {
		return 0, fmt.Errorf("Target offset %d not in consume queue range [%d-%d]", *h.Offset, lo, hi)
	}
	return *h.Offset, nil
}

// byTime is the first message at or after a time; a negative time means the end.
func (p *ResetOffsetProcessor) byTime(topicName string, id int32, timestamp int64) codec.QueueOffset {
	if timestamp < 0 {
		return p.b.store.MaxOffset(topicName, id)
	}
	return max(p.b.store.OffsetByTime(topicName, id, timestamp, store.BoundaryLower), 0)
}

// inClients sends RESET_CONSUMER_CLIENT_OFFSET to the members of the group. Without force an offset is only
// moved back.
func (p *ResetOffsetProcessor) inClients(r *rpc.Request, h *codec.ResetOffsetRequestHeader, t *topic.Topic) {
	b := p.b
	table := map[body.MessageQueue]codec.QueueOffset{}
	for id := range t.Config.WriteQueueNums {
		now, ok := b.offsets.Query(h.Group, t.Name, id)
		if !ok {
			r.ReplyError(codec.RespSystemError, fmt.Sprintf("THe consumer group <%s> not exist", h.Group)) // sic
			return
		}
		at := p.byTime(t.Name, id, h.Timestamp)
		if !h.IsForce {
			at = min(at, now)
		}
		table[b.queue(t.Name, id)] = at
	}
	cg := b.consumers.Get(h.Group)
	if cg == nil {
		r.ReplyError(codec.RespConsumerNotOnline, fmt.Sprintf("Consumer not online, so can not reset offset, "+
			"Group: %s Topic: %s Timestamp: %d", h.Group, h.Topic, h.Timestamp))
		return
	}
	forClients, err := resetBody(table, r.Cmd.Language == codec.LanguageCPP)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	for _, c := range cg.Clients() {
		if c.Version < codec.Version307Snapshot {
			r.ReplyError(codec.RespSystemError, "the client does not support this feature. version="+
				codec.VersionName(c.Version))
			return
		}
		req := codec.NewRequest(codec.ReqResetConsumerClientOffset)
		codec.EncodeHeader(req, &codec.ResetOffsetRequestHeader{Topic: h.Topic, Group: h.Group, QueueID: -1,
			Timestamp: h.Timestamp})
		req.Body = forClients
		if err := b.server.Oneway(c.Conn, req); err != nil {
			b.log.Warn("member not told to reset its offsets", "group", h.Group, "remote", c.Conn.RemoteAddr(),
				"error", err)
		}
	}
	b.replyJSON(r, &body.ResetOffsetBody{OffsetTable: table})
}

// resetBody is the body of 220; a list for a requester in C++ (Java ResetOffsetBodyForC).
func resetBody(table map[body.MessageQueue]codec.QueueOffset, cpp bool) ([]byte, error) {
	if !cpp {
		return body.Encode(&body.ResetOffsetBody{OffsetTable: table})
	}
	var list body.ResetOffsetBodyForC
	for q, at := range table {
		list.OffsetTable = append(list.OffsetTable, body.MessageQueueForC{BrokerName: q.BrokerName, Offset: at,
			QueueID: q.QueueID, Topic: q.Topic})
	}
	slices.SortFunc(list.OffsetTable, func(a, b body.MessageQueueForC) int {
		return int(a.QueueID) - int(b.QueueID)
	})
	return body.Encode(&list)
}
