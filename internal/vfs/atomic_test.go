package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// read reads a file, or says "missing".
func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	require.NoError(t, err)
	return string(data)
}

func list(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	require.NoError(t, err)
	return names
}

func TestWriteFileAtomic(t *testing.T) {
	f := func(t *testing.T, fsys vfs.FS, dir string) {
		name := dir + "/topics.json"
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte("1"), true))
		require.Equal(t, []string{"topics.json"}, list(t, fsys, dir))
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte("2"), true))
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte("3"), false))
		require.Equal(t, "3", read(t, fsys, name))
		require.Equal(t, "1", read(t, fsys, name+vfs.BackupSuffix))
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, nil, true))
		require.Empty(t, read(t, fsys, name))
		require.Equal(t, "3", read(t, fsys, name+vfs.BackupSuffix))
		require.Equal(t, []string{"topics.json", "topics.json.bak"}, list(t, fsys, dir))
	}
	t.Run("disk", func(t *testing.T) { f(t, vfs.OS, t.TempDir()) })
	t.Run("memory", func(t *testing.T) { f(t, vfs.NewMem(), "/") })
}

func TestWriteFileAtomicTakesStaleTemporaryFilesAway(t *testing.T) {
	f := func(backup bool) {
		t.Helper()
		m := vfs.NewMem()
		for _, name := range []string{"/f.tmp", "/f.bak.tmp"} {
			file, err := m.Create(name)
			require.NoError(t, err)
			_, err = file.WriteAt([]byte("stale and longer than the new content"), 0)
			require.NoError(t, err)
			require.NoError(t, file.Close())
		}
		require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("new"), backup))
		require.Equal(t, []string{"f"}, list(t, m, "/"))
		require.Equal(t, "new", read(t, m, "/f"))
	}
	f(true)
	f(false)
}

// crashEverywhere runs op with a crash clone taken before each of its file operations and after the last.
func crashEverywhere(
	m *vfs.MemFS, seeds uint64, op func(fsys vfs.FS) error,
) (clones []*vfs.MemFS, err error) {
	snap := func() {
		for seed := range seeds {
			clones = append(clones, m.CrashClone(seed))
		}
	}
	err = op(errorfs.Wrap(m, errorfs.Func(func(errorfs.Op) error {
		snap()
		return nil
	})))
	snap()
	return clones, err
}

func TestWriteFileAtomicSurvivesACrashAnywhere(t *testing.T) {
	m := vfs.NewMem()
	require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("older"), true))
	require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("old"), true))
	clones, err := crashEverywhere(m, 30, func(fsys vfs.FS) error {
		return vfs.WriteFileAtomic(fsys, "/f", []byte("new"), true)
	})
	require.NoError(t, err)
	seen := make(map[string]int)
	for _, c := range clones {
		state := read(t, c, "/f") + " " + read(t, c, "/f.bak")
		seen[state]++
		// The next save on what the crash left works and tidies up.
		require.NoError(t, vfs.WriteFileAtomic(c, "/f", []byte("next"), true))
		require.Equal(t, []string{"f", "f.bak"}, list(t, c, "/"))
		require.Equal(t, "next", read(t, c, "/f"))
	}
	for state := range seen {
		require.Contains(t, []string{"old older", "new older", "new old"}, state)
	}
	require.Len(t, seen, 3)
	for _, c := range clones[len(clones)-30:] { // after success
		require.Equal(t, "next", read(t, c, "/f"))
		require.Equal(t, "new", read(t, c, "/f.bak"))
	}
}

// Every single operation fails once: the answer is an error, one whole content stands, and nothing
// temporary stays.
func TestWriteFileAtomicFailsCleanly(t *testing.T) {
	for nth := 1; ; nth++ {
		m := vfs.NewMem()
		require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("older"), true))
		require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("old"), true))
		rules := errorfs.MustParse(fmt.Sprintf("(any nth %d err EIO)", nth))
		err := vfs.WriteFileAtomic(errorfs.Wrap(m, rules), "/f", []byte("new"), true)
		if rules.Fired(0) == 0 {
			require.NoError(t, err)
			require.Greater(t, nth, 10)
			return
		}
		require.ErrorIs(t, err, syscall.EIO, "operation %d", nth)
		require.Equal(t, []string{"f", "f.bak"}, list(t, m, "/"), "operation %d", nth)
		require.Contains(t, []string{"old", "new"}, read(t, m, "/f"))
		require.Contains(t, []string{"older", "old"}, read(t, m, "/f.bak"))
		files, mappings := m.Handles()
		require.Zero(t, files+mappings)
	}
}

func TestWriteFileAtomicOnFullDisk(t *testing.T) {
	m := vfs.NewMem()
	require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("old"), false))
	m.SetLimit(2 * vfs.PageSize)
	err := vfs.WriteFileAtomic(m, "/f", make([]byte, 3*vfs.PageSize), true)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, "old", read(t, m, "/f"))
	require.Equal(t, []string{"f"}, list(t, m, "/"))
	require.EqualValues(t, vfs.PageSize, m.UsedBytes())
}

func TestReadFileLimit(t *testing.T) {
	m := vfs.NewMem()
	file, err := m.Create("/f")
	require.NoError(t, err)
	require.NoError(t, file.Truncate(vfs.MaxReadFileBytes+1))
	require.NoError(t, file.Close())
	_, err = vfs.ReadFile(m, "/f")
	require.ErrorContains(t, err, "/f has 1073741825 bytes")
	_, err = vfs.ReadFile(m, "/")
	require.ErrorIs(t, err, syscall.EISDIR)
}

func TestMkdirAllSync(t *testing.T) {
	m := vfs.NewMem()
	clones, err := crashEverywhere(m, 20, func(fsys vfs.FS) error {
		return vfs.MkdirAllSync(fsys, "/a/b/c")
	})
	require.NoError(t, err)
	exists := func(c *vfs.MemFS) bool {
		_, err := c.Stat("/a/b/c")
		return err == nil
	}
	require.True(t, slices.ContainsFunc(clones, func(c *vfs.MemFS) bool { return !exists(c) }))
	for _, c := range clones[len(clones)-20:] {
		require.True(t, exists(c))
	}
	require.Error(t, vfs.MkdirAllSync(errorfs.Wrap(m, errorfs.MustParse(`(syncdir err EIO)`)), "/x"))
	require.NoError(t, vfs.WriteFileAtomic(m, "/file", nil, false))
	require.ErrorIs(t, vfs.MkdirAllSync(m, "/file/d"), syscall.ENOTDIR)
	require.NoError(t, vfs.MkdirAllSync(m, "/"))
	require.NoError(t, vfs.MkdirAllSync(m, "relative"))
}
