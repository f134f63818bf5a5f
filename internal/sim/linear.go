package sim

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"skylark/store"
)

// history is what clients did with queues, for porcupine.
type history struct{ ops []porcupine.Operation }

// op is a send (put) or a read of one place.
type op struct {
	put    bool
	queue  int
	id     uint64
	offset store.QueueOffset
}

// queueModel is a queue that only grows: its state is how long it is, and what stands where follows from the order of sends.
// Reads see what was sent before.
var queueModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byQueue := map[int][]porcupine.Operation{}
		most := 0
		for _, o := range all {
			q := o.Input.(op).queue
			byQueue[q] = append(byQueue[q], o)
			most = max(most, q)
		}
		var parts [][]porcupine.Operation
		for q := 0; q <= most; q++ {
			if len(byQueue[q]) > 0 {
				parts = append(parts, byQueue[q])
			}
		}
		return parts
	},
	Init: func() any { return store.QueueOffset(0) },
	Step: func(state, input, _ any) (bool, any) {
		next, o := state.(store.QueueOffset), input.(op)
		if o.put {
			return o.offset == next, next + 1
		}
		return o.offset < next, next
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		o := input.(op)
		if o.put {
			return fmt.Sprintf("send %d -> %d", o.id, o.offset)
		}
		return fmt.Sprintf("read %d -> %d", o.offset, o.id)
	},
}

// put notes a send. One without an answer (to 0) may take effect at any later time, or never.
func (h *history) put(client int, o op, from, to time.Duration) {
	o.put = true
	h.add(client, o, from, to)
}

func (h *history) add(client int, o op, from, to time.Duration) {
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: o, Output: nil, Call: int64(from), Return: int64(to)})
}

// forEver is when operations without an answer end.
const forEver = time.Duration(1<<62 - 1)

// check is at the end: what became of sends without an answer is seen in the log that all have.
func (h *history) check(k *Checker, final *CommitLog) error {
	where := map[uint64]store.QueueOffset{}
	for q := range final.queues {
		for i, e := range final.queues[q] {
			where[e.id] = store.QueueOffset(i)
		}
	}
	var ops []porcupine.Operation
	for i, o := range h.ops {
		in := o.Input.(op)
		if in.put && o.Return == 0 {
			offset, ok := where[in.id]
			if !ok {
				continue
			}
			in.offset, o.Return = offset, int64(forEver)
		}
		o.Input, o.ClientId = in, i // operations without an answer overlap with the next of their client
		ops = append(ops, o)
	}
	if k.anyExcused() || !k.c.Config.Ack.durable() {
		return nil // a queue that lost its end, as it was allowed to, is not one that only grows
	}
	switch porcupine.CheckOperationsTimeout(queueModel, ops, linearTimeout) {
	case porcupine.Illegal:
		return fmt.Errorf("the queues are not linearizable: %d operations", len(ops))
	case porcupine.Unknown:
		k.Counts["linearizability not decided"]++
	}
	k.Counts["operations"] += len(ops)
	return nil
}

// linearTimeout bounds the search in real time; it takes milliseconds as a rule.
const linearTimeout = 10 * time.Second

func (k *Checker) anyExcused() bool { return k.Counts["excused"] > 0 }
