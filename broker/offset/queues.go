package offset

import (
	"sync"
	"sync/atomic"

	"skylark/codec"
)

// none is the value of a number that was never set.
const none = -1

// queues are the offsets of one group in one topic: a copy-on-write slice by queue id.
type queues struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*cell]
}

// cell is one queue's progress.
type cell struct {
	committed atomic.Int64
	pulled    atomic.Int64 // of statistics only, not persisted
	reset     atomic.Int64 // pending server-side reset
}

// MaxQueueID bounds the queue ids of requests: a table slot is kept for each up to the highest.
const MaxQueueID = 1 << 16

func (q *queues) cell(id int32) *cell {
	if q == nil {
		return nil
	}
	if l := q.list.Load(); l != nil && id >= 0 && int(id) < len(*l) {
		return (*l)[id]
	}
	return nil
}

func (q *queues) make(id int32) *cell {
	if c := q.cell(id); c != nil {
		return c
	}
	if id < 0 || id >= MaxQueueID {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []*cell
	if l := q.list.Load(); l != nil {
		list = append(list, *l...)
	}
	for int(id) >= len(list) {
		c := &cell{}
		c.committed.Store(none)
		c.pulled.Store(none)
		c.reset.Store(none)
		list = append(list, c)
	}
	q.list.Store(&list)
	return list[id]
}

// each calls f for every queue with a committed offset.
func (q *queues) each(f func(id int32, at codec.QueueOffset)) {
	if q == nil {
		return
	}
	l := q.list.Load()
	if l == nil {
		return
	}
	for id, c := range *l {
		if at := c.committed.Load(); at >= 0 {
			f(int32(id), codec.QueueOffset(at))
		}
	}
}

// pendingResets counts the resets that wait.
func (q *queues) pendingResets() (n int64) {
	if l := q.list.Load(); l != nil {
		for _, c := range *l {
			if c.reset.Load() >= 0 {
				n++
			}
		}
	}
	return n
}
