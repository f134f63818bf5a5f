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

// BenchmarkInboundSmallFrames is a read of 64 KiB with 56 sends of 1 KiB, the last of them cut off, as the next read
// completes it; bytes and time are of one read.
func BenchmarkInboundSmallFrames(b *testing.B) {
	frame := appendFrame(nil, make([]byte, 120), make([]byte, 1024))
	var stream []byte
	for len(stream) < 1<<20 {
		stream = append(stream, frame...)
	}
	scratch := make([]codec.Frame, 0, MaxBatchFrames)
	var in Inbound
	in.Init(codec.MaxFrameBytes)
	defer in.Release()
	at := 0
	b.SetBytes(64 << 10)
	b.ReportAllocs()
	for b.Loop() {
		p := stream[at:min(at+64<<10, len(stream))]
		if at += len(p); at == len(stream) {
			at = 0
		}
		for more := true; more; {
			frames, rest, err := in.Split(p, scratch[:0])
			if err != nil {
				b.Fatal(err)
			}
			p, more = rest, len(frames) > 0
		}
		in.Keep(p)
	}
}

// BenchmarkOutbox is the answers of a turn: 32 of 250 bytes, gathered, taken out, released.
func BenchmarkOutbox(b *testing.B) {
	answer := make([]byte, 250)
	var o Outbox
	b.ReportAllocs()
	for b.Loop() {
		for range 32 {
			o.SetBuffer(append(o.Buffer(), answer...))
		}
		if o.Size() != 32*len(answer) {
			b.Fatal(o.Size())
		}
		o.Release()
	}
}
