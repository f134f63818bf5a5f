package store

import (
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// cut is one call of Listener.Truncated.
type cut struct {
	file   string
	pos, n int64
	reason string
}

// killStore is what kill -9 leaves of a running store: everything written, and the `abort` file.
func killStore(t *testing.T, fs *vfs.MemFS, s *MessageStore) *vfs.MemFS {
	t.Helper()
	awaitDispatch(t, s)
	clone := fs.CloneAll()
	closeStore(t, s)
	return clone
}

// recoverStore opens a store and returns what it cut.
func recoverStore(t *testing.T, fs vfs.FS) (*MessageStore, []cut) {
	t.Helper()
	var cuts []cut
	o := testOptions(fs, "/store")
	o.Log = slog.New(slog.DiscardHandler)
	o.Listener.Truncated = func(file string, pos, n int64, reason string) {
		cuts = append(cuts, cut{file, pos, n, reason})
	}
	return openStore(t, o), cuts
}

// patch overwrites bytes of a file.
func patch(t *testing.T, fs vfs.FS, name string, pos int64, b []byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(name)
	require.NoError(t, err)
	_, err = f.WriteAt(b, pos)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func logFile(p PhyOffset) string {
	size := PhyOffset(16 << 10)
	return path.Join("/store/commitlog", offsetFileName(int64(p-p%size)))
}

// requireGapless checks that every queue reads from 0 to its end, that the next put continues it, and that no entry points
// at or behind end.
func requireGapless(t *testing.T, s *MessageStore, end PhyOffset) {
	t.Helper()
	for _, cq := range s.queues.all() {
		n := len(bodies(t, s, cq.topic, cq.queueID))
		require.EqualValues(t, n, cq.maxOffset.Load()-cq.minOffset.Load())
		require.Equal(t, cq.maxOffset.Load(), cq.next.Load())
		require.LessOrEqual(t, cq.maxPhy.Load(), int64(end))
	}
}

// TestRecoverTornRecord is case B14.
func TestRecoverTornRecord(t *testing.T) {
	f := func(name string, damage func(t *testing.T, fs vfs.FS, at PhyOffset, size int), wantReason string) {
		t.Helper()
		fs := vfs.NewMem()
		s := openStore(t, testOptions(fs, "/store"))
		var last PutResult
		for i := range 100 {
			last = mustPut(t, s, testMessage("T", int32(i%4), fmt.Sprintf("%03d%s", i, strings.Repeat("x", 300))))
		}
		fs = killStore(t, fs, s)
		damage(t, fs, last.PhyOffset, int(last.EndOffset-last.PhyOffset))

		s, cuts := recoverStore(t, fs)
		require.Len(t, cuts, 1, name)
		require.Equal(t, logFile(last.PhyOffset), cuts[0].file)
		require.EqualValues(t, last.PhyOffset%(16<<10), cuts[0].pos)
		require.LessOrEqual(t, cuts[0].n, int64(last.EndOffset-last.PhyOffset))
		require.Positive(t, cuts[0].n)
		require.Contains(t, cuts[0].reason, wantReason)
		kept, err := vfs.ReadFile(fs, "/store/recovery/"+offsetFileName(int64(last.PhyOffset))+".cut")
		require.NoError(t, err)
		require.Len(t, kept, int(cuts[0].n))

		require.Equal(t, last.PhyOffset, s.MaxPhyOffset(), name)
		requireGapless(t, s, last.PhyOffset)
		require.Len(t, bodies(t, s, "T", 3), 24)
		for i := range 10 {
			r := mustPut(t, s, testMessage("T", 3, fmt.Sprintf("new %d", i)))
			require.EqualValues(t, 24+i, r.QueueOffset)
		}
		end := s.MaxPhyOffset()
		fs = killStore(t, fs, s)
		s, cuts = recoverStore(t, fs)
		require.Empty(t, cuts, name)
		require.Equal(t, end, s.MaxPhyOffset())
		requireGapless(t, s, end)
		require.Len(t, bodies(t, s, "T", 3), 34)
	}
	f("second half zero", func(t *testing.T, fs vfs.FS, at PhyOffset, size int) {
		patch(t, fs, logFile(at), int64(at%(16<<10))+int64(size/2), make([]byte, size-size/2))
	}, "corrupt")
	f("one byte flipped", func(t *testing.T, fs vfs.FS, at PhyOffset, _ int) {
		patch(t, fs, logFile(at), int64(at%(16<<10))+100, []byte{'!'})
	}, "checksum")
	f("only length and magic", func(t *testing.T, fs vfs.FS, at PhyOffset, size int) {
		patch(t, fs, logFile(at), int64(at%(16<<10))+8, make([]byte, size-8))
	}, "corrupt")
	f("length beyond the file", func(t *testing.T, fs vfs.FS, at PhyOffset, _ int) {
		patch(t, fs, logFile(at), int64(at%(16<<10)), []byte{0, 1, 0, 0})
	}, "size 65536")
	f("another offset", func(t *testing.T, fs vfs.FS, at PhyOffset, _ int) {
		patch(t, fs, logFile(at), int64(at%(16<<10))+28, []byte{0, 0, 0, 0, 0, 0, 0, 1})
	}, "record of offset 1")
	f("length zero", func(t *testing.T, fs vfs.FS, at PhyOffset, _ int) {
		patch(t, fs, logFile(at), int64(at%(16<<10)), make([]byte, 8))
	}, "no record starts here")
}

// TestRecoverNeverShowsWhatWasCut: records behind a damaged one are whole and of the right offsets. After a new record
// of the damaged one's length they must not come back.
func TestRecoverNeverShowsWhatWasCut(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	var all []PutResult
	for i := range 30 {
		all = append(all, mustPut(t, s, testMessage("T", 0, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 300)))))
	}
	fs = killStore(t, fs, s)
	bad := all[10]
	patch(t, fs, logFile(bad.PhyOffset), int64(bad.PhyOffset)+100, []byte{'!'})
	s, cuts := recoverStore(t, fs)
	require.Len(t, cuts, 1)
	require.InDelta(t, int64(all[29].EndOffset-bad.PhyOffset), cuts[0].n, 2, "the length of no properties is zeros")
	mustPut(t, s, testMessage("T", 0, fmt.Sprintf("%03d%s", 10, strings.Repeat("y", 300))))
	require.Equal(t, bad.EndOffset, s.MaxPhyOffset())
	fs = killStore(t, fs, s)
	s, cuts = recoverStore(t, fs)
	require.Empty(t, cuts)
	require.Equal(t, bad.EndOffset, s.MaxPhyOffset())
	require.Len(t, bodies(t, s, "T", 0), 11)
}

