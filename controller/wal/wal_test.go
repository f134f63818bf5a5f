package wal

import (
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/c/n0"

var me = Identity{Group: "g", Self: "n0", Peers: []string{"n0", "n1"}}

func open(t require.TestingT, fsys vfs.FS, segment int64) (*WAL, *Recovered) {
	w, rec, err := Open(Options{FS: fsys, Dir: dir, SegmentBytes: segment, Identity: me, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return w, rec
}

func entry(index, term uint64) raftpb.Entry {
	return raftpb.Entry{Index: index, Term: term, Data: []byte(fmt.Sprintf("entry %d of term %d", index, term))}
}

func entries(from, to, term uint64) (out []raftpb.Entry) {
	for i := from; i <= to; i++ {
		out = append(out, entry(i, term))
	}
	return out
}

func snap(index, term uint64) raftpb.Snapshot {
	return raftpb.Snapshot{Data: []byte(fmt.Sprint("state at ", index)),
		Metadata: raftpb.SnapshotMetadata{Index: index, Term: term, ConfState: raftpb.ConfState{Voters: []uint64{1, 2}}}}
}

func files(t *testing.T, fsys vfs.FS, suffix string) (out []string) {
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			out = append(out, n)
		}
	}
	return out
}

func TestNewDirectory(t *testing.T) {
	fsys := vfs.NewMem()
	w, rec := open(t, fsys, 0)
	require.Equal(t, &Recovered{}, rec)
	_, _, err := Open(Options{FS: fsys, Dir: dir, Identity: me, Log: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, w.Append(raftpb.HardState{}, nil))
	require.Empty(t, files(t, fsys, ".wal"), "nothing to write")
	require.NoError(t, w.Close())
	require.Error(t, w.Append(raftpb.HardState{Term: 1}, nil))
	w, rec = open(t, fsys, 0)
	require.False(t, rec.Found)
	require.NoError(t, w.Close())
	nf, nm := fsys.Handles()
	require.Zero(t, nf+nm)
}

func TestAppendAndReopen(t *testing.T) {
	fsys := vfs.NewMem()
	w, _ := open(t, fsys, 0)
	require.NoError(t, w.SaveSnapshot(snap(1, 1), true, raftpb.HardState{Term: 1, Commit: 1}))
	require.NoError(t, w.Append(raftpb.HardState{Term: 2, Vote: 7, Commit: 1}, entries(2, 5, 2)))
	require.NoError(t, w.Append(raftpb.HardState{}, entries(6, 6, 2)))
	require.NoError(t, w.Append(raftpb.HardState{Term: 3, Commit: 3}, entries(4, 5, 3))) // replaces 4 to 6
	require.NoError(t, w.Close())
	w, rec := open(t, fsys, 0)
	require.True(t, rec.Found)
	require.Equal(t, me, rec.Identity)
	require.Equal(t, snap(1, 1), rec.Snapshot)
	require.Equal(t, raftpb.HardState{Term: 3, Commit: 3}, rec.HardState)
	require.Equal(t, append(entries(2, 3, 2), entries(4, 5, 3)...), rec.Entries)
	me2 := me
	me2.Peers = []string{"n0"}
	w.o.Identity = me2
	require.NoError(t, w.SaveIdentity())
	require.NoError(t, w.Close())
	w, rec = open(t, fsys, 0)
	require.Equal(t, me2, rec.Identity)
	require.NoError(t, w.Close())
}

// Segments follow each other, and those behind the older of two snapshots are dropped.
func TestSegmentsAndSnapshots(t *testing.T) {
	fsys := vfs.NewMem()
	w, _ := open(t, fsys, 300)
	require.NoError(t, w.SaveSnapshot(snap(1, 1), true, raftpb.HardState{Term: 1, Commit: 1}))
	for i := uint64(2); i <= 60; i++ {
		require.NoError(t, w.Append(raftpb.HardState{Term: 1, Commit: i - 1}, entries(i, i, 1)))
		if i%20 == 0 {
			require.NoError(t, w.SaveSnapshot(snap(i-5, 1), false, raftpb.HardState{}))
		}
	}
	require.Equal(t, []string{snapName(snap(35, 1).Metadata), snapName(snap(55, 1).Metadata)}, files(t, fsys, ".snap"))
	require.Less(t, len(files(t, fsys, ".wal")), 12)
	require.NoError(t, w.Close())
	w, rec := open(t, fsys, 300)
	require.Equal(t, snap(55, 1), rec.Snapshot)
	require.Equal(t, entries(56, 60, 1), rec.Entries)
	require.NoError(t, w.Close())

	// the newer snapshot is damaged: the older one and the log do
	data, err := vfs.ReadFile(fsys, path.Join(dir, snapName(snap(55, 1).Metadata)))
	require.NoError(t, err)
	data[len(data)-1]++
	require.NoError(t, vfs.WriteFileAtomic(fsys, path.Join(dir, snapName(snap(55, 1).Metadata)), data, false))
	w, rec = open(t, fsys, 300)
	require.Equal(t, snap(35, 1), rec.Snapshot)
	require.Equal(t, entries(36, 60, 1), rec.Entries)
	require.NoError(t, w.SaveSnapshot(snap(56, 1), false, raftpb.HardState{}))
	require.NoError(t, w.Append(raftpb.HardState{}, entries(61, 61, 1)))
	require.NoError(t, w.Close())
	w, rec = open(t, fsys, 300)
	require.Equal(t, snap(56, 1), rec.Snapshot)
	require.Equal(t, entries(57, 61, 1), rec.Entries)
	require.NoError(t, w.Close())
	require.Len(t, files(t, fsys, damagedSuffix), 1)
}

// A snapshot from the leader takes the place of a log that leads somewhere else.
func TestReset(t *testing.T) {
	fsys := vfs.NewMem()
	w, _ := open(t, fsys, 0)
	require.NoError(t, w.SaveSnapshot(snap(1, 1), true, raftpb.HardState{Term: 1, Commit: 1}))
	require.NoError(t, w.Append(raftpb.HardState{Term: 2, Commit: 1}, entries(2, 30, 2)))
	before := fsys.CloneAll()
	require.NoError(t, w.SaveSnapshot(snap(20, 3), true, raftpb.HardState{Term: 4, Commit: 20}))
	require.NoError(t, w.Close())
	w, rec := open(t, fsys, 0)
	require.Equal(t, snap(20, 3), rec.Snapshot)
	require.Empty(t, rec.Entries)
	require.Equal(t, raftpb.HardState{Term: 4, Commit: 20}, rec.HardState)
	require.NoError(t, w.Append(raftpb.HardState{}, entries(21, 22, 4)))
	require.NoError(t, w.Close())
	w, rec = open(t, fsys, 0)
	require.Equal(t, entries(21, 22, 4), rec.Entries)
	require.NoError(t, w.Close())

	// power goes between the snapshot and the reset
	cut := errorfs.Wrap(before, errorfs.MustParse(`(write "*.wal" err EIO)`))
	w, _ = open(t, cut, 0)
	require.ErrorIs(t, w.SaveSnapshot(snap(20, 3), true, raftpb.HardState{Term: 4, Commit: 20}), syscall.EIO)
	require.NoError(t, w.Close())
	w, rec = open(t, before, 0)
	require.Equal(t, snap(20, 3), rec.Snapshot)
	require.Empty(t, rec.Entries, "entries 21 to 30 belong to the log before")
	require.Equal(t, raftpb.HardState{Term: 3, Commit: 20}, rec.HardState)
	require.NoError(t, w.Close())
}

// A fault is final: what the disk has after a failed sync is not known.
func TestFaultsAreFinal(t *testing.T) {
	f := func(rule string) {
		t.Helper()
		mem := vfs.NewMem()
		w, _ := open(t, mem, 200)
		require.NoError(t, w.SaveSnapshot(snap(1, 1), true, raftpb.HardState{Term: 1, Commit: 1}))
		require.NoError(t, w.Close())
		w, _ = open(t, errorfs.Wrap(mem, errorfs.MustParse(rule)), 200)
		var failed error
		acked := uint64(1)
		for i := uint64(2); i <= 20; i++ {
			err := w.Append(raftpb.HardState{Term: 1, Commit: 1}, entries(i, i, 1))
			if failed != nil {
				require.Equal(t, failed, err)
				continue
			}
			if failed = err; err == nil {
				acked = i
			}
		}
		require.Error(t, failed)
		require.Equal(t, failed, w.Err())
		require.Equal(t, failed, w.SaveSnapshot(snap(2, 1), false, raftpb.HardState{}))
		require.Equal(t, failed, w.SaveIdentity())
		require.NoError(t, w.Close())
		w, rec := open(t, mem, 200)
		require.GreaterOrEqual(t, uint64(len(rec.Entries))+1, acked)
		require.NoError(t, w.Close())
	}
	f(`(sync "*.wal" nth 3 err EIO)`)
	f(`(write "*.wal" nth 3 err ENOSPC)`)
	f(`(write "*.wal" nth 3 short 30 err ENOSPC)`)
	f(`(write "*.wal" nth 2 late err EIO)`)
	f(`(create "*.wal" nth 2 err ENOSPC)`)
	f(`(syncdir "/c/n0" err EIO)`)
}

func TestDamage(t *testing.T) {
	make := func() (*vfs.MemFS, []string) {
		fsys := vfs.NewMem()
		w, _ := open(t, fsys, 400)
		require.NoError(t, w.SaveSnapshot(snap(1, 1), true, raftpb.HardState{Term: 1, Commit: 1}))
		for i := uint64(2); i <= 20; i++ {
			require.NoError(t, w.Append(raftpb.HardState{Term: 1, Commit: 1}, entries(i, i, 1)))
		}
		require.NoError(t, w.Close())
		return fsys, files(t, fsys, ".wal")
	}
	f := func(name string, damage func(fsys *vfs.MemFS, segments []string)) {
		t.Helper()
		fsys, segments := make()
		require.Greater(t, len(segments), 2)
		damage(fsys, segments)
		_, _, err := Open(Options{FS: fsys, Dir: dir, Identity: me, Log: slog.New(slog.DiscardHandler)})
		require.ErrorIs(t, err, ErrCorrupt, name)
		require.ErrorContains(t, err, dir, name)
		nf, _ := fsys.Handles()
		require.Zero(t, nf, name)
	}
	change := func(fsys *vfs.MemFS, name string, edit func(b []byte) []byte) {
		data, err := vfs.ReadFile(fsys, path.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFileAtomic(fsys, path.Join(dir, name), edit(data), false))
	}
	f("a bit in an old segment", func(fsys *vfs.MemFS, s []string) {
		change(fsys, s[0], func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	})
	f("a bit in the last segment, more behind it", func(fsys *vfs.MemFS, s []string) {
		change(fsys, s[len(s)-1], func(b []byte) []byte { b[40] ^= 1; return b })
	})
	f("an old segment cut off", func(fsys *vfs.MemFS, s []string) {
		change(fsys, s[1], func(b []byte) []byte { return b[:len(b)-3] })
	})
	f("an old segment empty", func(fsys *vfs.MemFS, s []string) { change(fsys, s[1], func([]byte) []byte { return nil }) })
	f("a segment missing", func(fsys *vfs.MemFS, s []string) { require.NoError(t, fsys.Remove(path.Join(dir, s[1]))) })
	f("the first segment missing", func(fsys *vfs.MemFS, s []string) { require.NoError(t, fsys.Remove(path.Join(dir, s[0]))) })
	f("the only snapshot damaged", func(fsys *vfs.MemFS, _ []string) {
		change(fsys, files(t, fsys, ".snap")[0], func(b []byte) []byte { b[9] ^= 1; return b })
	})
	f("the only snapshot cut off", func(fsys *vfs.MemFS, _ []string) {
		change(fsys, files(t, fsys, ".snap")[0], func(b []byte) []byte { return b[:len(b)-1] })
	})

	fsys, s := make()
	change(fsys, s[len(s)-1], func(b []byte) []byte { return b[:len(b)-1] })
	w, rec := open(t, fsys, 0)
	require.Positive(t, rec.TornBytes)
	require.Equal(t, entries(2, 19, 1), rec.Entries, "a torn end is cut off")
	require.NoError(t, w.Append(raftpb.HardState{}, entries(20, 21, 1)))
	require.NoError(t, w.Close())
	w, rec = open(t, fsys, 0)
	require.Zero(t, rec.TornBytes)
	require.Equal(t, entries(2, 21, 1), rec.Entries)
	require.NoError(t, w.Close())
}

// model is what a log has to hold.
type model struct {
	hs      raftpb.HardState
	snap    raftpb.Snapshot
	entries []raftpb.Entry // behind snap
}

func (m *model) last() (index, term uint64) {
	if n := len(m.entries); n > 0 {
		return m.entries[n-1].Index, m.entries[n-1].Term
	}
	return m.snap.Metadata.Index, m.snap.Metadata.Term
}

func (m *model) equal(rec *Recovered) bool {
	hs := rec.HardState
	hs.Commit = max(hs.Commit, m.hs.Commit) // a snapshot moves it
	return hs == m.hs && rec.Snapshot.Metadata.Index == m.snap.Metadata.Index &&
		string(rec.Snapshot.Data) == string(m.snap.Data) &&
		slices.EqualFunc(rec.Entries, m.entries, func(a, b raftpb.Entry) bool { return a.Index == b.Index && a.Term == b.Term })
}

// Whatever moment the power goes, the log is as it was after the last call that returned, or after the one under way; and
// it goes on from there.
func TestPowerCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll("/c"))
		require.NoError(t, fsys.SyncDir("/"))
		segment := rapid.Int64Range(1, 2000).Draw(t, "segment")
		w, _ := open(t, fsys, segment)
		m := &model{hs: raftpb.HardState{Term: 1, Commit: 1}, snap: snap(1, 1)}
		require.NoError(t, w.SaveSnapshot(m.snap, true, m.hs))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var images []*vfs.MemFS
			watched := errorfs.Wrap(fsys, errorfs.Func(func(op errorfs.Op) error {
				if op.Kind&errorfs.OpChange != 0 {
					images = append(images, fsys.CrashClone(rapid.Uint64().Draw(t, "seed")))
				}
				return nil
			}))
			require.NoError(t, w.Close())
			w, _ = open(t, watched, segment)
			images = images[:0]
			before := *m
			step(t, w, m)
			images = append(images, fsys.CrashClone(rapid.Uint64().Draw(t, "seed")))
			for i, image := range images {
				cw, rec := open(t, image, segment)
				done := m.equal(rec)
				if i == len(images)-1 {
					require.True(t, done, "what was acknowledged is there")
				}
				if !done && !before.equal(rec) {
					checkBetween(t, &before, m, rec)
				}
				require.NoError(t, cw.Close())
			}
			if rapid.IntRange(0, 2).Draw(t, "crash") == 0 {
				require.NoError(t, w.Close())
				fsys = images[len(images)-1]
				w, _ = open(t, fsys, segment)
			}
		}
		require.NoError(t, w.Close())
	})
}

