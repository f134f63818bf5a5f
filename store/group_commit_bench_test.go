package store

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// BenchmarkGroupCommit measures Put with SYNC_FLUSH of 1 KiB messages from 64 goroutines on the disk of the temporary
// directory: the time per message is the time of a flush divided by the size of its group.
func BenchmarkGroupCommit(b *testing.B) {
	o := DefaultOptions(b.TempDir())
	o.FS = vfs.OS
	o.Log = slog.New(slog.DiscardHandler)
	o.MappedFileSizeCommitLog = 256 << 20
	o.FlushDiskType = SyncFlush
	s, err := Open(o)
	require.NoError(b, err)
	require.NoError(b, s.Start())
	body := []byte(strings.Repeat("x", 1024))
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		m := &codec.Message{Topic: "BenchTopic", Body: body, WaitStoreMsgOK: true}
		for pb.Next() {
			if r := s.Put(m); r.Status != PutOK {
				b.Error(r.Err)
			}
		}
	})
	b.StopTimer()
	require.NoError(b, s.Close())
}
