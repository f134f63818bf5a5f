package vfs

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MemOptions chooses how a MemFS behaves. The zero value is the strict, unlimited file system of NewMem.
type MemOptions struct {
	// LimitBytes is the size of the partition; 0 is no limit. Files are charged by whole reserved pages.
	LimitBytes int64
	// RelaxedNames makes File.Sync and Mapping.Sync persist the file's name and those of the directories
	// above it, as journaling file systems happen to do. The default is POSIX: a name is durable after
	// SyncDir only.
	RelaxedNames bool
	// Now stamps modification times; nil is time.Now, which testing/synctest fakes.
	Now func() time.Time
	// Resident answers Mapping.Resident; nil is "always in memory". It must not call back into the MemFS.
	Resident func(name string, off, n int64) (bool, error)
}

// MemFS is a crashable file system in memory. Every file has two images: the volatile one, which reads,
// writes and mappings see, and the durable one, to which Sync copies. Every directory has durable entries
// and a list of operations that no SyncDir has covered. CrashClone builds from them a file system as a
// power cut could have left it.
//
// MemFS is stricter than a disk, so that code which works here does not lean on luck:
//   - Mapping.Sync copies the bytes it was asked for and nothing else of their pages (a disk rounds out to
//     pages).
//   - Sync of a file does not persist its name (see MemOptions.RelaxedNames).
//   - A writable mapping over pages that nobody reserved is refused with ErrHole. On a disk it is allowed,
//     and raises SIGBUS when the disk is full at the first store.
//   - When the last mapping of a small file goes away its memory is overwritten with 0xDB, so that reading
//     after Unmap shows wrong bytes, and under the race detector a report.
//
// One thing it cannot do: give a larger mapping of a file while a smaller one is live and the file has
// grown since; the bytes would have to move. That is ErrMapRange.
//
// Paths are cleaned lexically and relative ones start at the root. There are no links and no permissions.
//
// Lock order: MemFS.mu, memData.mu, memSpace.mu.
type MemFS struct {
	opts  MemOptions
	space *memSpace

	mu       sync.Mutex
	root     *memNode
	nextID   uint64
	nextSeq  uint64
	files    int // open files
	mappings int // live mappings
	usage    *DiskUsage
}

var _ FS = (*MemFS)(nil)

// memNode is a file or a directory. The fields are guarded by MemFS.mu; the content has its own lock.
type memNode struct {
	id     uint64
	parent *memNode // nil for the root and for what was removed
	name   string
	opens  int  // open files and mappings; a removed file keeps its space until they are gone
	locked bool // FS.Lock
	dir    *memDir
	data   *memData // nil for a directory
}

func (n *memNode) isDir() bool { return n.dir != nil }

// NewMem returns an empty strict MemFS that has only its root directory.
func NewMem() *MemFS { return NewMemWith(MemOptions{}) }

// NewMemWith returns an empty MemFS with options.
func NewMemWith(opts MemOptions) *MemFS {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	m := &MemFS{opts: opts, space: &memSpace{limit: opts.LimitBytes}}
	m.root = m.newNode(true)
	return m
}

// newNode makes a node without a name. The caller holds mu or is alone.
func (m *MemFS) newNode(dir bool) *memNode {
	m.nextID++
	n := &memNode{id: m.nextID}
	if dir {
		n.dir = newMemDir(m.opts.Now())
	} else {
		n.data = &memData{space: m.space, mtime: m.opts.Now()}
	}
	return n
}

// SetLimit changes the size of the partition; 0 is no limit. What is over the limit stays.
func (m *MemFS) SetLimit(limitBytes int64) { m.space.setLimit(limitBytes) }

// UsedBytes is the space that files occupy, removed ones that are still open included.
func (m *MemFS) UsedBytes() int64 { return m.space.usedBytes() }

// SetUsage makes Usage answer u for every path; nil goes back to the real figures.
func (m *MemFS) SetUsage(u *DiskUsage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage = u
}

// Handles counts files and mappings that were not closed yet; a test ends with 0, 0.
func (m *MemFS) Handles() (files, mappings int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files, m.mappings
}

