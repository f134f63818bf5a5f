package reactortest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/reactor"
	"skylark/zerocopy"
)

// never is a timeout no test waits for.
const never = time.Hour

// smallSockets makes slow readers felt early: the kernel's own buffers take tens of megabytes on some
// machines.
func smallSockets(o reactor.Options) reactor.Options {
	o.SocketSndBuf = 64 << 10
	return o
}

// slow makes c a peer whose socket takes little.
func (c *client) slow() *client {
	if tc, ok := c.nc.(*net.TCPConn); ok {
		_ = tc.SetReadBuffer(32 << 10)
	}
	return c
}

// opened lets c say something and returns the server's side of it.
func (r *rig) opened(c *client) reactor.Conn {
	r.t.Helper()
	c.call("echo", nil)
	return receive(r.t, r.server.opens, "OnOpen")
}

// allReleased waits until no mapped range is held.
func (r *rig) allReleased() {
	r.t.Helper()
	eventually(r.t, func() bool { return r.server.files.open.Load() == 0 }, "references released")
}

func testMappedRanges(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	f := func(k, n int) {
		t.Helper()
		header := fmt.Sprintf("mapped %d %d", k, n)
		c.write(appendFrame(appendFrame(nil, header, nil), "echo", []byte("behind it")))
		got, body := c.receive()
		require.Equal(t, header, got)
		require.Equal(t, k*n, len(body))
		for i := range k {
			require.True(t, bytes.Equal(pattern(i*n, n), body[i*n:(i+1)*n]), "range %d", i)
		}
		_, body = c.receive()
		require.Equal(t, "behind it", string(body))
		r.allReleased()
	}
	f(1, 1)
	f(3, 1000)
	f(1, 4<<20)
	f(64, 50_000)
	f(3000, 10) // more than one writev takes
	f(2*zerocopy.MaxVec, 1000)
}

func testMappedToSlowReader(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{HighWatermarkBytes: 64 << 20, SlowReaderTimeout: never}))
	c := r.dial().slow()
	sc := r.opened(c)
	const k, n = 7, 300_001
	for range 5 {
		c.send(fmt.Sprintf("mapped %d %d", k, n), nil)
		c.send("heap 100000", nil)
	}
	eventually(t, func() bool { return sc.PendingBytes() > 5_000_000 }, "the socket is full")
	require.NotZero(t, r.server.files.open.Load())
	for range 5 {
		_, body := c.receive()
		for i := range k {
			require.True(t, bytes.Equal(pattern(i*n, n), body[i*n:(i+1)*n]), "range %d", i)
		}
		_, body = c.receive()
		require.True(t, bytes.Equal(pattern(0, 100_000), body))
	}
	eventually(t, func() bool { return sc.PendingBytes() == 0 }, "all is written")
	r.allReleased()
	c.call("echo", nil)
}

func testMappedToVanishedReader(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{HighWatermarkBytes: 64 << 20, SlowReaderTimeout: never}))
	for range 20 {
		c := r.dial().slow()
		sc := r.opened(c)
		c.send("mapped 10 200000", nil)
		c.send("mapped 2000 100", nil)
		eventually(t, func() bool { return sc.PendingBytes() > 0 }, "the socket is full")
		c.abort()
		_ = r.closed() // in order or not: the peer is gone
		r.allReleased()
	}
}

func testMappedToClosed(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{HighWatermarkBytes: 64 << 20, SlowReaderTimeout: never}))
	c := r.dial().slow()
	sc := r.opened(c)
	c.send("mapped 10 300000", nil)
	eventually(t, func() bool { return sc.PendingBytes() > 0 }, "the socket is full")
	sc.Close(errAsked)
	require.ErrorIs(t, r.closed(), errAsked)
	r.allReleased()

	var out reactor.Outbox
	r.server.mapped(&out, "x", 3, 100)
	require.EqualValues(t, 3, r.server.files.open.Load())
	require.ErrorIs(t, sc.SendOutbox(&out), reactor.ErrClosed)
	require.True(t, out.Empty())
	require.Zero(t, r.server.files.open.Load(), "and so are those of what comes too late")

	// writers from many goroutines while the connection goes
	for range 30 {
		c := r.dial()
		sc := r.opened(c)
		for range 4 {
			r.server.work.Go(func() {
				for {
					var out reactor.Outbox
					r.server.mapped(&out, "x", 2, 5000)
					if sc.SendOutbox(&out) != nil {
						return
					}
				}
			})
		}
		c.receive()
		if c.t.Failed() {
			return
		}
		c.abort()
		_ = r.closed()
	}
	r.server.work.Wait()
	r.allReleased()
}

func testHeapIsCopied(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{HighWatermarkBytes: 64 << 20, SlowReaderTimeout: never}))
	c := r.dial().slow()
	sc := r.opened(c)
	const n = 3_000_000
	spoil := func(b []byte) {
		for i := range b {
			b[i] = 0xCC
		}
	}
	p := appendFrame(nil, "sent", pattern(0, n))
	require.NoError(t, sc.Send(p))
	spoil(p)
	var out reactor.Outbox
	var segs zerocopy.Segments
	stray := pattern(0, n)
	segs.Add(zerocopy.Segment{Bytes: stray})
	out.SetBuffer(appendHead(nil, "outbox", n))
	out.AddSegments(&segs)
	require.NoError(t, sc.SendOutbox(&out))
	spoil(stray)
	spoil(out.Buffer()[:cap(out.Buffer())])
	for _, want := range []string{"sent", "outbox"} {
		header, body := c.receive()
		require.Equal(t, want, header)
		require.True(t, bytes.Equal(pattern(0, n), body), want)
	}
}

