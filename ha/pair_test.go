package ha

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

const (
	testWait = 20 * time.Second
	testTick = 2 * time.Millisecond
)

var quietLog = slog.New(slog.DiscardHandler)

// group is a master and its slaves in one process, over TCP.
type group struct {
	t    *testing.T
	fs   vfs.FS
	live atomic.Pointer[Live]
}

func newGroup(t *testing.T, live Live) *group {
	g := &group{t: t, fs: vfs.NewMem()}
	if live.HeartbeatInterval == 0 {
		live.HeartbeatInterval, live.HousekeepingInterval = 50*time.Millisecond, 500*time.Millisecond
	}
	live.TransferBatchBytes = 1000
	live.MaxGapNotInSync, live.SlaveTimeout = 1<<20, time.Second
	g.live.Store(&live)
	return g
}

func (g *group) options(dir string) store.Options {
	o := store.DefaultOptions(dir)
	o.FS, o.Log = g.fs, quietLog
	o.MappedFileSizeCommitLog = 16 << 10
	o.MappedFileSizeConsumeQueue = 800
	o.MaxHashSlotNum, o.MaxIndexNum = 100, 400
	o.MaxMessageSize = 8 << 10
	return o
}

// testMaster is a master with its HA port.
type testMaster struct {
	*store.MessageStore
	ha *HAService
}

func (g *group) master(dir string) *testMaster {
	g.t.Helper()
	s, err := store.Open(g.options(dir))
	require.NoError(g.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(g.t, err)
	h := NewHAService(Options{Log: s, Clock: clock.System, Slog: quietLog, Live: g.live.Load})
	s.SetReplicas(h)
	require.NoError(g.t, s.Start())
	h.Start(l)
	return &testMaster{s, h}
}

func (m *testMaster) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, m.ha.Close())
	require.NoError(t, m.Close())
}

func (m *testMaster) addr() string { return m.ha.Addr().String() }

// testSlave is a slave's store with its connection.
type testSlave struct {
	*store.MessageStore
	client *HAClient
	ends   *atomic.Pointer[Range] // what MasterRange says instead, if not nil
}

func (g *group) slave(dir string, of *testMaster, askRange bool) *testSlave {
	g.t.Helper()
	s, err := store.Open(g.options(dir))
	require.NoError(g.t, err)
	s.Follow()
	require.NoError(g.t, s.Start())
	ends := new(atomic.Pointer[Range])
	o := ClientOptions{Log: s, Clock: clock.System, Slog: quietLog, Live: g.live.Load,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}}
	if askRange {
		o.MasterRange = func(context.Context) (*Range, error) {
			if r := ends.Load(); r != nil {
				return r, nil
			}
			return &Range{of.MinPhyOffset(), of.MaxPhyOffset()}, nil
		}
	}
	c := NewHAClient(o)
	c.SetMaster(of.addr())
	c.Start()
	return &testSlave{s, c, ends}
}

func (s *testSlave) stop(t *testing.T) {
	t.Helper()
	s.client.Close()
	require.NoError(t, s.Close())
}

func fill(t *testing.T, s *store.MessageStore, n int, tag string) {
	t.Helper()
	for i := range n {
		m := &codec.Message{Topic: "T", QueueID: int32(i % 4), Body: fmt.Appendf(nil, "%s-%d-%s", tag, i,
			strings.Repeat("x", i%900))}
		require.Equal(t, store.PutOK, s.Put(m).Status)
	}
}

func logBytes(s *store.MessageStore, from store.PhyOffset) string {
	var b strings.Builder
	for at := from; ; {
		seg, ok := s.ReadLog(at, 1<<20)
		if !ok {
			return b.String()
		}
		b.Write(seg.Bytes)
		at += store.PhyOffset(len(seg.Bytes))
		seg.Owner.Release()
	}
}

