package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// fill stores n messages of another run in topic T.
func (f *fake) fill(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.makeTopic("T", 4)
	for i := range n {
		q := t.queues[i%4]
		b := make([]byte, 100)
		Stamp{Run: 1, Seq: uint64(i)}.put(b)
		rec, err := codec.AppendRecordV1(nil, &codec.Message{Topic: "T", QueueID: int32(i % 4), Body: b,
			QueueOffset: codec.QueueOffset(len(q.records))})
		require.NoError(f.t, err)
		q.records = append(q.records, rec)
	}
}

// add stores one more message in queue 0 and wakes who waits for it.
func (f *fake) add() {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.topics["T"].queues[0]
	q.records = append(q.records, q.records[0])
	waiting := q.waiting
	q.waiting = nil
	for _, wake := range waiting {
		wake()
	}
}

func TestConsume(t *testing.T) {
	f := func(want int64, change func(o *Options)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			f.fill(1000)
			o := f.options(Consume)
			change(&o)
			r := mustRun(t, o)
			require.Equal(t, want, r.Messages)
			require.Empty(t, r.Failures)
			require.GreaterOrEqual(t, r.Requests, want/int64(o.PullBatch))
			require.Equal(t, r.Requests, r.Latency.Count)
			require.Equal(t, want*int64(codec.MinRecordBytes+1+100), r.Bytes)
			synctest.Wait()
			require.Zero(t, f.eng.Connections())
			_, _, groups := f.counts()
			require.Equal(t, o.Groups, groups)
		})
	}
	f(1000, func(o *Options) {})
	f(1000, func(o *Options) { o.Serialize, o.CheckCRC = codec.SerializeROCKETMQ, true })
	f(1000, func(o *Options) { o.Conns = 1 })
	f(1000, func(o *Options) { o.Conns, o.PullBatch = 100, 1 })
	f(3000, func(o *Options) { o.Groups = 3 })
	f(0, func(o *Options) { o.From, o.Duration = FromLast, time.Second })
	f(1000, func(o *Options) { o.From = FromGroup })
	f(1000, func(o *Options) { o.Broker, o.Namesrv = o.Namesrv[0], nil })
	f(1000, func(o *Options) { o.Duration, o.Suspend = time.Second, 0 })
}

func TestConsumeCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		f.fill(10_000)
		o := f.options(Consume)
		o.Count = 500
		r := mustRun(t, o)
		require.GreaterOrEqual(t, r.Messages, int64(500))
		require.Less(t, r.Messages, int64(5000), "and what other connections had under way")
		o.Loop, o.Count = true, 30_000
		r = mustRun(t, o)
		require.GreaterOrEqual(t, r.Messages, int64(30_000), "each message is read three times")
	})
}

// What comes after the run began wakes the waiting pull.
func TestConsumeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		f.fill(4)
		o := f.options(Consume)
		o.From, o.Duration, o.Suspend = FromLast, 30*time.Second, 5*time.Second
		for i := range 10 {
			time.AfterFunc(time.Duration(i)*time.Second+time.Millisecond, f.add)
		}
		r := mustRun(t, o)
		require.EqualValues(t, 10, r.Messages)
		require.Empty(t, r.Failures)
		require.InDelta(t, 1e6, r.Latency.P50, 1e4, "a pull that waits is as long as it waits")
		pulls, _, _ := f.counts()
		require.InDelta(t, 10+4*30/5, pulls, 8)
	})
}

// A group goes on where it has stopped.
func TestConsumeFromGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		f.fill(100)
		o := f.options(Consume)
		o.From = FromGroup
		require.EqualValues(t, 100, mustRun(t, o).Messages)
		f.add()
		require.EqualValues(t, 1, mustRun(t, o).Messages)
		o.Group = "other"
		require.EqualValues(t, 101, mustRun(t, o).Messages)
	})
}

func TestConsumeUnknownTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Run(t.Context(), startFake(t, false).options(Consume))
		require.ErrorContains(t, err, "topic T")
	})
}

// Lost connections and refused pulls are counted, and the run goes on.
func TestConsumeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		f.fill(1000)
		o := f.options(Consume)
		o.Duration, o.Conns = 10*time.Second, 2
		time.AfterFunc(5*time.Second, f.breakAll)
		time.AfterFunc(6*time.Second, f.add)
		r := mustRun(t, o)
		require.EqualValues(t, 1001, r.Messages)
		require.Equal(t, map[string]int64{"connection lost": 2}, r.Failures)

		f.locked(func() { f.unknownCodes = map[int]bool{codec.ReqPullMessage: true} })
		r = mustRun(t, o)
		require.Zero(t, r.Messages)
		require.InDelta(t, 4*100, r.Failures["REQUEST_CODE_NOT_SUPPORTED"], 8, "ten a second for each queue")
	})
}

