//go:build interop

package controller

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

// Two of our brokers under a Java controller: ids, roles, elections and the SyncStateSet are as with ours.
func TestOursWithJavaController(t *testing.T) {
	s := newSite(t)
	s.namesrv("")
	java, err := javaoracle.Server{CacheDir: rig.WorkDir(t), Dir: filepath.Join(s.dir, "java"), HeapMiB: 256}.
		StartController(t.Context(), *flagPort+1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, java.Kill()) })
	s.controllers[address(1)] = &rig.Process{} // the others of controllerAddr are down
	require.Eventually(t, func() bool { return s.leader() != "" }, readyTimeout, 100*time.Millisecond, "it leads")
	s.startPair(s.startOurs, s.startOurs)

	t.Log("the master is killed")
	killed := time.Now()
	require.NoError(t, s.brokers[1].p.Kill())
	s.await("the other one is master", 2, 2)
	t.Logf("elected %v after kill -9", time.Since(killed).Round(time.Millisecond))
	s.send(2, 1)
	t.Logf("a send succeeds %v after it", time.Since(killed).Round(time.Millisecond))
	s.check(2)
	s.again(1)
	s.await("it follows", 2, 1, 2)
	s.send(2, 20)
	s.elect(1)
	s.await("it is master again", 1, 1, 2)
	s.send(1, 20)
	s.check(1)
	for id, name := range map[int64]string{1: "DefaultCluster#pair#1", 2: "DefaultCluster#pair#2"} {
		b, err := os.ReadFile(filepath.Join(s.brokers[id].dir, "store", "brokerIdentity"))
		require.NoError(t, err)
		require.Equal(t, name, string(b))
	}
}

// A live pair of Java brokers becomes ours, one broker after the other, on their directories and with their ids; and back.
func TestMoveLive(t *testing.T) {
	s := newSite(t)
	s.namesrv("")
	s.startControllers()
	s.startPair(s.startBroker, s.startBroker)

	move := func(id, other int64, start func(id int64, port int)) {
		t.Helper()
		require.NoError(t, s.brokers[id].p.Stop())
		s.await("the other one is alone", other, other)
		start(id, s.brokers[id].port)
		s.await("both are in sync", other, 1, 2)
		s.send(other, 10)
		s.elect(id)
		s.await("it is master", id, 1, 2)
		s.send(id, 10)
		s.check(id)
	}
	move(2, 1, s.startOurs)
	move(1, 2, s.startOurs)
	s.elect(2)
	s.await("both are ours", 2, 1, 2)
	s.send(2, 10)
	t.Log("and back")
	move(1, 2, s.startBroker)
	move(2, 1, s.startBroker)
	require.Eventually(t, func() bool { return s.route() == s.brokers[2].addr }, readyTimeout, 50*time.Millisecond, "the route")
}

// Three of our brokers under three controllers: kill -9 of the master, over and over. How long sends fail is logged.
func TestFailoverTimes(t *testing.T) {
	s := newSite(t)
	s.namesrv("")
	s.startControllers()
	s.startPair(s.startOurs, s.startOurs)
	for round := range 6 {
		master, other := int64(1+round%2), int64(2-round%2)
		killed := time.Now()
		require.NoError(t, s.brokers[master].p.Kill())
		s.fastSend(other)
		out := time.Since(killed).Round(time.Millisecond)
		t.Logf("round %d: a send succeeds %v after kill -9", round, out)
		require.Less(t, out, 3*time.Second)
		s.again(master)
		s.await("it is back", other, 1, 2)
		s.send(other, 20)
		s.check(other)
	}
	text := mqadmin(t, s.dir, "getBrokerEpoch", "-n", address(0), "-b", group)
	printed(t, text, "#Epoch: EpochEntry{epoch=7, startOffset=")
	text = mqadmin(t, s.dir, "getSyncStateSet", "-a", address(1), "-b", group)
	printed(t, text, "#SyncStateSetNums", "2")
	text = mqadmin(t, s.dir, "haStatus", "-n", address(0), "-b", s.brokers[1].addr)
	printed(t, text, "#MasterAddr")
}

// trySend sends the next message once.
func (s *site) trySend(id int64) bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	r, err := s.client.Send(ctx, s.brokers[id].addr, &codec.SendMessageHeader{ProducerGroup: []byte("p"), Topic: []byte("T"),
		DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 1, BornTimestamp: time.Now().UnixMilli()},
		fmt.Appendf(nil, "message %d", s.sent))
	return err == nil && r.Code == codec.RespSuccess
}

// fastSend sends one message as soon as a broker takes it.
func (s *site) fastSend(id int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.trySend(id) }, killTimeout, 10*time.Millisecond, "a send")
	s.sent++
}
