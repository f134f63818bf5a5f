package timer

import (
	"fmt"
	"maps"
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
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
	"skylark/store"
)

func counts(list []string) map[string]int {
	out := map[string]int{}
	for _, name := range list {
		out[name]++
	}
	return out
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		s.put("one", 2*time.Second)
		s.put("waits", time.Hour)
		taken := s.put("taken", time.Hour)
		after(5 * time.Second)
		s.stop()
		after(10 * time.Second)
		for range 3 {
			s = open(t, setup{fs: fsys})
			require.EqualValues(t, 2, s.Status().Waiting)
			require.EqualValues(t, 2, s.count("T"))
			after(time.Minute)
			s.stop()
		}
		s = open(t, setup{fs: fsys})
		s.recall("taken", taken)
		after(time.Second)
		s.stop()
		after(20 * 24 * time.Hour) // longer than the wheel
		s = open(t, setup{fs: fsys})
		after(10 * time.Millisecond)
		require.Equal(t, []string{"one", "waits"}, s.delivered())
		require.Zero(t, s.Status().Waiting)
		require.NotContains(t, s.log.String(), "level=ERROR")
		s.stop()
	})
}

// kill -9: the files are what the page cache holds. Nothing is lost and nothing comes twice.
func TestKill(t *testing.T) {
	f := func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fsys := newFS(t)
		n := 0
		var recalled []string
		for range 12 {
			s := open(t, setup{fs: fsys, window: 20, async: time.Duration(1+rng.IntN(3000)) * time.Millisecond})
			for range 1 + rng.IntN(6) {
				for range rng.IntN(8) {
					n++
					m := s.put(fmt.Sprint("m", n), time.Duration(rng.IntN(40_000))*time.Millisecond)
					if m.Topic == codec.TimerTopic && rng.IntN(6) == 0 {
						after(time.Duration(rng.IntN(10)) * time.Millisecond)
						out, _ := codec.LookupProperty(m.Properties, codec.PropTimerOutMs)
						if at := parseInt(string(out)); at > time.Now().UnixMilli() {
							s.recall(fmt.Sprint("m", n), m)
							recalled = append(recalled, fmt.Sprint("m", n))
						}
					}
				}
				after(time.Duration(rng.IntN(3000)) * time.Millisecond)
			}
			fsys = fsys.CloneAll()
			s.kill()
			if rng.IntN(3) == 0 {
				time.Sleep(time.Duration(rng.IntN(30)) * time.Second)
			}
		}
		s := open(t, setup{fs: fsys, window: 20})
		after(2 * time.Minute)
		got := counts(s.delivered())
		for i := 1; i <= n; i++ {
			want := 1
			if slices.Contains(recalled, fmt.Sprint("m", i)) {
				want = 0
			}
			require.Equal(t, want, got[fmt.Sprint("m", i)], "m%d, seed %d", i, seed)
		}
		require.Zero(t, s.count("T"))
		require.Zero(t, s.Status().Waiting)
		require.NotContains(t, s.log.String(), "level=ERROR")
		s.stop()
	}
	for seed := range uint64(15) {
		synctest.Test(t, func(t *testing.T) { f(t, seed) })
	}
}

func parseInt(text string) (n int64) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// A power cut: what survived in the timer topic is delivered, and what was acknowledged with SYNC_FLUSH is.
func TestPowerCut(t *testing.T) {
	f := func(t *testing.T, flush store.FlushDiskType, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		fsys := newFS(t)
		owed := map[string]bool{}
		n := 0
		for round := range 5 {
			s := open(t, setup{fs: fsys, flush: flush, window: 12, async: 1500 * time.Millisecond})
			after(10 * time.Millisecond)
			for range 6 {
				n++
				name := fmt.Sprint("m", n)
				s.put(name, time.Duration(rng.IntN(20_000))*time.Millisecond)
				if flush == store.SyncFlush {
					owed[name] = true
				}
				after(time.Duration(rng.IntN(900)) * time.Millisecond)
			}
			after(time.Duration(rng.IntN(6000)) * time.Millisecond)
			fsys = fsys.CrashClone(seed*100 + uint64(round))
			s.kill()
			if flush == store.AsyncFlush {
				maps.Copy(owed, survivors(t, fsys.CloneAll()))
			}
		}
		s := open(t, setup{fs: fsys, flush: flush, window: 12})
		after(2 * time.Minute)
		got := counts(s.delivered())
		for name := range owed {
			require.Positive(t, got[name], name)
		}
		require.NotEmpty(t, owed)
		require.Zero(t, s.count("T"))
		s.stop()
	}
	for seed := range uint64(15) {
		synctest.Test(t, func(t *testing.T) { f(t, store.SyncFlush, seed) })
		synctest.Test(t, func(t *testing.T) { f(t, store.AsyncFlush, seed) })
	}
}

