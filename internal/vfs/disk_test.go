package vfs

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newDiskFile creates a file of the given size, reserved.
func newDiskFile(t *testing.T, size int64) *diskFile {
	t.Helper()
	file, err := OS.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	require.NoError(t, file.Allocate(0, size))
	return file.(*diskFile)
}

func mustMap(t *testing.T, f File, size int64, writable bool) Mapping {
	t.Helper()
	m, err := f.Map(size, writable)
	require.NoError(t, err)
	return m
}

func TestDiskMappingAndFileAgree(t *testing.T) {
	size := 4*osPageSize + 100
	file := newDiskFile(t, size)
	a := mustMap(t, file, size, true)
	b := mustMap(t, file, size, false)
	require.Len(t, a.Bytes(), int(size))

	copy(a.Bytes()[osPageSize:], "stored")
	require.Equal(t, "stored", string(b.Bytes()[osPageSize:osPageSize+6]))
	got := make([]byte, 6)
	_, err := file.ReadAt(got, osPageSize)
	require.NoError(t, err)
	require.Equal(t, "stored", string(got))
	_, err = file.WriteAt([]byte("written"), size-7)
	require.NoError(t, err)
	require.Equal(t, "written", string(a.Bytes()[size-7:]))

	require.NoError(t, a.Sync(osPageSize+1, 5))
	require.NoError(t, a.Sync(0, size))
	require.NoError(t, a.Sync(size, 0))
	require.ErrorIs(t, a.Sync(1, size), ErrMapRange)
	require.ErrorIs(t, a.Sync(-1, 1), ErrMapRange)
	require.NoError(t, file.Sync())
	require.NoError(t, a.Lock(0, osPageSize))
	require.NoError(t, a.Unlock(0, osPageSize))

	require.NoError(t, a.Unmap())
	require.ErrorIs(t, a.Unmap(), fs.ErrClosed)
	require.ErrorIs(t, a.Sync(0, 1), fs.ErrClosed)
	require.NoError(t, b.Unmap())
}

func TestDiskAdvise(t *testing.T) {
	size := 8 * osPageSize
	file := newDiskFile(t, size)
	m := mustMap(t, file, size, true)
	readOnly := mustMap(t, file, size, false)
	copy(m.Bytes(), "keep")

	f := func(a Advice) {
		t.Helper()
		require.NoError(t, m.Advise(1, size-1, a))
		require.Equal(t, "keep", string(m.Bytes()[:4]))
	}
	f(AdviseNormal)
	f(AdviseRandom)
	f(AdviseSequential)
	f(AdviseWillNeed)
	f(AdvisePopulateRead)
	f(AdvisePopulateWrite)
	f(AdviseDontNeed)
	require.Error(t, m.Advise(0, size, Advice(99)))
	require.ErrorIs(t, readOnly.Advise(0, size, AdvisePopulateWrite), fs.ErrPermission)
	require.NoError(t, readOnly.Advise(0, size, AdvisePopulateRead))
	require.NoError(t, readOnly.Unmap())
	require.NoError(t, m.Unmap())
}

// A touch for writing runs beside stores of another goroutine into the same words and must lose none.
func TestDiskTouchKeepsConcurrentStores(t *testing.T) {
	size := 2 * osPageSize
	file := newDiskFile(t, size)
	m := mustMap(t, file, size, true)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 20000 {
			touch(m.Bytes(), true)
		}
	})
	for i := range 20000 {
		b := byte(i)
		m.Bytes()[0], m.Bytes()[osPageSize] = b, b
		require.Equal(t, b, m.Bytes()[0])
		require.Equal(t, b, m.Bytes()[osPageSize])
	}
	wg.Wait()
	touch(m.Bytes(), false)
	require.NoError(t, m.Unmap())
}

