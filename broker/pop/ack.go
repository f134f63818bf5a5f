package pop

import (
	"fmt"
	"math/bits"

	"skylark/codec"
	"skylark/store"
)

// check judges a receipt by itself.
func (s *Service) check(r *Receipt, topic string, queueID int32, at codec.QueueOffset) error {
	switch {
	case r.QueueID != queueID || r.Offset != at:
		return fmt.Errorf("%w: it is for queue %d offset %d, not for queue %d offset %d", ErrMismatch, r.QueueID, r.Offset,
			queueID, at)
	case r.Flag != FlagOf(topic):
		return fmt.Errorf("%w: topic %s", ErrMismatch, topic)
	case r.Broker != s.o.BrokerName && r.Broker != "":
		return fmt.Errorf("%w: it is of broker %s", ErrMismatch, r.Broker)
	}
	return s.checkReviveQueue(r.ReviveQID)
}

func (s *Service) checkReviveQueue(id int32) error {
	if id < 0 || int(id) >= s.o.ReviveQueues && id != codec.PopOrderReviveQueue {
		return fmt.Errorf("%w: there is no revive queue %d", ErrMismatch, id)
	}
	return nil
}

// Ack acknowledges a message. end is what has to be durable before it is answered, 0 = nothing.
func (s *Service) Ack(r *Receipt, topic, group string, queueID int32, at codec.QueueOffset) (end codec.PhyOffset,
	err error) {
	if err := s.check(r, topic, queueID, at); err != nil {
		return 0, err
	}
	if r.Orderly() {
		return 0, s.ackOrderly(r, topic, group, queueID, at)
	}
	end, errs := s.ack(r, topic, group, []codec.QueueOffset{at}, false)
	return end, errs[0]
}

// AckItem is one message that is to be acknowledged, and what became of it.
type AckItem struct {
	Receipt Receipt
	Topic   string
	Group   string
	QueueID int32
	Offset  codec.QueueOffset
	Err     error
}

// sameCheckPoint tells that two messages came by one pop of one queue, as far as their receipts say.
func (i *AckItem) sameCheckPoint(o *AckItem) bool {
	r, q := &i.Receipt, &o.Receipt
	return i.QueueID == o.QueueID && r.StartOffset == q.StartOffset && r.PopTime == q.PopTime &&
		r.Invisible == q.Invisible && r.ReviveQID == q.ReviveQID && i.Topic == o.Topic && i.Group == o.Group
}

// AckAll acknowledges messages and sets Err of each. Those of one check point that stand together take one record. end is
// what has to be durable before they are answered, 0 = nothing.
func (s *Service) AckAll(items []AckItem) (end codec.PhyOffset) {
	var offsets []codec.QueueOffset
	for i := 0; i < len(items); {
		first := &items[i]
		if first.Err = s.check(&first.Receipt, first.Topic, first.QueueID, first.Offset); first.Err != nil {
			i++
			continue
		}
		if first.Receipt.Orderly() {
			first.Err = s.ackOrderly(&first.Receipt, first.Topic, first.Group, first.QueueID, first.Offset)
			i++
			continue
		}
		run := items[i : i+1]
		for j := i + 1; j < len(items) && items[j].sameCheckPoint(first); j++ {
			if s.check(&items[j].Receipt, items[j].Topic, items[j].QueueID, items[j].Offset) != nil {
				break
			}
			run = items[i : j+1]
		}
		offsets = offsets[:0]
		for j := range run {
			offsets = append(offsets, run[j].Offset)
		}
		e, errs := s.ack(&first.Receipt, first.Topic, first.Group, offsets, len(offsets) > 1)
		for j := range run {
			run[j].Err = errs[j]
		}
		end = max(end, e)
		i += len(run)
	}
	return end
}

// AckBatch acknowledges messages of one check point; errs has what became of each.
func (s *Service) AckBatch(r *Receipt, topic, group string, offsets []codec.QueueOffset) (end codec.PhyOffset,
	errs []error) {
	if err := s.checkReviveQueue(r.ReviveQID); err != nil {
		errs = make([]error, len(offsets))
		for i := range errs {
			errs[i] = err
		}
		return 0, errs
	}
	if r.Orderly() {
		for _, at := range offsets {
			errs = append(errs, s.ackOrderly(r, topic, group, r.QueueID, at))
		}
		return 0, errs
	}
	return s.ack(r, topic, group, offsets, true)
}

// ack writes one record for all messages that may be acknowledged.
func (s *Service) ack(r *Receipt, topic, group string, offsets []codec.QueueOffset, batch bool) (end codec.PhyOffset,
	errs []error) {
	k := key{topic, group, r.QueueID, r.StartOffset, r.PopTime}
	errs = make([]error, len(offsets))
	var claimed []codec.QueueOffset
	e, messages := s.claimAll(k, r, offsets)
	if e != nil {
		claimed, offsets = offsets, nil // nothing is left to be judged by itself
	}
	record := e != nil // some have to be written
	for i, at := range offsets {
		c, bit, err := s.ledger.claim(k, r, offsets[i:i+1], s.o.Clock.Millis)
		if c == nil && err == nil {
			err = s.stranger(k, r, at)
		}
		if errs[i] = err; err != nil {
			continue
		}
		e, messages, claimed = c, messages|bit, append(claimed, at)
		record = true
	}
	if !record {
		return 0, errs
	}
	put, err := s.putAck(e, r, topic, group, claimed, batch)
	if e != nil { // those of the run before are not counted
		s.settled(e, messages, err == nil)
	}
	if s.o.Settings().Log {
		s.trace("acknowledged", queueKey{topic, group, r.QueueID}, "receipt", r.String(), "messages", len(claimed), "error", err)
	}
	if err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
		for _, at := range claimed {
			s.ledger.unclaimBefore(k, at)
		}
	}
	return put.EndOffset, errs
}

