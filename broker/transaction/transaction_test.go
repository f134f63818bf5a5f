package transaction

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

func TestCommitAndRollBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		var list []prepared
		for i := range 4 {
			list = append(list, s.prepare(fmt.Sprint("m", i), "KEYS", "k"))
		}
		require.EqualValues(t, 3, list[3].put.QueueOffset)
		require.NoError(t, s.end(list[0], true))
		require.NoError(t, s.end(list[1], false))
		require.NoError(t, s.end(list[2], true))
		after(10 * time.Millisecond)
		require.Equal(t, []string{"m0", "m2"}, s.visible())
		require.Equal(t, []string{"1"}, s.ops(), "a rollback is written at once, as 4.9 can read it")
		after(3100 * time.Millisecond)
		require.Equal(t, []string{"1", "0,2,"}, s.ops())
		require.Equal(t, map[string]int64{"T": 1}, s.counts.counts())
		half := s.records(codec.HalfTopic, 0)[0]
		require.Equal(t, "KEYS\x01k\x02PGROUP\x01G\x02TAGS\x01A\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01id-m0\x02"+
			"__transactionId__\x01id-m0\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02", string(half.Properties))
		got := s.records("T", 3)[0]
		require.Equal(t, string(half.Properties), string(got.Properties), "as Java leaves them")
		require.Equal(t, codec.SysFlagCompressed|codec.SysFlagTransactionCommit, got.SysFlag)
		require.EqualValues(t, 7, got.Flag)
		require.Equal(t, half.BornTimestamp, got.BornTimestamp)
		require.Equal(t, half.BornHost, got.BornHost)
		require.Equal(t, half.PhyOffset, got.PreparedTransactionOffset)
		require.Equal(t, codec.TagsCode([]byte("A")), s.store.QueueEntries("T", 3, 0, 1)[0].TagsCode)
		after(4 * time.Second)
		h, o := s.at()
		require.Equal(t, []int64{3, 2}, []int64{h, o}, "the open one keeps the half offset")
		require.NoError(t, s.end(list[3], false))
		s.stop()
		h, o = s.at()
		require.Equal(t, []int64{4, 3}, []int64{h, o})
		s = s.again(s.set.fs)
		after(10 * time.Second)
		require.Zero(t, s.Stats().Open)
		require.Empty(t, s.took())
		require.Equal(t, []string{"m0", "m2"}, s.visible())
		s.stop()
	})
}

// What is wrong about an END_TRANSACTION (case B24).
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		p := s.prepare("m")
		none := s.prepare("none", codec.PropProducerGroup, "")
		plain := &codec.Message{Topic: "T", QueueID: 3, Body: []byte("plain")}
		normal := s.store.Append(plain)
		f := func(want error, alter func(e *End)) {
			t.Helper()
			for _, commit := range []bool{true, false} {
				e := End{Group: []byte("G"), QueueOffset: p.put.QueueOffset, PhyOffset: p.put.PhyOffset, Commit: commit}
				alter(&e)
				_, served, err := s.End(&e)
				require.True(t, served)
				require.ErrorIs(t, err, want)
			}
		}
		f(ErrGroup, func(e *End) { e.Group = []byte("other") })
		f(ErrGroup, func(e *End) { e.Group = nil })
		f(ErrTable, func(e *End) { e.QueueOffset++ })
		f(ErrTable, func(e *End) { e.QueueOffset = -1 })
		f(ErrNotFound, func(e *End) { e.PhyOffset++ })
		f(ErrNotFound, func(e *End) { e.PhyOffset = normal.PhyOffset })
		f(ErrNotFound, func(e *End) { e.PhyOffset = -1 })
		f(ErrNotFound, func(e *End) { e.PhyOffset = 1 << 40 })
		f(ErrGroup, func(e *End) { e.Group, e.PhyOffset, e.QueueOffset = nil, none.put.PhyOffset, none.put.QueueOffset })
		after(10 * time.Millisecond)
		require.Equal(t, []string{"plain"}, s.visible())
		require.Empty(t, s.ops())
		require.Equal(t, 2, s.Stats().Open)
		s.stop()
	})
}

// A transaction ends once, whatever comes how often, also for copies that were replaced.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		a, b := s.prepare("a"), s.prepare("b")
		require.NoError(t, s.end(a, true))
		require.NoError(t, s.end(a, true), "again")
		require.ErrorIs(t, s.end(a, false), ErrSettled)
		after(3200 * time.Millisecond) // asked twice: b has its third copy
		asked := s.took()
		require.Equal(t, []string{"b", "b"}, names(asked))
		require.NoError(t, s.end(b, true), "the first copy")
		require.ErrorIs(t, s.answer(asked[0], true), ErrSettled)
		require.NoError(t, s.end(b, true), "the first copy again")
		require.NoError(t, s.answer(asked[1], true), "the last copy again")
		require.ErrorIs(t, s.answer(asked[1], false), ErrSettled)
		after(10 * time.Millisecond)
		require.Equal(t, []string{"a", "b"}, s.visible())
		last := s.records("T", 3)[1]
		require.Equal(t, b.put.PhyOffset, last.PreparedTransactionOffset)
		var wg sync.WaitGroup
		many := s.prepare("many")
		for i := range 50 {
			wg.Go(func() { _ = s.end(many, i%2 == 0) })
		}
		wg.Wait()
		after(10 * time.Second)
		require.LessOrEqual(t, len(s.visible()), 3)
		require.Empty(t, s.took())
		seen := s.visible()
		s = s.restart()
		after(10 * time.Second)
		require.Equal(t, seen, s.visible())
		require.Empty(t, s.took())
		s.stop()
	})
}

