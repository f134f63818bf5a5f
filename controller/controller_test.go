package controller

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/controller/node"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
	"skylark/reactor"
	"skylark/reactor/mem"
)

// The life of a pair of brokers, as Java's ReplicasManager goes through it.
func TestPairOfBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		a, b := s.broker("b", 10911), s.broker("b", 10921)
		require.Nil(t, a.up().MasterBrokerID)
		require.EqualValues(t, 1, a.id)
		elected := a.elect()
		code(t, codec.RespSuccess, elected)
		h := answer[codec.ElectMasterResponseHeader](t, elected)
		require.Equal(t, a.addr, h.MasterAddress)
		require.EqualValues(t, 1, *h.MasterEpoch)
		members := content[body.ElectMasterResponseBody](t, elected)
		require.Equal(t, []int64{1}, members.SyncStateSet)
		require.Equal(t, map[int64]string{1: a.addr}, members.BrokerMemberGroup.BrokerAddrs)
		s.eventually("the master is told too", func() bool { h, _ := a.last(); return h.MasterBrokerID != nil })

		r := b.up()
		require.EqualValues(t, 2, b.id)
		require.EqualValues(t, 1, *r.MasterBrokerID)
		require.Equal(t, a.addr, r.MasterAddress)
		altered := a.alter(1, 1, 1, 2)
		code(t, codec.RespSuccess, altered)
		require.EqualValues(t, 2, answer[codec.AlterSyncStateSetResponseHeader](t, altered).NewSyncStateSetEpoch)
		require.Equal(t, []int64{1, 2}, content[body.SyncStateSet](t, altered).SyncStateSet)
		code(t, codec.RespControllerFencedSyncStateSetEpoch, a.alter(1, 1, 1))
		code(t, codec.RespControllerInvalidMaster, b.alter(1, 2, 2))
		stillThere := b.elect()
		code(t, codec.RespControllerMasterStillExist, stillThere)
		require.Equal(t, a.addr, answer[codec.ElectMasterResponseHeader](t, stillThere).MasterAddress)

		died := time.Now()
		a.dead()
		s.eventually("b is told that it is master", func() bool {
			h, set := b.last()
			return h.MasterBrokerID != nil && *h.MasterBrokerID == 2 && *h.MasterEpoch == 2 && *h.SyncStateSetEpoch == 3 &&
				len(set.SyncStateSet) == 1 && set.SyncStateSet[0] == 2
		})
		require.Less(t, time.Since(died), 2*time.Second)
		require.EqualValues(t, 2, *a.up().MasterBrokerID)
		info := a.call(codec.ReqControllerGetReplicaInfo, &codec.GetReplicaInfoRequestHeader{BrokerName: "b"}, nil)
		code(t, codec.RespSuccess, info)
		require.EqualValues(t, 2, *answer[codec.GetReplicaInfoResponseHeader](t, info).MasterEpoch)
		require.EqualValues(t, 3, content[body.SyncStateSet](t, info).SyncStateSetEpoch)
		code(t, codec.RespControllerBrokerMetadataNotExist,
			a.call(codec.ReqControllerGetReplicaInfo, &codec.GetReplicaInfoRequestHeader{BrokerName: "x"}, nil))
	})
}

// A master that is silent but connected is missed after the time it named; a connection that ends and comes back is not
// missed at all.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, "")
		a, _ := s.pair()
		a.dead()
		time.Sleep(time.Second)
		a.up()
		time.Sleep(30 * time.Second)
		require.EqualValues(t, 1, *s.info("b").MasterEpoch)
		a.silent()
		time.Sleep(9 * time.Second)
		require.EqualValues(t, 1, *s.info("b").MasterEpoch)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, *s.info("b").MasterEpoch)
		require.EqualValues(t, 2, *s.info("b").MasterBrokerID)
		a.stop, a.done = make(chan struct{}), make(chan struct{})
		close(a.done)
	})
}

