//go:build interop && linux

package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/test/internal/rig"
)

const (
	brokerName = "group-a"
	topic      = "T"
	queues     = 4

	namesrvPort    = 9876
	controllerPort = 9878
	brokerPort     = 10911
)

// shape is how many of what a cluster has, whether its brokers work as a quorum, and whether they bear silence as long as
// Java's.
type shape struct {
	controllers, brokers int
	quorum, patient      bool
}

func (s shape) String() string {
	name := fmt.Sprintf("%d-controllers-%d-brokers", s.controllers, s.brokers)
	if s.quorum {
		name += "-quorum"
	}
	if s.patient {
		name += "-patient"
	}
	return name
}

// patientSettings are Java's defaults; with ours no fault takes more than three seconds.
var patientSettings = map[string]string{"controllerHeartBeatTimeoutMills": "10000", "haMaxTimeSlaveNotCatchup": "15000"}

// cluster is a name server, controllers and the brokers of one broker name, each in its namespace.
type cluster struct {
	t           *testing.T
	ctx         context.Context
	dir         string
	kind        string
	shape       shape
	net         *network
	client      *client.Client // of the router, which no fault cuts off
	namesrv     *server
	controllers []*server
	brokers     []*server // of id 1, 2, ...
	load        *netNode  // where clients are
	ns          *client.NameServers
}

// newCluster starts everything and waits until the group is whole.
func newCluster(t *testing.T, kind string, sh shape) *cluster {
	t.Helper()
	c := &cluster{t: t, ctx: context.Background(), dir: rig.Scratch(t, *flagKeep), kind: kind, shape: sh, net: newNetwork(t)}
	c.client = client.New(client.Options{CallTimeout: 2 * time.Second, ConnectTimeout: time.Second})
	t.Cleanup(func() { _ = c.client.Close() })
	c.load = c.net.node(t, "clients")
	c.namesrv = c.server("namesrv", "namesrv", namesrvPort, 0)
	c.ns = client.NewNameServers(c.client, []string{c.namesrv.addr()})
	var peers, addrs []string
	for i := range sh.controllers {
		s := c.server(fmt.Sprint("controller-", i+1), "controller", controllerPort, i+1)
		c.controllers = append(c.controllers, s)
		peers, addrs = append(peers, fmt.Sprintf("n%d-%s", i, s.addr())), append(addrs, s.addr())
	}
	for i, s := range c.controllers {
		s.props["controllerDLegerPeers"], s.props["controllerDLegerSelfId"] = strings.Join(peers, ";"), fmt.Sprint("n", i)
	}
	for i := range sh.brokers {
		s := c.server(fmt.Sprint("broker-", i+1), "broker", brokerPort, i+1)
		s.props["controllerAddr"] = strings.Join(addrs, ";")
		require.NoError(t, s.mount())
		t.Cleanup(func() { _ = s.unmount() })
		c.brokers = append(c.brokers, s)
	}
	t.Cleanup(c.end)
	c.begin()
	return c
}

// server describes one; its settings are the defaults but for sizes, addresses and what makes an acknowledgement safe.
func (c *cluster) server(name, role string, port, id int) *server {
	s := &server{c: c, role: role, kind: c.kind, node: c.net.node(c.t, name), id: id, port: port,
		dir: filepath.Join(c.dir, name)}
	require.NoError(c.t, os.MkdirAll(s.dir, 0o755))
	switch role {
	case "namesrv":
		s.props = map[string]string{"listenPort": fmt.Sprint(port), "kvConfigPath": s.dir + "/kv.json",
			"configStorePath": s.dir + "/namesrv.properties"}
	case "controller":
		s.props = map[string]string{"controllerDLegerGroup": "g", "controllerStorePath": s.dir + "/controller"}
	default:
		s.props = maps.Clone(brokerSettings)
		if c.shape.quorum {
			delete(s.props, "allAckInSyncStateSet")
			s.props["haAckRule"], s.props["totalReplicas"] = "majority", fmt.Sprint(c.shape.brokers)
		}
		if c.shape.patient {
			maps.Copy(s.props, patientSettings)
		}
		for setting := range strings.SplitSeq(*flagConf, ";") {
			if key, value, ok := strings.Cut(setting, "="); ok {
				s.props[key] = value
			}
		}
		if *flagMixed && id%2 == 0 {
			s.kind = java
		}
		if s.kind == ours {
			maps.Copy(s.props, map[string]string{"listenPort": fmt.Sprint(port), "brokerIP1": s.node.ip(),
				"brokerIP2": s.node.ip(), "namesrvAddr": c.namesrv.addr(), "storePathRootDir": s.dir + "/store"})
		}
	}
	return s
}

// brokerSettings have every replica of the SyncStateSet acknowledge. Files are small, so that they roll and disks can be
// small; nothing is deleted.
var brokerSettings = map[string]string{
	"brokerClusterName": "DefaultCluster", "brokerName": brokerName, "enableControllerMode": "true",
	"allAckInSyncStateSet": "true", "inSyncReplicas": "2", "minInSyncReplicas": "1",
	"mappedFileSizeCommitLog": "4194304", "mappedFileSizeConsumeQueue": "60000", "maxHashSlotNum": "1000",
	"maxIndexNum": "4000", "timerWheelEnable": "false", "traceTopicEnable": "false", "autoCreateTopicEnable": "false",
	"fileReservedTime": "240", "cleanFileForciblyEnable": "false", "diskMaxUsedSpaceRatio": "98", "slaveReadEnable": "true",
}