// Bytes that are no message end the run with their place.
func TestConsumeCorrupt(t *testing.T) {
	for _, crc := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			f.fill(100)
			rec := slices.Clone(f.topics["T"].queues[2].records[10])
			if crc {
				rec[95] ^= 1 // in the body
			} else {
				rec = rec[:len(rec)-1]
			}
			f.topics["T"].queues[2].records[10] = rec
			o := f.options(Consume)
			o.CheckCRC = crc
			_, err := Run(t.Context(), o)
			require.ErrorIs(t, err, codec.ErrCorrupt)
			require.ErrorContains(t, err, "queue 2")
		})
	}
}

func TestEndToEnd(t *testing.T) {
	f := func(change func(o *Options)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := startFake(t, false)
			o := f.options(EndToEnd)
			o.Rate, o.Count, o.Verify = 500, 1000, true
			change(&o)
			r := mustRun(t, o)
			want := int64(1000 * o.Groups)
			require.Equal(t, want, r.Messages)
			require.Equal(t, want, r.Latency.Count)
			require.Zero(t, r.Latency.Max, "nothing waits but the clock")
			require.EqualValues(t, 1000, r.Sent.Messages)
			require.Equal(t, &Verdict{Acked: want, Seen: want, Listed: []string{}}, r.Verify)
			require.InDelta(t, 2, r.Seconds, 0.05)
			synctest.Wait()
			require.Zero(t, f.eng.Connections())
		})
	}
	f(func(o *Options) {})
	f(func(o *Options) { o.Groups, o.Serialize = 3, codec.SerializeROCKETMQ })
	f(func(o *Options) { o.Compress = codec.SysFlagCompressionZSTD })
	f(func(o *Options) { o.Batch = 10 })
	f(func(o *Options) { o.Mode, o.Tags = Sync, []string{"A"} })
}

// A message that was acknowledged and not kept is found, by its number.
func TestEndToEndFindsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		n := 0
		f.send = func(*codec.SendMessageHeader) verdict {
			n++
			return verdict{drop: n == 40, silent: n == 50}
		}
		o := f.options(EndToEnd)
		o.Rate, o.Count, o.Verify, o.Conns, o.Drain = 500, 100, true, 1, 3*time.Second
		start := time.Now()
		r, err := Run(t.Context(), o)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorContains(t, err, "0/39")
		require.Equal(t, &Verdict{Acked: 99, Seen: 99, Missing: 1, Unacked: 1, Listed: []string{"0/39"}}, r.Verify)
		require.Less(t, time.Since(start), 10*time.Second)
		o.Verify = false
		f.locked(func() { n = 0 })
		r = mustRun(t, o)
		require.EqualValues(t, 1, r.Verify.Missing, "told, but no error")
	})
}

// Stalls show end to end, too; and only messages due after the warm-up count.
func TestEndToEndStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		o := f.options(EndToEnd)
		o.Rate, o.Duration, o.Warmup, o.Conns, o.Mode = 1000, 2*time.Second, time.Second, 1, Sync
		f.send = stall(time.Now().Add(2*time.Second), time.Now().Add(2100*time.Millisecond))
		r := mustRun(t, o)
		require.InDelta(t, 2000, r.Latency.Count, 5)
		require.EqualValues(t, 3000, r.Verify.Acked)
		require.InDelta(t, 80_000, r.Latency.P99, 2000)
		require.Zero(t, r.Latency.P90)
	})
}

// A ledger written by one process is verified by another.
func TestLedgerRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		f.fill(10) // of another run
		n := 0
		f.send = func(*codec.SendMessageHeader) verdict {
			n++
			return verdict{drop: n == 100, code: codec.RespSystemBusy * (n / 200 % 2)}
		}
		path := filepath.Join(t.TempDir(), "ledger")
		o := f.options(Produce)
		o.Count, o.Batch, o.Ledger = 1000, 2, path
		sent := mustRun(t, o)
		a, err := ReadLedger(path)
		require.NoError(t, err)
		require.Equal(t, sent.Messages, a.Count())
		c := f.options(Consume)
		c.Verify, c.Ledger, c.Drain, c.Suspend = true, path, 2*time.Second, time.Second
		r, err := Run(t.Context(), c)
		require.ErrorIs(t, err, ErrLost)
		require.EqualValues(t, 2, r.Verify.Missing)
		require.EqualValues(t, 10, r.Verify.Foreign)
		require.Equal(t, sent.Messages, r.Verify.Acked)
		require.Equal(t, sent.Messages-2, r.Verify.Seen)
	})
}

func TestReadLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := CreateLedger(path, 77)
	require.NoError(t, err)
	for i := range uint64(1000) {
		l.Ack(uint32(i%3), i)
	}
	l.Flush()
	require.NoError(t, l.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, whole, ledgerHeadBytes+1000*ledgerEntryBytes)
	a, err := ReadLedger(path)
	require.NoError(t, err)
	require.EqualValues(t, 77, a.Run)
	require.EqualValues(t, 1000, a.Count())

	require.NoError(t, os.WriteFile(path, whole[:len(whole)-5], 0o600))
	a, err = ReadLedger(path)
	require.NoError(t, err, "an entry cut off is passed over")
	require.EqualValues(t, 999, a.Count())
	for _, bad := range [][]byte{nil, whole[:10], append([]byte("something else  "), whole...),
		append(slices.Clone(whole), 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255)} {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, err = ReadLedger(path)
		require.ErrorIs(t, err, ErrBadLedger)
	}
	_, err = ReadLedger(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = CreateLedger(filepath.Join(path, "x"), 1)
	require.Error(t, err)
}

func TestBitmap(t *testing.T) {
	var a, b bitmap
	for _, v := range []uint64{0, 63, 64, 1000, 1 << 20} {
		require.True(t, a.set(v))
		require.False(t, a.set(v))
	}
	require.EqualValues(t, 5, a.n)
	require.True(t, a.covers(&b))
	require.False(t, b.covers(&a))
	b.set(64)
	b.set(3)
	var missing []uint64
	a.without(&b, func(v uint64) bool {
		missing = append(missing, v)
		return len(missing) < 3
	})
	require.Equal(t, []uint64{0, 63, 1000}, missing)
	require.False(t, a.covers(&b))
}

func TestStamp(t *testing.T) {
	s := Stamp{Producer: 3, Run: 1 << 63, Seq: 1 << 31, Due: -5}
	b := filler(100)
	s.put(b)
	got, ok := ReadStamp(b)
	require.True(t, ok)
	require.Equal(t, s, got)
	for _, bad := range [][]byte{nil, b[:StampBytes-1], filler(100)} {
		_, ok = ReadStamp(bad)
		require.False(t, ok)
	}
	b[16] = 255 // a number that no run reaches
	_, ok = ReadStamp(b)
	require.False(t, ok)
	packed, bits, err := codec.CompressBody(filler(4000), codec.SysFlagCompressionZlib, 5)
	require.NoError(t, err)
	require.InDelta(t, 1000, len(packed), 300, "as records do")
	_, ok = StampOf(&codec.Record{Body: packed, SysFlag: bits})
	require.False(t, ok)
	_, ok = StampOf(&codec.Record{Body: packed[:10], SysFlag: bits})
	require.False(t, ok)
}

// On sockets and with the precise clock everything works as in memory; times are not looked at.
func TestSockets(t *testing.T) {
	f := startFake(t, true)
	o := f.options(Produce)
	o.Count, o.Size = 5000, 200
	require.EqualValues(t, 5000, mustRun(t, o).Messages)
	o.Rate, o.Count = 20_000, 2000
	r := mustRun(t, o)
	require.EqualValues(t, 2000, r.Messages)
	require.EqualValues(t, 2000, r.Lag.Count)
	o.CPUPid = os.Getpid()
	c := f.options(Consume)
	c.CPUPid = os.Getpid()
	r = mustRun(t, c)
	require.EqualValues(t, 7000, r.Messages)
	require.Positive(t, *r.Broker.RSSAnonBytes)
	require.NotEmpty(t, r.Broker.Cores)
	e := f.options(EndToEnd)
	e.Rate, e.Count, e.Verify = 5000, 1000, true
	r = mustRun(t, e)
	require.EqualValues(t, 1000, r.Verify.Seen)
	require.Positive(t, r.Latency.P50)

	ctx, cancel := context.WithCancel(t.Context())
	big := f.options(Produce)
	big.Size, big.Conns, big.Window, big.Duration = 1<<20, 2, 16, time.Hour
	seen := 0
	f.locked(func() {
		f.send = func(*codec.SendMessageHeader) verdict {
			if seen++; seen == 50 {
				cancel()
			}
			return verdict{drop: true}
		}
	})
	r, err := Run(ctx, big)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Messages, int64(50), fmt.Sprint(r.Failures))
}