// Kill -9 at any time: what was ended stays ended, what is open is asked about and can be ended; nothing is delivered
// twice.
func TestKill(t *testing.T) {
	f := func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		set := quick
		set.CheckMax = 1000
		s := open(t, setup{fs: newFS(t), settings: set})
		s.producer("G", "p")
		commits, rollbacks, opens := map[string]bool{}, map[string]bool{}, map[string]prepared{}
		for round := range 6 {
			for i := range 30 {
				name := fmt.Sprint(round, "-", i)
				p := s.prepare(name)
				opens[name] = p
				if rng.IntN(4) == 0 {
					after(time.Duration(rng.IntN(700)) * time.Millisecond)
				}
				for other, q := range opens {
					if rng.IntN(3) > 0 {
						break
					}
					commit := rng.IntN(3) > 0
					require.NoError(t, s.end(q, commit), other)
					if delete(opens, other); commit {
						commits[other] = true
					} else {
						rollbacks[other] = true
					}
				}
			}
			after(time.Duration(rng.IntN(2)) * time.Duration(rng.IntN(3000)) * time.Millisecond)
			s = s.killed()
			after(time.Duration(1+rng.IntN(5)) * time.Millisecond)
			if len(opens) != s.Stats().Open {
			}
			require.Equal(t, len(opens), s.Stats().Open, "round %d", round)
		}
		s.took()
		after(1100 * time.Millisecond)
		asked := s.took()
		for _, q := range asked {
			require.Contains(t, opens, string(q.rec.Body))
			require.NoError(t, s.answer(q, true))
			commits[string(q.rec.Body)] = true
		}
		after(10 * time.Millisecond)
		got := s.visible()
		slices.Sort(got)
		require.Equal(t, len(commits), len(slices.Compact(slices.Clone(got))))
		require.Len(t, got, len(commits), "nothing twice")
		for _, name := range got {
			require.True(t, commits[name], name)
			require.False(t, rollbacks[name], name)
		}
		s.stop()
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, seed) }) })
	}
}

// A power cut takes the end of the log: what is left is consistent. With SYNC_FLUSH what was answered is left.
func TestPowerCut(t *testing.T) {
	f := func(t *testing.T, flush store.FlushDiskType, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := open(t, setup{fs: newFS(t), flush: flush, async: 1500 * time.Millisecond})
		s.producer("G", "p")
		prepares, answered := map[string]bool{}, map[string]bool{}
		for round := range 5 {
			after(10 * time.Millisecond)
			for i := range 12 {
				name := fmt.Sprint(round, "-", i)
				p, put := s.tryPrepare(name)
				require.Equal(t, store.PutOK, put.Status)
				prepares[name] = true
				put, _, err := s.End(&End{Group: []byte("G"), QueueOffset: p.put.QueueOffset, PhyOffset: p.put.PhyOffset,
					Commit: true})
				require.NoError(t, err)
				if flush == store.SyncFlush {
					s.store.Durable(put.EndOffset, 0, func(status store.PutStatus) {
						if status == store.PutOK {
							s.mu.Lock()
							defer s.mu.Unlock()
							answered[name] = true
						}
					})
				}
				after(time.Duration(rng.IntN(500)) * time.Millisecond)
			}
			after(time.Duration(rng.IntN(3000)) * time.Millisecond)
			fs := s.set.fs.CrashClone(seed*100 + uint64(round))
			s.kill()
			s = s.again(fs)
		}
		after(5 * time.Second)
		for _, q := range s.took() {
			_ = s.answer(q, true)
		}
		after(5 * time.Second)
		got := s.visible()
		slices.Sort(got)
		require.Len(t, slices.Compact(slices.Clone(got)), len(got), "nothing twice")
		for name := range answered {
			require.Contains(t, got, name)
		}
		for _, name := range got {
			require.True(t, prepares[name])
		}
		s.stop()
	}
	for seed := range uint64(5) {
		for _, flush := range []store.FlushDiskType{store.AsyncFlush, store.SyncFlush} {
			t.Run(fmt.Sprint(seed, flush), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, flush, seed) }) })
		}
	}
}

