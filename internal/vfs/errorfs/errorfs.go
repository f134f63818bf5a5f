package errorfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"time"

	"skylark/internal/vfs"
)

// FS is a vfs.FS with faults.
type FS struct {
	base     vfs.FS
	injector Injector
}

var _ vfs.FS = (*FS)(nil)

// Wrap puts faults in front of base. A call that fails by injection is not made, except as Partial says;
// but Close, Unmap and the release of a lock are always made, so that nothing leaks. The error is a
// *fs.PathError around what the injector gave.
func Wrap(base vfs.FS, injector Injector) *FS {
	return &FS{base: base, injector: injector}
}

// do makes a call or lets it fail.
func (f *FS) do(op Op, call func() error) error {
	err := f.injector.Inject(op)
	if err == nil {
		return call()
	}
	var partial *Partial
	if errors.As(err, &partial) {
		if callErr := call(); callErr != nil {
			return callErr
		}
		err = partial.Err
	}
	return injected(op, err)
}

// doAlways makes a call whether it shall fail or not.
func (f *FS) doAlways(op Op, call func() error) error {
	err := f.injector.Inject(op)
	var partial *Partial
	if errors.As(err, &partial) {
		err = partial.Err
	}
	callErr := call()
	if err != nil {
		return injected(op, err)
	}
	return callErr
}

func injected(op Op, err error) error {
	return &fs.PathError{Op: "injected " + op.Kind.String(), Path: op.Path, Err: err}
}

// open makes a call that returns a file. A file opened by a call that is reported as failed afterwards is
// closed.
func (f *FS) open(kind Kind, name string, call func(string) (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.do(Op{Kind: kind, Path: name}, func() (err error) {
		file, err = call(name)
		return err
	})
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return nil, err
	}
	return &errFile{fs: f, base: file}, nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.open(OpOpen, name, f.base.Open) }

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) {
	return f.open(OpOpenReadWrite, name, f.base.OpenReadWrite)
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) { return f.open(OpCreate, name, f.base.Create) }

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(Op{Kind: OpRemove, Path: name}, func() error { return f.base.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	return f.do(Op{Kind: OpRemoveAll, Path: name}, func() error { return f.base.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	return f.do(Op{Kind: OpRename, Path: oldName, NewPath: newName},
		func() error { return f.base.Rename(oldName, newName) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string) error {
	return f.do(Op{Kind: OpMkdir, Path: name}, func() error { return f.base.MkdirAll(name) })
}

// List implements vfs.FS.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(Op{Kind: OpList, Path: dir}, func() (err error) {
		names, err = f.base.List(dir)
		return err
	})
	return orNone(names, err), err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(Op{Kind: OpStat, Path: name}, func() (err error) {
		info, err = f.base.Stat(name)
		return err
	})
	return orNone(info, err), err
}

// Chtimes implements vfs.FS.
func (f *FS) Chtimes(name string, mtime time.Time) error {
	return f.do(Op{Kind: OpChtimes, Path: name}, func() error { return f.base.Chtimes(name, mtime) })
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	return f.do(Op{Kind: OpSyncDir, Path: dir}, func() error { return f.base.SyncDir(dir) })
}

// Usage implements vfs.FS.
func (f *FS) Usage(path string) (usage vfs.DiskUsage, err error) {
	err = f.do(Op{Kind: OpUsage, Path: path}, func() (err error) {
		usage, err = f.base.Usage(path)
		return err
	})
	return orNone(usage, err), err
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := f.do(Op{Kind: OpLock, Path: name}, func() (err error) {
		lock, err = f.base.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, err
	}
	return &errLock{fs: f, base: lock, name: name}, nil
}

// orNone drops the result of a call that failed, also one that was made before it was reported as failed.
func orNone[T any](value T, err error) T {
	if err != nil {
		var none T
		return none
	}
	return value
}

type errLock struct {
	fs   *FS
	base io.Closer
	name string
}

func (l *errLock) Close() error {
	return l.fs.doAlways(Op{Kind: OpUnlock, Path: l.name}, l.base.Close)
}

// errFile is a file with faults.
type errFile struct {
	fs   *FS
	base vfs.File
}

func (f *errFile) op(kind Kind, off, n int64) Op {
	return Op{Kind: kind, Path: f.base.Name(), Off: off, N: n}
}

// ReadAt implements io.ReaderAt.
func (f *errFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(f.op(OpRead, off, int64(len(p))), func() (err error) {
		n, err = f.base.ReadAt(p, off)
		return err
	})
	return n, err
}

// WriteAt implements io.WriterAt. A Partial limits it.
func (f *errFile) WriteAt(p []byte, off int64) (int, error) {
	op := f.op(OpWrite, off, int64(len(p)))
	err := f.fs.injector.Inject(op)
	if err == nil {
		return f.base.WriteAt(p, off)
	}
	var partial *Partial
	if !errors.As(err, &partial) {
		return 0, injected(op, err)
	}
	n, err := f.base.WriteAt(p[:max(0, min(partial.Bytes, int64(len(p))))], off)
	if err != nil {
		return n, err
	}
	return n, injected(op, partial.Err)
}

// Close implements io.Closer.
func (f *errFile) Close() error { return f.fs.doAlways(f.op(OpClose, 0, 0), f.base.Close) }

// Name implements vfs.File.
func (f *errFile) Name() string { return f.base.Name() }

// Fd implements vfs.File. It is -1, so that nobody reads around the faults.
func (f *errFile) Fd() int { return -1 }

// Stat implements vfs.File.
func (f *errFile) Stat() (info fs.FileInfo, err error) {
	err = f.fs.do(f.op(OpStat, 0, 0), func() (err error) {
		info, err = f.base.Stat()
		return err
	})
	return orNone(info, err), err
}

// Truncate implements vfs.File.
func (f *errFile) Truncate(size int64) error {
	return f.fs.do(f.op(OpTruncate, size, 0), func() error { return f.base.Truncate(size) })
}

// Sync implements vfs.File.
func (f *errFile) Sync() error { return f.fs.do(f.op(OpSync, 0, 0), f.base.Sync) }

// Allocate implements vfs.File.
func (f *errFile) Allocate(off, n int64) error {
	return f.fs.do(f.op(OpAllocate, off, n), func() error { return f.base.Allocate(off, n) })
}

// Prewrite implements vfs.File; nothing depends on it, so it does not fail.
func (f *errFile) Prewrite(off, n int64) error { return f.base.Prewrite(off, n) }

// Map implements vfs.File.
func (f *errFile) Map(size int64, writable bool) (vfs.Mapping, error) {
	var m vfs.Mapping
	err := f.fs.do(f.op(OpMap, 0, size), func() (err error) {
		m, err = f.base.Map(size, writable)
		return err
	})
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.Unmap())
		}
		return nil, err
	}
	return &errMapping{file: f, base: m}, nil
}

