package broker

import (
	"fmt"
	"strings"

	"skylark/broker/pop"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
	"skylark/store"
)

// AckMessageProcessor serves ACK_MESSAGE (200051) and BATCH_ACK_MESSAGE (200151): Java AckMessageProcessor. It answers
// when the ack is as durable as a message of its topic would be.
//
// Deviations: a receipt that is late, used up, of another message or garbled is refused (codes 208 and 13), and a batch
// with such a one is answered 208 with their number, after the others were taken; Java answers success.
type AckMessageProcessor struct{ b *Broker }

// maxBatchAcks bounds the messages of one BATCH_ACK_MESSAGE.
const maxBatchAcks = 1 << 16

// Process implements rpc.Processor.
func (p *AckMessageProcessor) Process(r *rpc.Request) {
	b := p.b
	if b.svc().timer == nil {
		r.ReplyError(codec.RespSystemError, "there is no POP, timerWheelEnable is false")
		return
	}
	if r.Cmd.Code == codec.ReqBatchAckMessage {
		p.batch(r)
		return
	}
	var h codec.AckMessageRequestHeader
	if !b.decodeAck(r.Cmd, &h) && !r.Decode(&h, codec.RespInvalidParameter) ||
		!b.checkPopped(r, h.Topic, h.QueueID, h.Offset) {
		return
	}
	receipt, err := pop.ParseReceipt(h.ExtraInfo)
	if at := p.gathered(r.Turn()); at != nil && err == nil {
		at.items = append(at.items, pop.AckItem{Receipt: receipt, Topic: h.Topic, Group: h.ConsumerGroup, QueueID: h.QueueID,
			Offset: h.Offset})
		at.answers = append(at.answers, r.Defer())
		return
	}
	var end codec.PhyOffset
	if err == nil {
		end, err = b.pop.Ack(&receipt, h.Topic, h.ConsumerGroup, h.QueueID, h.Offset)
	}
	if err != nil {
		r.ReplyError(popError(err))
		return
	}
	b.stats.GroupGet(h.ConsumerGroup, h.Topic).Acked(1)
	b.replyWhenDurable(r, end, codec.RespSuccess, "", nil)
}

// checkPopped checks what a receipt is for; false: answered.
func (b *Broker) checkPopped(r *rpc.Request, topicName string, queueID int32, at codec.QueueOffset) bool {
	t := b.topics.Get(topicName)
	if t == nil {
		r.ReplyError(codec.RespTopicNotExist, fmt.Sprintf("topic[%s] not exist, apply first please! %s", topicName, faqRemark))
		return false
	}
	if queueID < 0 || queueID >= t.Config.ReadQueueNums {
		r.ReplyError(codec.RespMessageIllegal, fmt.Sprintf(
			"queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%s]", queueID, topicName,
			t.Config.ReadQueueNums, r.Conn().RemoteAddr()))
		return false
	}
	lo, hi := b.store.MinOffset(topicName, queueID), b.store.MaxOffset(topicName, queueID)
	if at < lo || at >= hi {
		r.ReplyError(codec.RespNoMessage, fmt.Sprintf("offset is illegal, key:%s@%d, commit:%d, store:%d~%d", topicName,
			queueID, at, lo, hi))
		return false
	}
	return true
}

// replyWhenDurable answers when the store is durable up to end; header may be nil.
func (b *Broker) replyWhenDurable(r *rpc.Request, end codec.PhyOffset, code int, remark string, header any) {
	if end == 0 || !b.syncDurability() { // in one write with the other answers of the turn
		answer := codec.NewResponse(r.Cmd, code, remark)
		if header != nil && code == codec.RespSuccess {
			codec.EncodeHeader(answer, header)
		}
		r.Reply(answer)
		return
	}
	d := r.Defer()
	b.inflight.add()
	done := func(status store.PutStatus) {
		defer b.inflight.done()
		if status == store.FlushDiskTimeout && code == codec.RespSuccess {
			code, remark = codec.RespFlushDiskTimeout, status.String()
		}
		answer := d.Response(code, remark)
		if header != nil && code == codec.RespSuccess {
			codec.EncodeHeader(answer, header)
		}
		_ = d.Reply(answer) // a closed connection needs no answer
	}
	if b.store.Durable(end, b.syncFlushTimeout(), done) {
		done(store.PutOK)
	}
}

