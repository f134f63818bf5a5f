package testlog

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	var l Text
	require.Empty(t, l.String())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { fmt.Fprintf(&l, "line %d of four\n", i) })
	}
	all.Wait()
	require.Equal(t, 4, l.Count())
	require.Equal(t, 4, l.Count("four", "line"))
	require.Equal(t, 1, l.Count("four", "line 2"))
	require.Zero(t, l.Count("line 1", "line 2"))
	require.Len(t, l.Take(), 4*len("line 1 of four\n"))
	require.Zero(t, l.Count())
}
