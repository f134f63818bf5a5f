package broker

import (
	"skylark/codec"
	"skylark/ha"
	"skylark/reactor/rpc"
	"skylark/store"
)

// guardSlave answers what a slave does not do; nil for anything else. Sends are refused by rejectSend, what gets past it by
// the store.
func (b *Broker) guardSlave(r *rpc.Request) *codec.Command {
	switch r.Cmd.Code {
	case codec.ReqPullMessage, codec.ReqLitePullMessage:
		if !b.o.Config.Broker().SlaveReadEnable {
			return codec.NewResponse(r.Cmd, codec.RespSystemBusy, rpc.RejectRequestRemark)
		}
	case codec.ReqEndTransaction, codec.ReqRecallMessage:
		return codec.NewResponse(r.Cmd, codec.RespSlaveNotAvailable, "this broker is a slave")
	case codec.ReqConsumerSendMsgBack:
		// The consumer sends the message to the retry topic itself then, at a broker that takes it.
		return codec.NewResponse(r.Cmd, codec.RespSystemError, "no master available along with "+b.storeHostText)
	case codec.ReqPopMessage, codec.ReqAckMessage, codec.ReqBatchAckMessage, codec.ReqChangeMessageInvisibleTime,
		codec.ReqNotification, codec.ReqPollingInfo:
		return codec.NewResponse(r.Cmd, codec.RespSystemError, "this broker is a slave: POP is served by the master")
	}
	return nil
}

// toMaster tells that the consumer has caught up and the master is there: it shall read from that one again. Java redirects
// also while the master is gone, and its consumers ask without a pause then.
func (q *pull) toMaster() bool {
	return !q.res.SuggestSlave && q.b.replica.client != nil && q.b.replica.client.State() == ha.ClientTransfer
}

// onSlave is the code of a pull on a slave (Java PullMessageProcessor.composeResponseHeader, DefaultMessageStore
// nextOffsetCorrection): where there is nothing the consumer goes back to the master, and an offset outside the queue is
// left as it is, because the slave may only be behind.
func (q *pull) onSlave(code int) int {
	b := q.b
	if b.o.Config.Store().OffsetCheckInSlave {
		return code
	}
	if q.toMaster() && code != codec.RespSuccess {
		return codec.RespPullRetryImmediately
	}
	switch q.res.Status {
	case store.GetOffsetTooSmall, store.GetOffsetOverflowBadly, store.GetNoMatchedLogicQueue, store.GetNoMessageInQueue:
		q.res.NextOffset = q.h.QueueOffset
		if code == codec.RespPullOffsetMoved {
			return codec.RespPullRetryImmediately
		}
	}
	return code
}

// HAProcessor serves GET_BROKER_HA_STATUS (907): Java AdminBrokerProcessor.getBrokerHaStatus. It works in every role.
type HAProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *HAProcessor) Process(r *rpc.Request) { p.b.replyJSON(r, p.b.HAInfo()) }

// startSpecial begins what only a master does: delayed and timed messages, transactions, POP. It is called before the first
// request, so that what became due during the stop is delivered before the first pull.
func (b *Broker) startSpecial() error {
	if b.isSlave() {
		return nil
	}
	b.schedule.Start()
	if err := b.startTimer(); err != nil {
		return err
	}
	b.transactions.Start()
	b.startPop()
	return nil
}
