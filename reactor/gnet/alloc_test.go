//go:build unix

package gnet

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
	"skylark/zerocopy"
)

// answerer answers every frame: with its own bytes, or with a mapped range behind a head.
type answerer struct {
	mapped []byte
	head   []byte
	segs   zerocopy.Segments
}

// nobody owns a range that never goes away.
type nobody struct{}

func (nobody) Release() {}

func (a *answerer) OnOpen(reactor.Conn) error   { return nil }
func (a *answerer) OnClose(reactor.Conn, error) {}
func (a *answerer) OnFrames(_ reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	for _, f := range frames {
		if a.mapped != nil {
			out.SetBuffer(append(out.Buffer(), a.head...))
			a.segs.Add(zerocopy.Segment{Bytes: a.mapped, Owner: nobody{}})
			out.AddSegments(&a.segs)
			continue
		}
		out.SetBuffer(appendEcho(out.Buffer(), f.Header, f.Body))
	}
}

func appendEcho(dst, header, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(header)+len(body)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(header)))
	dst = append(dst, header...)
	return append(dst, body...)
}

func startQuiet(tb testing.TB, h reactor.Handler, loops int) *Engine {
	e := New(reactor.Options{
		Listen: []string{"127.0.0.1:0"}, Loops: loops, Log: slog.New(slog.DiscardHandler),
	}).(*Engine)
	require.NoError(tb, e.Start(h))
	tb.Cleanup(func() { _ = e.Stop(context.Background()) })
	return e
}

// TestTurnDoesNotAllocate: one request, one answer, in steady state; the client's side does not allocate either.
func TestTurnDoesNotAllocate(t *testing.T) {
	f := func(h *answerer, answerBytes int) {
		t.Helper()
		e := startQuiet(t, h, 1)
		nc, err := net.Dial("tcp", e.Addrs()[0].String())
		require.NoError(t, err)
		defer nc.Close()
		request := appendEcho(nil, []byte("some header"), make([]byte, 1024))
		answer := make([]byte, answerBytes)
		turn := func() {
			_, err := nc.Write(request)
			if err == nil {
				_, err = io.ReadFull(nc, answer)
			}
			if err != nil {
				t.Error(err)
			}
		}
		for range 100 {
			turn()
		}
		require.Zero(t, testing.AllocsPerRun(3000, turn))
	}
	f(&answerer{}, 8+11+1024)
	f(&answerer{mapped: make([]byte, 30_000), head: make([]byte, 200)}, 30_200)
}
