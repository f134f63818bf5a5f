package suite

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownGroup keeps the terminal's signals from a started process.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// listenerPID finds the process of this machine that listens on the port; 0 if none is found, or it is another user's.
func listenerPID(addr string) int {
	if !(&target{addr: addr}).local() {
		return 0
	}
	_, text, err := net.SplitHostPort(addr)
	port, err2 := strconv.ParseUint(text, 10, 16)
	if err != nil || err2 != nil {
		return 0
	}
	inodes := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listening(file, fmt.Sprintf(":%04X", port), inodes)
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0
	}
	for _, fd := range fds {
		link, err := os.Readlink(fd)
		if err != nil || !strings.HasPrefix(link, "socket:[") || !inodes[strings.Trim(link[7:], "[]")] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
		if err == nil {
			return pid
		}
	}
	return 0
}

// listening adds the inodes of the sockets that listen on a port.
func listening(file, port string, inodes map[string]bool) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		cols := strings.Fields(s.Text())
		if len(cols) > 9 && cols[3] == "0A" && strings.HasSuffix(cols[1], port) {
			inodes[cols[9]] = true
		}
	}
}

// evictDir pushes the pages of a directory's files out of memory: written back, taken out of the broker's mappings,
// dropped. Then it looks what stayed.
func evictDir(dir string, pid int) (*evicted, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no files in %s", dir)
	}
	out := &evicted{}
	for _, file := range files {
		if err := out.evictFile(file, pid); err != nil {
			return out, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

func (e *evicted) evictFile(name string, pid int) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	fd := int(f.Fd())
	if err := unix.Fdatasync(fd); err != nil {
		return err
	}
	_ = pageOut(pid, name) // without the right to it, only pages that nobody maps go; what stayed is counted below
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	return e.count(fd, info)
}

// count adds the pages of a file: those with blocks, since a file is longer than what was written to it.
func (e *evicted) count(fd int, info os.FileInfo) error {
	size := info.Size()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		size = min(size, st.Blocks*512)
	}
	m, err := unix.Mmap(fd, 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(m) }()
	page := os.Getpagesize()
	vec := make([]byte, (len(m)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)),
		uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
		return errno
	}
	e.bytes += size
	for _, v := range vec {
		e.resident += int64(v&1) * int64(page)
	}
	return nil
}

// madvPageout is MADV_PAGEOUT, Linux 5.4 and later.
const madvPageout = 21

// pageOut takes a file's pages out of the mappings of a process (process_madvise, Linux 5.10 and later).
func pageOut(pid int, name string) error {
	if pid == 0 {
		return errors.New("no process id")
	}
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer maps.Close()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	for s := bufio.NewScanner(maps); s.Scan(); {
		if !strings.HasSuffix(s.Text(), name) {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(s.Text(), "%x-%x", &from, &to); err != nil {
			return err
		}
		// The range is of the other process: a pair of numbers, not a slice of ours.
		vec := [2]uintptr{from, to - from}
		_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pidfd), uintptr(unsafe.Pointer(&vec)), 1,
			madvPageout, 0, 0)
		if errno != 0 {
			return errno
		}
	}
	return nil
}
