//go:build unix

package gnet

import (
	"context"
	"encoding/binary"
	"log/slog"
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
