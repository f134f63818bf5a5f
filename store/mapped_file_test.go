package store

import (
	"bytes"
	"path"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// waitUnmapped waits for the unmapping goroutines of released files.
func waitUnmapped(t *testing.T, live *atomic.Int64, want int64) {
	t.Helper()
	require.Eventually(t, func() bool { return live.Load() == want }, testWait, testTick)
}

func TestMappedFileAppend(t *testing.T) {
	f := func(fs vfs.FS, dir string, size int64, reserve bool) {
		t.Helper()
		var live atomic.Int64
		mf, err := createMappedFile(fs, path.Join(dir, "00000000000000000000"), 0, size, reserve, &live)
		require.NoError(t, err)
		record := bytes.Repeat([]byte{7}, 1000)
		n := int64(0)
		for ; n+1000 <= size; n += 1000 {
			require.NoError(t, mf.append(record))
		}
		require.Equal(t, n, mf.wrotePosition.Load())
		require.ErrorIs(t, mf.append(record), errFileFull)
		require.NoError(t, mf.append(record[:size-n]))
		require.True(t, mf.full())

		b, ok := mf.slice(1000, 500)
		require.True(t, ok)
		require.Equal(t, record[:500], b)
		_, ok = mf.slice(size-10, 11)
		require.False(t, ok, "behind the end")
		require.NoError(t, mf.flush())
		require.Equal(t, size, mf.flushedPosition.Load())

		// The reader keeps the bytes when the file is deleted.
		require.NoError(t, mf.destroy())
		_, err = fs.Stat(mf.path)
		require.ErrorIs(t, err, syscall.ENOENT)
		require.Equal(t, record[:500], b)
		mf.Release()
		require.False(t, mf.Acquire())
		waitUnmapped(t, &live, 0)
	}
	f(vfs.NewMem(), "/", 5000, true)
	f(vfs.NewMem(), "/", 5000, false)
	f(vfs.NewMem(), "/", 3*firstReserveBytes, false)
	f(vfs.OS, t.TempDir(), 5000, true)
	f(vfs.OS, t.TempDir(), 20*firstReserveBytes, false)
}

func TestMappedFileDiskFull(t *testing.T) {
	var live atomic.Int64
	fs := vfs.NewMemWith(vfs.MemOptions{LimitBytes: 100 << 10})
	_, err := createMappedFile(fs, "/0", 0, 200<<10, true, &live)
	require.ErrorIs(t, err, syscall.ENOSPC)
	names, err := fs.List("/")
	require.NoError(t, err)
	require.Empty(t, names, "nothing may stay behind")

	// A sparse file is made, and fails when it needs blocks, not by a signal.
	mf, err := createMappedFile(fs, "/0", 0, 200<<10, false, &live)
	require.NoError(t, err)
	require.NoError(t, mf.append(make([]byte, firstReserveBytes)))
	require.ErrorIs(t, mf.append([]byte{1}), syscall.ENOSPC)
	require.EqualValues(t, firstReserveBytes, mf.wrotePosition.Load())
	fs.SetLimit(0)
	require.NoError(t, mf.append([]byte{1}))
	mf.Release()
	waitUnmapped(t, &live, 0)
}

func TestMappedFileCut(t *testing.T) {
	f := func(fs vfs.FS, dir string) {
		t.Helper()
		var live atomic.Int64
		mf, err := createMappedFile(fs, path.Join(dir, "0"), 0, 10000, true, &live)
		require.NoError(t, err)
		require.NoError(t, mf.append(bytes.Repeat([]byte{9}, 9000)))
		require.NoError(t, mf.flush())
		require.NoError(t, mf.cut(5000))
		require.EqualValues(t, 5000, mf.wrotePosition.Load())
		require.Equal(t, bytes.Repeat([]byte{9}, 5000), mf.data()[:5000])
		require.Equal(t, make([]byte, 5000), mf.data()[5000:])
		require.NoError(t, mf.append([]byte{1, 2, 3}))
		require.NoError(t, mf.flush())
		require.NoError(t, mf.clearTail(4000))
		require.Equal(t, make([]byte, 6000), mf.data()[4000:])
		mf.Release()
		waitUnmapped(t, &live, 0)
	}
	f(vfs.NewMem(), "/")
	f(vfs.OS, t.TempDir())
}

func TestMappedFileAppendAllocatesNothing(t *testing.T) {
	var live atomic.Int64
	mf, err := createMappedFile(vfs.NewMem(), "/0", 0, 1<<20, true, &live)
	require.NoError(t, err)
	record := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if err := mf.append(record); err != nil {
			t.Error(err)
		}
	}))
	mf.Release()
	waitUnmapped(t, &live, 0)
}