// Nobody who has everything is alive: no master, until one of them comes back.
func TestNobodyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		a, b := s.broker("b", 10911), s.broker("b", 10921)
		a.up()
		a.elect()
		b.up() // not in the set
		a.dead()
		time.Sleep(20 * time.Second)
		info := s.info("b")
		require.Nil(t, info.MasterBrokerID)
		require.EqualValues(t, 2, *info.MasterEpoch)
		require.Len(t, info.InSyncReplicas, 1)
		require.False(t, *info.InSyncReplicas[0].Alive)
		require.True(t, *info.NotInSyncReplicas[0].Alive)
		code(t, codec.RespControllerElectMasterFailed, b.elect())
		a.up()
		s.eventually("elected without asking", func() bool { return s.info("b").MasterBrokerID != nil })
		require.EqualValues(t, 3, *s.info("b").MasterEpoch)
		s.eventually("both are told", func() bool {
			h, _ := b.last()
			return h.MasterEpoch != nil && *h.MasterEpoch == 3
		})

		// the operator would rather go on with what b has
		set := s.members[s.leader()].o.Config
		_, err := set.Apply(map[string]string{"enableElectUncleanMaster": "true"}, nil)
		require.NoError(t, err)
		a.dead()
		s.eventually("b is elected", func() bool { m := s.info("b").MasterBrokerID; return m != nil && *m == 2 })
	})
}

// Followers send brokers to the leader; when it goes another one leads, with all that was decided, and nobody is elected
// needlessly.
func TestControllersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		s.pair()
		for round := range 6 {
			old := s.leader()
			for i := range 3 {
				meta := s.call(i, codec.ReqControllerGetMetadataInfo, nil, nil)
				h := answer[codec.GetMetadataResponseHeader](t, meta)
				require.Equal(t, address(old), h.ControllerLeaderAddress)
				require.Equal(t, fmt.Sprint("n", old), h.ControllerLeaderID)
				require.Equal(t, "g", h.Group)
				require.Equal(t, i == old, h.IsLeader)
				require.Equal(t, "n0:127.0.0.1:9000;n1:127.0.0.1:9001;n2:127.0.0.1:9002;", h.Peers)
				if i != old {
					code(t, codec.RespControllerNotLeader, s.call(i, codec.ReqControllerGetReplicaInfo,
						&codec.GetReplicaInfoRequestHeader{BrokerName: "b"}, nil))
					code(t, codec.RespControllerNotLeader, s.call(i, codec.ReqControllerElectMaster,
						&codec.ElectMasterRequestHeader{BrokerName: "b", BrokerID: 2}, nil))
				}
			}
			if round%2 == 0 {
				s.crash(old, uint64(round))
			} else {
				stopped := time.Now()
				s.stop(old)
				s.leader()
				require.Less(t, time.Since(stopped), time.Second, "the leadership was handed on")
			}
			require.NotEqual(t, old, s.leader())
			info := s.info("b")
			require.EqualValues(t, 1, *info.MasterEpoch)
			require.EqualValues(t, 2, *info.SyncStateSetEpoch)
			s.start(old)
			time.Sleep(3 * time.Second)
		}
		for i := range 3 { // all at once: they know no broker, and wait before they elect
			s.stop(i)
		}
		for i := range 3 {
			s.start(i)
		}
		s.leader()
		require.EqualValues(t, 1, *s.info("b").MasterEpoch)
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 1, *s.info("b").MasterEpoch)
		require.EqualValues(t, 1, *s.info("b").MasterBrokerID)
	})
}

// The machine of the leading controller and of the master loses its power: the slave is told that it is master in less than
// 3 s, whichever member leads then.
func TestLeaderAndMasterDie(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed) // Raft's timeouts
			s := newSite(t, 3, "")
			a, b := s.pair()
			time.Sleep(20 * time.Second)
			leader, died := s.leader(), time.Now()
			s.darken(leader)
			a.dead()
			s.eventually("b is told", func() bool {
				h, _ := b.last()
				return h.MasterEpoch != nil && *h.MasterEpoch == 2 && *h.MasterBrokerID == 2
			})
			require.Less(t, time.Since(died), 3*time.Second)
			s.light()
		})
	}
}

