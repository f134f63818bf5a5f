//go:build !linux

package vfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fallocate does not exist here; Allocate then writes zeros. (F_PREALLOCATE of macOS reserves past the end
// of the file only, and APFS gives up the reservation when the file is closed.)
func fallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

// syncData is os.File.Sync, which on macOS is F_FULLFSYNC: fsync alone stops at the drive's cache there.
func syncData(f *os.File) error { return f.Sync() }

func msync(pages []byte) error { return unix.Msync(pages, unix.MS_SYNC) }

// madvise passes the hint on; there is no populate call, so those pages are touched.
func madvise(pages []byte, a Advice) error {
	flag, ok := adviseDefault(a)
	switch {
	case a == AdvisePopulateWrite || a == AdvisePopulateRead:
		touch(pages, a == AdvisePopulateWrite)
		return nil
	case !ok:
		return syscall.EINVAL
	}
	return unix.Madvise(pages, flag)
}

// prewrite does nothing: Allocate has written the zeros.
func prewrite(*os.File, int64, int64) error { return nil }

func lockOnFault(pages []byte) error { return unix.Mlock(pages) }

// mincore is not called: macOS reports pages of other processes here and deprecates raw system calls.
func mincore([]byte) (bool, error) { return false, errors.ErrUnsupported }

func statfs(path string) (DiskUsage, error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(path, &st) }); err != nil {
		return DiskUsage{}, err
	}
	block := uint64(st.Bsize)
	return NewDiskUsage(uint64(st.Blocks)*block, uint64(st.Bfree)*block, uint64(st.Bavail)*block), nil
}
