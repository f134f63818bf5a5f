package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// fakePair is a slave that connects after 2 s with 1,000,000, begins after 5 s, gets 200 MB/s, and builds its queues at half
// of that.
func fakePair(end int64) CatchUpOptions {
	begun := time.Now()
	copied := func() int64 { return max(time.Since(begun)-5*time.Second, 0).Milliseconds() * 200_000 }
	status := func(context.Context, string) (*body.HARuntimeInfo, error) {
		info := &body.HARuntimeInfo{Master: true, MasterCommitLogMaxOffset: codec.PhyOffset(end)}
		if time.Since(begun) > 2*time.Second {
			info.HAConnectionInfo = []*body.HAConnectionRuntimeInfo{{SlaveAckOffset: codec.PhyOffset(min(1_000_000+copied(), end))}}
		}
		return info, nil
	}
	info := func(context.Context, string) (map[string]string, error) {
		if copied() < 300_000_000 {
			return nil, errors.New("refused")
		}
		return map[string]string{"dispatchBehindBytes": fmt.Sprint(max(end-1_000_000-copied()/2, 0))}, nil
	}
	return CatchUpOptions{Master: "master", Slave: "slave", Wait: 10 * time.Second, status: status, info: info}
}

func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := CatchUp(t.Context(), fakePair(601_000_000))
		require.NoError(t, err)
		require.EqualValues(t, 600_000_000, r.Bytes)
		require.InDelta(t, 3, r.Took.Seconds(), 0.03)
		require.InDelta(t, 6, r.Queues.Seconds(), 0.07)
		require.InDelta(t, 200, r.MegabytesPerSec(), 4)
		require.InDelta(t, 200, r.Peak, 4)
		require.Contains(t, r.Text(), "0.60 GB in 3.0")
	})
}

// A slave that does not get on is told with where it is.
func TestCatchUpStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fakePair(601_000_000)
		o.Wait = 2 * time.Second
		_, err := CatchUp(t.Context(), o)
		require.ErrorContains(t, err, "no progress for 2s: the slave is at 1000000 of 601000000")
		_, err = CatchUp(t.Context(), fakePair(-1))
		require.ErrorContains(t, err, "the slave has all of it already")
	})
}
