package store

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// A write of a slave that fails, or leaves half of the piece, shows nothing of it, leaves nothing for a recovery to find, and
// can be done again.
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

// A slave that becomes master has pages ready for its writer, although none were while it was a slave.
func TestLeadPopulatesAhead(t *testing.T) {
	mem := vfs.NewMem()
	master := openStore(t, testOptions(mem, "/master"))
	fillStore(t, master, 300, "a")
	s := followerStore(t, testOptions(mem, "/slave"))
	copyLog(t, master, s, 0, 5000, rand.New(rand.NewPCG(5, 5)))
	awaitDispatch(t, s)
	require.NoError(t, s.Lead())
	require.Nil(t, s.copyTo.f)
	require.Eventually(t, func() bool { return s.CanAppend(1024) }, testWait, testTick)
	mustPut(t, s, testMessage("T", 0, "mine"))
	require.Zero(t, s.WriterPageFaults())
	awaitDispatch(t, s)
}
