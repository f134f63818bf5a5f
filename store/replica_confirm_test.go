package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// Consumers see exactly the records that are confirmed to their last byte, wherever the bound lies, on master and slave; and
// a restart shows the rest.
func TestConfirmToEndsAnywhere(t *testing.T) {
	f := func(slave bool) {
		t.Helper()
		fs := vfs.NewMem()
		master := openStore(t, testOptions(fs, "/master"))
		o := testOptions(fs, "/s")
		s, err := Open(o)
		require.NoError(t, err)
		s.Follow()
		require.NoError(t, s.Start())
		if !slave {
			require.NoError(t, s.Lead())
		}
		s.ConfirmTo(0)
		var ends []PhyOffset
		for range 8 {
			put := master.Put(testMessage("T", 0, "confirm"))
			if !slave {
				put = s.Put(testMessage("T", 0, "confirm"))
			}
			require.Equal(t, PutOK, put.Status)
			ends = append(ends, put.EndOffset)
		}
		if slave {
			seg, ok := master.ReadLog(0, 1<<20)
			require.True(t, ok)
			require.NoError(t, s.AppendLog(0, seg.Bytes))
			seg.Owner.Release()
		}
		require.Zero(t, s.MaxOffset("T", 0))
		whole := 0
		for p := PhyOffset(0); p <= ends[6]; p++ {
			s.ConfirmTo(p)
			for whole < len(ends) && ends[whole] <= p {
				whole++
			}
			if near := whole < len(ends) && p > 0 && (p == ends[whole]-1 || p%29 == 0) || whole > 0 && p == ends[whole-1]; near {
				s.Dispatch()
				require.Eventually(t, func() bool { return s.DispatchBehindBytes() == 0 }, testWait, testTick)
				require.EqualValues(t, whole, s.MaxOffset("T", 0), "confirmed to %d", p)
			}
		}
		require.NoError(t, s.Close())
		s = openStore(t, o)
		awaitDispatch(t, s)
		require.EqualValues(t, 8, s.MaxOffset("T", 0))
	}
	f(false)
	f(true)
}

// What a slave has of a record that is not whole goes before it becomes master, without a copy of the file.
func TestCutTail(t *testing.T) {
	fs := vfs.NewMem()
	master := openStore(t, testOptions(fs, "/master"))
	fillStore(t, master, 30, "a")
	s := followerStore(t, testOptions(fs, "/s"))
	_, err := master.CutTail()
	require.ErrorIs(t, err, ErrNotSlave)
	end := master.MaxPhyOffset()
	for at := PhyOffset(0); at < end-7; {
		seg, ok := master.ReadLog(at, int(end-7-at))
		require.True(t, ok)
		require.NoError(t, s.AppendLog(at, seg.Bytes))
		at += PhyOffset(len(seg.Bytes))
		seg.Owner.Release()
	}
	got, err := s.CutTail()
	require.NoError(t, err)
	start, err := master.RecordStart(end - 1)
	require.NoError(t, err)
	require.Equal(t, start, got)
	require.Equal(t, start, s.MaxPhyOffset())
	again, err := s.CutTail()
	require.NoError(t, err)
	require.Equal(t, start, again)
	awaitDispatch(t, s)
	require.NoError(t, s.Lead())
	fillStore(t, s, 30, "b")
	awaitDispatch(t, s)
	names, err := fs.List("/s")
	require.NoError(t, err)
	for _, name := range names {
		require.NotContains(t, name, divergedDirPrefix)
	}
}

// The index goes on after a cut, also if it had not come to where the log was cut.
func TestIndexGoesOnAfterACut(t *testing.T) {
	fs := vfs.NewMem()
	master := openStore(t, testOptions(fs, "/master"))
	fillStore(t, master, 10, "a")
	s := followerStore(t, testOptions(fs, "/s"))
	first, ok := master.ReadLog(0, 1<<20)
	require.True(t, ok)
	defer first.Owner.Release()
	require.NoError(t, s.AppendLog(0, first.Bytes))
	awaitDispatch(t, s)
	require.Eventually(t, func() bool { return s.index.behind() == 0 }, testWait, testTick)
	end := s.MaxPhyOffset()
	fillStore(t, master, 10, "b")
	second, ok := master.ReadLog(end, 1<<20)
	require.True(t, ok)
	defer second.Owner.Release()
	s.ConfirmTo(end) // what follows is neither dispatched nor indexed
	require.NoError(t, s.AppendLog(end, second.Bytes))
	require.NoError(t, s.TruncateLog(end))
	s.ConfirmTo(1 << 62)
	require.NoError(t, s.AppendLog(end, second.Bytes))
	awaitDispatch(t, s)
	require.Eventually(t, func() bool { return s.index.behind() == 0 }, testWait, testTick)
}

