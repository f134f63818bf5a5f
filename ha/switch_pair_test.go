package ha

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// pipeListener accepts connections in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// gatedConn stops reading while its gate is shut: a slave that is frozen.
type gatedConn struct {
	net.Conn
	gate *atomic.Pointer[chan struct{}]
}

func (c gatedConn) Read(b []byte) (int, error) {
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
	return c.Conn.Read(b)
}

// switchGroup are replicas in one process, and a controller that answers at once.
type switchGroup struct {
	t      *testing.T
	fs     vfs.FS
	dir    string
	change func(*store.Options)
	live   Live
	all    []*switchReplica
	thaws  []func() // of freeze

	mu       sync.Mutex
	master   int64
	epoch    int32
	set      []int64
	setEpoch int32
	deaf     bool // answers nothing
	asking   sync.WaitGroup
}

// switchReplica is one of them.
type switchReplica struct {
	*store.MessageStore
	ha   *AutoSwitchHAService
	id   int64
	live atomic.Pointer[Live]
	l    *pipeListener
	gate atomic.Pointer[chan struct{}]
}

func switchLive() Live {
	return Live{HeartbeatInterval: 5 * time.Second, HousekeepingInterval: 20 * time.Second, TransferBatchBytes: 1000,
		SlaveTimeout: 3 * time.Second, Rule: InSyncReplicas, InSyncReplicas: 1, MinInSyncReplicas: 1,
		AllAckInSyncStateSet: true, MaxTimeSlaveNotCatchup: 15 * time.Second}
}

func newSwitchGroup(t *testing.T, replicas int, live Live) *switchGroup {
	return newSwitchGroupOn(t, vfs.NewMem(), "", replicas, live, func(*store.Options) {})
}

func newSwitchGroupOn(t *testing.T, fsys vfs.FS, dir string, replicas int, live Live, change func(*store.Options),
) *switchGroup {
	g := &switchGroup{t: t, fs: fsys, dir: dir, change: change, live: live, epoch: NoEpoch}
	for id := range int64(replicas) {
		g.start(id + 1)
	}
	return g
}

func (g *switchGroup) start(id int64) *switchReplica {
	g.t.Helper()
	dir := fmt.Sprintf("%s/r%d", g.dir, id)
	pair := &group{t: g.t, fs: g.fs}
	o := pair.options(dir)
	o.ConfirmedOnly = true
	g.change(&o)
	s, err := store.Open(o)
	require.NoError(g.t, err)
	epochs, err := OpenEpochs(g.fs, dir+"/epochFileCheckpoint", quietLog)
	require.NoError(g.t, err)
	r := &switchReplica{MessageStore: s, id: id, l: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}}
	r.live.Store(&g.live)
	r.ha, err = NewAutoSwitchHAService(SwitchOptions{Log: s, Clock: clock.System, Slog: quietLog, Live: r.live.Load,
		Epochs: epochs, Dial: func(ctx context.Context, addr string) (net.Conn, error) { return g.dial(ctx, r, addr) },
		AlterSyncStateSet: func(set []int64) { g.asking.Go(func() { g.alter(r, set) }) }})
	require.NoError(g.t, err)
	s.SetReplicas(r.ha)
	require.NoError(g.t, s.Start())
	r.ha.Start(r.l)
	if int(id) <= len(g.all) {
		g.all[id-1] = r
	} else {
		g.all = append(g.all, r)
	}
	return r
}