// Batches are written when they are full; at a stop all that waits is.
func TestOpBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick
		set.OpMaxBytes = 40
		s := open(t, setup{fs: newFS(t), settings: set})
		after(time.Millisecond)
		for i := range 120 {
			require.NoError(t, s.end(s.prepare(fmt.Sprint(i)), true))
		}
		after(10 * time.Millisecond)
		ops := s.ops()
		require.Greater(t, len(ops), 7)
		for _, body := range ops {
			require.LessOrEqual(t, len(body), 44)
		}
		require.Equal(t, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,", ops[0][:38])
		s.stop()
		s = s.again(s.set.fs)
		after(5 * time.Second)
		seen := map[string]bool{}
		for _, body := range s.ops() {
			require.Zero(t, parseOp([]byte(body), func(at int64) { seen[fmt.Sprint(at)] = true }))
		}
		require.Len(t, seen, 120)
		s.stop()
		// As a store for 4.9: every op message alone, without a comma.
		set.OpMaxBytes = 1
		s = open(t, setup{fs: newFS(t), settings: set})
		after(time.Millisecond)
		for i := range 5 {
			require.NoError(t, s.end(s.prepare(fmt.Sprint(i)), true))
		}
		after(10 * time.Millisecond)
		require.Equal(t, []string{"0", "1", "2", "3", "4"}, s.ops())
		s.stop()
	})
}

// END_TRANSACTION and half messages that come while the table is read.
func TestWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		old := s.prepare("old")
		after(10 * time.Millisecond)
		var early prepared
		set := s.set
		set.fs = s.set.fs.CloneAll()
		set.opened = func(s *system) { early = s.prepare("early") }
		s.kill()
		s = open(t, set)
		require.NoError(t, s.end(old, true), "waits")
		require.NoError(t, s.end(early, true))
		late := s.prepare("late")
		require.NoError(t, s.end(late, false))
		after(10 * time.Millisecond)
		require.Equal(t, []string{"old", "early"}, s.visible())
		require.Zero(t, s.Stats().Open)
		s.stop()
	})
}

// On an event loop nothing waits.
func TestOnLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		p := s.prepare("m")
		e := End{Group: []byte("G"), QueueOffset: p.put.QueueOffset, PhyOffset: p.put.PhyOffset, Commit: true, OnLoop: true}
		s.t.Helper()
		s.TransactionalMessageService.t.mu.Lock()
		tx, _ := s.TransactionalMessageService.t.find(0, 0)
		tx.busy = true
		s.TransactionalMessageService.t.mu.Unlock()
		_, served, err := s.End(&e)
		require.NoError(t, err)
		require.False(t, served, "it is being put back")
		s.TransactionalMessageService.t.mu.Lock()
		tx.busy = false
		s.TransactionalMessageService.t.mu.Unlock()
		_, served, err = s.End(&e)
		require.NoError(t, err)
		require.True(t, served)
		e.PhyOffset++
		_, served, _ = s.End(&e)
		require.False(t, served, "not known whether it is there")
		after(time.Millisecond)
		require.Equal(t, []string{"m"}, s.visible())
		s.stop()
	})
}

func TestDelayTakesEffectAtTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		p := s.prepare("m", codec.PropDelayTimeLevel, "3")
		require.NoError(t, s.end(p, true))
		after(10 * time.Millisecond)
		require.Empty(t, s.visible())
		got := s.records(codec.ScheduleTopic, 2)
		require.Equal(t, []string{"m"}, texts(got))
		_, marked := got[0].Property(codec.PropTransactionPrepared)
		require.False(t, marked)
		require.Equal(t, codec.SysFlagTransactionCommit, got[0].TransactionState())
		timed := s.prepare("timed", codec.PropTimerDelaySec, "30")
		require.NoError(t, s.end(timed, true))
		bad := s.prepare("bad", codec.PropTimerDelaySec, "bad")
		require.ErrorContains(t, s.end(bad, true), "MESSAGE_ILLEGAL")
		require.NoError(t, s.end(bad, false))
		after(10 * time.Millisecond)
		require.Equal(t, []string{"timed"}, texts(s.records(codec.TimerTopic, 0)))
		s = s.killed()
		after(time.Millisecond)
		require.Zero(t, s.Stats().Open, "the commits are found in the topics of those who keep the messages")
		s.stop()
	})
}

// A start that fails, or is stopped, before the log was searched must not have the next one believe that it was.
func TestStoppedBeforeTheSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		require.NoError(t, s.end(s.prepare("m"), true))
		after(10 * time.Millisecond)
		set := s.set
		set.fs = s.set.fs.CloneAll()
		s.kill()
		set.opened = func(s *system) {
			require.NoError(t, s.TransactionalMessageService.Save(), "never started")
		}
		n := open(t, set)
		n.producer("G", "p")
		after(10 * time.Second)
		require.Zero(t, n.Stats().Open)
		require.Empty(t, n.took())
		require.Equal(t, []string{"m"}, n.visible())
		n.stop()
	})
}
