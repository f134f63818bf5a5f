//go:build unix

package conns

import (
	"sync"

	"skylark/reactor"
	"skylark/zerocopy"
)

var batches = sync.Pool{New: func() any { return new(zerocopy.Batch) }}

// GetBatch returns an empty batch. PutBatch takes it back.
func GetBatch() *zerocopy.Batch { return batches.Get().(*zerocopy.Batch) }

// PutBatch empties b and keeps it for the next GetBatch.
func PutBatch(b *zerocopy.Batch) {
	b.Reset()
	batches.Put(b)
}

// WriteOutbox writes o to a non-blocking socket in one system call, or a few for long runs of files. n is how many bytes
// the socket took, asked how many it was given: what is beyond a full batch stays for the next one.
func WriteOutbox(fd int, o *reactor.Outbox) (n, asked int, err error) {
	if !o.HasSegments() {
		n, err = zerocopy.Write(fd, o.Buffer())
		return n, len(o.Buffer()), err
	}
	v := GetBatch()
	full := false
	o.Each(func(b []byte, owner zerocopy.Owner) { full = full || !v.Add(b, owner) })
	n, err = v.Write(fd)
	asked = v.Size()
	PutBatch(v)
	return n, asked, err
}
