package replicas_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/replicas"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// scenario makes a group of n brokers that are all in the SyncStateSet, and a topic T with one queue.
func scenario(t *testing.T, n int, conf string) *site {
	s := newSite(t, n, conf)
	s.settled(n)
	s.createTopic("T")
	return s
}

// elect moves the role by hand, as mqadmin electMaster.
func (s *site) elect(id int64) {
	s.t.Helper()
	req := codec.NewRequest(codec.ReqControllerElectMaster)
	codec.EncodeHeader(req, &codec.ElectMasterRequestHeader{ClusterName: "c", BrokerName: "b", BrokerID: id,
		DesignateElect: true})
	_, err := s.client.Do(s.t.Context(), controlAddr, req)
	require.NoError(s.t, err)
}

// moved waits until a broker is the master, and sends meanwhile. It tells how long sends failed.
func (s *site) moved(id int64) (out time.Duration) {
	s.t.Helper()
	var since time.Time
	s.eventually("the role has moved", func() bool {
		switch err := s.send("T"); {
		case err == nil && !since.IsZero():
			out, since = max(out, time.Since(since)), time.Time{}
		case err != nil && since.IsZero():
			since = time.Now()
		}
		m := s.master()
		return m != nil && m.Replicas().ID == id && since.IsZero() && s.route("T") == m.addr(0)
	})
	return out
}

// other is one that is not the master.
func (s *site) other() *member {
	for _, m := range s.members {
		if m.Broker != nil && m != s.master() {
			return m
		}
	}
	return nil
}

// A master that loses controller and slave goes on, as Java's: what only it has is cut off when it comes back.
func TestOldMasterIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, "slaveReadEnable=true\n")
		defer s.close()
		old := s.master()
		s.mustSend("T", 10)
		s.sameLogs()
		old.cut.Store(true)
		for i := range 10 { // an old client, that still sends there
			r, err := s.client.Send(t.Context(), old.addr(0), &codec.SendMessageHeader{Topic: []byte("T")}, []byte("lost"))
			require.NoError(t, err)
			require.Contains(t, []int{codec.RespSuccess, codec.RespSlaveNotAvailable, codec.RespFlushSlaveTimeout}, r.Code)
			_ = i
		}
		s.eventually("another master", func() bool { return s.other() != nil && s.other().Replicas().Role.Master })
		s.client.Drop(old.addr(0))
		s.outage("T")
		s.mustSend("T", 20)
		old.cut.Store(false)
		s.eventually("the old master follows", func() bool { return old.Store().Following() })
		s.settled(2)
		s.sameLogs()
		s.checkSent(s.master(), "T")
		require.Equal(t, s.read(s.master(), "T"), s.read(s.other(), "T"))
		require.Len(t, s.read(old, "T"), 31)
	})
}

// The set shrinks when a slave dies, so that sends go on, and grows when it is back.
func TestSetShrinksAndGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 3, allAck)
		defer s.close()
		s.mustSend("T", 5)
		dead := s.other()
		s.kill(dead.n)
		began := time.Now()
		s.eventually("a send", func() bool { return s.send("T") == nil })
		require.Less(t, time.Since(began), time.Second)
		s.settled(2)
		s.mustSend("T", 20)
		s.start(dead.n)
		s.settled(3)
		s.sameLogs()
		s.checkSent(s.master(), "T")
	})
}

// The role is moved by hand, to and fro, while messages are sent. No acknowledged one is lost.
func TestElectMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 3, allAck)
		defer s.close()
		for round := range 6 {
			s.mustSend("T", 10)
			m := s.settled(3)
			to := m.Replicas().ID%3 + 1
			s.elect(to)
			from := m.Replicas().ID
			out := s.moved(to)
			t.Logf("round %d: master %d to %d, sends fail for %v", round, from, to, out)
			require.Less(t, out, time.Second)
		}
		s.settled(3)
		s.sameLogs()
		s.checkSent(s.master(), "T")
	})
}

// Everything is stopped and started: ids, epochs and messages are kept, whoever starts first.
func TestRestartOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		s.mustSend("T", 20)
		ids := []int64{s.members[0].Replicas().ID, s.members[1].Replicas().ID}
		for _, first := range []int{0, 1} {
			epoch := s.master().Replicas().Role.Epoch
			s.stop(0)
			s.stop(1)
			require.NoError(t, s.control.Close(t.Context()))
			s.startController()
			s.start(first)
			s.start(1 - first)
			s.settled(2)
			require.GreaterOrEqual(t, s.master().Replicas().Role.Epoch, epoch)
			require.Equal(t, ids, []int64{s.members[0].Replicas().ID, s.members[1].Replicas().ID})
			s.checkSent(s.master(), "T")
			s.outage("T")
			s.mustSend("T", 20)
		}
	})
}

// The controller is away: brokers keep their roles. A master that dies meanwhile is replaced when it is back.
func TestControllerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		require.NoError(t, s.control.Close(t.Context()))
		time.Sleep(time.Minute)
		s.mustSend("T", 20)
		old := s.master()
		s.kill(old.n)
		time.Sleep(30 * time.Second)
		require.Error(t, s.send("T"))
		s.startController()
		t.Logf("sends fail for %v after the start of the controller", s.outage("T"))
		s.checkSent(s.master(), "T")
		s.start(old.n)
		s.settled(2)
		s.sameLogs()
	})
}

