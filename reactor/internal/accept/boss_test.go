package accept

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/reactor"
	"skylark/reactor/internal/conns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a listener that answers Accept from a list.
type script struct {
	mu     sync.Mutex
	calls  []time.Time
	answer func(call int) (net.Conn, error)
	closed chan struct{}
}

func (s *script) Accept() (net.Conn, error) {
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, time.Now())
	s.mu.Unlock()
	c, err := s.answer(n)
	if c == nil && err == nil {
		<-s.closed
		return nil, net.ErrClosed
	}
	return c, err
}

func (s *script) Close() error   { close(s.closed); return nil }
func (s *script) Addr() net.Addr { return &net.TCPAddr{} }

func emfile() error {
	return &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestBackoffDoublesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 12
		taken := make(chan net.Conn, 1)
		s := &script{closed: make(chan struct{})}
		s.answer = func(call int) (net.Conn, error) {
			switch {
			case call < failures:
				return nil, emfile()
			case call == failures:
				a, b := net.Pipe()
				b.Close()
				return a, nil
			case call == failures+1:
				return nil, errors.New("something else")
			}
			return nil, nil
		}
		b := Start(s, conns.NewSlots(10), quiet(), func(c net.Conn) error {
			taken <- c
			return nil
		})
		c := <-taken
		c.Close()
		synctest.Wait()
		<-time.After(time.Minute)
		b.Close()
		want := minBackoff
		for i := 1; i <= failures; i++ {
			require.Equal(t, want, s.calls[i].Sub(s.calls[i-1]), "wait %d", i)
			want = min(2*want, maxBackoff)
		}
		last := s.calls[failures+2].Sub(s.calls[failures+1])
		require.Equal(t, minBackoff, last, "a success resets it")
		require.Len(t, s.calls, failures+3)
	})
}

func TestTakeOutOfDescriptorsBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := conns.NewSlots(10)
		s := &script{closed: make(chan struct{})}
		s.answer = func(call int) (net.Conn, error) {
			if call > 3 {
				return nil, nil
			}
			a, b := net.Pipe()
			b.Close()
			return a, nil
		}
		failing := []error{emfile(), errors.New("this one only"), emfile(), emfile()}
		b := Start(s, slots, quiet(), func(c net.Conn) error {
			c.Close()
			err := failing[0]
			failing = failing[1:]
			return err
		})
		synctest.Wait()
		<-time.After(time.Minute)
		b.Close()
		require.Zero(t, slots.InUse(), "a connection that is not taken has no slot")
		gaps := []time.Duration{}
		for i := 1; i < len(s.calls); i++ {
			gaps = append(gaps, s.calls[i].Sub(s.calls[i-1]))
		}
		require.Equal(t, []time.Duration{minBackoff, 0, minBackoff, 2 * minBackoff}, gaps)
	})
}

func TestCloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{closed: make(chan struct{})}
		s.answer = func(int) (net.Conn, error) { return nil, emfile() }
		b := Start(s, conns.NewSlots(1), quiet(), nil)
		<-time.After(time.Minute)
		before := time.Now()
		b.Close()
		b.Close()
		require.Zero(t, time.Since(before))
	})
}

func TestBindSetsOptions(t *testing.T) {
	o := reactor.Options{
		Listen: []string{"127.0.0.1:0", "[::1]:0"}, SocketSndBuf: 100 << 10, SocketRcvBuf: 50 << 10,
	}
	lns, err := Bind(o.EnsureDefaults())
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
		o.Listen = o.Listen[:1] // no IPv6 here
		lns, err = Bind(&o)
	}
	require.NoError(t, err)
	for i, ln := range lns {
		require.NotZero(t, conns.AddrPort(ln.Addr()).Port())
		require.Contains(t, ln.Addr().String(), o.Listen[i][:4])
		require.NoError(t, ln.Close())
	}
}

func TestBindAllOrNothing(t *testing.T) {
	o := reactor.Options{Listen: []string{"127.0.0.1:0"}}
	lns, err := Bind(o.EnsureDefaults())
	require.NoError(t, err)
	defer lns[0].Close()
	taken := lns[0].Addr().String()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	freeAddr := free.Addr().String()
	require.NoError(t, free.Close())
	o.Listen = []string{freeAddr, taken}
	_, err = Bind(&o)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, taken)
	again, err := net.Listen("tcp", freeAddr)
	require.NoError(t, err, "the first was given back")
	require.NoError(t, again.Close())
}
