package reactortest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/reactor"
)

func testStopAccepting(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.call("echo", nil)
	r.engine.StopAccepting()
	r.engine.StopAccepting()
	_, err := dialEngine(h, r.engine)
	require.Error(t, err)
	c.call("echo", nil)
	require.Equal(t, 1, r.engine.Connections())
}

func testStop(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{HighWatermarkBytes: 64 << 20}))
	const n = 50
	for range n {
		c := r.dial()
		c.call("echo", nil)
	}
	slow := r.dial().slow()
	sc := r.opened(slow)
	_ = sc
	slow.send("mapped 10 300000", nil)
	mute := r.dial()
	eventually(t, func() bool { return r.engine.Connections() == n+2 }, "all are in")
	r.stop()
	require.Len(t, r.server.closes, n+1, "every OnClose has returned")
	for range n + 1 {
		require.ErrorIs(t, r.closed(), reactor.ErrStopped)
	}
	mute.expectEnd()
	require.Zero(t, r.server.files.open.Load())
	_, err := dialEngine(h, r.engine)
	require.Error(t, err)
	r.stop() // again
}

// testStopIsBounded: a handler that does not come back cannot hold Stop beyond its context.
func testStopIsBounded(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.send("block", nil)
	receive(t, r.server.opens, "OnOpen")
	eventually(t, func() bool { return r.server.frames.Load() == 1 }, "the handler waits")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.engine.Stop(ctx), context.DeadlineExceeded)
	close(r.server.gate)
	r.stop()
	require.ErrorIs(t, r.closed(), reactor.ErrStopped)
}

func testAddressInUse(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	addr := r.engine.Addrs()[0].String()
	second := h.New(reactor.Options{Listen: []string{"127.0.0.1:0", addr}})
	require.ErrorContains(t, second.Start(newServer()), addr)
	require.NoError(t, second.Stop(context.Background()))
	third := h.New(reactor.Options{Listen: []string{"no such host.:1"}})
	require.ErrorContains(t, third.Start(newServer()), "no such host")
}

func testInvalidOptions(t *testing.T, h Harness) {
	e := h.New(reactor.Options{Listen: []string{"127.0.0.1:0"}, MaxFrameBytes: 3})
	require.ErrorContains(t, e.Start(newServer()), "MaxFrameBytes")
	require.NoError(t, e.Stop(context.Background()))
	require.Zero(t, e.Connections())
	require.Empty(t, e.Addrs())
}
