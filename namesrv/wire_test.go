package namesrv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/badframes"
	"skylark/internal/vfs"
	"skylark/reactor"
)

// rawCall sends a header on a connection of its own and reads the answer.
func rawCall(t *testing.T, ns *NameServer, typ codec.SerializeType, header []byte) *codec.Command {
	t.Helper()
	nc, err := net.Dial("tcp", ns.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = nc.Write(badframes.Frame(typ, header, nil))
	require.NoError(t, err)
	var buf []byte
	for part := make([]byte, 4096); ; {
		f, n, _, err := codec.SplitFrame(buf, codec.MaxFrameBytes)
		require.NoError(t, err)
		if n > 0 {
			var c codec.Command
			require.NoError(t, c.Decode(f))
			return c.Clone()
		}
		k, err := nc.Read(part)
		require.NoError(t, err, "the connection must not be closed")
		buf = append(buf, part[:k]...)
	}
}

func dialTCP(t *testing.T, ns *NameServer) *client.Conn {
	t.Helper()
	c, err := client.Dial(t.Context(), ns.Addr().String(), client.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Case B01: a malformed header behind a good length costs the guilty connection and nobody else.
func TestMalformedFrames(t *testing.T) {
	ns := newTCP(t)
	healthy := dialTCP(t, ns)
	ok(t, dialTCP(t, ns), brokerSays{addr: "127.0.0.1:10911", topics: []string{"T"}}.register())
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	badframes.Refused(t, ns.Addr().String(), routeRequest("T"), rounds, func() {
		require.NotNil(t, routeOf(t, healthy, "T"))
	})
	require.NoError(t, healthy.Err())
}

// Case B32 (a): a connection that dies late does not take what another one registered since. The gaps are
// random, so that closing meets registering in every order.
func TestLateCleanUp(t *testing.T) {
	ns := newTCP(t)
	watcher := dialTCP(t, ns)
	a := brokerSays{addr: "127.0.0.1:10911", topics: []string{"T"}}
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	previous := dialTCP(t, ns)
	ok(t, previous, a.register())
	for range rounds {
		next, err := client.Dial(t.Context(), ns.Addr().String(), client.Options{})
		require.NoError(t, err)
		var wg sync.WaitGroup
		registered := make(chan struct{})
		wg.Go(func() {
			if rand.IntN(2) == 0 {
				<-registered // else while the new one registers: the order is the server's
			}
			for range rand.IntN(200) {
				runtime.Gosched()
			}
			_ = previous.Close()
		})
		ok(t, next, a.register())
		close(registered)
		wg.Wait()
		require.Equal(t, "DefaultCluster/broker-a"+fmt.Sprint(map[int64]string{0: a.addr}), clusters(t, watcher))
		require.NotNil(t, routeOf(t, watcher, "T"))
		previous = next
	}
	require.NoError(t, previous.Close())
	require.Eventually(t, func() bool { return ns.routes.Brokers() == 0 }, 10*time.Second, time.Millisecond)
}

// A registration whose connection is gone before it is served leaves nothing behind.
func TestRegistrationOfADeadConnection(t *testing.T) {
	ns := newTCP(t)
	for range 100 {
		nc, err := net.Dial("tcp", ns.Addr().String())
		require.NoError(t, err)
		_, err = nc.Write(brokerSays{addr: "127.0.0.1:10911", topics: []string{"T"}}.register().AppendTo(nil))
		require.NoError(t, err)
		require.NoError(t, nc.Close())
	}
	last := dialTCP(t, ns) // accepted after all of them
	clusters(t, last)
	require.NoError(t, last.Close())
	require.Eventually(t, func() bool {
		ns.peers.mu.Lock()
		defer ns.peers.mu.Unlock()
		return ns.engine.Connections() == 0 && ns.routes.Brokers() == 0 && len(ns.peers.conns) == 0
	}, 10*time.Second, time.Millisecond)
}

// Many clients ask, brokers come, go and change, and every answer is one that the tables gave at some time: a
// topic of one broker never shows another's address.
func TestConcurrentUse(t *testing.T) {
	ns := newTCP(t)
	const rounds = 100 // of each broker
	stop := make(chan struct{})
	var brokers, readers sync.WaitGroup
	for i := range 4 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10911+i)
		a := brokerSays{name: fmt.Sprintf("broker-%d", i), addr: addr,
			topics: []string{fmt.Sprintf("T%d", i), "All"}}
		brokers.Go(func() {
			for n := range int64(rounds) {
				c, err := client.Dial(context.Background(), ns.Addr().String(), client.Options{})
				if err != nil {
					panic(err)
				}
				a.version.Timestamp = n
				for range 3 {
					if _, err := c.Call(context.Background(), a.register()); err != nil {
						panic(err)
					}
				}
				if n%2 == 0 {
					_, _ = c.Call(context.Background(), a.unregister())
				}
				_ = c.Close()
			}
		})
	}
	for i := range 4 {
		c := dialTCP(t, ns)
		readers.Go(func() {
			topic := fmt.Sprintf("T%d", i)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for name, addrs := range addrsOf(t, c, topic) {
					if name != fmt.Sprintf("broker-%d", i) || addrs[0] != fmt.Sprintf("127.0.0.1:%d", 10911+i) {
						panic(fmt.Sprintf("%s is shown at %s %v", topic, name, addrs))
					}
				}
				_ = call(t, c, routeRequest("All"))
				_ = call(t, c, request(codec.ReqGetBrokerClusterInfo, nil))
			}
		})
	}
	brokers.Wait()
	close(stop)
	readers.Wait()
	require.Eventually(t, func() bool { return ns.routes.Brokers() == 0 }, 10*time.Second, time.Millisecond)
	require.Zero(t, ns.routes.Topics())
	require.Empty(t, ns.routes.ClusterInfo().ClusterAddrTable)
}

