package reactortest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
	"skylark/zerocopy"
)

var (
	errRefused = errors.New("reactortest: refused")
	errAsked   = errors.New("reactortest: the client asked for it")
)

// closing is one call of OnClose.
type closing struct {
	conn   reactor.Conn
	reason error
}

// state is what the suite's handler knows of a connection: its Context.
type state struct {
	inside atomic.Int32 // calls running
	closed atomic.Int32
	frames atomic.Int64
}

// server obeys the header of every frame:
//
//	echo            the same frame
//	heap N          a frame with N bytes
//	mapped K N      a frame whose body is K mapped ranges of N bytes, between heap bytes
//	later           the same frame, from another goroutine
//	outbox          the same frame, from another goroutine, with its body mapped
//	told            the same frame, and told tells that it is sent
//	quiet           nothing
//	decode          nothing, unless the body is no header: then the connection is closed with the error
//	last            the same frame, and the connection is closed
//	close           the connection is closed
//	panic           a panic, with bytes and references in the outbox
//	block           waits until the test lets go
type server struct {
	opens  chan reactor.Conn
	closes chan closing
	refuse atomic.Bool
	panics atomic.Bool // in OnOpen and OnClose
	gate   chan struct{}
	told   tellSent
	work   sync.WaitGroup

	calls    atomic.Int64
	frames   atomic.Int64
	maxBatch atomic.Int64
	files    files

	mu     sync.Mutex
	faults []string
}

func newServer() *server {
	return &server{
		opens: make(chan reactor.Conn, 1<<16), closes: make(chan closing, 1<<16),
		gate: make(chan struct{}), told: make(tellSent, 1),
	}
}

// tellSent is a reactor.SentListener that somebody waits for.
type tellSent chan struct{}

func (c tellSent) Sent() { c <- struct{}{} }

func (s *server) fault(format string, args ...any) {
	s.mu.Lock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
	s.mu.Unlock()
}

// finalCheck is made when the engine has stopped.
func (s *server) finalCheck(t *testing.T) {
	t.Helper()
	s.work.Wait()
	require.Empty(t, s.faults)
	require.Zero(t, s.files.open.Load(), "references left")
	require.Zero(t, s.files.overReleased.Load(), "references released twice")
}

func (s *server) OnOpen(c reactor.Conn) error {
	if s.panics.Load() {
		panic("asked for in OnOpen")
	}
	if s.refuse.Load() {
		return errRefused
	}
	st := &state{}
	st.inside.Add(1)
	c.SetContext(st)
	s.opens <- c
	st.inside.Add(-1)
	return nil
}

func (s *server) OnClose(c reactor.Conn, reason error) {
	st := c.Context().(*state)
	if st.inside.Add(1) != 1 {
		s.fault("OnClose runs beside another call")
	}
	if st.closed.Add(1) != 1 {
		s.fault("OnClose called twice")
	}
	err := c.Send([]byte("x"))
	if !errors.Is(err, reactor.ErrClosed) && !errors.Is(err, reactor.ErrSlowReader) {
		s.fault("Send in OnClose: %v", err)
	}
	s.closes <- closing{c, reason}
	st.inside.Add(-1)
	if s.panics.Load() {
		panic("asked for in OnClose")
	}
}

func (s *server) OnFrames(c reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	st := c.Context().(*state)
	if st.inside.Add(1) != 1 {
		s.fault("OnFrames runs beside another call")
	}
	defer st.inside.Add(-1)
	if st.closed.Load() != 0 {
		s.fault("OnFrames after OnClose")
	}
	if len(frames) == 0 || len(frames) > reactor.MaxBatchFrames {
		s.fault("OnFrames got %d frames", len(frames))
	}
	s.calls.Add(1)
	s.frames.Add(int64(len(frames)))
	st.frames.Add(int64(len(frames)))
	for n := int64(len(frames)); n > s.maxBatch.Load(); {
		s.maxBatch.Store(n)
	}
	for _, f := range frames {
		s.obey(c, f, out)
	}
}

func (s *server) obey(c reactor.Conn, f codec.Frame, out *reactor.Outbox) {
	var verb string
	var a, b int
	_, _ = fmt.Sscanf(string(f.Header), "%s %d %d", &verb, &a, &b)
	switch verb {
	case "told":
		out.OnSent(s.told)
		fallthrough
	case "echo":
		out.SetBuffer(appendFrame(out.Buffer(), string(f.Header), f.Body))
	case "heap":
		out.SetBuffer(appendFrame(out.Buffer(), string(f.Header), pattern(0, a)))
	case "mapped":
		s.mapped(out, string(f.Header), a, b)
	case "later", "outbox":
		s.later(c, verb, strings.Clone(string(f.Header)), append([]byte(nil), f.Body...))
	case "quiet":
	case "decode":
		var cmd codec.Command
		if err := cmd.Decode(codec.Frame{Type: f.Type, Header: f.Body}); err != nil {
			c.Close(err)
		}
	case "last":
		out.SetBuffer(appendFrame(out.Buffer(), string(f.Header), f.Body))
		c.Close(errAsked)
	case "close":
		c.Close(errAsked)
	case "panic":
		s.mapped(out, "never sent", 2, 100)
		panic("asked for")
	case "block":
		<-s.gate
	default: // a header the suite did not write: a malformed-frame test
		var cmd codec.Command
		if err := cmd.Decode(f); err != nil {
			c.Close(err)
		}
	}
}

// mapped answers with k ranges of n bytes each, all distinct mappings.
func (s *server) mapped(out *reactor.Outbox, header string, k, n int) {
	out.SetBuffer(appendHead(out.Buffer(), header, k*n))
	for i := range k {
		var segs zerocopy.Segments
		segs.Add(s.files.segment(pattern(i*n, n)))
		out.AddSegments(&segs)
	}
}

func (s *server) later(c reactor.Conn, verb, header string, body []byte) {
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		if verb == "later" {
			_ = c.Send(appendFrame(nil, header, body)) // the peer may be gone
			return
		}
		var out reactor.Outbox
		out.SetBuffer(appendHead(nil, header, len(body)))
		var segs zerocopy.Segments
		segs.Add(s.files.segment(body))
		out.AddSegments(&segs)
		_ = c.SendOutbox(&out)
		if !out.Empty() {
			s.fault("the outbox is not empty after SendOutbox")
		}
	}()
}

// appendHead is appendFrame for a body that comes from elsewhere.
func appendHead(dst []byte, header string, bodyLen int) []byte {
	at := len(dst)
	dst = appendFrame(dst, header, nil)
	n := 4 + len(header) + bodyLen
	dst[at], dst[at+1], dst[at+2], dst[at+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return dst
}

// pattern is n bytes of an endless pattern, from position at.
func pattern(at, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte((at + i) * 7 / 3)
	}
	return b
}

// files counts the references of all mapped ranges.
type files struct {
	open         atomic.Int64
	overReleased atomic.Int64
}

// segment makes a range with one reference. Its memory is spoilt when that is released, so that a write that
// comes after the release is seen by the peer.
func (f *files) segment(b []byte) zerocopy.Segment {
	f.open.Add(1)
	return zerocopy.Segment{Bytes: b, Owner: &file{all: f, bytes: b}}
}

type file struct {
	all      *files
	bytes    []byte
	released atomic.Bool
}

func (x *file) Release() {
	if x.released.Swap(true) {
		x.all.overReleased.Add(1)
		return
	}
	for i := range x.bytes {
		x.bytes[i] = 0xDD
	}
	x.all.open.Add(-1)
}
