//go:build interop

package controller

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/test/internal/rig"
)

const group = "pair" // broker name

// site is a whole system of processes.
type site struct {
	t           *testing.T
	dir         string
	client      *client.Client
	controllers map[string]*rig.Process // by address
	brokers     map[int64]*broker       // by id
	sent        int
}

type broker struct {
	addr string
	dir  string
	port int
	p    server
}

// server is a broker's process, Java's or ours.
type server interface {
	Pid() int
	Kill() error
	Stop() error
}

func (s *site) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.t.Context(), 5*time.Second)
}

func (s *site) startController(i int) {
	conf := fmt.Sprintf("controllerDLegerGroup=g\ncontrollerDLegerPeers=%s\ncontrollerDLegerSelfId=n%d\n"+
		"controllerStorePath=%s\n", controllerPeers(), i, filepath.Join(s.dir, fmt.Sprint("c", i)))
	s.controllers[address(1+i)] = startSkylark(s.t, s.dir, "controller", fmt.Sprint("controller", i), conf)
}

// startControllers starts three, and waits until one leads.
func (s *site) startControllers() {
	s.t.Helper()
	for i := range 3 {
		s.startController(i)
	}
	require.Eventually(s.t, func() bool { return s.leader() != "" }, readyTimeout, 50*time.Millisecond, "a leader")
}

// startPair starts two brokers: 1, which is master, and 2, which follows it. The topic has messages then.
func (s *site) startPair(first, second func(id int64, port int)) *body.ReplicasInfo {
	s.t.Helper()
	first(1, 20)
	s.await("the first broker is master", 1, 1)
	second(2, 40)
	info := s.await("the second one follows", 1, 1, 2)
	s.createTopic()
	s.send(1, 20)
	return info
}

// leader is the address of the controller that leads; any of them knows.
func (s *site) leader() string {
	for addr := range s.controllers {
		ctx, cancel := s.ctx()
		a, err := s.client.Do(ctx, addr, codec.NewRequest(codec.ReqControllerGetMetadataInfo))
		cancel()
		if err != nil {
			continue
		}
		var h codec.GetMetadataResponseHeader
		require.NoError(s.t, codec.DecodeHeader(a, &h))
		if h.ControllerLeaderAddress != "" && s.controllers[h.ControllerLeaderAddress] != nil {
			return h.ControllerLeaderAddress
		}
	}
	return ""
}

// info asks the leader about the group; nil if it does not know.
func (s *site) info() *body.ReplicasInfo {
	leader := s.leader()
	if leader == "" {
		return nil
	}
	req := codec.NewRequest(codec.ReqControllerGetSyncStateData)
	req.Body = []byte(`["` + group + `"]`)
	ctx, cancel := s.ctx()
	defer cancel()
	a, err := s.client.Do(ctx, leader, req)
	if err != nil {
		return nil
	}
	var all body.BrokerReplicasInfo
	require.NoError(s.t, body.Decode(a.Body, &all))
	return all.ReplicasInfoTable[group]
}

// await waits until the group has a master, and members in its SyncStateSet.
func (s *site) await(what string, master int64, inSync ...int64) *body.ReplicasInfo {
	s.t.Helper()
	var info *body.ReplicasInfo
	require.Eventually(s.t, func() bool {
		if info = s.info(); info == nil || info.MasterBrokerID == nil || *info.MasterBrokerID != master {
			return false
		}
		var ids []int64
		for _, r := range info.InSyncReplicas {
			ids = append(ids, r.BrokerID)
		}
		slices.Sort(ids)
		return slices.Equal(ids, inSync)
	}, readyTimeout, 50*time.Millisecond, "%s: %v", what, info)
	return info
}

// createTopic waits until the slave has it too: it fetches topics every few seconds.
func (s *site) createTopic() {
	for _, id := range []int64{1, 2} {
		require.Eventually(s.t, func() bool {
			ctx, cancel := s.ctx()
			defer cancel()
			if id == 1 {
				var topic body.TopicConfig
				topic.SetDefaults()
				topic.TopicName, topic.ReadQueueNums, topic.WriteQueueNums = "T", 1, 1
				return s.client.CreateTopic(ctx, s.brokers[1].addr, &topic) == nil
			}
			_, err := s.client.TopicConfig(ctx, s.brokers[2].addr, "T")
			return err == nil
		}, readyTimeout, 200*time.Millisecond, "topic at broker %d", id)
	}
}