func (g *switchGroup) dial(ctx context.Context, r *switchReplica, addr string) (net.Conn, error) {
	var to *switchReplica
	for _, x := range g.all {
		if fmt.Sprint(x.id) == addr {
			to = x
		}
	}
	if to == nil {
		return nil, io.ErrClosedPipe
	}
	a, b := net.Pipe()
	select {
	case to.l.conns <- b:
		return gatedConn{a, &r.gate}, nil
	case <-to.l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// alter is the controller's answer.
func (g *switchGroup) alter(r *switchReplica, set []int64) {
	_, was := r.ha.SyncStateSet()
	g.mu.Lock()
	if r.id != g.master || g.deaf {
		g.mu.Unlock()
		return
	}
	if was == g.setEpoch {
		g.set, g.setEpoch = set, g.setEpoch+1
	}
	set, epoch := g.set, g.setEpoch
	g.mu.Unlock()
	r.ha.SetSyncStateSet(set, epoch)
}

// elect makes a replica the master, and tells all that run.
func (g *switchGroup) elect(id int64) *switchReplica {
	g.t.Helper()
	g.mu.Lock()
	g.master, g.epoch, g.set, g.setEpoch = id, max(g.epoch, 0)+1, []int64{id}, g.setEpoch+1
	g.mu.Unlock()
	m := g.all[id-1]
	require.NoError(g.t, m.ha.BecomeMaster(g.t.Context(), id, g.epoch, []int64{id}, g.setEpoch))
	for _, r := range g.all {
		if r != nil && r != m {
			g.follow(r)
		}
	}
	return m
}

// begin elects the first replica and has all of them copy some messages.
func (g *switchGroup) begin() *switchReplica {
	g.t.Helper()
	m := g.elect(1)
	g.inSync(m, len(g.all))
	fill(g.t, m.MessageStore, 20, "common")
	g.same(m)
	return m
}

// setDeaf has the controller answer nothing.
func (g *switchGroup) setDeaf(deaf bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deaf = deaf
}

// putsUnderWay puts messages that wait for their copies, and gives them a second to get as far as they can.
func putsUnderWay(m *switchReplica) (answers chan store.PutStatus) {
	answers = make(chan store.PutStatus, 8)
	for range cap(answers) {
		go func() { answers <- putWait(m).Status }()
	}
	time.Sleep(time.Second)
	return answers
}

func (g *switchGroup) follow(r *switchReplica) {
	g.t.Helper()
	r.ha.SetMaster(fmt.Sprint(g.master))
	require.NoError(g.t, r.ha.BecomeSlave(g.t.Context(), r.id, g.epoch))
}

func (r *switchReplica) setLive(change func(*Live)) {
	l := *r.live.Load()
	change(&l)
	r.live.Store(&l)
}

// freeze holds what r does until thaw, or the end of the group: a test that fails meanwhile must not hang.
func (g *switchGroup) freeze(r *switchReplica) (thaw func()) {
	gate := make(chan struct{})
	r.gate.Store(&gate)
	thaw = sync.OnceFunc(func() { r.gate.Store(nil); close(gate) })
	g.thaws = append(g.thaws, thaw)
	return thaw
}

func (r *switchReplica) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, r.ha.Close())
	require.NoError(t, r.Close())
}

// stop ends all.
func (g *switchGroup) stop() {
	for _, thaw := range g.thaws {
		thaw()
	}
	for _, r := range g.all {
		if r != nil {
			r.stop(g.t)
		}
	}
	g.asking.Wait()
}

func (g *switchGroup) await(what string, f func() bool) {
	g.t.Helper()
	for range 60_000 {
		if f() {
			return
		}
		<-time.After(time.Millisecond)
	}
	require.Fail(g.t, "not in a minute: "+what)
}

// inSync waits until the set has so many members.
func (g *switchGroup) inSync(m *switchReplica, n int) {
	g.t.Helper()
	g.await(fmt.Sprintf("%d in sync", n), func() bool { return m.ha.InSyncReplicas() == n })
}

