package wal

import (
	"log/slog"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"skylark/internal/vfs"
)

// FuzzSegment: whatever the last segment holds, Open ends with an error or with a log that follows the snapshot without a
// gap, and opening what it left behind gives the same.
func FuzzSegment(f *testing.F) {
	fsys := vfs.NewMem()
	w, _ := open(f, fsys, 0)
	require.NoError(f, w.SaveSnapshot(snap(1, 1), true, raftpb.HardState{Term: 1, Commit: 1}))
	require.NoError(f, w.Append(raftpb.HardState{Term: 2, Vote: 3, Commit: 1}, entries(2, 4, 2)))
	require.NoError(f, w.Append(raftpb.HardState{}, entries(5, 6, 2)))
	require.NoError(f, w.Close())
	const name = dir + "/0000000000000001.wal"
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(f, err)
	f.Add(data)
	f.Add(data[:len(data)-5])
	f.Add([]byte{})
	snapshot, err := vfs.ReadFile(fsys, path.Join(dir, snapName(snap(1, 1).Metadata)))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll(dir))
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, data, false))
		require.NoError(t, vfs.WriteFileAtomic(fsys, path.Join(dir, snapName(snap(1, 1).Metadata)), snapshot, false))
		o := Options{FS: fsys, Dir: dir, Identity: me, Log: slog.New(slog.DiscardHandler)}
		w, rec, err := Open(o)
		if err != nil {
			return
		}
		require.NoError(t, w.Close())
		for i, e := range rec.Entries {
			require.Equal(t, uint64(i+2), e.Index)
		}
		w, again, err := Open(o)
		require.NoError(t, err)
		rec.TornBytes = 0
		require.Equal(t, rec, again)
		require.NoError(t, w.Close())
	})
}
