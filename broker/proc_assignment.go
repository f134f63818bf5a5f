package broker

import (
	"slices"
	"strings"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// AssignmentProcessor serves QUERY_ASSIGNMENT (400): Java QueryAssignmentProcessor. Groups that pop
// (SET_MESSAGE_REQUEST_MODE, defaultMessageRequestMode) share queues, see allocatePop. Broadcast groups get every queue,
// others their share by the strategy the client names. No list at all has the client keep
// what it has: there is no route, the group is not online, or the strategy is unknown.
type AssignmentProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *AssignmentProcessor) Process(r *rpc.Request) {
	var q body.QueryAssignmentRequestBody
	if err := body.Decode(r.Cmd.Body, &q); err != nil {
		r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
		return
	}
	if q.Topic == "" || q.ConsumerGroup == "" {
		r.ReplyError(codec.RespInvalidParameter, "topic or consumerGroup is missing in the request body")
		return
	}
	b := p.b
	var answer body.QueryAssignmentResponseBody
	queues, err := b.assignable(q.Topic)
	if err != nil { // the client keeps what it has
		b.log.Debug("assignment without route", "topic", q.Topic, "error", err)
		b.replyJSON(r, &answer)
		return
	}
	mode, share := b.requestMode(q.Topic, q.ConsumerGroup)
	if q.MessageModel != body.Broadcasting && b.cfg.broker.ServerLoadBalancerEnable {
		cg := b.consumers.Get(q.ConsumerGroup)
		if cg == nil || q.StrategyName != body.StrategyAveragely &&
			q.StrategyName != body.StrategyAveragelyByCircle {
			b.log.Warn("no assignment", "group", q.ConsumerGroup, "online", cg != nil, "topic", q.Topic, "strategy",
				q.StrategyName)
			b.replyJSON(r, &answer)
			return
		}
		if mode == body.ModePop {
			queues = allocatePop(queues, cg.IDs(), q.ClientID, q.StrategyName, share)
		} else {
			queues = allocate(queues, cg.IDs(), q.ClientID, q.StrategyName)
		}
	}
	list := make([]*body.MessageQueueAssignment, 0, len(queues))
	for i := range queues {
		list = append(list, &body.MessageQueueAssignment{MessageQueue: &queues[i], Mode: mode})
	}
	answer.MessageQueueAssignments = &list
	b.replyJSON(r, &answer)
}

// assignable are the queues of a topic that can be read; light queues are in no route, and each is on the broker that it
// was filled by.
func (b *Broker) assignable(topicName string) ([]body.MessageQueue, error) {
	if codec.IsLMQ(topicName) {
		return []body.MessageQueue{b.queue(topicName, 0)}, nil
	}
	route, err := b.registrar.route(topicName)
	if err != nil {
		return nil, err
	}
	return readQueues(route, topicName), nil
}

// readQueues are the queues of a topic that can be read, sorted as clients sort them.
func readQueues(route *body.TopicRouteData, topicName string) (out []body.MessageQueue) {
	for _, q := range route.QueueDatas {
		if q.Perm&codec.PermRead == 0 {
			continue
		}
		for id := range q.ReadQueueNums {
			out = append(out, body.MessageQueue{BrokerName: q.BrokerName, QueueID: id, Topic: topicName})
		}
	}
	slices.SortFunc(out, func(a, b body.MessageQueue) int {
		if c := strings.Compare(a.BrokerName, b.BrokerName); c != 0 {
			return c
		}
		return int(a.QueueID) - int(b.QueueID)
	})
	return out
}

// allocate gives a client its share (Java AllocateMessageQueueAveragely and …ByCircle). ids are sorted.
func allocate(queues []body.MessageQueue, ids []string, clientID, strategy string) (out []body.MessageQueue) {
	at := slices.Index(ids, clientID)
	if at < 0 || len(queues) == 0 {
		return nil
	}
	if strategy == body.StrategyAveragelyByCircle {
		for i := at; i < len(queues); i += len(ids) {
			out = append(out, queues[i])
		}
		return out
	}
	rest := len(queues) % len(ids)
	share := len(queues) / len(ids)
	start := at*share + min(at, rest)
	if at < rest {
		share++
	}
	return queues[start : start+share]
}
