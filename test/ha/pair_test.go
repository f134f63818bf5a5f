//go:build interop

package ha

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/internal/javaoracle"
	"skylark/namesrv"
	"skylark/reactor/engines"
	"skylark/test/internal/rig"
)

var flagPort = flag.Int("port", 26500, "first port; 200 are used")

const (
	java49 = "4.9.7"
	java53 = javaoracle.Version53
	ours   = "skylark"

	patience = 60 * time.Second
	tick     = 50 * time.Millisecond
	fileSize = 1 << 20
)

// cluster is a name server of ours and the brokers of one group.
type cluster struct {
	t      *testing.T
	dir    string
	port   int
	client *client.Client
	ns     string
}

// logback49 is what 4.9 wants beside its configuration.
const logback49 = `<configuration><root level="OFF"/></configuration>`

var nextPort int

func newCluster(t *testing.T) *cluster {
	if nextPort == 0 {
		nextPort = *flagPort
	}
	c := &cluster{t: t, dir: t.TempDir(), port: nextPort, client: client.New(client.Options{CallTimeout: 10 * time.Second})}
	nextPort += 40
	t.Cleanup(func() { _ = c.client.Close() })
	set := config.NewNamesrvSet()
	f, err := config.Parse(fmt.Sprintf("kvConfigPath=%s/kv.json\nsupportActingMaster=true\n", c.dir), "namesrv.conf")
	require.NoError(t, err)
	_, err = set.Load(f)
	require.NoError(t, err)
	c.ns = rig.Local(c.port)
	ns, err := namesrv.New(namesrv.Options{Config: set, Log: quiet(filepath.Join(c.dir, "namesrv.log")),
		NewEngine: engines.ByName("epoll", slog.Default()), Listen: []string{c.ns}})
	require.NoError(t, err)
	require.NoError(t, ns.Start())
	t.Cleanup(func() { _ = ns.Close(context.Background()) })
	return c
}

func quiet(file string) *slog.Logger {
	f, err := os.Create(file)
	if err != nil {
		panic(err)
	}
	return slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// node is one broker of the group.
type node struct {
	c     *cluster
	kind  string
	id    int
	addr  string
	dir   string
	props map[string]string
	java  *javaoracle.Process
	sky   *broker.Broker
}

// node describes a broker; id 0 is the master.
func (c *cluster) node(kind string, id int, props ...string) *node {
	port := c.port + 10*(id+1)
	n := &node{c: c, kind: kind, id: id, addr: rig.Local(port), dir: filepath.Join(c.dir, fmt.Sprintf("broker-%d", id)),
		props: map[string]string{"brokerId": strconv.Itoa(id), "brokerRole": "SLAVE", "brokerName": "broker-a",
			"brokerClusterName": "DefaultCluster", "mappedFileSizeCommitLog": strconv.Itoa(fileSize),
			"mappedFileSizeConsumeQueue": "60000", "slaveReadEnable": "true", "haHousekeepingInterval": "20000",
			"registerNameServerPeriod": "10000", "listenPort": strconv.Itoa(port), "haListenPort": strconv.Itoa(port + 1),
			"autoCreateTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}}
	if id == 0 {
		n.props["brokerRole"] = "ASYNC_MASTER"
	}
	for _, p := range props {
		key, value, _ := strings.Cut(p, "=")
		n.props[key] = value
	}
	return n
}

func (n *node) start() *node {
	t := n.c.t
	t.Helper()
	port, err := strconv.Atoi(n.props["listenPort"])
	require.NoError(t, err)
	if n.kind != ours {
		rig.QuickJVMs()
		require.NoError(t, os.MkdirAll(filepath.Join(n.dir, "conf"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "conf", "logback_broker.xml"), []byte(logback49), 0o644))
		s := javaoracle.Server{Version: n.kind, CacheDir: rig.WorkDir(t), Dir: n.dir, Namesrv: n.c.ns, BrokerPort: port,
			Properties: n.props, HeapMiB: 256}
		n.java, err = s.StartBroker(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = n.java.Kill() })
		return n
	}
	text := fmt.Sprintf("namesrvAddr=%s\nstorePathRootDir=%s/store\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n", n.c.ns,
		n.dir)
	for key, value := range n.props {
		text += key + "=" + value + "\n"
	}
	require.NoError(t, os.MkdirAll(n.dir, 0o755))
	set := config.NewBrokerSet()
	f, err := config.Parse(text, "broker.conf")
	require.NoError(t, err)
	_, err = set.Load(f)
	require.NoError(t, err)
	n.sky, err = broker.New(broker.Options{Config: set, Log: quiet(filepath.Join(n.dir, "broker.log")),
		NewEngine: engines.ByName("epoll", slog.Default())})
	require.NoError(t, err)
	require.NoError(t, n.sky.Start())
	sky := n.sky
	t.Cleanup(func() { _ = sky.Close(context.Background()) })
	return n
}

func (n *node) stop() {
	t := n.c.t
	t.Helper()
	if n.java != nil {
		require.NoError(t, n.java.Stop())
		return
	}
	require.NoError(t, n.sky.Close(context.Background()))
}

// do calls the broker; an answer other than SUCCESS is an error.
func (n *node) do(code int, header any, data []byte) (*codec.Command, error) {
	req := codec.NewRequest(code)
	if header != nil {
		codec.EncodeHeader(req, header)
	}
	req.Body = data
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.c.client.Do(ctx, n.addr, req)
}

// send puts one message and gives the answer's code.
func (n *node) send(topic string, queueID int32, payload []byte) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	h := codec.SendMessageHeader{ProducerGroup: []byte("P"), Topic: []byte(topic), QueueID: queueID}
	answer, err := n.c.client.Call(ctx, n.addr, client.NewSend(&h, payload))
	if err != nil { // maybe the connection to the broker of before a restart
		answer, err = n.c.client.Call(ctx, n.addr, client.NewSend(&h, payload))
	}
	if err != nil {
		return -1
	}
	return answer.Code
}

func (n *node) fill(topic string, count int) {
	t := n.c.t
	t.Helper()
	for i := range count {
		code := n.send(topic, int32(i%4), bytes.Repeat([]byte{byte(i)}, 100+i*37%3000))
		require.Equal(t, codec.RespSuccess, code, "message %d", i)
	}
}

// log is the CommitLog in the files: the bytes of each, by name.
func (n *node) log() map[string][]byte {
	t := n.c.t
	dir := filepath.Join(n.dir, "store", "commitlog")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string][]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = b
	}
	return out
}

