//go:build unix

package ha

import "golang.org/x/sys/unix"

const rawReads = true

// readSocket is one read of a non-blocking socket; again: there is nothing now.
func readSocket(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = unix.Read(int(fd), b)
		switch err {
		case nil:
			return n, false, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, err
		}
	}
}
