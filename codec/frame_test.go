package codec

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// rawFrame builds a frame around any header bytes.
func rawFrame(t SerializeType, header, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(t)<<24|uint32(len(header)))
	return append(append(b, header...), body...)
}

func TestSplitFrame(t *testing.T) {
	frame := rawFrame(SerializeJSON, []byte("{}"), []byte("body"))

	f, n, _, err := SplitFrame(append(frame, 1, 2, 3), MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, len(frame), n)
	require.Equal(t, "{}", string(f.Header))
	require.Equal(t, "body", string(f.Body))
	require.Equal(t, len(f.Body), cap(f.Body), "an append to the body must not write into the next frame")
	require.Equal(t, len(f.Header), cap(f.Header))

	for i := range len(frame) {
		_, n, need, err := SplitFrame(frame[:i], MaxFrameBytes)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Greater(t, need, i, "%d bytes", i)
		require.LessOrEqual(t, need, len(frame))
	}
}

// TestSplitFrameRefuses has the frames of case B01 (a) to (c): each is refused as soon as its first words are
// there.
func TestSplitFrameRefuses(t *testing.T) {
	f := func(name, bytes string) {
		t.Helper()
		_, n, _, err := SplitFrame(unhex(t, bytes), MaxFrameBytes)
		require.ErrorIs(t, err, ErrMalformed, name)
		require.Zero(t, n)
	}
	f("total length 2", "00000002 0000")
	f("total length 0", "00000000")
	f("total length 3", "00000003")
	f("unknown serialization", "00000004 07000000")
	f("header longer than the frame", "00000014 000003E8")
	f("negative length", "FFFFFFFF")
	f("one byte over the limit", "00FFFFFD")
	f("a TLS hello", "16030100 00000000")
	f("an HTTP request", "47455420")
}

func TestSplitFrameLimit(t *testing.T) {
	largest := unhex(t, "00FFFFFC 00000000")
	_, _, need, err := SplitFrame(largest, MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, MaxFrameBytes, need)
	_, _, _, err = SplitFrame(largest, MaxFrameBytes-1)
	require.ErrorIs(t, err, ErrMalformed)
}
