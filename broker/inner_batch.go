package broker

import (
	"fmt"
	"strconv"

	"skylark/broker/topic"
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// An inner batch is a batch that is stored as one record (Java SendMessageProcessor.sendBatchMessage): in a topic with
// queue.type=BatchCQ, if the batch has an id of its own, as 5.x clients give it. Batches of older clients become a record
// for each message there, too. Consumers take it apart; see docs/formats.md.

// isInner tells whether the request is an inner batch.
func (s *seen) isInner(h *codec.SendMessageHeader, t *topic.Topic) bool {
	return t.BatchCQ && (h.Batch && s.uniqKey != nil || h.SysFlag&codec.SysFlagInnerBatch != 0)
}

// inner makes the message of the request an inner batch; its entries have been checked. false: answered.
func (p *SendMessageProcessor) inner(r *rpc.Request, st *sendTurn) bool {
	m := &st.msg
	n, err := codec.CountBatch(m.Body)
	if err == nil && (n < 1 || n > store.MaxInnerMessages) {
		err = fmt.Errorf("an inner batch of %d messages, at most %d", n, store.MaxInnerMessages)
	}
	if err != nil {
		p.refuse(r, codec.RespMessageIllegal, err.Error())
		return false
	}
	m.SysFlag |= codec.SysFlagNeedUnwrap | codec.SysFlagInnerBatch
	if _, ok := codec.LookupProperty(m.Properties, codec.PropInnerNum); ok {
		m.Properties = codec.RemoveProperty(nil, m.Properties, codec.PropInnerNum)
	}
	m.Properties = codec.AppendProperty(m.Properties, codec.PropInnerNum, strconv.Itoa(n))
	st.props = m.Properties
	st.resp.TransactionID, _ = codec.LookupProperty(m.Properties, codec.PropUniqKey)
	st.inner = true
	return true
}

// queueType is store.Options.QueueType.
func (b *Broker) queueType(topicName string) store.CQType {
	switch t := b.topics.Get(topicName); {
	case t == nil:
		return store.CQUnknown
	case t.BatchCQ:
		return store.BatchCQ
	}
	return store.SimpleCQ
}
