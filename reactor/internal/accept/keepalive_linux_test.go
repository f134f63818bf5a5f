package accept

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"skylark/reactor"
)

// Accepted connections notice a peer that is gone without a word.
func TestKeepAliveIsInherited(t *testing.T) {
	bound, err := Bind((&reactor.Options{Listen: []string{"127.0.0.1:0"}}).EnsureDefaults())
	require.NoError(t, err)
	defer bound[0].Close()
	peer, err := net.Dial("tcp", bound[0].Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	c, err := bound[0].Accept()
	require.NoError(t, err)
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	f := func(level, opt, want int) {
		t.Helper()
		require.NoError(t, control(raw, func(fd int) error {
			got, err := unix.GetsockoptInt(fd, level, opt)
			require.Equal(t, want, got)
			return err
		}))
	}
	f(unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	f(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle)
	f(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval)
	f(unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount)
	f(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeout)
}