// A slave has all of its log shown before it becomes master, also what is in write buffers or waits for a flush: the queues
// go on behind it.
func TestLeadShowsEverythingFirst(t *testing.T) {
	f := func(change func(*Options), cut int) {
		t.Helper()
		master := openStore(t, testOptions(vfs.NewMem(), "/master"))
		fillStore(t, master, 20, "a")
		o := testOptions(vfs.OS, t.TempDir())
		change(&o)
		s := followerStore(t, o)
		seg, ok := master.ReadLog(0, 1<<20)
		require.True(t, ok)
		defer seg.Owner.Release()
		require.NoError(t, s.AppendLog(0, seg.Bytes[:len(seg.Bytes)-cut]))
		end, err := s.CutTail()
		require.NoError(t, err)
		require.Equal(t, end, s.MaxPhyOffset())
		awaitDispatch(t, s)
		require.NoError(t, s.Lead())
		for q := range int32(4) {
			put := mustPut(t, s, testMessage("T", q, "next"))
			want := master.MaxOffset("T", q)
			if q == 3 && cut > 0 {
				want-- // its last record was not whole
			}
			require.Equal(t, want, put.QueueOffset)
		}
		awaitDispatch(t, s)
		require.Len(t, bodies(t, s, "T", 3), int(s.MaxOffset("T", 3)))
	}
	pool := func(o *Options) {
		o.TransientStorePoolEnable, o.CommitCommitLogLeastPages, o.CommitIntervalCommitLog = true, 4, time.Hour
		o.CommitCommitLogThoroughInterval = time.Hour
	}
	sync := func(o *Options) { o.FlushDiskType = SyncFlush }
	for _, cut := range []int{0, 5} {
		f(func(*Options) {}, cut)
		f(pool, cut)
		f(sync, cut)
	}
}

// What comes behind a cut is committed, also before the log has come to where it ended before.
func TestCommitGoesOnAfterACut(t *testing.T) {
	master := openStore(t, testOptions(vfs.NewMem(), "/master"))
	o := testOptions(vfs.OS, t.TempDir())
	o.TransientStorePoolEnable, o.CommitCommitLogLeastPages = true, 4
	s := followerStore(t, o)
	a := mustPut(t, master, testMessage("T", 0, "a"))
	mustPut(t, master, testMessage("T", 0, "b"))
	seg, ok := master.ReadLog(0, 1<<20)
	require.True(t, ok)
	defer seg.Owner.Release()
	committed := func(end PhyOffset) {
		t.Helper()
		require.Eventually(t, func() bool { return s.MaxPhyOffset() == end }, testWait, testTick)
	}
	all := PhyOffset(len(seg.Bytes))
	require.NoError(t, s.AppendLog(0, seg.Bytes))
	committed(all)
	require.NoError(t, s.TruncateLog(a.EndOffset))
	require.NoError(t, s.AppendLog(a.EndOffset, seg.Bytes[a.EndOffset:all-3]))
	committed(all - 3)
	end, err := s.CutTail()
	require.NoError(t, err)
	require.Equal(t, a.EndOffset, end)
	require.NoError(t, s.AppendLog(end, seg.Bytes[end:all-7]))
	committed(all - 7)
}

// A log that is copied anew may start before the one that was given up: its write buffers are committed all the same.
func TestCommitOfALogThatStartsEarlier(t *testing.T) {
	master := openStore(t, testOptions(vfs.NewMem(), "/master"))
	o := testOptions(vfs.OS, t.TempDir())
	o.TransientStorePoolEnable = true
	s := followerStore(t, o)
	fileSize := PhyOffset(o.MappedFileSizeCommitLog)
	for master.MaxPhyOffset() < 2*fileSize+1000 {
		mustPut(t, master, testMessage("T", 0, "a"))
	}
	take := func(at PhyOffset) {
		t.Helper()
		seg, ok := master.ReadLog(at, 1<<20)
		require.True(t, ok)
		defer seg.Owner.Release()
		require.NoError(t, s.AppendLog(at, seg.Bytes))
		end := at + PhyOffset(len(seg.Bytes))
		require.Eventually(t, func() bool { return s.MaxPhyOffset() == end }, testWait, testTick)
	}
	take(fileSize)
	take(2 * fileSize)
	require.NoError(t, s.DropLog(false))
	take(0)
}
