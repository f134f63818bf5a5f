package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/mem"
	"skylark/reactor/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a group of controllers in memory, with virtual time (it lives in a bubble of synctest, and ends with it).
type site struct {
	t       *testing.T
	net     *mem.Network
	disks   []*vfs.MemFS
	members []*Controller // nil: down
	more    string        // further settings
	dark    atomic.Int32  // number, from 1 on, of a member that reaches nobody and that nobody reaches
	client  *client.Client
	log     *slog.Logger
}

func address(i int) string { return fmt.Sprintf("127.0.0.1:%d", 9000+i) }

func newSite(t *testing.T, n int, more string) *site {
	s := &site{t: t, net: mem.NewNetwork(), more: more, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	s.client = client.New(client.Options{Dialer: s.dialer(), Log: s.log})
	for i := range n {
		s.disks, s.members = append(s.disks, vfs.NewMem()), append(s.members, nil)
		require.NoError(t, s.disks[i].MkdirAll("/c"))
	}
	for i := range n {
		s.start(i)
	}
	t.Cleanup(s.close)
	return s
}

func (s *site) dialer() client.Dialer {
	return client.DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) { return s.net.Dial(ctx, addr) })
}

// memberDialer is that of a member: nothing gets out while it is in the dark.
func (s *site) memberDialer(i int) client.Dialer {
	return client.DialerFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if s.isDark(i) {
			return nil, syscall.EHOSTUNREACH
		}
		nc, err := s.dialer().DialContext(ctx, network, addr)
		return &memberConn{nc, s, i}, err
	})
}

func (s *site) isDark(i int) bool { return int(s.dark.Load()) == i+1 }

type memberConn struct {
	net.Conn
	s *site
	i int
}

func (c *memberConn) Write(p []byte) (int, error) {
	if c.s.isDark(c.i) {
		return 0, errors.Join(syscall.EHOSTUNREACH, c.Close())
	}
	return c.Conn.Write(p)
}

// darken cuts a member off, as if its machine had lost its power; light undoes it.
func (s *site) darken(i int) {
	s.dark.Store(int32(i + 1))
	s.net.SetHook(func(from, to netip.AddrPort, _ int) mem.Fate {
		return mem.Fate{Reset: from.Port() == uint16(9000+i) || to.Port() == uint16(9000+i)}
	})
}

func (s *site) light() {
	s.dark.Store(0)
	s.net.SetHook(nil)
}

func (s *site) config(i int) *config.Set {
	set := config.NewControllerSet()
	text := fmt.Sprintf("controllerDLegerGroup=g\ncontrollerDLegerSelfId=n%d\ncontrollerStorePath=/c\nbindAddress=127.0.0.1\n"+
		"configStorePath=/c/controller.conf\ncontrollerDLegerPeers=%s\n", i, s.peers()) + s.more
	f, err := config.Parse(text, "/c/controller.conf")
	require.NoError(s.t, err)
	_, err = set.Load(f)
	require.NoError(s.t, err)
	return set
}

func (s *site) peers() (list string) {
	for i := range s.members {
		list += fmt.Sprintf("n%d-%s;", i, address(i))
	}
	return list
}

func (s *site) start(i int) {
	c, err := New(Options{Config: s.config(i), FS: s.disks[i], Dialer: s.memberDialer(i), Log: s.log,
		NewEngine: func(eo reactor.Options) reactor.Engine { return mem.NewOn(s.net, eo) }})
	require.NoError(s.t, err)
	require.NoError(s.t, c.Start())
	require.Equal(s.t, address(i), c.Addr().String())
	s.members[i] = c
}

// stop stops a member in order; crash cuts its power.
func (s *site) stop(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(s.t, s.members[i].Close(ctx))
	s.members[i] = nil
}

func (s *site) crash(i int, seed uint64) {
	s.disks[i] = s.disks[i].CrashClone(seed)
	s.stop(i)
}

func (s *site) close() {
	for i := range s.members {
		if s.members[i] != nil {
			s.stop(i)
		}
	}
	require.NoError(s.t, s.client.Close())
}

