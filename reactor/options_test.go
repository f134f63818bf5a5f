package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsDefaultsAreValid(t *testing.T) {
	var o Options
	require.NoError(t, o.EnsureDefaults().Validate())
	require.Equal(t, 120*time.Second, o.IdleTimeout)
	require.LessOrEqual(t, o.Loops, DefaultMaxLoops)
}

func TestOptionsNameTheField(t *testing.T) {
	f := func(o Options, field string) {
		t.Helper()
		require.ErrorContains(t, o.EnsureDefaults().Validate(), "Options."+field+" ")
	}
	f(Options{MaxFrameBytes: 3}, "MaxFrameBytes")
	f(Options{MaxConnections: -1}, "MaxConnections")
	f(Options{HighWatermarkBytes: 10, LowWatermarkBytes: 11}, "LowWatermarkBytes")
	f(Options{HighWatermarkBytes: 10, MaxPendingBytes: 9}, "MaxPendingBytes")
	f(Options{Backlog: 1 << 20}, "Backlog")
}
