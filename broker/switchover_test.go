package broker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/admin"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/controller"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/mem"
)

// onlyController is where the controller of a test listens, on a network in memory.
const onlyController = "127.0.0.1:1001"

// guided is a broker name with a controller.
type guided struct {
	t      *testing.T
	dialer client.Dialer
	client *client.Client
}

// startGuided runs the controller.
func startGuided(t *testing.T) *guided {
	t.Helper()
	network := mem.NewNetwork()
	set := config.NewControllerSet()
	f, err := config.Parse("controllerDLegerGroup=g\ncontrollerDLegerSelfId=n0\ncontrollerDLegerPeers=n0-"+onlyController+
		"\ncontrollerStorePath=/c\nbindAddress=127.0.0.1\n", "controller.conf")
	require.NoError(t, err)
	_, err = set.Load(f)
	require.NoError(t, err)
	c, err := controller.New(controller.Options{Config: set, FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler),
		NewEngine: func(o reactor.Options) reactor.Engine { return mem.NewOn(network, o) }})
	require.NoError(t, err)
	require.NoError(t, c.Start())
	g := &guided{t: t, dialer: client.DialerFunc(func(ctx context.Context, nw, addr string) (net.Conn, error) {
		if addr == onlyController {
			return network.Dial(ctx, addr)
		}
		var d net.Dialer
		return d.DialContext(ctx, nw, addr)
	})}
	g.client = client.New(client.Options{Dialer: g.dialer, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		require.NoError(t, g.client.Close())
		require.NoError(t, c.Close(context.Background()))
	})
	return g
}

// broker starts a replica. The first one becomes the master.
func (g *guided) broker(conf string) *testBroker {
	g.t.Helper()
	conf = "enableControllerMode=true\ncontrollerAddr=" + onlyController + "\nslaveReadEnable=true\n" + conf
	b := start(g.t, setup{conf: conf, namesrv: g.dialer, prepare: func(b *Broker) { b.o.ListenHA = "127.0.0.1:0" }})
	b.eventually(func() bool { return !b.replica.isolated.Load() })
	return b
}

// inSync waits until all of the replicas are in the SyncStateSet of m.
func (g *guided) inSync(m *testBroker, n int) {
	g.t.Helper()
	m.eventually(func() bool {
		set, _ := m.replica.switching.ha.SyncStateSet()
		return len(set) == n
	})
}

// handOver runs the command.
func (g *guided) handOver(to int64) (said string, err error) {
	var lines []string
	err = admin.Run(context.Background(), &admin.Options{Broker: "broker-a", Controller: []string{onlyController}, To: to,
		Wait: 10 * time.Second, Client: g.client, Say: func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf(format, args...))
		}})
	return strings.Join(lines, "\n"), err
}

// senders send to one address all the time, as clients do that do not ask for routes, and want success.
type senders struct {
	stop    chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	slowest time.Duration
	failed  []string
	acked   []string
}

func (g *guided) send(addr string, n int) *senders {
	s := &senders{stop: make(chan struct{})}
	for i := range n {
		c := client.New(client.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		s.wg.Go(func() {
			defer c.Close()
			for k := 0; ; k++ {
				select {
				case <-s.stop:
					return
				default:
				}
				name := fmt.Sprintf("%d-%d", i, k)
				began := time.Now()
				answer, err := c.Call(context.Background(), addr, sendRequest("T", i%4, "", []byte(name)))
				took := time.Since(began)
				s.mu.Lock()
				s.slowest = max(s.slowest, took)
				switch {
				case err != nil:
					s.failed = append(s.failed, err.Error())
				case answer.Code != codec.RespSuccess:
					s.failed = append(s.failed, fmt.Sprintf("%d %s", answer.Code, answer.Remark))
				default:
					s.acked = append(s.acked, name)
				}
				s.mu.Unlock()
			}
		})
	}
	return s
}

// sent waits until n more have been acknowledged.
func (s *senders) sent(b *testBroker, n int) {
	s.mu.Lock()
	want := len(s.acked) + n
	s.mu.Unlock()
	b.eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.acked) >= want || len(s.failed) > 0
	})
}

// quick wants no send to have taken 500 ms.
func (s *senders) quick(t *testing.T, said string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%s\nslowest send: %v", said, s.slowest)
	require.Less(t, s.slowest, 500*time.Millisecond)
}

// end stops them, and wants what was acknowledged in the log of b, once.
func (s *senders) end(b *testBroker) {
	close(s.stop)
	s.wg.Wait()
	require.Empty(b.t, s.failed)
	var got []string
	b.eventually(func() bool { return b.store.DispatchBehindBytes() == 0 })
	for q := range 4 {
		for _, rec := range b.all("T", q) {
			got = append(got, string(rec.Body))
		}
	}
	slices.Sort(got)
	slices.Sort(s.acked)
	require.Equal(b.t, s.acked, got)
}

// The role moves while clients send to the old master's address: no send fails, none takes 500 ms, nothing is lost or
// doubled. Then it moves back.
func TestHandover(t *testing.T) {
	g := startGuided(t)
	a := g.broker("")
	b := g.broker("")
	require.False(t, a.isSlave())
	require.True(t, b.isSlave())
	a.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	g.inSync(a, 2)
	s := g.send(a.Addr().String(), 4)
	s.sent(a, 200)
	said, err := g.handOver(-1)
	require.NoError(t, err)
	require.Contains(t, said, "new master: 2 at "+b.AdvertisedAddr())
	s.sent(a, 200)
	a.eventually(func() bool { return a.isSlave() && !b.isSlave() })
	info := a.RuntimeInfo()
	require.Equal(t, b.AdvertisedAddr(), info["handoverForwardingTo"])
	require.NotEqual(t, "0", info["handoverForwardedTotal"])
	require.Equal(t, "0", info["handoverRefusedTotal"])
	g.inSync(b, 2)
	s.quick(t, said)

	said, err = g.handOver(1)
	require.NoError(t, err)
	s.sent(a, 200)
	a.eventually(func() bool { return !a.isSlave() && b.isSlave() })
	s.quick(t, said)
	require.Empty(t, a.handing.gate.Target())
	g.inSync(a, 2)
	s.end(a)
	a.awaitCopy(b)
	_, err = g.handOver(7)
	require.ErrorContains(t, err, "[2]")
	a.mustSend("T", 0, "", "still the master")
}

// Controllers that move the role themselves (mqadmin electMaster) leave the old master to find out; it passes on as well.
func TestElectedAway(t *testing.T) {
	g := startGuided(t)
	a, b := g.broker("allAckInSyncStateSet=true\n"), g.broker("")
	a.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	g.inSync(a, 2)
	a.mustSend("T", 0, "", "before")
	req := codec.NewRequest(codec.ReqControllerElectMaster)
	codec.EncodeHeader(req, &codec.ElectMasterRequestHeader{ClusterName: "DefaultCluster", BrokerName: "broker-a", BrokerID: 2,
		DesignateElect: true})
	_, err := g.client.Do(t.Context(), onlyController, req)
	require.NoError(t, err)
	a.eventually(func() bool { return a.handing.gate.Target() == b.AdvertisedAddr() })
	a.mustSend("T", 0, "", "after")
	require.Len(t, b.all("T", 0), 2)
	b.createGroup("G", func(*body.SubscriptionGroupConfig) {})
	a.commit("G", "T", 0, 1)
	at, _ := b.offsets.Query("G", "T", 0)
	require.EqualValues(t, 1, at)
}
