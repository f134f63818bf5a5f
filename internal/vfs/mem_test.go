package vfs

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// put makes a file with this content, neither synced nor named durably.
func put(t *testing.T, fsys FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// putSync is put made durable, name included.
func putSync(t *testing.T, fsys FS, name, content string) {
	t.Helper()
	require.NoError(t, writeFileSync(fsys, name, []byte(content)))
	require.NoError(t, fsys.SyncDir("/"))
}

// get reads a file, or says "missing".
func get(t *testing.T, fsys FS, name string) string {
	t.Helper()
	data, err := ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	require.NoError(t, err)
	return string(data)
}

func requireNoHandles(t *testing.T, m *MemFS) {
	t.Helper()
	files, mappings := m.Handles()
	require.Zero(t, files)
	require.Zero(t, mappings)
}

func TestMemMappingsAndFileShareBytes(t *testing.T) {
	m := NewMem()
	f, err := m.Create("/f")
	require.NoError(t, err)
	for i := range int64(5) { // several extents, so that Map has to join them
		_, err = f.WriteAt([]byte{byte(i + 1)}, i*3*PageSize)
		require.NoError(t, err)
	}
	require.NoError(t, f.Allocate(0, 12*PageSize+1))
	a := mustMap(t, f, 12*PageSize+1, true)
	b := mustMap(t, f, PageSize, false)
	require.Equal(t, byte(5), a.Bytes()[12*PageSize])

	copy(a.Bytes()[10:], "stored")
	require.Equal(t, "stored", string(b.Bytes()[10:16]))
	got := make([]byte, 6)
	_, err = f.ReadAt(got, 10)
	require.NoError(t, err)
	require.Equal(t, "stored", string(got))
	_, err = f.WriteAt([]byte("written"), 20)
	require.NoError(t, err)
	require.Equal(t, "written", string(a.Bytes()[20:27]))

	// Growth does not move what is mapped.
	_, err = f.WriteAt([]byte("far"), 40*PageSize)
	require.NoError(t, err)
	a.Bytes()[0] = 77
	_, err = f.ReadAt(got[:1], 0)
	require.NoError(t, err)
	require.Equal(t, byte(77), got[0])

	require.NoError(t, a.Unmap())
	require.NoError(t, b.Unmap())
	require.NoError(t, f.Close())
	require.Equal(t, "stored", get(t, m, "/f")[10:16])
	requireNoHandles(t, m)
}

func TestMemMapLimits(t *testing.T) {
	m := NewMem()
	f, err := m.Create("/f")
	require.NoError(t, err)
	_, err = f.Map(1, true)
	require.ErrorIs(t, err, ErrMapRange)
	require.NoError(t, f.Truncate(3*PageSize))
	_, err = f.Map(3*PageSize, true)
	require.ErrorIs(t, err, ErrHole)
	require.NoError(t, f.Allocate(0, 2*PageSize))
	grown := mustMap(t, f, 3*PageSize, false)
	view := mustMap(t, f, 2*PageSize, true)
	require.NoError(t, f.Allocate(0, 3*PageSize))
	larger := mustMap(t, f, 3*PageSize, true) // a growing view of a file whose length was set first
	require.ErrorIs(t, f.Truncate(2*PageSize), ErrMapped)
	_, err = m.Create("/f")
	require.ErrorIs(t, err, ErrMapped)
	require.NoError(t, larger.Unmap())
	require.NoError(t, grown.Unmap())
	require.NoError(t, f.Truncate(2*PageSize))
	require.NoError(t, f.Truncate(20<<20))
	_, err = f.Map(20<<20, false) // the documented gap: the bytes would have to move
	require.ErrorIs(t, err, ErrMapRange)
	require.NoError(t, view.Unmap())
	require.NoError(t, f.Close())
	requireNoHandles(t, m)
}

func TestMemPoisonsAfterLastUnmap(t *testing.T) {
	m := NewMem()
	put(t, m, "/f", "content")
	f, err := m.OpenReadWrite("/f")
	require.NoError(t, err)
	a, b := mustMap(t, f, 7, true), mustMap(t, f, 7, true)
	stale := a.Bytes()
	require.NoError(t, a.Unmap())
	require.Equal(t, "content", string(stale))
	require.NoError(t, b.Unmap())
	require.Equal(t, byte(poisonByte), stale[0])
	require.NoError(t, f.Close())
	require.Equal(t, "content", get(t, m, "/f"))
}

func TestMemHandles(t *testing.T) {
	m := NewMem()
	put(t, m, "/f", "x")
	f, err := m.Open("/f")
	require.NoError(t, err)
	require.Equal(t, -1, f.Fd())
	require.Equal(t, "/f", f.Name())
	_, err = f.WriteAt([]byte("y"), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	require.ErrorIs(t, f.Truncate(0), syscall.EINVAL)
	require.ErrorIs(t, f.Allocate(0, 1), syscall.EBADF)
	_, err = f.Map(1, true)
	require.ErrorIs(t, err, fs.ErrPermission)
	mapping := mustMap(t, f, 1, false)
	require.ErrorIs(t, mapping.Advise(0, 1, AdvisePopulateWrite), fs.ErrPermission)
	require.NoError(t, mapping.Advise(0, 1, AdvisePopulateRead))
	require.Error(t, mapping.Advise(0, 1, Advice(99)))
	require.ErrorIs(t, mapping.Sync(0, 2), ErrMapRange)
	require.NoError(t, mapping.Lock(0, 1))
	require.NoError(t, mapping.Unlock(0, 1))
	files, mappings := m.Handles()
	require.Equal(t, []int{1, 1}, []int{files, mappings})
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
	require.ErrorIs(t, f.Sync(), fs.ErrClosed)
	require.NoError(t, mapping.Unmap())
	require.ErrorIs(t, mapping.Unmap(), fs.ErrClosed)
	require.ErrorIs(t, mapping.Sync(0, 1), fs.ErrClosed)
	_, err = mapping.Resident(0, 1)
	require.ErrorIs(t, err, fs.ErrClosed)
	requireNoHandles(t, m)
}

func TestMemFullDisk(t *testing.T) {
	m := NewMemWith(MemOptions{LimitBytes: 10 * PageSize})
	f, err := m.Create("/f")
	require.NoError(t, err)
	require.NoError(t, f.Allocate(0, 4*PageSize))
	require.NoError(t, f.Allocate(PageSize, 3*PageSize)) // paid for already
	require.EqualValues(t, 4*PageSize, m.UsedBytes())
	require.ErrorIs(t, f.Allocate(0, 11*PageSize), syscall.ENOSPC)
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 4*PageSize, info.Size())

	n, err := f.WriteAt(make([]byte, 8*PageSize), 3*PageSize+1) // what fits is written, as on a disk
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 7*PageSize-1, n)
	_, err = m.Create("/g")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, m.MkdirAll("/d"), syscall.ENOSPC)
	_, err = f.WriteAt([]byte("x"), 0) // no new page
	require.NoError(t, err)
	usage, err := m.Usage("/")
	require.NoError(t, err)
	require.Equal(t, DiskUsage{TotalBytes: 10 * PageSize, UsedRatio: 1}, usage)

	// A removed file keeps its space until it is closed.
	mapping := mustMap(t, f, PageSize, true)
	require.NoError(t, m.Remove("/f"))
	require.NoError(t, f.Close())
	require.EqualValues(t, 10*PageSize, m.UsedBytes())
	require.NoError(t, mapping.Unmap())
	require.Zero(t, m.UsedBytes())

	put(t, m, "/g", "x")
	m.SetLimit(PageSize)
	_, err = m.Create("/h")
	require.ErrorIs(t, err, syscall.ENOSPC)
	m.SetLimit(0)
	put(t, m, "/h", "x")
	m.SetUsage(&DiskUsage{TotalBytes: 100, FreeBytes: 10, UsedRatio: 0.9})
	usage, err = m.Usage("/h")
	require.NoError(t, err)
	require.InDelta(t, 0.9, usage.UsedRatio, 0)
	m.SetUsage(nil)
	usage, err = m.Usage("/h")
	require.NoError(t, err)
	require.EqualValues(t, unlimitedBytes, usage.TotalBytes)
	_, err = m.Usage("/missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestMemTruncateGivesSpaceBack(t *testing.T) {
	m := NewMem()
	f, err := m.Create("/f")
	require.NoError(t, err)
	require.NoError(t, f.Allocate(0, 200*PageSize))
	require.NoError(t, f.Truncate(100*PageSize+1))
	require.EqualValues(t, 101*PageSize, m.UsedBytes())
	require.NoError(t, f.Truncate(0))
	require.Zero(t, m.UsedBytes())
	require.NoError(t, f.Truncate(PageSize))
	require.Zero(t, m.UsedBytes())
	require.NoError(t, f.Close())
	require.NoError(t, m.Remove("/f"))
	require.Zero(t, m.UsedBytes())
}