func testSlowReaderIsPaused(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{
		HighWatermarkBytes: 256 << 10, LowWatermarkBytes: 64 << 10, SlowReaderTimeout: never,
	}))
	c, other := r.dial().slow(), r.dial()
	sc := r.opened(c)
	const n = 600
	var all []byte
	for range n {
		all = appendFrame(all, "heap 65536", nil)
	}
	c.write(all)
	eventually(t, func() bool { return sc.PendingBytes() > 256<<10 }, "it is over the high watermark")
	for range 50 {
		other.call("echo", nil)
	}
	require.Less(t, sc.Context().(*state).frames.Load(), int64(n), "its frames are not served")
	c.send("echo", []byte("the last one"))
	for range n {
		_, body := c.receive()
		require.Len(t, body, 65536)
	}
	_, body := c.receive()
	require.Equal(t, "the last one", string(body))
}

func testSlowReaderIsClosed(t *testing.T, h Harness) {
	const limit = 300 * time.Millisecond
	r := start(t, h, smallSockets(reactor.Options{HighWatermarkBytes: 256 << 10, SlowReaderTimeout: limit}))
	c, other := r.dial().slow(), r.dial()
	sc := r.opened(c)
	began := time.Now()
	for range 20 {
		c.send("heap 300000", nil)
	}
	var worst time.Duration
	for len(r.server.closes) == 0 {
		callBegan := time.Now()
		other.call("echo", nil)
		worst = max(worst, time.Since(callBegan))
		require.Less(t, time.Since(began), patience)
	}
	require.ErrorIs(t, r.closed(), reactor.ErrSlowReader)
	require.GreaterOrEqual(t, time.Since(began), limit)
	require.Less(t, worst, time.Second, "others are not disturbed")
	require.ErrorIs(t, sc.Send([]byte("x")), reactor.ErrSlowReader)
	eventually(t, func() bool { return r.log.contains("pendingBytes=") }, "logged with what waited")
	c.expectEnd()
}

func testSlowReaderKeepsSending(t *testing.T, h Harness) {
	o := reactor.Options{
		HighWatermarkBytes: 64 << 10, MaxPausedInboundBytes: 256 << 10, SlowReaderTimeout: never,
	}
	if h.StopsReading {
		o.SlowReaderTimeout = 500 * time.Millisecond
	}
	r := start(t, h, smallSockets(o))
	c := r.dial().slow()
	sc := r.opened(c)
	c.send("heap 3000000", nil)
	eventually(t, func() bool { return sc.PendingBytes() > 64<<10 }, "it is paused")
	served := r.server.frames.Load()
	junk := bytes.Repeat(appendFrame(nil, "quiet", make([]byte, 1000)), 50)
	_ = c.nc.SetWriteDeadline(time.Now().Add(patience))
	var err error
	for sent := 0; err == nil && sent < 1<<30; sent += len(junk) {
		_, err = c.nc.Write(junk)
	}
	require.Error(t, err)
	require.ErrorIs(t, r.closed(), reactor.ErrSlowReader)
	require.Equal(t, served, r.server.frames.Load(), "nothing was served meanwhile")
}

func testPendingLimit(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{
		HighWatermarkBytes: 512 << 10, MaxPendingBytes: 2 << 20, SlowReaderTimeout: never,
	}))
	c := r.dial().slow()
	sc := r.opened(c)
	p := appendFrame(nil, "push", make([]byte, 64<<10))
	var err error
	for range 10_000 {
		if err = sc.Send(p); err != nil {
			break
		}
		require.LessOrEqual(t, sc.PendingBytes(), 2<<20)
	}
	require.ErrorIs(t, err, reactor.ErrSlowReader)
	require.ErrorIs(t, r.closed(), reactor.ErrSlowReader)
	require.True(t, errors.Is(sc.Send(p), reactor.ErrSlowReader))
	c.expectEnd()
}

// testManyWriters: goroutines that answer on one connection whose socket is full most of the time keep their
// own order, and no byte is lost or doubled between direct writes, queue and drainer.
func testManyWriters(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{
		HighWatermarkBytes: 1 << 30, LowWatermarkBytes: 1 << 20, MaxPendingBytes: 1 << 31,
		SlowReaderTimeout: never,
	}))
	c := r.dial().slow()
	sc := r.opened(c)
	const writers, each = 6, 1500
	for w := range writers {
		r.server.work.Go(func() {
			var out reactor.Outbox
			for i := range each {
				n := (i*w*131 + i) % 9000
				header := fmt.Sprintf("w %d %d", w, i)
				var err error
				switch (i + w) % 3 {
				case 0:
					err = sc.Send(appendFrame(nil, header, pattern(i, n)))
				case 1:
					out.SetBuffer(appendFrame(out.Buffer(), header, pattern(i, n)))
					err = sc.SendOutbox(&out)
				case 2:
					var segs zerocopy.Segments
					out.SetBuffer(appendHead(out.Buffer(), header, n))
					segs.Add(r.server.files.segment(pattern(i, n/2)))
					segs.Add(r.server.files.segment(pattern(i+n/2, n-n/2)))
					out.AddSegments(&segs)
					err = sc.SendOutbox(&out)
				}
				if err != nil {
					r.server.fault("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	var next [writers]int
	for range writers * each {
		header, body := c.receive()
		var w, i int
		_, err := fmt.Sscanf(header, "w %d %d", &w, &i)
		require.NoError(t, err, header)
		require.Equal(t, next[w], i, "writer %d", w)
		next[w]++
		require.True(t, bytes.Equal(pattern(i, (i*w*131+i)%9000), body), header)
	}
	r.allReleased()
	c.call("echo", nil)
}