// same waits until all have the master's log, its queues and its epochs.
func (g *switchGroup) same(m *switchReplica) {
	g.t.Helper()
	for _, r := range g.all {
		if r == nil {
			continue
		}
		defer func() {
			if g.t.Failed() {
				g.t.Logf("replica %d: state %d, log %d, confirmed %d, dispatched %d, behind %d, %+v", r.id, r.ha.State(),
					r.MaxPhyOffset(), r.ha.ConfirmOffset(), r.DispatchedWhere(), r.DispatchBehindBytes(), m.ha.Slaves())
			}
		}()
		g.await(fmt.Sprintf("replica %d has all", r.id), func() bool {
			return r.MaxPhyOffset() == m.MaxPhyOffset() && r.ha.ConfirmOffset() == m.MaxPhyOffset() &&
				r.DispatchedWhere() == m.MaxPhyOffset()
		})
		require.Equal(g.t, logBytes(m.MessageStore, r.MinPhyOffset()), logBytes(r.MessageStore, r.MinPhyOffset()))
		for q := range int32(4) {
			require.Equal(g.t, m.MaxOffset("T", q), r.MaxOffset("T", q))
		}
		if r.MinPhyOffset() == m.MinPhyOffset() && m.MaxPhyOffset() > 0 {
			end := m.MaxPhyOffset()
			labels := func(r *switchReplica) []EpochEntry { // empty ones only masters know
				return linked(slices.DeleteFunc(r.ha.EpochEntries(), func(e EpochEntry) bool {
					return e.StartOffset == min(e.EndOffset, end)
				}))
			}
			require.Equal(g.t, labels(m), labels(r))
		}
	}
}

func putWait(m *switchReplica) store.PutResult { return m.Put(waitMessage()) }

// diverged are the directories with what was cut.
func (g *switchGroup) diverged(id int64) (dirs []string) {
	names, err := g.fs.List(fmt.Sprintf("%s/r%d", g.dir, id))
	require.NoError(g.t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "diverged-") {
			dirs = append(dirs, name)
		}
	}
	return dirs
}

func TestSwitchPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		require.Equal(t, store.ServiceNotAvailable, putWait(g.all[0]).Status, "before the first role")
		m := g.elect(1)
		require.Equal(t, store.PutOK, putWait(m).Status)
		fill(t, m.MessageStore, 100, "a")
		g.inSync(m, 2)
		g.same(m)
		put := putWait(m)
		require.Equal(t, store.PutOK, put.Status)
		require.GreaterOrEqual(t, g.all[1].MaxPhyOffset(), put.EndOffset)
		g.same(m)
		slaves := m.ha.Slaves()
		require.Len(t, slaves, 1)
		require.True(t, slaves[0].InSync)
		require.EqualValues(t, 2, slaves[0].BrokerID)
		require.True(t, g.all[1].ha.Status().Activated)
		require.Equal(t, ClientTransfer, g.all[1].ha.State())
		require.Zero(t, g.all[1].ha.InSyncReplicas())
	})
}

// The role goes round, without and with messages in between; nobody is ever cut below what was confirmed.
func TestSwitchRoundAndRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 3, switchLive())
		defer g.stop()
		for n := range 9 {
			m := g.elect(int64(n%3) + 1)
			if n%4 != 1 {
				fill(t, m.MessageStore, 30, fmt.Sprint(n))
			}
			g.inSync(m, 3)
			g.same(m)
		}
		m := g.elect(g.master) // once more, while slaves are connected
		require.Equal(t, store.PutOK, putWait(m).Status)
		g.inSync(m, 3)
		g.same(m)
		require.ErrorIs(t, m.ha.BecomeSlave(t.Context(), m.id, g.epoch-1), ErrOldEpoch)
		require.ErrorIs(t, g.all[0].ha.BecomeMaster(t.Context(), 1, g.epoch-1, nil, 0), ErrOldEpoch)
		for id := range int64(3) {
			require.Empty(t, g.diverged(id+1))
		}
	})
}

// Producers go on while the role changes: everything that was answered PUT_OK is in the log of the last master.
func TestSwitchUnderLoad(t *testing.T) {
	f := func(fsys vfs.FS, dir string, change func(*store.Options)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			switchUnderLoad(t, newSwitchGroupOn(t, fsys, dir, 3, switchLive(), change))
		})
	}
	f(vfs.NewMem(), "", func(*store.Options) {})
	f(vfs.NewMem(), "", func(o *store.Options) { o.FlushDiskType = store.SyncFlush })
	f(vfs.OS, t.TempDir(), func(o *store.Options) {
		o.TransientStorePoolEnable, o.TransientStorePoolSize = true, 3
		o.CommitCommitLogLeastPages = 4
	})
}

