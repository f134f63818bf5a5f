package store

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// BenchmarkGroupCommit measures Put with SYNC_FLUSH of 1 KiB messages on the disk of the temporary directory: the time per
// message is the time of a flush divided by the size of its group.
func BenchmarkGroupCommit(b *testing.B) {
	f := func(writers int, name string, change func(o *Options)) {
		b.Run(fmt.Sprintf("writers=%d/%s", writers, name), func(b *testing.B) {
			o := DefaultOptions(b.TempDir())
			o.FS = vfs.OS
			o.Log = slog.New(slog.DiscardHandler)
			o.MappedFileSizeCommitLog = 256 << 20
			o.FlushDiskType = SyncFlush
			change(&o)
			benchmarkDurablePut(b, o, writers)
		})
	}
	for _, writers := range []int{1, 64} {
		f(writers, "mapped", func(*Options) {})
		f(writers, "mappedNoPrewrite", func(o *Options) { o.noPrewrite = true })
		f(writers, "pool", func(o *Options) { o.TransientStorePoolEnable = true })
		f(writers, "poolNoPrewrite", func(o *Options) { o.TransientStorePoolEnable, o.noPrewrite = true, true })
	}
}

func benchmarkDurablePut(b *testing.B, o Options, writers int) {
	s, err := Open(o)
	require.NoError(b, err)
	require.NoError(b, s.Start())
	body := []byte(strings.Repeat("x", 1024))
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			m := &codec.Message{Topic: "BenchTopic", Body: body, WaitStoreMsgOK: true}
			for left.Add(-1) >= 0 {
				if r := s.Put(m); r.Status != PutOK {
					b.Error(r.Err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	require.NoError(b, s.Close())
}
