//go:build iouring && linux

package uring

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/reactortest"
	"skylark/zerocopy"
)

var harness = reactortest.Harness{New: New, Sockets: true, StopsReading: true}

func TestMain(m *testing.M) {
	if name := os.Getenv(echoEnv); name != "" {
		serveEcho(name)
	}
	reactortest.Main(m, harness)
}

func TestContract(t *testing.T) { reactortest.Run(t, harness) }

// answerer answers every frame with its body, or with a mapped range behind a head.
type answerer struct {
	mapped []byte
	refs   refs
}

// refs counts the references that are out.
type refs struct{ sync.WaitGroup }

func (r *refs) Release() { r.Done() }

func (a *answerer) OnOpen(c reactor.Conn) error {
	c.SetContext(&zerocopy.Segments{})
	return nil
}
func (a *answerer) OnClose(reactor.Conn, error) {}
func (a *answerer) OnFrames(c reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	for _, f := range frames {
		b := binary.BigEndian.AppendUint32(out.Buffer(), uint32(4+len(f.Body)+len(a.mapped)))
		b = append(b, 0, 0, 0, 0)
		out.SetBuffer(append(b, f.Body...))
		if a.mapped != nil {
			a.refs.Add(1)
			segs := c.Context().(*zerocopy.Segments)
			segs.Add(zerocopy.Segment{Bytes: a.mapped, Owner: &a.refs})
			out.AddSegments(segs)
		}
	}
}

func request(body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(append(b, 0, 0, 0, 0), body...)
}

func startEngine(tb testing.TB, h reactor.Handler, o reactor.Options) *Engine {
	o.Listen, o.Log = []string{"127.0.0.1:0"}, slog.New(slog.DiscardHandler)
	if o.Loops == 0 {
		o.Loops = 1
	}
	e := New(o).(*Engine)
	require.NoError(tb, e.Start(h))
	tb.Cleanup(func() { require.NoError(tb, e.Stop(context.Background())) })
	return e
}

func dial(tb testing.TB, e *Engine) *net.TCPConn {
	nc, err := net.DialTimeout("tcp", e.Addrs()[0].String(), patience)
	require.NoError(tb, err)
	require.NoError(tb, nc.SetDeadline(time.Now().Add(5*patience)))
	tb.Cleanup(func() { _ = nc.Close() })
	return nc.(*net.TCPConn)
}

// TestMoreConnectionsThanBuffers: the kernel runs out of receive buffers (ENOBUFS) in the middle of a turn.
func TestMoreConnectionsThanBuffers(t *testing.T) {
	e := startEngine(t, &answerer{}, reactor.Options{ReadBufferBytes: 4 << 10})
	const clients, rounds = 20 * receiveBuffers, 5
	body := bytes.Repeat([]byte("0123456789"), 500)
	var ncs []*net.TCPConn
	for range clients {
		ncs = append(ncs, dial(t, e))
	}
	p, answer := request(body), make([]byte, len(body)+8)
	for range rounds {
		for _, nc := range ncs {
			_, err := nc.Write(p)
			require.NoError(t, err)
		}
		for _, nc := range ncs {
			_, err := io.ReadFull(nc, answer)
			require.NoError(t, err)
			require.True(t, bytes.Equal(p, answer))
		}
	}
}

// TestMoreSlowReadersThanSends: connections wait in line for a send, and all get their bytes in the end. Those that
// vanish meanwhile leave no reference behind.
func TestMoreSlowReadersThanSends(t *testing.T) {
	h := &answerer{mapped: make([]byte, 1<<20)}
	for i := range h.mapped {
		h.mapped[i] = byte(i >> 8)
	}
	e := startEngine(t, h, reactor.Options{SocketSndBuf: 64 << 10})
	const clients = 3 * sendOps / 2
	var ncs []*net.TCPConn
	for range clients {
		nc := dial(t, e)
		require.NoError(t, nc.SetReadBuffer(32<<10))
		_, err := nc.Write(request([]byte("x")))
		require.NoError(t, err)
		ncs = append(ncs, nc)
	}
	require.Eventually(t, func() bool { return pending(e) >= clients }, patience, tick)
	answer := make([]byte, len(h.mapped)+9)
	for i, nc := range ncs {
		if i%4 == 0 {
			require.NoError(t, nc.SetLinger(0))
			require.NoError(t, nc.Close())
			continue
		}
		_, err := io.ReadFull(nc, answer)
		require.NoError(t, err)
		require.True(t, bytes.Equal(h.mapped, answer[9:]))
	}
	h.refs.Wait()
}

