package store

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// faultyStore opens a SYNC_FLUSH or ASYNC_FLUSH store on a MemFS with faults.
func faultyStore(t *testing.T, flush FlushDiskType, faults *errorfs.Rules, change func(o *Options),
) (*MessageStore, *vfs.MemFS) {
	t.Helper()
	mem := vfs.NewMem()
	o := testOptions(errorfs.Wrap(mem, faults), "/store")
	o.FlushDiskType = flush
	o.Log = slog.New(slog.DiscardHandler)
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(func() { closeAny(t, s) })
	return s, mem
}

// closeAny closes a store whose disk has failed.
func closeAny(t *testing.T, s *MessageStore) {
	t.Helper()
	_ = s.Close() // what it says is up to the faults
	require.Eventually(t, func() bool { return s.cl.files.live.Load() == 0 }, testWait, testTick)
}

func TestFailedFlushIsNeverSuccess(t *testing.T) {
	f := func(flush FlushDiskType) {
		t.Helper()
		faults := errorfs.MustParse(`(msync "*/commitlog/*" after 1 err EIO)`)
		var events atomic.Int64
		s, mem := faultyStore(t, flush, faults, func(o *Options) {
			o.FlushCommitLogThoroughInterval = time.Millisecond
			o.Listener.WriteError = func(error) { events.Add(1) }
		})
		mustPut(t, s, testMessage("T", 0, "good"))
		require.Eventually(t, func() bool { return s.FlushedWhere() == s.MaxPhyOffset() }, testWait, testTick)
		where := s.FlushedWhere()
		r := s.Put(testMessage("T", 0, "bad"))
		if flush == SyncFlush {
			require.Equal(t, ServiceNotAvailable, r.Status)
			require.ErrorContains(t, r.Err, "a write to the disk failed")
			require.ErrorContains(t, r.Err, "input/output error")
		}
		require.Eventually(t, func() bool { ok, _ := s.Writable(); return !ok }, testWait, testTick)
		_, why := s.Writable()
		require.ErrorIs(t, why, ErrNotWritable)
		require.Positive(t, events.Load())
		require.Equal(t, ServiceNotAvailable, s.Put(testMessage("T", 0, "refused")).Status)
		require.Equal(t, where, s.FlushedWhere())
		if flush == SyncFlush {
			require.Equal(t, where, s.cl.confirmOffset(), "consumers do not see it either")
		}
		closeAny(t, s)
		_, err := mem.Stat("/store/abort")
		require.NoError(t, err, "no clean stop")
	}
	f(SyncFlush)
	f(AsyncFlush)
}

func TestFlushTimeout(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, 100)
	faults := errorfs.MustParse(`(msync "*/commitlog/*" nth 2 call hang)`, errorfs.WithHook("hang", func(errorfs.Op) error {
		entered <- struct{}{}
		<-release
		return nil
	}))
	s, _ := faultyStore(t, SyncFlush, faults, func(o *Options) {
		o.SyncFlushTimeout = 30 * time.Millisecond
		o.GroupCommitQueue = 3
	})
	mustPut(t, s, testMessage("T", 0, "good"))
	first := s.Append(testMessage("T", 0, "hangs"))
	answers := make(chan PutStatus, 10)
	answer := func(status PutStatus) { answers <- status }
	require.False(t, s.Durable(first.EndOffset, 0, answer))
	<-entered
	second := s.Append(testMessage("T", 0, "waits"))
	require.False(t, s.Durable(second.EndOffset, time.Hour, answer))
	require.Equal(t, FlushDiskTimeout, <-answers, "the first, while the flush hangs")
	require.Equal(t, FlushDiskTimeout, s.Put(testMessage("T", 0, "times out too")).Status)

	// Two are left in the queue; with the third it is full.
	require.False(t, s.Durable(second.EndOffset, time.Hour, answer))
	select {
	case status := <-answers:
		require.Equal(t, FlushDiskTimeout, status)
	default:
		require.Fail(t, "a full queue refuses at once")
	}
	close(release)
	require.Equal(t, PutOK, <-answers, "the second, in the next group")
	mustPut(t, s, testMessage("T", 0, "good"))
}

func TestDurableAfterClose(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	closeStore(t, s)
	o := testOptions(vfs.NewMem(), "/store")
	o.FlushDiskType = SyncFlush
	s = openStore(t, o)
	r := mustPut(t, s, testMessage("T", 0, "x"))
	closeStore(t, s)
	require.True(t, s.Durable(r.EndOffset, 0, nil))
	var got PutStatus
	require.False(t, s.Durable(r.EndOffset+1, 0, func(status PutStatus) { got = status }))
	require.Equal(t, ServiceNotAvailable, got)
}

func TestFlushSleepsWhileClean(t *testing.T) {
	f := func(flush FlushDiskType) {
		t.Helper()
		o := testOptions(vfs.NewMem(), "/store")
		o.FlushDiskType = flush
		o.FlushCommitLogThoroughInterval = time.Millisecond
		s := openStore(t, o)
		mustPut(t, s, testMessage("T", 0, "x"))
		idle := func() bool {
			switch fl := s.cl.flusher.(type) {
			case *flushRealTimeService:
				return fl.dirty.idle.Load()
			case *groupCommitService:
				return fl.dirty.idle.Load()
			}
			return false
		}
		require.Eventually(t, idle, testWait, testTick)
		require.Equal(t, s.MaxPhyOffset(), s.FlushedWhere())
	}
	f(AsyncFlush)
	f(SyncFlush)
}

// TestMetadataFaults: failures around the log are errors with the file's name, and a later start is fine.
func TestMetadataFaults(t *testing.T) {
	f := func(rule, want string) {
		t.Helper()
		mem := vfs.NewMem()
		o := testOptions(errorfs.Wrap(mem, errorfs.MustParse(rule)), "/store")
		o.Log = slog.New(slog.DiscardHandler)
		s, err := Open(o)
		if err == nil {
			err = s.Start()
		}
		if err == nil {
			r := s.Put(testMessage("T", 0, strings.Repeat("x", 500)))
			err = r.Err
		}
		require.ErrorContains(t, err, want, rule)
		if s != nil {
			closeAny(t, s)
		}
		require.Eventually(t, func() bool { files, mappings := mem.Handles(); return files == 0 && mappings == 0 },
			testWait, testTick, rule)
		o.FS = mem
		s = openStore(t, o)
		mustPut(t, s, testMessage("T", 0, "x"))
		closeStore(t, s)
	}
	f(`(lock err EACCES)`, "/store/lock")
	f(`(mkdir err EROFS)`, "/store")
	f(`(list "*/commitlog" err EIO)`, "/store/commitlog")
	f(`(create|open|rename "*/abort*" err EACCES)`, "abort")
	f(`(map "*/commitlog/*" err ENOMEM)`, "/store/commitlog/00000000000000000000")
	f(`(allocate "*/commitlog/*" err ENOSPC)`, "disk full")
	f(`(syncdir "*/commitlog" err EIO)`, "/store/commitlog")
}
