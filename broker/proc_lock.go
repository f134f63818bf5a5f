package broker

import (
	"skylark/broker/lock"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor"
	"skylark/reactor/rpc"
)

// LockProcessor serves LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): Java AdminBrokerProcessor with
// RebalanceLockManager. Who was refused a queue is told when it becomes free (package lock).
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
	ask := lock.Request{Group: q.ConsumerGroup, ClientID: q.ClientID, Conn: r.Conn().ID(), Queues: q.MQSet}
	if r.Cmd.Code == codec.ReqUnlockBatchMQ {
		p.b.tellToRebalance(p.b.locks.Unlock(ask))
		r.OK()
		return
	}
	held := p.b.locks.Lock(ask)
	defer p.b.forgetIfClosed(r.Conn())
	p.b.replyJSON(r, &body.LockBatchResponseBody{LockOKMQSet: held})
}

// tellToRebalance sends the named clients a NOTIFY_CONSUMER_IDS_CHANGED (40), on which they give up the queues
// that are not theirs any more and ask for those that are.
func (b *Broker) tellToRebalance(notices []lock.Notice) {
	if !b.cfg.broker.NotifyConsumerIdsChangedEnable {
		return
	}
	for _, n := range notices {
		if c := b.consumers.Elsewhere(n.Group, n.ClientID, 0); c != nil && b.wantsNotice(n.Group) {
			b.notify(n.Group, []reactor.Conn{c})
		}
	}
}

// releaseLocks hands on the queues that a connection's client held, unless it is here on another one too. It is
// called before the group learns that it has lost a member, so that nobody asks in vain.
func (b *Broker) releaseLocks(c reactor.Conn) {
	if !b.o.Config.Own().QueueLockReleaseOnClose {
		return
	}
	b.tellToRebalance(b.locks.ReleaseConn(c.ID(), func(group, clientID string) uint64 {
		if other := b.consumers.Elsewhere(group, clientID, c.ID()); other != nil {
			return other.ID()
		}
		return 0
	}))
}

// stepLocks runs every second: locks that expire while others wait for them, and owners that have to be reminded.
func (b *Broker) stepLocks() {
	b.tellToRebalance(b.locks.Step())
	if err := b.locks.Persist(); err != nil {
		b.log.Error("queue locks not written", "error", err)
	}
}
