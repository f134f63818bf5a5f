package broker

import (
	"strings"

	"skylark/broker/broadcast"
	"skylark/broker/conn"
	"skylark/codec"
	"skylark/codec/body"
)

// noteBegin keeps where the queues end that a new broadcasting consumer is about to read from their end (package
// broadcast). It is called before the consumer is registered.
func (b *Broker) noteBegin(cl conn.Client, cd *body.ConsumerData) {
	if cd.MessageModel != body.Broadcasting || cd.ConsumeType != body.ConsumePassively {
		return
	}
	switch cd.ConsumeFromWhere {
	case body.FromLastOffset, body.FromLastOffsetMinWhenBoot, body.FromMaxOffset:
	default:
		return
	}
	st, ok := cl.Conn.Context().(*connState)
	if !ok {
		return
	}
	if cg := b.consumers.Get(cd.GroupName); cg != nil && cg.Has(cl.Conn) {
		return
	}
	begin := st.begin.Load()
	if begin == nil {
		return
	}
	group := strings.Clone(cd.GroupName) // a piece of the request's text
	for _, sd := range cd.SubscriptionDataSet {
		if sd == nil || codec.IsRetryTopic(sd.Topic) {
			continue
		}
		t := b.topics.Get(sd.Topic)
		if t == nil {
			continue
		}
		for id := range min(t.Config.ReadQueueNums, broadcast.MaxQueues) {
			begin.Note(group, t.Name, id, max(b.store.MaxOffset(t.Name, id), 0))
		}
	}
}

// beginAt is where a pull is served from.
func (q *pull) beginAt(st *connState) {
	if begin := st.begin.Load(); begin != nil {
		q.h.QueueOffset = begin.At(q.h.ConsumerGroup, q.h.Topic, q.h.QueueID, q.h.QueueOffset)
	}
}

// begun ends the first pull of a queue.
func (q *pull) begun(st *connState) {
	if begin := st.begin.Load(); begin != nil && begin.Done(q.h.ConsumerGroup, q.h.Topic, q.h.QueueID) {
		st.begin.Store(nil)
	}
}