// errMapping is a mapping with faults.
type errMapping struct {
	file *errFile
	base vfs.Mapping
}

func (m *errMapping) do(kind Kind, off, n int64, call func(off, n int64) error) error {
	return m.file.fs.do(m.file.op(kind, off, n), func() error { return call(off, n) })
}

// Bytes implements vfs.Mapping.
func (m *errMapping) Bytes() []byte { return m.base.Bytes() }

// Sync implements vfs.Mapping.
func (m *errMapping) Sync(off, n int64) error { return m.do(OpMsync, off, n, m.base.Sync) }

// Advise implements vfs.Mapping.
func (m *errMapping) Advise(off, n int64, a vfs.Advice) error {
	return m.do(OpAdvise, off, n, func(off, n int64) error { return m.base.Advise(off, n, a) })
}

// Resident implements vfs.Mapping.
func (m *errMapping) Resident(off, n int64) (resident bool, err error) {
	err = m.do(OpResident, off, n, func(off, n int64) (err error) {
		resident, err = m.base.Resident(off, n)
		return err
	})
	return orNone(resident, err), err
}

// Lock implements vfs.Mapping.
func (m *errMapping) Lock(off, n int64) error { return m.do(OpPin, off, n, m.base.Lock) }

// Unlock implements vfs.Mapping.
func (m *errMapping) Unlock(off, n int64) error { return m.do(OpUnpin, off, n, m.base.Unlock) }

// Unmap implements vfs.Mapping.
func (m *errMapping) Unmap() error {
	return m.file.fs.doAlways(m.file.op(OpUnmap, 0, 0), m.base.Unmap)
}

// wholeCall is the Bytes of a Partial that does everything.
const wholeCall = math.MaxInt64