// send stores messages at the master that clients see, and counts those that were acknowledged by all replicas.
func (s *site) send(id int64, n int) {
	s.t.Helper()
	addr := s.brokers[id].addr
	for range n {
		require.Eventually(s.t, func() bool {
			ctx, cancel := s.ctx()
			defer cancel()
			r, err := s.client.Send(ctx, addr, &codec.SendMessageHeader{ProducerGroup: []byte("p"), Topic: []byte("T"),
				DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 1, BornTimestamp: time.Now().UnixMilli()},
				fmt.Appendf(nil, "message %d", s.sent))
			return err == nil && r.Code == codec.RespSuccess
		}, readyTimeout, 200*time.Millisecond, "message %d", s.sent)
		s.sent++
	}
}

// check reads all that was acknowledged from a broker.
func (s *site) check(id int64) {
	s.t.Helper()
	seen := map[string]bool{}
	require.Eventually(s.t, func() bool {
		ctx, cancel := s.ctx()
		defer cancel()
		for offset := codec.QueueOffset(0); ; {
			r, err := s.client.Pull(ctx, s.brokers[id].addr, client.PullRequest{Group: "c", Topic: "T", QueueOffset: offset})
			if err != nil || r.NextBeginOffset <= offset {
				return len(seen) >= s.sent
			}
			require.NoError(s.t, client.EachRecord(r.Body, func(rec *codec.Record) error {
				seen[string(rec.Body)] = true
				return nil
			}))
			offset = r.NextBeginOffset
		}
	}, readyTimeout, 200*time.Millisecond, "all that was acknowledged is at broker %d", id)
	for i := range s.sent {
		require.Contains(s.t, seen, fmt.Sprint("message ", i))
	}
}

// route is the master that the name server tells clients of.
func (s *site) route() string {
	req := codec.NewRequest(codec.ReqGetBrokerClusterInfo)
	ctx, cancel := s.ctx()
	defer cancel()
	a, err := s.client.Do(ctx, address(0), req)
	if err != nil {
		return ""
	}
	var info body.ClusterInfo
	require.NoError(s.t, body.Decode(a.Body, &info))
	return client.Masters(&info)[group]
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: rig.Scratch(t, *flagKeep), client: client.New(client.Options{}),
		controllers: map[string]*rig.Process{}, brokers: map[int64]*broker{}}
	t.Cleanup(func() { require.NoError(t, s.client.Close()) })
	return s
}

func (s *site) namesrv(more string) {
	conf := fmt.Sprintf("listenPort=%d\nbindAddress=127.0.0.1\nkvConfigPath=%[2]s/kv.json\n"+
		"configStorePath=%[2]s/ns.properties\n%[3]s", *flagPort, s.dir, more)
	startSkylark(s.t, s.dir, "namesrv", "namesrv", conf)
}

func (s *site) startBroker(id int64, port int) {
	b := &broker{addr: address(port), dir: filepath.Join(s.dir, fmt.Sprint("broker", id)), port: port}
	b.p = startBroker(s.t, b.dir, group, port)
	s.brokers[id] = b
}

// The whole life of a pair of Java brokers under three Skylark controllers.
func TestJavaPair(t *testing.T) {
	s := newSite(t)
	s.namesrv("")
	s.startControllers()
	info := s.startPair(s.startBroker, s.startBroker)
	require.EqualValues(t, 1, *info.MasterEpoch)

	t.Log("the master is killed")
	killed := time.Now()
	require.NoError(t, s.brokers[1].p.Kill())
	info = s.await("the other one is master", 2, 2)
	t.Logf("elected %v after kill -9", time.Since(killed).Round(time.Millisecond))
	require.Less(t, time.Since(killed), 5*time.Second)
	require.EqualValues(t, 2, *info.MasterEpoch)
	require.Eventually(t, func() bool { return s.route() == s.brokers[2].addr }, readyTimeout, 50*time.Millisecond, "the route")
	t.Logf("clients are told after %v", time.Since(killed).Round(time.Millisecond))
	s.check(2)

	t.Log("it comes back")
	s.brokers[1].p = startBroker(t, s.brokers[1].dir, group, s.brokers[1].port)
	s.await("both are in sync again", 2, 1, 2)
	s.send(2, 20)

	t.Log("the leader of the controllers is killed")
	old := s.leader()
	require.NoError(t, s.controllers[old].Kill())
	dead := s.controllers[old]
	delete(s.controllers, old)
	require.Eventually(t, func() bool { l := s.leader(); return l != "" && l != old }, killTimeout, 50*time.Millisecond)
	s.await("nothing changes", 2, 1, 2)
	s.controllers[old] = dead

	t.Log("commands of mqadmin")
	delete(s.controllers, old)
	s.admin()
	s.check(1)

	t.Log("the dead controller comes back")
	for i := range 3 {
		if address(1+i) == old {
			s.startController(i)
		}
	}
	require.Eventually(t, func() bool {
		ctx, cancel := s.ctx()
		defer cancel()
		a, err := s.client.Do(ctx, old, codec.NewRequest(codec.ReqControllerGetMetadataInfo))
		return err == nil && a.Get("controllerLeaderAddress") != ""
	}, killTimeout, 50*time.Millisecond, "it follows")
	s.moveToNewControllers()
}

