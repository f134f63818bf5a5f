package reactor

import (
	"sync/atomic"

	"skylark/zerocopy"
)

// Heap bytes that wait for a socket are copied into chunks of one of these sizes.
const (
	smallOutboundChunk = 4 << 10
	largeOutboundChunk = 64 << 10
)

// Outbound is what waits for one connection's socket: heap bytes, copied into pooled chunks, and mapped
// ranges with their references, in order. It also judges the reader: over the high watermark it is paused
// until it is below the low one again, over MaxPendingBytes it is to be closed, and it remembers when the
// last byte moved.
//
// It has no lock of its own: all methods but Paused are called under the connection's. A writer may let go of
// that lock for the system call between Fill (or Buffers) and Advance: others only append meanwhile, so what
// Fill named stays where it is. Nobody but that writer calls Advance, and Release waits for it.
type Outbound struct {
	runs   []run
	head   int // runs[:head] are written
	size   int
	tail   *chunk // of the last heap run; has room behind it
	high   int
	low    int
	limit  int
	moved  uint32 // tick of the last byte taken, or of the first one queued
	paused atomic.Bool
}

type run struct {
	b     []byte
	owner zerocopy.Owner
	chunk *chunk
}

// Init sets the watermarks and the limit.
func (q *Outbound) Init(o *Options) {
	q.high, q.low, q.limit = o.HighWatermarkBytes, o.LowWatermarkBytes, o.MaxPendingBytes
}

// Empty tells that nothing waits.
func (q *Outbound) Empty() bool { return q.size == 0 }

// Size is the number of bytes that wait.
func (q *Outbound) Size() int { return q.size }

// Paused tells that the connection's frames are not to be served. It needs no lock.
func (q *Outbound) Paused() bool { return q.paused.Load() }

// Overflowed tells that the connection is to be closed with ErrSlowReader.
func (q *Outbound) Overflowed() bool { return q.size > q.limit }

// Moved is the tick of the last progress; it means something only while the queue is not empty.
func (q *Outbound) Moved() uint32 { return q.moved }

// AppendBytes copies p to the end. now is the engine's tick.
func (q *Outbound) AppendBytes(p []byte, now uint32) {
	q.grow(now)
	q.copyIn(p)
	q.judge()
}

// Append moves what o holds behind its first skip bytes to the end and empties o; the references of ranges
// that lie within skip are released.
func (q *Outbound) Append(o *Outbox, skip int, now uint32) {
	q.grow(now)
	q.take(o, skip)
	q.judge()
}

// PutBackBytes is AppendBytes to the front: the rest of a direct write, which others may have queued behind.
func (q *Outbound) PutBackBytes(p []byte, now uint32) {
	var front Outbound
	front.copyIn(p)
	q.prepend(&front, now)
}

// PutBack is Append to the front.
func (q *Outbound) PutBack(o *Outbox, skip int, now uint32) {
	if q.size == 0 {
		q.Append(o, skip, now)
		return
	}
	var front Outbound
	front.take(o, skip)
	q.prepend(&front, now)
}

func (q *Outbound) prepend(front *Outbound, now uint32) {
	q.grow(now)
	tail := q.tail
	if q.size == 0 {
		tail = front.tail
	}
	q.runs = append(front.runs, q.runs[q.head:]...)
	q.head, q.tail, q.size = 0, tail, q.size+front.size
	q.judge()
}

// grow starts the reader's clock when the first byte is queued.
func (q *Outbound) grow(now uint32) {
	if q.size == 0 {
		q.moved = now
	}
}

func (q *Outbound) judge() {
	if q.size > q.high {
		q.paused.Store(true)
	}
}

func (q *Outbound) take(o *Outbox, skip int) {
	o.Each(func(b []byte, owner zerocopy.Owner) {
		if skip >= len(b) {
			skip -= len(b)
			if owner != nil {
				owner.Release()
			}
			return
		}
		b, skip = b[skip:], 0
		if owner == nil {
			q.copyIn(b)
			return
		}
		q.runs = append(q.runs, run{b: b, owner: owner})
		q.size += len(b)
	})
	o.Forget()
}

