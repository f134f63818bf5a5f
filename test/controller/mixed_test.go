//go:build interop

package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/test/internal/rig"
)

// startOurs starts a Skylark broker with the settings of the Java ones.
func (s *site) startOurs(id int64, port int) {
	s.t.Helper()
	b := &broker{addr: address(port), dir: filepath.Join(s.dir, fmt.Sprint("broker", id)), port: port}
	require.NoError(s.t, os.MkdirAll(b.dir, 0o755))
	conf := fmt.Sprintf("brokerClusterName=DefaultCluster\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nbindAddress=127.0.0.1\n"+
		"listenPort=%d\nnamesrvAddr=%s\nstorePathRootDir=%s/store\nstorePathCommitLog=%[3]s/store/commitlog\n", *flagPort+port,
		address(0), b.dir)
	b.p = startSkylark(s.t, b.dir, "broker", "broker", conf+string(rig.Properties(brokerProperties(group))))
	s.brokers[id] = b
}

// again starts a broker that was killed.
func (s *site) again(id int64) {
	b := s.brokers[id]
	if _, java := b.p.(*rig.Process); java {
		s.startOurs(id, b.port)
	} else {
		b.p = startBroker(s.t, b.dir, group, b.port)
	}
}

// elect moves the role by hand.
func (s *site) elect(id int64) {
	s.t.Helper()
	req := codec.NewRequest(codec.ReqControllerElectMaster)
	codec.EncodeHeader(req, &codec.ElectMasterRequestHeader{ClusterName: "DefaultCluster", BrokerName: group, BrokerID: id,
		DesignateElect: true})
	ctx, cancel := s.ctx()
	defer cancel()
	a, err := s.client.Call(ctx, s.leader(), req)
	require.NoError(s.t, err)
	require.Equal(s.t, codec.RespSuccess, a.Code, a.Remark)
}

// unconfirmed has the master store messages that its slave does not get, while nobody can take the slave out of the
// SyncStateSet: they must not be acknowledged. Then the slave comes back without the master.
func (s *site) unconfirmed(master, slave int64) {
	s.t.Helper()
	for _, p := range s.controllers { // not only stopped: they would find the request when they go on
		require.NoError(s.t, p.Kill())
	}
	require.NoError(s.t, s.brokers[slave].p.Kill())
	for i := range 3 {
		ctx, cancel := s.ctx()
		r, err := s.client.Send(ctx, s.brokers[master].addr, &codec.SendMessageHeader{ProducerGroup: []byte("p"),
			Topic: []byte("T"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 1, BornTimestamp: time.Now().UnixMilli()},
			fmt.Appendf(nil, "lost %d", i))
		cancel()
		if err == nil {
			s.t.Logf("answer to a message that only one has: %s", codec.ResponseCodeName(r.Code))
			require.NotEqual(s.t, codec.RespSuccess, r.Code)
		}
	}
	require.NoError(s.t, s.brokers[master].p.Kill())
	for i := range 3 {
		s.startController(i)
	}
	s.again(slave)
}

// commitLog is the whole log of a broker that does not run, without the zeros behind its end.
func (s *site) commitLog(id int64) string {
	files, err := filepath.Glob(filepath.Join(s.brokers[id].dir, "store", "commitlog", "0*"))
	require.NoError(s.t, err)
	slices.Sort(files)
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(s.t, err)
		all.Write(b)
	}
	return strings.TrimRight(all.String(), "\x00")
}

// equalLogs stops both brokers and compares every byte.
func (s *site) equalLogs() {
	s.t.Helper()
	require.NoError(s.t, s.brokers[2].p.Stop())
	require.NoError(s.t, s.brokers[1].p.Stop())
	a, b := s.commitLog(1), s.commitLog(2)
	require.NotEmpty(s.t, a)
	for i := range min(len(a), len(b)) {
		require.Equal(s.t, a[i], b[i], "byte %d of %d, %d", i, len(a), len(b))
	}
	require.Equal(s.t, len(a), len(b))
	for id := range int64(2) {
		epochs, err := os.ReadFile(filepath.Join(s.brokers[id+1].dir, "store", "epochFileCheckpoint"))
		require.NoError(s.t, err)
		s.t.Logf("epochs of broker %d:\n%s", id+1, epochs)
	}
	require.NotContains(s.t, a, "lost ")
}

// A Java and a Skylark broker are one group under Skylark's controllers, each of them master and slave in turn; what was
// acknowledged stays, and what was not is cut on both sides (issue: interop with Java's auto-switch HA in both roles).
func TestMixedPair(t *testing.T) {
	s := newSite(t)
	s.namesrv("")
	s.startControllers()
	s.startPair(s.startBroker, s.startOurs)

	t.Log("the Java master is killed, with messages that nobody else has")
	s.unconfirmed(1, 2)
	s.await("ours is master", 2, 2)
	s.check(2)
	s.send(2, 10)
	s.again(1)
	s.await("Java's follows it", 2, 1, 2)
	s.send(2, 20)

	t.Log("ours is killed, with messages that nobody else has")
	s.unconfirmed(2, 1)
	s.await("Java's is master", 1, 1)
	s.check(1)
	s.send(1, 10)
	s.again(2)
	s.await("ours follows it", 1, 1, 2)
	kept, err := filepath.Glob(filepath.Join(s.brokers[2].dir, "store", "diverged-*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept, "what ours had for itself is kept")
	s.send(1, 20)

	t.Log("the role goes to and fro, without and with messages in between")
	for n := range 3 {
		s.elect(2)
		s.await("ours is master", 2, 1, 2)
		s.send(2, 5*n)
		s.elect(1)
		s.await("Java's is master", 1, 1, 2)
		s.send(1, 5*n)
	}
	s.check(1)
	s.elect(2)
	s.await("ours is master", 2, 1, 2)
	s.check(2)
	s.equalLogs()
}
