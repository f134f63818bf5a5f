package store

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// confirmedOptions are those of a replica whose role a controller decides.
func confirmedOptions(fs vfs.FS) Options {
	o := testOptions(fs, "/s")
	o.ConfirmedOnly = true
	return o
}

// savedConfirm is confirmPhyOffset in the file, which Java has at byte 32.
func savedConfirm(t *testing.T, fs vfs.FS) PhyOffset {
	t.Helper()
	data, err := vfs.ReadFile(fs, "/s/checkpoint")
	require.NoError(t, err)
	return PhyOffset(binary.BigEndian.Uint64(data[32:]))
}

// replicaOpen opens a store as a slave that knows of no master yet. The test closes it.
func replicaOpen(t *testing.T, o Options) *MessageStore {
	t.Helper()
	s, err := Open(o)
	require.NoError(t, err)
	s.Follow()
	require.NoError(t, s.Start())
	return s
}

// unconfirmed are a slave with 8 records, of which 5 are confirmed and shown, and where the records end. It runs within
// synctest.
func unconfirmed(t *testing.T, fs vfs.FS) (s *MessageStore, ends []PhyOffset) {
	t.Helper()
	master, err := Open(testOptions(vfs.NewMem(), "/master"))
	require.NoError(t, err)
	require.NoError(t, master.Start())
	for range 8 {
		ends = append(ends, mustPut(t, master, testMessage("T", 0, "confirm")).EndOffset)
	}
	seg, ok := master.ReadLog(0, 1<<20)
	require.True(t, ok)
	s = replicaOpen(t, confirmedOptions(fs))
	require.NoError(t, s.AppendLog(0, seg.Bytes))
	seg.Owner.Release()
	require.NoError(t, master.Close())
	time.Sleep(time.Second)
	require.Zero(t, s.MaxOffset("T", 0), "nobody has confirmed anything")
	s.ConfirmTo(ends[4] + 7)
	time.Sleep(5 * time.Second)
	require.EqualValues(t, 5, s.MaxOffset("T", 0))
	require.Equal(t, ends[4], savedConfirm(t, fs))
	return s, ends
}

// After a restart a replica shows what it showed before, and the rest when it is confirmed: apache/rocketmq#6609. Files that
// are missing do not make it more.
func TestRestartHidesWhatIsNotConfirmed(t *testing.T) {
	f := func(clean bool, missing ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewMem()
			s, ends := unconfirmed(t, fs)
			if !clean {
				fs = fs.CloneAll() // what kill -9 leaves
			}
			require.NoError(t, s.Close())
			for _, name := range missing {
				require.NoError(t, fs.RemoveAll("/s/"+name))
			}
			for range 2 { // the second time as after a clean stop
				s = replicaOpen(t, confirmedOptions(fs))
				require.Equal(t, ends[4], s.DispatchedWhere())
				time.Sleep(5 * time.Second)
				require.EqualValues(t, 5, s.MaxOffset("T", 0))
				require.Equal(t, ends[7], s.MaxPhyOffset())
				require.Zero(t, s.DispatchBehindBytes())
				require.NoError(t, s.Close())
			}
			s = replicaOpen(t, confirmedOptions(fs))
			s.ConfirmTo(ends[6])
			time.Sleep(5 * time.Second)
			require.EqualValues(t, 7, s.MaxOffset("T", 0))
			require.Equal(t, ends[6], savedConfirm(t, fs))
			s.ConfirmTo(ends[2]) // a slave that compares its log says less for a moment
			time.Sleep(5 * time.Second)
			require.EqualValues(t, 7, s.MaxOffset("T", 0))
			require.Equal(t, ends[6], savedConfirm(t, fs))
			_, err := s.CutTail()
			require.NoError(t, err)
			s.ConfirmTo(1 << 62) // it is elected
			awaitDispatch(t, s)
			require.NoError(t, s.Lead())
			require.EqualValues(t, 8, mustPut(t, s, testMessage("T", 0, "new")).QueueOffset)
			time.Sleep(5 * time.Second)
			require.Len(t, bodies(t, s, "T", 0), 9)
			end := s.MaxPhyOffset()
			require.NoError(t, s.Close())
			require.Equal(t, end, savedConfirm(t, fs))
		})
	}
	for _, clean := range []bool{true, false} {
		f(clean)
		f(clean, "consumequeue")
		f(clean, "consumequeue", "queueCheckpoint")
		f(clean, "index")
	}
	f(true, "checkpoint")
}

