package latency

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/clock"
	"skylark/internal/testlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var peer = netip.MustParseAddrPort("10.0.0.7:4711")

func TestBuckets(t *testing.T) {
	f := func(d time.Duration) {
		t.Helper()
		i := bucketOf(int64(d))
		require.Less(t, d, BucketBound(i), "bucket %d", i)
		lower := time.Duration(0)
		if i > 0 {
			lower = BucketBound(i - 1)
		}
		require.GreaterOrEqual(t, d, lower, "bucket %d", i)
		if i >= subs {
			require.LessOrEqual(t, BucketBound(i)-lower, lower/subs, "bucket %d is too wide", i)
		}
	}
	for d := range time.Duration(5000) {
		f(d)
	}
	for d := time.Duration(1); d < 60*time.Second; d += d/7 + 1 {
		f(d)
	}
	require.Equal(t, 0, bucketOf(-5))
	require.Equal(t, NumBuckets-1, bucketOf(int64(time.Hour)))
	require.GreaterOrEqual(t, BucketBound(NumBuckets-1), 64*time.Second)
}

// A quantile is never below the exact one and at most an eighth above.
func TestQuantile(t *testing.T) {
	var c counters
	var all []int64
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		d := int64(rnd.ExpFloat64() * 1e6)
		c.add(d, 1)
		all = append(all, d)
	}
	slices.Sort(all)
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	require.Zero(t, h.Mean())
	h.merge(&c)
	require.EqualValues(t, len(all), h.Count())
	for _, p := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[min(int(p*float64(len(all))), len(all)-1)]
		got := int64(h.Quantile(p))
		require.Greater(t, got, exact, p)
		require.LessOrEqual(t, got, exact+exact/8+128, p)
	}
	require.InDelta(t, 1e6, float64(h.Mean()), 3e4)
	earlier := h
	c.add(int64(3*time.Second), 5)
	h = Histogram{}
	h.merge(&c)
	h.Sub(&earlier)
	require.EqualValues(t, 5, h.Count())
	require.InDelta(t, 3, h.Max().Seconds(), 3.0/8)
}

// sampledSpan is a span whose next turn is measured in full, or is not.
func sampledSpan(r *Recorder, sampled bool) *Span {
	s := &Span{rec: r, shard: &r.shards[0]}
	for s.turns = 0; ((s.turns+1)*spread>>(64-sampleBits) == 0) != sampled; s.turns++ {
	}
	return s
}

func TestSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(clock.System, 0)
		s := sampledSpan(r, true)
		millis := s.Begin(r, 0, 0, false)
		require.Equal(t, time.Now().UnixMilli(), millis)
		s.Count(Send, 310)
		s.Count(Send, 310)
		s.Count(Other, 34)
		s.Count(Pull, 11)
		s.Uncount(Pull)
		time.Sleep(time.Millisecond)
		s.Enter(Append)
		time.Sleep(20 * time.Millisecond)
		s.Waited(Lock, 15*time.Millisecond)
		s.Enter(Serve)
		time.Sleep(time.Millisecond)
		s.Enter(Write)
		time.Sleep(3 * time.Millisecond)
		s.End(peer)

		snap := r.Snapshot()
		require.EqualValues(t, 2, snap.Total[Send].Count())
		require.EqualValues(t, 1, snap.Total[Other].Count())
		require.Zero(t, snap.Total[Pull].Count())
		require.InDelta(t, 25, float64(snap.Total[Send].Max())/1e6, 25.0/8)
		f := func(st Stage, millis float64, weight int64) {
			t.Helper()
			h := &snap.Stages[Send][st]
			require.EqualValues(t, weight, h.Count())
			require.InDelta(t, millis, float64(h.Max())/1e6, millis/8)
		}
		f(Serve, 2, 2*SampleEvery)
		f(Lock, 15, 2)
		f(Append, 5, 2*SampleEvery)
		f(Write, 3, 2*SampleEvery)
	})
}

// A turn that is not sampled reads no clock at its stages, but tells what it waited for.
func TestSpanUnsampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(clock.System, 100*time.Millisecond)
		s := sampledSpan(r, false)
		s.Begin(r, 0, 0, false)
		s.Count(Send, 310)
		s.About("T", 3)
		s.Enter(Append)
		time.Sleep(250 * time.Millisecond)
		s.Waited(Lock, 200*time.Millisecond)
		s.Enter(Write)
		s.End(peer)
		snap := r.Snapshot()
		require.EqualValues(t, 1, snap.Total[Send].Count())
		require.Zero(t, snap.Stages[Send][Append].Count())
		require.EqualValues(t, 1, snap.Stages[Send][Lock].Count())
		require.EqualValues(t, 1, snap.SlowCount())
		q := <-r.queue
		require.Equal(t, "lock=200ms unsampled=50ms", q.StageText())
		require.Equal(t, "T", q.Topic)
		require.Equal(t, peer, q.Remote)

		s = sampledSpan(r, false) // after a slow one all are measured
		s.Begin(r, 0, 0, false)
		require.True(t, s.detail)
		s.End(peer)
		time.Sleep(time.Minute)
		s = sampledSpan(r, false)
		s.Begin(r, 0, 0, false)
		require.False(t, s.detail)
		s.End(peer)
	})
}

func TestSpanOfAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(clock.System, 100*time.Millisecond)
		arrived := r.Now()
		time.Sleep(90 * time.Millisecond)
		var s Span
		var watch atomic.Uint32
		s.Watch(&watch)
		s.Begin(r, arrived, 17, true)
		s.Count(Pull, 11)
		s.Enter(Read)
		require.EqualValues(t, Read+1, watch.Load())
		time.Sleep(40 * time.Millisecond)
		s.Enter(Write)
		s.End(peer)
		require.Zero(t, watch.Load())
		q := <-r.queue
		require.Equal(t, "queue=90ms read=40ms", q.StageText())
		require.Equal(t, 17, q.QueueDepth)
		require.Equal(t, 130*time.Millisecond, q.Total)
		require.EqualValues(t, 1, r.Snapshot().Stages[Pull][Queue].Count())
	})
}