func switchUnderLoad(t *testing.T, g *switchGroup) {
	defer g.stop()
	g.inSync(g.elect(1), 3)
	var mu sync.Mutex
	acked := map[string]int{}
	stop := make(chan struct{})
	var done sync.WaitGroup
	for p := range 4 {
		done.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				g.mu.Lock()
				m := g.all[g.master-1]
				g.mu.Unlock()
				body := fmt.Sprintf("<%d-%d>", p, i)
				put := m.Put(&codec.Message{Topic: "T", QueueID: int32(p), Body: []byte(body), WaitStoreMsgOK: true})
				if put.Status == store.PutOK {
					mu.Lock()
					acked[body]++
					mu.Unlock()
				}
				<-time.After(time.Millisecond)
			}
		})
	}
	for n := range 6 {
		<-time.After(200 * time.Millisecond)
		m := g.elect(int64(n)%3 + 1)
		g.inSync(m, 3)
	}
	close(stop)
	done.Wait()
	m := g.all[g.master-1]
	g.same(m)
	has := map[string]bool{}
	for _, body := range regexp.MustCompile("<[0-9]+-[0-9]+>").FindAllString(logBytes(m.MessageStore, 0), -1) {
		has[body] = true
	}
	require.Greater(t, len(acked), 500)
	for body := range acked {
		require.True(t, has[body], body)
	}
}

// A master that goes on alone, cut off, has a tail that nobody confirmed: it is kept aside, and its puts were not confirmed.
func TestSwitchCutsAnOldMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 3, switchLive())
		defer g.stop()
		old := g.begin()
		seen := old.MaxOffset("T", 0)
		thaw2, thaw3 := g.freeze(g.all[1]), g.freeze(g.all[2])
		answers := putsUnderWay(old)
		require.Equal(t, seen, old.MaxOffset("T", 0), "shown before it is confirmed")
		require.Empty(t, answers)
		end := old.MaxPhyOffset()
		thaw2()
		thaw3()
		g.all[1].ha.SetMaster("")
		g.all[2].ha.SetMaster("")
		g.setDeaf(true)
		// whatever the others got of it before they let go, the new master decides
		m := g.all[1]
		g.mu.Lock()
		g.master, g.epoch, g.set, g.setEpoch, g.deaf = 2, g.epoch+1, []int64{2}, g.setEpoch+1, false
		g.mu.Unlock()
		require.NoError(t, m.ha.BecomeMaster(t.Context(), 2, g.epoch, g.set, g.setEpoch))
		fill(t, m.MessageStore, 3, "new")
		require.Equal(t, store.PutOK, putWait(m).Status)
		g.follow(old)
		g.follow(g.all[2])
		for range cap(answers) {
			require.NotEqual(t, store.PutOK, <-answers)
		}
		g.inSync(m, 3)
		g.same(m)
		if m.ha.EpochEntries()[1].StartOffset < end {
			require.NotEmpty(t, g.diverged(1))
		}
		require.Equal(t, store.ServiceNotAvailable, putWait(old).Status)
	})
}

// A slave that hangs: sends wait for slaveTimeout until it has been out of step for haMaxTimeSlaveNotCatchup, then they go
// on without it, and consumers see what waited. When it is back it comes in again.
func TestSwitchFrozenSlave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := switchLive()
		live.HousekeepingInterval = time.Hour
		g := newSwitchGroup(t, 2, live)
		defer g.stop()
		m := g.elect(1)
		g.inSync(m, 2)
		time.Sleep(time.Minute) // idle
		require.Equal(t, 2, m.ha.InSyncReplicas())
		before := m.MaxOffset("T", 0)
		thaw := g.freeze(g.all[1])
		began := time.Now()
		for putWait(m).Status != store.PutOK {
			require.Less(t, time.Since(began), 25*time.Second)
			if time.Since(began) < 14*time.Second {
				require.Equal(t, before, m.MaxOffset("T", 0))
			}
		}
		require.Equal(t, 1, m.ha.InSyncReplicas())
		require.GreaterOrEqual(t, time.Since(began), 14*time.Second)
		g.await("shown", func() bool { return m.DispatchedWhere() == m.MaxPhyOffset() && m.MaxOffset("T", 0) > before+4 })
		began = time.Now()
		require.Equal(t, store.PutOK, putWait(m).Status)
		require.Less(t, time.Since(began), 100*time.Millisecond)
		thaw()
		g.inSync(m, 2)
		g.same(m)
	})
}

