package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Only clients compress and decompress bodies; the broker stores what it gets (spec wire.md §7). This is for
// our own client, the admin tools and the proxy.

// MaxDecompressedBytes is the limit that callers of DecompressBody use unless they know a smaller one: no
// producer sends a larger body.
const MaxDecompressedBytes = 32 << 20

// maxZstdWindowBytes is the largest window that a zstd frame may ask a decoder for; Java's level 5 asks for 2
// MiB.
const maxZstdWindowBytes = 8 << 20

// DefaultCompressLevel is the level of Java clients (rocketmq.message.compressLevel).
const DefaultCompressLevel = 5

// Errors of DecompressBody.
var (
	ErrDecompressedTooLong = errors.New("codec: decompressed body exceeds its limit")
	ErrBadCompressedBody   = errors.New("codec: compressed body is damaged")
	ErrUnknownCompression  = errors.New("codec: unknown compression type")
)

// CompressionOf is the compression bits of a message's sysFlag: SysFlagCompressionLZ4, …ZSTD, …Zlib, or 0 if
// the body is not compressed. Old clients set SysFlagCompressed alone and mean zlib.
func CompressionOf(sysFlag int32) int32 {
	if sysFlag&SysFlagCompressed == 0 {
		return 0
	}
	if t := sysFlag & SysFlagCompressionMask; t != 0 {
		return t
	}
	return SysFlagCompressionZlib
}

// CompressBody compresses body with one of the SysFlagCompression… types and returns the bits to set in
// sysFlag: type and SysFlagCompressed. level is 0 to 9, as Java's.
func CompressBody(body []byte, compression int32, level int) (out []byte, sysFlagBits int32, err error) {
	var buf bytes.Buffer
	var w io.WriteCloser
	switch compression {
	case SysFlagCompressionZlib:
		w, err = zlib.NewWriterLevel(&buf, level)
	case SysFlagCompressionLZ4:
		w = lz4.NewWriter(&buf)
	case SysFlagCompressionZSTD:
		w, err = zstd.NewWriter(&buf, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
			zstd.WithEncoderConcurrency(1))
	default:
		err = fmt.Errorf("%w %d", ErrUnknownCompression, compression>>8)
	}
	if err != nil {
		return nil, 0, err
	}
	if _, err = w.Write(body); err == nil {
		err = w.Close()
	}
	return buf.Bytes(), compression | SysFlagCompressed, err
}

// DecompressBody undoes the compression that sysFlag tells and returns body itself when there is none. More
// than limit bytes are ErrDecompressedTooLong; little more than that is ever allocated, besides the decoder's
// window of at most 8 MiB.
func DecompressBody(body []byte, sysFlag int32, limit int) ([]byte, error) {
	var r io.Reader
	switch compression := CompressionOf(sysFlag); compression {
	case 0:
		return body, nil
	case SysFlagCompressionZlib:
		z, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadCompressedBody, err)
		}
		defer z.Close()
		r = z
	case SysFlagCompressionLZ4:
		r = lz4.NewReader(bytes.NewReader(body))
	case SysFlagCompressionZSTD:
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxZstdWindowBytes))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadCompressedBody, err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("%w %d", ErrUnknownCompression, compression>>8)
	}
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(r, int64(limit)+1)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCompressedBody, err)
	}
	if out.Len() > limit {
		return nil, fmt.Errorf("%w of %d bytes", ErrDecompressedTooLong, limit)
	}
	return out.Bytes(), nil
}
