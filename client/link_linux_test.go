package client

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The system is told how long it may repeat what is not acknowledged.
func TestLinkTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f := func(timeout time.Duration, want int) {
		t.Helper()
		nc, err := NewDialer(timeout).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		defer nc.Close()
		rc, err := nc.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, rc.Control(func(fd uintptr) {
			got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}))
	}
	f(0, 0)
	f(3*time.Second, 3000)
}
