package store

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

func TestPagesTouched(t *testing.T) {
	f := func(from, to, want int64) {
		t.Helper()
		require.Equal(t, want, pagesTouched(from, to))
	}
	f(0, 0, 0)
	f(0, 1, 1)
	f(1, 4096, 0)
	f(1, 4097, 1)
	f(4096, 4097, 1)
	f(4000, 12289, 3)
}

// TestWriterMeetsNoPageFault: whoever looks at CanAppend, as event loops do, never writes to a page that was not
// populated; and one that does is counted.
func TestWriterMeetsNoPageFault(t *testing.T) {
	f := func(change func(o *Options)) {
		t.Helper()
		o := testOptions(vfs.OS, t.TempDir())
		o.MappedFileSizeCommitLog = 2 << 20
		o.Log = slog.New(slog.DiscardHandler)
		change(&o)
		s := openStore(t, o)
		m := testMessage("T", 0, strings.Repeat("x", 4000))
		for range 1500 { // three files
			require.Eventually(t, func() bool { return s.CanAppend(4200) }, testWait, testTick)
			require.Equal(t, PutOK, s.Append(m).Status)
		}
		require.Zero(t, s.WriterPageFaults())
		require.Equal(t, "0", s.RuntimeInfo()["writerPageFaults"])
		closeStore(t, s)

		s = openStore(t, o) // a file of an earlier run
		require.True(t, s.CanAppend(4200))
		require.Equal(t, PutOK, s.Append(m).Status)
		require.Zero(t, s.WriterPageFaults())
		closeStore(t, s)
	}
	f(func(*Options) {})
	f(func(o *Options) { o.FlushDiskType = SyncFlush })
	f(func(o *Options) { o.TransientStorePoolEnable = true })
	f(func(o *Options) { o.WarmMapedFileEnable = true })
}

func TestWriterPageFaultsAreCounted(t *testing.T) {
	tl := newTestLog(t, vfs.NewMem(), "/store", nil)
	require.Eventually(t, func() bool { return tl.canAppend(1000) }, testWait, testTick)
	mf := tl.alloc.ready.Load()
	mf.populated.Store(4096) // as if the helper was late
	_, err := tl.put(testRecord(t, "T", make([]byte, 10000)), nil, 0)
	require.NoError(t, err)
	require.Positive(t, tl.writerFaults.Load())
	tl.stop(t)
}

// TestWarmFiles: files are warmed ahead; a refused lock is said once.
func TestWarmFiles(t *testing.T) {
	f := func(flush FlushDiskType, rule string, refused int) {
		t.Helper()
		log := &testlog.Text{}
		o := testOptions(errorfs.Wrap(vfs.NewMem(), errorfs.MustParse(rule)), "/store")
		o.FlushDiskType, o.WarmMapedFileEnable, o.FlushLeastPagesWhenWarmMapedFile = flush, true, 2
		o.Log = slog.New(slog.NewTextHandler(log, nil))
		s := openStore(t, o)
		for range 6 {
			mustPut(t, s, testMessage("T", 0, strings.Repeat("x", 7000)))
		}
		require.Eventually(t, func() bool { return log.Count("commit log file warmed") >= 3 }, testWait, testTick)
		closeStore(t, s)
		require.Equal(t, refused, log.Count("not locked in memory"))
	}
	for _, flush := range []FlushDiskType{AsyncFlush, SyncFlush} {
		f(flush, `(lock "nothing" err EIO)`, 0)
		f(flush, `(pin "*/commitlog/*" err ENOMEM)`, 1)
	}
}

// TestWarmFilesAreUnlocked: a file is locked while it is written and a while longer.
func TestWarmFilesAreUnlocked(t *testing.T) {
	tl := newTestLog(t, vfs.NewMem(), "/store", func(o *Options) { o.WarmMapedFileEnable = true })
	var first *mappedFile
	require.Eventually(t, func() bool {
		first = tl.alloc.ready.Load()
		return first != nil && first.locked.Load()
	}, testWait, testTick)
	rec := testRecord(t, "T", make([]byte, 40000))
	for range 2 {
		_, err := tl.put(rec, nil, 0)
		require.NoError(t, err)
	}
	require.False(t, first.locked.Load(), "left")
	tl.stop(t)
}