// leader waits for one.
func (s *site) leader() int {
	s.t.Helper()
	for range 200 {
		if i := slices.IndexFunc(s.members, func(c *Controller) bool { return c != nil && c.Leading() }); i >= 0 {
			return i
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Fail(s.t, "no leader")
	return -1
}

// eventually waits in virtual time.
func (s *site) eventually(what string, cond func() bool) {
	s.t.Helper()
	for range 600 {
		synctest.Wait()
		if cond() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Fail(s.t, "never came true", what)
}

// call asks a member; header may be nil.
func (s *site) call(i, code int, header, content any) *codec.Command {
	s.t.Helper()
	return callAt(s.t, s.client, address(i), code, header, content)
}

func callAt(t *testing.T, c *client.Client, addr string, code int, header, content any) *codec.Command {
	t.Helper()
	req := codec.NewRequest(code)
	if header != nil {
		codec.EncodeHeader(req, header)
	}
	switch v := content.(type) {
	case nil:
	case string:
		req.Body = []byte(v)
	default:
		var err error
		req.Body, err = body.Encode(v)
		require.NoError(t, err)
	}
	a, err := c.Call(t.Context(), addr, req)
	require.NoError(t, err)
	return a
}

func answer[T any](t *testing.T, a *codec.Command) *T {
	t.Helper()
	var h T
	require.NoError(t, codec.DecodeHeader(a, &h))
	return &h
}

func content[T any](t *testing.T, a *codec.Command) *T {
	t.Helper()
	var b T
	require.NoError(t, body.Decode(a.Body, &b))
	return &b
}

func code(t *testing.T, want int, a *codec.Command) {
	t.Helper()
	require.Equal(t, codec.ResponseCodeName(want), codec.ResponseCodeName(a.Code), a.Remark)
}

// fakeBroker does what a Java broker does with controllers.
type fakeBroker struct {
	s        *site
	name     string
	addr     string
	id       int64
	epoch    int32
	offset   codec.PhyOffset
	priority int32
	client   *client.Client
	server   *rpc.Server
	engine   *mem.Engine

	mu       sync.Mutex
	notified []codec.NotifyBrokerRoleChangedRequestHeader
	sets     []body.SyncStateSet
	stop     chan struct{}
	done     chan struct{}
}

func (s *site) broker(name string, port int) *fakeBroker {
	b := &fakeBroker{s: s, name: name, addr: fmt.Sprintf("127.0.0.1:%d", port), priority: 10}
	b.server = rpc.NewServer(clock.System, s.log)
	pool := b.server.NewPool(rpc.PoolOptions{Name: "all", Workers: 1, Capacity: 10})
	b.server.Register(rpc.Route{Code: codec.ReqNotifyBrokerRoleChanged, Pool: pool, Processor: rpc.ProcessorFunc(b.notice)})
	b.engine = mem.NewOn(s.net, reactor.Options{Listen: []string{b.addr}, Log: s.log})
	require.NoError(s.t, b.engine.Start(b.server))
	s.t.Cleanup(b.close)
	return b
}

// pair makes two brokers of the name b: the first is master of epoch 1, the second in sync with it.
func (s *site) pair() (master, slave *fakeBroker) {
	s.t.Helper()
	master, slave = s.broker("b", 10911), s.broker("b", 10921)
	master.up()
	code(s.t, codec.RespSuccess, master.elect())
	slave.up()
	code(s.t, codec.RespSuccess, master.alter(1, 1, 1, 2))
	return master, slave
}

func (b *fakeBroker) notice(r *rpc.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notified = append(b.notified, *answer[codec.NotifyBrokerRoleChangedRequestHeader](b.s.t, r.Cmd))
	b.sets = append(b.sets, *content[body.SyncStateSet](b.s.t, r.Cmd))
}

// last is the last notification.
func (b *fakeBroker) last() (h codec.NotifyBrokerRoleChangedRequestHeader, set body.SyncStateSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.notified); n > 0 {
		return b.notified[n-1], b.sets[n-1]
	}
	return h, set
}

func (b *fakeBroker) call(code int, header, content any) *codec.Command {
	return callAt(b.s.t, b.client, address(b.s.leader()), code, header, content)
}

// up gets an id, if it has none, registers and begins to beat.
func (b *fakeBroker) up() *codec.RegisterBrokerToControllerResponseHeader {
	t := b.s.t
	b.client = client.New(client.Options{Dialer: b.s.dialer(), Log: b.s.log})
	b.stop, b.done = make(chan struct{}), make(chan struct{})
	if b.id == 0 {
		a := b.call(codec.ReqControllerGetNextBrokerID,
			&codec.GetNextBrokerIDRequestHeader{ClusterName: "c", BrokerName: b.name}, nil)
		code(t, codec.RespSuccess, a)
		id := *answer[codec.GetNextBrokerIDResponseHeader](t, a).NextBrokerID
		code(t, codec.RespSuccess, b.call(codec.ReqControllerApplyBrokerID, &codec.ApplyBrokerIDRequestHeader{ClusterName: "c",
			BrokerName: b.name, AppliedBrokerID: &id, RegisterCheckCode: b.addr + ";1"}, nil))
		b.id = id
	}
	b.beat()
	synctest.Wait()
	go func() {
		defer close(b.done)
		for {
			select {
			case <-time.After(time.Second):
				b.beat()
			case <-b.stop:
				return
			}
		}
	}()
	a := b.call(codec.ReqControllerRegisterBroker, &codec.RegisterBrokerToControllerRequestHeader{ClusterName: "c",
		BrokerName: b.name, BrokerID: &b.id, BrokerAddress: b.addr}, nil)
	code(t, codec.RespSuccess, a)
	return answer[codec.RegisterBrokerToControllerResponseHeader](t, a)
}

// has sets the epoch that it tells from now on.
func (b *fakeBroker) has(epoch int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch = epoch
}

// beat tells all controllers, as Java's brokers do.
func (b *fakeBroker) beat() {
	timeout := int64(10000)
	b.mu.Lock()
	epoch, offset, priority := b.epoch, b.offset, b.priority
	b.mu.Unlock()
	for i := range b.s.members {
		req := codec.NewRequest(codec.ReqBrokerHeartbeat)
		codec.EncodeHeader(req, &codec.BrokerHeartbeatRequestHeader{ClusterName: "c", BrokerName: b.name, BrokerAddr: b.addr,
			BrokerID: &b.id, Epoch: &epoch, MaxOffset: &offset, HeartbeatTimeoutMillis: &timeout, ElectionPriority: &priority})
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		_ = b.client.Oneway(ctx, address(i), req) // one that is down
		cancel()
	}
}

func (b *fakeBroker) elect() *codec.Command {
	return b.call(codec.ReqControllerElectMaster,
		&codec.ElectMasterRequestHeader{ClusterName: "c", BrokerName: b.name, BrokerID: b.id}, nil)
}

func (b *fakeBroker) alter(masterEpoch, setEpoch int32, set ...int64) *codec.Command {
	return b.call(codec.ReqControllerAlterSyncStateSet, &codec.AlterSyncStateSetRequestHeader{BrokerName: b.name,
		MasterBrokerID: &b.id, MasterEpoch: &masterEpoch}, &body.SyncStateSet{SyncStateSet: set, SyncStateSetEpoch: setEpoch})
}

// silent stops the beats; the connections stay. dead ends them too.
func (b *fakeBroker) silent() {
	close(b.stop)
	<-b.done
}

func (b *fakeBroker) dead() {
	b.silent()
	require.NoError(b.s.t, b.client.Close())
	b.client = nil
}

func (b *fakeBroker) close() {
	if b.client != nil {
		b.dead()
	}
	require.NoError(b.s.t, b.engine.Stop(context.Background()))
	b.server.Close()
}

// info is what the leader tells of a broker name.
func (s *site) info(name string) *body.ReplicasInfo {
	a := s.call(s.leader(), codec.ReqControllerGetSyncStateData, nil, []string{name})
	code(s.t, codec.RespSuccess, a)
	return content[body.BrokerReplicasInfo](s.t, a).ReplicasInfoTable[name]
}
