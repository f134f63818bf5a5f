package broker

import (
	"fmt"
	"slices"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// RequestModeProcessor serves SET_MESSAGE_REQUEST_MODE (401) and GET_ALL_MESSAGE_REQUEST_MODE (402): Java
// QueryAssignmentProcessor, AdminBrokerProcessor.
type RequestModeProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *RequestModeProcessor) Process(r *rpc.Request) {
	b := p.b
	if r.Cmd.Code == codec.ReqGetAllMessageRequestMode {
		w := b.modes.Wrapper()
		b.replyJSON(r, &w)
		return
	}
	var mode body.SetMessageRequestModeRequestBody
	if err := body.Decode(r.Cmd.Body, &mode); err != nil {
		r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
		return
	}
	switch {
	case codec.IsRetryTopic(mode.Topic):
		r.ReplyError(codec.RespNoPermission, "retry topic is not allowed to set mode")
		return
	case b.topics.Get(mode.Topic) == nil:
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist", mode.Topic))
		return
	}
	if _, err := b.groups.Find(mode.ConsumerGroup); err != nil {
		r.ReplyError(codec.RespSubscriptionGroupNotExist, "subscription group does not exist")
		return
	}
	if err := b.modes.Set(&mode); err != nil {
		b.replyError(r, err)
		return
	}
	b.log.Info("message request mode set", "topic", mode.Topic, "group", mode.ConsumerGroup, "mode", string(mode.Mode),
		"popShareQueueNum", mode.PopShareQueueNum, "remote", r.Conn().RemoteAddr())
	r.OK()
}

// requestMode is how a group gets the messages of a topic, and among how many of its members a queue is shared.
func (b *Broker) requestMode(topicName, groupName string) (mode body.MessageRequestMode, share int) {
	if m := b.modes.Get(topicName, groupName); m != nil {
		return m.Mode, int(m.PopShareQueueNum)
	}
	c := b.o.Config.Broker()
	if codec.IsRetryTopic(topicName) {
		return body.ModePull, 0
	}
	return body.MessageRequestMode(c.DefaultMessageRequestMode), c.DefaultPopShareQueueNum
}

// allocatePop gives a client of a group that pops its share (Java allocate4Pop): of each broker any queue, or its own
// queues and those of the next share members.
func allocatePop(queues []body.MessageQueue, ids []string, clientID, strategy string, share int) (out []body.MessageQueue) {
	if share <= 0 || share >= len(ids)-1 {
		for _, q := range queues {
			q.QueueID = -1
			if !slices.Contains(out, q) {
				out = append(out, q)
			}
		}
		return out
	}
	at := slices.Index(ids, clientID)
	if at < 0 || len(queues) == 0 {
		return nil
	}
	if len(ids) > len(queues) {
		return []body.MessageQueue{queues[at%len(queues)]}
	}
	for i := range share + 1 {
		for _, q := range allocate(queues, ids, ids[(at+i)%len(ids)], strategy) {
			if !slices.Contains(out, q) {
				out = append(out, q)
			}
		}
	}
	return out
}
