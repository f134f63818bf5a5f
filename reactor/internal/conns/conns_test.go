package conns

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/reactor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSlots(t *testing.T) {
	s := NewSlots(2)
	require.True(t, s.Acquire())
	require.True(t, s.Acquire())
	require.False(t, s.Acquire())
	require.Equal(t, 2, s.InUse())
	s.Release()
	require.True(t, s.Acquire())
	require.Equal(t, 2, s.Max())
	require.NotEqual(t, NextID(), NextID())
}

// member is a connection that only keeps time.
type member struct {
	id             uint64
	traffic, moved atomic.Uint32
	pending        atomic.Int64
	closed         chan error
}

func (m *member) ID() uint64             { return m.id }
func (m *member) LastTraffic() uint32    { return m.traffic.Load() }
func (m *member) Stalled() (uint32, int) { return m.moved.Load(), int(m.pending.Load()) }
func (m *member) Close(reason error)     { m.closed <- reason }
func newMember(t *Table, now bool) *member {
	m := &member{id: NextID(), closed: make(chan error, 100)}
	if now {
		m.traffic.Store(t.Now())
		m.moved.Store(t.Now())
	}
	t.Add(m)
	return m
}

// TestTimeoutsAreNeverEarly: at any moment between two ticks a connection may begin.
func TestTimeoutsAreNeverEarly(t *testing.T) {
	f := func(o reactor.Options, limit time.Duration, pending int64, want error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			table := NewTable(o.EnsureDefaults())
			defer table.Close()
			for i := range 20 {
				<-time.After(table.period * time.Duration(i) / 19)
				m := newMember(table, true)
				m.pending.Store(pending)
				began := time.Now()
				require.ErrorIs(t, <-m.closed, want)
				took := time.Since(began)
				require.GreaterOrEqual(t, took, limit)
				require.LessOrEqual(t, took, limit+2*table.period)
				table.Remove(m.id)
			}
		})
	}
	f(reactor.Options{}, 120*time.Second, 0, reactor.ErrIdle)
	f(reactor.Options{IdleTimeout: 100 * time.Millisecond}, 100*time.Millisecond, 0, reactor.ErrIdle)
	f(reactor.Options{}, 30*time.Second, 1, reactor.ErrSlowReader)
	f(reactor.Options{IdleTimeout: -1}, 30*time.Second, 1, reactor.ErrSlowReader)
	f(reactor.Options{SlowReaderTimeout: -1}, 120*time.Second, 1, reactor.ErrIdle)
	f(reactor.Options{IdleTimeout: time.Nanosecond}, 0, 0, reactor.ErrIdle)
}

func TestTableWaitEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable((&reactor.Options{}).EnsureDefaults())
		defer table.Close()
		require.NoError(t, table.WaitEmpty(t.Context()))
		a, b := newMember(table, true), newMember(table, true)
		require.Equal(t, Member(a), table.Get(a.id))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, table.WaitEmpty(ctx), context.DeadlineExceeded)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- table.WaitEmpty(context.Background()) }()
		}
		table.CloseAll(io.EOF)
		require.Equal(t, io.EOF, <-a.closed)
		require.Equal(t, io.EOF, <-b.closed)
		table.Remove(a.id)
		synctest.Wait()
		require.Empty(t, done)
		table.Remove(b.id)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Nil(t, table.Get(a.id))
	})
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{PerSecond: 2}
		allowed := func() (n, suppressed int) {
			for range 10 {
				ok, s := g.Allow()
				if ok {
					n++
					suppressed += s
				}
			}
			return n, suppressed
		}
		n, _ := allowed()
		require.Equal(t, 2, n)
		<-time.After(time.Second)
		n, suppressed := allowed()
		require.Equal(t, 2, n)
		require.Equal(t, 8, suppressed)
	})
}

func TestBroken(t *testing.T) {
	err := Broken(&net.OpError{Op: "read", Err: syscall.ECONNRESET})
	require.True(t, IsBroken(err))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.False(t, IsBroken(errors.New("x")))
	require.False(t, IsBroken(nil))
}

func TestAddrPort(t *testing.T) {
	f := func(a net.Addr, want string) {
		t.Helper()
		require.Equal(t, want, AddrPort(a).String())
	}
	f(&net.TCPAddr{IP: net.ParseIP("1.2.3.4"), Port: 5}, "1.2.3.4:5") // 16 bytes inside
	f(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 5, Zone: "eth0"}, "[fe80::1%eth0]:5")
	f(&net.UDPAddr{IP: net.IPv4(1, 2, 3, 4).To4(), Port: 5}, "1.2.3.4:5")
	f(&net.UnixAddr{Name: "x"}, "invalid AddrPort")
	f(nil, "invalid AddrPort")
}
