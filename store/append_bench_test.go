package store

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// benchmarkAppend measures Append of 1 KiB messages with everything behind it at work: dispatch, queue and index flush,
// populate ahead. The log is thrown away behind the dispatch.
func benchmarkAppend(b *testing.B, goroutines int) {
	o := DefaultOptions(b.TempDir())
	o.FS = vfs.OS
	o.Log = slog.New(slog.DiscardHandler)
	o.MappedFileSizeCommitLog = 256 << 20
	o.MessageIndexEnable = false
	s, err := Open(o)
	require.NoError(b, err)
	require.NoError(b, s.Start())
	body := []byte(strings.Repeat("x", 1024))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			m := &codec.Message{Topic: "BenchTopic", QueueID: int32(g), Body: body,
				Properties: []byte("UNIQ_KEY\x017F00000100005C6C0000000000111D54\x02WAIT\x01true\x02")}
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				if r := s.Append(m); r.Status != PutOK {
					b.Error(r.Err)
					return
				}
				if i%(200<<10) == 0 {
					_, err := s.cl.files.deleteLeading(10, func(mf *mappedFile) bool {
						return mf.fileFrom+mf.size <= int64(s.reput.where())
					})
					require.NoError(b, err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	require.NoError(b, s.Close())
}

func BenchmarkStoreAppend1KiB(b *testing.B)           { benchmarkAppend(b, 1) }
func BenchmarkStoreAppend1KiBTwoWriters(b *testing.B) { benchmarkAppend(b, 2) }
