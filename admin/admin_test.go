package admin

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/reactor"
	"skylark/reactor/mem"
	"skylark/reactor/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nsAddr     = "127.0.0.1:9876"
	masterAddr = "127.0.0.1:10911"
)

// site is a name server and a master that do as the test says, on virtual time.
type site struct {
	t   *testing.T
	net *mem.Network

	mu     sync.Mutex
	began  time.Time
	wiped  bool
	comes  time.Duration // producers send until then
	behind int64         // of the slave
	others bool          // another broker name has the topics
	answer func(r *rpc.Request)
}

func run(t *testing.T, f func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, net: mem.NewNetwork(), began: time.Now(), others: true}
		endNS := s.listen(nsAddr, s.namesrv, codec.ReqGetBrokerClusterInfo, codec.ReqGetAllTopicListFromNameserver,
			codec.ReqGetRouteInfoByTopic, codec.ReqWipeWritePermOfBroker, codec.ReqAddWritePermOfBroker)
		endMaster := s.listen(masterAddr, s.master, codec.ReqGetBrokerHAStatus, codec.ReqHandover,
			codec.ReqControllerGetMetadataInfo, codec.ReqControllerGetSyncStateData)
		f(s)
		endNS()
		endMaster()
	})
}

func (s *site) listen(addr string, p rpc.ProcessorFunc, codes ...int) (end func()) {
	log := slog.New(slog.DiscardHandler)
	server := rpc.NewServer(clock.System, log)
	pool := server.NewPool(rpc.PoolOptions{Name: "all", Workers: 1, Capacity: 100})
	for _, code := range codes {
		server.Register(rpc.Route{Code: code, Processor: p, Pool: pool})
	}
	engine := mem.NewOn(s.net, reactor.Options{Listen: []string{addr}, Log: log})
	require.NoError(s.t, engine.Start(server))
	return func() {
		require.NoError(s.t, engine.Stop(context.Background()))
		server.Close()
	}
}

func (s *site) reply(r *rpc.Request, v any) {
	data, err := body.Encode(v)
	require.NoError(s.t, err)
	r.ReplyBody(data)
}

func (s *site) namesrv(r *rpc.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Cmd.Code {
	case codec.ReqGetBrokerClusterInfo:
		s.reply(r, &body.ClusterInfo{BrokerAddrTable: map[string]*body.BrokerData{"b": {BrokerName: "b",
			BrokerAddrs: map[int64]string{0: masterAddr}}}})
	case codec.ReqGetAllTopicListFromNameserver:
		s.reply(r, &body.TopicList{TopicList: []string{"T", "b", "%RETRY%g", "TBW102", "GONE"}})
	case codec.ReqGetRouteInfoByTopic:
		if r.Cmd.Get("topic") == "GONE" {
			r.ReplyError(codec.RespTopicNotExist, "")
			return
		}
		route := &body.TopicRouteData{BrokerDatas: []*body.BrokerData{
			{BrokerName: "b", BrokerAddrs: map[int64]string{0: masterAddr}},
			{BrokerName: "o", BrokerAddrs: map[int64]string{0: "127.0.0.1:1"}}}}
		for _, name := range []string{"b", "o"} {
			if name == "b" || s.others {
				route.QueueDatas = append(route.QueueDatas, &body.QueueData{BrokerName: name, ReadQueueNums: 1, WriteQueueNums: 1,
					Perm: codec.PermRead | codec.PermWrite})
			}
		}
		s.reply(r, route)
	default:
		s.wiped = r.Cmd.Code == codec.ReqWipeWritePermOfBroker
		require.Equal(s.t, "b", r.Cmd.Get("brokerName"))
		r.OK()
	}
}

func (s *site) master(r *rpc.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answer != nil:
		s.answer(r)
	case r.Cmd.Code == codec.ReqGetBrokerHAStatus:
		end := min(time.Since(s.began), s.comes)
		s.reply(r, &body.HARuntimeInfo{Master: true, MasterCommitLogMaxOffset: codec.PhyOffset(end),
			HAConnectionInfo: []*body.HAConnectionRuntimeInfo{{Diff: s.behind}}})
	}
}

// do runs the command and gives what it said.
func (s *site) do(alter func(o *Options)) (string, error) {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return s.net.Dial(ctx, addr) }
	c := client.New(client.Options{Log: slog.New(slog.DiscardHandler), Dialer: client.DialerFunc(dial)})
	defer c.Close()
	var said strings.Builder
	o := &Options{Broker: "b", Namesrv: []string{nsAddr}, To: -1, Wait: time.Second, Client: c,
		Say: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}
	alter(o)
	err := Run(context.Background(), o)
	return said.String(), err
}

