package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
	"skylark/store"
)

func TestParseLevels(t *testing.T) {
	l, err := ParseLevels(DefaultLevels)
	require.NoError(t, err)
	require.Equal(t, 18, l.Max())
	require.Equal(t, time.Second, l.Delay(1))
	require.Equal(t, 2*time.Hour, l.Delay(18))
	require.Equal(t, time.Second, l.Delay(0), "Java computeDeliverTimestamp")
	require.Equal(t, time.Second, l.Delay(19))
	require.EqualValues(t, 2*time.Hour.Milliseconds(), l.DueMillis(99, 0))
	require.EqualValues(t, 1005, l.DueMillis(1, 5))
	require.Equal(t, []int{1, 1, 18, 18}, []int{l.Clamp(-1), l.Clamp(0), l.Clamp(18), l.Clamp(99)})
	l, err = ParseLevels(" 3d  0s\t1m ")
	require.NoError(t, err)
	require.Equal(t, 72*time.Hour, l.Delay(1))
	for _, bad := range []string{"", "  ", "1", "s", "1x", "-1s", "1.5s", "99999999999999999999s",
		"9223372036854775807d", strings.Repeat("1s ", MaxLevels+1)} {
		_, err := ParseLevels(bad)
		require.ErrorContains(t, err, "messageDelayLevel", bad)
	}
}

func TestRewrite(t *testing.T) {
	levels, err := ParseLevels("1s 5s 10s")
	require.NoError(t, err)
	s := New(Options{Levels: levels})
	f := func(level int, props, want string, queueID int32) {
		t.Helper()
		sep := strings.NewReplacer("=", "\x01", ";", "\x02")
		m := &codec.Message{Topic: "T", QueueID: 7, Properties: []byte(sep.Replace(props))}
		s.Rewrite(m, level)
		require.Equal(t, sep.Replace(want), string(m.Properties))
		require.Equal(t, codec.ScheduleTopic, m.Topic)
		require.Equal(t, queueID, m.QueueID)
	}
	f(2, "TAGS=a;DELAY=2", "TAGS=a;DELAY=2;REAL_TOPIC=T;REAL_QID=7;", 1)
	f(99, "DELAY=99;", "DELAY=3;REAL_TOPIC=T;REAL_QID=7;", 2)
	f(1, "DELAY=01;REAL_TOPIC=x;REAL_QID=1;", "DELAY=1;REAL_TOPIC=T;REAL_QID=7;", 0)
	f(1, "TIMER_DELAY_SEC=9;k=v;TIMER_DELIVER_MS=9;TIMER_DELAY_MS=9;DELAY=1;",
		"k=v;DELAY=1;REAL_TOPIC=T;REAL_QID=7;", 0)
}

func TestDeliversWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		s.put(3, "ten", "TAGS\x01A\x02")
		s.put(1, "one", "")
		s.put(2, "five", "")
		s.put(99, "ten too", "")
		after(900 * time.Millisecond)
		require.Empty(t, s.delivered())
		after(200 * time.Millisecond)
		require.Equal(t, []string{"one"}, s.delivered())
		after(4 * time.Second)
		require.Equal(t, []string{"one", "five"}, s.delivered())
		after(5 * time.Second)
		require.Equal(t, []string{"one", "five", "ten", "ten too"}, s.delivered())
		for _, d := range s.deliveries {
			require.Less(t, d.LateMillis, int64(100))
			require.Equal(t, "T", d.Topic)
			require.EqualValues(t, 3, d.QueueID)
			require.Positive(t, d.SizeBytes)
		}
		require.Equal(t, 3, s.deliveries[3].Level)
		rec := s.records()[2]
		require.Equal(t, "TAGS\x01A\x02DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02", string(rec.Properties))
		require.EqualValues(t, 7, rec.Flag)
		require.Equal(t, codec.SysFlagCompressed, rec.SysFlag)
		require.EqualValues(t, 1000, rec.BornTimestamp)
		require.EqualValues(t, 2, rec.ReconsumeTimes)
		require.Equal(t, codec.TagsCode([]byte("A")), s.store.QueueEntries("T", 3, 2, 1)[0].TagsCode,
			"the real queue has the tag's hash again")
		require.Equal(t, map[int]int64{1: 1, 2: 1, 3: 2}, s.Offsets())
		info := map[string]string{}
		s.RuntimeInfo(info)
		require.Equal(t, "2,2", info["scheduleMessageOffset_3"])
		data, err := s.JSON()
		require.NoError(t, err)
		require.Contains(t, string(data), `"offsetTable":{1:1,2:1,3:2}`)
		s.stop()
	})
}

