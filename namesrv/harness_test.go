package namesrv

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/mem"
	"skylark/reactor/std"
)

// rig is a name server on an in-memory network and file system.
type rig struct {
	t   *testing.T
	ns  *NameServer
	net *mem.Network
	fs  vfs.FS
	set *config.Set
	log *testlog.Text
}

type memDialer struct{ net *mem.Network }

func (d memDialer) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	return d.net.Dial(ctx, addr)
}

func loadSet(t *testing.T, properties string) *config.Set {
	t.Helper()
	set := config.NewNamesrvSet()
	f, err := config.Parse("kvConfigPath=/ns/kvConfig.json\nconfigStorePath=/ns/namesrv.properties\n"+
		"reactorLoops=1\n"+properties, "/ns/namesrv.conf")
	require.NoError(t, err)
	warnings, err := set.Load(f)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return set
}

// newRig starts a name server with these properties, on fs if it is not nil.
func newRig(t *testing.T, fs vfs.FS, properties string) *rig {
	t.Helper()
	r := &rig{t: t, net: mem.NewNetwork(), fs: fs, set: loadSet(t, properties), log: &testlog.Text{}}
	if fs == nil {
		r.fs = vfs.NewMem()
	}
	ns, err := New(Options{Config: r.set, FS: r.fs, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Dialer: memDialer{r.net}, Listen: []string{"10.0.0.1:9876"},
		NewEngine: func(o reactor.Options) reactor.Engine { return mem.NewOn(r.net, o) }})
	require.NoError(t, err)
	r.ns = ns
	require.NoError(t, ns.Start())
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() { require.NoError(r.t, r.ns.Close(context.Background())) }

// newTCP starts a name server on a free port of this machine.
func newTCP(t *testing.T) *NameServer {
	t.Helper()
	ns, err := New(Options{Config: loadSet(t, ""), FS: vfs.NewMem(), Log: silent,
		Listen:    []string{"127.0.0.1:0"},
		NewEngine: func(o reactor.Options) reactor.Engine { return std.New(o) }})
	require.NoError(t, err)
	require.NoError(t, ns.Start())
	t.Cleanup(func() { require.NoError(t, ns.Close(context.Background())) })
	return ns
}

// dial is a new connection to the name server.
func (r *rig) dial() *client.Conn {
	r.t.Helper()
	c, err := client.Dial(r.t.Context(), r.ns.Addr().String(), client.Options{Dialer: memDialer{r.net}})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func call(t *testing.T, c *client.Conn, req *codec.Command) *codec.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	answer, err := c.Call(ctx, req)
	require.NoError(t, err)
	return answer
}

// ok calls and wants success.
func ok(t *testing.T, c *client.Conn, req *codec.Command) *codec.Command {
	t.Helper()
	answer := call(t, c, req)
	require.Zero(t, answer.Code, answer.Remark)
	return answer
}

// request makes a request with the fields of a header, which may be nil.
func request(code int, header any) *codec.Command {
	c := codec.NewRequest(code)
	if header != nil {
		codec.EncodeHeader(c, header)
	}
	return c
}

// brokerSays is a scripted broker's description of itself.
type brokerSays struct {
	cluster, name, addr, ha string
	id                      int64
	acting                  bool
	timeoutMillis           int64
	version                 body.DataVersion
	topics                  []string // TBW102 is always there
}

func (b brokerSays) identity() (cluster, name, addr string) {
	cluster, name, addr = b.cluster, b.name, b.addr
	if cluster == "" {
		cluster = "DefaultCluster"
	}
	if name == "" {
		name = "broker-a"
	}
	return cluster, name, addr
}

// register is the request as a 5.3 broker sends it.
func (b brokerSays) register() *codec.Command {
	cluster, name, addr := b.identity()
	h := codec.RegisterBrokerRequestHeader{BrokerName: name, BrokerAddr: addr, ClusterName: cluster,
		HAServerAddr: b.ha, BrokerID: b.id, EnableActingMaster: &b.acting}
	if b.timeoutMillis != 0 {
		h.HeartbeatTimeoutMillis = &b.timeoutMillis
	}
	w := body.RegisterBrokerBody{}
	w.TopicConfigSerializeWrapper.DataVersion = b.version
	w.TopicConfigSerializeWrapper.TopicConfigTable = map[string]*body.TopicConfig{}
	for _, topic := range append([]string{codec.AutoCreateTopicKey}, b.topics...) {
		c := &body.TopicConfig{TopicName: topic}
		c.SetDefaults()
		w.TopicConfigSerializeWrapper.TopicConfigTable[topic] = c
	}
	text, err := body.Encode(w)
	if err != nil {
		panic(err)
	}
	h.BodyCRC32 = int32(crc32.ChecksumIEEE(text) & 0x7FFFFFFF)
	req := request(codec.ReqRegisterBroker, &h)
	req.Body = text
	return req
}

func (b brokerSays) unregister() *codec.Command {
	cluster, name, addr := b.identity()
	return request(codec.ReqUnregisterBroker, &codec.UnregisterBrokerRequestHeader{BrokerName: name,
		BrokerAddr: addr, ClusterName: cluster, BrokerID: b.id})
}

func routeRequest(topic string) *codec.Command {
	return request(codec.ReqGetRouteInfoByTopic, &codec.GetRouteInfoRequestHeader{Topic: topic})
}

// routeOf is a topic's route, nil if it is not known.
func routeOf(t *testing.T, c *client.Conn, topic string) *body.TopicRouteData {
	t.Helper()
	answer := call(t, c, routeRequest(topic))
	if answer.Code == codec.RespTopicNotExist {
		return nil
	}
	require.Zero(t, answer.Code, answer.Remark)
	r := &body.TopicRouteData{}
	require.NoError(t, body.Decode(answer.Body, r))
	return r
}

// addrsOf is the members of each broker that has the topic.
func addrsOf(t *testing.T, c *client.Conn, topic string) map[string]map[int64]string {
	t.Helper()
	out := map[string]map[int64]string{}
	if r := routeOf(t, c, topic); r != nil {
		for _, b := range r.BrokerDatas {
			out[b.BrokerName] = b.BrokerAddrs
		}
	}
	return out
}

// clusters is the addresses by cluster and broker name.
func clusters(t *testing.T, c *client.Conn) string {
	t.Helper()
	var info body.ClusterInfo
	require.NoError(t, body.Decode(ok(t, c, request(codec.ReqGetBrokerClusterInfo, nil)).Body, &info))
	out := ""
	for cluster, names := range info.ClusterAddrTable {
		for _, name := range names {
			require.Equal(t, cluster, info.BrokerAddrTable[name].Cluster)
			out += fmt.Sprintf("%s/%s%v ", cluster, name, info.BrokerAddrTable[name].BrokerAddrs)
		}
	}
	return strings.TrimSpace(out)
}

func listOf(t *testing.T, answer *codec.Command) []string {
	t.Helper()
	require.Zero(t, answer.Code, answer.Remark)
	var l body.TopicList
	require.NoError(t, body.Decode(answer.Body, &l))
	return l.TopicList
}