// splitPath returns the names from the root down; the root itself has none.
func splitPath(name string) []string {
	clean := strings.Trim(path.Clean("/"+name), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// lookup walks to a node. The caller holds mu.
func (m *MemFS) lookup(name string) (*memNode, error) {
	if name == "" {
		return nil, syscall.ENOENT
	}
	at := m.root
	for _, part := range splitPath(name) {
		if !at.isDir() {
			return nil, syscall.ENOTDIR
		}
		next, ok := at.dir.entries[part]
		if !ok {
			return nil, syscall.ENOENT
		}
		at = next
	}
	return at, nil
}

// lookupParent walks to the directory that holds name and returns the last part. The root has no parent:
// EBUSY.
func (m *MemFS) lookupParent(name string) (*memNode, string, error) {
	parts := splitPath(name)
	if name == "" {
		return nil, "", syscall.ENOENT
	}
	if len(parts) == 0 {
		return nil, "", syscall.EBUSY
	}
	parent, err := m.lookup("/" + strings.Join(parts[:len(parts)-1], "/"))
	if err != nil {
		return nil, "", err
	}
	if !parent.isDir() {
		return nil, "", syscall.ENOTDIR
	}
	return parent, parts[len(parts)-1], nil
}

// Open implements FS.
func (m *MemFS) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookup(name)
	if err == nil && node.isDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, memError("open", name, err)
	}
	return m.newFile(node, name, false), nil
}

// OpenReadWrite implements FS.
func (m *MemFS) OpenReadWrite(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openOrCreate(name)
	if err != nil {
		return nil, memError("open", name, err)
	}
	return m.newFile(node, name, true), nil
}

// Create implements FS.
func (m *MemFS) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openOrCreate(name)
	if err == nil {
		err = node.data.truncate(0, m.opts.Now())
	}
	if err != nil {
		return nil, memError("open", name, err)
	}
	return m.newFile(node, name, true), nil
}

// openOrCreate finds a file or links a new one. A full partition has no room for a new name. The caller
// holds mu.
func (m *MemFS) openOrCreate(name string) (*memNode, error) {
	node, err := m.lookup(name)
	if err == nil {
		if node.isDir() {
			return nil, syscall.EISDIR
		}
		return node, nil
	}
	parent, base, parentErr := m.lookupParent(name)
	if parentErr != nil {
		return nil, parentErr
	}
	if err != syscall.ENOENT {
		return nil, err
	}
	if m.space.full() {
		return nil, syscall.ENOSPC
	}
	node = m.newNode(false)
	m.apply(nameEffect{dir: parent, name: base, node: node})
	return node, nil
}

// Remove implements FS.
func (m *MemFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.lookupParent(name)
	if err != nil {
		return memError("remove", name, err)
	}
	node, ok := parent.dir.entries[base]
	if !ok {
		return memError("remove", name, syscall.ENOENT)
	}
	if node.isDir() && len(node.dir.entries) > 0 {
		return memError("remove", name, syscall.ENOTEMPTY)
	}
	m.unlink(parent, base)
	return nil
}

// RemoveAll implements FS.
func (m *MemFS) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.lookupParent(name)
	if err == syscall.ENOENT {
		return nil
	}
	if err != nil {
		return memError("removeall", name, err)
	}
	if _, ok := parent.dir.entries[base]; ok {
		m.removeTree(parent, base)
	}
	return nil
}

func (m *MemFS) removeTree(parent *memNode, base string) {
	if node := parent.dir.entries[base]; node.isDir() {
		for _, child := range node.dir.names() {
			m.removeTree(node, child)
		}
	}
	m.unlink(parent, base)
}

func (m *MemFS) unlink(parent *memNode, base string) {
	node := parent.dir.entries[base]
	m.apply(nameEffect{dir: parent, name: base})
	m.detach(node)
}

// detach marks a node as removed and frees its space when nobody has it open. The caller holds mu.
func (m *MemFS) detach(node *memNode) {
	node.parent, node.name = nil, ""
	m.releaseIfGone(node)
}

func (m *MemFS) releaseIfGone(node *memNode) {
	if node.parent == nil && node.opens == 0 && node.data != nil {
		node.data.release()
	}
}

