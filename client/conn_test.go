package client

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor/mem"
)

// rawPeer gives a connection of ours and the raw other end.
func rawPeer(t *testing.T, o Options) (*Conn, net.Conn) {
	t.Helper()
	n := mem.NewNetwork()
	ln, err := n.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	o.Dialer = DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) { return n.Dial(ctx, addr) })
	conn, err := Dial(t.Context(), ln.Addr().String(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	server, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return conn, server
}

// A caller that was told to stop does not report a timeout.
func TestCancelIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := rawPeer(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := conn.Call(ctx, codec.NewRequest(codec.ReqHeartBeat))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrTimeout)
		require.ErrorContains(t, err, "HEART_BEAT")
		_, err = conn.Call(ctx, codec.NewRequest(codec.ReqHeartBeat))
		require.ErrorIs(t, err, context.Canceled, "at once")
	})
}

// A caller writes for the others only a few times, then a goroutine does.
func TestWritesForOthersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, server := rawPeer(t, Options{})
		big := make([]byte, 300<<10) // more than the network holds
		send := func() { _ = conn.SendWith(func(dst []byte) []byte { return append(dst, big...) }) }
		var returned atomic.Bool
		go func() {
			send()
			returned.Store(true)
		}()
		for range maxRounds { // somebody else always has more
			synctest.Wait()
			require.False(t, returned.Load())
			send()
			_, err := io.CopyN(io.Discard, server, int64(len(big)))
			require.NoError(t, err)
		}
		synctest.Wait()
		require.True(t, returned.Load())
		_, err := io.CopyN(io.Discard, server, int64(len(big)))
		require.NoError(t, err)
	})
}

func TestHandlersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		handler := func(_ *Conn, req *codec.Command) *codec.Command {
			<-gate
			return codec.NewResponse(req, codec.RespSuccess, "")
		}
		conn, server := rawPeer(t, Options{MaxHandlers: 2, Handler: handler, Log: slog.New(slog.DiscardHandler)})
		caller := NewConn(server, Options{})
		defer caller.Close()
		answers := make(chan int, 3)
		for range 3 {
			_, err := caller.Go(codec.NewRequest(1), func(a *codec.Command, err error) {
				require.NoError(t, err)
				answers <- a.Code
			})
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, codec.RespSystemBusy, <-answers)
		close(gate)
		require.Equal(t, codec.RespSuccess, <-answers)
		require.Equal(t, codec.RespSuccess, <-answers)
		require.NoError(t, conn.Err())
	})
}

// One large message does not keep its buffer.
func TestBuffersShrink(t *testing.T) {
	buf := make([]byte, 0, 64<<10)
	part := make([]byte, 64<<10)
	for len(buf) < 4<<20 {
		buf = append(makeRoom(buf, 0, 4<<20), part...)
		require.LessOrEqual(t, cap(buf), 2*len(buf)+2*readBytes, "grows with what came")
	}
	rest := []byte("abc")
	buf = append(buf[:4<<20], rest...)
	buf = makeRoom(buf, 4<<20, 100)
	require.Equal(t, rest, buf)
	require.Greater(t, cap(buf), 4<<20)
	require.Equal(t, readBytes, cap(makeRoom(buf, len(buf), 0)))
	require.True(t, bytes.Equal(rest, buf))
}

// Bytes that are no frame end the connection and every call on it.
func TestMalformedFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, server := rawPeer(t, Options{})
		failed := make(chan error, 1)
		_, err := conn.Go(codec.NewRequest(1), func(_ *codec.Command, err error) { failed <- err })
		require.NoError(t, err)
		_, err = server.Write([]byte("HTTP/1.1 400 Bad Request"))
		require.NoError(t, err)
		err = <-failed
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, codec.ErrMalformed)
		require.Equal(t, err, conn.Err())
		_, err = conn.Call(t.Context(), codec.NewRequest(1))
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestTooManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := rawPeer(t, Options{MaxPending: 2})
		for range 2 {
			_, err := conn.Go(codec.NewRequest(1), func(*codec.Command, error) {})
			require.NoError(t, err)
		}
		_, err := conn.Go(codec.NewRequest(1), func(*codec.Command, error) {})
		require.ErrorIs(t, err, ErrTooManyCalls)
	})
}

// Codes beyond 16 bits travel with a JSON header whatever is configured.
func TestSerializeOfLargeCodes(t *testing.T) {
	c := &Conn{o: Options{Serialize: codec.SerializeROCKETMQ}}
	require.Equal(t, codec.SerializeROCKETMQ, c.serializeFor(codec.NewRequest(codec.ReqPullMessage)))
	require.Equal(t, codec.SerializeJSON, c.serializeFor(codec.NewRequest(codec.ReqPopMessage)))
}
