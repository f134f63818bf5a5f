package reactortest

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
)

func testManyFramesInOneRead(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	const n = 1000
	var all []byte
	for i := range n {
		all = appendFrame(all, fmt.Sprintf("echo %d", i), []byte{byte(i)})
	}
	c.write(all)
	for i := range n {
		header, body := c.receive()
		require.Equal(t, fmt.Sprintf("echo %d", i), header)
		require.Equal(t, []byte{byte(i)}, body)
	}
	require.EqualValues(t, n, r.server.frames.Load())
	require.Less(t, r.server.calls.Load(), int64(n/4), "the frames of a read are served together")
	require.Greater(t, r.server.maxBatch.Load(), int64(1))
}

func testFramesCutAnywhere(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	var three []byte
	for _, body := range []string{"", "a", "some body"} {
		three = appendFrame(three, "echo 1", []byte(body))
	}
	c := r.dial()
	// two writes, cut at every byte
	for cut := 1; cut < len(three); cut++ {
		c.write(three[:cut])
		before := r.server.calls.Load()
		if cut > 14 { // the first frame is complete: wait until the cut has been seen
			_, _ = c.receive()
			require.Greater(t, r.server.calls.Load(), int64(0))
		}
		c.write(three[cut:])
		for n := range 3 {
			if cut > 14 && n == 0 {
				continue
			}
			_, _ = c.receive()
		}
		require.GreaterOrEqual(t, r.server.calls.Load(), before)
	}
	// every byte for itself
	for _, b := range three {
		c.write([]byte{b})
		runtime.Gosched()
	}
	for _, want := range []string{"", "a", "some body"} {
		_, body := c.receive()
		require.Equal(t, want, string(body))
	}
}

func testBigFrames(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{HighWatermarkBytes: 64 << 20})
	c := r.dial()
	for _, size := range []int{200_000, 1 << 20, codec.MaxFrameBytes - 8 - len("echo 1")} {
		body := pattern(0, size)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.send("echo 1", body)
		}()
		began := time.Now()
		_, got := c.receive()
		receive(t, done, "the write")
		require.True(t, bytes.Equal(body, got), "size %d", size)
		require.Less(t, time.Since(began), 10*time.Second)
	}
	// one byte more
	_, _ = c.nc.Write(appendHead(nil, "echo 1", codec.MaxFrameBytes-8-len("echo 1")+1))
	c.expectEnd()
	require.ErrorIs(t, r.closed(), codec.ErrMalformed)
}

func testPipelining(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	var wg sync.WaitGroup
	for k := range 4 {
		c := r.dial()
		const n = 2000
		wg.Add(2)
		go func() {
			defer wg.Done()
			var b []byte
			for i := range n {
				b = appendFrame(b[:0], fmt.Sprintf("echo %d", i), pattern(i, (i*37+k)%3000))
				if _, err := c.nc.Write(b); err != nil {
					t.Errorf("write %d: %v", i, err)
					return
				}
			}
		}()
		go func() {
			defer wg.Done()
			for i := range n {
				header, body, err := c.tryReceive(patience)
				want := fmt.Sprintf("echo %d", i)
				if err != nil || header != want || !bytes.Equal(body, pattern(i, (i*37+k)%3000)) {
					t.Errorf("answer %d: %q, %d bytes, %v", i, header, len(body), err)
					return
				}
			}
		}()
	}
	wg.Wait()
}

// testSentIsTold: an engine that has nothing else to do tells at once that an answer is sent.
func testSentIsTold(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	for i := range 3 {
		c.write(appendFrame(nil, "told", []byte{byte(i)}))
		header, _ := c.receive()
		require.Equal(t, "told", header)
		select {
		case <-r.server.told:
		case <-time.After(patience):
			require.Fail(t, "nobody tells that the answer is sent")
		}
	}
}

// testOtherGoroutines: frames sent from many goroutines at once stay whole.
func testOtherGoroutines(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	const n = 1500
	go func() {
		var all []byte
		for i := range n {
			verb := []string{"later", "outbox", "echo"}[i%3]
			all = appendFrame(all, fmt.Sprintf("%s %d", verb, i), pattern(i, i*13%5000))
		}
		_, _ = c.nc.Write(all)
	}()
	seen := map[int]bool{}
	for range n {
		header, body := c.receive()
		var verb string
		var i int
		_, err := fmt.Sscanf(header, "%s %d", &verb, &i)
		require.NoError(t, err)
		require.False(t, seen[i])
		seen[i] = true
		require.True(t, bytes.Equal(pattern(i, i*13%5000), body), "frame %d", i)
	}
}

