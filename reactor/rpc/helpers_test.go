package rpc

import (
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/reactor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Request codes of the tests.
const (
	codeLoop  = 10 // served on the loop
	codePool  = 11 // served in a pool
	codeOther = 12 // served in another pool
)

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

func newServer() *Server { return NewServer(clock.System, silent) }

// fakeConn keeps what is written to it, answers apart from requests of ours.
type fakeConn struct {
	id      uint64
	mu      sync.Mutex
	writes  int
	sent    []*codec.Command
	reason  error
	context any
	broken  bool // Send fails
}

var lastConnID atomic.Uint64

func newConn() *fakeConn { return &fakeConn{id: lastConnID.Add(1)} }

func (c *fakeConn) ID() uint64                 { return c.id }
func (c *fakeConn) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:4711") }
func (c *fakeConn) LocalAddr() netip.AddrPort  { return netip.MustParseAddrPort("127.0.0.1:9876") }
func (c *fakeConn) PendingBytes() int          { return 0 }
func (c *fakeConn) Context() any               { return c.context }
func (c *fakeConn) SetContext(v any)           { c.context = v }

func (c *fakeConn) Close(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		c.reason = reason
	}
}

func (c *fakeConn) Send(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return reactor.ErrClosed
	}
	c.writes++
	c.sent = append(c.sent, commands(p)...)
	return nil
}

func (c *fakeConn) SendOutbox(o *reactor.Outbox) error {
	defer o.Release()
	return c.Send(o.Buffer())
}

// take gives what was written since the last call, and in how many writes.
func (c *fakeConn) take() (cmds []*codec.Command, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmds, writes = c.sent, c.writes
	c.sent, c.writes = nil, 0
	return cmds, writes
}

func (c *fakeConn) closedWith() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

// commands decodes the frames in p.
func commands(p []byte) (out []*codec.Command) {
	for len(p) > 0 {
		f, n, _, err := codec.SplitFrame(p, codec.MaxFrameBytes)
		if err != nil || n == 0 {
			panic("the server wrote half a frame")
		}
		var c codec.Command
		if err := c.Decode(f); err != nil {
			panic(err)
		}
		out = append(out, c.Clone())
		p = p[n:]
	}
	return out
}

// request makes a request with the opaque as its body, so that answers can be told apart.
func request(code int, opaque int32) *codec.Command {
	c := codec.NewRequest(code)
	c.Opaque = opaque
	return c
}

// turn gives the server one read with these commands and returns the answers that leave with it.
func turn(t *testing.T, s *Server, c reactor.Conn, cmds ...*codec.Command) []*codec.Command {
	t.Helper()
	var buf []byte
	for _, cmd := range cmds {
		buf = cmd.AppendTo(buf)
	}
	var frames []codec.Frame
	for rest := buf; len(rest) > 0; {
		f, n, _, err := codec.SplitFrame(rest, codec.MaxFrameBytes)
		require.NoError(t, err)
		frames = append(frames, f)
		rest = rest[n:]
	}
	var out reactor.Outbox
	s.OnFrames(c, frames, &out)
	clear(buf) // the read buffer is used for something else now
	return commands(out.Buffer())
}

func opaques(cmds []*codec.Command) (out []int32) {
	for _, c := range cmds {
		out = append(out, c.Opaque)
	}
	return out
}

// gate is a processor that serves when it is let.
type gate struct {
	enter chan int32 // opaque of who came in
	leave chan struct{}
}

func newGate() *gate { return &gate{enter: make(chan int32, 64), leave: make(chan struct{})} }

func (g *gate) Process(r *Request) {
	g.enter <- r.Cmd.Opaque
	<-g.leave
	r.OK()
}

var echo = ProcessorFunc(func(r *Request) { r.ReplyBody(r.Cmd.Body) })
