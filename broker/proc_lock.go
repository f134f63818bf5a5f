package broker

import (
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// LockProcessor serves LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): Java AdminBrokerProcessor with
// RebalanceLockManager.
type LockProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *LockProcessor) Process(r *rpc.Request) {
	var q body.LockBatchRequestBody
	if err := body.Decode(r.Cmd.Body, &q); err != nil {
		r.ReplyError(codec.RespSystemError, "the request body cannot be read: "+err.Error())
		return
	}
	if q.ConsumerGroup == "" || q.ClientID == "" {
		r.ReplyError(codec.RespInvalidParameter, "consumerGroup or clientId is missing in the request body")
		return
	}
	if r.Cmd.Code == codec.ReqUnlockBatchMQ {
		p.b.locks.Unlock(q.ConsumerGroup, q.ClientID, q.MQSet)
		r.OK()
		return
	}
	held := p.b.locks.Lock(q.ConsumerGroup, q.ClientID, q.MQSet)
	p.b.replyJSON(r, &body.LockBatchResponseBody{LockOKMQSet: held})
}
