package store

import (
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// testLog is a started commitLog without the rest of a store.
type testLog struct {
	*commitLog
	failed atomic.Pointer[error]
}

func newTestLog(t testing.TB, fs vfs.FS, dir string, change func(o *Options)) *testLog {
	t.Helper()
	o := DefaultOptions(dir)
	o.FS = fs
	o.MappedFileSizeCommitLog = 64 << 10
	if change != nil {
		change(&o)
	}
	require.NoError(t, o.Validate())
	require.NoError(t, vfs.MkdirAllSync(fs, o.CommitLogDir))
	tl := &testLog{}
	tl.commitLog = newCommitLog(&o, new(runningFlags), newStoreCheckpoint(fs, dir), func(err error) { tl.failed.Store(&err) })
	require.NoError(t, tl.usePool())
	tl.start()
	return tl
}

func (tl *testLog) stop(t testing.TB) {
	t.Helper()
	tl.flags.set(flagClosed, nil)
	tl.close()
	tl.files.close()
	if tl.pool != nil {
		tl.pool.close()
	}
	require.Eventually(t, func() bool { return tl.files.live.Load() == 0 }, testWait, testTick)
}

func testRecord(t testing.TB, topic string, body []byte) []byte {
	t.Helper()
	rec, err := codec.AppendRecord(nil, &codec.Message{Topic: topic, Body: body, BornTimestamp: 1})
	require.NoError(t, err)
	return rec
}

func TestCommitLogPutRollsWithBlank(t *testing.T) {
	f := func(fs vfs.FS, dir string) {
		t.Helper()
		tl := newTestLog(t, fs, dir, nil)
		rec := testRecord(t, "T", make([]byte, 10000))
		var next atomic.Int64
		perFile := (64<<10 - codec.BlankRecordBytes) / len(rec)
		var last placed
		for i := range 2*perFile + 1 {
			at, err := tl.put(rec, &next, 0)
			require.NoError(t, err)
			require.EqualValues(t, i, at.queueOffset)
			require.EqualValues(t, i/perFile*(64<<10)+i%perFile*len(rec), at.phyOffset)
			require.GreaterOrEqual(t, at.storeTimestamp, last.storeTimestamp)
			last = at
			b, mf, ok := tl.slice(at.phyOffset, len(rec))
			require.True(t, ok)
			parsed, err := codec.ParseRecord(b, true)
			mf.Release()
			require.NoError(t, err)
			require.Equal(t, at.phyOffset, parsed.PhyOffset)
			require.Equal(t, at.queueOffset, parsed.QueueOffset)
			require.Equal(t, at.storeTimestamp, parsed.StoreTimestamp)
		}
		blankAt := PhyOffset(perFile * len(rec))
		b, mf, ok := tl.slice(blankAt, 64<<10-int(blankAt))
		require.True(t, ok)
		size, magic := codec.RecordSize(b)
		require.Equal(t, len(b), size)
		require.Equal(t, codec.MagicBlank, magic)
		require.Equal(t, make([]byte, len(b)-8), b[8:])
		mf.Release()

		_, err := tl.put(make([]byte, 64<<10), nil, 0)
		require.ErrorIs(t, err, errTooLongForFile)
		tl.stop(t)
		names, err := fs.List(path.Join(dir, "commitlog"))
		require.NoError(t, err)
		require.Len(t, names, 3, "the spare file is deleted at the stop")
	}
	f(vfs.NewMem(), "/store")
	f(vfs.OS, t.TempDir())
}

func TestCommitLogConcurrentPuts(t *testing.T) {
	tl := newTestLog(t, vfs.NewMem(), "/store", nil)
	const writers, each = 4, 500
	var nexts [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rec := testRecord(t, "T", make([]byte, 700+w))
			for i := range each {
				at, err := tl.put(rec, &nexts[w], 0)
				if err != nil || int(at.queueOffset) != i {
					t.Errorf("put %d of %d: %v %v", i, w, at, err)
					return
				}
			}
		})
	}
	wg.Wait()
	count := 0
	for p := PhyOffset(0); p < tl.maxOffset(); {
		b, mf, ok := tl.slice(p, 8)
		require.True(t, ok)
		size, magic := codec.RecordSize(b)
		mf.Release()
		if magic != codec.MagicBlank {
			count++
		}
		p += PhyOffset(size)
	}
	require.Equal(t, writers*each, count)
	tl.stop(t)
}

