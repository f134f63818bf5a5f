package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// osPageSize is the page of this machine; 16 KiB on Apple silicon, 4 or 64 KiB on linux/arm64.
var osPageSize = int64(os.Getpagesize())

// diskMapping is a shared mapping of a file of OS. It holds no descriptor.
type diskMapping struct {
	name     string
	id       fileID
	writable bool
	data     mmap.MMap
	closed   atomic.Bool
}

func newDiskMapping(f *os.File, id fileID, size int64, writable bool) (*diskMapping, error) {
	prot := mmap.RDONLY
	if writable {
		prot = mmap.RDWR
	}
	data, err := mmap.MapRegion(f, int(size), prot, 0, 0)
	if err != nil {
		return nil, err
	}
	return &diskMapping{name: f.Name(), id: id, writable: writable, data: data}, nil
}

// Bytes implements Mapping.
func (m *diskMapping) Bytes() []byte { return m.data }

// pages cuts [off, off+n), rounded out to pages, from the mapping.
func (m *diskMapping) pages(op string, off, n int64) ([]byte, error) {
	if m.closed.Load() {
		return nil, m.pathError(op, fs.ErrClosed)
	}
	size := int64(len(m.data))
	if off < 0 || n < 0 || off > size || n > size-off {
		return nil, m.pathError(op, fmt.Errorf("[%d,+%d) of %d bytes: %w", off, n, size, ErrMapRange))
	}
	start := off / osPageSize * osPageSize
	end := min((off+n+osPageSize-1)/osPageSize*osPageSize, size)
	return m.data[start:end], nil
}

// Sync implements Mapping.
func (m *diskMapping) Sync(off, n int64) error {
	return m.onPages("msync", off, n, msync)
}

// Lock implements Mapping.
func (m *diskMapping) Lock(off, n int64) error {
	return m.onPages("mlock", off, n, func(pages []byte) error {
		if err := lockOnFault(pages); err != nil {
			return memlockError(err)
		}
		return nil
	})
}

// Unlock implements Mapping.
func (m *diskMapping) Unlock(off, n int64) error {
	return m.onPages("munlock", off, n, unix.Munlock)
}

func (m *diskMapping) onPages(op string, off, n int64, call func([]byte) error) error {
	pages, err := m.pages(op, off, n)
	if err != nil || n == 0 {
		return err
	}
	if err := retryInterrupted(func() error { return call(pages) }); err != nil {
		return m.pathError(op, err)
	}
	return nil
}

// Advise implements Mapping.
func (m *diskMapping) Advise(off, n int64, a Advice) error {
	pages, err := m.pages("madvise", off, n)
	if err != nil || n == 0 {
		return err
	}
	if a == AdvisePopulateWrite && !m.writable {
		return m.pathError("madvise", fs.ErrPermission)
	}
	err = retryInterrupted(func() error { return madvise(pages, a) })
	if err != nil {
		return m.pathError("madvise", err)
	}
	return nil
}

// Resident implements Mapping. It allocates nothing.
func (m *diskMapping) Resident(off, n int64) (bool, error) {
	pages, err := m.pages("mincore", off, n)
	if err != nil {
		return false, err
	}
	if n == 0 {
		return true, nil
	}
	resident, err := mincore(pages)
	if err != nil {
		return false, m.pathError("mincore", err)
	}
	return resident, nil
}

// Unmap implements Mapping. A second call is fs.ErrClosed.
func (m *diskMapping) Unmap() error {
	if !m.closed.CompareAndSwap(false, true) {
		return m.pathError("munmap", fs.ErrClosed)
	}
	size := int64(len(m.data))
	if err := m.data.Unmap(); err != nil {
		return m.pathError("munmap", err)
	}
	mapped.remove(m.id, size)
	return nil
}

func (m *diskMapping) pathError(op string, err error) error {
	return &fs.PathError{Op: op, Path: m.name, Err: err}
}

// adviseDefault maps the hints that every unix has; ok is false for the two Populate hints.
func adviseDefault(a Advice) (flag int, ok bool) {
	switch a {
	case AdviseNormal:
		return unix.MADV_NORMAL, true
	case AdviseRandom:
		return unix.MADV_RANDOM, true
	case AdviseSequential:
		return unix.MADV_SEQUENTIAL, true
	case AdviseWillNeed:
		return unix.MADV_WILLNEED, true
	case AdviseDontNeed:
		return unix.MADV_DONTNEED, true
	default:
		return 0, false
	}
}

// touch faults every page in. For writing it adds zero with an atomic instruction: the page becomes dirty,
// the content stays, and a store by another goroutine at the same time is not lost.
func touch(pages []byte, write bool) {
	for pos := int64(0); pos < int64(len(pages)); pos += osPageSize {
		word := (*uint32)(unsafe.Pointer(&pages[pos]))
		if write {
			atomic.AddUint32(word, 0)
		} else {
			atomic.LoadUint32(word)
		}
	}
}
