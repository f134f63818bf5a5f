//go:build unix && !linux

package zerocopy

// haveSendfile: the other unixes have calls of that name with other meanings; development machines copy.
const haveSendfile = false

func (b *Batch) writeMixed(fd int) (int, error) { return b.vec.Writev(fd) }
