package codec

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompress(t *testing.T) {
	body := bytes.Repeat([]byte("compress me "), 1000)
	f := func(compression int32, bits int32) {
		t.Helper()
		out, got, err := CompressBody(body, compression, DefaultCompressLevel)
		require.NoError(t, err)
		require.Equal(t, bits, got)
		require.Less(t, len(out), len(body)/10)
		require.Equal(t, compression, CompressionOf(got))

		back, err := DecompressBody(out, got, len(body))
		require.NoError(t, err)
		require.Equal(t, body, back)

		_, err = DecompressBody(out, got, len(body)-1)
		require.ErrorIs(t, err, ErrDecompressedTooLong)
		_, err = DecompressBody(out[:len(out)/2], got, len(body))
		require.ErrorIs(t, err, ErrBadCompressedBody)
		_, err = DecompressBody([]byte("no stream"), got, len(body))
		require.ErrorIs(t, err, ErrBadCompressedBody)
	}
	f(SysFlagCompressionZlib, 0x301)
	f(SysFlagCompressionLZ4, 0x101)
	f(SysFlagCompressionZSTD, 0x201)
}

func TestCompressionOf(t *testing.T) {
	require.Zero(t, CompressionOf(0x300))
	require.Equal(t, SysFlagCompressionZlib, CompressionOf(0x001), "old clients mean zlib")
	out, err := DecompressBody([]byte("plain"), 0x300, 1)
	require.NoError(t, err)
	require.Equal(t, "plain", string(out))
	_, err = DecompressBody(nil, 0x401, 1)
	require.ErrorIs(t, err, ErrUnknownCompression)
	_, _, err = CompressBody(nil, 0x400, 1)
	require.ErrorIs(t, err, ErrUnknownCompression)
	_, _, err = CompressBody(nil, SysFlagCompressionZlib, 99)
	require.Error(t, err)
}