// A leader that dies between an election and its notification: the next one tells the brokers.
func TestElectedButNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		a, b := s.pair()
		a.has(1) // in its file now
		b.has(1)
		time.Sleep(20 * time.Second)
		for i := range s.members {
			set := s.members[i].o.Config
			_, err := set.Apply(map[string]string{"notifyBrokerRoleChanged": fmt.Sprint(i != s.leader())}, nil)
			require.NoError(t, err)
		}
		a.dead()
		s.eventually("elected", func() bool { return *s.info("b").MasterEpoch == 2 })
		h, _ := b.last()
		require.True(t, h.MasterEpoch == nil || *h.MasterEpoch == 1)
		leader := s.leader()
		s.crash(leader, 1)
		s.eventually("b is told", func() bool {
			h, _ := b.last()
			return h.MasterEpoch != nil && *h.MasterEpoch == 2
		})
		b.mu.Lock()
		told := len(b.notified)
		b.mu.Unlock()
		b.has(2)
		time.Sleep(20 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		require.LessOrEqual(t, len(b.notified), told+1, "not again and again")
	})
}

// Without a majority nothing is answered with success, and the members say that nobody leads.
func TestNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "isProcessReadEvent=true\n")
		a := s.broker("b", 10911)
		a.up()
		a.elect()
		require.EqualValues(t, 1, *s.info("b").MasterEpoch)
		leader := s.leader()
		s.net.SetHook(func(from, to netip.AddrPort, _ int) mem.Fate {
			return mem.Fate{Lost: int(to.Port()) != 9000+leader && to.Port() >= 9000 && to.Port() < 9003}
		})
		answers := make(chan *codec.Command, 2)
		go func() { answers <- s.call(leader, codec.ReqControllerGetSyncStateData, nil, []string{"b"}) }()
		epoch := int32(1)
		go func() {
			answers <- callAt(t, a.client, address(leader), codec.ReqControllerAlterSyncStateSet,
				&codec.AlterSyncStateSetRequestHeader{BrokerName: "b", MasterBrokerID: &a.id, MasterEpoch: &epoch},
				&body.SyncStateSet{SyncStateSet: []int64{1, 2}, SyncStateSetEpoch: 1})
		}()
		for range 2 {
			require.Contains(t, []int{codec.RespControllerNotLeader, codec.RespControllerInvalidReplicas}, (<-answers).Code)
		}
		s.eventually("it knows that it does not lead", func() bool { return !s.members[leader].Leading() })
		code(t, codec.RespControllerNotLeader, s.call(leader, codec.ReqControllerGetNextBrokerID,
			&codec.GetNextBrokerIDRequestHeader{BrokerName: "b"}, nil))
		s.net.SetHook(nil)
	})
}

func TestAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, "")
		a, b := s.pair()
		leader := s.leader()
		elected := s.call(leader, codec.ReqControllerElectMaster,
			&codec.ElectMasterRequestHeader{ClusterName: "c", BrokerName: "b", BrokerID: 2, DesignateElect: true}, nil)
		code(t, codec.RespSuccess, elected)
		require.Equal(t, b.addr, answer[codec.ElectMasterResponseHeader](t, elected).MasterAddress)
		code(t, codec.RespControllerInvalidRequest, s.call(leader, codec.ReqControllerElectMaster,
			&codec.ElectMasterRequestHeader{BrokerName: "b", BrokerID: -1}, nil))

		clean := func(ids string) *codec.Command {
			return s.call(leader, codec.ReqCleanBrokerData,
				&codec.CleanBrokerDataRequestHeader{ClusterName: "c", BrokerName: "b", BrokerControllerIDsToClean: ids}, nil)
		}
		code(t, codec.RespControllerInvalidCleanBrokerMetadata, clean("1;x"))
		code(t, codec.RespControllerInvalidCleanBrokerMetadata, clean("1"))
		a.dead()
		time.Sleep(3 * time.Second)
		code(t, codec.RespSuccess, clean("1;"))
		require.Empty(t, s.info("b").NotInSyncReplicas)

		shown := string(s.call(leader, codec.ReqGetControllerConfig, nil, nil).Body)
		require.Contains(t, shown, "enableElectUncleanMaster=false\n")
		code(t, codec.RespNoPermission, s.call(leader, codec.ReqUpdateControllerConfig, nil, "controllerStorePath=/x"))
		code(t, codec.RespNoPermission, s.call(leader, codec.ReqUpdateControllerConfig, nil, "configBlackList="))
		code(t, codec.RespInvalidParameter, s.call(leader, codec.ReqUpdateControllerConfig, nil, "enableElectUncleanMaster=x"))
		code(t, codec.RespInvalidParameter, s.call(leader, codec.ReqUpdateControllerConfig, nil, "noSuchKey=1"))
		code(t, codec.RespSuccess, s.call(leader, codec.ReqUpdateControllerConfig, nil, "enableElectUncleanMaster=true\n"))
		code(t, codec.RespSuccess, s.call(leader, codec.ReqUpdateControllerConfig, nil, nil))
		require.True(t, s.members[leader].settings().EnableElectUncleanMaster)
		saved, err := vfs.ReadFile(s.disks[leader], "/c/controller.conf")
		require.NoError(t, err)
		require.Contains(t, string(saved), "enableElectUncleanMaster=true")
	})
}

