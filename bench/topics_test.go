package bench

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// The load of a run spreads evenly over all topics, whatever their number is to that of the connections.
func TestTopics(t *testing.T) {
	f := func(topics, conns int, change func(f *fake, o *Options)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			o := f.options(Produce)
			o.Topics, o.Conns, o.Queues, o.Count, o.Rate = topics, conns, 2, 6000, 1000
			change(f, &o)
			r := mustRun(t, o)
			require.EqualValues(t, 6000, r.Messages)
			require.Equal(t, topics, r.Load.Topics)
			require.Contains(t, r.Text(), "topics T_…")
			for i := range topics {
				records := f.records(o.topicName(i))
				require.InDelta(t, 6000/topics, len(records), float64(max(60, 1200/topics)), "topic %d", i)
				require.EqualValues(t, 2, f.topics[o.topicName(i)].config.WriteQueueNums)
			}
		})
	}
	f(2, 4, func(*fake, *Options) {})
	f(3, 3, func(*fake, *Options) {})
	f(600, 3, func(*fake, *Options) {})
	f(600, 3, func(_ *fake, o *Options) { o.Broker, o.Namesrv = o.Namesrv[0], nil })
	f(6, 2, func(f *fake, o *Options) { f.unknownCodes = map[int]bool{codec.ReqUpdateAndCreateTopicList: true} })
	f(6, 2, func(f *fake, o *Options) { f.makeTopic(o.Topic+"_00005", 7) }) // it gets the run's number of queues
}

func TestTopicsOfCoverAll(t *testing.T) {
	f := func(topics, conns int) {
		t.Helper()
		o := Options{Topic: "T", Topics: topics, Conns: conns}
		seen := map[string]int{}
		for i := range conns {
			names := o.topicsOf(i)
			require.NotEmpty(t, names)
			for _, name := range names {
				seen[name]++
			}
		}
		require.Len(t, seen, topics)
	}
	f(1, 1)
	f(1, 5)
	f(5, 1)
	f(5, 5)
	f(7, 3)
	f(3, 7)
}

// Idle connections are there for the whole time and say so.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		o := f.options(Idle)
		o.Conns, o.Duration, o.Warmup, o.CPUPid = 10, 60*time.Second, time.Second, os.Getpid()
		time.AfterFunc(30*time.Second, func() { require.Equal(t, 11, f.eng.Connections(), "and that of questions") })
		r := mustRun(t, o)
		require.InDelta(t, 20, r.Messages, 1)
		require.Zero(t, r.FailedMessages)
		_, _, groups := f.counts()
		require.Equal(t, 1, groups)
		require.Positive(t, *r.Broker.RSSAnonBeforeBytes)
		require.Positive(t, *r.Broker.PrivateBytes)
		require.Contains(t, r.Text(), "of a core")
		synctest.Wait()
		require.Zero(t, f.eng.Connections())

		f.locked(func() { f.unknownCodes = map[int]bool{codec.ReqHeartBeat: true} })
		r = mustRun(t, o)
		require.InDelta(t, 20, r.Failures["REQUEST_CODE_NOT_SUPPORTED"], 1)
		require.EqualValues(t, 10, r.Failures[failOpening])
	})
}
