// Package badframes has frames that no client sends, and the test of what servers do with them. Only tests use it.
package badframes

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

const (
	// patience is how long a server may take to close a connection.
	patience = 30 * time.Second
	// maxGrown is how much of the heap may be kept of all connections: none of their lengths is believed.
	maxGrown = 64 << 20
)

// Frame puts a header, of any bytes, and a body into a frame whose lengths are right.
func Frame(typ codec.SerializeType, header, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(typ)<<24|uint32(len(header)))
	return append(append(b, header...), body...)
}

// all are the frames by what is wrong with them; some are made of a request with fields that the server would serve.
func all(t testing.TB, req *codec.Command) map[string][]byte {
	patched := func(patch func(h []byte)) []byte {
		r := req.Clone()
		r.Type = codec.SerializeROCKETMQ
		f, _, _, err := codec.SplitFrame(r.AppendTo(nil), codec.MaxFrameBytes)
		require.NoError(t, err)
		h := append([]byte(nil), f.Header...)
		patch(h)
		return Frame(codec.SerializeROCKETMQ, h, nil)
	}
	put32 := func(at int, v uint32) []byte {
		return patched(func(h []byte) { binary.BigEndian.PutUint32(h[at:], v) })
	}
	text := func(header string) []byte { return Frame(codec.SerializeJSON, []byte(header), nil) }
	return map[string][]byte{
		"total length 2":       {0, 0, 0, 2, 0, 0},
		"serialize type 7":     {0, 0, 0, 4, 7, 0, 0, 0},
		"header beyond length": append([]byte{0, 0, 0, 20, 0, 0, 0x03, 0xE8}, make([]byte, 16)...),
		"remark 0x7FFFFFFF":    put32(13, 0x7FFFFFFF),
		"remark -1":            put32(13, 0xFFFFFFFF),
		"ext fields too long":  put32(17, 0x7FFFFFF0),
		"key of 65535":         patched(func(h []byte) { h[21], h[22] = 0xFF, 0xFF }),
		"JSON array":           text("[]"),
		"JSON null":            text("null"),
		"not UTF-8":            text("{\"code\":11,\"remark\":\"\xff\xfe\"}"),
		"negative length":      {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		"length of 2 GiB":      {0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
	}
}

// Refused sends each frame in rounds, on a connection of its own, which the server at addr has to close; healthy, called
// after each round, checks that nobody else noticed. The memory that this leaves behind is bounded.
func Refused(t testing.TB, addr string, req *codec.Command, rounds int, healthy func()) {
	t.Helper()
	bad := all(t, req)
	before := heap()
	for range rounds {
		for name, frame := range bad {
			nc, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			_, err = nc.Write(frame)
			require.NoError(t, err)
			require.NoError(t, nc.SetReadDeadline(time.Now().Add(patience)))
			_, err = io.Copy(io.Discard, nc)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection is still open", name)
			_ = nc.Close()
		}
		healthy()
	}
	require.Less(t, heap(), before+maxGrown)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
