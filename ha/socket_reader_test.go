package ha

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// socketPair are both ends of a connection over loopback.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func TestSocketReader(t *testing.T) {
	a, b := socketPair(t)
	empty := 0
	var refuse error
	r := newSocketReader(b, func() error {
		if empty++; empty == 1 {
			_, err := a.Write([]byte("hello")) // only who is about to wait gets it
			require.NoError(t, err)
		}
		return refuse
	})
	require.True(t, r.drains())
	buf := make([]byte, 3)
	n, err := r.read(buf)
	require.NoError(t, err)
	require.Equal(t, "hel", string(buf[:n]))
	n, err = r.read(buf)
	require.NoError(t, err)
	require.Equal(t, "lo", string(buf[:n]))
	require.Equal(t, 1, empty) // the second read did not wait

	require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Millisecond)))
	n, err = r.read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Zero(t, n)
	require.Equal(t, 2, empty)

	require.NoError(t, b.SetReadDeadline(time.Time{}))
	refuse = errors.New("the report failed")
	_, err = r.read(buf)
	require.ErrorIs(t, err, refuse)

	refuse = nil
	require.NoError(t, a.Close())
	_, err = r.read(buf)
	require.ErrorIs(t, err, io.EOF)
}

// A connection in memory is read as it is.
func TestSocketReaderInMemory(t *testing.T) {
	a, b := net.Pipe()
	r := newSocketReader(b, func() error { panic("not called") })
	require.False(t, r.drains())
	go func() { _ = a.Close() }()
	_, err := r.read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, b.Close())
}
