package store

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// followerStore opens a slave's store.
func followerStore(t *testing.T, o Options) *MessageStore {
	t.Helper()
	s, err := Open(o)
	require.NoError(t, err)
	s.Follow()
	require.NoError(t, s.Start())
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// copyLog copies the master's log from where the slave's ends, in pieces of up to maxPiece bytes.
func copyLog(t *testing.T, from, to *MessageStore, start PhyOffset, maxPiece int, rnd *rand.Rand) {
	t.Helper()
	for at := start; ; {
		seg, ok := from.ReadLog(at, 1+rnd.IntN(maxPiece))
		if !ok {
			return
		}
		require.NoError(t, to.AppendLog(at, seg.Bytes))
		at += PhyOffset(len(seg.Bytes))
		seg.Owner.Release()
	}
}

func logBytes(s *MessageStore) string {
	var b strings.Builder
	for at := s.MinPhyOffset(); ; {
		seg, ok := s.ReadLog(at, 1<<20)
		if !ok {
			return b.String()
		}
		b.Write(seg.Bytes)
		at += PhyOffset(len(seg.Bytes))
		seg.Owner.Release()
	}
}

func fillStore(t *testing.T, s *MessageStore, n int, tag string) {
	t.Helper()
	for i := range n {
		mustPut(t, s, testMessage("T", int32(i%4), fmt.Sprintf("%s-%d-%s", tag, i, strings.Repeat("x", i%700))))
	}
}

// A slave that gets the log in pieces which end anywhere has the same bytes, the same queues, and shows no half record.
func TestFollowerCopiesTheLog(t *testing.T) {
	f := func(maxPiece int, memory bool) {
		t.Helper()
		fs, masterDir, slaveDir := vfs.FS(vfs.NewMem()), "/master", "/slave"
		if !memory {
			fs, masterDir, slaveDir = vfs.OS, t.TempDir(), t.TempDir()
		}
		master := openStore(t, testOptions(fs, masterDir))
		slave := followerStore(t, testOptions(fs, slaveDir))
		rnd := rand.New(rand.NewPCG(1, uint64(maxPiece)))
		fillStore(t, master, 60, "a")
		copyLog(t, master, slave, 0, maxPiece, rnd)
		fillStore(t, master, 60, "b")
		copyLog(t, master, slave, slave.MaxPhyOffset(), maxPiece, rnd)
		require.Equal(t, master.MaxPhyOffset(), slave.MaxPhyOffset())
		require.Equal(t, logBytes(master), logBytes(slave))
		awaitDispatch(t, master)
		awaitDispatch(t, slave)
		for q := range int32(4) {
			require.Equal(t, bodies(t, master, "T", q), bodies(t, slave, "T", q))
		}
		put := slave.Put(testMessage("T", 0, "no"))
		require.Equal(t, ServiceNotAvailable, put.Status)
		require.ErrorContains(t, put.Err, "the broker is a slave")
		require.ErrorIs(t, slave.AppendLog(slave.MaxPhyOffset()+1, []byte{1}), ErrLogGap)
		require.ErrorIs(t, master.AppendLog(master.MaxPhyOffset(), []byte{1}), ErrNotSlave)
		require.ErrorIs(t, slave.AppendLog(slave.MaxPhyOffset(), []byte(strings.Repeat("rubbish", 20))), ErrForeignLog)
		start, err := slave.RecordStart(slave.MaxPhyOffset())
		require.NoError(t, err)
		require.Equal(t, master.MaxPhyOffset(), start)
		require.NoError(t, slave.TruncateLog(start))
		require.Equal(t, master.MaxPhyOffset(), slave.MaxPhyOffset())
	}
	f(37, true)
	f(1000, true)
	f(32<<10, true)
	f(500, false)
}

// A slave's log is cut while it runs; what follows replaces what was cut, and it does not come back after a crash.
func TestTruncateLog(t *testing.T) {
	fs := vfs.NewMem()
	master := openStore(t, testOptions(fs, "/master"))
	other := openStore(t, testOptions(fs, "/other"))
	fillStore(t, master, 50, "common")
	rnd := rand.New(rand.NewPCG(7, 7))
	o := testOptions(fs, "/slave")
	s, err := Open(o)
	require.NoError(t, err)
	s.Follow()
	require.NoError(t, s.Start())
	copyLog(t, master, s, 0, 1000, rnd)
	common := s.MaxPhyOffset()
	other.Follow() // the other master begins as a copy
	copyLog(t, master, other, 0, 4096, rnd)
	awaitDispatch(t, other)
	require.NoError(t, other.Lead())
	fillStore(t, master, 80, "lost")
	fillStore(t, other, 80, "kept")
	copyLog(t, master, s, common, 5000, rnd)
	awaitDispatch(t, s)
	held, ok := s.ReadLog(common-10, 10)
	require.True(t, ok)
	was := string(held.Bytes)

	require.ErrorContains(t, s.TruncateLog(common+1), "a record starts at")
	require.NoError(t, s.TruncateLog(common))
	require.Equal(t, common, s.MaxPhyOffset())
	require.Equal(t, was, string(held.Bytes))
	held.Owner.Release()
	crash := fs.CrashClone(3)

	copyLog(t, other, s, common, 700, rnd)
	require.Equal(t, logBytes(other), logBytes(s))
	awaitDispatch(t, s)
	awaitDispatch(t, other)
	for q := range int32(4) {
		require.Equal(t, bodies(t, other, "T", q), bodies(t, s, "T", q))
	}
	require.Eventually(t, func() bool { return s.index.behind() == 0 }, testWait, testTick)
	closeStore(t, s)

	o.FS = crash
	again := followerStore(t, o)
	require.LessOrEqual(t, again.MaxPhyOffset(), common)
	for q := range int32(4) {
		for _, body := range bodies(t, again, "T", q) {
			require.True(t, strings.HasPrefix(body, "common"), body)
		}
	}
	names, err := fs.List("/slave")
	require.NoError(t, err)
	kept := ""
	for _, name := range names {
		if strings.HasPrefix(name, divergedDirPrefix) {
			kept = name
		}
	}
	require.True(t, strings.HasPrefix(kept, fmt.Sprintf("%s%d-", divergedDirPrefix, common)), kept)
	names, err = fs.List(path.Join("/slave", kept))
	require.NoError(t, err)
	require.Len(t, names, 2, "the tail of one file, and the next one")
}

// A slave that has nothing in common with its master gives its log up and begins in the middle.
func TestDropLog(t *testing.T) {
	fs := vfs.NewMem()
	master := openStore(t, testOptions(fs, "/master"))
	fillStore(t, master, 150, "m")
	from := master.MaxPhyOffset() - master.MaxPhyOffset()%PhyOffset(master.LogFileBytes())
	require.NotZero(t, from)
	s := followerStore(t, testOptions(fs, "/slave"))
	old := openStore(t, testOptions(fs, "/old"))
	fillStore(t, old, 30, "old")
	rnd := rand.New(rand.NewPCG(9, 9))
	copyLog(t, old, s, 0, 3000, rnd)
	awaitDispatch(t, s)
	require.NoError(t, s.DropLog(true))
	require.Zero(t, s.MaxPhyOffset())
	require.Empty(t, s.queues.all())
	require.ErrorIs(t, s.AppendLog(from+5, []byte{1}), ErrLogGap)
	copyLog(t, master, s, from, 3000, rnd)
	require.Equal(t, master.MaxPhyOffset(), s.MaxPhyOffset())
	require.Equal(t, from, s.MinPhyOffset())
	awaitDispatch(t, s)
	awaitDispatch(t, master)
	for q := range int32(4) {
		all, got := bodies(t, master, "T", q), bodies(t, s, "T", q)
		require.NotEmpty(t, got)
		require.Equal(t, all[len(all)-len(got):], got)
	}
}

// twoReplicas answers what the test says.
type twoReplicas struct {
	admit PutStatus
	done  chan func(PutStatus)
}

func (r *twoReplicas) Admit() PutStatus { return r.admit }

func (r *twoReplicas) Copied(_ PhyOffset, done func(PutStatus)) bool {
	if r.done == nil {
		return true
	}
	r.done <- done
	return false
}

func TestPutWaitsForReplicas(t *testing.T) {
	f := func(flush FlushDiskType, answer, want PutStatus) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			o := testOptions(vfs.NewMem(), "/s")
			o.FlushDiskType = flush
			s, err := Open(o)
			require.NoError(t, err)
			r := &twoReplicas{done: make(chan func(PutStatus), 1)}
			s.SetReplicas(r)
			require.NoError(t, s.Start())
			got := make(chan PutStatus, 1)
			go func() { got <- s.Put(testMessage("T", 0, "x")).Status }()
			done := <-r.done
			synctest.Wait()
			select {
			case status := <-got:
				t.Fatalf("answered %v before the replicas have it", status)
			default:
			}
			done(answer)
			require.Equal(t, want, <-got)
			m := testMessage("T", 0, "nobody waits")
			m.WaitStoreMsgOK = false
			require.Equal(t, PutOK, s.Put(m).Status)
			r.admit = InSyncReplicasNotEnough
			end := s.MaxPhyOffset()
			require.Equal(t, InSyncReplicasNotEnough, s.Put(testMessage("T", 0, "y")).Status)
			require.Equal(t, end, s.MaxPhyOffset())
			r.admit, r.done = PutOK, nil
			require.Equal(t, PutOK, s.Put(testMessage("T", 0, "z")).Status)
			closeStore(t, s)
		})
	}
	f(AsyncFlush, PutOK, PutOK)
	f(AsyncFlush, FlushSlaveTimeout, FlushSlaveTimeout)
	f(SyncFlush, PutOK, PutOK)
	f(SyncFlush, SlaveNotAvailable, SlaveNotAvailable)
}
