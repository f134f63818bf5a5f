package replicas_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/broker"
	"skylark/broker/replicas"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/controller"
	"skylark/internal/vfs"
	"skylark/namesrv"
	"skylark/reactor"
	"skylark/reactor/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a name server, a controller and brokers of one name, all in memory and on virtual time.
type site struct {
	t       *testing.T
	net     *mem.Network
	log     *slog.Logger
	more    string // of the brokers' configuration
	names   *namesrv.NameServer
	control *controller.Controller
	disk    *vfs.MemFS // of the controller
	members []*member
	client  *client.Client
	sent    [][]byte // acknowledged
}

// member is a broker; its ports are 10·n to 10·n+9 above 10000.
type member struct {
	*broker.Broker
	s    *site
	n    int
	fs   *vfs.MemFS
	dark atomic.Pointer[atomic.Bool] // of the process that runs: nothing comes or goes
	cut  atomic.Bool                 // slaves and the controller are out of reach
	hole atomic.Bool                 // the same without a sign: what is written vanishes, what is dialed is not answered
	down bool
	conf string // besides that of all, from the next start on

	mu     sync.Mutex
	dialed map[uint16]bool
}

const (
	namesAddr   = "127.0.0.1:9876"
	controlAddr = "127.0.0.1:9878"
)

func newSite(t *testing.T, brokers int, more string) *site {
	s := &site{t: t, net: mem.NewNetwork(), more: more, log: slog.New(slog.NewTextHandler(t.Output(), nil)), disk: vfs.NewMem()}
	s.client = client.New(client.Options{Dialer: s.dialer(0), Log: s.log})
	for n := range brokers {
		s.members = append(s.members, &member{s: s, n: n, fs: vfs.NewMem()})
	}
	s.net.SetHook(s.fate)
	s.startNames()
	s.startController()
	for n := range brokers {
		s.start(n)
	}
	return s
}

func (s *site) engine(o reactor.Options) reactor.Engine { return mem.NewOn(s.net, o) }

// fate tears what goes to or from a broker in the dark.
func (s *site) fate(from, to netip.AddrPort, _ int) (f mem.Fate) {
	for _, m := range s.members {
		if d := m.dark.Load(); d != nil && d.Load() && (m.has(from.Port()) || m.has(to.Port())) {
			f.Reset = true
		}
		if m.cut.Load() && (m.side(from.Port()) || m.side(to.Port())) {
			f.Reset = true
		}
		if m.hole.Load() && (m.side(from.Port()) || m.side(to.Port())) {
			f.Lost = true
		}
	}
	return f
}

func (m *member) has(port uint16) bool { return int(port)/10 == 1000+m.n }

// side tells a port that is not for clients: those of the HA side, and those that the broker dials from.
func (m *member) side(port uint16) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(port) == 10003+10*m.n || m.dialed[port]
}

func (m *member) addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", 10000+10*m.n+i) }

// dialer is that of a process; one in the dark reaches nobody.
func (s *site) dialer(_ int) client.Dialer {
	return client.DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) { return s.net.Dial(ctx, addr) })
}

func (s *site) load(set *config.Set, text string) *config.Set {
	f, err := config.Parse(text, "test.conf")
	require.NoError(s.t, err)
	_, err = set.Load(f)
	require.NoError(s.t, err)
	return set
}

func (s *site) startNames() {
	var err error
	s.names, err = namesrv.New(namesrv.Options{Config: s.load(config.NewNamesrvSet(), "kvConfigPath=/kv"), FS: vfs.NewMem(),
		Log: s.log, NewEngine: s.engine, Dialer: s.dialer(0), Listen: []string{namesAddr}})
	require.NoError(s.t, err)
	require.NoError(s.t, s.names.Start())
}

func (s *site) startController() {
	require.NoError(s.t, s.disk.MkdirAll("/c"))
	set := s.load(config.NewControllerSet(), "controllerDLegerGroup=g\ncontrollerDLegerSelfId=n0\ncontrollerStorePath=/c\n"+
		"configStorePath=/c/controller.conf\nbindAddress=127.0.0.1\ncontrollerDLegerPeers=n0-"+controlAddr)
	var err error
	s.control, err = controller.New(controller.Options{Config: set, FS: s.disk, Log: s.log, NewEngine: s.engine,
		Dialer: s.dialer(0)})
	require.NoError(s.t, err)
	require.NoError(s.t, s.control.Start())
}

func (s *site) start(n int) *member {
	m, err := s.try(n)
	require.NoError(s.t, err)
	return m
}

