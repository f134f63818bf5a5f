package forward

import (
	"strings"

	"skylark/codec"
)

// Concerns tells whether a request goes to the master: what clients send, read, acknowledge, lock and commit. What they
// tell of themselves (heartbeats) stays, for they tell it to every broker of their routes, and so do replies, which go to
// a requester that is connected here. Administration is meant for the broker it is sent to.
func Concerns(code int) bool {
	switch code {
	case codec.ReqSendMessage, codec.ReqSendMessageV2, codec.ReqSendBatchMessage, codec.ReqConsumerSendMsgBack,
		codec.ReqEndTransaction, codec.ReqRecallMessage,
		codec.ReqPullMessage, codec.ReqLitePullMessage, codec.ReqPeekMessage,
		codec.ReqPopMessage, codec.ReqAckMessage, codec.ReqBatchAckMessage, codec.ReqChangeMessageInvisibleTime,
		codec.ReqNotification, codec.ReqPollingInfo,
		codec.ReqQueryConsumerOffset, codec.ReqUpdateConsumerOffset, codec.ReqLockBatchMQ, codec.ReqUnlockBatchMQ,
		codec.ReqSearchOffsetByTimestamp, codec.ReqGetMaxOffset, codec.ReqGetMinOffset:
		return true
	}
	return false
}

// notEnough is in the remark of brokers of Java and Skylark that have too few replicas to take a message.
const notEnough = "in-sync replicas not enough"

// notYet tells that an answer says "I am no master": what brokers of Java and Skylark answer to a request of that code while
// they are slaves, or just not writeable yet, or their replicas have not come back. Nothing was done then.
func notYet(code int, answer *codec.Command) bool {
	switch code {
	case codec.ReqSendMessage, codec.ReqSendMessageV2, codec.ReqSendBatchMessage:
		return answer.Code == codec.RespSystemBusy || answer.Code == codec.RespServiceNotAvailable ||
			answer.Code == codec.RespSystemError && strings.Contains(answer.Remark, notEnough)
	}
	return false
}

// waits tells that a request may wait for messages at the other broker: a stop does not wait for it.
func waits(code int) bool {
	switch code {
	case codec.ReqPullMessage, codec.ReqLitePullMessage, codec.ReqPopMessage, codec.ReqNotification:
		return true
	}
	return false
}