// moveToNewControllers is what docs/ha.md tells those to do who come from other controllers: the replica with the longest
// log registers anew, with its messages and in an epoch behind all it knows.
func (s *site) moveToNewControllers() {
	t := s.t
	t.Log("new controllers")
	require.NoError(t, s.brokers[1].p.Stop())
	for i := range 3 {
		require.NoError(t, s.controllers[address(1+i)].Stop())
		require.NoError(t, os.RemoveAll(filepath.Join(s.dir, fmt.Sprint("c", i))))
	}
	for i := range 3 {
		s.startController(i)
	}
	require.NoError(t, os.Remove(filepath.Join(s.brokers[1].dir, "store", "brokerIdentity")))
	s.brokers[1].p = startBroker(t, s.brokers[1].dir, group, s.brokers[1].port)
	info := s.await("it is master again", 1, 1)
	require.Greater(t, *info.MasterEpoch, int32(3))
	s.check(1)
	s.send(1, 5)
	s.check(1)
}

func (s *site) admin() {
	t := s.t
	var follower string
	for addr := range s.controllers {
		if addr != s.leader() {
			follower = addr
		}
	}
	text := mqadmin(t, s.dir, "getControllerMetaData", "-a", follower)
	printed(t, text, "#ControllerLeaderAddress", s.leader())
	printed(t, text, "#ControllerGroup", "g")
	text = mqadmin(t, s.dir, "getSyncStateSet", "-a", follower, "-b", group)
	printed(t, text, "#MasterBrokerId", "2")
	printed(t, text, "#SyncStateSetNums", "2")
	require.Equal(t, 2, strings.Count(text, "alive=true"))
	text = mqadmin(t, s.dir, "getBrokerEpoch", "-n", address(0), "-b", group)
	printed(t, text, "#Epoch: EpochEntry{epoch=2, startOffset=")

	text = mqadmin(t, s.dir, "electMaster", "-a", follower, "-c", "DefaultCluster", "-bn", group, "-b", "1")
	printed(t, text, "#BrokerMasterAddr", s.brokers[1].addr)
	printed(t, text, "#MasterEpoch", "3")
	s.await("the elected one is master, the other one follows", 1, 1, 2)
	require.Eventually(t, func() bool { return s.route() == s.brokers[1].addr }, readyTimeout, 50*time.Millisecond, "the route")

	printed(t, mqadmin(t, s.dir, "getControllerConfig", "-a", follower), "enableElectUncleanMaster", "=", "false")
	update := []string{"updateControllerConfig", "-a", follower, "-k", "enableElectUncleanMaster", "-v", "true"}
	printed(t, mqadmin(t, s.dir, update...), "success")
	printed(t, mqadmin(t, s.dir, "getControllerConfig", "-a", follower), "enableElectUncleanMaster", "=", "true")

	clean := []string{"cleanBrokerMetadata", "-a", follower, "-c", "DefaultCluster", "-bn", group, "-b", "2"}
	require.Contains(t, mqadmin(t, s.dir, clean...), "still alive")
	require.NoError(t, s.brokers[2].p.Kill())
	require.Eventually(t, func() bool {
		return s.info() != nil && slices.ContainsFunc(append(s.info().NotInSyncReplicas, s.info().InSyncReplicas...),
			func(r *body.ReplicaIdentity) bool { return r.BrokerID == 2 && !*r.Alive })
	}, killTimeout, 100*time.Millisecond, "broker 2 is known to be dead")
	require.Contains(t, mqadmin(t, s.dir, clean...), "success")
	info := s.await("broker 2 is forgotten", 1, 1)
	require.Empty(t, info.NotInSyncReplicas)
}

// One controller in the name server, one Java broker.
func TestControllerInNamesrv(t *testing.T) {
	s := newSite(t)
	s.controllers[address(1)] = nil
	s.namesrv(fmt.Sprintf("enableControllerInNamesrv=true\ncontrollerDLegerGroup=g\ncontrollerDLegerPeers=n0-%s\n"+
		"controllerDLegerSelfId=n0\ncontrollerStorePath=%s\n", address(1), filepath.Join(s.dir, "c")))
	s.controllers[address(1)] = &rig.Process{}
	s.startBroker(1, 60)
	s.await("the broker is master", 1, 1)
	require.Eventually(t, func() bool { return s.route() == s.brokers[1].addr }, readyTimeout, 50*time.Millisecond, "the route")
	printed(t, mqadmin(t, s.dir, "getControllerMetaData", "-a", address(1)), "#ControllerLeaderId", "n0")
}
