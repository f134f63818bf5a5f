package timer

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

func TestDeliversWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(300 * time.Millisecond) // not on a step
		s.put("ten", 10*time.Second)
		s.put("half", 1500*time.Millisecond)
		s.put("exact", 1700*time.Millisecond) // a multiple of the step
		after(1499 * time.Millisecond)
		require.Empty(t, s.delivered(), "never before its time")
		require.EqualValues(t, 3, s.Status().Waiting)
		require.EqualValues(t, 3, s.count("T"))
		after(201 * time.Millisecond)
		require.Equal(t, []string{"half", "exact"}, s.delivered(), "at the end of the step, exactly for a multiple")
		after(8 * time.Second)
		require.Len(t, s.delivered(), 2)
		after(time.Second)
		require.Equal(t, []string{"half", "exact", "ten"}, s.delivered())
		require.Len(t, s.sent, 3)
		for _, d := range s.sent {
			require.Equal(t, "T", d.Topic)
			require.EqualValues(t, 3, d.QueueID)
			require.Zero(t, d.LateMillis)
			require.Positive(t, d.SizeBytes)
			require.False(t, d.Rolled)
		}
		rec := s.records("T", 3)[0]
		require.EqualValues(t, 7, rec.Flag)
		require.EqualValues(t, 1000, rec.BornTimestamp)
		require.EqualValues(t, 2, rec.ReconsumeTimes)
		f := func(name, want string) {
			t.Helper()
			value, _ := rec.Property(name)
			require.Equal(t, want, string(value), name)
		}
		f(codec.PropTimerOutMs, fmt.Sprint(time.UnixMilli(rec.StoreTimestamp).Add(-time.Second).UnixMilli()))
		f(codec.PropTimerDequeueMs, fmt.Sprint(rec.StoreTimestamp))
		f(codec.PropRealTopic, "T")
		f(codec.PropRealQueueID, "3")
		f(codec.PropTimerRollTimes, "")
		require.Equal(t, codec.TagsCode([]byte("A")), s.store.QueueEntries("T", 3, 0, 1)[0].TagsCode)
		require.Zero(t, s.Status().Waiting)
		require.Zero(t, s.count("T"))
		info := map[string]string{}
		s.RuntimeInfo(info)
		require.Equal(t, "0", info["timerReadBehind"])
		require.Equal(t, "0", info["timerOffsetBehind"])
		require.Equal(t, "0", info["timerCongestNum"])
		require.Equal(t, "0,0", info["timerLateMillis"])
		require.Contains(t, info["timerEnqueueTps"], ".")
		s.stop()
	})
}

