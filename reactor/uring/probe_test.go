//go:build iouring && linux

package uring

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestProbe(t *testing.T) {
	err := Probe()
	if err != nil {
		t.Skip("this machine forbids io_uring:", err)
	}
	before := descriptors(t)
	for range 3 {
		require.NoError(t, Probe())
	}
	require.Eventually(t, func() bool { return descriptors(t) <= before }, patience, tick)
}

// TestProbeFailsClean: what fails in the middle is an error, and leaves nothing open.
func TestProbeFailsClean(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	before := descriptors(t)
	few := old
	few.Cur = uint64(before)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	err := Probe()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	require.ErrorIs(t, err, unix.EMFILE)
	require.LessOrEqual(t, descriptors(t), before)
}

func descriptors(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(names) - 1 // the directory itself
}
