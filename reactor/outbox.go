package reactor

import "skylark/zerocopy"

// What an emptied outbox keeps for the next turn; a rare giant answer is given to the collector.
const (
	maxKeptOutboxBytes = 1 << 20
	maxKeptOutboxRuns  = 4096
)

// Outbox collects the answers of one turn: bytes and mapped ranges in order. The zero value is empty.
type Outbox struct {
	buf   []byte
	marks []mark // segments that come after buf[:at]
	segs  []zerocopy.Segment
	size  int // of segs
	sent  SentListener
}

// SentListener is told once that what an outbox held has gone to the socket, or to its connection's queue, or was dropped.
type SentListener interface{ Sent() }

// OnSent has l told when o is emptied the next time. Sent is called where the answers are written, maybe under locks: it
// takes none and never waits. One that is still to be told is told now.
func (o *Outbox) OnSent(l SentListener) {
	o.tellSent()
	o.sent = l
}

// Submitted tells that the kernel has been given what o holds. An engine that hears of the end of a write only with the next
// event calls it, lest the answer seems to have taken as long as the connection was idle.
func (o *Outbox) Submitted() { o.tellSent() }

func (o *Outbox) tellSent() {
	if l := o.sent; l != nil {
		o.sent = nil
		l.Sent()
	}
}

// mark tells that segs[from:to] follow the first at bytes of buf.
type mark struct{ at, from, to int }

// Buffer is the byte part, to be appended to and given back with SetBuffer.
func (o *Outbox) Buffer() []byte { return o.buf }

// SetBuffer gives back what Buffer returned, grown.
func (o *Outbox) SetBuffer(b []byte) { o.buf = b }

// AddSegments appends the runs of s behind what Buffer holds now and takes over their references; s is left
// empty. Runs without an owner are heap memory that may be reused once the outbox is sent: what the socket
// does not take at once is copied.
func (o *Outbox) AddSegments(s *zerocopy.Segments) {
	if s.Empty() {
		return
	}
	from := len(o.segs)
	o.segs = append(o.segs, s.Parts()...)
	o.size += s.Size()
	o.marks = append(o.marks, mark{at: len(o.buf), from: from, to: len(o.segs)})
	s.Forget()
}

// Empty tells that nothing waits in it.
func (o *Outbox) Empty() bool { return len(o.buf) == 0 && len(o.segs) == 0 }

// Size is the number of bytes to write.
func (o *Outbox) Size() int { return len(o.buf) + o.size }

// HasSegments tells whether mapped ranges are among it; without them Buffer is all.
func (o *Outbox) HasSegments() bool { return len(o.segs) > 0 }

// Each calls f for every run in order: heap bytes with a nil owner, mapped ranges with theirs.
func (o *Outbox) Each(f func(b []byte, owner zerocopy.Owner)) {
	at := 0
	for _, m := range o.marks {
		if m.at > at {
			f(o.buf[at:m.at], nil)
			at = m.at
		}
		for _, s := range o.segs[m.from:m.to] {
			f(s.Bytes, s.Owner)
		}
	}
	if at < len(o.buf) {
		f(o.buf[at:], nil)
	}
}

// Forget empties o without releasing references: they have moved to the connection.
func (o *Outbox) Forget() {
	clear(o.segs)
	o.buf, o.marks, o.segs, o.size = o.buf[:0], o.marks[:0], o.segs[:0], 0
	if cap(o.buf) > maxKeptOutboxBytes {
		o.buf = nil
	}
	if cap(o.segs) > maxKeptOutboxRuns {
		o.marks, o.segs = nil, nil
	}
	o.tellSent()
}

// Release drops all references and empties o.
func (o *Outbox) Release() {
	for i := range o.segs {
		if w := o.segs[i].Owner; w != nil {
			w.Release()
		}
	}
	o.Forget()
}