func TestDiskMapRefusesWhatWouldRaiseSIGBUS(t *testing.T) {
	file := newDiskFile(t, 3*osPageSize)
	_, err := file.Map(3*osPageSize+1, true)
	require.ErrorIs(t, err, ErrMapRange)
	_, err = file.Map(0, true)
	require.ErrorIs(t, err, ErrMapRange)

	m := mustMap(t, file, 2*osPageSize, true)
	small := mustMap(t, file, osPageSize, false)
	require.NoError(t, file.Truncate(2*osPageSize))
	require.ErrorIs(t, file.Truncate(osPageSize), ErrMapped)
	again, err := OS.OpenReadWrite(file.Name())
	require.NoError(t, err)
	require.ErrorIs(t, again.Truncate(0), ErrMapped)
	require.NoError(t, again.Close())
	_, err = OS.Create(file.Name())
	require.ErrorIs(t, err, ErrMapped)

	require.NoError(t, m.Unmap())
	require.NoError(t, file.Truncate(osPageSize))
	require.ErrorIs(t, file.Truncate(0), ErrMapped)
	require.NoError(t, small.Unmap())
	require.NoError(t, file.Truncate(0))
	require.Empty(t, mapped.sizes)
}

func TestDiskMappingOutlivesItsFile(t *testing.T) {
	file := newDiskFile(t, osPageSize)
	m := mustMap(t, file, osPageSize, true)
	require.NoError(t, file.Close())
	require.NoError(t, OS.Remove(file.Name()))
	m.Bytes()[0] = 1
	require.NoError(t, m.Sync(0, osPageSize))
	require.NoError(t, m.Unmap())
}

func TestDiskResident(t *testing.T) {
	size := 1500 * osPageSize // more pages than one mincore call asks about
	file := newDiskFile(t, size)
	m := mustMap(t, file, size, true)
	if _, err := m.Resident(0, 1); err != nil {
		require.NoError(t, m.Unmap())
		t.Skipf("this system does not tell: %v", err)
	}
	require.NoError(t, m.Advise(0, size, AdvisePopulateWrite))
	f := func(off, n int64) {
		t.Helper()
		resident, err := m.Resident(off, n)
		require.NoError(t, err)
		require.True(t, resident)
	}
	f(0, size)
	f(0, 0)
	f(osPageSize-1, 2)
	f(size-1, 1)
	_, err := m.Resident(0, size+1)
	require.ErrorIs(t, err, ErrMapRange)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = m.Resident(osPageSize, 16*osPageSize) }))
	require.NoError(t, m.Unmap())
}

