package client

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// NewDialer makes a dialer for Options.LinkTimeout; 0 is a plain one.
func NewDialer(linkTimeout time.Duration) *net.Dialer {
	if linkTimeout <= 0 {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: func(_, _ string, rc syscall.RawConn) (err error) {
		if e := rc.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(linkTimeout.Milliseconds()))
		}); e != nil {
			return e
		}
		return err
	}}
}