// TestRecoverDamageInTheMiddle: later files are kept whole in recovery/.
func TestRecoverDamageInTheMiddle(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	var all []PutResult
	for i := range 150 {
		all = append(all, mustPut(t, s, testMessage("T", 0, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 300)))))
	}
	fs = killStore(t, fs, s)
	bad := all[60]
	patch(t, fs, logFile(bad.PhyOffset), int64(bad.PhyOffset%(16<<10))+100, []byte{'!'})
	s, cuts := recoverStore(t, fs)
	require.Len(t, cuts, 3, "the rest of one file, two whole ones, not the spare one")
	require.Equal(t, bad.PhyOffset, s.MaxPhyOffset())
	requireGapless(t, s, bad.PhyOffset)
	require.Len(t, bodies(t, s, "T", 0), 60)
	names, err := fs.List("/store/recovery")
	require.NoError(t, err)
	require.Equal(t, []string{offsetFileName(int64(bad.PhyOffset)) + ".cut", offsetFileName(2*16<<10) + ".cut",
		offsetFileName(3*16<<10) + ".cut"}, names)
	mustPut(t, s, testMessage("T", 0, "on it goes"))
}

// TestRecoverSpareFile: the file made ahead is no damage (kill -9), nor is an empty one.
func TestRecoverSpareFile(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	for range 20 {
		mustPut(t, s, testMessage("T", 0, strings.Repeat("x", 400)))
	}
	require.Eventually(t, func() bool { return s.cl.alloc.ready.Load() != nil }, testWait, testTick)
	end := s.MaxPhyOffset()
	fs = killStore(t, fs, s)
	names, err := fs.List("/store/commitlog")
	require.NoError(t, err)
	require.Len(t, names, 2)
	patch(t, fs, "/store/commitlog/"+offsetFileName(2*16<<10), 0, nil)
	s, cuts := recoverStore(t, fs)
	require.Empty(t, cuts)
	require.Equal(t, end, s.MaxPhyOffset())
	require.Len(t, bodies(t, s, "T", 0), 20)
}