func (q *Outbound) copyIn(p []byte) {
	for len(p) > 0 {
		t := q.tail
		if t == nil || len(t.b) == cap(t.b) {
			t = q.newTail(len(p))
		}
		n := min(cap(t.b)-len(t.b), len(p))
		start := len(t.b)
		t.b = append(t.b, p[:n]...)
		if last := len(q.runs) - 1; last >= q.head && q.runs[last].chunk == t {
			r := &q.runs[last]
			r.b = r.b[:len(r.b)+n]
		} else {
			q.runs = append(q.runs, run{b: t.b[start:], chunk: t})
			t.refs++
		}
		q.size += n
		p = p[n:]
	}
}

func (q *Outbound) newTail(n int) *chunk {
	want := smallOutboundChunk
	if n > smallOutboundChunk || q.size > smallOutboundChunk {
		want = largeOutboundChunk
	}
	t := newChunk(want)
	q.tail = t
	return t
}

// Filler is what Fill puts runs into: a zerocopy.Batch where there is one.
type Filler interface {
	Add(b []byte, owner zerocopy.Owner) bool
	Size() int
}

// Fill adds runs to v until it is full or has maxBytes.
func (q *Outbound) Fill(v Filler, maxBytes int) {
	for i := q.head; i < len(q.runs) && v.Size() < maxBytes; i++ {
		if !v.Add(q.runs[i].b, q.runs[i].owner) {
			return
		}
	}
}

// Buffers appends the first runs to dst, at most maxBytes of them; the last one may be cut.
func (q *Outbound) Buffers(dst [][]byte, maxBytes int) [][]byte {
	for i := q.head; i < len(q.runs) && maxBytes > 0; i++ {
		b := q.runs[i].b
		b = b[:min(len(b), maxBytes)]
		maxBytes -= len(b)
		dst = append(dst, b)
	}
	return dst
}

// Advance removes the first n bytes, which the socket took, and drops the references of what is written.
// resumed tells that the connection was paused and is to be served again.
func (q *Outbound) Advance(n int, now uint32) (resumed bool) {
	if n > 0 {
		q.moved = now
	}
	q.size -= n
	for n > 0 {
		r := &q.runs[q.head]
		if n < len(r.b) {
			r.b = r.b[n:]
			break
		}
		n -= len(r.b)
		q.drop(r)
		q.head++
	}
	q.compact()
	if q.size <= q.low && q.paused.Load() {
		q.paused.Store(false)
		return true
	}
	return false
}

// drop gives back what a written run holds. The tail chunk stays, there is room for more behind it.
func (q *Outbound) drop(r *run) {
	if r.owner != nil {
		r.owner.Release()
	}
	if c := r.chunk; c != nil {
		if c.refs--; c.refs == 0 && c != q.tail {
			c.free()
		}
	}
	*r = run{}
}

// maxKeptRuns is how long a run list an empty queue keeps.
const maxKeptRuns = 1024

func (q *Outbound) compact() {
	switch {
	case q.head == len(q.runs):
		q.runs, q.head = q.runs[:0], 0
		if cap(q.runs) > maxKeptRuns {
			q.runs = nil
		}
		if q.tail != nil {
			q.tail.free()
			q.tail = nil
		}
	case q.head >= 64 && q.head*2 > len(q.runs):
		n := copy(q.runs, q.runs[q.head:])
		clear(q.runs[n:])
		q.runs, q.head = q.runs[:n], 0
	}
}

// Release drops everything. The queue is empty and not paused afterwards.
func (q *Outbound) Release() {
	for i := q.head; i < len(q.runs); i++ {
		q.drop(&q.runs[i])
	}
	q.head, q.size = len(q.runs), 0
	q.compact()
	q.paused.Store(false)
}
