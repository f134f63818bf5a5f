package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// poolOptions are testOptions with a pool that commits at once.
func poolOptions(fs vfs.FS, flush FlushDiskType) Options {
	o := testOptions(fs, "/store")
	o.FlushDiskType, o.Log = flush, slog.New(slog.DiscardHandler)
	o.TransientStorePoolEnable, o.CommitCommitLogLeastPages = true, 0
	return o
}

func TestTransientStorePool(t *testing.T) {
	p, err := newTransientStorePool(2, 16<<10, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, 2, p.available())
	a, b := p.borrow(), p.borrow()
	require.NotSame(t, a, b)
	require.Nil(t, p.borrow())
	require.Zero(t, p.available())
	p.giveBack(a)
	require.Same(t, a, p.borrow(), "the one that came back last")
	p.giveBack(b)
	p.close()
	require.Nil(t, p.borrow())
	p.giveBack(a)
	require.ErrorContains(t, a.memory.Free(), "closed")
}

// TestPoolLockRefusedIsSaidOnce: more than RLIMIT_MEMLOCK is a warning, not an error.
func TestPoolLockRefusedIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	p, err := newTransientStorePool(3, 1<<40, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Skip("no address space: ", err)
	}
	defer p.close()
	require.LessOrEqual(t, strings.Count(log.String(), "RLIMIT_MEMLOCK"), 1)
}

func TestPoolShowsWhatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := poolOptions(vfs.NewMem(), AsyncFlush)
		o.CommitCommitLogLeastPages, o.CommitCommitLogThoroughInterval = 2, time.Second
		o.Listener.Arrived = func([]Arrival) {}
		s, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, s.Start())
		synctest.Wait()
		put := func(bodyBytes int) PutResult {
			r := s.Put(testMessage("T", 0, strings.Repeat("x", bodyBytes)))
			require.Equal(t, PutOK, r.Status)
			return r
		}
		put(100) // the first after a pause is committed at once
		synctest.Wait()
		require.Zero(t, s.RemainHowManyDataToCommit())
		require.EqualValues(t, 1, s.MaxOffset("T", 0))

		r := put(100)
		synctest.Wait()
		require.Positive(t, s.RemainHowManyDataToCommit(), "less than two pages wait")
		require.Less(t, s.MaxPhyOffset(), r.EndOffset)
		require.EqualValues(t, 1, s.MaxOffset("T", 0))
		require.Zero(t, s.DispatchBehindBytes(), "what nobody can see is not behind")
		_, ok := s.PeekRecord(r.PhyOffset, nil)
		require.False(t, ok)
		require.NotEqual(t, "0 B", s.RuntimeInfo()["remainHowManyDataToCommit"])

		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
		require.Zero(t, s.RemainHowManyDataToCommit(), "the thorough interval is over")
		require.EqualValues(t, 2, s.MaxOffset("T", 0))
		b, err := s.ReadRecord(r.PhyOffset, nil)
		require.NoError(t, err)
		require.Len(t, b, int(r.EndOffset-r.PhyOffset))

		r = put(100)
		require.Positive(t, s.RemainHowManyDataToCommit())
		_, err = s.ReadRecord(r.PhyOffset, nil)
		require.NoError(t, err, "whoever knows the offset does not wait")
		require.Zero(t, s.RemainHowManyDataToCommit())

		put(100)
		put(7900)
		time.Sleep(commitGatherTime)
		synctest.Wait()
		require.Zero(t, s.RemainHowManyDataToCommit(), "two pages are there")
		require.NoError(t, s.Close())
		synctest.Wait()
	})
}

// TestPoolWithoutWake: without WakeCommitWhenPutMessage a commit waits for its interval.
func TestPoolWithoutWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := poolOptions(vfs.NewMem(), AsyncFlush)
		o.WakeCommitWhenPutMessage, o.CommitIntervalCommitLog = false, time.Second
		s, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, s.Start())
		synctest.Wait()
		require.Equal(t, PutOK, s.Put(testMessage("T", 0, "x")).Status)
		synctest.Wait()
		require.Positive(t, s.RemainHowManyDataToCommit())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, s.RemainHowManyDataToCommit())
		require.NoError(t, s.Close())
		synctest.Wait()
	})
}

// TestPoolFilesHaveNothingStale: a buffer that an earlier file filled leaves nothing behind the blank record of a later one.
func TestPoolFilesHaveNothingStale(t *testing.T) {
	f := func(flush FlushDiskType) {
		t.Helper()
		mem := vfs.NewMem()
		o := poolOptions(mem, flush)
		o.TransientStorePoolSize = 2
		s := openStore(t, o)
		perFile := int64(0)
		for i := range 60 {
			body := strings.Repeat("S", 5000)
			if i%2 == 1 {
				body = strings.Repeat("S", 300)
			}
			r := mustPut(t, s, testMessage("T", 0, body))
			perFile = max(perFile, int64(r.PhyOffset)/o.MappedFileSizeCommitLog)
			require.Eventually(t, func() bool { return s.RemainHowManyDataToCommit() == 0 }, testWait, testTick)
		}
		require.Greater(t, perFile, int64(6))
		closeStore(t, s)
		for _, mf := range mustLoad(t, o).list() {
			end := lastNonZero(mf.data())
			require.Less(t, end, len(mf.data())-1, mf.path)
			mf.releaseNow()
		}
		s = openStore(t, o)
		awaitDispatch(t, s)
		require.EqualValues(t, 60, s.MaxOffset("T", 0))
		closeStore(t, s)
	}
	f(AsyncFlush)
	f(SyncFlush)
}