// TestRecoverHole is case B20 b: a file in the middle of the log is missing.
func TestRecoverHole(t *testing.T) {
	f := func(clean bool) {
		t.Helper()
		fs := vfs.NewMem()
		s := openStore(t, testOptions(fs, "/store"))
		for i := range 150 {
			mustPut(t, s, testMessage("T", 0, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 300))))
		}
		end := s.MaxPhyOffset()
		if clean {
			awaitDispatch(t, s)
			closeStore(t, s)
		} else {
			fs = killStore(t, fs, s)
		}
		require.NoError(t, fs.Remove(logFile(16<<10)))
		s, cuts := recoverStore(t, fs)
		require.Equal(t, []cut{{logFile(16 << 10), 0, 16 << 10, "commit log file is missing"}}, cuts)
		require.Equal(t, end, s.MaxPhyOffset())
		mustPut(t, s, testMessage("T", 0, "on it goes"))
		awaitDispatch(t, s)
		require.EqualValues(t, 151, s.queues.find("T", 0).maxOffset.Load())
	}
	f(true)
	f(false)
}

func TestRecoverWithoutLogDropsQueues(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	mustPut(t, s, testMessage("T", 0, "x"))
	awaitDispatch(t, s)
	closeStore(t, s)
	require.NoError(t, fs.RemoveAll("/store/commitlog"))
	s, _ = recoverStore(t, fs)
	require.Empty(t, s.queues.all())
	require.EqualValues(t, 0, mustPut(t, s, testMessage("T", 0, "x")).QueueOffset)
}

func TestRecoverRefusesForeignSizes(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	for range 100 {
		mustPut(t, s, testMessage("T", 0, strings.Repeat("x", 400)))
	}
	closeStore(t, s)
	o := testOptions(fs, "/store")
	o.MappedFileSizeCommitLog = 8 << 10
	_, err := Open(o)
	require.ErrorContains(t, err, "length is not the configured 8192 bytes")
	require.True(t, IsCorrupt(err))
	files, mappings := fs.Handles()
	require.Zero(t, files)
	require.Eventually(t, func() bool { _, mappings = fs.Handles(); return mappings == 0 }, testWait, testTick)
	openStore(t, testOptions(fs, "/store")) // and the lock is free again
}

func TestRecoveryKeepsAtMost(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	for range maxKeptFiles + 5 {
		name, err := s.keepName("x")
		require.NoError(t, err)
		patch(t, fs, name, 0, []byte("x"))
	}
	names, err := fs.List("/store/recovery")
	require.NoError(t, err)
	require.Len(t, names, maxKeptFiles)
}

// TestRecoverAfterPowerCut: whatever a power cut leaves, a store opens, everything acknowledged under SYNC_FLUSH is
// there, queues have no gaps, and it opens a second time to the same state.
func TestRecoverAfterPowerCut(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		fs := vfs.NewMem()
		o := testOptions(fs, "/store")
		o.FlushDiskType = SyncFlush
		o.Log = slog.New(slog.DiscardHandler)
		s := openStore(t, o)
		acked := make(map[PhyOffset]string)
		for i := range 40 + seed {
			m := testMessage("T", int32(i%3), fmt.Sprintf("%d-%s", i, strings.Repeat("z", i*7%900)))
			m.WaitStoreMsgOK = i%5 != 4
			if r := mustPut(t, s, m); m.WaitStoreMsgOK {
				acked[r.PhyOffset] = string(m.Body)
			}
		}
		if seed%2 == 0 {
			awaitDispatch(t, s)
		}
		for range 2 {
			s.cl.stopPuts(func() {}) // the last put is out
			crashed := fs.CrashClone(uint64(seed))
			closeStore(t, s)
			fs = crashed
			o.FS = fs
			s = openStore(t, o)
			for p, body := range acked {
				rec, err := readRecord(s, p)
				require.NoError(t, err, "seed %d: %d", seed, p)
				require.Equal(t, body, string(rec.Body), "seed %d", seed)
			}
			requireGapless(t, s, s.MaxPhyOffset())
			r := mustPut(t, s, testMessage("T", 0, "again"))
			acked[r.PhyOffset] = "again"
		}
		closeStore(t, s)
	}
}

func TestRecoverKeepsTimestampsMonotone(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	s.cl.putLock.Lock()
	s.cl.lastTimestamp = s.o.Clock.Millis() + 30_000 // the clock goes back by half a minute
	s.cl.putLock.Unlock()
	first := mustPut(t, s, testMessage("T", 0, "x"))
	awaitDispatch(t, s)
	closeStore(t, s)
	s, _ = recoverStore(t, fs)
	second := mustPut(t, s, testMessage("T", 0, "x"))
	require.GreaterOrEqual(t, second.StoreTimestamp, first.StoreTimestamp)
	require.True(t, slices.IsSorted([]int64{first.StoreTimestamp, second.StoreTimestamp}))
	var rec codec.Record
	rec, err := readRecord(s, first.PhyOffset)
	require.NoError(t, err)
	require.Equal(t, first.StoreTimestamp, rec.StoreTimestamp)
}
