//go:build iouring && linux

package uring

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listener makes a boss of package accept hand out bare descriptors. They are in blocking mode, which the ring
// wants, and net's poller never sees them: a connection costs accept4 and getsockname.
type listener struct {
	f    *os.File // the listening socket; a net.TCPListener refuses raw reads
	raw  syscall.RawConn
	addr net.Addr
}

// newListener takes ln over.
func newListener(ln net.Listener) (_ *listener, err error) {
	l := &listener{addr: ln.Addr()}
	if l.f, err = ln.(*net.TCPListener).File(); err != nil {
		return nil, err
	}
	_ = ln.Close()
	if l.raw, err = l.f.SyscallConn(); err != nil {
		_ = l.f.Close()
		return nil, err
	}
	var inner error
	err = l.raw.Control(func(fd uintptr) { // accepted sockets inherit it
		inner = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	})
	if err = errors.Join(err, inner); err != nil {
		_ = l.f.Close()
		return nil, err
	}
	return l, nil
}

// Close implements net.Listener.
func (l *listener) Close() error { return l.f.Close() }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// SetDeadline is asked for by the boss when descriptors are short.
func (l *listener) SetDeadline(t time.Time) error { return l.f.SetReadDeadline(t) }

// Accept returns an *accepted.
func (l *listener) Accept() (net.Conn, error) {
	fd, peer, failed := -1, unix.Sockaddr(nil), error(nil)
	err := l.raw.Read(func(lfd uintptr) bool {
		for {
			fd, peer, failed = unix.Accept4(int(lfd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			switch failed {
			case unix.EAGAIN:
				return false
			case unix.EINTR, unix.ECONNABORTED:
				continue
			}
			return true
		}
	})
	switch {
	case errors.Is(err, os.ErrClosed):
		return nil, net.ErrClosed
	case err == nil:
		err = failed
	}
	if err != nil {
		return nil, err
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &accepted{fd: fd, remote: addrPort(peer), local: addrPort(local)}, nil
}

// addrPort is sa, IPv4 never in its IPv6-mapped form.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(a.Addr).Unmap()
		if a.ZoneId != 0 && ip.Is6() {
			zone := strconv.Itoa(int(a.ZoneId))
			if ifi, err := net.InterfaceByIndex(int(a.ZoneId)); err == nil {
				zone = ifi.Name
			}
			ip = ip.WithZone(zone)
		}
		return netip.AddrPortFrom(ip, uint16(a.Port))
	}
	return netip.AddrPort{}
}

// accepted is a descriptor on its way from the boss to a loop. It is neither read nor written.
type accepted struct {
	fd            int
	remote, local netip.AddrPort
}

func (a *accepted) Close() error                     { return unix.Close(a.fd) }
func (a *accepted) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(a.remote) }
func (a *accepted) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(a.local) }
func (a *accepted) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (a *accepted) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (a *accepted) SetDeadline(time.Time) error      { return net.ErrClosed }
func (a *accepted) SetReadDeadline(time.Time) error  { return net.ErrClosed }
func (a *accepted) SetWriteDeadline(time.Time) error { return net.ErrClosed }