// Rename implements FS.
func (m *MemFS) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.rename(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func (m *MemFS) rename(oldName, newName string) error {
	oldParent, oldBase, err := m.lookupParent(oldName)
	if err != nil {
		return err
	}
	node, ok := oldParent.dir.entries[oldBase]
	newParent, newBase, err := m.lookupParent(newName)
	if err != nil {
		return err
	}
	if !ok {
		return syscall.ENOENT
	}
	target := newParent.dir.entries[newBase]
	switch {
	case target == node && !node.isDir():
		return nil
	case target != nil && target.isDir():
		return syscall.EEXIST // as package os, also for a directory onto itself
	}
	for at := newParent; at != nil; at = at.parent {
		if at == node {
			return syscall.EINVAL // a directory into itself
		}
	}
	if target != nil && node.isDir() {
		return syscall.ENOTDIR
	}
	m.apply(nameEffect{dir: oldParent, name: oldBase}, nameEffect{dir: newParent, name: newBase, node: node})
	if target != nil {
		m.detach(target)
	}
	return nil
}

// MkdirAll implements FS.
func (m *MemFS) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" {
		return memError("mkdir", name, syscall.ENOENT)
	}
	at := m.root
	for _, part := range splitPath(name) {
		next, ok := at.dir.entries[part]
		if !ok {
			if m.space.full() {
				return memError("mkdir", name, syscall.ENOSPC)
			}
			next = m.newNode(true)
			m.apply(nameEffect{dir: at, name: part, node: next})
		}
		if !next.isDir() {
			return memError("mkdir", name, syscall.ENOTDIR)
		}
		at = next
	}
	return nil
}

// List implements FS.
func (m *MemFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookup(dir)
	if err == nil && !node.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, memError("readdir", dir, err)
	}
	return node.dir.names(), nil
}

// Stat implements FS.
func (m *MemFS) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookup(name)
	if err != nil {
		return nil, memError("stat", name, err)
	}
	return node.info(path.Base(name)), nil
}

// Chtimes implements FS.
func (m *MemFS) Chtimes(name string, mtime time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookup(name)
	if err != nil {
		return memError("chtimes", name, err)
	}
	if node.isDir() {
		node.dir.mtime = mtime
	} else {
		node.data.setMtime(mtime)
	}
	return nil
}

// SyncDir implements FS. A file is ENOTDIR (the disk syncs a file then; nobody should).
func (m *MemFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookup(dir)
	if err == nil && !node.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return memError("syncdir", dir, err)
	}
	persistNames(liveNames, node, math.MaxUint64)
	if m.opts.RelaxedNames {
		m.persistNameOf(node)
	}
	return nil
}

// Usage implements FS: what SetUsage said, else the limit and what is used of it (an unlimited partition
// has 1 TiB).
func (m *MemFS) Usage(name string) (DiskUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookup(name); err != nil {
		return DiskUsage{}, memError("statfs", name, err)
	}
	if m.usage != nil {
		return *m.usage, nil
	}
	return m.space.usage(), nil
}

// Lock implements FS.
func (m *MemFS) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openOrCreate(name)
	if err == nil && node.locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, memError("lock", name, err)
	}
	node.locked = true
	node.opens++
	m.files++
	return &memLock{fs: m, node: node, name: name}, nil
}

// memLock is a held lock.
type memLock struct {
	fs     *MemFS
	node   *memNode
	name   string
	closed bool // guarded by MemFS.mu
}

// Close releases the lock. A second call is fs.ErrClosed.
func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.closed {
		return memError("lock", l.name, fs.ErrClosed)
	}
	l.closed = true
	l.node.locked = false
	l.node.opens--
	l.fs.files--
	l.fs.releaseIfGone(l.node)
	return nil
}

// info describes a node under the base name it was asked by. The caller holds MemFS.mu.
func (n *memNode) info(base string) memInfo {
	if n.isDir() {
		return memInfo{name: base, mode: fs.ModeDir | dirPerm, mtime: n.dir.mtime}
	}
	size, mtime := n.data.stat()
	return memInfo{name: base, mode: filePerm, size: size, mtime: mtime}
}

// memInfo implements fs.FileInfo.
type memInfo struct {
	name  string
	mode  fs.FileMode
	size  int64
	mtime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

func memError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