// Java HookUtils.transformTimerMessage, and case B08.
func TestRewrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := DefaultLive()
		live.MaxDelay = 30 * 24 * time.Hour
		s := open(t, setup{fs: newFS(t), live: live})
		after(1234 * time.Millisecond)
		now := time.Now().UnixMilli()
		f := func(status store.PutStatus, out int64, pairs ...string) {
			t.Helper()
			m := &codec.Message{Topic: "T", QueueID: 3, Properties: props(pairs...)}
			was := string(m.Properties)
			require.True(t, Asks(m))
			got, err := s.Rewrite(m)
			require.Equal(t, status, got, "%v", err)
			require.Equal(t, status == store.PutOK, err == nil)
			if out == 0 {
				require.Equal(t, "T", m.Topic)
				require.Equal(t, was, string(m.Properties))
				return
			}
			require.Equal(t, codec.TimerTopic, m.Topic)
			require.Zero(t, m.QueueID)
			require.Equal(t, was+string(props(codec.PropTimerOutMs, fmt.Sprint(out), codec.PropRealTopic, "T",
				codec.PropRealQueueID, "3")), string(m.Properties))
			require.False(t, Asks(m))
		}
		sec, ms, at := codec.PropTimerDelaySec, codec.PropTimerDelayMs, codec.PropTimerDeliverMs
		step := now / 1000 * 1000
		f(store.PutOK, step+10000, sec, "10")
		f(store.PutOK, step, ms, "1")
		f(store.PutOK, step+3600000, sec, "3600")
		f(store.PutOK, step+1000, at, fmt.Sprint(step+2000)) // a multiple: the slot before
		f(store.PutOK, step+2000, at, fmt.Sprint(step+2001))
		f(store.PutOK, step+10000, sec, "10", ms, "50000", at, "1") // DELAY_SEC goes first
		f(store.PutOK, step+50000, ms, "50000", at, "1")
		for _, past := range []string{fmt.Sprint(now), fmt.Sprint(now - 1), "0", "-1", "-9223372036854775808"} {
			f(store.PutOK, 0, at, past)
		}
		f(store.PutOK, 0, sec, "0")
		f(store.PutOK, 0, sec, "-5")
		f(store.WheelTimerMsgIllegal, 0, sec, "9223372036854775807")
		f(store.WheelTimerMsgIllegal, 0, sec, "-9223372036854775807")
		f(store.WheelTimerMsgIllegal, 0, ms, "9223372036854775807")
		f(store.WheelTimerMsgIllegal, 0, at, "9223372036854775807")
		f(store.WheelTimerMsgIllegal, 0, at, "9223372036854775808")
		f(store.WheelTimerMsgIllegal, 0, sec, "x")
		f(store.WheelTimerMsgIllegal, 0, sec, "1.5")
		f(store.PutOK, step+30*86400*1000, sec, fmt.Sprint(30*86400))
		f(store.WheelTimerMsgIllegal, 0, sec, fmt.Sprint(30*86400+1))
		f(store.WheelTimerMsgIllegal, 0, at, fmt.Sprint(now), codec.PropTimerDelUniqKey, "T+x")
		f(store.PropertiesSizeExceeded, 0, sec, "10", "k", strings.Repeat("x", math.MaxInt16-100))
		require.False(t, Asks(&codec.Message{Topic: "T", Properties: props(sec, "1", codec.PropTimerOutMs, "5")}))
		require.False(t, Asks(&codec.Message{Topic: codec.TimerTopic, Properties: props(sec, "1")}))
		s.stop()
	})
}

// Flow control of a slot: all are taken up to the limit, none from twice the limit on, some between.
func TestFlowControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := DefaultLive()
		live.CongestNumEachSlot = 20
		s := open(t, setup{fs: newFS(t), live: live})
		taken, refused := 0, 0
		for range 200 {
			m := s.message("m", 10*time.Second)
			switch status, err := s.Rewrite(m); status {
			case store.PutOK:
				require.Equal(t, store.PutOK, s.store.Put(m).Status)
				taken++
				if taken <= 20 {
					require.Zero(t, refused)
				}
			case store.WheelTimerFlowControl:
				require.ErrorIs(t, err, ErrCongested)
				refused++
			default:
				require.Fail(t, status.String())
			}
			synctest.Wait()
		}
		require.Greater(t, taken, 20)
		require.LessOrEqual(t, taken, 40)
		s.put("another slot", 20*time.Second)
		after(11 * time.Second)
		require.Len(t, s.delivered(), taken)
		s.stop()
	})
}

// A message further ahead than the window rolls; its time stays what it was.
func TestRolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t), window: 10})
		for _, d := range []int{9, 10, 11, 13, 14, 25, 61, 100} {
			s.put(fmt.Sprint(d), time.Duration(d)*time.Second)
		}
		began := time.Now()
		after(5 * time.Second)
		recalled := s.put("recalled", 40*time.Second)
		after(3 * time.Second)
		s.recall("recalled", recalled)
		s.put("late recall", 7*time.Second)
		after(100 * time.Second)
		require.Len(t, s.delivered(), 9)
		for _, rec := range s.records("T", 3) {
			want := 0
			if _, err := fmt.Sscan(string(rec.Body), &want); err == nil {
				require.InDelta(t, want, time.UnixMilli(rec.StoreTimestamp).Sub(began).Seconds(), 0.01, "no drift")
			}
			require.NotEqual(t, "recalled", string(rec.Body))
			require.Equal(t, want > 10, rollTimes(&rec) > 0, "%s", rec.Body)
		}
		rolled := 0
		for _, d := range s.sent {
			if d.Rolled {
				require.Equal(t, codec.TimerTopic, d.Topic)
				rolled++
			}
		}
		require.Greater(t, rolled, 15)
		require.Zero(t, s.count("T"))
		require.Zero(t, s.Status().Waiting)
		s.stop()
	})
}