func (s *site) try(n int) (*member, error) {
	m := s.members[n]
	m.mu.Lock()
	m.dialed = map[uint16]bool{}
	m.mu.Unlock()
	dark := &atomic.Bool{}
	m.down = false
	m.dark.Store(dark)
	text := fmt.Sprintf("brokerClusterName=c\nbrokerName=b\nstorePathRootDir=/data\nmappedFileSizeCommitLog=1048576\n"+
		"mappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=100\nmaxIndexNum=400\nbrokerIP1=127.0.0.1\nlistenPort=%d\n"+
		"haListenPort=%d\nnamesrvAddr=%s\ncontrollerAddr=%s\nenableControllerMode=true\n", 10000+10*n, 10003+10*n, namesAddr,
		controlAddr) + s.more + m.conf
	dial := client.DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) {
		if dark.Load() || m.cut.Load() {
			return nil, net.ErrClosed
		}
		for pause := time.Second; m.hole.Load(); pause *= 2 { // as a system asks again
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(pause):
			}
		}
		nc, err := s.net.Dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		m.dialed[uint16(nc.LocalAddr().(*net.TCPAddr).Port)] = true
		m.mu.Unlock()
		return &deadConn{Conn: nc, dark: dark}, nil
	})
	var err error
	m.Broker, err = broker.New(broker.Options{Config: s.load(config.NewBrokerSet(), text), NewEngine: s.engine, FS: m.fs,
		Log: s.log.With("broker", n), Dialer: dial, Listen: []string{m.addr(0), m.addr(2)}, ListenHA: m.addr(3),
		ListenOn: func(addr string) (net.Listener, error) { return s.net.Listen(addr) }})
	if err != nil {
		m.down, m.Broker = true, nil
		return nil, err
	}
	return m, m.Start()
}

// deadConn writes nothing in the dark.
type deadConn struct {
	net.Conn
	dark *atomic.Bool
}