func same(t *testing.T, m *testMaster, s *testSlave) {
	t.Helper()
	require.Eventually(t, func() bool { return m.MaxPhyOffset() == s.MaxPhyOffset() }, testWait, testTick)
	from := s.MinPhyOffset() // a slave begins with the master's last file
	a, b := logBytes(m.MessageStore, from), logBytes(s.MessageStore, from)
	for i := range min(len(a), len(b)) {
		require.Equal(t, a[i], b[i], "byte %d of %d, %d", i, len(a), len(b))
	}
	require.Equal(t, len(a), len(b))
	require.Eventually(t, func() bool { return s.DispatchBehindBytes() == 0 && m.DispatchBehindBytes() == 0 }, testWait,
		testTick)
	for q := range int32(4) {
		require.Equal(t, m.MaxOffset("T", q), s.MaxOffset("T", q))
	}
}

func waitMessage() *codec.Message {
	return &codec.Message{Topic: "T", Body: []byte("wait"), WaitStoreMsgOK: true}
}

func TestPairCopies(t *testing.T) {
	f := func(askRange bool) {
		t.Helper()
		g := newGroup(t, Live{})
		m := g.master("/m")
		defer m.stop(t)
		s := g.slave("/s", m, askRange)
		fill(t, m.MessageStore, 100, "a")
		same(t, m, s)
		s.stop(t)
		fill(t, m.MessageStore, 100, "b")
		s = g.slave("/s", m, askRange)
		defer s.stop(t)
		same(t, m, s)
		fill(t, m.MessageStore, 20, "c")
		same(t, m, s)
		require.Eventually(t, func() bool {
			all := m.ha.Slaves()
			return len(all) == 1 && all[0].Ack == m.MaxPhyOffset() && all[0].InSync && all[0].Behind == 0
		}, testWait, testTick)
		require.Equal(t, 2, m.ha.InSyncReplicas())
		require.True(t, s.client.Status().Activated)
	}
	f(true)
	f(false)
}

// A slave that has what its master never had, or lost, is cut to the common point (case B28).
func TestDivergedSlaveIsCut(t *testing.T) {
	f := func(askRange bool, common, slaveMore, masterMore int) {
		t.Helper()
		g := newGroup(t, Live{})
		old := g.master("/old")
		fill(t, old.MessageStore, common, "common")
		s := g.slave("/s", old, askRange)
		m := g.slave("/m", old, askRange) // becomes the new master
		same(t, old, s)
		same(t, old, m)
		m.stop(t)
		fill(t, old.MessageStore, slaveMore, "lost")
		same(t, old, s)
		s.stop(t)
		old.stop(t)
		fresh := g.master("/m")
		defer fresh.stop(t)
		fill(t, fresh.MessageStore, masterMore, "kept!")
		s = g.slave("/s", fresh, askRange)
		defer s.stop(t)
		same(t, fresh, s)
		fill(t, fresh.MessageStore, 10, "more")
		same(t, fresh, s)
	}
	for _, askRange := range []bool{true, false} {
		f(askRange, 50, 20, 0)
		f(askRange, 50, 20, 5)
		f(askRange, 50, 20, 100)
		f(askRange, 300, 300, 20)
		f(askRange, 300, 3, 300)
	}
}

// Nothing in common: the slave's log is put aside and copied anew.
func TestForeignSlaveIsCopiedAnew(t *testing.T) {
	g := newGroup(t, Live{})
	a, b := g.master("/a"), g.master("/b")
	fill(t, a.MessageStore, 10, "a")
	fill(t, b.MessageStore, 11, "b")
	s := g.slave("/s", a, true)
	same(t, a, s)
	s.ends.Store(&Range{-1, -1})
	s.client.SetMaster(b.addr())
	same(t, b, s)
	s.stop(t)
	a.stop(t)
	b.stop(t)
}

