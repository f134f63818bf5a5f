package reactor

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
)

// appendFrame appends a frame with that header and body.
func appendFrame(dst, header, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(header)+len(body)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(header)))
	dst = append(dst, header...)
	return append(dst, body...)
}

// turn feeds p as an engine does and returns copies of the frames' bodies.
func turn(t require.TestingT, in *Inbound, p []byte) (bodies [][]byte) {
	scratch := make([]codec.Frame, 0, MaxBatchFrames)
	for {
		frames, rest, err := in.Split(p, scratch[:0])
		require.NoError(t, err)
		require.LessOrEqual(t, len(frames), MaxBatchFrames)
		for _, f := range frames {
			bodies = append(bodies, bytes.Clone(f.Body))
		}
		p = rest
		if len(frames) == 0 {
			in.Keep(p)
			return bodies
		}
	}
}

// TestInboundModel: however the stream is cut into reads, and wherever it is held back, the same frames come
// out.
func TestInboundModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want [][]byte
		for range rapid.IntRange(1, 400).Draw(t, "frames") {
			n := rapid.SampledFrom([]int{0, 1, 7, 100, 5000, 60000}).Draw(t, "size")
			body := bytes.Repeat([]byte{byte(len(want))}, n)
			want = append(want, body)
			stream = appendFrame(stream, []byte("h"), body)
		}
		var in Inbound
		in.Init(codec.MaxFrameBytes)
		var got [][]byte
		for len(stream) > 0 {
			n := min(rapid.SampledFrom([]int{1, 3, 8, 1000, 65536, 1 << 20}).Draw(t, "read"), len(stream))
			read := bytes.Clone(stream[:n]) // the loop's buffer is overwritten afterwards
			stream = stream[n:]
			if rapid.IntRange(0, 4).Draw(t, "paused") == 0 {
				in.Keep(read)
			} else {
				got = append(got, turn(t, &in, read)...)
			}
			for i := range read {
				read[i] = 0xEE
			}
		}
		got = append(got, turn(t, &in, nil)...)
		if len(got) != len(want) || in.Buffered() != 0 {
			t.Fatalf("%d frames of %d, %d bytes left", len(got), len(want), in.Buffered())
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d differs", i)
			}
		}
	})
}

func TestInboundMemoryFollowsBytes(t *testing.T) {
	var in Inbound
	in.Init(codec.MaxFrameBytes)
	head := binary.BigEndian.AppendUint32(nil, codec.MaxFrameBytes-4)
	turn(t, &in, append(head, 0, 0, 0, 0, 1, 2))
	require.Equal(t, 10, in.Buffered())
	require.LessOrEqual(t, cap(in.held.b), 512)
	sent := 10
	part := make([]byte, 64<<10)
	for sent+len(part) < codec.MaxFrameBytes {
		require.Empty(t, turn(t, &in, part))
		sent += len(part)
		require.LessOrEqual(t, cap(in.held.b), max(2*sent, 512))
	}
	require.Len(t, turn(t, &in, part[:codec.MaxFrameBytes-sent]), 1)
	turn(t, &in, nil)
	require.Nil(t, in.held)
}

func TestInboundMalformedAfterGood(t *testing.T) {
	var in Inbound
	in.Init(1000)
	p := appendFrame(nil, []byte("h"), []byte("good"))
	p = append(p, 0, 0, 0, 2, 9, 9)
	frames, _, err := in.Split(p, nil)
	require.ErrorIs(t, err, codec.ErrMalformed)
	require.Len(t, frames, 1)

	// the same when the bytes were held back
	in.Keep(p[:3])
	frames, rest, err := in.Split(p[3:], nil)
	require.ErrorIs(t, err, codec.ErrMalformed)
	require.Len(t, frames, 1)
	require.Len(t, rest, 6)
	in.Release()
	require.Zero(t, in.Buffered())
}
