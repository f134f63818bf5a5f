package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
)

// zeroChunk is how much the allocation without fallocate writes at a time.
const zeroChunk = 1 << 20

// diskFile is a file of OS.
type diskFile struct {
	f        *os.File
	writable bool
	closed   atomic.Bool
}

// ReadAt implements io.ReaderAt.
func (f *diskFile) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// WriteAt implements io.WriterAt.
func (f *diskFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }

// Name is the path the file was opened with.
func (f *diskFile) Name() string { return f.f.Name() }

// Stat implements File.
func (f *diskFile) Stat() (fs.FileInfo, error) { return f.f.Stat() }

// Fd implements File.
func (f *diskFile) Fd() int { return int(f.f.Fd()) }

// Close implements io.Closer. A descriptor of a file that this process holds locked is kept open until the
// lock is released, because closing any descriptor of a file drops the process's record locks on it
// (fcntl(2)).
func (f *diskFile) Close() error {
	if !f.closed.CompareAndSwap(false, true) {
		return f.pathError("close", fs.ErrClosed)
	}
	return locks.closeFile(f.f)
}

// Sync implements File.
func (f *diskFile) Sync() error {
	if f.closed.Load() {
		return f.pathError("fdatasync", fs.ErrClosed)
	}
	if err := syncData(f.f); err != nil {
		return f.pathError("fdatasync", err)
	}
	return nil
}

// Truncate implements File. The table stays locked from the look at the size to the cut, so that nobody can
// grow and map the file in between.
func (f *diskFile) Truncate(size int64) error {
	mapped.mu.Lock()
	defer mapped.mu.Unlock()
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	if size < 0 || !f.writable {
		return f.pathError("truncate", syscall.EINVAL) // ftruncate's answer to both
	}
	if size < info.Size() {
		id, err := idOf(info)
		if err != nil {
			return err
		}
		if !mapped.allows(id, size) {
			return f.pathError("truncate", fmt.Errorf("to %d bytes: %w", size, ErrMapped))
		}
	}
	return f.f.Truncate(size)
}

// Allocate implements File. When it fails the file has its old length again.
func (f *diskFile) Allocate(off, n int64) error {
	return f.allocateWith(off, n, func() error { return fallocate(f.f, off, n) })
}

// allocateWith falls back to writing when the first way is not there.
func (f *diskFile) allocateWith(off, n int64, first func() error) error {
	if f.closed.Load() {
		return f.pathError("allocate", fs.ErrClosed)
	}
	if off < 0 || n <= 0 {
		return f.pathError("allocate", syscall.EINVAL)
	}
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	err = first()
	if isUnsupported(err) {
		err = allocateByWriting(f.f, info.Size(), off, n)
	}
	if err == nil {
		return nil
	}
	return errors.Join(f.pathError("allocate", err), f.Truncate(info.Size()))
}

func isUnsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) ||
		errors.Is(err, errors.ErrUnsupported)
}

// allocateByWriting reserves [off, off+n) on a file system without fallocate. Past the old end it writes
// zeros. Before the old end it rewrites the blocks that read as zeros, which fills holes; nobody may write
// there meanwhile.
func allocateByWriting(f *os.File, oldSize, off, n int64) error {
	zeros := make([]byte, zeroChunk)
	buf := make([]byte, zeroChunk)
	for end := off + n; off < end; {
		chunk := min(end-off, zeroChunk)
		if off < oldSize {
			chunk = min(chunk, oldSize-off)
			if err := fillHoles(f, buf[:chunk], zeros, off); err != nil {
				return err
			}
		} else if _, err := f.WriteAt(zeros[:chunk], off); err != nil {
			return err
		}
		off += chunk
	}
	return nil
}

// fillHoles writes zeros over those pages of [off, off+len(buf)) that hold nothing but zeros.
func fillHoles(f *os.File, buf, zeros []byte, off int64) error {
	if _, err := f.ReadAt(buf, off); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for pos := 0; pos < len(buf); pos += PageSize {
		page := buf[pos:min(pos+PageSize, len(buf))]
		if !bytes.Equal(page, zeros[:len(page)]) {
			continue
		}
		if _, err := f.WriteAt(page, off+int64(pos)); err != nil {
			return err
		}
	}
	return nil
}

// Prewrite implements File. It goes through a mapping of its own: errors of the disk are reported once for each open
// file, and this one must not take them from the mappings that hold data.
func (f *diskFile) Prewrite(off, n int64) error {
	if f.closed.Load() {
		return f.pathError("prewrite", fs.ErrClosed)
	}
	if off < 0 || n <= 0 || !f.writable {
		return f.pathError("prewrite", syscall.EINVAL)
	}
	start := off / osPageSize * osPageSize
	if err := prewrite(f.f, start, off+n-start); err != nil {
		return f.pathError("prewrite", err)
	}
	return nil
}

// Map implements File.
func (f *diskFile) Map(size int64, writable bool) (Mapping, error) {
	mapped.mu.Lock()
	defer mapped.mu.Unlock()
	info, err := f.f.Stat()
	if err != nil {
		return nil, err
	}
	id, err := idOf(info)
	if err != nil {
		return nil, err
	}
	if writable && !f.writable {
		return nil, f.pathError("mmap", syscall.EACCES)
	}
	if size <= 0 || size > info.Size() {
		return nil, f.pathError("mmap", fmt.Errorf("%d of %d bytes: %w", size, info.Size(), ErrMapRange))
	}
	m, err := newDiskMapping(f.f, id, size, writable)
	if err != nil {
		return nil, f.pathError("mmap", err)
	}
	mapped.add(id, size)
	return m, nil
}

func (f *diskFile) pathError(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.f.Name(), Err: err}
}
