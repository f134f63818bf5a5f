package reactor

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/zerocopy"
)

// refs counts references handed out and not released.
type refs struct{ n atomic.Int64 }

func (r *refs) Release() { r.n.Add(-1) }

func (r *refs) segment(b []byte) zerocopy.Segment {
	r.n.Add(1)
	return zerocopy.Segment{Bytes: b, Owner: r}
}

func watermarks(high, low, limit int) *Options {
	o := &Options{HighWatermarkBytes: high, LowWatermarkBytes: low, MaxPendingBytes: limit}
	return o.EnsureDefaults()
}

// contents is what a writer would see, in pieces of at most maxBytes.
func contents(q *Outbound) []byte {
	var all []byte
	for _, b := range q.Buffers(nil, 1<<30) {
		all = append(all, b...)
	}
	return all
}

func TestOutboxKeepsOrder(t *testing.T) {
	var r refs
	var o Outbox
	var s zerocopy.Segments
	o.SetBuffer(append(o.Buffer(), "head1"...))
	s.Add(r.segment([]byte("seg1")))
	s.Add(r.segment([]byte("seg2")))
	o.AddSegments(&s)
	require.True(t, s.Empty())
	s.Add(r.segment([]byte("seg3")))
	o.AddSegments(&s)
	o.SetBuffer(append(o.Buffer(), "head2"...))
	var got []byte
	o.Each(func(b []byte, _ zerocopy.Owner) { got = append(got, b...) })
	require.Equal(t, "head1seg1seg2seg3head2", string(got))
	require.Equal(t, len(got), o.Size())
	require.True(t, o.HasSegments())
	o.Release()
	require.True(t, o.Empty())
	require.Zero(t, o.Size())
	require.Zero(t, r.n.Load())
}

func TestOutboxDropsGiantBuffers(t *testing.T) {
	var o Outbox
	o.SetBuffer(make([]byte, 2*maxKeptOutboxBytes))
	o.Release()
	require.Zero(t, cap(o.Buffer()))
	o.SetBuffer(make([]byte, 100))
	o.Release()
	require.NotZero(t, cap(o.Buffer()))
}

func TestOutboundWatermarks(t *testing.T) {
	var q Outbound
	q.Init(watermarks(100, 40, 1000))
	q.AppendBytes(make([]byte, 100), 7)
	require.False(t, q.Paused())
	require.EqualValues(t, 7, q.Moved())
	q.AppendBytes(make([]byte, 1), 8)
	require.True(t, q.Paused())
	require.EqualValues(t, 7, q.Moved(), "the clock runs from the first byte that waits")
	require.False(t, q.Advance(60, 9))
	require.EqualValues(t, 9, q.Moved())
	require.True(t, q.Paused())
	require.True(t, q.Advance(1, 10))
	require.False(t, q.Paused())
	require.False(t, q.Advance(1, 11), "resumed once")
	q.AppendBytes(make([]byte, 961), 12)
	require.False(t, q.Overflowed())
	q.AppendBytes(make([]byte, 1), 13)
	require.True(t, q.Overflowed())
	q.Release()
	require.True(t, q.Empty())
	require.False(t, q.Paused())
}

func TestOutboundCopiesWhatHasNoOwner(t *testing.T) {
	var q Outbound
	q.Init(watermarks(0, 0, 0))
	var o Outbox
	var s zerocopy.Segments
	heap := []byte("heap memory of somebody")
	s.Add(zerocopy.Segment{Bytes: heap})
	o.AddSegments(&s)
	q.Append(&o, 5, 0)
	copy(heap, "overwritten overwritten")
	require.Equal(t, "memory of somebody", string(contents(&q)))
	q.Release()
}

// outboundModel is an Outbound and the bytes it should hold.
type outboundModel struct {
	q     Outbound
	refs  refs
	bytes []byte
	next  byte
}

// fresh is n bytes that were not seen lately.
func (m *outboundModel) fresh(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		m.next++
		b[i] = m.next
	}
	return b
}

// outbox is a random outbox and what it holds.
func (m *outboundModel) outbox(t *rapid.T) (*Outbox, []byte) {
	o := &Outbox{}
	var all []byte
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		b := m.fresh(rapid.SampledFrom([]int{1, 3, 100, 5000}).Draw(t, "size"))
		all = append(all, b...)
		if rapid.Bool().Draw(t, "mapped") {
			var s zerocopy.Segments
			s.Add(m.refs.segment(b))
			o.AddSegments(&s)
		} else {
			o.SetBuffer(append(o.Buffer(), b...))
		}
	}
	return o, all
}

func (m *outboundModel) check(t *rapid.T) {
	if m.q.Size() != len(m.bytes) || !bytes.Equal(contents(&m.q), m.bytes) {
		t.Fatalf("queue holds %d bytes, model %d", m.q.Size(), len(m.bytes))
	}
	if m.q.Empty() && (m.refs.n.Load() != 0 || m.q.tail != nil) {
		t.Fatalf("empty queue keeps %d references, tail %v", m.refs.n.Load(), m.q.tail)
	}
}

// TestOutboundModel: whatever is appended, put back and taken, in whatever portions, the bytes come out once
// and in order, references are released as soon as their range is written and never before, and Size is right.
func TestOutboundModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &outboundModel{}
		m.q.Init(watermarks(1<<30, 1<<29, 1<<30))
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				o, all := m.outbox(t)
				skip := rapid.IntRange(0, len(all)).Draw(t, "skip")
				m.q.Append(o, skip, 0)
				m.bytes = append(m.bytes, all[skip:]...)
			},
			"appendBytes": func(t *rapid.T) {
				b := m.fresh(rapid.SampledFrom([]int{1, 200, 4096, 70000}).Draw(t, "n"))
				m.q.AppendBytes(b, 0)
				m.bytes = append(m.bytes, b...)
			},
			"putBack": func(t *rapid.T) {
				o, all := m.outbox(t)
				skip := rapid.IntRange(0, len(all)).Draw(t, "skip")
				m.q.PutBack(o, skip, 0)
				m.bytes = append(bytes.Clone(all[skip:]), m.bytes...)
			},
			"putBackBytes": func(t *rapid.T) {
				b := m.fresh(rapid.IntRange(1, 300).Draw(t, "n"))
				m.q.PutBackBytes(b, 0)
				m.bytes = append(bytes.Clone(b), m.bytes...)
			},
			"advance": func(t *rapid.T) {
				n := rapid.IntRange(0, len(m.bytes)).Draw(t, "n")
				m.q.Advance(n, 0)
				m.bytes = m.bytes[n:]
			},
			"release": func(*rapid.T) {
				m.q.Release()
				m.bytes = nil
			},
			"": m.check,
		})
		m.q.Release()
		if m.refs.n.Load() != 0 {
			t.Fatalf("%d references left", m.refs.n.Load())
		}
	})
}

func TestOutboundAppendWhileWriting(t *testing.T) {
	// a writer let go of the lock after Fill; what it named must not move
	var q Outbound
	q.Init(watermarks(0, 0, 0))
	q.AppendBytes([]byte("first"), 0)
	named := q.Buffers(nil, 1<<20)
	for range 10000 {
		q.AppendBytes([]byte("more"), 0)
	}
	q.PutBackBytes([]byte("front"), 0)
	require.Equal(t, "first", string(named[0]))
	q.Release()
}
