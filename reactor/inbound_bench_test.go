package reactor

import (
	"testing"

	"skylark/codec"
)

func BenchmarkInboundBigFrame(b *testing.B) {
	frame := appendFrame(nil, []byte("h"), make([]byte, codec.MaxFrameBytes-9))
	scratch := make([]codec.Frame, 0, MaxBatchFrames)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		var in Inbound
		in.Init(codec.MaxFrameBytes)
		for p := frame; len(p) > 0; {
			n := min(64<<10, len(p))
			_, rest, _ := in.Split(p[:n], scratch[:0])
			in.Keep(rest)
			p = p[n:]
		}
	}
}
