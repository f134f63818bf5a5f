package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// ErrMemoryLock answers Memory.Lock and Mapping.Lock when the process may not lock that much (RLIMIT_MEMLOCK, which a
// container usually leaves at 8 MiB). The range can be used all the same; the kernel may swap it out.
var ErrMemoryLock = errors.New("vfs: more memory than this process may lock")

// Memory is a run of zeroed bytes outside of the Go heap: the collector neither scans nor counts it, and a system call
// may read it while other goroutines run. Pages take memory from their first touch on.
type Memory struct {
	data   mmap.MMap
	closed atomic.Bool
}

// NewMemory reserves size bytes of address space. Free gives them back.
func NewMemory(size int64) (*Memory, error) {
	if size <= 0 {
		return nil, memoryError("mmap", syscall.EINVAL)
	}
	data, err := mmap.MapRegion(nil, int(size), mmap.COPY, mmap.ANON, 0)
	if err != nil {
		return nil, memoryError("mmap", fmt.Errorf("%d bytes: %w", size, err))
	}
	return &Memory{data: data}, nil
}

// Bytes is the memory; it must not be touched after Free.
func (m *Memory) Bytes() []byte { return m.data }

// Populate faults the pages of [off, off+n) in, so that whoever writes there first meets no page fault.
func (m *Memory) Populate(off, n int64) error {
	size := int64(len(m.data))
	if m.closed.Load() {
		return memoryError("madvise", fs.ErrClosed)
	}
	if off < 0 || n < 0 || off > size || n > size-off {
		return memoryError("madvise", fmt.Errorf("[%d,+%d) of %d bytes: %w", off, n, size, ErrMapRange))
	}
	if n == 0 {
		return nil
	}
	start := off / osPageSize * osPageSize
	pages := m.data[start : off+n]
	if err := retryInterrupted(func() error { return madvise(pages, AdvisePopulateWrite) }); err != nil {
		return memoryError("madvise", err)
	}
	return nil
}

// Lock pins every page from its first touch on. ErrMemoryLock: the limit of the process does not allow it.
func (m *Memory) Lock() error {
	if m.closed.Load() {
		return memoryError("mlock", fs.ErrClosed)
	}
	if err := retryInterrupted(func() error { return lockOnFault(m.data) }); err != nil {
		return memoryError("mlock", memlockError(err))
	}
	return nil
}

// Free gives the memory back; a second call is fs.ErrClosed.
func (m *Memory) Free() error {
	if !m.closed.CompareAndSwap(false, true) {
		return memoryError("munmap", fs.ErrClosed)
	}
	if err := m.data.Unmap(); err != nil {
		return memoryError("munmap", err)
	}
	return nil
}

// memlockError adds ErrMemoryLock to what the kernel says beyond the limit: ENOMEM, EPERM with a limit of 0, EAGAIN for a
// part that could not be locked.
func memlockError(err error) error {
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EAGAIN) {
		return fmt.Errorf("%w: %w", ErrMemoryLock, err)
	}
	return err
}

func memoryError(op string, err error) error {
	return &fs.PathError{Op: op, Path: "anonymous memory", Err: err}
}
