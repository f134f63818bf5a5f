package broker

import (
	"errors"
	"fmt"

	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// faqRemark is what Java appends to remarks about missing things.
const faqRemark = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

// replyError answers an error of ours: the one place that turns errors into codes and remarks.
func (b *Broker) replyError(r *rpc.Request, err error) {
	var he *codec.HeaderError
	var ne *codec.NameError
	switch {
	case errors.As(err, &he), errors.As(err, &ne):
		r.ReplyError(codec.RespInvalidParameter, err.Error())
	default:
		r.ReplyError(codec.RespSystemError, err.Error())
	}
}

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
	case store.MessageIllegal, store.PropertiesSizeExceeded:
		return codec.RespMessageIllegal
	case store.OSPageCacheBusy:
		return codec.RespSystemBusy
	default:
		return codec.RespSystemError
	}
}

// putError is code and remark of a put that stored nothing: Java's text, then our reason.
func putError(put store.PutResult) (code int, remark string) {
	code = putStatusCode(put.Status)
	switch put.Status {
	case store.ServiceNotAvailable:
		remark = "service not available now. It may be caused by one of the following reasons: the broker's disk is full, " +
			"messages are put to the slave, message store has been shut down, etc."
	case store.OSPageCacheBusy:
		remark = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
	case store.CreateMappedFileFailed:
		remark = "create mapped file failed, server is busy or broken."
	case store.MessageIllegal, store.PropertiesSizeExceeded:
		remark = "the message is illegal, maybe msg body or properties length not matched."
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
