package bench

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// mustRun runs and expects no error.
func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	return r
}

// Every message arrives once, in each mode and encoding.
func TestProduce(t *testing.T) {
	f := func(change func(o *Options)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			o := f.options(Produce)
			o.Count, o.Conns, o.Window = 1000, 3, 8
			change(&o)
			r := mustRun(t, o)
			require.EqualValues(t, 1000, r.Messages)
			require.EqualValues(t, 1000*o.Size, r.Bytes)
			require.Empty(t, r.Failures)
			require.Equal(t, "FAKE_1", r.Broker.Version)
			require.Equal(t, o.Queues, r.Load.Queues)
			requireAll(t, f, o)
			if o.Mode == Oneway {
				require.EqualValues(t, 1000, *r.StoredMessages)
			} else {
				require.Equal(t, r.Requests, r.Latency.Count)
			}
			synctest.Wait()
			require.Zero(t, f.eng.Connections())
		})
	}
	f(func(o *Options) {})
	f(func(o *Options) { o.Serialize = codec.SerializeROCKETMQ })
	f(func(o *Options) { o.Mode, o.Window = Sync, 0 })
	f(func(o *Options) { o.Mode = Oneway })
	f(func(o *Options) { o.Batch, o.Tags = 10, []string{"A", "B"} })
	f(func(o *Options) { o.Tags, o.Keys = []string{"A", "B"}, 2 })
	f(func(o *Options) { o.Size = 0 })
	f(func(o *Options) { o.Compress = codec.SysFlagCompressionZlib })
	f(func(o *Options) { o.Compress, o.Size = codec.SysFlagCompressionLZ4, 20 })
	f(func(o *Options) { o.Rate = 100 })
	f(func(o *Options) { o.Rate, o.Batch = 100, 10 })
	f(func(o *Options) { o.Rate, o.Mode = 1000, Oneway })
	f(func(o *Options) { o.Rate, o.Window = 1e6, 1 })
	f(func(o *Options) { o.Broker, o.Namesrv = o.Namesrv[0], nil })
	f(func(o *Options) { o.Size, o.Window = 20<<10, 64 }) // more than the sockets hold
}

// requireAll looks at what was stored.
func requireAll(t *testing.T, f *fake, o Options) {
	t.Helper()
	records := f.records("T")
	require.Equal(t, 1000, len(records)) // Len would print them
	perQueue := map[int32]int{}
	ids, stamps, tags := map[string]bool{}, map[Stamp]bool{}, map[string]int{}
	for i := range records {
		r := &records[i]
		perQueue[r.QueueID]++
		props := codec.ParseProperties(r.Properties)
		ids[props[codec.PropUniqKey]] = true
		tags[props[codec.PropTags]]++
		require.Equal(t, "true", props[codec.PropWaitStoreMsgOK])
		require.Equal(t, o.Compress, codec.CompressionOf(r.SysFlag))
		body, err := codec.DecompressBody(r.Body, r.SysFlag, 1<<20)
		require.NoError(t, err)
		require.Len(t, body, o.Size)
		if s, ok := StampOf(r); o.Size >= StampBytes {
			require.True(t, ok)
			s.Due = 0
			stamps[s] = true
			if o.Keys > 0 {
				require.Len(t, strings.Split(props[codec.PropKeys], codec.KeySeparator), o.Keys)
			}
		}
		require.WithinDuration(t, time.Now(), time.UnixMilli(r.BornTimestamp), time.Minute)
	}
	require.Equal(t, 1000, len(ids))
	require.Len(t, perQueue, o.Queues)
	for q, n := range perQueue {
		require.InDelta(t, 1000/o.Queues, n, 100, "queue %d", q)
	}
	if o.Size >= StampBytes {
		require.Equal(t, 1000, len(stamps))
	}
	for _, tag := range o.Tags {
		require.InDelta(t, 1000/len(o.Tags), tags[tag], 100)
	}
}

