package client

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/codec/body"
)

// PullFrames encodes pull requests without allocating: one for each goroutine.
type PullFrames struct {
	cmd  codec.Command
	nums []byte
}

// The names of the fields, in the order of PullFrames.Append.
var pullKeys = [...][]byte{[]byte("consumerGroup"), []byte("topic"), []byte("queueId"), []byte("queueOffset"),
	[]byte("maxMsgNums"), []byte("sysFlag"), []byte("commitOffset"), []byte("suspendTimeoutMillis"), []byte("subVersion"),
	[]byte("subscription"), []byte("expressionType")}

// Append appends the frame of a PULL_MESSAGE. Of h's optional fields it takes Subscription and
// ExpressionType.
func (p *PullFrames) Append(dst []byte, t codec.SerializeType, opaque int32, h *codec.PullMessageHeader) []byte {
	c := &p.cmd
	c.Code, c.Language, c.Version = codec.ReqPullMessage, codec.LanguageGo, codec.AnnouncedVersion
	c.Type, c.Opaque, c.Fields = t, opaque, c.Fields[:0]
	if cap(p.nums) < 7*20 { // so that it does not move while values point into it
		p.nums = make([]byte, 0, 7*20)
	}
	nums := p.nums[:0]
	add := func(value []byte) {
		c.Fields = append(c.Fields, codec.Field{Key: pullKeys[len(c.Fields)], Value: value})
	}
	number := func(v int64) {
		at := len(nums)
		nums = strconv.AppendInt(nums, v, 10)
		add(nums[at:])
	}
	add(h.ConsumerGroup)
	add(h.Topic)
	number(int64(h.QueueID))
	number(int64(h.QueueOffset))
	number(int64(h.MaxMsgNums))
	number(int64(h.SysFlag))
	number(int64(h.CommitOffset))
	number(h.SuspendTimeoutMillis)
	number(h.SubVersion)
	if h.Subscription != nil {
		add(h.Subscription)
		if h.ExpressionType != nil {
			add(h.ExpressionType)
		}
	}
	return c.AppendTo(dst)
}

// PullRequest asks for messages of one queue.
type PullRequest struct {
	Group       string
	Topic       string
	QueueID     int32
	QueueOffset codec.QueueOffset // the first wanted
	MaxMsgNums  int32             // 0: 32
	Expression  string            // of tags; "" is "*"
	// Suspend is how long the broker may hold the request until there is a message; 0: it answers at once.
	Suspend time.Duration
	// CommitOffset is stored as the group's progress if Commit is set.
	CommitOffset codec.QueueOffset
	Commit       bool
}

// PullResult is the answer to a pull. Body is its messages, see EachRecord; it is the caller's own.
type PullResult struct {
	Code            int // RespSuccess, RespPullNotFound, RespPullRetryImmediately or RespPullOffsetMoved
	NextBeginOffset codec.QueueOffset
	MinOffset       codec.QueueOffset
	MaxOffset       codec.QueueOffset
	SuggestBrokerID int64
	Body            []byte
}

// Pull asks a broker for messages. It waits as long as the broker may, and CallTimeout more. Codes that say
// that there is nothing now are no errors.
func (c *Client) Pull(ctx context.Context, addr string, p PullRequest) (*PullResult, error) {
	req := codec.NewRequest(codec.ReqPullMessage)
	h := codec.PullMessageHeader{ConsumerGroup: []byte(p.Group), Topic: []byte(p.Topic), QueueID: p.QueueID,
		QueueOffset: p.QueueOffset, MaxMsgNums: p.MaxMsgNums, SysFlag: codec.PullFlagSubscription,
		CommitOffset: p.CommitOffset, SuspendTimeoutMillis: p.Suspend.Milliseconds(), Subscription: []byte(p.Expression),
		ExpressionType: []byte(body.ExpressionTag), RequestSource: codec.RequestSourceSDK}
	if h.MaxMsgNums == 0 {
		h.MaxMsgNums = 32
	}
	if p.Expression == "" {
		h.Subscription = []byte(body.SubscribeAll)
	}
	if p.Suspend > 0 {
		h.SysFlag |= codec.PullFlagSuspend
	}
	if p.Commit {
		h.SysFlag |= codec.PullFlagCommitOffset
	}
	h.Encode(req)
	ctx, cancel := context.WithTimeout(ctx, p.Suspend+c.o.CallTimeout)
	defer cancel()
	answer, err := c.Call(ctx, addr, req)
	if err != nil {
		return nil, err
	}
	return ParsePull(answer)
}

