//go:build unix

package zerocopy

import "golang.org/x/sys/unix"

// Write writes one run to a non-blocking socket and returns how many bytes it took. A full socket is no
// error: n is then less than len(b).
func Write(fd int, b []byte) (n int, err error) {
	for {
		n, err = unix.Write(fd, b)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