// maxOffset is commitLogMaxOffset of the broker's runtime information.
func (n *node) maxOffset() int64 {
	answer, err := n.do(codec.ReqGetBrokerRuntimeInfo, nil, nil)
	if err != nil {
		return -1
	}
	var info body.KVTable
	if body.Decode(answer.Body, &info) != nil {
		return -1
	}
	v, err := strconv.ParseInt(info.Table["commitLogMaxOffset"], 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// awaitSame waits until the slave has the master's log and compares the bytes.
func awaitSame(t *testing.T, master, slave *node) {
	t.Helper()
	end := int64(-1)
	require.Eventually(t, func() bool { end = master.maxOffset(); return end > 0 }, patience, tick)
	require.Eventually(t, func() bool { return slave.maxOffset() == end }, patience, tick, "slave at %d of %d",
		slave.maxOffset(), end)
	m, s := master.log(), slave.log()
	require.NotEmpty(t, s)
	for name, b := range s {
		from, err := strconv.ParseInt(name, 10, 64)
		require.NoError(t, err)
		if from >= end {
			continue // made ahead
		}
		n := int(min(end-from, int64(len(b))))
		require.True(t, bytes.Equal(m[name][:n], b[:n]), "file %s differs", name)
	}
}

// pull reads all messages of a queue.
func (n *node) pull(topic string, queueID int32) (bodies [][]byte) {
	t := n.c.t
	t.Helper()
	for at := codec.QueueOffset(0); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		res, err := n.c.client.Pull(ctx, n.addr, client.PullRequest{Group: "G", Topic: topic, QueueID: queueID, QueueOffset: at})
		cancel()
		if err != nil {
			return nil // the slave has not got the topic yet
		}
		if res.Code != codec.RespSuccess {
			return bodies
		}
		for rest := res.Body; len(rest) > 0; {
			rec, err := codec.ParseRecord(rest, true)
			require.NoError(t, err)
			bodies = append(bodies, bytes.Clone(rec.Body))
			rest = rest[rec.TotalSize:]
		}
		at = res.NextBeginOffset
	}
}

func awaitQueues(t *testing.T, master, slave *node, topic string) {
	t.Helper()
	for q := range int32(4) {
		want := master.pull(topic, q)
		require.Eventually(t, func() bool { return len(slave.pull(topic, q)) == len(want) }, patience, 10*tick)
		require.Equal(t, len(want), len(slave.pull(topic, q)))
	}
}