// Every level is in order and nothing is late, however many there are.
func TestManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		for i := range 600 {
			s.put(1+i%2, fmt.Sprintf("%d-%04d", 1+i%2, i), "")
			if i%50 == 0 {
				after(10 * time.Millisecond)
			}
		}
		after(6 * time.Second)
		got := s.delivered()
		require.Len(t, got, 600)
		require.True(t, slices.IsSorted(got), "level 1 before level 2, each in order")
		s.stop()
	})
}

func TestRestartGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		s.put(1, "one", "")
		s.put(2, "five", "")
		after(2 * time.Second)
		s.stop()
		after(10 * time.Second) // due while the broker was down
		s = open(t, setup{fs: fsys})
		after(10 * time.Millisecond)
		require.Equal(t, []string{"one", "five"}, s.delivered())
		s.stop()
		for range 2 {
			s = open(t, setup{fs: fsys})
			after(20 * time.Second)
			require.Equal(t, []string{"one", "five"}, s.delivered(), "nothing is delivered twice")
			s.stop()
		}
	})
}

// kill -9: the files are what the page cache holds. What was delivered since the last write of the offsets
// may come twice; nothing is missing.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		for round := range 8 {
			s := open(t, setup{fs: fsys})
			for i := range 5 {
				s.put(1, fmt.Sprint(round, ".", i), "")
			}
			after(time.Duration(round) * 333 * time.Millisecond)
			fsys = fsys.CloneAll()
			s.kill()
		}
		s := open(t, setup{fs: fsys})
		after(3 * time.Second)
		require.Equal(t, 40, distinct(s.delivered()))
		require.LessOrEqual(t, len(s.delivered()), 80)
		s.stop()
	})
}

func distinct(list []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(list))))
}

// A power cut: what was flushed before it, acknowledged or not, is delivered; the offsets never skip a
// message whose delivered copy is lost.
func TestPowerCut(t *testing.T) {
	f := func(t *testing.T, flush store.FlushDiskType, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fsys := newFS(t)
		acked := map[string]bool{}
		for round := range 4 {
			s := open(t, setup{fs: fsys, flush: flush, async: 1500 * time.Millisecond})
			after(10 * time.Millisecond)
			for i := range 4 {
				name := fmt.Sprint(seed, "-", round, "-", i)
				s.put(1, name, "")
				if flush == store.SyncFlush {
					acked[name] = true
				}
				after(time.Duration(rng.IntN(700)) * time.Millisecond)
			}
			after(time.Duration(rng.IntN(4000)) * time.Millisecond)
			fsys = fsys.CrashClone(seed*100 + uint64(round))
			s.kill()
			if flush == store.AsyncFlush { // what survived in the schedule topic has to be delivered
				s = prepare(t, setup{fs: fsys.CloneAll()})
				after(10 * time.Millisecond)
				for _, e := range s.store.QueueEntries(codec.ScheduleTopic, 0, 0, 1000) {
					raw, err := s.store.ReadRecord(e.PhyOffset, nil)
					require.NoError(t, err)
					rec, err := codec.ParseRecord(raw, true)
					require.NoError(t, err)
					acked[string(rec.Body)] = true
				}
				s.kill()
			}
		}
		s := open(t, setup{fs: fsys, flush: flush})
		after(5 * time.Second)
		got := s.delivered()
		for name := range acked {
			require.Contains(t, got, name)
		}
		require.NotEmpty(t, acked)
		s.stop()
	}
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { f(t, store.SyncFlush, seed) })
		synctest.Test(t, func(t *testing.T) { f(t, store.AsyncFlush, seed) })
	}
}

// An idle service writes nothing and a busy one writes once an interval.
func TestOffsetsAreWrittenWhenTheyChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newFS(t)
		var writes atomic.Int32
		s := open(t, setup{fs: errorfs.Wrap(mem, errorfs.Func(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpRename && op.Path == file+".tmp" {
				writes.Add(1)
			}
			return nil
		}))})
		after(time.Minute)
		require.Zero(t, writes.Load())
		for range 10 {
			s.put(1, "x", "")
			after(200 * time.Millisecond)
		}
		after(5 * time.Second)
		require.Positive(t, writes.Load())
		require.LessOrEqual(t, writes.Load(), int32(4))
		was := writes.Load()
		after(time.Hour)
		require.Equal(t, was, writes.Load())
		s.stop()
		require.Equal(t, was, writes.Load(), "a stop without news writes nothing either")
	})
}

