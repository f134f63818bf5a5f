package broker

import (
	"skylark/codec"
	"skylark/config"
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
		if b.pop.Acting() {
			return nil
		}
		return codec.NewResponse(r.Cmd, codec.RespSystemError, "this broker is a slave: POP is served by the master")
	}
	return nil
}

// toMaster tells that the consumer has caught up and the master is there: it shall read from that one again. Java redirects
// also while the master is gone, and its consumers ask without a pause then.
func (q *pull) toMaster() bool {
	return !q.res.SuggestSlave && q.b.linked()
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
	b.joinMembers()
	if b.isSlave() || b.replica.isolated.Load() {
		return nil
	}
	return b.beginSpecial()
}

// beginSpecial starts the services of a master, once. An acting master has delays and timers only, and gives its open
// transactions away (transaction.EscapeService); with enableRemoteEscape it serves POP (package pop, acting.go).
func (b *Broker) beginSpecial() error {
	b.replica.specials.Lock()
	defer b.replica.specials.Unlock()
	if b.replica.special {
		return nil
	}
	b.replica.special = true
	if b.replica.switching != nil {
		defer b.startPop()
		return b.startServices()
	}
	s := b.svc()
	s.schedule.Start()
	if s.timer != nil {
		if err := s.timer.Start(); err != nil {
			return err
		}
	}
	if !b.isSlave() {
		s.transactions.Start()
	}
	if !b.isSlave() || b.cfg.broker.EnableRemoteEscape {
		b.startPop()
	}
	return nil
}

// specialPaused tells that delayed and timed messages are the master's, which this slave does not act as (any more).
func (b *Broker) specialPaused() bool { return b.isSlave() && !b.replica.acting.Load() }

// offsetVersionStep is how many commits make a new version of the consumer offsets: each on a slave, so that a master that
// returns can tell that consumers worked there.
func (b *Broker) offsetVersionStep() int64 {
	if b.cfg.store.BrokerRole == config.Slave {
		return 1
	}
	return b.cfg.broker.ConsumerOffsetUpdateVersionStep
}