// pending is how many connections have bytes that wait.
func pending(e *Engine) (n int) {
	for _, c := range e.members() {
		if c.PendingBytes() > 0 {
			n++
		}
	}
	return n
}

// members are the open connections.
func (e *Engine) members() (all []*conn) {
	for id := range lastID(e) + 1 {
		if m := e.table.Get(id); m != nil {
			all = append(all, m.(*conn))
		}
	}
	return all
}

func lastID(e *Engine) uint64 { return newConn(e, -1, e.Addrs()[0], e.Addrs()[0]).ID() }

// TestBalance: connections go where the fewest are.
func TestBalance(t *testing.T) {
	e := startEngine(t, &answerer{}, reactor.Options{Loops: 3})
	var ncs []*net.TCPConn
	for range 30 {
		ncs = append(ncs, dial(t, e))
	}
	loads := func() (all [3]int32) {
		for i, lp := range e.loops {
			all[i] = lp.load.Load()
		}
		return all
	}
	require.Eventually(t, func() bool { return loads() == [3]int32{10, 10, 10} }, patience, tick)
	gone := map[*loop]int{}
	byAddr := map[string]*conn{}
	for _, c := range e.members() {
		byAddr[c.RemoteAddr().String()] = c
	}
	for _, nc := range ncs { // all of one loop, half of another
		lp := byAddr[nc.LocalAddr().String()].lp
		if lp == e.loops[0] || lp == e.loops[1] && gone[lp] < 5 {
			gone[lp]++
			require.NoError(t, nc.Close())
		}
	}
	require.Eventually(t, func() bool { return loads() == [3]int32{0, 5, 10} }, patience, tick)
	for range 15 {
		dial(t, e)
	}
	require.Eventually(t, func() bool { return loads() == [3]int32{10, 10, 10} }, patience, tick)
}

// connectsEnv is how many connections TestManyConnects makes: a million takes some minutes.
const connectsEnv = "SKYLARK_URING_CONNECTS"

// TestManyConnects: connections that come, speak and go leave no descriptor, goroutine, thread, slot, send or memory.
func TestManyConnects(t *testing.T) {
	n := 20_000
	if text := os.Getenv(connectsEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	if testing.Short() {
		n = 2000
	}
	h := &answerer{mapped: make([]byte, 100_000)}
	e := startEngine(t, h, reactor.Options{Loops: 2})
	addr := e.Addrs()[0].String()
	cycle := func(i int) error {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer nc.Close()
		_ = nc.(*net.TCPConn).SetLinger(0) // no port is left waiting
		if i%4 == 0 {
			return nil // says nothing
		}
		if _, err := nc.Write(request([]byte("hello"))); err != nil {
			return err
		}
		if i%4 == 1 {
			return nil // does not listen
		}
		_, err = io.ReadFull(nc, make([]byte, 1000)) // not to the end
		return err
	}
	const clients = 4
	run := func(n int) {
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for i := range n / clients {
					if err := cycle(i); err != nil {
						t.Errorf("connect %d: %v", i, err)
						return
					}
				}
			})
		}
		wg.Wait()
		require.Eventually(t, func() bool { return e.Connections() == 0 }, patience, tick)
		h.refs.Wait()
	}
	run(1000)
	runtime.GC()
	fds, routines, resident := descriptors(t), runtime.NumGoroutine(), residentKiB(t)
	began := time.Now()
	run(n)
	runtime.GC()
	t.Logf("%d connections in %v; resident %d KiB before, %d after", n, time.Since(began), resident, residentKiB(t))
	require.Eventually(t, func() bool { return descriptors(t) <= fds }, patience, tick)
	// Eventually itself has one
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= routines+1 }, patience, tick)
	require.Less(t, residentKiB(t), resident+(16<<10))
	for _, lp := range e.loops {
		require.Zero(t, lp.load.Load())
	}
}

func residentKiB(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(t, err)
			return n
		}
	}
	return 0
}