func TestDiskAllocateKeepsContent(t *testing.T) {
	f := func(t *testing.T, allocate func(file *diskFile, off, n int64) error) {
		file, err := OS.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()
		const size = 3*zeroChunk + 123
		require.NoError(t, file.Truncate(size/2)) // a hole, as Java leaves it
		_, err = file.WriteAt([]byte("here"), 10*PageSize+5)
		require.NoError(t, err)
		require.NoError(t, allocate(file.(*diskFile), PageSize/2, size-PageSize/2))
		info, err := file.Stat()
		require.NoError(t, err)
		require.EqualValues(t, size, info.Size())
		want := make([]byte, size)
		copy(want[10*PageSize+5:], "here")
		got, err := ReadFile(OS, file.Name())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
	t.Run("fallocate", func(t *testing.T) {
		f(t, func(file *diskFile, off, n int64) error { return file.Allocate(off, n) })
	})
	t.Run("writing", func(t *testing.T) {
		f(t, func(file *diskFile, off, n int64) error {
			info, err := file.Stat()
			require.NoError(t, err)
			return allocateByWriting(file.f, info.Size(), off, n)
		})
	})
}

func TestDiskNames(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "a", "b")
	require.NoError(t, MkdirAllSync(OS, sub))
	require.NoError(t, MkdirAllSync(OS, sub))
	for _, name := range []string{"2", "1", "3"} {
		file, err := OS.Create(filepath.Join(sub, name))
		require.NoError(t, err)
		require.Positive(t, file.Fd())
		require.NoError(t, file.Close())
	}
	require.NoError(t, OS.Rename(filepath.Join(sub, "3"), filepath.Join(sub, "0")))
	require.NoError(t, OS.SyncDir(sub))
	names, err := OS.List(sub)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, names)
	_, err = OS.Open(sub)
	require.Error(t, err)

	when := time.Unix(1_700_000_000, 0)
	require.NoError(t, OS.Chtimes(filepath.Join(sub, "1"), when))
	info, err := OS.Stat(filepath.Join(sub, "1"))
	require.NoError(t, err)
	require.True(t, when.Equal(info.ModTime()))
	require.NoError(t, OS.Remove(filepath.Join(sub, "1")))
	require.NoError(t, OS.RemoveAll(filepath.Join(dir, "a")))
	require.NoError(t, OS.RemoveAll(filepath.Join(dir, "a")))
	_, err = OS.Stat(sub)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = OS.Open(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDiskUsage(t *testing.T) {
	usage, err := OS.Usage(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, usage.TotalBytes)
	require.LessOrEqual(t, usage.FreeBytes, usage.TotalBytes)
	require.Positive(t, usage.UsedRatio)
	require.LessOrEqual(t, usage.UsedRatio, 1.0)
	_, err = OS.Usage("/no/such/path")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestNewDiskUsage(t *testing.T) {
	f := func(total, free, available uint64, ratio float64) {
		t.Helper()
		usage := NewDiskUsage(total, free, available)
		require.Equal(t, DiskUsage{TotalBytes: total, FreeBytes: available, UsedRatio: ratio}, usage)
	}
	f(1000, 1000, 1000, 0)
	f(1000, 500, 500, 0.5)
	f(1000, 499, 499, 0.51) // rounded up, as df and Java
	f(1000, 50, 0, 1)       // the rest is for root
	f(1000, 100, 50, 0.95)
	f(0, 0, 0, 0)
}

func TestDiskClosedFile(t *testing.T) {
	file := newDiskFile(t, 10)
	require.NoError(t, file.Close())
	require.ErrorIs(t, file.Close(), fs.ErrClosed)
	require.ErrorIs(t, file.Sync(), fs.ErrClosed)
	require.ErrorIs(t, file.Truncate(0), fs.ErrClosed)
	require.ErrorIs(t, file.Allocate(0, 1), fs.ErrClosed)
	_, err := file.Map(1, true)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = file.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = file.Stat()
	require.ErrorIs(t, err, fs.ErrClosed)
}

func TestReadFileOfDisk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(name, []byte("text"), 0o644))
	data, err := ReadFile(OS, name)
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	_, err = ReadFile(OS, name+"x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	file, err := OS.Open(name)
	require.NoError(t, err)
	_, err = file.ReadAt(make([]byte, 9), 0)
	require.Equal(t, io.EOF, err)
	_, err = file.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	_, err = file.Map(4, true)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NoError(t, file.Close())
}

func TestPrewrite(t *testing.T) {
	f := func(fsys FS, dir string) {
		t.Helper()
		name := filepath.ToSlash(filepath.Join(dir, "f"))
		file, err := fsys.Create(name)
		require.NoError(t, err)
		require.NoError(t, file.Allocate(0, 100_000))
		_, err = file.WriteAt([]byte("record"), 9_000)
		require.NoError(t, err)
		require.NoError(t, file.Prewrite(5_000, 95_000))
		got := make([]byte, 6)
		_, err = file.ReadAt(got, 9_000)
		require.NoError(t, err)
		require.Equal(t, "record", string(got))
		require.Error(t, file.Prewrite(-1, 10))
		require.Error(t, file.Prewrite(0, 0))
		require.NoError(t, file.Close())
		require.Error(t, file.Prewrite(0, 10))
	}
	f(OS, t.TempDir())
	f(NewMem(), "/")
}