// Requests that lack something are told what.
func TestBadRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, "")
		leader := s.leader()
		f := func(want int, word string, request int, header, content any) {
			t.Helper()
			a := s.call(leader, request, header, content)
			code(t, want, a)
			require.Contains(t, a.Remark, word)
		}
		one := int64(1)
		f(codec.RespInvalidParameter, "masterBrokerId", codec.ReqControllerAlterSyncStateSet, nil, "{}")
		f(codec.RespInvalidParameter, "brokerId", codec.ReqControllerRegisterBroker, nil, nil)
		f(codec.RespInvalidParameter, "appliedBrokerId", codec.ReqControllerApplyBrokerID, nil, nil)
		f(codec.RespControllerInvalidRequest, "registerCheckCode", codec.ReqControllerApplyBrokerID,
			&codec.ApplyBrokerIDRequestHeader{BrokerName: "b", AppliedBrokerID: &one}, nil)
		f(codec.RespControllerInvalidRequest, "brokerName", codec.ReqControllerElectMaster,
			&codec.ElectMasterRequestHeader{BrokerID: 1}, nil)
		f(codec.RespControllerInvalidRequest, "brokerName has 300 bytes", codec.ReqControllerElectMaster,
			&codec.ElectMasterRequestHeader{BrokerID: 1, BrokerName: strings.Repeat("x", 300)}, nil)
		f(codec.RespInvalidParameter, "body", codec.ReqControllerGetSyncStateData, nil, "{")
		f(codec.RespControllerInvalidRequest, "empty brokerId", codec.ReqBrokerHeartbeat,
			&codec.BrokerHeartbeatRequestHeader{ClusterName: "c", BrokerName: "b", BrokerAddr: "a"}, nil)
		f(codec.RespNoPermission, "does not know you", codec.ReqControllerRaft, nil, nil)
		f(codec.RespControllerBrokerNeedToBeRegistered, "hasn't been registered", codec.ReqControllerElectMaster,
			&codec.ElectMasterRequestHeader{BrokerID: 1, BrokerName: "b"}, nil)
		a := s.call(leader, codec.ReqControllerGetSyncStateData, nil, nil)
		code(t, codec.RespSuccess, a)
		require.Empty(t, content[body.BrokerReplicasInfo](t, a).ReplicasInfoTable)
		f(codec.RespRequestCodeNotSupported, "1007", codec.ReqGetBrokerEpochCache, nil, nil)
	})
}

// Strangers cannot take part in Raft.
func TestRaftMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		leader := s.leader()
		other := (leader + 1) % 3
		f := func(want int, group, from, to, content string) {
			t.Helper()
			req := codec.NewRequest(codec.ReqControllerRaft)
			req.Set(fieldGroup, group)
			req.Set(fieldFrom, from)
			req.Set(fieldTo, to)
			req.Body = []byte(content)
			a, err := s.client.Call(t.Context(), address(leader), req)
			require.NoError(t, err)
			code(t, want, a)
		}
		me, peer := fmt.Sprint("n", leader), fmt.Sprint("n", other)
		f(codec.RespNoPermission, "h", peer, me, "")
		f(codec.RespNoPermission, "g", "n9", me, "")
		f(codec.RespNoPermission, "g", me, me, "")
		f(codec.RespNoPermission, "g", peer, peer, "")
		f(codec.RespInvalidParameter, "g", peer, me, "\x00")
		f(codec.RespInvalidParameter, "g", peer, me, "\x00\x00\x00\x02\x00")
		f(codec.RespInvalidParameter, "g", peer, me, "\x00\x00\x00\x00") // of nobody
		f(codec.RespSuccess, "g", peer, me, "")
		require.True(t, s.members[leader].Leading())
	})
}

