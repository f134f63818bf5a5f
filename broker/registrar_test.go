package broker

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// fakeNamesrv answers what brokers ask of name servers; it is a client.Dialer.
type fakeNamesrv struct {
	t      *testing.T
	mu     sync.Mutex
	down   map[string]bool // addresses that refuse connections
	mute   bool            // nothing is answered
	served []*codec.Command
	order  map[string]string
	route  *body.TopicRouteData
	conns  []*client.Conn
}

func newNamesrv(t *testing.T) *fakeNamesrv {
	n := &fakeNamesrv{t: t, down: map[string]bool{}}
	t.Cleanup(func() {
		for _, c := range n.conns {
			c.Close()
		}
	})
	return n
}

func (n *fakeNamesrv) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down[address] {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	n.conns = append(n.conns, client.NewConn(theirs, client.Options{Handler: n.serve}))
	return ours, nil
}

func (n *fakeNamesrv) serve(_ *client.Conn, req *codec.Command) *codec.Command {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.served = append(n.served, req.Clone())
	if n.mute {
		return nil
	}
	answer := codec.NewResponse(req, codec.RespSuccess, "")
	var v any
	switch req.Code {
	case codec.ReqRegisterBroker:
		v = &body.KVTable{Table: n.order}
	case codec.ReqGetRouteInfoByTopic:
		if n.route == nil {
			return codec.NewResponse(req, codec.RespTopicNotExist, "no route")
		}
		v = n.route
	default:
		return answer
	}
	data, err := body.Encode(v)
	require.NoError(n.t, err)
	answer.Body = data
	return answer
}

// take gives what was asked since the last call.
func (n *fakeNamesrv) take() []*codec.Command {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.served
	n.served = nil
	return out
}

func (n *fakeNamesrv) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// registered are the topics of a registration with their permissions.
func registered(t *testing.T, req *codec.Command) map[string]int32 {
	t.Helper()
	require.Equal(t, codec.ReqRegisterBroker, req.Code)
	var reg body.RegisterBrokerBody
	require.NoError(t, body.Decode(req.Body, &reg))
	out := map[string]int32{}
	for name, c := range reg.TopicConfigSerializeWrapper.TopicConfigTable {
		out[name] = c.Perm
	}
	return out
}

// The broker is in the routes from its start to its stop, and a changed topic before the command is answered.
func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNamesrv(t)
		ns.order = map[string]string{"O": "broker-a:4"}
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, namesrv: ns, conf: "namesrvAddr=ns1:9876;ns2:9876\n" +
			"serverChannelMaxIdleTimeSeconds=1000000\n"})
		synctest.Wait()
		got := ns.take()
		require.Len(t, got, 2, "both name servers")
		for _, req := range got {
			require.Contains(t, registered(t, req), "TBW102")
			require.Equal(t, []string{"broker-a", b.AdvertisedAddr(), "DefaultCluster", "0"},
				[]string{req.Get("brokerName"), req.Get("brokerAddr"), req.Get("clusterName"), req.Get("brokerId")})
			require.NotEmpty(t, req.Get("haServerAddr"))
			require.NotEmpty(t, req.Get("bodyCrc32"))
		}
		b.createTopic("O", 4, 6)
		got = ns.take()
		require.Len(t, got, 2, "told before the command was answered")
		require.Equal(t, map[string]int32{"O": 6}, registered(t, got[0]))
		time.Sleep(31 * time.Second)
		require.Len(t, ns.take(), 2)
		require.True(t, b.topics.Get("O").Order, "what the name server calls an order topic")

		ns.set(func() { ns.down["ns1:9876"] = true; ns.conns[0].Close(); ns.conns[1].Close() })
		time.Sleep(2 * time.Minute)
		require.NotEmpty(t, ns.take(), "the other one is still served")
		require.Equal(t, 1, strings.Count(b.log.String(), "not registered"), "said once")
		b.createTopic("P", 4, 6)
		require.NotNil(t, b.topics.Get("P"), "nobody waits for a name server that is down")
		ns.take()
		ns.set(func() { ns.down["ns1:9876"] = false })
		time.Sleep(1500 * time.Millisecond)
		require.Contains(t, b.log.String(), "registered again")
		require.Contains(t, registered(t, ns.take()[0]), "P", "told everything, before the next round")
		b.stop()
		got = ns.take()
		require.Len(t, got, 2)
		for _, req := range got {
			require.Equal(t, codec.ReqUnregisterBroker, req.Code)
			require.Equal(t, []string{"broker-a", b.AdvertisedAddr(), "DefaultCluster", "0"},
				[]string{req.Get("brokerName"), req.Get("brokerAddr"), req.Get("clusterName"), req.Get("brokerId")})
		}
	})
}

