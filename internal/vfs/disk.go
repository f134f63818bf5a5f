package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// OS is the real disk.
var OS FS = diskFS{}

const (
	filePerm fs.FileMode = 0o644
	dirPerm  fs.FileMode = 0o755
)

// maxInterrupted bounds how often one system call is repeated after EINTR.
const maxInterrupted = 1000

// fileID names a file independently of its path, so that links and relative names meet in the tables below.
type fileID struct {
	dev, ino uint64
}

// diskFS has no state of its own; the lock and mapping tables are process-wide because the kernel's are.
type diskFS struct{}

// Open implements FS. A directory is EISDIR, as it is for the calls that open for writing.
func (diskFS) Open(name string) (File, error) {
	f, err := openDisk(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = f.pathError("open", syscall.EISDIR)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenReadWrite implements FS.
func (diskFS) OpenReadWrite(name string) (File, error) {
	return openDisk(name, os.O_RDWR|os.O_CREATE)
}

// Create implements FS. It truncates in a second step, because O_TRUNC would cut a file that is mapped.
func (diskFS) Create(name string) (File, error) {
	f, err := openDisk(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func openDisk(name string, flag int) (*diskFile, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	return &diskFile{f: f, writable: flag&os.O_RDWR != 0}, nil
}

// Remove implements FS.
func (diskFS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (diskFS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (diskFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// MkdirAll implements FS.
func (diskFS) MkdirAll(name string) error { return os.MkdirAll(name, dirPerm) }

// List implements FS.
func (diskFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}

// Stat implements FS.
func (diskFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Chtimes implements FS. The access time is left alone.
func (diskFS) Chtimes(name string, mtime time.Time) error {
	return os.Chtimes(name, time.Time{}, mtime)
}

// SyncDir implements FS.
func (diskFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Usage implements FS.
func (diskFS) Usage(path string) (DiskUsage, error) {
	usage, err := statfs(path)
	if err != nil {
		return DiskUsage{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return usage, nil
}

// liveMappings counts, per file, the mappings of this process by size.
type liveMappings struct {
	mu    sync.Mutex
	sizes map[fileID]map[int64]int
}

var mapped = liveMappings{sizes: make(map[fileID]map[int64]int)}

// add registers a mapping. The caller holds mu, from before it looked at the file's size until after mmap.
func (l *liveMappings) add(id fileID, size int64) {
	if l.sizes[id] == nil {
		l.sizes[id] = make(map[int64]int)
	}
	l.sizes[id][size]++
}

func (l *liveMappings) remove(id fileID, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sizes[id][size]--; l.sizes[id][size] == 0 {
		delete(l.sizes[id], size)
	}
	if len(l.sizes[id]) == 0 {
		delete(l.sizes, id)
	}
}

// allows tells whether the file may be cut to size. The caller holds mu until the cut is done.
func (l *liveMappings) allows(id fileID, size int64) bool {
	for mappedSize := range l.sizes[id] {
		if mappedSize > size {
			return false
		}
	}
	return true
}

// idOf reads the identity out of what Stat of a real file returned.
func idOf(info fs.FileInfo) (fileID, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, fmt.Errorf("vfs: BUG: %s: stat has no inode (%T)", info.Name(), info.Sys())
	}
	return fileID{dev: uint64(st.Dev), ino: st.Ino}, nil
}

// retryInterrupted repeats call while a signal stops it.
func retryInterrupted(call func() error) error {
	for range maxInterrupted {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
	return syscall.EINTR
}

// withDescriptor makes a system call that package os does not know, repeated after EINTR. The descriptor
// cannot be closed, and its number not be given to another file, while the call runs.
func withDescriptor(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		callErr = retryInterrupted(func() error { return call(int(fd)) })
	})
	if err != nil {
		return err
	}
	return callErr
}
