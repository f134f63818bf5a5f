//go:build unix

package gnet

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
)

// watcher is a handler that tells of its connections.
type watcher struct {
	opened chan reactor.Conn
	closed chan error
}

func newWatcher() *watcher {
	return &watcher{opened: make(chan reactor.Conn, 100), closed: make(chan error, 100)}
}

func (w *watcher) OnOpen(c reactor.Conn) error {
	w.opened <- c
	return nil
}
func (w *watcher) OnFrames(reactor.Conn, []codec.Frame, *reactor.Outbox) {}
func (w *watcher) OnClose(_ reactor.Conn, reason error)                  { w.closed <- reason }

// connect returns both sides of a connection.
func connect(t *testing.T) (*watcher, *conn, net.Conn) {
	w := newWatcher()
	e := startQuiet(t, w, 1)
	nc, err := net.Dial("tcp", e.Addrs()[0].String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	_, err = nc.Write(appendEcho(nil, nil, nil))
	require.NoError(t, err)
	return w, (<-w.opened).(*conn), nc
}

// takePen does what a writer does before its system call.
func takePen(c *conn) {
	c.Mu.Lock()
	c.writing = true
	c.Mu.Unlock()
}

func read(t *testing.T, nc net.Conn, n int) string {
	b := make([]byte, n)
	_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := io.ReadFull(nc, b)
	require.NoError(t, err)
	return string(b)
}

// TestPenHolderWritesForOthers: who comes during a write does not wait, and the holder's own rest goes first.
func TestPenHolderWritesForOthers(t *testing.T) {
	_, c, nc := connect(t)
	takePen(c)
	require.NoError(t, c.Send([]byte("2nd ")))
	var o reactor.Outbox
	o.SetBuffer([]byte("3rd"))
	require.NoError(t, c.SendOutbox(&o))
	require.Equal(t, 7, c.PendingBytes())
	c.Mu.Lock()
	c.Out.PutBackBytes([]byte("1st "), 0) // what the socket did not take of the holder's
	require.NoError(t, c.wroteUnlock(0, false, nil))
	require.Equal(t, "1st 2nd 3rd", read(t, nc, 11))
	require.Zero(t, c.PendingBytes())
}

// TestPenHolderLeavesTheRestToTheDrainer: after some rounds somebody else goes on.
func TestPenHolderLeavesTheRestToTheDrainer(t *testing.T) {
	_, c, nc := connect(t)
	takePen(c)
	const size = 2 * maxPenRounds * maxQueueWrite
	block := strings.Repeat("0123456789abcdef", 4096)
	for range size / len(block) {
		require.NoError(t, c.Send([]byte(block)))
	}
	require.Equal(t, size, c.PendingBytes())
	c.Mu.Lock()
	require.NoError(t, c.wroteUnlock(0, false, nil))
	for range size / len(block) {
		require.Equal(t, block, read(t, nc, len(block)))
	}
	require.Eventually(t, func() bool { return c.PendingBytes() == 0 }, 10*time.Second, time.Millisecond)
}

// TestCloseWaitsForThePen: gnet closes the descriptor when OnClose returns, so a write that is under way goes
// first.
func TestCloseWaitsForThePen(t *testing.T) {
	w, c, nc := connect(t)
	takePen(c)
	require.NoError(t, nc.Close())
	require.Eventually(t, func() bool {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		return c.closed
	}, 10*time.Second, time.Millisecond)
	require.Empty(t, w.closed)
	require.ErrorIs(t, c.Send([]byte("x")), reactor.ErrClosed, "nobody takes the pen any more")
	c.Mu.Lock()
	require.ErrorIs(t, c.wroteUnlock(0, false, nil), reactor.ErrClosed)
	require.NoError(t, <-w.closed)
}

// TestLateEventOfTheDrainer: an event that was on its way when the connection closed does nothing.
func TestLateEventOfTheDrainer(t *testing.T) {
	w, c, nc := connect(t)
	require.NoError(t, nc.Close())
	require.NoError(t, <-w.closed)
	require.Eventually(t, func() bool { return c.eng.table.Get(c.ID()) == nil }, 10*time.Second, time.Millisecond)
	c.writable()
	c.Close(nil)
}

func TestOwnZone(t *testing.T) {
	zone := strings.Clone("eth0")
	a := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: zone}
	ownZone(a)
	require.Equal(t, "eth0", a.Zone)
	ownZone(&net.UnixAddr{})
}