// Three days at Java's window and precision, delivered to the millisecond.
func TestLongDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t), window: 172800, slots: wheelSlots})
		s.put("three days", 72*time.Hour)
		after(72*time.Hour - time.Millisecond)
		require.Empty(t, s.delivered())
		after(time.Millisecond)
		require.Equal(t, []string{"three days"}, s.delivered())
		require.Equal(t, 1, rollTimes(&s.records("T", 3)[0]))
		s.stop()
	})
}

func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		a := s.put("a", 5*time.Second)
		s.put("b", 5*time.Second)
		s.recall("a", a)
		s.recall("nobody", a)
		after(100 * time.Millisecond)
		require.EqualValues(t, 0, s.count("T"), "two messages, two recalls")
		list, err := s.List("", time.Time{}, 100)
		require.NoError(t, err)
		require.Len(t, list, 4)
		after(6 * time.Second)
		require.Equal(t, []string{"b"}, s.delivered())
		require.Zero(t, s.count("T"), "the recall of nothing is counted back")
		c := s.put("c", 3*time.Second)
		after(1990 * time.Millisecond)
		s.recall("c", c) // at the last moment: Java and we take none in the step before
		after(3 * time.Second)
		require.Equal(t, []string{"b"}, s.delivered())
		require.Zero(t, s.Status().Waiting)
		s.stop()
	})
}

// A message and its recall come together also when the broker was away while both were due: whichever of them rolls, the
// message is not delivered, and the counts are right.
func TestRecallOverAStop(t *testing.T) {
	run := func(name string, window int, step time.Duration, f func(m *model, end func(kill bool))) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{t: t, fs: newFS(t), o: setup{window: window, step: step, async: 2 * time.Second,
					file: 52*3 + 16}} // the third unit is the last in its file, and of its batch
				m.open()
				f(m, func(kill bool) {
					if kill {
						m.fs = m.fs.CloneAll()
						m.s.kill()
					} else {
						m.s.stop()
					}
				})
				after(3 * time.Minute)
				m.check()
				require.Zero(t, m.s.count("T"))
				m.s.stop()
			})
		})
	}
	run("the message rolls", 18, time.Second, func(m *model, end func(bool)) {
		m.put(21665 * time.Millisecond)
		end(false)
		m.pause(8125)
		m.recall(0) // does not roll: its slot is in the window
		end(false)
		m.pause(21648)
	})
	for _, kill := range []bool{false, true} {
		run(fmt.Sprint("both roll, killed: ", kill), 2, 250*time.Millisecond, func(m *model, end func(bool)) {
			m.put(4241 * time.Millisecond)
			m.recall(0)
			end(false)
			m.pause(42635)
			end(kill) // the message is back in its slot, its recall is late
			m.pause(4)
		})
	}
}

