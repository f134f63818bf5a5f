package accept

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"skylark/reactor"
)

// Bind listens on all addresses of o, or on none: the error names the address. Kernel buffer sizes are set on
// the listening sockets, accepted ones inherit them, as they do keep-alive (keepalive_linux.go). TCP_NODELAY is
// on, multipath TCP off.
func Bind(o *reactor.Options) ([]net.Listener, error) {
	var bound []net.Listener
	for _, addr := range o.Listen {
		ln, err := bindOne(addr, o)
		if err != nil {
			for _, b := range bound {
				_ = b.Close()
			}
			return nil, fmt.Errorf("reactor: cannot listen on %s: %w", addr, err)
		}
		bound = append(bound, ln)
	}
	return bound, nil
}

func bindOne(addr string, o *reactor.Options) (net.Listener, error) {
	lc := net.ListenConfig{
		KeepAlive: -1,
		Control: func(_, _ string, raw syscall.RawConn) error {
			return control(raw, func(fd int) error { return errors.Join(setBuffers(fd, o), setKeepAlive(fd)) })
		},
	}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err == nil {
		// net asks for the largest backlog there is; a second listen on the same socket only changes it
		err = control(raw, func(fd int) error { return unix.Listen(fd, o.Backlog) })
	}
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	return ln, nil
}

func setBuffers(fd int, o *reactor.Options) error {
	if o.SocketSndBuf > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, o.SocketSndBuf); err != nil {
			return fmt.Errorf("SO_SNDBUF %d: %w", o.SocketSndBuf, err)
		}
	}
	if o.SocketRcvBuf > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, o.SocketRcvBuf); err != nil {
			return fmt.Errorf("SO_RCVBUF %d: %w", o.SocketRcvBuf, err)
		}
	}
	return nil
}

func control(raw syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