// Messages are due at fixed times: the i-th at i/rate, whatever the connection.
func TestRateIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		o := f.options(Produce)
		o.Rate, o.Duration, o.Conns = 250, 4*time.Second, 3
		r := mustRun(t, o)
		require.EqualValues(t, 1000, r.Messages)
		sends := f.sentAt()
		for i, s := range sends {
			require.Equal(t, time.Duration(i)*4*time.Millisecond, s.at.Sub(sends[0].at))
		}
		require.Zero(t, r.Lag.Max)
		require.Zero(t, r.Latency.Max)
		require.InDelta(t, 3.996, r.Seconds, 0.001)
		require.InDelta(t, 250, r.MessagesPerSec, 1)
		require.Len(t, r.Intervals, 3, "the fourth second ends with the run")
		for _, i := range r.Intervals {
			require.InDelta(t, 250, i.Messages, 1)
		}
	})
}

// stall holds back all answers between two times.
func stall(from, to time.Time) func(*codec.SendMessageHeader) verdict {
	return func(*codec.SendMessageHeader) verdict {
		if now := time.Now(); !now.Before(from) && now.Before(to) {
			return verdict{after: to.Sub(now)}
		}
		return verdict{}
	}
}

// A broker that stalls for 100 ms is charged for every message that was due meanwhile. In a closed loop of
// one request at a time a single one suffers: 99 of 100 do not tell.
func TestStallCountsFromTheTimeDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		begin := time.Now()
		f.send = stall(begin.Add(time.Second), begin.Add(1100*time.Millisecond))
		o := f.options(Produce)
		o.Rate, o.Duration = 1000, 2*time.Second
		r := mustRun(t, o)
		require.EqualValues(t, 2000, r.Messages)
		require.Zero(t, r.Latency.P90)
		require.InDelta(t, 80_000, r.Latency.P99, 1500, "a twentieth waits, evenly up to 100 ms")
		require.InDelta(t, 100_000, r.Latency.Max, 1500)

		begin = time.Now()
		f.locked(func() { f.send = stall(begin.Add(time.Second), begin.Add(1100*time.Millisecond)) })
		o.Mode, o.Conns = Sync, 1 // one request at a time: the others wait at the generator, and count
		r = mustRun(t, o)
		require.EqualValues(t, 2000, r.Messages)
		require.InDelta(t, 80_000, r.Latency.P99, 1500)
		require.Less(t, r.Service.P99, 1000.0, "counted from sending it would look well")
		require.InDelta(t, 100_000, r.Service.Max, 1500)
	})
}

func TestFailuresByCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		n := 0
		f.send = func(*codec.SendMessageHeader) verdict {
			switch n++; {
			case n%10 == 0:
				return verdict{code: codec.RespSystemBusy}
			case n%25 == 0:
				return verdict{code: codec.RespFlushDiskTimeout}
			}
			return verdict{}
		}
		o := f.options(Produce)
		o.Count, o.Batch = 2000, 2
		r := mustRun(t, o)
		require.EqualValues(t, 2*(1000-100-20), r.Messages)
		require.Equal(t, map[string]int64{"SYSTEM_BUSY": 100, "FLUSH_DISK_TIMEOUT": 20}, r.Failures)
		require.EqualValues(t, 240, r.FailedMessages)
		require.EqualValues(t, 880, r.Latency.Count)
	})
}

// What is not answered counts as failed and as slow; its answer may come later and does no harm.
func TestTimeout(t *testing.T) {
	for _, rate := range []float64{0, 20} {
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			n := 0
			f.send = func(*codec.SendMessageHeader) verdict {
				switch n++; n {
				case 3:
					return verdict{silent: true}
				case 5:
					return verdict{after: 4 * time.Second}
				}
				return verdict{after: 100 * time.Millisecond}
			}
			o := f.options(Produce)
			o.Count, o.Conns, o.Window, o.Timeout, o.Rate = 1000, 1, 4, 2*time.Second, rate
			r := mustRun(t, o)
			require.EqualValues(t, 998, r.Messages, "%v", r.Failures)
			require.Equal(t, map[string]int64{"timeout": 2}, r.Failures)
			require.EqualValues(t, 1000, r.Latency.Count)
			require.GreaterOrEqual(t, r.Latency.Max, 2e6)
		})
	}
}

