package vfs

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mountSmall mounts a tmpfs of size bytes, or skips the test where that is not allowed.
func mountSmall(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("skylark-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestDiskAllocateOnFullDisk(t *testing.T) {
	f := func(t *testing.T, allocate func(file *diskFile, n int64) error) {
		file, err := OS.Create(filepath.Join(mountSmall(t, "1m"), "file"))
		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()
		require.NoError(t, file.Allocate(0, 512<<10))
		err = allocate(file.(*diskFile), 2<<20)
		require.ErrorIs(t, err, syscall.ENOSPC)
		info, err := file.Stat()
		require.NoError(t, err)
		require.EqualValues(t, 512<<10, info.Size())
		require.NoError(t, file.Allocate(512<<10, 256<<10)) // nothing of the failed attempt is left
		usage, err := OS.Usage(file.Name())
		require.NoError(t, err)
		require.Equal(t, DiskUsage{TotalBytes: 1 << 20, FreeBytes: 256 << 10, UsedRatio: 0.75}, usage)
	}
	t.Run("fallocate", func(t *testing.T) {
		f(t, func(file *diskFile, n int64) error { return file.Allocate(0, n) })
	})
	t.Run("writing", func(t *testing.T) {
		f(t, func(file *diskFile, n int64) error {
			return file.allocateWith(0, n, func() error { return unix.EOPNOTSUPP })
		})
	})
}

// MADV_POPULATE_WRITE over a hole on a full disk is an error, where a plain store would be SIGBUS.
func TestDiskPopulateOnFullDisk(t *testing.T) {
	file, err := OS.Create(filepath.Join(mountSmall(t, "1m"), "file"))
	require.NoError(t, err)
	require.NoError(t, file.Truncate(2<<20))
	m := mustMap(t, file, 2<<20, true)
	if err := m.Advise(0, 2<<20, AdvisePopulateWrite); err != nil {
		require.NotErrorIs(t, err, fs.ErrPermission)
	} else {
		t.Error("2 MiB fit into 1 MiB")
	}
	require.NoError(t, m.Unmap())
	require.NoError(t, file.Close())
}
