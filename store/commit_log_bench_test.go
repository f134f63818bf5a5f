package store

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// benchmarkPut measures one encode and put of a 1 KiB message; readers of the log do not exist. Old files go at once.
func benchmarkPut(b *testing.B, goroutines int) {
	tl := newTestLog(b, vfs.OS, b.TempDir(), func(o *Options) {
		o.MappedFileSizeCommitLog = 256 << 20
		o.FlushIntervalCommitLog = 1 << 40
	})
	b.SetParallelism(1)
	b.ReportAllocs()
	b.SetBytes(1024)
	var wg = make(chan struct{})
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	for range goroutines {
		go func() {
			defer func() { wg <- struct{}{} }()
			m := &codec.Message{Topic: "BenchTopic", Body: make([]byte, 1024), Properties: []byte("UNIQ_KEY\x010123456789ABCDEF\x02")}
			var next atomic.Int64
			var buf []byte
			for left.Add(-1) >= 0 {
				buf, _ = codec.AppendRecord(buf[:0], m)
				if _, err := tl.put(buf, &next, 0); err != nil {
					b.Error(err)
					return
				}
				if next.Load()%(200<<10) == 0 {
					if _, err := tl.files.deleteLeading(10, func(*mappedFile) bool { return true }); err != nil {
						b.Error(err)
					}
				}
			}
		}()
	}
	for range goroutines {
		<-wg
	}
	b.StopTimer()
	require.Nil(b, tl.failed.Load())
	tl.stop(b)
}

func BenchmarkCommitLogPut1KiB(b *testing.B)           { benchmarkPut(b, 1) }
func BenchmarkCommitLogPut1KiBTwoWriters(b *testing.B) { benchmarkPut(b, 2) }