func TestListAndDistribution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t), slots: wheelSlots})
		for i := range 25 {
			s.put(fmt.Sprint("m", i), time.Duration(i+1)*10*time.Second)
		}
		m := s.message("other", 2*time.Hour)
		m.Topic = "Other"
		s.must(m)
		after(time.Second)
		list, err := s.List("", time.Time{}, 100)
		require.NoError(t, err)
		require.Len(t, list, 26)
		require.Equal(t, Waiting{Topic: "T", QueueID: 3, UniqKey: "m1", DueMillis: time.Now().Add(19 * time.Second).UnixMilli(),
			PhyOffset: list[1].PhyOffset}, list[1])
		list, err = s.List("T", time.Now().Add(100*time.Second), 3)
		require.NoError(t, err)
		require.Len(t, list, 3)
		require.Equal(t, "m10", list[0].UniqKey)
		list, err = s.List("Other", time.Time{}, 100)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, []int64{0, 6, 19, 0, 0, 1, 0, 0, 0}, s.Distribution())
		require.EqualValues(t, 25, s.count("T"))
		require.EqualValues(t, 1, s.count("Other"))
		s.ForgetTopic("Other")
		require.NotContains(t, s.Metrics().TimingCount, "Other")
		s.stop()
	})
}

// 10,000 due messages a second for three seconds, on the real clock: each is delivered once. The log says how late at most;
// on a machine with nothing else to do it is less than a step.
func TestTenThousandASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("30,000 messages")
	}
	s := open(t, setup{fs: newFS(t), logMax: 64 << 20, file: 4 << 20})
	first := time.Now().Add(4 * time.Second)
	for i := range 30000 {
		s.put(fmt.Sprint("m", i), time.Until(first.Add(time.Duration(i/10)*time.Millisecond)))
	}
	if late := time.Since(first); late > 0 {
		t.Logf("the machine was too busy to put them in time, by %v", late)
	}
	require.Eventually(t, func() bool { return s.store.MaxOffset("T", 3) == 30000 }, time.Minute, 10*time.Millisecond)
	t.Logf("worst %d ms behind the end of the step", s.Status().WorstLateMillis)
	s.stop()
	require.Len(t, s.sent, 30000, "each once")
}

func TestStopEnqueueAndDequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		live := DefaultLive()
		live.StopEnqueue = true
		s := open(t, setup{fs: fsys, live: live})
		s.put("a", 2*time.Second)
		after(5 * time.Second)
		require.Empty(t, s.delivered())
		require.EqualValues(t, 1, s.Status().OffsetBehind)
		s.stop()
		live.StopEnqueue, live.StopDequeue = false, true
		s = open(t, setup{fs: fsys, live: live})
		s.put("b", 2*time.Second)
		after(5 * time.Second)
		s.put("c", time.Second)
		after(5 * time.Second)
		require.Empty(t, s.delivered())
		require.Zero(t, s.Status().OffsetBehind)
		require.EqualValues(t, 3, s.Status().Waiting)
		require.Greater(t, s.Status().ReadBehindMillis, int64(2000))
		s.stop()
		s = open(t, setup{fs: fsys})
		after(time.Second)
		require.Equal(t, []string{"a", "b", "c"}, s.delivered())
		s.stop()
	})
}

// timerWarmEnable reads what is due soon before it is due, and only that.
func TestWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		s := open(t, setup{fs: newFS(t), warm: true,
			under: func(st Store) Store { return &countingStore{Store: st, reads: &reads} }})
		for i := range 30 {
			s.put(fmt.Sprint("m", i), 10*time.Second)
		}
		s.put("far", time.Hour)
		after(4 * time.Second)
		was := reads.Load()
		after(5*time.Second + 900*time.Millisecond)
		require.EqualValues(t, 30, reads.Load()-was)
		require.Empty(t, s.delivered())
		after(time.Second)
		require.Len(t, s.delivered(), 30)
		require.EqualValues(t, 60, reads.Load()-was)
		s.stop()
	})
}

type countingStore struct {
	Store
	reads *atomic.Int32
}

func (c *countingStore) PeekRecord(p codec.PhyOffset, buf []byte) ([]byte, bool) {
	rec, ok := c.Store.PeekRecord(p, buf)
	if ok {
		c.reads.Add(1)
	}
	return rec, ok
}

func (c *countingStore) ReadRecord(p codec.PhyOffset, buf []byte) ([]byte, error) {
	c.reads.Add(1)
	return c.Store.ReadRecord(p, buf)
}