// A slave whose connection ends leaves at once.
func TestSwitchSlaveStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		m := g.elect(1)
		g.inSync(m, 2)
		g.all[1].stop(t)
		g.all[1] = nil
		began := time.Now()
		require.Equal(t, store.PutOK, putWait(m).Status)
		require.Less(t, time.Since(began), 100*time.Millisecond)
		fill(t, m.MessageStore, 50, "alone")
		g.follow(g.start(2))
		g.inSync(m, 2)
		g.same(m)
	})
}

// While nobody knows whether a change of the set was carried out, both sets count (apache/rocketmq#5663).
func TestSwitchUnknownAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		m := g.elect(1)
		g.inSync(m, 2)
		g.setDeaf(true)
		g.all[1].stop(t)
		g.all[1] = nil
		require.Equal(t, store.FlushSlaveTimeout, putWait(m).Status, "the controller may still have both")
		require.Equal(t, 1, m.ha.InSyncReplicas())
		g.setDeaf(false)
		g.await("alone", func() bool { set, _ := m.ha.SyncStateSet(); return len(set) == 1 })
		require.Equal(t, store.PutOK, putWait(m).Status)
	})
}

func TestSwitchRules(t *testing.T) {
	f := func(change func(*Live), connected int, want store.PutStatus) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			live := switchLive()
			change(&live)
			g := newSwitchGroup(t, 1+connected, live)
			defer g.stop()
			m := g.elect(1)
			g.inSync(m, 1+connected)
			began := time.Now()
			put := putWait(m)
			require.Equal(t, want, put.Status)
			require.Less(t, time.Since(began), time.Second)
			if want == store.InSyncReplicasNotEnough {
				require.Zero(t, m.MaxPhyOffset(), "refused before it is stored")
			}
		})
	}
	all := func(n int) func(*Live) { return func(l *Live) { l.MinInSyncReplicas = n } }
	f(all(1), 0, store.PutOK)
	f(all(1), 1, store.PutOK)
	f(all(2), 0, store.InSyncReplicasNotEnough)
	f(all(2), 1, store.PutOK)
	f(all(3), 1, store.InSyncReplicasNotEnough)
	some := func(n int) func(*Live) {
		return func(l *Live) { l.AllAckInSyncStateSet, l.InSyncReplicas = false, n }
	}
	f(some(1), 0, store.PutOK)
	f(some(2), 0, store.SlaveNotAvailable)
	f(some(2), 1, store.PutOK)
	f(some(3), 1, store.SlaveNotAvailable)
	majority := func(l *Live) { l.AllAckInSyncStateSet, l.Majority = false, 3 }
	f(majority, 0, store.InSyncReplicasNotEnough)
	f(majority, 1, store.PutOK)
	f(majority, 2, store.PutOK)
}

// With a majority one slave that hangs holds up nobody.
func TestSwitchMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := switchLive()
		live.AllAckInSyncStateSet, live.Majority = false, 3
		g := newSwitchGroup(t, 3, live)
		defer g.stop()
		m := g.elect(1)
		g.inSync(m, 3)
		thaw := g.freeze(g.all[2])
		for range 5 {
			began := time.Now()
			put := putWait(m)
			require.Equal(t, store.PutOK, put.Status)
			require.Less(t, time.Since(began), 100*time.Millisecond)
			require.GreaterOrEqual(t, g.all[1].MaxPhyOffset(), put.EndOffset)
			g.await("shown", func() bool { return m.DispatchedWhere() >= put.EndOffset })
		}
		thaw()
		g.same(m)
	})
}

