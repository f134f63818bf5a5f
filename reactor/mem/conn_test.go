package mem

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
)

// connect makes a network with one listener and a connection to it.
func connect(t *testing.T) (n *Network, client, server net.Conn) {
	n = NewNetwork()
	ln, err := n.Listen("127.0.0.1:0")
	require.NoError(t, err)
	client, err = n.Dial(t.Context(), ln.Addr().String())
	require.NoError(t, err)
	server, err = ln.Accept()
	require.NoError(t, err)
	require.Equal(t, client.LocalAddr(), server.RemoteAddr())
	require.Equal(t, client.RemoteAddr(), server.LocalAddr())
	return n, client, server
}

func TestConnCarriesBytesAndEOF(t *testing.T) {
	_, a, b := connect(t)
	want := bytes.Repeat([]byte("0123456789"), 100_000) // more than the buffer
	go func() {
		_, _ = a.Write(want)
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Close(), net.ErrClosed)
	_, err = b.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := connect(t)
		began := time.Now()
		require.NoError(t, a.SetReadDeadline(began.Add(time.Minute)))
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var ne net.Error
		require.True(t, errors.As(err, &ne) && ne.Timeout())
		require.Equal(t, time.Minute, time.Since(began))

		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Minute)))
		n, err := a.Write(make([]byte, bufferBytes+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, bufferBytes, n)
		require.Equal(t, 2*time.Minute, time.Since(began))

		// a deadline set while a read waits wakes it
		done := make(chan error, 1)
		require.NoError(t, a.SetDeadline(time.Time{}))
		go func() {
			_, err := a.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, a.SetReadDeadline(time.Unix(1, 0)))
		require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
		require.NoError(t, b.Close())
	})
}

func TestHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := connect(t)
		var fate atomic.Pointer[Fate]
		set := func(f Fate) { fate.Store(&f) }
		n.SetHook(func(from, to netip.AddrPort, size int) Fate {
			require.Equal(t, a.LocalAddr().String(), from.String())
			require.Equal(t, b.LocalAddr().String(), to.String())
			return *fate.Load()
		})
		buf := make([]byte, 10)
		began := time.Now()
		set(Fate{Delay: time.Second})
		_, _ = a.Write([]byte("late"))
		set(Fate{})
		_, _ = a.Write([]byte("r"))
		k, err := b.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "later", string(buf[:k]), "nothing overtakes")
		require.Equal(t, time.Second, time.Since(began))

		set(Fate{Lost: true})
		_, err = a.Write([]byte("gone"))
		require.NoError(t, err)
		set(Fate{})
		_, _ = a.Write([]byte("gone too"))
		_ = a.Close() // not even the end arrives
		require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Hour)))
		_, err = b.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		_, a, b = func() (*Network, net.Conn, net.Conn) {
			n2, a, b := connect(t)
			n2.SetHook(func(_, _ netip.AddrPort, _ int) Fate { return Fate{Reset: true} })
			return n2, a, b
		}()
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = b.Read(buf)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestNetworkAddresses(t *testing.T) {
	n := NewNetwork()
	ln, err := n.Listen("0.0.0.0:10911")
	require.NoError(t, err)
	_, err = n.Listen("0.0.0.0:10911")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = n.Listen("nonsense")
	require.Error(t, err)
	_, err = n.Dial(t.Context(), "nonsense")
	require.Error(t, err)
	c, err := n.Dial(t.Context(), "10.0.0.1:10911")
	require.NoError(t, err)
	_, err = n.Dial(t.Context(), "10.0.0.1:10912")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = n.Dial(ctx, "10.0.0.1:10911")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ln.Close())
	require.Error(t, ln.Close())
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET, "nobody accepted it")
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = n.Dial(t.Context(), "10.0.0.1:10911")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// recorder is a handler that notes when connections end, and answers every frame with its body.
type recorder struct {
	ends chan ending
}

type ending struct {
	after  time.Duration
	reason error
}

func (r *recorder) OnOpen(c reactor.Conn) error {
	c.SetContext(time.Now())
	return nil
}

func (r *recorder) OnFrames(_ reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	for _, f := range frames {
		out.SetBuffer(append(out.Buffer(), f.Body...))
	}
}

func (r *recorder) OnClose(c reactor.Conn, reason error) {
	r.ends <- ending{time.Since(c.Context().(time.Time)), reason}
}

// startVirtual starts an engine inside a bubble.
func startVirtual(t *testing.T, o reactor.Options) (*Engine, *recorder) {
	e, r := New(o), &recorder{ends: make(chan ending, 10)}
	require.NoError(t, e.Start(r))
	t.Cleanup(func() { require.NoError(t, e.Stop(context.Background())) })
	return e, r
}

func dialVirtual(t *testing.T, e *Engine) net.Conn {
	c, err := e.Dial(t.Context())
	require.NoError(t, err)
	return c
}

// frame is a frame with that body and no header.
func frame(body []byte) []byte {
	n := len(body) + 4
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0}, body...)
}

// TestIdleInVirtualTime: the Java default of two minutes, never early, at most a sweep late, at no cost.
func TestIdleInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r := startVirtual(t, reactor.Options{})
		c := dialVirtual(t, e)
		_, _ = c.Write(frame([]byte("x")))
		end := <-r.ends
		require.ErrorIs(t, end.reason, reactor.ErrIdle)
		require.GreaterOrEqual(t, end.after, 120*time.Second)
		require.Less(t, end.after, 123*time.Second)

		c = dialVirtual(t, e)
		for range 5 { // traffic keeps it
			_, _ = c.Write(frame([]byte("x")))
			<-time.After(119 * time.Second)
		}
		require.Empty(t, r.ends)
		require.NoError(t, c.Close())
		require.NoError(t, (<-r.ends).reason)
	})
}

func TestSlowReaderInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r := startVirtual(t, reactor.Options{})
		c := dialVirtual(t, e)
		for range 4 {
			_, _ = c.Write(frame(make([]byte, 100_000)))
		}
		end := <-r.ends
		require.ErrorIs(t, end.reason, reactor.ErrSlowReader)
		require.GreaterOrEqual(t, end.after, 30*time.Second)
		require.Less(t, end.after, 33*time.Second)

		// one that reads a little now and then is slow, but lives
		c = dialVirtual(t, e)
		go func() {
			for range 20 {
				_, _ = c.Write(frame(make([]byte, 100_000)))
			}
		}()
		_, err := io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		for range 20 {
			<-time.After(25 * time.Second)
			_, err := io.ReadFull(c, make([]byte, 70_000))
			require.NoError(t, err)
		}
		require.Empty(t, r.ends)
		require.NoError(t, c.Close())
		<-r.ends
	})
}

// TestDeadLinkInVirtualTime: a peer whose packets vanish is found by the timeouts alone.
func TestDeadLinkInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r := startVirtual(t, reactor.Options{IdleTimeout: time.Minute})
		c := dialVirtual(t, e)
		_, _ = c.Write(frame([]byte("x")))
		synctest.Wait()
		e.net.SetHook(func(_, _ netip.AddrPort, _ int) Fate { return Fate{Lost: true} })
		_, _ = c.Write(frame([]byte("x")))
		end := <-r.ends
		require.ErrorIs(t, end.reason, reactor.ErrIdle)
		require.Less(t, end.after, 63*time.Second)
	})
}
