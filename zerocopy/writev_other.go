//go:build unix && !linux

package zerocopy

// Vec is an array of runs for one write. There is no portable writev in x/sys: the runs are written one by
// one.
type Vec struct {
	iov  [][]byte
	size int
}

// Add appends a run; false means that v is full. An empty run takes no place.
func (v *Vec) Add(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if len(v.iov) == MaxVec {
		return false
	}
	v.iov = append(v.iov, b)
	v.size += len(b)
	return true
}

// Writev writes the runs to a non-blocking socket and returns how many bytes it took. A full socket is no
// error: n is then less than Size.
func (v *Vec) Writev(fd int) (n int, err error) {
	for _, b := range v.iov {
		k, err := Write(fd, b)
		n += k
		if err != nil || k < len(b) {
			return n, err
		}
	}
	return n, nil
}
