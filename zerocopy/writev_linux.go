package zerocopy

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Vec is an array of runs for one writev. It is kept and reused: unix.Writev builds such an array on every
// call. The zero value is empty. The runs stay the caller's and must not change or go away before Reset.
type Vec struct {
	iov  []unix.Iovec
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
	e := unix.Iovec{Base: &b[0]}
	e.SetLen(len(b))
	v.iov = append(v.iov, e)
	v.size += len(b)
	return true
}

// Writev writes the runs to a non-blocking socket in one system call and returns how many bytes it took. A
// full socket is no error: n is then less than Size. A page of a mapping that is not resident is read in
// here, inside the system call, where the scheduler sees that the thread waits.
func (v *Vec) Writev(fd int) (n int, err error) {
	if len(v.iov) == 0 {
		return 0, nil
	}
	return writev(fd, v.iov)
}

func writev(fd int, iov []unix.Iovec) (n int, err error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}
