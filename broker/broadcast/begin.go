// Package broadcast lets broadcasting consumers that begin at the end of their queues begin at the end as it was when
// they said hello.
//
// A broadcasting consumer without offsets of its own that starts with CONSUME_FROM_LAST_OFFSET asks for the end of each
// queue at its first rebalance, a second after its start() has returned, and with Java's broker never sees what was sent
// in between. Here the ends are noted at its first heartbeat, which start() sends; when the first pull of a queue asks
// for more than that, it is served from the noted end.
//
// It cannot repeat a message: a queue that the connection has pulled for the group before is left out, so the first pull
// after that is either the first of a new consumer, or goes on where a reconnected one was, which is never behind the end
// that was noted. (A client whose start() finds another heartbeat under way does not wait for it, and may pull from one
// queue before the broker knows it; the other queues are noted all the same.)
package broadcast

import (
	"slices"
	"sync"

	"skylark/codec"
)

// Limits of a connection.
const (
	// MaxQueues bounds what is noted, about 100 bytes each; the queues beyond begin as in Java.
	MaxQueues = 1024
	// MaxEarly are the first pulls of which the queues are kept, to tell a new consumer from an old one; after them nothing
	// more is noted.
	MaxEarly = 64
)

type key struct {
	group, topic string
	queueID      int32
}

// Begin is what a connection has to be served first. The zero value is that of a new connection.
type Begin struct {
	mu    sync.Mutex
	ends  map[key]codec.QueueOffset
	early []key // queues pulled so far
	pulls int   // so far, up to MaxEarly
}

// Note keeps the end of a queue, unless there is one or the queue was pulled before.
func (b *Begin) Note(group, topic string, queueID int32, end codec.QueueOffset) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := key{group, topic, queueID}
	if _, known := b.ends[k]; known || len(b.ends) >= MaxQueues || b.pulls >= MaxEarly || slices.Contains(b.early, k) {
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
	b.remember(group, topic, queueID)
	return from
}

// remember keeps that a queue was pulled.
func (b *Begin) remember(group, topic []byte, queueID int32) {
	if b.pulls >= MaxEarly {
		return
	}
	b.pulls++
	if b.pulls == MaxEarly {
		b.early = nil
		return
	}
	for i := range b.early {
		if k := &b.early[i]; k.queueID == queueID && k.group == string(group) && k.topic == string(topic) {
			return
		}
	}
	b.early = append(b.early, key{string(group), string(topic), queueID})
}

// Done forgets a queue: its first pull has been taken. empty tells that there is and will be nothing to serve first.
func (b *Begin) Done(group, topic []byte, queueID int32) (empty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := key{string(group), string(topic), queueID}
	if _, ok := b.ends[k]; ok {
		delete(b.ends, k)
		b.remember(group, topic, queueID)
	}
	return len(b.ends) == 0 && b.pulls >= MaxEarly
}
