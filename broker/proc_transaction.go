package broker

import (
	"fmt"

	"skylark/broker/transaction"
	"skylark/codec"
	"skylark/config"
	"skylark/reactor/rpc"
	"skylark/store"
)

// EndTransactionProcessor serves END_TRANSACTION (37): Java EndTransactionProcessor. Clients send it oneway.
//
// It is served on the event loop: the half message is copied out of the page cache, the committed message appended, and
// its op message left to a batch. What could wait goes to the pool: a half message that is not in memory, a log file
// that is not ready, a transaction that is just being put back for a check.
//
// Deviations: docs/compat.md.
type EndTransactionProcessor struct{ b *Broker }

// ProcessOnLoop implements rpc.LoopProcessor.
func (p *EndTransactionProcessor) ProcessOnLoop(r *rpc.Request) bool { return p.end(r) }

// Process implements rpc.Processor.
func (p *EndTransactionProcessor) Process(r *rpc.Request) { p.end(r) }

// end serves one request; false only on a loop, when it could not be served without waiting: nothing was done then.
func (p *EndTransactionProcessor) end(r *rpc.Request) bool {
	b := p.b
	if b.cfg.store.BrokerRole == config.Slave {
		r.ReplyError(codec.RespSlaveNotAvailable, "this broker is a slave")
		return true
	}
	var h codec.EndTransactionHeader
	if err := h.Decode(r.Cmd); err != nil {
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return true
	}
	switch h.CommitOrRollback {
	case codec.SysFlagTransactionCommit, codec.SysFlagTransactionRollback:
	default: // no answer, as Java: the transaction stays open
		b.svc().transactions.Unknown(h.TranStateTableOffset)
		b.log.Debug("transaction stays open", "group", string(h.ProducerGroup), "msgId", string(h.MsgID), "state",
			h.CommitOrRollback, "fromCheck", h.FromTransactionCheck, "remote", r.Conn().RemoteAddr(), "remark", r.Cmd.Remark)
		return true
	}
	e := transaction.End{Group: h.ProducerGroup, QueueOffset: h.TranStateTableOffset, PhyOffset: h.CommitLogOffset,
		Commit: h.CommitOrRollback == codec.SysFlagTransactionCommit, FromCheck: h.FromTransactionCheck, OnLoop: r.OnLoop()}
	put, served, err := b.svc().transactions.End(&e)
	switch {
	case !served:
		return false
	case err != nil:
		b.log.Debug("transaction not ended", "group", string(h.ProducerGroup), "msgId", string(h.MsgID), "phyOffset",
			int64(h.CommitLogOffset), "queueOffset", int64(h.TranStateTableOffset), "remote", r.Conn().RemoteAddr(),
			"error", err)
		b.replyTransactionError(r, err)
	case put.Status != store.PutOK:
		code, remark := putError(&put)
		b.log.Warn("transaction not ended", "group", string(h.ProducerGroup), "msgId", string(h.MsgID), "code", code,
			"remark", remark)
		r.ReplyError(code, remark)
	case b.syncDurability():
		b.replyDurable(r, put.EndOffset) // also oneway: somebody has to ask for the flush
	default:
		r.OK()
	}
	return true
}

// ResumeTransactionProcessor serves RESUME_CHECK_HALF_MESSAGE (323): Java AdminBrokerProcessor.resumeCheckHalfMessage.
// Only what was given up can be brought back, and once: Java takes any message.
type ResumeTransactionProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ResumeTransactionProcessor) Process(r *rpc.Request) {
	var h codec.ResumeCheckHalfMessageRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	_, at, err := codec.ParseOffsetMsgID(h.MsgID)
	if err != nil {
		r.ReplyError(codec.RespSystemError, "the header field \"msgId\" is no offset message id: "+err.Error())
		return
	}
	put, err := p.b.svc().transactions.Resume(at)
	switch {
	case err != nil:
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("Put message back to %s failed: %v", codec.HalfTopic, err))
	case put.Status != store.PutOK:
		code, remark := putError(&put)
		r.ReplyError(code, remark)
	default:
		p.b.replyDurable(r, put.EndOffset)
	}
}
