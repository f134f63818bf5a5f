package broker

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// A pull that is parked, and the message that wakes it, allocate nothing.
func TestParkedPullAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := startBroker(t, "mappedFileSizeCommitLog=16777216\nmessageIndexEnable=false\n")
	b.createTopic("T", 1, 6)
	b.createGroup("g", nil)
	const runs, warm = 300, 20
	pulls := newLoop(t, b, repeat(runs+warm+1, func(i int) *codec.Command {
		return pullRequest("g", "T", 0, codec.QueueOffset(i), time.Minute)
	})...)
	send := newLoop(t, b, sendRequest("T", 0, benchProps, bytes.Repeat([]byte("x"), 100)))
	frames, next := pulls.frames, 0
	once := func() {
		for !b.store.CanAppend(64 << 10) {
			runtime.Gosched()
		}
		pulls.frames = frames[next : next+1]
		next++
		pulls.turn()
		send.turn()
		for b.Parked() > 0 {
			runtime.Gosched()
		}
	}
	for range warm {
		once()
	}
	require.Less(t, testing.AllocsPerRun(runs, once), 1.0)
}