// ParsePull reads the answer to a pull; the result's Body is the command's. Other codes than those of
// PullResult are a *ResponseError.
func ParsePull(answer *codec.Command) (*PullResult, error) {
	switch answer.Code {
	case codec.RespSuccess, codec.RespPullNotFound, codec.RespPullRetryImmediately, codec.RespPullOffsetMoved:
	default:
		return nil, &ResponseError{Request: codec.ReqPullMessage, Code: answer.Code, Remark: answer.Remark}
	}
	var h codec.PullMessageResponseHeader
	if err := codec.DecodeHeader(answer, &h); err != nil {
		return nil, fmt.Errorf("client: answer to a pull: %w", err)
	}
	return &PullResult{Code: answer.Code, NextBeginOffset: h.NextBeginOffset, MinOffset: h.MinOffset,
		MaxOffset: h.MaxOffset, SuggestBrokerID: h.SuggestWhichBrokerID, Body: answer.Body}, nil
}

// EachRecord calls f with every message of a pull answer's body until f or the body fails. Records alias the
// body.
func EachRecord(b []byte, f func(r *codec.Record) error) error {
	for len(b) > 0 {
		r, err := codec.ParseRecord(b, true)
		if err == nil && (r.IsBlank() || r.TotalSize > len(b)) {
			err = fmt.Errorf("%w: a blank of %d bytes among messages", codec.ErrCorrupt, r.TotalSize)
		}
		if err != nil {
			return err
		}
		if err := f(&r); err != nil {
			return err
		}
		b = b[r.TotalSize:]
	}
	return nil
}

// Heartbeat tells a broker which groups this connection has (HEART_BEAT). Java clients do so every 30 s;
// after 120 s without one a broker forgets them.
func (c *Client) Heartbeat(ctx context.Context, addr string, h *body.HeartbeatData) error {
	req := codec.NewRequest(codec.ReqHeartBeat)
	text, err := body.Encode(h)
	if err != nil {
		return fmt.Errorf("client: heartbeat of %s: %w", h.ClientID, err)
	}
	req.Body = text
	_, err = c.Do(ctx, addr, req)
	return err
}

// MaxOffset is the offset that the next message of a queue will get (GET_MAX_OFFSET).
func (c *Client) MaxOffset(ctx context.Context, addr, topic string, queueID int32) (codec.QueueOffset, error) {
	req := codec.NewRequest(codec.ReqGetMaxOffset)
	codec.EncodeHeader(req, &codec.GetMaxOffsetRequestHeader{Topic: topic, QueueID: queueID, Committed: true})
	return c.offset(ctx, addr, req)
}

// MinOffset is the offset of a queue's first message (GET_MIN_OFFSET).
func (c *Client) MinOffset(ctx context.Context, addr, topic string, queueID int32) (codec.QueueOffset, error) {
	req := codec.NewRequest(codec.ReqGetMinOffset)
	codec.EncodeHeader(req, &codec.TopicQueueRequestHeader{Topic: topic, QueueID: queueID})
	return c.offset(ctx, addr, req)
}

// SearchOffset is the offset of a queue's first message stored at or after a time
// (SEARCH_OFFSET_BY_TIMESTAMP).
func (c *Client) SearchOffset(ctx context.Context, addr, topic string, queueID int32,
	at time.Time) (codec.QueueOffset, error) {
	req := codec.NewRequest(codec.ReqSearchOffsetByTimestamp)
	codec.EncodeHeader(req, &codec.SearchOffsetRequestHeader{Topic: topic, QueueID: queueID, Timestamp: at.UnixMilli(),
		BoundaryType: codec.BoundaryLower})
	return c.offset(ctx, addr, req)
}

// ConsumerOffset is a group's progress in a queue (QUERY_CONSUMER_OFFSET); a *ResponseError with
// RespQueryNotFound if it has none.
func (c *Client) ConsumerOffset(ctx context.Context, addr, group, topic string,
	queueID int32) (codec.QueueOffset, error) {
	req := codec.NewRequest(codec.ReqQueryConsumerOffset)
	codec.EncodeHeader(req, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: group, Topic: topic,
		QueueID: queueID})
	return c.offset(ctx, addr, req)
}

// CommitOffset stores a group's progress in a queue (UPDATE_CONSUMER_OFFSET): the offset of the next message
// to consume.
func (c *Client) CommitOffset(ctx context.Context, addr, group, topic string, queueID int32,
	next codec.QueueOffset) error {
	req := codec.NewRequest(codec.ReqUpdateConsumerOffset)
	codec.EncodeHeader(req, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: group, Topic: topic,
		QueueID: queueID, CommitOffset: next})
	_, err := c.Do(ctx, addr, req)
	return err
}

func (c *Client) offset(ctx context.Context, addr string, req *codec.Command) (codec.QueueOffset, error) {
	answer, err := c.Do(ctx, addr, req)
	if err != nil {
		return 0, err
	}
	var h codec.OffsetResponseHeader
	if err := codec.DecodeHeader(answer, &h); err != nil {
		return 0, fmt.Errorf("client: answer to %s: %w", codec.RequestCodeName(req.Code), err)
	}
	return h.Offset, nil
}
