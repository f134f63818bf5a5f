// Package latest has a queue of the latest word for each of many targets.
package latest

import (
	"context"
	"slices"
	"sync"
)

// Options of a queue.
type Options struct {
	MaxTargets int // that wait; a word for one more is refused
	Workers    int // the most that are told at once
}

// Queue delivers words to targets. Of several words that wait for one target the last one counts, and no two are under way
// to the same target, so the last one is the last to arrive. Workers run while something waits.
type Queue[T any] struct {
	o       Options
	deliver func(ctx context.Context, target string, word *T)
	refused func(target string, word *T)
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	pending map[string]*T // by target
	order   []string      // of the targets in pending
	sending map[string]bool
	workers int
	closed  bool
	wg      sync.WaitGroup
}

// New makes an empty queue. deliver may take as long as it likes, its context ends with the queue; refused is told of words
// that find no room, under the queue's lock. A word is not changed any more.
func New[T any](o Options, deliver func(ctx context.Context, target string, word *T), refused func(target string, word *T),
) *Queue[T] {
	q := &Queue[T]{o: o, deliver: deliver, refused: refused, pending: map[string]*T{}, sending: map[string]bool{}}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// Put queues a word for targets. It does not wait.
func (q *Queue[T]) Put(word *T, targets ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, target := range targets {
		if q.pending[target] == nil {
			if len(q.order) >= q.o.MaxTargets {
				q.refused(target, word)
				continue
			}
			q.order = append(q.order, target)
		}
		q.pending[target] = word
	}
	for q.workers < min(q.o.Workers, len(q.order)) && !q.closed {
		q.workers++
		q.wg.Go(q.run)
	}
}

func (q *Queue[T]) run() {
	for {
		target, word := q.next()
		if word == nil {
			return
		}
		q.deliver(q.ctx, target, word)
		q.mu.Lock()
		delete(q.sending, target)
		q.mu.Unlock()
	}
}

// next takes the first target that nobody sends to; nil ends the worker.
func (q *Queue[T]) next() (target string, word *T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.order, func(target string) bool { return !q.sending[target] })
	if i < 0 || q.closed {
		q.workers--
		return "", nil
	}
	target = q.order[i]
	word = q.pending[target]
	q.order = slices.Delete(q.order, i, i+1)
	delete(q.pending, target)
	q.sending[target] = true
	return target, word
}

// Close drops what waits and ends what is under way.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.wg.Wait()
}
