package handover

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/broker/forward"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/reactor"
	"skylark/reactor/mem"
	"skylark/reactor/rpc"
	"skylark/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Addresses of a scene.
const (
	controllerAddr = "127.0.0.1:9000"
	replicaAddr    = "127.0.0.1:9002"
	masterAddr     = "127.0.0.1:9001"
)

// scene is a master with the real service and gate, a replica and a controller that do as the test says, and a client. It
// lives in a bubble of synctest.
type scene struct {
	t       *testing.T
	net     *mem.Network
	log     *slog.Logger
	gate    *forward.Gate
	service *Service
	clients []*client.Client
	ends    []func()

	master, replicaLeads atomic.Bool
	paused               atomic.Bool
	end, copied          atomic.Int64 // of the master's log, of the replica's
	prepared             atomic.Int32
	inflight             atomic.Int32
	electDelay           time.Duration // of the replica after its election

	mu      sync.Mutex
	elected int64 // master by the controller
	epoch   int32
	inSync  []int64
	// elect answers 1002; nil answers as a controller does. drop loses that many answers, lose that many questions.
	elect      func(id int64) (code int)
	drop, lose int
}

// run gives f a scene.
func run(t *testing.T, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, net: mem.NewNetwork(), log: slog.New(slog.NewTextHandler(t.Output(), nil)), elected: 1, epoch: 5,
			inSync: []int64{1, 2}}
		s.master.Store(true)
		s.listen(controllerAddr, rpc.ProcessorFunc(s.controller), codec.ReqControllerGetMetadataInfo,
			codec.ReqControllerGetSyncStateData, codec.ReqControllerElectMaster, codec.ReqControllerGetReplicaInfo)
		s.listen(replicaAddr, rpc.ProcessorFunc(s.replica), codec.ReqGetBrokerHAStatus, codec.ReqHandover,
			codec.ReqSendMessage, codec.ReqPullMessage, codec.ReqEndTransaction)
		server := s.listen(masterAddr, rpc.ProcessorFunc(s.serve), codec.ReqSendMessage, codec.ReqPullMessage,
			codec.ReqEndTransaction, codec.ReqHeartBeat)
		s.gate = forward.New(forward.Options{Clock: clock.System, Log: s.log, Client: client.New(s.options()),
			Serves: s.serves, Master: s.master.Load, Serve: server.Serve, Begun: func() { s.inflight.Add(1) },
			Done: func() { s.inflight.Add(-1) }})
		s.service = New(Options{Clock: clock.System, Log: s.log, Client: s.newClient(), Gate: s.gate, Cluster: "c",
			BrokerName: "b", Self: func() string { return masterAddr },
			Controllers: func() []string { return []string{"127.0.0.1:8999", controllerAddr} }, Master: s.master.Load,
			Quiet: func(context.Context) {},
			Pause: func(error) { s.paused.Store(true) }, Resume: func() { s.paused.Store(false) },
			MaxPhyOffset: func() store.PhyOffset { return store.PhyOffset(s.end.Load()) },
			ForwardTime:  func() time.Duration { return time.Minute }})
		f(s)
		s.service.Close()
		require.NoError(t, s.gate.Close())
		for _, c := range s.clients {
			require.NoError(t, c.Close())
		}
		for _, end := range s.ends {
			end()
		}
		require.Zero(t, s.inflight.Load(), "everything that was taken was answered")
	})
}

func (s *scene) options() client.Options {
	return client.Options{Log: s.log, Dialer: client.DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) {
		return s.net.Dial(ctx, addr)
	})}
}

func (s *scene) newClient() *client.Client {
	c := client.New(s.options())
	s.clients = append(s.clients, c)
	return c
}

func (s *scene) listen(addr string, p rpc.Processor, codes ...int) *rpc.Server {
	server := rpc.NewServer(clock.System, s.log)
	pool := server.NewPool(rpc.PoolOptions{Name: "all", Workers: 8, Capacity: 10_000})
	for _, code := range codes {
		server.Register(rpc.Route{Code: code, Processor: p, Pool: pool})
	}
	if addr == masterAddr {
		server.SetAuthenticator(func(r *rpc.Request) *codec.Command {
			if s.gate.On() && s.gate.Take(r) {
				return rpc.Taken
			}
			return nil
		})
	}
	engine := mem.NewOn(s.net, reactor.Options{Listen: []string{addr}, Log: s.log})
	require.NoError(s.t, engine.Start(server))
	s.ends = append(s.ends, func() {
		require.NoError(s.t, engine.Stop(context.Background()))
		server.Close()
	})
	return server
}