// checkBetween: the only state between two is a new snapshot without the reset, the vote and the entries behind it.
func checkBetween(t require.TestingT, before, after *model, rec *Recovered) {
	require.Equal(t, after.snap.Metadata.Index, rec.Snapshot.Metadata.Index, "before %v after %v", before, after)
	require.NotEqual(t, before.snap.Metadata.Index, after.snap.Metadata.Index)
	for _, e := range rec.Entries {
		require.GreaterOrEqual(t, e.Term, rec.Snapshot.Metadata.Term)
	}
}

func step(t *rapid.T, w *WAL, m *model) {
	index, term := m.last()
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0: // a snapshot of its own
		if len(m.entries) == 0 {
			return
		}
		at := m.entries[rapid.IntRange(0, len(m.entries)-1).Draw(t, "at")]
		require.NoError(t, w.SaveSnapshot(snap(at.Index, at.Term), false, raftpb.HardState{}))
		m.snap = snap(at.Index, at.Term)
		m.entries = slices.DeleteFunc(slices.Clone(m.entries), func(e raftpb.Entry) bool { return e.Index <= at.Index })
		m.hs.Commit = max(m.hs.Commit, at.Index)
	case 1: // one of the leader
		if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
			return
		}
		m.hs.Term = max(m.hs.Term, term) + 1
		m.snap, m.entries = snap(index+rapid.Uint64Range(1, 5).Draw(t, "ahead"), m.hs.Term), nil
		m.hs.Commit = m.snap.Metadata.Index
		require.NoError(t, w.SaveSnapshot(m.snap, true, m.hs))
	default:
		n := rapid.IntRange(0, 4).Draw(t, "n")
		if n == 0 { // a vote alone
			m.hs.Vote++
			require.NoError(t, w.Append(m.hs, nil))
			return
		}
		es := slices.Clone(m.entries)
		if len(es) > 0 && rapid.IntRange(0, 3).Draw(t, "conflict") == 0 { // entries of another leader
			if cut := rapid.IntRange(0, len(es)-1).Draw(t, "cut"); es[cut].Index > m.hs.Commit {
				m.hs.Term++
				es = es[:cut]
			}
		}
		m.entries = es
		index, _ = m.last()
		fresh := entries(index+1, index+uint64(n), m.hs.Term)
		m.entries = append(es, fresh...)
		require.NoError(t, w.Append(m.hs, fresh))
	}
}