// A power cut shows nothing that was hidden, and leaves a checkpoint that does not say more than the log has.
func TestPowerCutHidesWhatIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s, ends := unconfirmed(t, fs)
		defer func() { require.NoError(t, s.Close()) }()
		for seed := range uint64(20) {
			crashed := fs.CrashClone(seed)
			cut := replicaOpen(t, confirmedOptions(crashed))
			time.Sleep(time.Second)
			require.LessOrEqual(t, cut.MaxOffset("T", 0), QueueOffset(5))
			require.LessOrEqual(t, cut.DispatchedWhere(), ends[4])
			require.LessOrEqual(t, savedConfirm(t, crashed), cut.MaxPhyOffset())
			require.NoError(t, cut.Close())
		}
	})
}

// A log that is shorter than what was confirmed, or is cut there, has nothing confirmed behind its end: other records may
// come there.
func TestWhatComesBehindACutIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s, ends := unconfirmed(t, fs)
		seg, ok := s.ReadLog(ends[2], int(ends[7]-ends[2]))
		require.True(t, ok)
		defer seg.Owner.Release()
		require.NoError(t, s.TruncateLog(ends[2]))
		require.Equal(t, ends[2], savedConfirm(t, fs), "at once")
		require.NoError(t, s.AppendLog(ends[2], seg.Bytes))
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 3, s.MaxOffset("T", 0))
		s.ConfirmTo(ends[4])
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 5, s.MaxOffset("T", 0))
		require.NoError(t, s.Close())

		require.NoError(t, fs.RemoveAll("/s/commitlog"))
		s = replicaOpen(t, confirmedOptions(fs))
		require.Zero(t, savedConfirm(t, fs))
		require.Zero(t, s.DispatchedWhere())
		require.NoError(t, s.Close())
	})
}

// A master that becomes a slave shows what it has, and nothing that comes from its successor before it is confirmed.
func TestFollowShowsNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s, ends := unconfirmed(t, fs)
		seg, ok := s.ReadLog(ends[5], int(ends[7]-ends[5]))
		require.True(t, ok)
		defer seg.Owner.Release()
		require.NoError(t, s.TruncateLog(ends[5]))
		s.ConfirmTo(1 << 62)
		awaitDispatch(t, s)
		require.NoError(t, s.Lead())
		s.Follow()
		require.NoError(t, s.AppendLog(ends[5], seg.Bytes))
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 6, s.MaxOffset("T", 0))
		s.ConfirmTo(ends[7])
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 8, s.MaxOffset("T", 0))
		require.NoError(t, s.Close())
	})
}

// A directory that was a classic broker's, or another version's, goes on showing what its queues have.
func TestConfirmedOnlyOfAnotherDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		o := testOptions(fs, "/s")
		s, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, s.Start())
		for range 8 {
			mustPut(t, s, testMessage("T", 0, "confirm"))
		}
		time.Sleep(time.Second)
		require.NoError(t, s.Close())
		require.Zero(t, savedConfirm(t, fs), "the last record at the start, as Java has it")
		s = replicaOpen(t, confirmedOptions(fs))
		end := s.MaxPhyOffset()
		require.Equal(t, end, s.DispatchedWhere())
		require.NoError(t, s.Close())
		require.Equal(t, end, savedConfirm(t, fs))
		s, err = Open(o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}
