package freeport

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	port, err := Find(-2, 1)
	require.NoError(t, err)
	for _, p := range []int{port - 2, port, port + 1} {
		require.Greater(t, p, 1024)
		require.Less(t, p, 32768)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
		require.NoError(t, err)
		require.False(t, isFree(p))
		require.NoError(t, l.Close())
	}
	_, err = Find(1 << 16)
	require.ErrorIs(t, err, ErrNone)
}