// What is not in the log is copied: topics, groups and offsets. What the old master did not tell any more is made of the
// log.
func TestTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		m := s.master()
		g := body.NewSubscriptionGroupConfig("G")
		g.RetryMaxTimes = 3
		require.NoError(t, s.client.CreateGroup(t.Context(), m.addr(0), g))
		s.mustSend("T", 20)
		require.NoError(t, s.client.CommitOffset(t.Context(), m.addr(0), "G", "T", 0, 12))
		time.Sleep(11 * time.Second)
		s.createTopic("Late")
		s.mustSend("Late", 1)
		s.sent = s.sent[:20]
		s.kill(m.n)
		s.outage("T")
		now := s.master()
		at, err := s.client.ConsumerOffset(t.Context(), now.addr(0), "G", "T", 0)
		require.NoError(t, err)
		require.EqualValues(t, 12, at)
		have, err := s.client.GroupConfig(t.Context(), now.addr(0), "G")
		require.NoError(t, err)
		require.EqualValues(t, 3, have.RetryMaxTimes)
		require.Len(t, s.read(now, "Late"), 1)
		require.Eventually(t, func() bool { return s.route("Late") == now.addr(0) }, time.Second, 10*time.Millisecond)

		require.NoError(t, s.client.CommitOffset(t.Context(), now.addr(0), "G", "T", 0, 15))
		s.start(m.n) // its tables are old
		s.settled(2)
		time.Sleep(15 * time.Second)
		to := s.other().Replicas().ID
		s.elect(to)
		s.moved(to)
		at, err = s.client.ConsumerOffset(t.Context(), s.master().addr(0), "G", "T", 0)
		require.NoError(t, err)
		require.EqualValues(t, 15, at)
		require.Len(t, s.read(s.master(), "Late"), 1)
	})
}

// Delayed and timed messages are delivered by whoever is master when they are due, transactions are ended there.
func TestSpecialServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		send := func(text string, props ...string) *client.SendResult {
			t.Helper()
			var p []byte
			for i := 0; i < len(props); i += 2 {
				p = codec.AppendProperty(p, props[i], props[i+1])
			}
			h := &codec.SendMessageHeader{Topic: []byte("T"), Properties: codec.Field{Value: p}}
			for i := 0; i < len(props); i += 2 {
				if props[i] == codec.PropTransactionPrepared {
					h.SysFlag |= codec.SysFlagTransactionPrepared
				}
			}
			r, err := s.client.Send(t.Context(), s.master().addr(0), h, []byte(text))
			require.NoError(t, err)
			return r
		}
		send("delayed", codec.PropDelayTimeLevel, "5")
		send("timed", codec.PropTimerDeliverMs, strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
		half := send("half", codec.PropTransactionPrepared, "true", codec.PropProducerGroup, "P", codec.PropUniqKey, "K")
		time.Sleep(15 * time.Second)
		first := s.master()
		s.kill(first.n)
		s.outage("T")
		s.start(first.n)
		s.settled(2)
		s.elect(first.Replicas().ID) // and back
		s.moved(first.Replicas().ID)

		end := codec.NewRequest(codec.ReqEndTransaction)
		host, phyOffset, err := codec.ParseOffsetMsgID(half.MsgIDs[0])
		require.NoError(t, err, host)
		codec.EncodeHeader(end, &codec.EndTransactionRequestHeader{ProducerGroup: "P", TranStateTableOffset: half.QueueOffset,
			CommitLogOffset: phyOffset, CommitOrRollback: codec.SysFlagTransactionCommit, MsgID: "K"})
		_, err = s.client.Do(t.Context(), s.master().addr(0), end)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		got := map[string]int{}
		for _, b := range s.read(s.master(), "T") {
			got[string(b)]++
		}
		for _, want := range []string{"delayed", "timed", "half"} {
			require.Equal(t, 1, got[want], "%s: %v", want, got)
		}
		s.sameLogs()
	})
}

// A broker whose files belong to another broker name does not start, and says why.
func TestForeignIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		id := s.members[1].Replicas().ID // 1 or 2: of both, who was first has 1
		s.stop(1)
		require.NoError(t, replicas.Identity{Cluster: "c", Name: "x", ID: 7}.Save(s.members[1].fs, "/data/brokerIdentity"))
		_, err := s.try(1)
		require.ErrorIs(t, err, replicas.ErrIdentity)
		require.ErrorContains(t, err, fmt.Sprintf("%q", "b"))
		require.NoError(t, replicas.Identity{Cluster: "c", Name: "b", ID: id}.Save(s.members[1].fs, "/data/brokerIdentity"))
		s.start(1)
		s.settled(2)
	})
}

