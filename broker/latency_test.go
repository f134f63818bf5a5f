package broker

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/latency"
)

// A send that waits for a slow disk leaves a line that says so.
func TestSlowSendIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: "flushDiskType=SYNC_FLUSH\n"})
		b.createTopic("T", 4, 6)
		b.mustSend("T", 0, "", "quick")
		release := d.stall(t)
		answer := b.begin(sendRequest("T", 3, "", []byte("x")))
		synctest.Wait()
		time.Sleep(1200 * time.Millisecond)
		release()
		require.Equal(t, codec.RespSuccess, await(t, answer).Code)
		synctest.Wait()
		require.Regexp(t, regexp.MustCompile(`level=WARN msg="slow request" part=broker remote=\S+ code=310 class=send topic=T `+
			`queueId=3 total=1.2s stages="flush=1.2s" requests=1 queueDepth=0 notLogged=0`), b.log.String())
		require.NotContains(t, b.log.String(), "queueId=0 total")

		info := b.RuntimeInfo()
		require.Equal(t, "1", info["slowRequests"])
		require.Contains(t, info["latency_send"], "n=2 ")
		require.Contains(t, info["latency_send_flush"], "n=2 ")
		require.NotEmpty(t, info["goGcPauses"])
		require.NotEmpty(t, info["putLatency99"])
		time.Sleep(latency.ReportInterval)
		synctest.Wait()
		require.Regexp(t, regexp.MustCompile(`level=INFO msg="latency of the last minute".* sendSlow=1 .*gcPauseMax=`),
			b.log.String())
	})
}

// The threshold is taken from the configuration; 0 means that nothing is slow.
func TestSlowRequestsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: "flushDiskType=SYNC_FLUSH\nslowRequestMillis=0\n"})
		b.createTopic("T", 4, 6)
		release := d.stall(t)
		answer := b.begin(sendRequest("T", 3, "", []byte("x")))
		time.Sleep(2 * time.Second)
		release()
		require.Equal(t, codec.RespSuccess, await(t, answer).Code)
		synctest.Wait()
		require.NotContains(t, b.log.String(), "slow request")
	})
}

// Every request is counted once, in its class, whoever answers it.
func TestRequestsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{virtual: true})
		b.createTopic("T", 1, 6)
		b.createGroup("g", nil)
		before := b.Latency()
		const n = 64
		for i := range n {
			b.mustSend("T", 0, "", "x")
			synctest.Wait()
			answer := b.do(pullRequest("g", "T", 0, codec.QueueOffset(i), 0))
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		}
		for i := range 3 { // parked, then woken by a send
			answer := b.begin(pullRequest("g", "T", 0, codec.QueueOffset(n+i), time.Minute))
			synctest.Wait()
			require.Equal(t, 1, b.Parked())
			b.mustSend("T", 0, "", "x")
			require.Equal(t, codec.RespSuccess, await(t, answer).Code)
		}
		expired := b.begin(pullRequest("g", "T", 0, n+3, time.Second)) // not a slow request
		require.Equal(t, codec.RespPullNotFound, await(t, expired).Code)
		synctest.Wait()
		s := b.Latency()
		s.Sub(before)
		require.EqualValues(t, n+3, s.Total[latency.Send].Count())
		require.EqualValues(t, n, s.Total[latency.Pull].Count())
		require.EqualValues(t, 4, s.Total[latency.Wake].Count())
		require.Zero(t, s.SlowCount())
		f := func(c latency.Class, stages ...latency.Stage) {
			t.Helper()
			for _, st := range stages {
				require.Positive(t, s.Stages[c][st].Count(), "%v %v", c, st)
			}
		}
		f(latency.Send, latency.Serve, latency.Append, latency.Write)
		f(latency.Pull, latency.Serve, latency.Read, latency.Write)
		require.Positive(t, s.Stages[latency.Send][latency.Dispatch].Count())
	})
}

// What waits in a business pool is told apart from what is served.
func TestQueueWaitIsAStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{virtual: true})
		before := b.Latency()
		b.createTopic("T", 1, 6) // by the admin pool
		synctest.Wait()
		s := b.Latency()
		s.Sub(before)
		require.Positive(t, s.Total[latency.Other].Count())
		require.Positive(t, s.Stages[latency.Other][latency.Serve].Count())
	})
}