// Case B33 over the wire: two clusters with one broker name, registering and beating in turn.
func TestOneNameInTwoClusters(t *testing.T) {
	r := newRig(t, nil, "")
	cl, first, second := r.dial(), r.dial(), r.dial()
	c1 := brokerSays{cluster: "C1", addr: "10.0.0.1:10911", topics: []string{"T1"}}
	c2 := brokerSays{cluster: "C2", addr: "10.0.0.1:10921", topics: []string{"T2"}}
	ok(t, first, c1.register())
	for range 10 {
		answer := call(t, second, c2.register())
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, c1.addr)
		require.Contains(t, answer.Remark, c2.addr)
		ok(t, first, c1.register())
		for _, b := range []brokerSays{c1, c2} {
			ok(t, cl, request(codec.ReqBrokerHeartbeat, &codec.BrokerHeartbeatRequestHeader{ClusterName: b.cluster,
				BrokerName: "broker-a", BrokerAddr: b.addr}))
		}
		require.Equal(t, "C1/broker-a"+fmt.Sprint(map[int64]string{0: c1.addr}), clusters(t, cl))
		require.Nil(t, routeOf(t, cl, "T2"))
	}
	require.Equal(t, 1, r.log.Count(c1.addr, c2.addr), "the conflict is logged once, with both addresses")
	require.Equal(t, []string{"T1", "TBW102"}, listOf(t, call(t, cl, request(codec.ReqGetTopicsByCluster,
		&codec.GetTopicsByClusterRequestHeader{Cluster: "C1"}))))
	require.Empty(t, listOf(t, call(t, cl, request(codec.ReqGetTopicsByCluster,
		&codec.GetTopicsByClusterRequestHeader{Cluster: "C2"}))))
	ok(t, second, c2.unregister())
	require.NoError(t, second.Close())
	require.Equal(t, map[string]map[int64]string{"broker-a": {0: c1.addr}}, addrsOf(t, cl, "T1"))
	ok(t, first, c1.unregister())
	ok(t, r.dial(), c2.register())
	require.NotNil(t, routeOf(t, cl, "T2"), "the name is free again")
}

