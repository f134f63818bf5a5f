//go:build unix

package zerocopy

// Batch is what one turn writes to a socket: runs in order, put together for as few system calls as the rule asks for.
// Long runs of a file (FileOwner, MinSendfileBytes) go by sendfile, what lies between them by one writev. The zero value
// is empty; it is kept and reused. The runs stay the caller's and must not change or go away before Reset.
//
//	answer                          system calls           CPU of the copy
//	short or interleaved runs       1 (writev)             in the kernel, once
//	one long run behind a header    2 (sendmsg, sendfile)  none for the body
type Batch struct {
	vec   Vec
	files []fileRun
	size  int
}

// fileRun is a run that goes by sendfile, behind the first at entries of the vector.
type fileRun struct {
	at, fd, n int
	off       int64
}

// maxFileRuns bounds the sendfile calls of one batch: the holder of a socket's pen may be an event loop.
const maxFileRuns = 64

// Add appends a run; false means that the batch is full. owner may be nil.
func (b *Batch) Add(p []byte, owner Owner) bool {
	if haveSendfile && len(p) >= MinSendfileBytes {
		if f, ok := owner.(FileOwner); ok {
			if fd, off := f.File(p); fd >= 0 {
				if len(b.files) == maxFileRuns {
					return false
				}
				b.files = append(b.files, fileRun{at: b.vec.Len(), fd: fd, n: len(p), off: off})
				b.size += len(p)
				return true
			}
		}
	}
	if !b.vec.Add(p) {
		return false
	}
	b.size += len(p)
	return true
}

// Size is the sum of the runs in bytes.
func (b *Batch) Size() int { return b.size }

// Reset empties b and forgets the runs; the capacity stays.
func (b *Batch) Reset() {
	b.vec.Reset()
	b.files, b.size = b.files[:0], 0
}

// Write writes the runs to a non-blocking socket and returns how many bytes it took. A full socket is no error: n is
// then less than Size.
func (b *Batch) Write(fd int) (n int, err error) {
	if len(b.files) == 0 {
		return b.vec.Writev(fd)
	}
	return b.writeMixed(fd)
}
