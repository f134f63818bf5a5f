package store

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// processCPU is the CPU time of all threads so far: helpers work for the writer, so the time of a put is half the truth.
func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchmarkPut measures one encode and put of a 1 KiB message; readers of the log do not exist. Old files go at once.
func benchmarkPut(b *testing.B, goroutines int, change func(o *Options)) {
	tl := newTestLog(b, vfs.OS, b.TempDir(), func(o *Options) {
		o.MappedFileSizeCommitLog = 256 << 20
		o.FlushIntervalCommitLog = 1 << 40
		change(o)
	})
	b.ReportAllocs()
	b.SetBytes(1024)
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	began := processCPU(b)
	b.ResetTimer()
	for range goroutines {
		wg.Go(func() {
			m := &codec.Message{Topic: "BenchTopic", Body: make([]byte, 1024), Properties: []byte("UNIQ_KEY\x010123456789ABCDEF\x02")}
			var next atomic.Int64
			var buf []byte
			for left.Add(-1) >= 0 {
				buf, _ = codec.AppendRecord(buf[:0], m)
				if _, err := tl.put(buf, &next, 0); err != nil {
					b.Error(err)
					return
				}
				tl.flusher.appended()
				if next.Load()%(200<<10) == 0 {
					if _, err := tl.files.deleteLeading(10, func(*mappedFile) bool { return true }); err != nil {
						b.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processCPU(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(tl.writerFaults.Load())/float64(b.N), "faults/op")
	require.Nil(b, tl.failed.Load())
	tl.stop(b)
}

func BenchmarkCommitLogPut1KiB(b *testing.B) {
	b.Run("mapped", func(b *testing.B) { benchmarkPut(b, 1, func(*Options) {}) })
	b.Run("mapped/2", func(b *testing.B) { benchmarkPut(b, 2, func(*Options) {}) })
	b.Run("warm", func(b *testing.B) { benchmarkPut(b, 1, func(o *Options) { o.WarmMapedFileEnable = true }) })
	b.Run("pool", func(b *testing.B) { benchmarkPut(b, 1, func(o *Options) { o.TransientStorePoolEnable = true }) })
}
