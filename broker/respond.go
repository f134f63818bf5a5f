package broker

import (
	"errors"
	"fmt"
	"strings"

	"skylark/broker/group"
	"skylark/broker/offset"
	"skylark/broker/topic"
	"skylark/broker/transaction"
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// faqRemark is what Java appends to remarks about missing things.
const faqRemark = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

// replyError answers an error of a manager: the one place that turns them into codes. Nothing has changed
// then.
func (b *Broker) replyError(r *rpc.Request, err error) {
	var he *codec.HeaderError
	var ne *codec.NameError
	code := codec.RespSystemError
	switch {
	case errors.As(err, &he), errors.As(err, &ne), errors.Is(err, topic.ErrInvalid),
		errors.Is(err, group.ErrInvalid), errors.Is(err, offset.ErrInvalid):
		code = codec.RespInvalidParameter
	case errors.Is(err, topic.ErrSystem):
		r.ReplyError(codec.RespInvalidParameter, strings.TrimPrefix(err.Error(), topic.ErrSystem.Error()+": "))
		return
	case errors.Is(err, group.ErrNotExist):
		code = codec.RespSubscriptionGroupNotExist
	}
	r.ReplyError(code, err.Error())
}

// replyTransactionError answers an END_TRANSACTION that could not be done (Java EndTransactionProcessor).
func (b *Broker) replyTransactionError(r *rpc.Request, err error) {
	code := codec.RespSystemError
	switch {
	case errors.Is(err, transaction.ErrTooLate):
		code = codec.RespIllegalOperation
	case errors.Is(err, transaction.ErrLoading):
		code = codec.RespSystemBusy
	}
	r.ReplyError(code, err.Error())
}

const serviceNotAvailableRemark = "service not available now. It may be caused by one of the following reasons: " +
	"the broker's disk is full, messages are put to the slave, message store has been shut down, etc."

// putStatusCode is the response code of a put (spec store-behaviour.md §1).
func putStatusCode(s store.PutStatus) int {
	switch s {
	case store.PutOK:
		return codec.RespSuccess
	case store.FlushDiskTimeout:
		return codec.RespFlushDiskTimeout
	case store.FlushSlaveTimeout:
		return codec.RespFlushSlaveTimeout
	case store.SlaveNotAvailable:
		return codec.RespSlaveNotAvailable
	case store.ServiceNotAvailable:
		return codec.RespServiceNotAvailable
	case store.MessageIllegal, store.PropertiesSizeExceeded, store.WheelTimerMsgIllegal:
		return codec.RespMessageIllegal
	case store.OSPageCacheBusy:
		return codec.RespSystemBusy
	default:
		return codec.RespSystemError
	}
}

// putError is code and remark of a put that is not answered as stored: Java's text, then our reason.
func putError(put *store.PutResult) (code int, remark string) {
	code = putStatusCode(put.Status)
	switch put.Status {
	case store.ServiceNotAvailable:
		remark = serviceNotAvailableRemark
	case store.OSPageCacheBusy:
		remark = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
	case store.CreateMappedFileFailed:
		remark = "create mapped file failed, server is busy or broken."
		if errors.Is(put.Err, store.ErrDiskFull) { // a retry elsewhere helps, as with any full disk
			code, remark = codec.RespServiceNotAvailable, serviceNotAvailableRemark
		}
	case store.MessageIllegal, store.PropertiesSizeExceeded:
		remark = "the message is illegal, maybe msg body or properties length not matched."
	case store.WheelTimerMsgIllegal:
		remark = "timer message illegal, the delay time should not be bigger than the max delay timerMaxDelaySec, or " +
			"if set del msg, the delay time should be bigger than the current time"
	case store.WheelTimerFlowControl:
		remark = "timer message is under flow control, too many messages are due at the same time"
	case store.WheelTimerNotEnable:
		remark = "accurate timer message is not enabled on this broker"
	case store.LmqConsumeQueueNumExceeded:
		remark = "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num " +
			"exceed maxLmqConsumeQueueNum config num, default limit 2w."
	case store.InSyncReplicasNotEnough:
		remark = "in-sync replicas not enough"
	default:
		remark = "UNKNOWN_ERROR"
	}
	if put.Err != nil {
		remark = fmt.Sprintf("%s (%v)", remark, put.Err)
	}
	return code, remark
}

// illegalRemark is Java's text for a message that is too long.
func (b *Broker) illegalRemark() string {
	return fmt.Sprintf("the message is illegal, maybe msg body or properties length not matched. msg body length limit "+
		"%dB, msg properties length limit 32KB.", b.maxMessageSize())
}