func testAddresses(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	require.Len(t, r.engine.Addrs(), 1)
	require.NotZero(t, r.engine.Addrs()[0].Port())
	require.NotEmpty(t, r.engine.Name())
	var last uint64
	for range 3 {
		c := r.dial()
		c.call("echo", nil)
		sc := receive(t, r.server.opens, "OnOpen")
		require.Equal(t, c.nc.LocalAddr().String(), sc.RemoteAddr().String())
		require.Equal(t, r.engine.Addrs()[0], sc.LocalAddr())
		require.True(t, sc.RemoteAddr().Addr().Is4())
		require.Greater(t, sc.ID(), last)
		last = sc.ID()
	}
	require.Equal(t, 3, r.engine.Connections())
	require.NotEqual(t, netip.AddrPort{}, r.engine.Addrs()[0])
}

func testContext(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.call("echo", nil)
	sc := receive(t, r.server.opens, "OnOpen")
	require.IsType(t, &state{}, sc.Context())
	sc.SetContext(sc.Context()) // from elsewhere, while it may be read
	c.call("echo", nil)
	require.EqualValues(t, 2, sc.Context().(*state).frames.Load())
}

func testRefusedByHandler(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	r.server.refuse.Store(true)
	c := r.dial()
	c.send("echo", nil)
	c.expectEnd()
	eventually(t, func() bool { return r.engine.Connections() == 0 }, "the slot is free")
	require.Empty(t, r.server.closes, "OnClose only after a successful OnOpen")
	require.Zero(t, r.server.frames.Load())
	r.server.refuse.Store(false)
	r.dial().call("echo", nil)
}

func testLastWords(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.write(appendFrame(appendFrame(nil, "echo 1", nil), "last", []byte("farewell")))
	_, _ = c.receive()
	_, body := c.receive()
	require.Equal(t, "farewell", string(body))
	c.expectEnd()
	require.ErrorIs(t, r.closed(), errAsked)
}

func testCloseFromElsewhere(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.call("echo", nil)
	sc := receive(t, r.server.opens, "OnOpen")
	var wg sync.WaitGroup
	sc.Close(errAsked)
	for range 8 {
		wg.Go(func() { sc.Close(errRefused) })
	}
	wg.Wait()
	c.expectEnd()
	require.ErrorIs(t, r.closed(), errAsked, "the first reason counts")
	require.ErrorIs(t, sc.Send([]byte("x")), reactor.ErrClosed)
	require.ErrorIs(t, sc.SendOutbox(outboxOf("x")), reactor.ErrClosed)
	require.Zero(t, sc.PendingBytes())
	sc.Close(nil)
}

func outboxOf(s string) *reactor.Outbox {
	o := &reactor.Outbox{}
	o.SetBuffer([]byte(s))
	return o
}

func testPeerCloses(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.call("echo", nil)
	_ = c.nc.Close()
	require.NoError(t, r.closed())

	c = r.dial()
	c.call("echo", nil)
	c.write([]byte{0, 0, 0, 20, 0}) // in the middle of a frame
	_ = c.nc.Close()
	require.NoError(t, r.closed())
	eventually(t, func() bool { return r.engine.Connections() == 0 }, "connections are counted down")

	// one that never sent anything is not the handler's business
	c = r.dial()
	eventually(t, func() bool { return r.engine.Connections() == 1 }, "it counts")
	_ = c.nc.Close()
	eventually(t, func() bool { return r.engine.Connections() == 0 }, "it is gone")
	require.Len(t, r.server.opens, 2)
}

func testPanic(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	healthy, c := r.dial(), r.dial()
	healthy.call("echo", nil)
	c.send("panic", nil)
	c.expectEnd()
	require.ErrorIs(t, r.closed(), reactor.ErrPanic)
	require.True(t, r.log.contains("asked for"), "logged")
	require.True(t, r.log.contains("server.go"), "with its stack")
	healthy.call("echo", nil)

	r.server.panics.Store(true)
	c = r.dial()
	c.send("echo", nil)
	c.expectEnd()
	_ = healthy.nc.Close()
	require.NoError(t, r.closed())
	eventually(t, func() bool { return r.engine.Connections() == 0 }, "connections are counted down")
	r.server.panics.Store(false)
}