// With controllerLeaseMillis a master that has lost its controllers refuses messages before long.
func TestLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, "controllerLeaseMillis=6000\n")
		defer s.close()
		s.mustSend("T", 5)
		time.Sleep(time.Minute)
		s.mustSend("T", 5)
		s.sameLogs()
		old := s.master()
		old.cut.Store(true)
		send := func() error {
			_, err := s.client.Send(t.Context(), old.addr(0), &codec.SendMessageHeader{Topic: []byte("T")}, []byte("x"))
			return err
		}
		require.NoError(t, send())
		time.Sleep(8 * time.Second)
		require.True(t, client.IsResponse(send(), codec.RespServiceNotAvailable), "%v", send())
		require.False(t, old.Store().Following())
		old.cut.Store(false)
		s.settled(2)
		s.sameLogs()
		s.mustSend("T", 5)
		s.checkSent(s.master(), "T")
	})
}

// A master that is killed and started at once, before the controllers have noticed, lets another one of the set go first:
// after a power cut that one would have more of the log.
func TestRestartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		s.mustSend("T", 20)
		m := s.master()
		id := m.Replicas().ID
		s.kill(m.n)
		s.start(m.n)
		out := s.outage("T")
		t.Logf("sends fail for %v", out)
		require.Less(t, out, 3*time.Second)
		require.NotEqual(t, id, s.master().Replicas().ID)
		s.settled(2)
		s.checkSent(s.master(), "T")

		s.stop(s.other().n) // alone, there is nobody to wait for
		m = s.settled(1)
		s.mustSend("T", 20)
		s.kill(m.n)
		s.start(m.n)
		require.Less(t, s.outage("T"), time.Second)
		s.checkSent(s.master(), "T")
	})
}

// An async learner has the log and is never in the SyncStateSet, nor elected.
func TestAsyncLearner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 3, allAck)
		defer s.close()
		learner := s.other()
		s.stop(learner.n)
		s.settled(2)
		learner.conf = "asyncLearner=true\n"
		s.start(learner.n)
		s.mustSend("T", 20)
		s.sameLogs()
		time.Sleep(time.Minute)
		last := s.settled(2)
		for s.master() != nil { // one after the other of the set
			last = s.master()
			s.kill(last.n)
			time.Sleep(30 * time.Second)
		}
		require.False(t, learner.Replicas().Role.Master)
		s.start(last.n)
		s.outage("T")
		s.checkSent(s.master(), "T")
	})
}

// The controllers have forgotten a replica: it stays fenced, and registers anew when its identity is removed.
func TestCleanedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		gone := s.other()
		id := gone.Replicas().ID
		s.stop(gone.n)
		s.settled(1)
		time.Sleep(3 * time.Second)
		req := codec.NewRequest(codec.ReqCleanBrokerData)
		codec.EncodeHeader(req, &codec.CleanBrokerDataRequestHeader{ClusterName: "c", BrokerName: "b",
			BrokerControllerIDsToClean: fmt.Sprint(id)})
		_, err := s.client.Do(t.Context(), controlAddr, req)
		require.NoError(t, err)
		s.start(gone.n)
		time.Sleep(time.Minute)
		require.Equal(t, replicas.StageRegister, gone.Replicas().Stage)
		s.stop(gone.n)
		require.NoError(t, gone.fs.Remove("/data/brokerIdentity"))
		s.start(gone.n)
		s.settled(2)
		require.EqualValues(t, 3, gone.Replicas().ID)
	})
}

// The role goes to and fro, by hand and by kills, while four clients send and one reads. What was acknowledged is there, in
// the order of its sender.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 3, allAck)
		defer s.close()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		acked := make([]int, 4)
		for i := range acked {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					addr := s.route("T")
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					r, err := s.client.Send(ctx, addr, &codec.SendMessageHeader{Topic: []byte("T")},
						fmt.Appendf(nil, "%d/%d", i, acked[i]))
					cancel()
					if err == nil && r.Code == codec.RespSuccess {
						acked[i]++
					} else {
						s.client.Drop(addr)
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for round := range 8 {
			time.Sleep(2 * time.Second)
			m := s.settled(3)
			if round%2 == 0 {
				s.elect(m.Replicas().ID%3 + 1)
				continue
			}
			s.kill(m.n)
			time.Sleep(time.Second)
			s.start(m.n)
		}
		time.Sleep(5 * time.Second)
		close(stop)
		wg.Wait()
		m := s.settled(3)
		s.sameLogs()
		next, more := make([]int, len(acked)), 0
		for _, b := range s.read(m, "T") {
			var i, k int
			_, err := fmt.Sscanf(string(b), "%d/%d", &i, &k)
			require.NoError(t, err)
			if k == next[i] {
				next[i]++
			} else {
				require.Less(t, k, next[i], "sender %d lost %d", i, next[i])
				more++ // sent again: its acknowledgement was lost
			}
		}
		t.Logf("acknowledged %v, there %v, twice %d", acked, next, more)
		for i := range acked {
			require.GreaterOrEqual(t, next[i], acked[i])
			require.Greater(t, acked[i], 200)
		}
		want := fmt.Sprintf("%s", s.read(m, "T"))
		for _, other := range s.members {
			s.eventually("what the master has", func() bool { return fmt.Sprintf("%s", s.read(other, "T")) == want })
		}
	})
}