// begin starts the servers one after the other, so that ids are given in order, and makes the topic.
func (c *cluster) begin() {
	t := c.t
	require.NoError(t, c.namesrv.start())
	started := make(chan error, len(c.controllers)) // a Java controller listens only with its group
	for _, s := range c.controllers {
		go func() { started <- s.start() }()
	}
	for range c.controllers {
		require.NoError(t, <-started)
	}
	c.eventually(readyTimeout, "a controller leads", func() bool { return c.leader() != nil })
	for i, s := range c.brokers {
		require.NoError(t, s.start())
		c.eventually(readyTimeout, fmt.Sprintf("%s is in the group", s), func() bool { return c.whole(i + 1) })
	}
	var config body.TopicConfig
	config.SetDefaults()
	config.TopicName, config.ReadQueueNums, config.WriteQueueNums = topic, queues, queues
	m := c.master().addr()
	c.eventually(readyTimeout, "the topic", func() bool { return c.client.CreateTopic(c.ctx, m, &config) == nil })
	for _, g := range []string{goGroup, javaGroup} {
		require.NoError(t, c.client.CreateGroup(c.ctx, m, body.NewSubscriptionGroupConfig(g)))
	}
	for _, s := range c.brokers {
		c.eventually(readyTimeout, fmt.Sprintf("%s has the topic and groups", s), func() bool {
			_, err := c.client.TopicConfig(c.ctx, s.addr(), topic)
			if err == nil {
				_, err = c.client.GroupConfig(c.ctx, s.addr(), javaGroup)
			}
			return err == nil
		})
	}
}

// end kills everything, and shows the logs of a test that failed.
func (c *cluster) end() {
	for _, s := range slices.Concat(c.brokers, c.controllers, []*server{c.namesrv}) {
		if s.p == nil {
			continue
		}
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", s, s.logTail())
			s.autopsy()
		}
		_ = s.signal(syscall.SIGCONT) // a killed one is gone anyway
		_ = s.p.Kill()
	}
}

// eventually waits for a condition, and fails the test when it does not come true.
func (c *cluster) eventually(limit time.Duration, what string, ok func() bool) {
	c.t.Helper()
	require.NoError(c.t, await(c.ctx, limit, ok), what)
}

var errLate = errors.New("it took too long")

// await asks every tick.
func await(ctx context.Context, limit time.Duration, ok func() bool) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %v", errLate, limit)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ask calls a server with a short patience.
func (c *cluster) ask(addr string, code int, data string) (*codec.Command, error) {
	req := codec.NewRequest(code)
	if data != "" {
		req.Body = []byte(data)
	}
	ctx, cancel := context.WithTimeout(c.ctx, 500*time.Millisecond)
	defer cancel()
	return c.client.Do(ctx, addr, req)
}

// leader is the controller that says itself that it leads.
func (c *cluster) leader() *server {
	for _, s := range c.controllers {
		if !s.alive {
			continue
		}
		a, err := c.ask(s.addr(), codec.ReqControllerGetMetadataInfo, "")
		if err != nil {
			continue
		}
		var h codec.GetMetadataResponseHeader
		if codec.DecodeHeader(a, &h) == nil && h.ControllerLeaderAddress == s.addr() {
			return s
		}
	}
	return nil
}

// info is what the controllers' leader knows of the group, nil if it does not.
func (c *cluster) info() *body.ReplicasInfo {
	leader := c.leader()
	if leader == nil {
		return nil
	}
	a, err := c.ask(leader.addr(), codec.ReqControllerGetSyncStateData, `["`+brokerName+`"]`)
	if err != nil {
		return nil
	}
	var all body.BrokerReplicasInfo
	if body.Decode(a.Body, &all) != nil {
		return nil
	}
	return all.ReplicasInfoTable[brokerName]
}

// whole tells whether n brokers are in sync, one is master, and clients are told so.
func (c *cluster) whole(n int) bool {
	info := c.info()
	if info == nil || info.MasterBrokerID == nil || *info.MasterBrokerID < 1 || len(info.InSyncReplicas) != n {
		return false
	}
	m := c.brokers[*info.MasterBrokerID-1]
	return c.route() == m.addr()
}

// route is the master that the name server tells clients of.
func (c *cluster) route() string {
	ctx, cancel := context.WithTimeout(c.ctx, 500*time.Millisecond)
	defer cancel()
	info, err := c.ns.ClusterInfo(ctx)
	if err != nil {
		return ""
	}
	return client.Masters(info)[brokerName]
}

// master is the broker that the controllers take for the master; there is one.
func (c *cluster) master() *server {
	var m *server
	c.eventually(readyTimeout, "a master", func() bool {
		if info := c.info(); info != nil && info.MasterBrokerID != nil && *info.MasterBrokerID > 0 {
			m = c.brokers[*info.MasterBrokerID-1]
		}
		return m != nil
	})
	return m
}

// epoch is the master's epoch, which every election raises.
func (c *cluster) epoch() int {
	epoch := 0
	c.eventually(readyTimeout, "an epoch", func() bool {
		info := c.info()
		if info == nil || info.MasterEpoch == nil {
			return false
		}
		epoch = int(*info.MasterEpoch)
		return true
	})
	return epoch
}

// slaves are the brokers that are not master.
func (c *cluster) slaves() []*server {
	m := c.master()
	return slices.DeleteFunc(slices.Clone(c.brokers), func(s *server) bool { return s == m })
}