func TestMemWildOffsets(t *testing.T) {
	m := NewMem()
	f, err := m.Create("/f")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), maxMemFile)
	require.ErrorIs(t, err, syscall.EFBIG)
	_, err = f.WriteAt([]byte("x"), 1<<63-1)
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorIs(t, f.Truncate(maxMemFile+1), syscall.EFBIG)
	require.ErrorIs(t, f.Allocate(1, maxMemFile), syscall.EFBIG)
	require.ErrorIs(t, f.Allocate(1<<62, 1<<62+(1<<62-1)), syscall.EFBIG)
	_, err = f.ReadAt(make([]byte, 1), 1<<62)
	require.Equal(t, io.EOF, err)
	_, err = f.ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
	require.NoError(t, f.Close())
}

func TestMemLock(t *testing.T) {
	m := NewMem()
	held, err := m.Lock("/lock")
	require.NoError(t, err)
	_, err = m.Lock("/./lock")
	require.ErrorIs(t, err, ErrLocked)
	put(t, m, "/lock", "lock")
	clone, err := m.CloneAll().Lock("/lock") // the lock does not outlive its process
	require.NoError(t, err)
	require.NoError(t, clone.Close())
	require.NoError(t, held.Close())
	require.ErrorIs(t, held.Close(), fs.ErrClosed)
	held, err = m.Lock("/lock")
	require.NoError(t, err)
	require.NoError(t, held.Close())
	_, err = m.Lock("/missing/lock")
	require.ErrorIs(t, err, fs.ErrNotExist)
	requireNoHandles(t, m)
}

func TestMemTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMem()
		mtime := func() time.Time {
			info, err := m.Stat("/f")
			require.NoError(t, err)
			return info.ModTime()
		}
		put(t, m, "/f", "abc")
		created := mtime()
		require.True(t, created.Equal(time.Now()))
		f, err := m.OpenReadWrite("/f")
		require.NoError(t, err)
		mapping := mustMap(t, f, 3, true)
		require.NoError(t, f.Sync())
		time.Sleep(time.Hour) // fake time
		require.NoError(t, mapping.Sync(0, 3))
		require.True(t, created.Equal(mtime()), "nothing was stored")
		mapping.Bytes()[0] = 'x'
		require.NoError(t, mapping.Sync(0, 3))
		require.True(t, time.Now().Equal(mtime()))
		old := time.Unix(1000, 0)
		require.NoError(t, m.Chtimes("/f", old))
		require.True(t, old.Equal(mtime()))
		require.NoError(t, m.Chtimes("/", old))
		clone := m.CloneAll()
		info, err := clone.Stat("/f")
		require.NoError(t, err)
		require.True(t, old.Equal(info.ModTime()))
		require.NoError(t, mapping.Unmap())
		require.NoError(t, f.Close())
	})
}

func TestMemResidentOption(t *testing.T) {
	m := NewMemWith(MemOptions{Resident: func(name string, off, n int64) (bool, error) {
		return off == 0, nil
	}})
	put(t, m, "/f", "abc")
	f, err := m.Open("/f")
	require.NoError(t, err)
	mapping := mustMap(t, f, 3, false)
	require.NoError(t, f.Close())
	for off := range int64(2) {
		resident, err := mapping.Resident(off, 1)
		require.NoError(t, err)
		require.Equal(t, off == 0, resident)
	}
	require.NoError(t, mapping.Unmap())
}

// Under the race detector: a flush of published bytes runs beside stores into the same page, and the file
// is read, grown and listed meanwhile.
func TestMemConcurrent(t *testing.T) {
	m := NewMem()
	f, err := m.Create("/f")
	require.NoError(t, err)
	require.NoError(t, f.Allocate(0, 4*PageSize))
	mapping := mustMap(t, f, 4*PageSize, true)
	published := make(chan int64, 16)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(published)
		for i := range int64(4 * PageSize / 64) {
			copy(mapping.Bytes()[i*64:], "record")
			published <- (i + 1) * 64
		}
	})
	wg.Go(func() {
		flushed := int64(0)
		for at := range published {
			require.NoError(t, mapping.Sync(flushed, at-flushed))
			flushed = at
			got := make([]byte, 6)
			_, err := f.ReadAt(got, at-64)
			require.NoError(t, err)
			require.Equal(t, "record", string(got))
			require.NoError(t, f.Sync())
		}
	})
	wg.Go(func() {
		for i := range int64(50) {
			_, err := f.WriteAt([]byte("tail"), (5+i)*PageSize)
			require.NoError(t, err)
			_ = m.CrashClone(uint64(i))
			put(t, m, "/g", "x")
			require.NoError(t, m.Rename("/g", "/h"))
			_, err = m.List("/")
			require.NoError(t, err)
		}
	})
	wg.Wait()
	require.NoError(t, mapping.Unmap())
	require.NoError(t, f.Close())
	requireNoHandles(t, m)
}
