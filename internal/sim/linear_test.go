package sim

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"skylark/store"
)

// The model takes what one queue that only grows can do, and nothing else.
func TestQueueModel(t *testing.T) {
	type call struct {
		op
		from, to time.Duration
	}
	put := func(offset store.QueueOffset, from, to time.Duration) call {
		return call{op{put: true, offset: offset}, from, to}
	}
	get := func(offset store.QueueOffset, from, to time.Duration) call { return call{op{offset: offset}, from, to} }
	f := func(want bool, calls ...call) {
		t.Helper()
		var ops []porcupine.Operation
		for i, c := range calls {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: c.op, Call: int64(c.from), Return: int64(c.to)})
		}
		require.Equal(t, want, porcupine.CheckOperations(queueModel, ops))
	}
	f(true, put(0, 1, 2), put(1, 3, 4), get(1, 5, 6))
	f(true, put(1, 1, 5), put(0, 2, 4))                        // at the same time: either order
	f(true, put(0, 1, forEver), get(0, 2, 3))                  // without an answer, and seen
	f(false, put(1, 1, 2), put(0, 3, 4))                       // the second was sent when the first had its answer
	f(false, put(0, 1, 2), put(0, 3, 4))                       // one offset twice
	f(false, put(0, 1, 2), put(2, 3, 4))                       // a gap
	f(false, get(0, 1, 2), put(0, 3, 4))                       // seen before it was sent
	f(true, put(0, 1, 2), call{op{put: true, queue: 1}, 3, 4}) // queues are apart
}
