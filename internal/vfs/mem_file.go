package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"
	"syscall"
)

// memFile is an open file of a MemFS.
type memFile struct {
	fs       *MemFS
	node     *memNode
	name     string
	writable bool
	closed   atomic.Bool
}

// newFile opens a node. The caller holds MemFS.mu.
func (m *MemFS) newFile(node *memNode, name string, writable bool) *memFile {
	node.opens++
	m.files++
	return &memFile{fs: m, node: node, name: name, writable: writable}
}

var errNegativeOffset = errors.New("negative offset")

// ReadAt implements io.ReaderAt.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, memError("readat", f.name, errNegativeOffset)
	}
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	return f.node.data.readAt(p, off) // io.EOF bare, as package os
}

// WriteAt implements io.WriterAt.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, memError("writeat", f.name, errNegativeOffset)
	}
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	n, err := f.node.data.writeAt(p, off, f.fs.opts.Now())
	if err != nil {
		err = memError("write", f.name, err)
	}
	return n, err
}

// Close implements io.Closer. A second call is fs.ErrClosed.
func (f *memFile) Close() error {
	if !f.closed.CompareAndSwap(false, true) {
		return memError("close", f.name, fs.ErrClosed)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.files--
	f.node.opens--
	f.fs.releaseIfGone(f.node)
	return nil
}

// Name is the path the file was opened with.
func (f *memFile) Name() string { return f.name }

// Fd implements File: there is no descriptor.
func (f *memFile) Fd() int { return -1 }

// Stat implements File.
func (f *memFile) Stat() (fs.FileInfo, error) {
	if err := f.usable("stat", false); err != nil {
		return nil, err
	}
	size, mtime := f.node.data.stat()
	return memInfo{name: path.Base(f.name), mode: filePerm, size: size, mtime: mtime}, nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	err := f.usable("truncate", false)
	if err != nil {
		return err
	}
	if !f.writable {
		return memError("truncate", f.name, syscall.EINVAL) // as ftruncate
	}
	if err = f.node.data.truncate(size, f.fs.opts.Now()); err != nil {
		return memError("truncate", f.name, err)
	}
	return nil
}

// Sync implements File.
func (f *memFile) Sync() error {
	if err := f.usable("fdatasync", false); err != nil {
		return err
	}
	f.node.data.syncAll()
	f.fs.persistIfRelaxed(f.node)
	return nil
}

// persistIfRelaxed makes the name durable where the options ask for it.
func (m *MemFS) persistIfRelaxed(node *memNode) {
	if m.opts.RelaxedNames {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.persistNameOf(node)
	}
}

// Allocate implements File.
func (f *memFile) Allocate(off, n int64) error {
	if err := f.usable("allocate", off >= 0 && n > 0); err != nil {
		return err // a bad range is reported before a wrong descriptor, as by the kernel
	}
	if err := f.node.data.allocate(off, n, f.fs.opts.Now()); err != nil {
		return memError("allocate", f.name, err)
	}
	return nil
}

// Prewrite implements File: what was reserved is zero in the durable image already.
func (f *memFile) Prewrite(off, n int64) error {
	if err := f.usable("prewrite", true); err != nil {
		return err
	}
	if size, _ := f.node.data.stat(); off < 0 || n <= 0 || n > size-off {
		return memError("prewrite", f.name, syscall.EINVAL)
	}
	return nil
}

// Map implements File.
func (f *memFile) Map(size int64, writable bool) (Mapping, error) {
	if err := f.usable("mmap", false); err != nil {
		return nil, err
	}
	if writable && !f.writable {
		return nil, memError("mmap", f.name, syscall.EACCES)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	data, err := f.node.data.mapRange(size, writable)
	if err != nil {
		return nil, memError("mmap", f.name, err)
	}
	f.node.opens++
	f.fs.mappings++
	return &memMapping{fs: f.fs, node: f.node, name: f.name, writable: writable, data: data}, nil
}

func (f *memFile) usable(op string, write bool) error {
	switch {
	case f.closed.Load():
		return memError(op, f.name, fs.ErrClosed)
	case write && !f.writable:
		return memError(op, f.name, syscall.EBADF)
	}
	return nil
}

// memMapping is a mapping of a MemFS: a slice of the file's own memory.
type memMapping struct {
	fs       *MemFS
	node     *memNode
	name     string
	writable bool
	data     []byte
	closed   atomic.Bool
}

// Bytes implements Mapping. Stores into a read-only mapping go unnoticed here; on a disk they are SIGSEGV.
func (m *memMapping) Bytes() []byte { return m.data }

func (m *memMapping) check(op string, off, n int64) error {
	if m.closed.Load() {
		return memError(op, m.name, fs.ErrClosed)
	}
	if size := int64(len(m.data)); off < 0 || n < 0 || off > size || n > size-off {
		return memError(op, m.name, fmt.Errorf("[%d,+%d) of %d bytes: %w", off, n, size, ErrMapRange))
	}
	return nil
}

// Sync implements Mapping. Unlike a disk it does not round the range out.
func (m *memMapping) Sync(off, n int64) error {
	if err := m.check("msync", off, n); err != nil || n == 0 {
		return err
	}
	m.node.data.syncRange(off, n, m.fs.opts.Now())
	m.fs.persistIfRelaxed(m.node)
	return nil
}

// Advise implements Mapping; memory needs no hints.
func (m *memMapping) Advise(off, n int64, a Advice) error {
	if err := m.check("madvise", off, n); err != nil || n == 0 {
		return err
	}
	if a == AdvisePopulateWrite && !m.writable {
		return memError("madvise", m.name, fs.ErrPermission)
	}
	if a < AdviseNormal || a > AdvisePopulateRead {
		return memError("madvise", m.name, syscall.EINVAL)
	}
	return nil
}

// Resident implements Mapping with MemOptions.Resident.
func (m *memMapping) Resident(off, n int64) (bool, error) {
	if err := m.check("mincore", off, n); err != nil {
		return false, err
	}
	if m.fs.opts.Resident != nil && n > 0 {
		return m.fs.opts.Resident(m.name, off, n)
	}
	return true, nil
}

// Lock implements Mapping.
func (m *memMapping) Lock(off, n int64) error { return m.check("mlock", off, n) }

// Unlock implements Mapping.
func (m *memMapping) Unlock(off, n int64) error { return m.check("munlock", off, n) }

// Unmap implements Mapping. A second call is fs.ErrClosed.
func (m *memMapping) Unmap() error {
	if !m.closed.CompareAndSwap(false, true) {
		return memError("munmap", m.name, fs.ErrClosed)
	}
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	m.node.data.unmapRange(int64(len(m.data)))
	m.node.opens--
	m.fs.mappings--
	m.fs.releaseIfGone(m.node)
	return nil
}