// batch takes the acks of several pops.
func (p *AckMessageProcessor) batch(r *rpc.Request) {
	b := p.b
	flushAcks(r.Turn())
	var req body.BatchAckMessageRequestBody
	if len(r.Cmd.Body) > 0 {
		if err := body.Decode(r.Cmd.Body, &req); err != nil {
			r.ReplyError(codec.RespInvalidParameter, "the request body cannot be read: "+err.Error())
			return
		}
	}
	total := 0
	for _, a := range req.Acks {
		if a != nil {
			total += a.BitSet.Count()
		}
	}
	if total == 0 || total > maxBatchAcks {
		r.ReplyError(codec.RespNoMessage, fmt.Sprintf("the request body has %d acks, 1 to %d are allowed", total, maxBatchAcks))
		return
	}
	var end codec.PhyOffset
	var refused []string
	for _, a := range req.Acks {
		if a == nil {
			continue
		}
		e, errs := p.entry(a, req.BrokerName)
		end = max(end, e)
		for _, err := range errs {
			refused = append(refused, err.Error())
		}
	}
	code, remark := codec.RespSuccess, ""
	if len(refused) > 0 {
		code = codec.RespNoMessage
		remark = fmt.Sprintf("%d of %d acks refused: %s", len(refused), total, strings.Join(refused[:min(len(refused), 3)], "; "))
	}
	b.replyWhenDurable(r, end, code, remark, nil)
}

// entry takes the acks of one pop; errs are those that were refused.
func (p *AckMessageProcessor) entry(a *body.BatchAck, brokerName string) (end codec.PhyOffset, errs []error) {
	b := p.b
	topicName := pop.RealTopic(a.Topic, a.ConsumerGroup, a.Retry)
	var offsets []codec.QueueOffset
	for i := range a.BitSet.Len() {
		if a.BitSet.Has(i) {
			offsets = append(offsets, codec.QueueOffset(a.StartOffset)+codec.QueueOffset(i))
		}
	}
	queues := b.readableQueues(topicName)
	if a.QueueID < 0 || a.QueueID >= queues || brokerName != "" && brokerName != b.cfg.broker.BrokerName {
		err := fmt.Errorf("%w: broker %s has no queue %d of topic %s", pop.ErrMismatch, brokerName, a.QueueID, topicName)
		for range offsets {
			errs = append(errs, err)
		}
		return 0, errs
	}
	lo, hi := b.store.MinOffset(topicName, a.QueueID), b.store.MaxOffset(topicName, a.QueueID)
	good := offsets[:0]
	for _, at := range offsets {
		if at < lo || at >= hi {
			errs = append(errs, fmt.Errorf("%w: offset %d is not in [%d, %d)", pop.ErrSettled, at, lo, hi))
			continue
		}
		good = append(good, at)
	}
	receipt := pop.Receipt{StartOffset: codec.QueueOffset(a.StartOffset), PopTime: a.PopTime, Invisible: a.InvisibleTime,
		ReviveQID: a.ReviveQueueID, QueueID: a.QueueID, Broker: b.cfg.broker.BrokerName}
	if len(good) == 0 {
		return 0, errs
	}
	end, all := b.pop.AckBatch(&receipt, topicName, a.ConsumerGroup, good)
	acked := len(good)
	for _, err := range all {
		if err != nil {
			errs, acked = append(errs, err), acked-1
		}
	}
	if acked > 0 {
		b.stats.GroupGet(a.ConsumerGroup, topicName).Acked(acked)
	}
	return end, errs
}

// ChangeInvisibleTimeProcessor serves CHANGE_MESSAGE_INVISIBLETIME (200053): Java ChangeInvisibleTimeProcessor. The same
// receipts are refused as by an ack.
type ChangeInvisibleTimeProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ChangeInvisibleTimeProcessor) Process(r *rpc.Request) {
	b := p.b
	flushAcks(r.Turn())
	if b.svc().timer == nil {
		r.ReplyError(codec.RespSystemError, "there is no POP, timerWheelEnable is false")
		return
	}
	var h codec.ChangeInvisibleTimeRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) || !b.checkPopped(r, h.Topic, h.QueueID, h.Offset) {
		return
	}
	if limit := int64(b.cfg.store.TimerMaxDelaySec) * 1000; h.InvisibleTime < 0 || h.InvisibleTime > limit {
		r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("invisibleTime is %d ms, 0 to %d (timerMaxDelaySec) are allowed",
			h.InvisibleTime, limit))
		return
	}
	receipt, err := pop.ParseReceipt(h.ExtraInfo)
	answer := codec.ChangeInvisibleTimeResponseHeader{ReviveQID: receipt.ReviveQID}
	var end codec.PhyOffset
	if err == nil {
		answer.PopTime, answer.InvisibleTime, end, err = b.pop.ChangeInvisible(&receipt, h.Topic, h.ConsumerGroup, h.QueueID,
			h.Offset, h.InvisibleTime)
	}
	if err != nil {
		r.ReplyError(popError(err))
		return
	}
	if !receipt.Orderly() { // as Java counts: the old check point is acknowledged, a new one made
		c := b.stats.GroupGet(h.ConsumerGroup, h.Topic)
		c.Acked(1)
		c.CheckPoint()
	}
	b.replyWhenDurable(r, end, codec.RespSuccess, "", &answer)
}
