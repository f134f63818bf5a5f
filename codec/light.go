package codec

import (
	"bytes"
	"strconv"
)

// OffsetIn is the queue offset of a message in the queue of a topic in which it was found: its own, or, in a light queue
// that its property INNER_MULTI_DISPATCH names, the one that stands at the same place in INNER_MULTI_QUEUE_OFFSET.
func (r *Record) OffsetIn(topic string) QueueOffset {
	if !IsLMQ(topic) || string(r.Topic) == topic {
		return r.QueueOffset
	}
	names, _ := r.Property(PropInnerMultiDispatch)
	offsets, _ := r.Property(PropInnerMultiQueueOffset)
	separator := []byte(LMQDispatchSeparator)
	for more := true; more; {
		var name, offset []byte
		name, names, more = bytes.Cut(names, separator)
		offset, offsets, _ = bytes.Cut(offsets, separator)
		if string(name) == topic {
			if at, err := strconv.ParseInt(string(offset), 10, 64); err == nil {
				return QueueOffset(at)
			}
		}
	}
	return r.QueueOffset
}
