package vfs

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	m, err := NewMemory(3*osPageSize + 100)
	require.NoError(t, err)
	require.Len(t, m.Bytes(), int(3*osPageSize+100))
	require.NoError(t, m.Populate(0, 0))
	require.NoError(t, m.Populate(osPageSize+1, 2*osPageSize))
	require.Equal(t, make([]byte, len(m.Bytes())), m.Bytes())
	m.Bytes()[3*osPageSize+99] = 7
	if err := m.Lock(); err != nil {
		require.ErrorIs(t, err, ErrMemoryLock)
	}
	require.ErrorIs(t, m.Populate(1, 3*osPageSize+100), ErrMapRange)
	require.ErrorIs(t, m.Populate(-1, 1), ErrMapRange)
	require.NoError(t, m.Free())
	require.ErrorIs(t, m.Free(), fs.ErrClosed)
	require.ErrorIs(t, m.Populate(0, 1), fs.ErrClosed)
	require.ErrorIs(t, m.Lock(), fs.ErrClosed)
	_, err = NewMemory(0)
	require.Error(t, err)
}

// TestMemoryLockLimit: beyond the limit the error says so, and the memory can still be used.
func TestMemoryLockLimit(t *testing.T) {
	m, err := NewMemory(1 << 40)
	if err != nil {
		t.Skip("no address space for the test")
	}
	if err := m.Lock(); err != nil {
		require.True(t, errors.Is(err, ErrMemoryLock), err)
	}
	m.Bytes()[1<<30] = 1
	require.NoError(t, m.Free())
}
