package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakePair is a slave that starts after 2 s, begins after 5 s at 1,000,000, gets 200 MB/s, and builds its queues at half
// of that.
func fakePair(end int64) CatchUpOptions {
	begun := time.Now()
	ask := func(_ context.Context, addr string) (map[string]string, error) {
		since := time.Since(begun)
		at, dispatched := end, end
		if addr == "slave" {
			if since < 2*time.Second {
				return nil, errors.New("refused")
			}
			copied := max(since-5*time.Second, 0).Milliseconds() * 200_000
			at, dispatched = min(1_000_000+copied, end), min(1_000_000+copied/2, end)
		}
		return map[string]string{"commitLogMaxOffset": fmt.Sprint(at), "dispatchBehindBytes": fmt.Sprint(at - dispatched)}, nil
	}
	return CatchUpOptions{Master: "master", Slave: "slave", Wait: 10 * time.Second, ask: ask}
}

func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := CatchUp(t.Context(), fakePair(601_000_000))
		require.NoError(t, err)
		require.EqualValues(t, 600_000_000, r.Bytes)
		require.InDelta(t, 3, r.Took.Seconds(), 0.03)
		require.InDelta(t, 6, r.Queues.Seconds(), 0.03)
		require.InDelta(t, 200, r.MegabytesPerSec(), 4)
		require.InDelta(t, 200, r.Peak, 4)
		require.False(t, r.Partial)
		require.Contains(t, r.Text(), "0.60 GB in 3.0")
	})
}

// A slave that does not get on is told with where it is.
func TestCatchUpStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fakePair(601_000_000)
		o.Wait = 4 * time.Second
		_, err := CatchUp(t.Context(), o)
		require.ErrorContains(t, err, "no progress for 4s: the slave is at 1000000 of 601000000")
		o.Master = "slave"
		_, err = CatchUp(t.Context(), o)
		require.ErrorContains(t, err, "the slave has all of it already")
	})
}
