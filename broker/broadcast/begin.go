// Package broadcast lets broadcasting consumers that begin at the end of their queues begin at the end as it was when
// they said hello.
//
// A broadcasting consumer without offsets of its own that starts with CONSUME_FROM_LAST_OFFSET asks for the end of each
// queue at its first rebalance, a second after its start() has returned, and with Java's broker never sees what was sent
// in between. Here the ends are noted at its first heartbeat, which start() sends; when the first pull of a queue asks
// for more than that, it is served from the noted end.
//
// It cannot repeat a message: the ends are noted only if the connection has not pulled anything before, so the first
// pull after that is either the first of a new consumer, or goes on where a reconnected one was, which is never behind
// the end that was noted.
package broadcast

import (
	"sync"

	"skylark/codec"
)

// MaxQueues bounds what is noted of one connection, about 100 bytes each; the queues beyond begin as in Java.
const MaxQueues = 1024

type key struct {
	group, topic string
	queueID      int32
}

// Begin is what a connection has to be served first. The zero value has nothing.
type Begin struct {
	mu   sync.Mutex
	ends map[key]codec.QueueOffset
}

// Note keeps the end of a queue, unless there is one.
func (b *Begin) Note(group, topic string, queueID int32, end codec.QueueOffset) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := key{group, topic, queueID}
	if _, known := b.ends[k]; known || len(b.ends) >= MaxQueues {
		return
	}
	if b.ends == nil {
		b.ends = map[key]codec.QueueOffset{}
	}
	b.ends[k] = end
}

// At is where a pull is served from: from, or the noted end if that is before it.
func (b *Begin) At(group, topic []byte, queueID int32, from codec.QueueOffset) codec.QueueOffset {
	b.mu.Lock()
	defer b.mu.Unlock()
	if end, ok := b.ends[key{string(group), string(topic), queueID}]; ok {
		return min(from, end)
	}
	return from
}

// Done forgets a queue: its first pull has been taken. empty tells that nothing is left.
func (b *Begin) Done(group, topic []byte, queueID int32) (empty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ends, key{string(group), string(topic), queueID})
	return len(b.ends) == 0
}
