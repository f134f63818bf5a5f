package bench

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What was used before a run does not count, however soon it ends.
func TestUsedInAShortRun(t *testing.T) {
	for ownCPU() < 200*time.Millisecond {
	}
	for range 20 {
		r := &run{o: &Options{CPUPid: os.Getpid()}, tl: newTimeline(), report: &Report{}}
		r.tl.base = r.tl.base.Add(-time.Hour)
		require.NoError(t, r.watched([]*shard{newShard(false)}, nil, func() error { return nil }))
		require.Less(t, r.report.Generator.CPUUsPerMsg, 1e5)
		require.Less(t, *r.report.Broker.CPUUsPerMsg, 1e5)
	}
}
