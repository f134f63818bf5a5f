package codec

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func batchBody(t testing.TB, entries ...BatchEntry) (b []byte) {
	t.Helper()
	for _, e := range entries {
		var err error
		b, err = AppendBatchEntry(b, e)
		require.NoError(t, err)
	}
	return b
}

func TestBatchRoundTrip(t *testing.T) {
	want := []BatchEntry{{Flag: 1, Body: []byte("one"), Properties: []byte("a\x011\x02")},
		{Flag: -1, Body: []byte{}, Properties: []byte{}}, {Body: []byte("three"), Properties: []byte("b\x012")}}
	body := batchBody(t, want...)
	require.Equal(t, 3*22+3+4+5+3, len(body))
	require.EqualValues(t, 22+3+4, binary.BigEndian.Uint32(body))
	var got []BatchEntry
	require.NoError(t, EachBatchEntry(body, func(i int, e BatchEntry) error {
		require.Equal(t, len(got), i)
		got = append(got, e)
		return nil
	}))
	require.Equal(t, want, got)
	n, err := CountBatch(body)
	require.NoError(t, err)
	require.Equal(t, 3, n)

	n, err = CountBatch(nil)
	require.NoError(t, err)
	require.Zero(t, n)

	stop := errors.New("stop")
	require.Equal(t, stop, EachBatchEntry(body, func(int, BatchEntry) error { return stop }))
}

// TestBatchRefuses is case B05 (c): one bad member refuses the whole batch.
func TestBatchRefuses(t *testing.T) {
	good := BatchEntry{Body: []byte("body"), Properties: []byte("a\x011\x02")}
	f := func(name string, change func(second []byte) []byte) {
		t.Helper()
		first := batchBody(t, good)
		body := append(first, change(batchBody(t, good))...)
		_, err := CountBatch(body)
		require.ErrorIs(t, err, ErrBadBatch, name)
		require.ErrorContains(t, err, "entry 1", name)
	}
	put := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	}
	f("body with the top bit set", put(16, 0x80000004))
	f("body of 2 GiB", put(16, 0x7FFFFFFF))
	f("body that leaves no room for the properties length", put(16, 9))
	f("body beyond the buffer", put(16, 100))
	f("properties with the top bit set", func(b []byte) []byte { b[24] |= 0x80; return b })
	f("properties beyond the buffer", func(b []byte) []byte { b[25]++; return b })
	f("cut in the fixed part", func(b []byte) []byte { return b[:21] })
	f("cut in the body", func(b []byte) []byte { return b[:22] })
	f("cut in the properties", func(b []byte) []byte { return b[:len(b)-1] })
	f("one byte more", func(b []byte) []byte { return b[:1] })
}

// TestBatchIgnoresWhatJavaIgnores: total size, magic and CRC of an entry count for nothing.
func TestBatchIgnoresWhatJavaIgnores(t *testing.T) {
	body := batchBody(t, BatchEntry{Body: []byte("x")})
	for i := range 12 {
		body[i] = 0xFF
	}
	e, rest, err := NextBatchEntry(body)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, "x", string(e.Body))
}

func TestAppendBatchEntryLimits(t *testing.T) {
	_, err := AppendBatchEntry(nil, BatchEntry{Properties: make([]byte, 32768)})
	require.ErrorIs(t, err, ErrPropertiesTooLong)
	_, err = AppendBatchEntry(nil, BatchEntry{Body: make([]byte, MaxFrameBytes+1)})
	require.ErrorIs(t, err, ErrBodyTooLong)
}

func TestIsInnerBatch(t *testing.T) {
	require.True(t, (&Record{SysFlag: SysFlagInnerBatch | SysFlagNeedUnwrap}).IsInnerBatch())
	require.False(t, (&Record{SysFlag: SysFlagNeedUnwrap}).IsInnerBatch())
}