// survivors are the messages that the timer topic and the real topic have.
func survivors(t *testing.T, fsys vfs.FS) map[string]bool {
	s := prepare(t, setup{fs: fsys})
	after(10 * time.Millisecond)
	out := map[string]bool{}
	for _, rec := range append(s.records(codec.TimerTopic, 0), s.records("T", 3)...) {
		out[string(rec.Body)] = true
	}
	s.kill()
	return out
}

// Files that are gone or damaged: the messages are in the timer topic, and come from there.
func TestLostFiles(t *testing.T) {
	f := func(twice bool, damage func(fsys *vfs.MemFS)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			fsys := newFS(t)
			s := open(t, setup{fs: fsys})
			for i := range 25 {
				s.put(fmt.Sprint("m", i), time.Duration(5+i)*time.Second)
			}
			after(15 * time.Second)
			s.stop()
			damage(fsys)
			s = open(t, setup{fs: fsys})
			after(time.Minute)
			got := counts(s.delivered())
			for i := range 25 {
				require.Positive(t, got[fmt.Sprint("m", i)], "m%d", i)
			}
			require.Equal(t, twice, len(s.delivered()) > 25)
			require.Zero(t, s.count("T"), s.log.String())
			s.stop()
		})
	}
	remove := func(names ...string) func(*vfs.MemFS) {
		return func(fsys *vfs.MemFS) {
			for _, name := range names {
				require.NoError(t, fsys.RemoveAll("/data/"+name))
			}
		}
	}
	f(false, func(*vfs.MemFS) {})
	f(false, remove("timerwheel"))
	f(false, remove("config/timermetrics", "config/timermetrics.bak"))
	f(true, remove("config/timercheck"))
	f(true, remove("config/timercheck", "timerwheel", "timerlog"))
	f(false, remove("timerwheel", "config/timermetrics"))
	zeros := func(name string, n int64) func(*vfs.MemFS) {
		return func(fsys *vfs.MemFS) {
			file, err := fsys.OpenReadWrite("/data/" + name)
			require.NoError(t, err)
			_, err = file.WriteAt(make([]byte, n), 0)
			require.NoError(t, err)
			require.NoError(t, file.Close())
		}
	}
	f(false, zeros("timerwheel", testWheel))
	f(false, zeros("config/timermetrics", 30))
}

// What is missing in the log is taken from the timer topic again.
func TestLostLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		for i := range 25 {
			s.put(fmt.Sprint("m", i), time.Duration(5+i)*time.Second)
		}
		after(15 * time.Second)
		s.stop()
		require.NoError(t, fsys.RemoveAll("/data/timerlog"))
		s = open(t, setup{fs: fsys})
		require.Contains(t, s.log.String(), "made anew from the timer topic")
		after(time.Minute)
		require.Len(t, counts(s.delivered()), 25)
		s.stop()
	})
}

func TestWrongSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		s := open(t, setup{fs: fsys})
		s.put("m", time.Hour)
		after(5 * time.Second)
		s.stop()
		f := func(want string, o setup, damage func(fsys *vfs.MemFS)) {
			t.Helper()
			o.fs = fsys.CloneAll()
			damage(o.fs.(*vfs.MemFS))
			s := prepare(t, o)
			err := s.Load()
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.ErrorContains(t, err, want)
		}
		f("/data/timerlog/00000000000000000000", setup{file: 2 * testFile}, func(*vfs.MemFS) {})
		f("/data/timerwheel", setup{}, func(fsys *vfs.MemFS) {
			file, err := fsys.OpenReadWrite("/data/timerwheel")
			require.NoError(t, err)
			require.NoError(t, file.Truncate(testWheel+32))
			require.NoError(t, file.Close())
		})
	})
}

// What is overdue at a start comes out in the order of its times, and of arrival within one, whether it was taken in before
// or not. (The acks of POP would be ignored if they came before their check points.)
func TestOverdueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := DefaultLive()
		mem := newFS(t)
		s := open(t, setup{fs: mem, live: live})
		s.put("check point", 10*time.Second)
		s.put("later", 12*time.Second)
		after(2 * time.Second) // taken in
		s.stop()
		live.StopEnqueue = true
		s = open(t, setup{fs: mem, live: live})
		s.put("ack", 8*time.Second)
		s.put("early", 4*time.Second)
		s.stop()
		after(time.Minute)
		s = open(t, setup{fs: mem})
		after(2 * time.Second)
		require.Equal(t, []string{"early", "check point", "ack", "later"}, s.delivered())
		s.stop()
	})
}