// A disk that fails ends the controller; the others go on.
func TestDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		a := s.broker("b", 10911)
		a.up()
		leader := s.leader()
		s.stop(leader)
		broken := errorfs.Wrap(s.disks[leader], errorfs.MustParse(`(sync "*.wal" after 3 err EIO)`))
		c, err := New(Options{Config: s.config(leader), FS: broken, Dialer: s.dialer(), Log: s.log,
			NewEngine: func(eo reactor.Options) reactor.Engine { return mem.NewOn(s.net, eo) }})
		require.NoError(t, err)
		require.NoError(t, c.Start())
		s.members[leader] = c
		for i := range 5 {
			name := fmt.Sprint("other", i)
			one := int64(1)
			a := s.call(s.leader(), codec.ReqControllerApplyBrokerID,
				&codec.ApplyBrokerIDRequestHeader{BrokerName: name, AppliedBrokerID: &one, RegisterCheckCode: "a;1"}, nil)
			code(t, codec.RespSuccess, a)
			time.Sleep(time.Second) // so that each is written alone
		}
		s.eventually("it fails", func() bool { return c.Err() != nil })
		<-c.Failed()
		require.ErrorIs(t, c.Err(), syscall.EIO)
		require.False(t, c.Leading())
		refused := s.call(leader, codec.ReqControllerGetReplicaInfo, &codec.GetReplicaInfoRequestHeader{BrokerName: "b"}, nil)
		code(t, codec.RespSystemError, refused)
		require.Contains(t, refused.Remark, "input/output error")
		require.Empty(t, s.call(leader, codec.ReqControllerGetMetadataInfo, nil, nil).Get("controllerLeaderAddress"))
		require.EqualValues(t, 0, *s.info("b").MasterEpoch)
		require.NoError(t, c.Close(t.Context()))
		s.members[leader] = nil
		s.start(leader)
		require.EqualValues(t, 0, *s.info("b").MasterEpoch)
	})
}

func TestMembers(t *testing.T) {
	f := func(word, text string) {
		t.Helper()
		set := config.NewControllerSet()
		file, err := config.Parse(text, "f")
		require.NoError(t, err)
		_, err = set.Load(file)
		require.NoError(t, err)
		c, err := New(Options{Config: set, Log: slog.New(slog.DiscardHandler)})
		if word != "" {
			require.ErrorContains(t, err, word)
			return
		}
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
	}
	const g = "controllerDLegerGroup=g\n"
	f("controllerDLegerPeers is missing", g+"controllerDLegerSelfId=n0")
	f("controllerDLegerSelfId is missing", g+"controllerDLegerPeers=n0-a:1")
	f("controllerDLegerGroup is missing", "controllerDLegerPeers=n0-a:1\ncontrollerDLegerSelfId=n0")
	f(`"n0a:1" is not id-host:port`, g+"controllerDLegerPeers=n0a:1\ncontrollerDLegerSelfId=n0")
	f(`"a" is not host:port`, g+"controllerDLegerPeers=n0-a\ncontrollerDLegerSelfId=n0")
	f("controllerDLegerSelfId=n1 is not in", g+"controllerDLegerPeers=n0-a:1;\ncontrollerDLegerSelfId=n1")
	f("", g+"controllerDLegerPeers= n0-my-host:1; n1-[::1]:2\ncontrollerDLegerSelfId=n1")
	f("", "controllerType=jRaft\njRaftServerId=localhost:9881")
	f("jRaftServerId=x is not in", "controllerType=jRaft\njRaftServerId=x")
	f("jRaftInitConf has 3 members, jRaftControllerRPCAddr 1", "controllerType=jRaft\njRaftControllerRPCAddr=a:1")
	f("host:port", "controllerType=jRaft\njRaftControllerRPCAddr=a,b:1,c:1")
	_, err := New(Options{})
	require.ErrorContains(t, err, "Config")

	set := config.NewControllerSet()
	file, err := config.Parse("controllerType=jRaft\njRaftServerId=localhost:9881", "f")
	require.NoError(t, err)
	_, err = set.Load(file)
	require.NoError(t, err)
	ms, err := membersOf(set.Controller())
	require.NoError(t, err)
	require.Equal(t, member{"localhost:9881", "localhost:9771"}, ms.self)
	require.Equal(t, "0.0.0.0:9771", ms.listenAddr("0.0.0.0"))
	require.NotZero(t, node.RaftID(ms.self.id))
}