// serve is the master's: a send makes the log longer by 1, unless that is paused.
func (s *scene) serve(r *rpc.Request) {
	switch {
	case r.Cmd.Code != codec.ReqSendMessage:
	case !s.master.Load():
		r.ReplyError(codec.RespSystemBusy, "slave")
		return
	case s.paused.Load():
		r.ReplyError(codec.RespServiceNotAvailable, "paused")
		return
	default:
		s.end.Add(1)
	}
	r.ReplyBody([]byte("master " + string(r.Cmd.Body)))
}

func (s *scene) replica(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqHandover:
		s.prepared.Add(1)
		r.OK()
	case codec.ReqGetBrokerHAStatus:
		data, err := body.Encode(&body.HARuntimeInfo{Master: s.replicaLeads.Load(), HAClientRuntimeInfo: &body.HAClientRuntimeInfo{
			MaxOffset: codec.PhyOffset(s.copied.Load())}})
		require.NoError(s.t, err)
		r.ReplyBody(data)
	default:
		if !s.replicaLeads.Load() {
			r.ReplyError(codec.RespSystemBusy, "slave")
			return
		}
		r.ReplyBody([]byte("replica " + string(r.Cmd.Body)))
	}
}

func (s *scene) serves(ctx context.Context, addr string) bool {
	answer, err := s.clients[0].Do(ctx, addr, codec.NewRequest(codec.ReqGetBrokerHAStatus))
	var info body.HARuntimeInfo
	return err == nil && body.Decode(answer.Body, &info) == nil && info.Master
}

func (s *scene) controller(r *rpc.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := map[int64]string{1: masterAddr, 2: replicaAddr}
	switch r.Cmd.Code {
	case codec.ReqControllerGetMetadataInfo:
		r.ReplyHeader(&codec.GetMetadataResponseHeader{ControllerLeaderAddress: controllerAddr})
	case codec.ReqControllerGetSyncStateData:
		info := &body.ReplicasInfo{MasterBrokerID: &s.elected, MasterAddress: addrs[s.elected], MasterEpoch: &s.epoch}
		alive := true
		for _, id := range s.inSync {
			info.InSyncReplicas = append(info.InSyncReplicas, &body.ReplicaIdentity{BrokerID: id, BrokerAddress: addrs[id],
				Alive: &alive})
		}
		data, err := body.Encode(&body.BrokerReplicasInfo{ReplicasInfoTable: map[string]*body.ReplicasInfo{"b": info}})
		require.NoError(s.t, err)
		r.ReplyBody(data)
	case codec.ReqControllerElectMaster:
		s.electMaster(r)
	case codec.ReqControllerGetReplicaInfo:
		r.ReplyHeader(&codec.GetReplicaInfoResponseHeader{MasterBrokerID: &s.elected, MasterEpoch: &s.epoch})
	}
}

// electMaster is as the real one: only who is in sync is elected, and is alone in the set then.
func (s *scene) electMaster(r *rpc.Request) {
	var h codec.ElectMasterRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	require.True(s.t, h.DesignateElect)
	if s.lose > 0 {
		s.lose--
		return
	}
	code := codec.RespSuccess
	switch {
	case s.elect != nil && s.elect(h.BrokerID) != codec.RespSuccess:
		code = s.elect(h.BrokerID)
	case h.BrokerID == s.elected:
		code = codec.RespControllerMasterStillExist
	case s.inSync[len(s.inSync)-1] != h.BrokerID && s.inSync[0] != h.BrokerID:
		code = codec.RespControllerElectMasterFailed
	default:
		require.Equal(s.t, s.end.Load(), s.copied.Load(), "elected without the whole log")
		require.True(s.t, s.paused.Load(), "elected while the old master takes messages")
		s.elected, s.epoch, s.inSync = h.BrokerID, s.epoch+1, []int64{h.BrokerID}
		time.AfterFunc(s.electDelay, func() { s.replicaLeads.Store(true) })
		time.AfterFunc(s.electDelay/2, func() { s.master.Store(false) })
	}
	if s.drop > 0 {
		s.drop--
		return
	}
	answer := codec.NewResponse(r.Cmd, code, "")
	codec.EncodeHeader(answer, &codec.ElectMasterResponseHeader{MasterBrokerID: &s.elected, MasterEpoch: &s.epoch})
	r.Reply(answer)
}

// copyLater has the replica follow the log, some time behind.
func (s *scene) copyLater(every time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			end := s.end.Load()
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
			s.copied.Store(end)
		}
	}()
	s.ends = append(s.ends, func() { cancel(); <-done })
}

func (s *scene) send(c *client.Client, data string) (*codec.Command, error) {
	req := codec.NewRequest(codec.ReqSendMessage)
	req.Set("topic", "T")
	req.Body = []byte(data)
	return c.Call(context.Background(), masterAddr, req)
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