func TestCommitLogCanAppend(t *testing.T) {
	tl := newTestLog(t, vfs.NewMem(), "/store", nil)
	require.Eventually(t, func() bool { return tl.canAppend(1000) }, testWait, testTick, "the first file is made at the start")
	require.False(t, tl.canAppend(1<<20))
	var next atomic.Int64
	rec := testRecord(t, "T", make([]byte, 20000))
	for range 10 {
		require.Eventually(t, func() bool { return tl.canAppend(int64(len(rec))) }, testWait, testTick)
		_, err := tl.put(rec, &next, 0)
		require.NoError(t, err)
	}
	tl.stop(t)
}

func TestCommitLogDiskFull(t *testing.T) {
	fs := vfs.NewMemWith(vfs.MemOptions{LimitBytes: 100 << 10})
	tl := newTestLog(t, fs, "/store", nil)
	rec := testRecord(t, "T", make([]byte, 30000))
	var next atomic.Int64
	for range 2 {
		_, err := tl.put(rec, &next, 0)
		require.NoError(t, err)
	}
	_, err := tl.put(rec, &next, 0)
	require.ErrorIs(t, err, errNoFile)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.True(t, diskFull(err))
	require.EqualValues(t, 2, next.Load())
	fs.SetLimit(0)
	var at placed
	require.Eventually(t, func() bool {
		at, err = tl.put(rec, &next, 0)
		return err == nil
	}, testWait, testTick)
	require.EqualValues(t, 64<<10, at.phyOffset)
	tl.stop(t)
}

func TestCommitLogAsyncFlush(t *testing.T) {
	tl := newTestLog(t, vfs.NewMem(), "/store", func(o *Options) {
		o.FlushIntervalCommitLog = time.Millisecond
		o.FlushCommitLogThoroughInterval = 20 * time.Millisecond
	})
	var next atomic.Int64
	at, err := tl.put(testRecord(t, "T", nil), &next, 0)
	require.NoError(t, err)
	tl.flusher.appended()
	require.Eventually(t, func() bool { return tl.flushedWhere() == tl.maxOffset() }, testWait, testTick)
	require.True(t, tl.flusher.durable(tl.maxOffset(), 0, nil))
	require.Eventually(t, func() bool {
		return tl.flusher.(*flushRealTimeService).checkpoint.physicMsgTimestamp.Load() == at.storeTimestamp
	}, testWait, testTick)
	tl.stop(t)
}

func TestCommitLogSyncFlush(t *testing.T) {
	tl := newTestLog(t, vfs.NewMem(), "/store", func(o *Options) { o.FlushDiskType = SyncFlush })
	var next atomic.Int64
	rec := testRecord(t, "T", make([]byte, 1000))
	var waiting sync.WaitGroup
	for range 200 {
		at, err := tl.put(rec, &next, 0)
		require.NoError(t, err)
		end := at.phyOffset + PhyOffset(len(rec))
		waiting.Add(1)
		done := func(status PutStatus) {
			if status != PutOK || tl.flushedWhere() < end {
				t.Errorf("status %v, flushed %d, end %d", status, tl.flushedWhere(), end)
			}
			waiting.Done()
		}
		if tl.flusher.durable(end, 0, done) {
			done(PutOK)
		}
	}
	waiting.Wait()
	require.Equal(t, tl.maxOffset(), tl.confirmOffset())
	tl.stop(t)
}