// A full disk holds everything up; when there is room again everything is delivered, once.
func TestFullDisk(t *testing.T) {
	f := func(t *testing.T, dir string, kinds errorfs.Kind, fullFromStart bool) {
		var full atomic.Bool
		fsys := errorfs.Wrap(newFS(t), errorfs.Func(func(op errorfs.Op) error {
			if full.Load() && op.Kind&kinds != 0 && strings.Contains(op.Path, dir) {
				return errorfs.ErrInjected
			}
			return nil
		}))
		s := open(t, setup{fs: fsys})
		full.Store(fullFromStart)
		big := strings.Repeat("x", 30<<10) // two fit into a file
		for i := range 20 {
			s.put(fmt.Sprintf("%02d%s", i, big), 2*time.Second)
		}
		full.Store(true)
		after(time.Minute)
		require.Less(t, len(s.delivered()), 20)
		require.LessOrEqual(t, strings.Count(s.log.String(), "will be tried again"), 3, "it does not flood the log")
		full.Store(false)
		after(time.Minute)
		got := s.delivered()
		require.Len(t, got, 20)
		for i := range got {
			require.Equal(t, fmt.Sprintf("%02d", i), got[i][:2])
		}
		s.stop()
	}
	synctest.Test(t, func(t *testing.T) { f(t, "commitlog", errorfs.OpCreate|errorfs.OpAllocate, false) })
	synctest.Test(t, func(t *testing.T) {
		// before the puts: the timer may take them all in while they are made
		f(t, "timerlog", errorfs.OpCreate|errorfs.OpTruncate|errorfs.OpOpenReadWrite|errorfs.OpWrite, true)
	})
}

// A sync that failed: the files stand still, loudly, the messages go on; the next start does the rest, and nothing is lost.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newFS(t)
		var broken atomic.Bool
		s := open(t, setup{fs: errorfs.Wrap(mem, errorfs.Func(func(op errorfs.Op) error {
			if broken.Load() && op.Kind == errorfs.OpSync && strings.Contains(op.Path, "timerlog") {
				return errorfs.ErrInjected
			}
			return nil
		}))})
		s.put("before", 5*time.Second)
		after(2 * time.Second)
		broken.Store(true)
		s.put("one", 5*time.Second)
		s.put("two", time.Hour)
		after(10 * time.Second)
		broken.Store(false)
		s.put("three", time.Second)
		after(10 * time.Second)
		require.Equal(t, []string{"before", "one", "three"}, s.delivered())
		require.Contains(t, s.log.String(), "timer files not written")
		require.LessOrEqual(t, strings.Count(s.log.String(), "timer files not written"), 2)
		clone := mem.CrashClone(1)
		s.Close()
		require.NoError(t, s.store.Close())
		require.Error(t, s.Save())
		s.stopped = true
		s = open(t, setup{fs: clone})
		after(2 * time.Hour)
		require.Len(t, counts(s.delivered()), 4)
		s.stop()
	})
}

// Files of the log go when their messages have expired in the CommitLog.
func TestOldLogFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		var least atomic.Int64
		s := open(t, setup{fs: fsys, under: func(st Store) Store { return &shortStore{Store: st, least: &least} }})
		for i := range 45 { // ten to a file
			s.put(fmt.Sprint("m", i), time.Duration(2+i)*time.Second)
			after(time.Millisecond)
		}
		names := func() []string {
			list, err := fsys.List("/data/timerlog")
			require.NoError(t, err)
			return list
		}
		after(20 * time.Second)
		require.Len(t, names(), 5)
		list, err := s.List("", time.Time{}, 1)
		require.NoError(t, err)
		least.Store(int64(list[0].PhyOffset))
		after(35 * time.Second)
		require.Less(t, len(names()), 5)
		require.Equal(t, fmt.Sprintf("%020d", 4*testFile), names()[len(names())-1])
		s.stop()
		s = open(t, setup{fs: fsys})
		after(time.Minute)
		require.Len(t, s.delivered(), 45)
		s.stop()
	})
}

// shortStore says that the CommitLog begins later than it does.
type shortStore struct {
	Store
	least *atomic.Int64
}

func (s *shortStore) MinPhyOffset() codec.PhyOffset { return codec.PhyOffset(s.least.Load()) }

// The clock is set back: what was delivered does not come again, what is put then comes at its time.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFS(t)
		c := &shiftedClock{Clock: clock.System}
		s := open(t, setup{fs: fsys, clock: c})
		s.put("one", 10*time.Second)
		s.put("two", 20*time.Second)
		after(12 * time.Second)
		c.back.Store(int64(8 * time.Second))
		m := s.message("three", 0)
		m.Properties = props(codec.PropUniqKey, "three", codec.PropTimerDelaySec, "3")
		s.must(m)
		after(2900 * time.Millisecond)
		require.Equal(t, []string{"one"}, s.delivered())
		after(1100 * time.Millisecond)
		require.Equal(t, []string{"one", "three"}, s.delivered())
		after(15 * time.Second)
		require.Equal(t, []string{"one", "three", "two"}, s.delivered())
		c.back.Store(int64(time.Minute))
		s.stop()
		s = open(t, setup{fs: fsys, clock: c})
		after(2 * time.Minute)
		require.Len(t, s.delivered(), 3)
		s.stop()
	})
}

type shiftedClock struct {
	clock.Clock
	back atomic.Int64
}

func (c *shiftedClock) Now() time.Time { return c.Clock.Now().Add(-time.Duration(c.back.Load())) }
func (c *shiftedClock) Millis() int64  { return c.Now().UnixMilli() }
