package vfs

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fallocate reserves blocks and extends the file (mode 0); written blocks keep their content.
func fallocate(f *os.File, off, n int64) error {
	return withDescriptor(f, func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
}

// syncData writes content and size, not the times.
func syncData(f *os.File) error {
	return withDescriptor(f, unix.Fdatasync)
}

func msync(pages []byte) error { return unix.Msync(pages, unix.MS_SYNC) }

// madvise passes the hint on. Kernels before 5.14 do not know MADV_POPULATE and answer EINVAL.
func madvise(pages []byte, a Advice) error {
	flag, ok := adviseDefault(a)
	switch {
	case a == AdvisePopulateWrite:
		flag = unix.MADV_POPULATE_WRITE
	case a == AdvisePopulateRead:
		flag = unix.MADV_POPULATE_READ
	case !ok:
		return syscall.EINVAL
	}
	err := unix.Madvise(pages, flag)
	if errors.Is(err, syscall.EINVAL) && !ok {
		touch(pages, a == AdvisePopulateWrite)
		return nil
	}
	return err
}

// prewrite makes the pages of [start, start+n) dirty without changing them and writes them. A file that became shorter
// meanwhile is an error, not SIGBUS, for nothing touches the mapping but system calls; kernels before 5.14 cannot do that,
// and there nothing is written.
func prewrite(f *os.File, start, n int64) error {
	return withDescriptor(f, func(fd int) error {
		pages, err := unix.Mmap(fd, start, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		err = unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
		switch {
		case errors.Is(err, syscall.EINVAL):
			err = nil
		case err == nil:
			err = unix.Msync(pages, unix.MS_SYNC)
		}
		return errors.Join(err, unix.Munmap(pages))
	})
}

// lockOnFault pins pages when they are touched (mlock2, Linux 4.4), so that locking a large range does not fill it at once.
func lockOnFault(pages []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(&pages[0])), uintptr(len(pages)),
		unix.MLOCK_ONFAULT)
	switch {
	case errno == 0:
		return nil
	case errno == syscall.ENOSYS:
		return unix.Mlock(pages)
	}
	return errno
}

// mincoreBatch is how many pages one call asks about, so that the answer fits the stack.
const mincoreBatch = 512

// mincore tells whether all pages are in memory. x/sys has the number of the call but no wrapper.
func mincore(pages []byte) (bool, error) {
	var vec [mincoreBatch]byte
	for len(pages) > 0 {
		part := pages[:min(int64(len(pages)), mincoreBatch*osPageSize)]
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&part[0])),
			uintptr(len(part)), uintptr(unsafe.Pointer(&vec[0])))
		if errno != 0 {
			return false, errno
		}
		count := (int64(len(part)) + osPageSize - 1) / osPageSize
		for _, page := range vec[:count] {
			if page&1 == 0 { // the other bits are reserved
				return false, nil
			}
		}
		pages = pages[len(part):]
	}
	return true, nil
}

func statfs(path string) (DiskUsage, error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(path, &st) }); err != nil {
		return DiskUsage{}, err
	}
	block := uint64(st.Bsize)
	return NewDiskUsage(st.Blocks*block, st.Bfree*block, st.Bavail*block), nil
}
