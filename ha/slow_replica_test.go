package ha

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/reactor/mem"
	"skylark/store"
)

// trio is a master and two slaves with automatic switching on a network in memory and virtual time; the link of the second
// slave can be made dead, and a controller carries out every SyncStateSet after a moment.
type trio struct {
	t      *testing.T
	net    *mem.Network
	live   atomic.Pointer[Live]
	stores []*store.MessageStore
	ha     []*AutoSwitchHAService
	slow   atomic.Uint32 // port of the second slave's end
	epoch  int32         // of the set; the controller's
}

const (
	trioAddr = "127.0.0.1:2000"
	// controllerTime is what a change of the SyncStateSet takes.
	controllerTime = 10 * time.Millisecond
)

func newTrio(t *testing.T, live Live) *trio {
	g := &trio{t: t, net: mem.NewNetwork(), epoch: 1}
	live.HeartbeatInterval, live.HousekeepingInterval = time.Second, 20*time.Second
	live.TransferBatchBytes, live.MaxGapNotInSync, live.SlaveTimeout = 32<<10, 1<<28, 3*time.Second
	g.live.Store(&live)
	for i := range 3 {
		g.replica(int64(i + 1))
	}
	ctx := context.Background()
	require.NoError(t, g.ha[0].BecomeMaster(ctx, 1, 1, []int64{1}, 1))
	for i := 1; i < 3; i++ {
		require.NoError(t, g.ha[i].BecomeSlave(ctx, int64(i+1), 1))
		g.ha[i].SetMaster(trioAddr)
	}
	g.put()
	g.setOf(3)
	return g
}

func (g *trio) replica(id int64) {
	dir := fmt.Sprintf("/%d", id)
	o := store.DefaultOptions(dir)
	o.FS, o.Log, o.MaxHashSlotNum, o.MaxIndexNum = vfs.NewMem(), quietLog, 100, 400
	o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = 4<<20, 4000
	s, err := store.Open(o)
	require.NoError(g.t, err)
	epochs, err := OpenEpochs(o.FS, dir+"/epochFileCheckpoint", quietLog)
	require.NoError(g.t, err)
	h, err := NewAutoSwitchHAService(SwitchOptions{Log: s, Clock: clock.System, Slog: quietLog, Live: g.live.Load,
		Epochs: epochs, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := g.net.Dial(ctx, addr)
			if err == nil && id == 3 {
				g.slow.Store(uint32(netip.MustParseAddrPort(c.LocalAddr().String()).Port()))
			}
			return c, err
		}, AlterSyncStateSet: func(set []int64) { time.AfterFunc(controllerTime, func() { g.alter(set) }) }})
	require.NoError(g.t, err)
	s.SetReplicas(h)
	require.NoError(g.t, s.Start())
	var l net.Listener
	if id == 1 {
		l, err = g.net.Listen(trioAddr)
		require.NoError(g.t, err)
	}
	h.Start(l)
	g.stores, g.ha = append(g.stores, s), append(g.ha, h)
}

// alter is the controller.
func (g *trio) alter(set []int64) {
	g.epoch++
	g.ha[0].SetSyncStateSet(set, g.epoch)
}

func (g *trio) close() {
	for i := 2; i >= 0; i-- {
		require.NoError(g.t, g.ha[i].Close())
		require.NoError(g.t, g.stores[i].Close())
	}
}

// freeze has everything to and from the second slave vanish, while its connection stays open.
func (g *trio) freeze() {
	g.net.SetHook(func(from, to netip.AddrPort, _ int) mem.Fate {
		return mem.Fate{Lost: uint32(from.Port()) == g.slow.Load() || uint32(to.Port()) == g.slow.Load()}
	})
}

// put puts a message as a producer that waits: its status, and how long the answer took.
func (g *trio) put() (store.PutStatus, time.Duration) {
	began := time.Now()
	r := g.stores[0].Put(&codec.Message{Topic: "T", Body: make([]byte, 1000), BornTimestamp: 1000, WaitStoreMsgOK: true})
	return r.Status, time.Since(began)
}

// setOf waits for a SyncStateSet of n.
func (g *trio) setOf(n int) {
	g.t.Helper()
	for range 1000 {
		synctest.Wait()
		if set, _ := g.ha[0].SyncStateSet(); len(set) == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.FailNow(g.t, "no such SyncStateSet", n)
}

// A replica that hangs holds up nobody who does not wait for it, however far it is behind.
func TestSlowReplicaAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTrio(t, Live{Rule: InSyncReplicas, InSyncReplicas: 1, MaxTimeSlaveNotCatchup: 15 * time.Second})
		defer g.close()
		g.freeze()
		for range 5000 { // more than all buffers of the link
			status, took := g.put()
			require.Equal(t, store.PutOK, status)
			require.Zero(t, took)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, g.stores[0].MaxPhyOffset(), g.stores[1].MaxPhyOffset(), "the other slave is not held up either")
		require.Less(t, g.stores[2].MaxPhyOffset(), g.stores[1].MaxPhyOffset())
	})
}

// With allAckInSyncStateSet sends wait for a replica that hangs until it has left the SyncStateSet, and no answer takes more
// than the bound of docs/ha.md; afterwards none waits for it.
func TestSlowReplicaSync(t *testing.T) {
	f := func(live Live, patience time.Duration, meanwhile store.PutStatus) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			live.Rule, live.InSyncReplicas, live.AllAckInSyncStateSet, live.Refuse = InSyncReplicas, 1, true, true
			live.MaxTimeSlaveNotCatchup = patience
			g := newTrio(t, live)
			defer g.close()
			status, took := g.put()
			require.Equal(t, store.PutOK, status)
			require.Less(t, took, 50*time.Millisecond)
			g.freeze()
			began := time.Now()
			var slowest time.Duration
			for {
				status, took := g.put()
				slowest = max(slowest, took)
				set, _ := g.ha[0].SyncStateSet()
				if len(set) == 2 && took < 50*time.Millisecond {
					require.Equal(t, store.PutOK, status)
					break
				}
				require.Contains(t, []store.PutStatus{meanwhile, store.PutOK}, status)
				require.Less(t, time.Since(began), time.Minute)
			}
			left := time.Since(began)
			t.Logf("patience %v: slowest %v, without it after %v", patience, slowest, left)
			require.LessOrEqual(t, slowest, min(patience+setInterval+2*controllerTime, 3*time.Second))
			require.LessOrEqual(t, left, patience+setInterval+2*controllerTime+3*time.Second)
			for range 200 {
				status, took := g.put()
				require.Equal(t, store.PutOK, status)
				require.Less(t, took, 50*time.Millisecond)
			}
			require.Equal(t, g.stores[0].MaxPhyOffset(), g.stores[1].MaxPhyOffset())
		})
	}
	f(Live{}, 15*time.Second, store.FlushSlaveTimeout)
	f(Live{}, 2*time.Second, store.PutOK)
	f(Live{Majority: 3}, time.Second, store.PutOK) // haAckRule=majority
}