func (c *deadConn) Write(p []byte) (int, error) {
	if c.dark.Load() {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *deadConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.dark.Load() {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// kill ends a broker as kill -9 does: its files stay as they are now, its connections end.
func (s *site) kill(n int) {
	m := s.members[n]
	fs := m.fs.CloneAll()
	m.dark.Load().Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = m.Close(ctx)
	m.fs, m.down, m.Broker = fs, true, nil
}

func (s *site) stop(n int) {
	require.NoError(s.t, s.members[n].Close(s.t.Context()))
	s.members[n].down, s.members[n].Broker = true, nil
}

func (s *site) close() {
	for n, m := range s.members {
		if !m.down {
			s.stop(n)
		}
	}
	require.NoError(s.t, s.control.Close(s.t.Context()))
	require.NoError(s.t, s.names.Close(s.t.Context()))
	require.NoError(s.t, s.client.Close())
}

func (s *site) eventually(what string, cond func() bool) {
	s.t.Helper()
	for range 3000 {
		if cond() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Fail(s.t, "never came true", what)
}

// master is the broker that is master, nil if there is none.
func (s *site) master() *member {
	for _, m := range s.members {
		if m.Broker == nil {
			continue
		}
		if st := m.Replicas(); st.Stage == replicas.StageRunning && st.Role.Master && !m.Store().Following() {
			return m
		}
	}
	return nil
}

// settledNow tells that there is one master, with a SyncStateSet of so many.
func (s *site) settledNow(size int) bool {
	n := 0
	for _, m := range s.members {
		if m.Broker != nil && m.Replicas().Role.Master && !m.Store().Following() {
			n++
		}
	}
	return n == 1 && len(s.master().Replicas().Role.SyncStateSet) == size
}

// settled waits until a master has a SyncStateSet of so many, and gives it.
func (s *site) settled(size int) *member {
	s.t.Helper()
	s.eventually(fmt.Sprintf("a SyncStateSet of %d", size), func() bool {
		m := s.master()
		return m != nil && len(m.Replicas().Role.SyncStateSet) == size
	})
	return s.master()
}

// addr of the master in the routes of the name server, "" while there is none.
func (s *site) route(topic string) string {
	req := codec.NewRequest(codec.ReqGetRouteInfoByTopic)
	codec.EncodeHeader(req, &codec.GetRouteInfoRequestHeader{Topic: topic})
	a, err := s.client.Do(s.t.Context(), namesAddr, req)
	if err != nil {
		return ""
	}
	var r body.TopicRouteData
	require.NoError(s.t, body.Decode(a.Body, &r))
	for _, d := range r.BrokerDatas {
		return d.BrokerAddrs[codec.MasterID]
	}
	return ""
}

func (s *site) createTopic(name string) {
	c := &body.TopicConfig{TopicName: name}
	c.SetDefaults()
	c.ReadQueueNums, c.WriteQueueNums = 1, 1
	require.NoError(s.t, s.client.CreateTopic(s.t.Context(), s.master().addr(0), c))
}

// send sends one message where the routes say.
func (s *site) send(topic string) error { return s.sendIn(topic, 500*time.Millisecond) }

func (s *site) sendIn(topic string, limit time.Duration) error {
	text := fmt.Appendf(nil, "message %d", len(s.sent))
	addr := s.route(topic)
	if addr == "" {
		return fmt.Errorf("no route")
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	r, err := s.client.Send(ctx, addr, &codec.SendMessageHeader{Topic: []byte(topic), QueueID: 0}, text)
	switch {
	case err != nil:
		s.client.Drop(addr)
		return err
	case r.Code != codec.RespSuccess:
		return fmt.Errorf("code %d", r.Code)
	}
	s.sent = append(s.sent, text)
	return nil
}

func (s *site) mustSend(topic string, n int) {
	s.t.Helper()
	for range n {
		require.NoError(s.t, s.send(topic))
	}
}

// outage sends until it works again and tells how long it did not.
func (s *site) outage(topic string) time.Duration {
	s.t.Helper()
	began := time.Now()
	s.eventually("a send", func() bool { return s.send(topic) == nil })
	return time.Since(began)
}

// read gives the bodies of a queue.
func (s *site) read(m *member, topic string) (out [][]byte) {
	s.t.Helper()
	for next := codec.QueueOffset(0); ; {
		r, err := s.client.Pull(s.t.Context(), m.addr(0), client.PullRequest{Group: "reader", Topic: topic, QueueOffset: next})
		require.NoError(s.t, err)
		records := 0
		require.NoError(s.t, client.EachRecord(r.Body, func(rec *codec.Record) error {
			out = append(out, bytes.Clone(rec.Body))
			records++
			return nil
		}))
		if records == 0 {
			return out
		}
		next = r.NextBeginOffset
	}
}

// checkSent checks that every acknowledged message is there, in its order. The last ones are shown a moment later.
func (s *site) checkSent(m *member, topic string) {
	s.t.Helper()
	lost := ""
	for range 100 {
		if lost = s.missing(m, topic); lost == "" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Empty(s.t, lost, "lost")
}

// missing is an acknowledged message that a broker does not have.
func (s *site) missing(m *member, topic string) string {
	have := s.read(m, topic)
	for _, want := range s.sent {
		i := slices.IndexFunc(have, func(b []byte) bool { return bytes.Equal(b, want) })
		if i < 0 {
			return string(want)
		}
		have = have[i+1:]
	}
	return ""
}

// sameLogs waits until all brokers have the same log.
func (s *site) sameLogs() {
	s.t.Helper()
	s.eventually("the same log everywhere", func() bool {
		for _, m := range s.members[1:] {
			if m.Store().MaxPhyOffset() != s.members[0].Store().MaxPhyOffset() {
				return false
			}
		}
		return true
	})
}

const allAck = "allAckInSyncStateSet=true\nslaveReadEnable=true\n"

// The master is killed: the other replica serves before three seconds are over, with everything that was acknowledged; the
// old one comes back as slave and gets what it missed; and so on.
func TestFailover(t *testing.T) {
	f := func(n int, conf string) {
		t.Run(fmt.Sprint(n, " ", strings.Fields(conf)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, n, allAck+conf)
				defer s.close()
				s.settled(n)
				s.createTopic("T")
				for round := range 4 {
					m := s.settled(n)
					s.mustSend("T", 20)
					epoch := m.Replicas().Role.Epoch
					s.kill(m.n)
					out := s.outage("T")
					t.Logf("round %d: master %d killed, sends fail for %v", round, m.n, out)
					require.Less(t, out, 3*time.Second)
					require.Greater(t, s.master().Replicas().Role.Epoch, epoch)
					s.mustSend("T", 20)
					s.start(m.n)
					s.settled(n)
					s.checkSent(s.master(), "T")
					s.sameLogs()
				}
			})
		})
	}
	f(2, "")
	f(3, "")
	f(2, "transientStorePoolEnable=true\ntransientStorePoolSize=3\n")
	f(2, "flushDiskType=SYNC_FLUSH\n")
	f(3, "haAckRule=majority\ntotalReplicas=3\n")
	f(2, "duplicateSuppressionEnable=true\n")
}
