package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

func TestMachineMemory(t *testing.T) {
	f := func(want int64, files map[string]string) {
		t.Helper()
		fs := vfs.NewMem()
		for _, dir := range []string{"/proc", "/sys/fs/cgroup/memory"} {
			require.NoError(t, fs.MkdirAll(dir))
		}
		for name, text := range files {
			require.NoError(t, vfs.WriteFileAtomic(fs, name, []byte(text), false))
		}
		require.Equal(t, want, machineMemory(fs))
	}
	f(fallbackMemoryBytes, nil)
	f(1<<20, map[string]string{"/proc/meminfo": "MemTotal:           1024 kB\nMemFree: 1 kB\n"})
	f(1000, map[string]string{"/proc/meminfo": "MemTotal: 1024 kB\n", memoryFiles[0]: "1000\n"})
	f(1<<20, map[string]string{"/proc/meminfo": "MemTotal: 1024 kB\n", memoryFiles[0]: "max\n"})
	f(1<<20, map[string]string{"/proc/meminfo": "MemTotal: 1024 kB\n", memoryFiles[1]: "9223372036854771712\n"})
	require.Positive(t, machineMemory(vfs.OS))
}
