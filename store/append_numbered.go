package store

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"skylark/codec"
)

// Some messages carry queue offsets in their properties, which are known under the put lock only:
//
//	inner batches     INNER_BASE, the queue offset of the first message
//	multi-dispatch    INNER_MULTI_QUEUE_OFFSET, the offsets in the light queues that INNER_MULTI_DISPATCH names
//
// Their records are encoded with holes as wide as the offsets are at that moment; should one have got another digit when
// the lock is taken, the put begins anew. Java holds a lock of the queue around all of it, and encodes the properties of a
// multi-dispatch message under the put lock.

// errOffsetWidth says that an offset no longer fits its hole.
var errOffsetWidth = errors.New("store: a queue offset has got another digit")

// numbering is what the put lock does for such a record besides the usual.
type numbering struct {
	cq    *consumeQueue // of the message
	step  int64         // queue offsets it takes
	holes []offsetHole
	light []*consumeQueue // the light queues, each once
	// suffix is the properties that are added, with zeros in the holes.
	suffix []byte
}

// offsetHole is a decimal number in the properties.
type offsetHole struct {
	at, width int
	next      *atomic.Int64
}

// decimalWidth is the number of digits of an offset.
func decimalWidth(v int64) int {
	width := 1
	for ; v >= 10; v /= 10 {
		width++
	}
	return width
}

// addHole appends a hole for the next offset of a queue to the suffix.
func (x *numbering) addHole(next *atomic.Int64) {
	hole := offsetHole{at: len(x.suffix), width: decimalWidth(next.Load()), next: next}
	x.holes = append(x.holes, hole)
	for range hole.width {
		x.suffix = append(x.suffix, '0')
	}
}

// fits tells that every offset still has as many digits as its hole. The put lock is held.
func (x *numbering) fits() bool {
	for i := range x.holes {
		if h := &x.holes[i]; decimalWidth(h.next.Load()) != h.width {
			return false
		}
	}
	return true
}

// fill writes the offsets into a record, at whose end the suffix stands. The put lock is held.
func (x *numbering) fill(record []byte) {
	suffix := record[len(record)-len(x.suffix):]
	for i := range x.holes {
		h := &x.holes[i]
		strconv.AppendInt(suffix[h.at:h.at:h.at+h.width], h.next.Load(), 10)
	}
}

// placed moves the light queues on. The put lock is held.
func (x *numbering) placed() {
	for _, cq := range x.light {
		if cq != x.cq {
			cq.next.Add(1)
		}
	}
}

// isNumbered tells whether the record of a message needs a numbering.
func (s *MessageStore) isNumbered(m *codec.Message) bool {
	if m.SysFlag&codec.SysFlagInnerBatch == 0 && !s.o.EnableLmq {
		return false
	}
	state := m.TransactionState()
	if state == codec.SysFlagTransactionPrepared || state == codec.SysFlagTransactionRollback {
		return false
	}
	return m.SysFlag&codec.SysFlagInnerBatch != 0 || wantsLight(m) || codec.IsLMQ(m.Topic)
}

// appendNumbered is Append for such a message.
func (s *MessageStore) appendNumbered(m *codec.Message) PutResult {
	size := codec.RecordBytes(m)
	if size > s.o.MaxMessageSize+recordOverhead || size > s.o.MaxMessageSize && s.o.EnableLmq && wantsLight(m) {
		return s.stats.failed(illegal("record of %d bytes, maxMessageSize is %d", size, s.o.MaxMessageSize))
	}
	scratch := s.scratch.get(size)
	defer s.scratch.put(scratch)
	for {
		epoch := s.cl.epoch.Load()
		x, r := s.number(m)
		if r.Status != PutOK {
			return s.stats.failed(r)
		}
		one := *m
		one.Properties = withSuffix(m.Properties, x.suffix)
		var err error
		if *scratch, err = codec.AppendRecord((*scratch)[:0], &one); err != nil {
			return s.stats.failed(encodeFailure(err))
		}
		limit := s.o.MaxMessageSize + recordOverhead
		if len(x.light) > 0 {
			limit = s.o.MaxMessageSize // as Java
		}
		if len(*scratch) > limit {
			return s.stats.failed(illegal("record of %d bytes, at most %d", len(*scratch), limit))
		}
		at, err := s.cl.putRun(*scratch, &x.cq.next, epoch, x)
		if errors.Is(err, errStaleQueue) || errors.Is(err, errOffsetWidth) {
			continue
		}
		if err != nil {
			return s.stats.failed(s.putFailure(err))
		}
		m.QueueOffset, m.PhyOffset, m.StoreTimestamp = at.queueOffset, at.phyOffset, at.storeTimestamp
		s.appended()
		s.countPut(1, int(x.step), len(*scratch), at)
		return PutResult{Status: PutOK, PhyOffset: at.phyOffset, EndOffset: at.phyOffset + PhyOffset(len(*scratch)),
			QueueOffset: at.queueOffset, StoreTimestamp: at.storeTimestamp, Count: int(x.step), Waited: at.lockWait()}
	}
}

// withSuffix joins properties.
func withSuffix(props, suffix []byte) []byte {
	out := make([]byte, 0, len(props)+1+len(suffix))
	out = append(out, props...)
	if n := len(out); n > 0 && out[n-1] != propertySeparator {
		out = append(out, propertySeparator)
	}
	return append(out, suffix...)
}

// number finds the queues of a message and what to add to its properties. It removes from m what only the store may set.
func (s *MessageStore) number(m *codec.Message) (*numbering, PutResult) {
	if !isTopicDirName(m.Topic) {
		return nil, s.putFailure(fmt.Errorf("%w: %q", errTopicName, m.Topic))
	}
	if s.o.EnableLmq && codec.IsLMQ(m.Topic) { // a message of a light queue alone; its name counts as well
		if _, err := s.queues.lightQueue(m.Topic); err != nil {
			return nil, PutResult{Status: LmqConsumeQueueNumExceeded, Err: err}
		}
	}
	x := &numbering{cq: s.queues.findOrCreate(m.Topic, m.QueueID), step: 1}
	switch {
	case m.SysFlag&codec.SysFlagInnerBatch != 0:
		return x, s.numberInner(m, x)
	case x.cq.batch == nil:
		return x, s.numberLight(m, x)
	}
	return x, PutResult{} // no multi-dispatch from queues of the kind BatchCQ, as in Java
}

// numberInner prepares an inner batch.
func (s *MessageStore) numberInner(m *codec.Message, x *numbering) PutResult {
	if x.cq.batch == nil {
		return illegal("an inner batch, but the queue type of topic %s is not %s", m.Topic, BatchCQ)
	}
	value := propertyValue(m.Properties, innerNumPattern)
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 1 || n > MaxInnerMessages {
		return illegal("inner batch of %q messages, not in [1, %d]", value, MaxInnerMessages)
	}
	m.Properties = dropProperty(m.Properties, innerBasePattern, codec.PropInnerBase)
	x.step = int64(n)
	x.suffix = append(x.suffix, innerBasePattern...)
	x.addHole(&x.cq.next)
	x.suffix = append(x.suffix, propertySeparator)
	return PutResult{}
}

var innerBasePattern = []byte(codec.PropInnerBase + "\x01")

// dropProperty removes a property that is hardly ever there.
func dropProperty(props, pattern []byte, name string) []byte {
	if !bytes.Contains(props, pattern) {
		return props
	}
	return codec.RemoveProperty(nil, props, name)
}