// B26: offsets beyond the queue, negative, and of levels that do not exist are corrected, in memory and on
// disk; nothing that waits is skipped.
func TestWrongOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		s.put(1, "before", "")
		after(2 * time.Second)
		s.put(2, "waits", "")
		after(10 * time.Millisecond)
		s.stop()
		require.NoError(t, vfs.WriteFileAtomic(fsys, file, []byte(`{"dataVersion":{"counter":9},"offsetTable":`+
			`{1:500,2:-5,30:7,0:3,-1:3}}`), false))
		s = open(t, setup{fs: fsys})
		require.Contains(t, s.log.String(), "outside its queue")
		s.put(1, "one", "")
		after(6 * time.Second)
		require.Equal(t, []string{"before", "one", "waits"}, s.delivered())
		var f offsetFile
		_, err := persist.Load(fsys, file, &f, s.o.Log)
		require.NoError(t, err)
		require.Equal(t, map[int]int64{1: 2, 2: 1, 30: 7}, f.OffsetTable, "the unknown level is kept")
		require.Greater(t, f.DataVersion.Counter, int64(9))
		s.stop()
	})
}

// B18 (a) to (d) for delayOffset.json.
func TestDamagedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		for i := range 3 {
			s.put(1, fmt.Sprint("m", i), "")
			after(3 * time.Second)
		}
		s.stop()
		data, err := vfs.ReadFile(fsys, file)
		require.NoError(t, err)
		for _, damaged := range [][]byte{make([]byte, len(data)), append(data[:len(data):len(data)], "}}"...), {}} {
			clone := fsys.CloneAll()
			require.NoError(t, vfs.WriteFileAtomic(clone, file, damaged, false))
			s := open(t, setup{fs: clone})
			after(time.Second)
			require.Equal(t, []string{"m0", "m1", "m2", "m2"}, s.delivered(), "the backup is one write older")
			s.stop()
		}
		require.NoError(t, vfs.WriteFileAtomic(fsys, file, []byte("{"), false))
		require.NoError(t, vfs.WriteFileAtomic(fsys, file+".bak", nil, false))
		s = prepare(t, setup{fs: fsys})
		require.ErrorIs(t, s.Load(), persist.ErrDamaged)
		s.Start()
		after(time.Second)
		require.Len(t, s.delivered(), 6, "from the begin of the queue: twice rather than never")
		s.stop()
	})
}

// A full disk holds the level up; when there is room again everything is delivered, in order and once.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		s := open(t, setup{fs: errorfs.Wrap(newFS(t), errorfs.Func(func(op errorfs.Op) error {
			if full.Load() && op.Kind&(errorfs.OpCreate|errorfs.OpAllocate) != 0 &&
				strings.Contains(op.Path, "commitlog") {
				return errorfs.ErrInjected
			}
			return nil
		}))})
		big := strings.Repeat("x", 30<<10) // two fit in a file
		for i := range 7 {
			s.put(2, fmt.Sprint(i)+big, "")
		}
		after(time.Second)
		full.Store(true)
		after(time.Minute)
		require.Less(t, len(s.delivered()), 7)
		require.LessOrEqual(t, strings.Count(s.log.String(), "will be tried again"), 3, "it does not flood the log")
		full.Store(false)
		after(time.Minute)
		got := s.delivered()
		require.Len(t, got, 7)
		for i := range got {
			require.Equal(t, fmt.Sprint(i), got[i][:1])
		}
		s.stop()
	})
}

// A record that cannot be read for the moment is not skipped.
func TestReadErrorsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prepare(t, setup{fs: newFS(t)})
		flaky := &flakyStore{Store: s.store}
		s.o.Store = flaky
		s.Start()
		flaky.fail(errorfs.ErrInjected)
		s.put(1, "one", "")
		after(5 * time.Second)
		require.Empty(t, s.delivered())
		flaky.fail(nil)
		after(time.Second)
		require.Equal(t, []string{"one"}, s.delivered())
		flaky.fail(fmt.Errorf("gone: %w", store.ErrNotFound))
		s.put(1, "two", "")
		after(2 * time.Second)
		flaky.fail(nil)
		s.put(1, "three", "")
		after(2 * time.Second)
		require.Equal(t, []string{"one", "three"}, s.delivered())
		s.stop()
	})
}

// flakyStore fails to read records while an error is set.
type flakyStore struct {
	Store
	err atomic.Pointer[error]
}

func (f *flakyStore) fail(err error) { f.err.Store(&err) }

func (f *flakyStore) ReadRecord(p codec.PhyOffset, buf []byte) ([]byte, error) {
	if err := f.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	return f.Store.ReadRecord(p, buf)
}

func TestMessagesWithoutAPlaceAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		for _, props := range []string{
			"DELAY\x011\x02",
			"DELAY\x011\x02REAL_TOPIC\x01T\x02",
			"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x01x\x02",
			"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x01-3\x02",
			"DELAY\x011\x02REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02",
			"DELAY\x011\x02REAL_TOPIC\x01" + strings.Repeat("x", 128) + "\x02REAL_QID\x010\x02",
		} {
			put := s.store.Put(&codec.Message{Topic: codec.ScheduleTopic, Body: []byte("b"),
				Properties: []byte(props)})
			require.Equal(t, store.PutOK, put.Status)
		}
		s.put(1, "good", "")
		after(2 * time.Second)
		require.Equal(t, []string{"good"}, s.delivered())
		require.Equal(t, 6, strings.Count(s.log.String(), "delayed message skipped"))
		require.Zero(t, s.store.MaxOffset(codec.HalfTopic, 0))
		s.stop()
	})
}

// A table with shorter delays: what waits for longer than the level's new delay is due now (Java
// correctDeliverTimestamp).
func TestChangedLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys, levels: "1h 2h"})
		s.put(1, "one", "")
		s.put(2, "two", "")
		after(time.Second)
		s.stop()
		s = open(t, setup{fs: fsys, levels: "1s"})
		after(100 * time.Millisecond)
		require.Equal(t, []string{"one"}, s.delivered())
		s.stop()
		s = open(t, setup{fs: fsys, levels: "1s 2h"})
		after(2 * time.Hour)
		require.Equal(t, []string{"one", "two"}, s.delivered(), "what waited in a level that was gone")
		s.stop()
	})
}

// A table with fewer levels: what waits in the others is delivered at its time all the same, once.
func TestFewerLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys, levels: "1s 1m 1h 2h"})
		for level := range 4 {
			s.put(1+level, fmt.Sprint("level ", 1+level), "")
		}
		after(2 * time.Second)
		s.stop()
		s = open(t, setup{fs: fsys, levels: "1s"})
		require.Contains(t, s.log.String(), "messages wait in levels")
		s.put(4, "clamped", "")
		after(50 * time.Second)
		require.Equal(t, []string{"level 1", "clamped"}, s.delivered())
		after(10 * time.Second)
		require.Equal(t, []string{"level 1", "clamped", "level 2"}, s.delivered())
		after(time.Hour)
		s.stop()
		s = open(t, setup{fs: fsys, levels: "1s"})
		after(time.Hour)
		require.Equal(t, []string{"level 1", "clamped", "level 2", "level 3", "level 4"}, s.delivered())
		require.Equal(t, map[int]int64{1: 2, 2: 1, 3: 1, 4: 1}, s.Offsets())
		s.stop()
	})
}

// An offset beyond the end of its queue goes back to the first message that can be due after the file was written.
func TestOffsetBeyondItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		s.put(3, "delivered", "")
		after(20 * time.Second)
		s.put(3, "due while it is down", "")
		after(5 * time.Second)
		s.put(3, "waits", "")
		after(time.Second)
		s.stop()
		require.NoError(t, vfs.WriteFileAtomic(fsys, file, fmt.Appendf(nil, `{"dataVersion":{"counter":9,"timestamp":%d},`+
			`"offsetTable":{3:503}}`, time.Now().UnixMilli()), false))
		after(6 * time.Second)
		s = open(t, setup{fs: fsys})
		after(100 * time.Millisecond)
		require.Equal(t, []string{"delivered", "due while it is down"}, s.delivered())
		after(10 * time.Second)
		require.Equal(t, []string{"delivered", "due while it is down", "waits"}, s.delivered())
		s.stop()
	})
}

// 100,000 messages of one level that are due at once are delivered within seconds, and the level says how late they were.
func TestHundredThousandAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 messages")
	}
	const n = 100_000
	s := prepare(t, setup{fs: newFS(t), big: true})
	require.NoError(t, s.Load())
	for range n {
		s.put(1, "x", "")
	}
	require.Eventually(t, func() bool {
		return s.store.MaxOffset(codec.ScheduleTopic, 0) == n && time.Now().UnixMilli() > s.dueOfLast(n)
	}, time.Minute, 10*time.Millisecond)
	began := time.Now()
	s.Start()
	require.Eventually(t, func() bool { return s.store.MaxOffset("T", 3) == n }, time.Minute, time.Millisecond)
	t.Logf("%d messages in %v", n, time.Since(began))
	s.stop()
	last, worst := s.LateMillis(1)
	require.GreaterOrEqual(t, worst, last)
	require.Positive(t, worst)
	info := map[string]string{}
	s.RuntimeInfo(info)
	require.Equal(t, fmt.Sprintf("%d,%d", last, worst), info["scheduleMessageLateMillis_1"])
}

func TestCloseWithoutStart(t *testing.T) {
	levels, err := ParseLevels("1s")
	require.NoError(t, err)
	s := New(Options{Levels: levels, Clock: clock.System})
	s.Close()
	s.Close()
	require.NoError(t, s.Save())
	s.Arrived(-5)
	s.Arrived(99)
	last, worst := s.LateMillis(99)
	require.Zero(t, last+worst)
}