// claimAll claims all messages at once, as most acks are good; nil: each has to be judged by itself.
func (s *Service) claimAll(k key, r *Receipt, offsets []codec.QueueOffset) (e *open, messages uint32) {
	e, messages, err := s.ledger.claim(k, r, offsets, s.o.Clock.Millis)
	if err != nil || e == nil {
		return nil, 0
	}
	if bits.OnesCount32(messages) != len(offsets) { // one comes twice
		s.unclaim(e, messages)
		return nil, 0
	}
	return e, messages
}

// settled ends the claim of some messages.
func (s *Service) settled(e *open, bits uint32, ok bool) {
	s.ledger.settle(e, bits, ok)
	if ok {
		e.queue.visible(bits)
	}
}

// stranger judges a receipt that the ledger does not know: only one of the run before may be good still, once.
func (s *Service) stranger(k key, r *Receipt, at codec.QueueOffset) error {
	switch {
	case s.o.Clock.Millis() >= r.PopTime+r.Invisible:
		return ErrLate
	case r.PopTime >= s.started.Load(), !s.ledger.claimBefore(k, r.PopTime+r.Invisible, at):
		return ErrSettled
	}
	return nil
}

// putAck writes the ack record of some messages; those of a buffered check point are in memory only.
func (s *Service) putAck(e *open, r *Receipt, topic, group string, offsets []codec.QueueOffset, batch bool) (store.PutResult,
	error) {
	if e != nil && s.inMemory(e) {
		return store.PutResult{}, nil
	}
	a := ackRecord{Offset: offsets[0], BrokerName: s.o.BrokerName, Group: group, PopTime: r.PopTime, QueueID: r.QueueID,
		StartOffset: r.StartOffset, Topic: topic}
	if batch {
		a.Offsets = offsets
	}
	if s.acting.Load() {
		return store.PutResult{}, s.ackAway(&a, r.PopTime+r.Invisible)
	}
	m, err := s.ackRecord(&a, r.ReviveQID, r.PopTime+r.Invisible)
	if err != nil {
		return store.PutResult{}, err
	}
	return s.put(m)
}

// ChangeInvisible gives a message another time to become visible, from now on. The receipt is used up; the answer has
// the times of the new one.
func (s *Service) ChangeInvisible(r *Receipt, topic, group string, queueID int32, at codec.QueueOffset,
	invisible int64) (popTime, newInvisible int64, end codec.PhyOffset, err error) {
	if err := s.check(r, topic, queueID, at); err != nil {
		return 0, 0, 0, err
	}
	if r.Orderly() {
		popTime, newInvisible, err = s.changeOrderly(r, topic, group, queueID, at, invisible)
		return popTime, newInvisible, 0, err
	}
	k := key{topic, group, queueID, r.StartOffset, r.PopTime}
	old, bits, err := s.ledger.claim(k, r, []codec.QueueOffset{at}, s.o.Clock.Millis)
	if old == nil && err == nil {
		err = s.stranger(k, r, at)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	if s.acting.Load() && (old == nil || !s.inMemory(old)) {
		s.unclaim(old, bits)
		s.ledger.unclaimBefore(k, at)
		return 0, 0, 0, ErrElsewhere
	}
	q := s.queue(topic, group, queueID)
	e := &open{reviveQID: r.ReviveQID, queue: q, at: s.o.Clock.Millis(), ck: CheckPoint{BrokerName: s.o.BrokerName,
		Group: group, Diffs: []int32{0}, Invisible: invisible, Num: 1, QueueID: queueID, StartOffset: at, Topic: topic}}
	// Each receipt of a message has a time of its own, also when it is changed several times in a millisecond: records of
	// check points and acks find each other by it.
	for e.ck.PopTime = max(e.at, r.PopTime+1); !s.ledger.add(e); {
		e.ck.PopTime++
	}
	if s.acting.Load() {
		e.buffered = true
		s.keepFirst(e)
	} else if put, err := s.putCheckPoint(&e.ck, e.reviveQID); err != nil {
		s.ledger.remove(e)
		s.unclaim(old, bits)
		s.ledger.unclaimBefore(k, at)
		return 0, 0, put.EndOffset, err
	}
	put, err := s.putAck(old, r, topic, group, []codec.QueueOffset{at}, false)
	if err != nil { // the old check point stands, the new one must not return the message too
		s.o.Log.Warn("old receipt not ended, the message may come twice", "topic", topic, "group", group, "error", err)
	}
	if old != nil {
		s.ledger.settle(old, bits, err == nil)
	} else {
		q.inflight.Add(1) // the old one is of the run before, which is not counted
	}
	s.trace("invisible time changed", queueKey{topic, group, queueID}, "receipt", r.String(), "popTime", e.ck.PopTime,
		"invisible", invisible, "error", err)
	return e.ck.PopTime, invisible, put.EndOffset, err
}

// unclaim gives up a claim.
func (s *Service) unclaim(e *open, bits uint32) {
	if e == nil {
		return
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	e.pending &^= bits
	if e.buffered {
		e.acked &^= bits
	}
}

// inMemory tells that the acks of a check point are not written.
func (s *Service) inMemory(e *open) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return e.buffered
}
