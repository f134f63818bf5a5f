package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"time"
)

// Errors that an FS adds to those of package io/fs and syscall. They come wrapped with the operation and
// the path.
var (
	// ErrLocked answers FS.Lock when somebody, in this process or another, holds the lock.
	ErrLocked = errors.New("vfs: file is locked by another owner")
	// ErrMapped answers File.Truncate and FS.Create when the file would end inside a live mapping of this
	// process: touching the lost pages would raise SIGBUS.
	ErrMapped = errors.New("vfs: file is mapped past the new end")
	// ErrHole answers File.Map of a MemFS for a writable mapping over pages that neither Allocate nor
	// WriteAt has reserved: on a full disk the first store there would raise SIGBUS.
	ErrHole = errors.New("vfs: writable mapping over a hole, Allocate it first")
	// ErrMapRange answers File.Map when the range is empty or ends past the end of the file, and the calls of
	// Mapping when their range is not inside the mapping.
	ErrMapRange = errors.New("vfs: range is not inside the file or mapping")
)

// PageSize is the unit in which MemFS keeps its durable image and to which callers may align; a real page
// may be larger.
const PageSize = 4096

// FS is a file system. Paths are slash-separated and absolute or relative to the process, as in package os.
// Errors satisfy errors.Is with fs.ErrNotExist, fs.ErrExist and, for a full disk, syscall.ENOSPC.
type FS interface {
	// Open opens a file for reading. A directory is EISDIR; use List and SyncDir.
	Open(name string) (File, error)
	// OpenReadWrite opens a file for reading and writing and creates it (mode 0644) when it is missing.
	OpenReadWrite(name string) (File, error)
	// Create creates or truncates a file for reading and writing (mode 0644).
	Create(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// RemoveAll deletes a tree; a missing path is no error.
	RemoveAll(name string) error
	// Rename replaces newName atomically. It is durable after SyncDir of the parent.
	Rename(oldName, newName string) error
	// MkdirAll creates a directory and its parents (mode 0755).
	MkdirAll(name string) error
	// List returns the sorted base names in a directory.
	List(dir string) ([]string, error)
	// Stat describes a file; ModTime and Size are what the store uses.
	Stat(name string) (fs.FileInfo, error)
	// Chtimes sets the modification time (tests of retention use it).
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes creations, removals and renames in a directory durable. That is one level: a new
	// directory needs SyncDir of its own parent too (see MkdirAllSync).
	SyncDir(dir string) error
	// Usage tells the space of the partition that holds path.
	Usage(path string) (DiskUsage, error)
	// Lock takes an exclusive advisory lock (fcntl record lock on byte 0, as Java's FileLock) and returns
	// its release. The file is created when missing. A lock held by another process is ErrLocked.
	Lock(name string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt may be called from several goroutines.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes content and size durable (fdatasync).
	Sync() error
	// Allocate really reserves the space [off, off+n) and extends the file, so that later stores into a
	// mapping of it cannot meet a full disk (fallocate). A full disk is syscall.ENOSPC and leaves no
	// half-grown file behind beyond what Truncate removes.
	Allocate(off, n int64) error
	// Prewrite writes the blocks of [off, off+n), which Allocate has reserved, to the disk as they are, and leaves their
	// pages in memory. A block that was only reserved changes its state when it is first written, and a Sync of it then
	// waits for the journal of the file system; one that was prewritten needs no journal. Others may store into mappings
	// of the range meanwhile; what they lose to a failing disk is still reported to their own Sync.
	Prewrite(off, n int64) error
	// Map maps [0, size) shared, readable and, if writable, writable. The file must already be that long
	// (ErrMapRange), and a range that will be written must have been reserved by Allocate. A mapping stays
	// valid after the file is closed, renamed or removed.
	Map(size int64, writable bool) (Mapping, error)
	// Fd is the descriptor for sendfile and the like, or -1 when the FS has none.
	Fd() int
}

// Advice is a hint of how a mapped range will be used (madvise).
type Advice int

// The hints the store gives.
const (
	AdviseNormal Advice = iota
	AdviseRandom
	AdviseSequential
	AdviseWillNeed
	AdviseDontNeed
	// AdvisePopulateWrite faults the pages in for writing before anybody touches them (MADV_POPULATE_WRITE,
	// else a write touch of each page that keeps its content).
	AdvisePopulateWrite
	// AdvisePopulateRead reads the pages in (MADV_POPULATE_READ, else a read touch).
	AdvisePopulateRead
)

// Mapping is a mapped file. Bytes stays valid until Unmap; touching it afterwards is a bug of the caller,
// who guards it with a reference count.
type Mapping interface {
	Bytes() []byte
	// Sync makes [off, off+n) durable (msync MS_SYNC); a disk rounds the range out to pages.
	Sync(off, n int64) error
	// Advise passes a hint for [off, off+n).
	Advise(off, n int64, a Advice) error
	// Resident tells whether every page of [off, off+n) is in memory (mincore). An error means "unknown".
	Resident(off, n int64) (bool, error)
	// Lock and Unlock pin the range (mlock, munlock).
	Lock(off, n int64) error
	Unlock(off, n int64) error
	Unmap() error
}

// DiskUsage is the space of a partition in bytes. UsedRatio follows df and Java's
// UtilAll.getDiskPartitionSpaceUsedPercent: used / (used + free to a non-root writer), rounded up to whole
// percents, so a partition on which only root can still write is 1.
type DiskUsage struct {
	TotalBytes uint64
	// FreeBytes is what a non-root writer can still get.
	FreeBytes uint64
	UsedRatio float64 // 0..1
}

// NewDiskUsage computes the ratio from the three block counts of statfs, in bytes: the whole partition, all
// free blocks, and the free blocks a non-root writer can get.
func NewDiskUsage(total, free, available uint64) DiskUsage {
	usage := DiskUsage{TotalBytes: total, FreeBytes: available}
	used := total - min(free, total)
	if entire := used + available; entire > 0 {
		percent := math.Ceil(float64(used) / float64(entire) * 100)
		usage.UsedRatio = percent / 100
	}
	return usage
}
