package zerocopy

// Owner is what keeps the memory behind a segment alive: a mapped file. Release is called exactly once for
// every segment handed over, from any goroutine.
type Owner interface{ Release() }

// Segment is a run of bytes inside a mapping.
type Segment struct {
	Bytes []byte
	Owner Owner // nil: the bytes are plain heap memory
}

// Segments is the body of an answer. The zero value is empty and ready to use; Reset keeps the capacity.
type Segments struct {
	parts []Segment
	size  int
}

// Add appends a run and takes over one reference of its owner. A run that continues the last one in the same
// mapping is merged into it: the surplus reference is released, so the answer leaves with fewer iovecs.
func (s *Segments) Add(seg Segment) {
	s.size += len(seg.Bytes)
	if n := len(s.parts); n > 0 && seg.Owner != nil {
		last := &s.parts[n-1]
		if last.Owner == seg.Owner && adjacent(last.Bytes, seg.Bytes) {
			last.Bytes = last.Bytes[:len(last.Bytes)+len(seg.Bytes)]
			seg.Owner.Release()
			return
		}
	}
	s.parts = append(s.parts, seg)
}

// adjacent tells whether b starts right where a ends, in the same array.
func adjacent(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 || cap(a) < len(a)+len(b) {
		return false
	}
	return &a[:len(a)+1][len(a)] == &b[0]
}

// Size is the sum of the runs in bytes.
func (s *Segments) Size() int { return s.size }

// Parts are the runs in order; the slice is valid until the next Add, Reset or Release.
func (s *Segments) Parts() []Segment { return s.parts }

// Empty tells that there is nothing to send.
func (s *Segments) Empty() bool { return len(s.parts) == 0 }

// AppendTo copies the bytes to dst (transferMsgByHeap, tests, queries of a single message). References are
// kept.
func (s *Segments) AppendTo(dst []byte) []byte {
	for i := range s.parts {
		dst = append(dst, s.parts[i].Bytes...)
	}
	return dst
}

// Take moves all runs of s to the caller and leaves s empty without its storage.
func (s *Segments) Take() []Segment {
	p := s.parts
	s.parts, s.size = nil, 0
	return p
}

// Forget empties s without releasing: the references have moved elsewhere. The capacity stays.
func (s *Segments) Forget() {
	clear(s.parts)
	s.parts, s.size = s.parts[:0], 0
}

// Release drops all references and empties s, keeping the capacity.
func (s *Segments) Release() {
	for i := range s.parts {
		if o := s.parts[i].Owner; o != nil {
			o.Release()
		}
	}
	s.Forget()
}