// FuzzRegister: whatever a register request holds, the name server answers it once, the tables stay whole,
// and what it allocates stays within what the body can be decompressed to.
func FuzzRegister(f *testing.F) {
	w := body.RegisterBrokerBody{FilterServerList: []string{"f:1"}}
	w.TopicConfigSerializeWrapper.TopicConfigTable = map[string]*body.TopicConfig{
		"T": {TopicName: "T", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: body.SingleTag},
		"U": {TopicName: "U", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: body.SingleTag}}
	w.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap = map[string]*body.TopicQueueMappingInfo{
		"T": {BrokerName: "b", Topic: "T", TotalQueues: 2, CurrIDMap: map[int32]int32{0: 0}}}
	plain, err := body.Encode(w)
	require.NoError(f, err)
	for _, version := range []int{codec.Version498, codec.Version533} {
		text, err := w.EncodeCompressed(version)
		require.NoError(f, err)
		f.Add(text, version, int64(0), "b", "h:1")
	}
	f.Add(plain, 479, int64(1), "broker-a", "h:2")
	f.Add([]byte(`{"topicConfigTable":{"T":null,"U":{}}}`), 0, int64(-5), "b", "h:1")
	f.Add([]byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":{"":{},"U":{"topicName":"X"}}}}`), 479,
		int64(0), "b", "")
	for _, name := range []string{"103-register-broker-req", "103-register-broker-req-one-topic"} {
		c := golden(f, "broker-5.3", name)
		f.Add(c.Body, c.Version, int64(0), c.Get("brokerName"), c.Get("brokerAddr"))
	}
	ns, err := New(Options{Config: defaultSet(), FS: vfs.NewMem(), Log: silent})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, ns.Close(context.Background())) })
	c := &answerConn{answers: make(chan []byte, 1)}
	require.NoError(f, ns.server.OnOpen(c))
	f.Fuzz(func(t *testing.T, text []byte, version int, id int64, name, addr string) {
		req := request(codec.ReqRegisterBroker, &codec.RegisterBrokerRequestHeader{BrokerName: name,
			BrokerAddr: addr, ClusterName: "C", HAServerAddr: "h", BrokerID: id})
		req.Version, req.Body = version, text
		frame, n, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
		var sent codec.Command
		if err != nil || n == 0 || sent.Decode(frame) != nil {
			t.Skip("no header that a client can send")
		}
		var out reactor.Outbox
		ns.server.OnFrames(c, []codec.Frame{frame}, &out)
		require.True(t, out.Empty(), "it is served in the pool")
		answer := firstCommand(t, <-c.answers)
		require.Empty(t, c.answers)
		require.Contains(t, []int{0, codec.RespSystemError, codec.RespInvalidParameter}, answer.Code)
		require.NotContains(t, answer.Remark, "internal error")
		if answer.Code == 0 {
			require.Equal(t, addr, ns.routes.ClusterInfo().BrokerAddrTable[name].BrokerAddrs[id])
		}
		checkInvariants(t, ns.routes)
		if ns.routes.Brokers() > 20 { // they meet each other, but do not pile up
			ns.connectionClosed(c.ID())
			require.Zero(t, ns.routes.Brokers()+ns.routes.Topics())
		}
	})
}

// answerConn hands out what is written to it.
type answerConn struct {
	loneConn
	answers chan []byte
}

func (c *answerConn) SendOutbox(o *reactor.Outbox) error {
	defer o.Release()
	c.answers <- append([]byte(nil), o.Buffer()...)
	return nil
}

func firstCommand(t *testing.T, p []byte) *codec.Command {
	t.Helper()
	f, n, _, err := codec.SplitFrame(p, codec.MaxFrameBytes)
	require.NoError(t, err)
	require.Len(t, p, n)
	var c codec.Command
	require.NoError(t, c.Decode(f))
	return c.Clone()
}
