//go:build !race

package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/zerocopy"
)

// Under the race detector sync.Pool drops things at random, so allocations are counted without it.

func TestNoRaceOutboundAllocations(t *testing.T) {
	var q Outbound
	q.Init(watermarks(0, 0, 0))
	var r refs
	mapped, heap := make([]byte, 1000), make([]byte, 300)
	var o Outbox
	var s zerocopy.Segments
	turn := func() {
		for range 20 {
			o.SetBuffer(append(o.Buffer(), heap...))
			s.Add(r.segment(mapped))
			o.AddSegments(&s)
		}
		q.Append(&o, 700, 0)
		for !q.Empty() {
			q.Advance(min(q.Size(), 777), 0)
		}
	}
	turn()
	require.Zero(t, testing.AllocsPerRun(1000, turn))
}

func TestNoRaceInboundAllocations(t *testing.T) {
	var in Inbound
	in.Init(codec.MaxFrameBytes)
	stream := appendFrame(nil, []byte("header"), make([]byte, 3000))
	stream = append(stream, stream...)
	scratch := make([]codec.Frame, 0, MaxBatchFrames)
	feed := func(p []byte) {
		for more := true; more; {
			var frames []codec.Frame
			frames, p, _ = in.Split(p, scratch[:0])
			more = len(frames) > 0
		}
		in.Keep(p)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		feed(stream[:1000])
		feed(stream[1000:4000])
		feed(stream[4000:])
	}))
}