// A slave whose end has expired on the master is copied from the master's start on (case B28 c).
func TestLeftBehindSlaveIsCopiedAnew(t *testing.T) {
	f := func(askRange bool) {
		t.Helper()
		g := newGroup(t, Live{})
		m := g.master("/m")
		s := g.slave("/s", m, askRange)
		fill(t, m.MessageStore, 10, "a")
		same(t, m, s)
		s.stop(t)
		fill(t, m.MessageStore, 200, "b")
		require.NoError(t, m.ha.Close())
		require.NoError(t, m.Close())
		require.NoError(t, g.fs.Remove("/m/commitlog/"+fmt.Sprintf("%020d", 0)))
		m = g.master("/m")
		require.NotZero(t, m.MinPhyOffset())
		s = g.slave("/s", m, askRange)
		same(t, m, s)
		require.Equal(t, m.MinPhyOffset(), s.MinPhyOffset())
		s.stop(t)
		m.stop(t)
	}
	f(true)
	f(false)
}

// A master without its data does not take the slave's away.
func TestEmptyMasterLeavesTheSlaveAlone(t *testing.T) {
	g := newGroup(t, Live{})
	m := g.master("/m")
	fill(t, m.MessageStore, 20, "a")
	s := g.slave("/s", m, true)
	same(t, m, s)
	end := s.MaxPhyOffset()
	empty := g.master("/empty")
	s.ends.Store(&Range{})
	s.client.SetMaster(empty.addr())
	require.Never(t, func() bool { return s.MaxPhyOffset() != end }, 100*time.Millisecond, testTick)
	s.stop(t)
	m.stop(t)
	empty.stop(t)
}

// Strangers confirm nothing (case B28 a).
func TestStrangersConfirmNothing(t *testing.T) {
	g := newGroup(t, Live{Rule: OneSlave})
	m := g.master("/m")
	defer m.stop(t)
	f := func(said ...any) {
		t.Helper()
		conn, err := net.Dial("tcp", m.addr())
		require.NoError(t, err)
		defer conn.Close()
		for _, x := range said {
			_ = binary.Write(conn, binary.BigEndian, x) // fails once the master has closed it
		}
		require.Equal(t, store.SlaveNotAvailable, m.Put(waitMessage()).Status)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(testWait)))
		_, err = io.Copy(io.Discard, conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "not closed by the master")
	}
	f(int64(1<<60), [3]byte{}, int64(-1))
	f(int64(-1))
	f([3]byte{})
	require.Eventually(t, func() bool { return len(m.ha.links.list()) == 0 }, testWait, testTick)
}

// The answers of SYNC_MASTER by the rules of Java 4 and 5.
func TestRules(t *testing.T) {
	f := func(live Live, slaves int, want store.PutStatus) {
		t.Helper()
		g := newGroup(t, live)
		m := g.master("/m")
		fill(t, m.MessageStore, 5, "a")
		var all []*testSlave
		for i := range slaves {
			all = append(all, g.slave(fmt.Sprintf("/s%d", i), m, true))
		}
		for _, s := range all {
			same(t, m, s)
		}
		require.Eventually(t, func() bool { return m.ha.InSyncReplicas() == 1+slaves }, testWait, testTick)
		put := m.Put(waitMessage())
		require.Equal(t, want, put.Status)
		if put.Status == store.PutOK && live.Rule != NoCopies {
			n := 0
			for _, s := range all {
				if s.MaxPhyOffset() >= put.EndOffset {
					n++
				}
			}
			require.GreaterOrEqual(t, n, m.ha.needed(g.live.Load(), put.EndOffset), "answered too early")
		}
		for _, s := range all {
			s.stop(t)
		}
		m.stop(t)
	}
	f(Live{}, 0, store.PutOK)
	f(Live{Rule: OneSlave}, 0, store.SlaveNotAvailable)
	f(Live{Rule: OneSlave}, 1, store.PutOK)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 1}, 0, store.PutOK)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 2}, 0, store.SlaveNotAvailable)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 2}, 1, store.PutOK)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 3}, 2, store.PutOK)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 3}, 1, store.SlaveNotAvailable)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 3, AutoInSync: true, MinInSyncReplicas: 1}, 1, store.PutOK)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 3, AutoInSync: true, MinInSyncReplicas: 2, Refuse: true}, 0,
		store.InSyncReplicasNotEnough)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 2, Refuse: true}, 1, store.PutOK)
	f(Live{Rule: InSyncReplicas, InSyncReplicas: 2, Refuse: true, AliveReplicas: 1}, 1, store.InSyncReplicasNotEnough)
}