func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(clock.System, 0)
		f := func(sampled bool, appends int64) {
			t.Helper()
			before := r.Snapshot()
			s, later := sampledSpan(r, sampled), Span{}
			s.Begin(r, 0, 0, false)
			s.Count(Send, 310)
			s.Count(Other, 34)
			s.Enter(Append)
			time.Sleep(time.Millisecond)
			s.Detach(&later, Send, 1, Flush)
			s.End(peer)
			time.Sleep(8 * time.Millisecond)
			later.Enter(Write)
			later.End(peer)
			snap := r.Snapshot()
			snap.Sub(before)
			require.EqualValues(t, 1, snap.Total[Other].Count())
			require.EqualValues(t, 1, snap.Total[Send].Count())
			require.EqualValues(t, 1, snap.Stages[Send][Flush].Count())
			require.EqualValues(t, appends, snap.Stages[Send][Append].Count())
			require.InDelta(t, 9, float64(snap.Total[Send].Max())/1e6, 2)
			require.InDelta(t, 8, float64(snap.Stages[Send][Flush].Max())/1e6, 1)
		}
		f(false, 0)
		f(true, SampleEvery)
	})
}

// Spans that are used once are sampled as often as others.
func TestNewSpansAreSampled(t *testing.T) {
	r := NewRecorder(clock.System, 0)
	sampled := 0
	for range 100 * SampleEvery {
		var s Span
		s.Begin(r, 0, 0, false)
		if s.sampled {
			sampled++
		}
	}
	require.InDelta(t, 100, sampled, 5)
}

func TestNotBegun(t *testing.T) {
	var s, to Span
	s.Count(Send, 1)
	s.Enter(Append)
	s.Waited(Lock, time.Second)
	s.Detach(&to, Send, 1, Flush)
	s.End(peer)
	to.End(peer)
	var r *Recorder
	require.Zero(t, r.Now())
	r.Observe(Send, Dispatch, time.Second, 1)
}

// wall is a clock whose wall time can be set.
type wall struct {
	clock.Clock
	ahead time.Duration
}

func (w *wall) Now() time.Time { return w.Clock.Now().Add(w.ahead) }

func TestWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(clock.System, 0)
		for range 1000 {
			require.Equal(t, time.Now().UnixMilli(), r.millis(r.Now()))
			time.Sleep(1234567)
		}
		w := &wall{Clock: clock.System}
		r.clock = w
		r.millis(r.Now())
		w.ahead = time.Hour // somebody sets the clock
		time.Sleep(time.Duration(wallFor))
		require.Equal(t, w.Now().UnixMilli(), r.millis(r.Now()))
	})
}

// slow is one slow request.
func slow(r *Recorder, topic string) {
	var s Span
	s.Begin(r, 0, 0, true)
	s.Count(Send, 310)
	s.About(topic, 2)
	s.Enter(Append)
	time.Sleep(300 * time.Millisecond)
	s.Enter(Write)
	s.End(peer)
}

func TestSlowRequestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testlog.Text
		r := NewRecorder(clock.System, 200*time.Millisecond)
		s := NewSlowRequestService(r, slog.New(slog.NewTextHandler(&out, nil)), Context{
			Line:   func() []slog.Attr { return []slog.Attr{slog.String("pressure", "cpu=96%")} },
			Minute: func() []slog.Attr { return []slog.Attr{slog.String("gcPauseMax", "90µs")} }})
		s.Start()
		for range 12 {
			slow(r, "T")
			synctest.Wait()
		}
		text := out.Take()
		require.Equal(t, maxSlowLines, strings.Count(text, "slow request"))
		require.Contains(t, text, `msg="slow request" remote=10.0.0.7:4711 code=310 class=send topic=T queueId=2 `+
			`total=300ms stages="append=300ms" requests=1 queueDepth=0 notLogged=0 pressure="cpu=96%"`)
		info := map[string]string{}
		s.RuntimeInfo(info)
		require.Equal(t, "12", info["slowRequests"])
		require.Contains(t, info["latency_send"], "n=12 ")
		require.Contains(t, info, "latency_send_append")
		require.NotContains(t, info, "latency_pull")

		time.Sleep(slowWindow)
		slow(r, "T2")
		synctest.Wait()
		text = out.Take()
		require.Contains(t, text, "topic=T2")
		require.Contains(t, text, "notLogged=2")

		time.Sleep(ReportInterval)
		synctest.Wait()
		text = out.Take()
		require.Contains(t, text, `level=INFO msg="latency of the last minute" sendSlow=13`)
		require.Contains(t, text, "gcPauseMax=90µs")
		time.Sleep(ReportInterval)
		synctest.Wait()
		require.Empty(t, out.Take(), "nothing slow, nothing said")
		require.Zero(t, s.Recent().Total[Send].Count())
		s.Close()
	})
}

// Whoever is slow never waits for the log.
func TestManySlowOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testlog.Text
		r := NewRecorder(clock.System, 200*time.Millisecond)
		for range maxQueuedSlow + 5 {
			slow(r, "T")
		}
		require.EqualValues(t, 5, r.notTaken.Load())
		s := NewSlowRequestService(r, slog.New(slog.NewTextHandler(&out, nil)), Context{})
		s.Start()
		s.Close()
		require.Equal(t, maxSlowLines, strings.Count(out.Take(), "slow request"))
	})
}
