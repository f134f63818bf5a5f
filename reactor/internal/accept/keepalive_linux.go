package accept

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A peer whose host is gone, or cut off, sends no FIN: without these its connection, and the consumer group
// members that hang on it, would live until heartbeats are missed for two minutes. The kernel asks an idle
// connection after keepIdle seconds and every keepInterval seconds from then on, and ends one that does not
// acknowledge keepCount of these, or what was sent to it for userTimeout milliseconds (so long as a slow reader
// may take, DefaultSlowReaderTimeout).
const (
	keepIdle     = 10
	keepInterval = 5
	keepCount    = 3
	userTimeout  = 30_000
)

// setKeepAlive is for listening sockets: accepted ones inherit it.
func setKeepAlive(fd int) error {
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount},
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeout},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("%s %d: %w", o.name, o.value, err)
		}
	}
	return nil
}