// A frozen slave: the first put waits for slaveTimeout, and after haHousekeepingInterval the link is cut and puts are
// answered at once (case B30).
func TestFrozenSlave(t *testing.T) {
	g := newGroup(t, Live{Rule: OneSlave, HeartbeatInterval: 100 * time.Millisecond,
		HousekeepingInterval: 1500 * time.Millisecond})
	m := g.master("/m")
	defer m.stop(t)
	conn, err := net.Dial("tcp", m.addr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, binary.Write(conn, binary.BigEndian, int64(0)))
	require.Eventually(t, func() bool { return m.ha.InSyncReplicas() == 2 }, testWait, testTick)
	require.Equal(t, store.FlushSlaveTimeout, m.Put(waitMessage()).Status)
	require.Eventually(t, func() bool { return m.ha.InSyncReplicas() == 1 }, testWait, testTick)
	require.Equal(t, store.SlaveNotAvailable, m.Put(waitMessage()).Status, "it does not wait")
	s := g.slave("/s", m, false)
	defer s.stop(t)
	same(t, m, s)
	require.Eventually(t, func() bool { return m.Put(waitMessage()).Status == store.PutOK }, testWait, testTick)
}

// An idle pair keeps its connection (case B30 a).
func TestIdlePairKeepsItsConnection(t *testing.T) {
	g := newGroup(t, Live{HeartbeatInterval: 10 * time.Millisecond, HousekeepingInterval: 200 * time.Millisecond})
	m := g.master("/m")
	defer m.stop(t)
	s := g.slave("/s", m, false)
	defer s.stop(t)
	fill(t, m.MessageStore, 3, "a")
	same(t, m, s)
	first := m.ha.Slaves()[0].Remote
	require.Never(t, func() bool { all := m.ha.Slaves(); return len(all) != 1 || all[0].Remote != first }, time.Second,
		testTick)
}

func TestFlowControl(t *testing.T) {
	g := newGroup(t, Live{MaxBytesInSecond: 20_000, HeartbeatInterval: time.Second, HousekeepingInterval: testWait})
	m := g.master("/m")
	defer m.stop(t)
	s := g.slave("/s", m, false)
	defer s.stop(t)
	fill(t, m.MessageStore, 3, "first")
	same(t, m, s)
	began := time.Now()
	fill(t, m.MessageStore, 300, "a") // 75 KB
	same(t, m, s)
	require.Greater(t, time.Since(began), 100*time.Millisecond)
}

// With a transient store pool a put that waits for slaves does not wait for the commit's interval.
func TestTransientPoolDoesNotHoldUpCopies(t *testing.T) {
	g := newGroup(t, Live{Rule: OneSlave, HeartbeatInterval: time.Second, HousekeepingInterval: testWait})
	g.fs = vfs.OS
	o := g.options(t.TempDir())
	o.TransientStorePoolEnable, o.CommitCommitLogLeastPages = true, 4
	o.CommitCommitLogThoroughInterval, o.WakeCommitWhenPutMessage = time.Hour, true
	s, err := store.Open(o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := NewHAService(Options{Log: s, Clock: clock.System, Slog: quietLog, Live: g.live.Load})
	s.SetReplicas(h)
	require.NoError(t, s.Start())
	h.Start(l)
	m := &testMaster{s, h}
	defer m.stop(t)
	slave := g.slave(t.TempDir(), m, false)
	defer slave.stop(t)
	require.Eventually(t, func() bool { return h.InSyncReplicas() == 2 }, testWait, testTick)
	for range 20 {
		put := m.Put(waitMessage())
		require.Equal(t, store.PutOK, put.Status)
		require.GreaterOrEqual(t, slave.MaxPhyOffset(), put.EndOffset)
	}
}
