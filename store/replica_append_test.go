package store

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// A write of a slave that fails, or leaves half of the piece, shows nothing of it, leaves nothing for a recovery to find,
// and can be done again.
func TestFollowerWriteFails(t *testing.T) {
	f := func(rule string) {
		t.Helper()
		mem := vfs.NewMem()
		master := openStore(t, testOptions(mem, "/master"))
		fillStore(t, master, 40, "a")
		o := testOptions(errorfs.Wrap(mem, errorfs.MustParse(rule)), "/slave")
		s, err := Open(o)
		require.NoError(t, err)
		s.Follow()
		require.NoError(t, s.Start())
		s.cl.bulk.Store(true)
		half := PhyOffset(0)
		for at := PhyOffset(0); at < 4000; at = half {
			seg, ok := master.ReadLog(at, 1000)
			require.True(t, ok)
			require.NoError(t, s.AppendLog(at, seg.Bytes))
			half += PhyOffset(len(seg.Bytes))
			seg.Owner.Release()
		}
		seg, ok := master.ReadLog(half, 2000)
		require.True(t, ok)
		require.ErrorContains(t, s.AppendLog(half, seg.Bytes), "input/output error")
		require.Equal(t, half, s.MaxPhyOffset())
		mf := s.cl.files.last()
		for i, b := range mf.data()[half : half+2000] {
			require.Zero(t, b, "byte %d behind the end", i)
		}
		require.NoError(t, s.AppendLog(half, seg.Bytes))
		half += PhyOffset(len(seg.Bytes))
		seg.Owner.Release()
		copyLog(t, master, s, half, 3000, rand.New(rand.NewPCG(3, 3)))
		require.Equal(t, logBytes(master), logBytes(s))
		closeStore(t, s)
	}
	f(`(write "/slave/commitlog/*" nth 5 err EIO)`)
	f(`(write "/slave/commitlog/*" nth 5 short 1500 err EIO)`)
}

// A slave says what keeps it from copying, and only that; a pause of puts is no reason.
func TestFollowerRefuses(t *testing.T) {
	mem := vfs.NewMem()
	master := openStore(t, testOptions(mem, "/master"))
	fillStore(t, master, 10, "a")
	s := followerStore(t, testOptions(mem, "/slave"))
	seg, ok := master.ReadLog(0, 1000)
	require.True(t, ok)
	defer seg.Owner.Release()
	s.PausePuts(errors.New("handed over"))
	s.flags.set(flagDiskFull, errors.New("91 %"))
	err := s.AppendLog(0, seg.Bytes)
	require.ErrorIs(t, err, ErrDiskFull)
	require.EqualError(t, err, "store: not writable: the disk of the CommitLog is too full: 91 %")
	require.Zero(t, s.MaxPhyOffset())
	s.flags.clear(flagDiskFull)
	require.NoError(t, s.AppendLog(0, seg.Bytes))
	require.EqualValues(t, len(seg.Bytes), s.MaxPhyOffset())
}

// A slave that becomes master has pages ready for its writer, although none were while it was a slave.
func TestLeadPopulatesAhead(t *testing.T) {
	mem := vfs.NewMem()
	master := openStore(t, testOptions(mem, "/master"))
	fillStore(t, master, 300, "a")
	s := followerStore(t, testOptions(mem, "/slave"))
	s.cl.bulk.Store(true)
	copyLog(t, master, s, 0, 5000, rand.New(rand.NewPCG(5, 5)))
	awaitDispatch(t, s)
	require.NoError(t, s.Lead())
	require.Nil(t, s.copyTo.f)
	require.Eventually(t, func() bool { return s.CanAppend(1024) }, testWait, testTick)
	mustPut(t, s, testMessage("T", 0, "mine"))
	require.Zero(t, s.WriterPageFaults())
	awaitDispatch(t, s)
}

// A slave is written in both ways in turns, and has the same bytes.
func TestFollowerWritesBothWays(t *testing.T) {
	f := func(fs vfs.FS, masterDir, slaveDir string) {
		t.Helper()
		master := openStore(t, testOptions(fs, masterDir))
		s := followerStore(t, testOptions(fs, slaveDir))
		rnd := rand.New(rand.NewPCG(9, 9))
		for range 20 {
			fillStore(t, master, 20, "a")
			s.cl.bulk.Store(rnd.IntN(2) == 0)
			s.cl.populate.wake()
			copyLog(t, master, s, s.MaxPhyOffset(), 3000, rnd)
		}
		require.Equal(t, logBytes(master), logBytes(s))
		awaitDispatch(t, s)
		awaitDispatch(t, master)
		require.Equal(t, bodies(t, master, "T", 1), bodies(t, s, "T", 1))
		require.NoError(t, s.Flush())
	}
	f(vfs.NewMem(), "/master", "/slave")
	f(vfs.OS, t.TempDir(), t.TempDir())
}

func TestCopyPace(t *testing.T) {
	p, now := copyPace{}, int64(1000)
	f := func(piece int, took int64, bulk, want bool) {
		t.Helper()
		now += took
		for n := piece; n < paceBytes; n += piece {
			require.Equal(t, bulk, p.took(piece, bulk, nil))
		}
		require.Equal(t, want, p.took(piece, bulk, func() int64 { return now }))
	}
	f(1<<10, 0, false, false) // the first ones since the start
	f(1<<10, 21, false, false)
	f(1<<10, 20, false, true)
	f(128<<10, 1000, false, true)
	f(1<<10, 39, true, true)
	f(1<<10, 40, true, false)
	f(64<<10, 40, true, true)
}