// mustLoad maps the files of a closed store's log.
func mustLoad(t *testing.T, o Options) *mappedFileQueue {
	t.Helper()
	o.EnsureDefaults()
	q := newMappedFileQueue(&o, path.Join(o.RootDir, "commitlog"), o.MappedFileSizeCommitLog, true)
	_, err := q.load()
	require.NoError(t, err)
	return q
}

// TestPoolShowsWhatIsFlushed: a put into a file without a buffer that comes between commit and flush is on the disk before
// it is committed, and is shown without another put.
func TestPoolShowsWhatIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hold := func(errorfs.Op) error {
			<-release
			return nil
		}
		o := poolOptions(errorfs.Wrap(vfs.NewMem(), errorfs.MustParse(`(msync "*/commitlog/*" call hold)`,
			errorfs.WithHook("hold", hold))), SyncFlush)
		o.TransientStorePoolSize = 1
		s, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, s.Start())
		put := func(bodyBytes int) {
			m := testMessage("T", 0, strings.Repeat("x", bodyBytes))
			m.WaitStoreMsgOK = false
			require.Equal(t, PutOK, s.Put(m).Status)
			synctest.Wait()
		}
		put(7000) // its flush hangs
		put(7000)
		put(7000) // in the second file, for which there is no buffer
		require.Len(t, s.cl.files.list(), 2)
		require.False(t, s.cl.files.last().buffered)
		release <- struct{}{}
		synctest.Wait() // all is committed, and the flush is at the first file
		require.Zero(t, s.RemainHowManyDataToCommit())
		put(100)
		require.Positive(t, s.RemainHowManyDataToCommit())
		close(release)
		synctest.Wait()
		require.Zero(t, s.RemainHowManyDataToCommit())
		require.EqualValues(t, 4, s.MaxOffset("T", 0))
		require.NoError(t, s.Close())
		synctest.Wait()
	})
}

// TestPoolEmpty: without a free buffer a file is written through its mapping; with FastFail puts are refused until a
// buffer comes back.
func TestPoolEmpty(t *testing.T) {
	open := func(fastFail bool) (s *MessageStore, release chan struct{}) {
		release = make(chan struct{})
		var stuck atomic.Bool
		stuck.Store(true)
		hold := func(errorfs.Op) error {
			if stuck.Load() {
				<-release
				stuck.Store(false)
			}
			return nil
		}
		o := poolOptions(errorfs.Wrap(vfs.NewMem(), errorfs.MustParse(`(write "*/commitlog/*" call hold)`,
			errorfs.WithHook("hold", hold))), AsyncFlush)
		o.TransientStorePoolSize, o.FastFailIfNoBufferInStorePool = 1, fastFail
		return openStore(t, o), release
	}
	body := strings.Repeat("x", 7000)
	s, release := open(false)
	for range 6 { // three files
		mustPut(t, s, testMessage("T", 0, body))
	}
	require.Zero(t, s.RemainTransientStoreBufferNumbs())
	require.False(t, s.TransientStorePoolDeficient())
	require.Zero(t, s.MaxPhyOffset(), "files without a buffer wait for those before")
	close(release)
	require.Eventually(t, func() bool { return s.RemainHowManyDataToCommit() == 0 }, testWait, testTick)
	awaitDispatch(t, s)
	require.EqualValues(t, 6, s.MaxOffset("T", 0))

	s, release = open(true)
	for range 2 {
		mustPut(t, s, testMessage("T", 0, body))
	}
	r := s.Put(testMessage("T", 0, body))
	require.Equal(t, CreateMappedFileFailed, r.Status)
	require.ErrorIs(t, r.Err, errNoBuffer)
	require.True(t, s.TransientStorePoolDeficient())
	close(release)
	require.Eventually(t, func() bool { return s.RemainHowManyDataToCommit() == 0 }, testWait, testTick)
}

// TestFailedCommit: what could not be written is not shown, and nothing more is accepted.
func TestFailedCommit(t *testing.T) {
	f := func(flush FlushDiskType) {
		t.Helper()
		faults := errorfs.MustParse(`(write "*/commitlog/*" after 1 err EIO)`)
		o := poolOptions(errorfs.Wrap(vfs.NewMem(), faults), flush)
		o.FlushCommitLogThoroughInterval = time.Millisecond
		s, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, s.Start())
		good := mustPut(t, s, testMessage("T", 0, "good"))
		require.Eventually(t, func() bool { return s.FlushedWhere() == good.EndOffset }, testWait, testTick)
		r := s.Put(testMessage("T", 0, "bad"))
		if flush == SyncFlush {
			require.Equal(t, ServiceNotAvailable, r.Status)
			require.ErrorContains(t, r.Err, "input/output error")
		}
		require.Eventually(t, func() bool { ok, _ := s.Writable(); return !ok }, testWait, testTick)
		require.Equal(t, good.EndOffset, s.MaxPhyOffset())
		require.Equal(t, good.EndOffset, s.FlushedWhere())
		closeAny(t, s)
	}
	f(AsyncFlush)
	f(SyncFlush)
}

// TestPoolCrashKeepsWhatWasCommitted: a process that is killed loses what is in buffers, and nothing that readers saw.
func TestPoolCrashKeepsWhatWasCommitted(t *testing.T) {
	mem := vfs.NewMem()
	o := poolOptions(mem, SyncFlush)
	s := openStore(t, o)
	for i := range 20 {
		mustPut(t, s, testMessage("T", 0, fmt.Sprint(i)))
	}
	lost := testMessage("T", 0, "no wait")
	lost.WaitStoreMsgOK = false
	s.Put(lost)
	clone := mem.CrashClone(1)
	o.FS = clone
	again := openStore(t, o)
	awaitDispatch(t, again)
	require.GreaterOrEqual(t, again.MaxOffset("T", 0), QueueOffset(20))
	closeStore(t, again)
	closeStore(t, s)
}