// A name server that says nothing any more is dialed anew, and told everything when it answers again.
func TestRegistrationAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNamesrv(t)
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, namesrv: ns, conf: "namesrvAddr=ns1:9876\n" +
			"serverChannelMaxIdleTimeSeconds=1000000\n"})
		synctest.Wait()
		ns.set(func() { ns.mute = true })
		b.createTopic("P", 4, 6)
		time.Sleep(time.Minute)
		ns.take()
		ns.set(func() { ns.mute = false })
		time.Sleep(26 * time.Second) // registerBrokerTimeoutMills, of the one that waits, and the pause
		require.Contains(t, b.log.String(), "registered again")
		require.Contains(t, registered(t, ns.take()[0]), "P")
		ns.set(func() { require.Greater(t, len(ns.conns), 1) })
	})
}

// A broker that may not be written to says so of every topic.
func TestRegistrationWithoutWritePermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNamesrv(t)
		start(t, setup{fs: vfs.NewMem(), virtual: true, namesrv: ns,
			conf: "namesrvAddr=ns1:9876\nbrokerPermission=4\n"})
		synctest.Wait()
		for name, perm := range registered(t, ns.take()[0]) {
			require.Zero(t, perm&codec.PermWrite, name)
		}
	})
}

// QUERY_ASSIGNMENT divides the queues of the route among the members.
func TestAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNamesrv(t)
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, namesrv: ns, conf: "namesrvAddr=ns1:9876\n"})
		ask := func(clientID, strategy string, model body.MessageModel) []string {
			t.Helper()
			data, err := body.Encode(&body.QueryAssignmentRequestBody{ClientID: clientID, ConsumerGroup: "G",
				Topic: "T", StrategyName: strategy, MessageModel: model})
			require.NoError(t, err)
			answer := b.call(codec.ReqQueryAssignment, nil, data)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			var got body.QueryAssignmentResponseBody
			require.NoError(t, body.Decode(answer.Body, &got))
			if got.MessageQueueAssignments == nil {
				return nil
			}
			out := []string{}
			for _, a := range *got.MessageQueueAssignments {
				require.Equal(t, body.ModePull, a.Mode)
				require.Equal(t, "T", a.MessageQueue.Topic)
				out = append(out, a.MessageQueue.BrokerName+string(rune('0'+a.MessageQueue.QueueID)))
			}
			return out
		}
		require.Nil(t, ask("c1", "AVG", body.Clustering), "no route: keep what you have")
		ns.set(func() {
			ns.route = &body.TopicRouteData{QueueDatas: []*body.QueueData{
				{BrokerName: "broker-b", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 6},
				{BrokerName: "broker-a", ReadQueueNums: 3, WriteQueueNums: 3, Perm: 6},
				{BrokerName: "dark", ReadQueueNums: 3, WriteQueueNums: 3, Perm: 2}}}
		})
		require.Nil(t, ask("c1", "AVG", body.Clustering), "nobody is online")
		b.dial().beat("c1", consumer(t, "G", 1, "T *"))
		b.dial().beat("c2", consumer(t, "G", 1, "T *"))
		require.Equal(t, []string{"broker-a0", "broker-a1", "broker-a2"}, ask("c1", "AVG", body.Clustering))
		require.Equal(t, []string{"broker-b0", "broker-b1"}, ask("c2", "AVG", body.Clustering))
		require.Equal(t, []string{"broker-a0", "broker-a2", "broker-b1"},
			ask("c1", "AVG_BY_CIRCLE", body.Clustering))
		require.Equal(t, []string{"broker-a1", "broker-b0"}, ask("c2", "AVG_BY_CIRCLE", body.Clustering))
		require.Len(t, ask("c3", "AVG", body.Broadcasting), 5)
		require.Equal(t, []string{}, ask("c3", "AVG", body.Clustering), "not a member: nothing")
		require.Nil(t, ask("c1", "MAGIC", body.Clustering))
	})
}