// A lost connection is made again; what was under way is failed, not sent twice.
func TestConnectionLost(t *testing.T) {
	for _, rate := range []float64{0, 500} {
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			n := 0
			f.send = func(*codec.SendMessageHeader) verdict {
				n++
				return verdict{close: n == 50, after: 10 * time.Millisecond}
			}
			o := f.options(Produce)
			o.Count, o.Conns, o.Window, o.Rate = 500, 2, 4, rate
			r := mustRun(t, o)
			require.Len(t, r.Failures, 1)
			require.Positive(t, r.Failures["connection lost"])
			require.EqualValues(t, 500, r.Messages+r.FailedMessages)
		})
	}
}

// While the broker is away messages are due all the same.
func TestBrokerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		o := f.options(Produce)
		o.Rate, o.Duration, o.Timeout = 1000, time.Second, 500*time.Millisecond
		time.AfterFunc(500*time.Millisecond, func() { _ = f.eng.Stop(context.Background()) })
		r := mustRun(t, o)
		require.InDelta(t, 500, r.Messages, 5)
		require.EqualValues(t, 1000, r.Messages+r.FailedMessages)
		require.InDelta(t, 500, r.Failures["not sent"], 5)
	})
}

func TestWarmupIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		begin := time.Now()
		f.send = func(*codec.SendMessageHeader) verdict {
			if time.Since(begin) < time.Second {
				return verdict{after: 50 * time.Millisecond}
			}
			return verdict{after: time.Millisecond}
		}
		o := f.options(Produce)
		o.Rate, o.Count, o.Warmup = 100, 200, 2*time.Second
		var lines []string
		o.Progress = func(l string) { lines = append(lines, l) }
		r := mustRun(t, o)
		require.EqualValues(t, 200, r.Messages)
		require.InDelta(t, 1000, r.Latency.Max, 5)
		_, sends, _ := f.counts()
		require.Equal(t, 400, sends)
		require.NotContains(t, lines[0], " 0 msg/s")
		require.Contains(t, lines[0], "warm-up")
		require.NotContains(t, lines[1], " 0 msg/s", "the end of the warm-up takes nothing from the second it ends in")
		require.Contains(t, lines[1], "warm-up")
		require.Equal(t, 3, r.Intervals[0].Second)
		require.Contains(t, lines[len(lines)-1], "100 msg/s")
		require.NotContains(t, lines[len(lines)-1], "warm-up")
	})
}

// A run that is told to stop reports what it did.
func TestCancel(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		for _, mode := range []Mode{Async, Oneway} {
			synctest.Test(t, func(t *testing.T) {
				f := startFake(t, false)
				if mode == Async {
					f.send = func(*codec.SendMessageHeader) verdict { return verdict{after: 10 * time.Millisecond} }
				} else if rate == 0 {
					return // as fast as it goes: virtual time would not move
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				o := f.options(Produce)
				o.Rate, o.Duration, o.Mode = rate, time.Hour, mode
				r, err := Run(ctx, o)
				require.NoError(t, err)
				require.InDelta(t, 1, r.Seconds, 0.1)
				require.Positive(t, r.Messages)
				require.Empty(t, r.Failures)
			})
		}
	}
}

func TestNoSuchAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		o := f.options(Produce)
		o.Count, o.Namesrv = 1, []string{"127.0.0.1:1"}
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, "127.0.0.1:1")
		o.Broker, o.Namesrv = "127.0.0.1:1", nil
		_, err = Run(t.Context(), o)
		require.ErrorContains(t, err, "127.0.0.1:1")
	})
}
