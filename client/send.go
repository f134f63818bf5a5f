package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"skylark/codec"
)

// SendResult is the answer to a send whose message is stored.
type SendResult struct {
	// Code is RespSuccess, or says what was late: RespFlushDiskTimeout, RespFlushSlaveTimeout,
	// RespSlaveNotAvailable.
	Code          int
	MsgIDs        []string // offset message ids, one for each message of a batch
	QueueID       int32
	QueueOffset   codec.QueueOffset // of the first message
	TransactionID string            // the unique key
	RecallHandle  string            // of a timer message
}

// defaultQueueNums is the queue count that Java producers ask for when a send makes its topic.
const defaultQueueNums = 4

// NewSend makes the request of a send. The code is SEND_BATCH_MESSAGE if h.Batch is set, else
// SEND_MESSAGE_V2. An empty producer group, default topic, queue count of it and born timestamp get the
// values of a Java client.
func NewSend(h *codec.SendMessageHeader, body []byte) *codec.Command {
	code := codec.ReqSendMessageV2
	if h.Batch {
		code = codec.ReqSendBatchMessage
	}
	req := codec.NewRequest(code)
	full := *h
	sendDefaults(&full)
	if full.BornTimestamp == 0 {
		full.BornTimestamp = time.Now().UnixMilli()
	}
	full.Encode(req)
	req.Body = body
	return req
}

func sendDefaults(h *codec.SendMessageHeader) {
	if len(h.ProducerGroup) == 0 {
		h.ProducerGroup = []byte(codec.DefaultProducerGroup)
	}
	if len(h.DefaultTopic) == 0 {
		h.DefaultTopic = []byte(codec.AutoCreateTopicKey)
	}
	if h.DefaultTopicQueueNums == 0 {
		h.DefaultTopicQueueNums = defaultQueueNums
	}
}

// Send sends one message, or a batch if h.Batch is set and body is made of codec.AppendBatchEntry. It is for
// tests and rare sends; see SendTemplate for many.
func (c *Client) Send(ctx context.Context, addr string, h *codec.SendMessageHeader, body []byte) (*SendResult, error) {
	answer, err := c.Call(ctx, addr, NewSend(h, body))
	if err != nil {
		return nil, err
	}
	return ParseSend(answer)
}

// SendOneway sends without an answer.
func (c *Client) SendOneway(ctx context.Context, addr string, h *codec.SendMessageHeader, body []byte) error {
	return c.Oneway(ctx, addr, NewSend(h, body))
}

// IsStored tells whether a send answered with code has stored its message.
func IsStored(code int) bool {
	switch code {
	case codec.RespSuccess, codec.RespFlushDiskTimeout, codec.RespFlushSlaveTimeout, codec.RespSlaveNotAvailable:
		return true
	}
	return false
}

// ParseSend reads the answer to a send. A code with which nothing is stored is a *ResponseError.
func ParseSend(answer *codec.Command) (*SendResult, error) {
	if !IsStored(answer.Code) {
		return nil, &ResponseError{Request: codec.ReqSendMessageV2, Code: answer.Code, Remark: answer.Remark}
	}
	var h codec.SendMessageResponseHeader
	if err := codec.DecodeHeader(answer, &h); err != nil {
		return nil, fmt.Errorf("client: answer to a send: %w", err)
	}
	return &SendResult{Code: answer.Code, MsgIDs: strings.Split(h.MsgID, ","), QueueID: h.QueueID,
		QueueOffset: h.QueueOffset, TransactionID: h.TransactionID, RecallHandle: h.RecallHandle}, nil
}
