package zerocopy

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const haveSendfile = true

// writeMixed alternates between the vector and the files. What precedes a file is sent with MSG_MORE, so that a header
// shares its segment with the first bytes of the body.
func (b *Batch) writeMixed(fd int) (n int, err error) {
	at := 0
	for i := range b.files {
		f := &b.files[i]
		if f.at > at {
			k, short, err := b.vec.sendMore(fd, at, f.at)
			n += k
			if err != nil || short {
				return n, err
			}
			at = f.at
		}
		k, err := sendfile(fd, f.fd, f.off, f.n)
		n += k
		if err != nil || k < f.n {
			return n, err
		}
	}
	if at == b.vec.Len() {
		return n, nil
	}
	k, err := writev(fd, b.vec.iov[at:])
	return n + k, err
}

// sendMore writes entries [from, to) of v and tells the kernel that more follows.
func (v *Vec) sendMore(fd, from, to int) (n int, short bool, err error) {
	iov := v.iov[from:to]
	want := 0
	for i := range iov {
		want += int(iov[i].Len)
	}
	msg := unix.Msghdr{Iov: &iov[0]}
	msg.SetIovlen(len(iov))
	for {
		r, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)),
			unix.MSG_MORE|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(r), int(r) < want, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, true, errno
		}
	}
}

// sendfile hands n bytes of a file to a non-blocking socket; fewer when the socket is full, or when the file ends before
// them, which is EIO: a run of a mapping lies inside the file.
func sendfile(fd, file int, off int64, n int) (sent int, err error) {
	for sent < n {
		k, err := unix.Sendfile(fd, file, &off, n-sent)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return sent, nil
		case err != nil:
			return sent, err
		case k == 0:
			return sent, unix.EIO
		default:
			sent += k
		}
	}
	return sent, nil
}