// An asyncLearner has everything and never counts.
func TestSwitchLearner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		g.all[1].setLive(func(l *Live) { l.AsyncLearner = true })
		m := g.elect(1)
		fill(t, m.MessageStore, 10, "a")
		g.same(m)
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, m.ha.InSyncReplicas())
		defer g.freeze(g.all[1])()
		require.Equal(t, store.PutOK, putWait(m).Status)
	})
}

// syncFromLastFile begins with the last file, else an empty slave has all.
func TestSwitchFromLastFile(t *testing.T) {
	f := func(lastFile bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			live := switchLive()
			live.SyncFromLastFile = lastFile
			g := newSwitchGroup(t, 1, live)
			defer g.stop()
			m := g.elect(1)
			fill(t, m.MessageStore, 300, "a")
			g.follow(g.start(2))
			g.inSync(m, 2)
			g.same(m)
			require.Equal(t, lastFile, g.all[1].MinPhyOffset() > 0)
		})
	}
	f(true)
	f(false)
}

// Strangers confirm nothing (case B28 a).
func TestSwitchStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := switchLive()
		live.AllAckInSyncStateSet, live.InSyncReplicas = false, 2
		g := newSwitchGroup(t, 1, live)
		defer g.stop()
		m := g.elect(1)
		hello := func(id int64) []byte { return appendSlaveHandshake(nil, slaveHandshake{id: id}) }
		f := func(said ...[]byte) {
			t.Helper()
			a, b := net.Pipe()
			m.l.conns <- b
			go func() { _, _ = io.Copy(io.Discard, a) }()
			for _, x := range said {
				_, _ = a.Write(x)
				<-time.After(time.Millisecond)
			}
			require.Equal(t, store.SlaveNotAvailable, putWait(m).Status)
			g.await("closed", func() bool { return len(m.ha.links.list()) == 0 })
			_ = a.Close()
		}
		f(appendSwitchReport(nil, 1<<40))
		f(hello(2), appendSwitchReport(nil, 1<<40))
		f(hello(2), appendSwitchReport(nil, 0), appendSwitchReport(nil, 1<<40))
		f(hello(1), appendSwitchReport(nil, 0))
		f([]byte("GET / HTTP/1.0\r\n\r\n"))
		f(hello(2)) // says nothing more
		f()
	})
}

// A second connection of a replica takes the place of its first.
func TestSwitchReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		m := g.elect(1)
		g.inSync(m, 2)
		a, b := net.Pipe()
		m.l.conns <- b
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, a)
			close(ended)
		}()
		_, err := a.Write(appendSlaveHandshake(nil, slaveHandshake{id: 2}))
		require.NoError(t, err)
		<-ended // by the true one, which connects again
		g.await("in sync", func() bool { return len(m.ha.Slaves()) == 1 && m.ha.InSyncReplicas() == 2 })
		put := putWait(m)
		require.Equal(t, store.PutOK, put.Status)
		require.GreaterOrEqual(t, g.all[1].MaxPhyOffset(), put.EndOffset)
	})
}

// BecomeMaster gives up when its context ends, and may be tried again.
func TestSwitchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 1, switchLive())
		defer g.stop()
		r := g.all[0]
		slow := &slowLog{SwitchLog: r.MessageStore}
		r.ha.o.Log = slow
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.ha.BecomeMaster(ctx, 1, 1, []int64{1}, 1), context.DeadlineExceeded)
		require.Equal(t, store.ServiceNotAvailable, putWait(r).Status)
		slow.done = true
		require.NoError(t, r.ha.BecomeMaster(t.Context(), 1, 2, []int64{1}, 2))
		require.Equal(t, store.PutOK, putWait(r).Status)
		require.EqualValues(t, 2, r.ha.LastEpoch())
		require.NoError(t, r.ha.Close())
		require.True(t, errors.Is(r.ha.BecomeMaster(t.Context(), 1, 3, nil, 3), errServiceClosed))
		require.Equal(t, store.PhyOffset(math.MaxInt64), noEnd)
	})
}

// slowLog has something to dispatch until it is done.
type slowLog struct {
	SwitchLog
	done bool
}

func (l *slowLog) DispatchBehindBytes() int64 {
	if l.done {
		return 0
	}
	return 1
}