// Producers are led away, and the command ends when nothing comes any more and the slave has everything.
func TestDrain(t *testing.T) {
	drain := func(o *Options) { o.Drain = true }
	f := func(comes time.Duration, behind int64, want string, least time.Duration) {
		t.Helper()
		run(t, func(s *site) {
			s.comes, s.behind = comes, behind
			said, err := s.do(drain)
			require.True(t, s.wiped)
			require.GreaterOrEqual(t, time.Since(s.began), least)
			if want == "" {
				require.NoError(t, err)
				require.Contains(t, said, "stop the broker at "+masterAddr+" now")
				return
			}
			require.ErrorContains(t, err, want)
			said, err = s.do(func(o *Options) { o.Undo = true })
			require.NoError(t, err)
			require.Contains(t, said, "come back to b")
			require.False(t, s.wiped)
		})
	}
	f(20*time.Second, 0, "", routeTime)
	f(50*time.Second, 0, "", 53*time.Second)
	f(time.Hour, 0, "still gets messages", routeTime+drainTime)
	f(0, 77, "still lacks 77 bytes", routeTime+drainTime)
	run(t, func(s *site) {
		s.others = false
		_, err := s.do(drain)
		require.ErrorIs(t, err, ErrOnlyHere)
		require.ErrorContains(t, err, "topics: T.")
		require.False(t, s.wiped)
		_, err = s.do(func(o *Options) { o.Drain, o.Force = true, true })
		require.NoError(t, err)
	})
}

// The command asks the master, which it finds by name servers or controllers, and tells what came of it.
func TestHandOverCommand(t *testing.T) {
	run(t, func(s *site) {
		s.answer = func(r *rpc.Request) {
			switch r.Cmd.Code {
			case codec.ReqControllerGetMetadataInfo:
				r.ReplyHeader(&codec.GetMetadataResponseHeader{ControllerLeaderAddress: masterAddr})
			case codec.ReqControllerGetSyncStateData:
				s.reply(r, &body.BrokerReplicasInfo{ReplicasInfoTable: map[string]*body.ReplicasInfo{
					"b": {MasterAddress: masterAddr}}})
			default:
				var h codec.HandoverRequestHeader
				require.NoError(t, codec.DecodeHeader(r.Cmd, &h))
				require.EqualValues(t, 2, h.To)
				require.EqualValues(t, 1000, h.WaitMillis)
				r.ReplyHeader(&codec.HandoverResponseHeader{MasterBrokerID: 2, MasterAddress: "x:1", MasterEpoch: 9, HeldMillis: 7,
					HeldRequests: 3, ForwardMillis: 120_000})
			}
		}
		for _, by := range []func(o *Options){func(*Options) {}, func(o *Options) {
			o.Controller, o.Namesrv = []string{"127.0.0.1:2", masterAddr}, nil
		}} {
			said, err := s.do(func(o *Options) { by(o); o.To = 2 })
			require.NoError(t, err)
			require.Contains(t, said, "new master: 2 at x:1, epoch 9\nrequests waited for 7 ms, 3 of them")
			require.Contains(t, said, "For 2m0s it passes on")
		}
		s.answer = func(r *rpc.Request) { r.ReplyError(codec.RespRequestCodeNotSupported, "") }
		_, err := s.do(func(*Options) {})
		require.ErrorContains(t, err, "electMaster")
		_, err = s.do(func(o *Options) { o.Broker = "nobody" })
		require.ErrorContains(t, err, "no master of nobody")
	})
}

func TestFlags(t *testing.T) {
	t.Setenv("NAMESRV_ADDR", "")
	f := func(want error, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		require.ErrorIs(t, Main(t.Context(), args, &out, &errs), want)
		require.Empty(t, out.String())
	}
	f(ErrUsage)
	f(flag.ErrHelp, "help")
	f(flag.ErrHelp, "handover", "-h")
	f(ErrUsage, "handUnder")
	f(ErrUsage, "handover")
	f(ErrUsage, "handover", "--broker", "b")
	f(ErrUsage, "handover", "--broker", "b", "-n", "x")
	f(ErrUsage, "handover", "--broker", "b", "-n", "x:1", "more")
	f(ErrUsage, "handover", "--broker", "b", "--controller", "x")
	f(ErrUsage, "handover", "--broker", "b", "--controller", "x:1", "--drain")
}
