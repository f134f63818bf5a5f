package zerocopy

// MaxVec is the most runs one writev takes (IOV_MAX, the same on Linux and the BSDs).
const MaxVec = 1024

// Reset empties v and forgets the runs; the capacity stays.
func (v *Vec) Reset() {
	clear(v.iov)
	v.iov, v.size = v.iov[:0], 0
}

// Len is the number of runs.
func (v *Vec) Len() int { return len(v.iov) }

// Size is the sum of the runs in bytes.
func (v *Vec) Size() int { return v.size }
