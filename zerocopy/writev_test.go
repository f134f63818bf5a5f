//go:build unix

package zerocopy

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func socketPair(t *testing.T) (a, b int) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	for _, fd := range fds {
		require.NoError(t, unix.SetNonblock(fd, true))
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	return fds[0], fds[1]
}

// readAll takes what the socket holds.
func readAll(t *testing.T, fd int) []byte {
	var all []byte
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EAGAIN {
			return all
		}
		require.NoError(t, err)
		all = append(all, buf[:n]...)
	}
}

func TestVecWritesAllRuns(t *testing.T) {
	a, b := socketPair(t)
	var v Vec
	n, err := v.Writev(a)
	require.NoError(t, err)
	require.Zero(t, n)
	for range 2 {
		for _, s := range []string{"one", "", "two", "three"} {
			require.True(t, v.Add([]byte(s)))
		}
		require.Equal(t, 3, v.Len())
		n, err = v.Writev(a)
		require.NoError(t, err)
		require.Equal(t, v.Size(), n)
		require.Equal(t, "onetwothree", string(readAll(t, b)))
		v.Reset()
		require.Zero(t, v.Size())
	}
}

func TestVecIsFullAtTheKernelsLimit(t *testing.T) {
	a, b := socketPair(t)
	var v Vec
	for range MaxVec {
		require.True(t, v.Add([]byte{1}))
	}
	require.False(t, v.Add([]byte{2}))
	n, err := v.Writev(a)
	require.NoError(t, err)
	require.Equal(t, MaxVec, n)
	require.Equal(t, bytes.Repeat([]byte{1}, MaxVec), readAll(t, b))
}

func TestVecFullSocketIsNoError(t *testing.T) {
	a, b := socketPair(t)
	var v Vec
	big := bytes.Repeat([]byte("x"), 1<<20)
	for range 8 {
		v.Add(big)
	}
	n, err := v.Writev(a)
	require.NoError(t, err)
	require.Less(t, n, v.Size())
	k, err := v.Writev(a)
	require.NoError(t, err)
	require.Zero(t, k)
	k, err = Write(a, big)
	require.NoError(t, err)
	require.Zero(t, k)
	require.Len(t, readAll(t, b), n)
}

func TestVecBrokenSocket(t *testing.T) {
	a, b := socketPair(t)
	require.NoError(t, unix.Shutdown(b, unix.SHUT_RD))
	var v Vec
	v.Add([]byte("x"))
	_, err := v.Writev(a)
	require.ErrorIs(t, err, unix.EPIPE)
	_, err = Write(a, []byte("x"))
	require.ErrorIs(t, err, unix.EPIPE)
}

func TestVecNoAllocations(t *testing.T) {
	a, b := socketPair(t)
	var v Vec
	run, buf := make([]byte, 100), make([]byte, 1000)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for range 8 {
			v.Add(run)
		}
		_, _ = v.Writev(a)
		v.Reset()
		_, _ = unix.Read(b, buf)
	}))
}
