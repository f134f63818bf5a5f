package store

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"skylark/internal/vfs"
)

const (
	// fallbackMemoryBytes is assumed where the system does not say how much it has.
	fallbackMemoryBytes = 4 << 30
	// memoryFileBytes is more than the first lines of the files read here have.
	memoryFileBytes = 256
)

// memoryFiles hold the memory limit of the container, in both versions of cgroups.
var memoryFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// machineMemoryBytes is machineMemory of this machine.
func machineMemoryBytes() int64 { return machineMemory(vfs.OS) }

// machineMemory is the memory that the page cache of this process can have: the machine's, or the container's if that is
// less.
func machineMemory(fs vfs.FS) int64 {
	total := totalMemory(fs)
	for _, name := range memoryFiles {
		if limit, err := strconv.ParseInt(firstWord(fs, name, ""), 10, 64); err == nil && limit > 0 {
			total = min(total, limit)
		}
	}
	return total
}

// totalMemory reads the line "MemTotal: <n> kB".
func totalMemory(fs vfs.FS) int64 {
	kib, err := strconv.ParseInt(firstWord(fs, "/proc/meminfo", "MemTotal:"), 10, 64)
	if err != nil || kib <= 0 {
		return fallbackMemoryBytes
	}
	return kib << 10
}

// firstWord is the word behind prefix at the start of a file, "" if there is none. Such files have no length, so they are
// read up to a limit.
func firstWord(fs vfs.FS, name, prefix string) string {
	f, err := fs.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // read-only
	buf := make([]byte, memoryFileBytes)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	rest, ok := bytes.CutPrefix(buf[:n], []byte(prefix))
	if words := bytes.Fields(rest); ok && len(words) > 0 {
		return string(words[0])
	}
	return ""
}
