package broker

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// startReplica opens a broker that listens for slaves.
func startReplica(t *testing.T, conf string) *testBroker {
	t.Helper()
	return start(t, setup{conf: conf, prepare: func(b *Broker) { b.o.ListenHA = "127.0.0.1:0" }})
}

const slaveConf = "brokerRole=SLAVE\nbrokerId=1\nslaveReadEnable=true\n"

// startSlaveOf opens a slave and tells it who its master is, as a registration does.
func startSlaveOf(t *testing.T, master *testBroker, conf string) *testBroker {
	t.Helper()
	s := startReplica(t, slaveConf+conf)
	s.masterFound(master.Addr().String(), master.HAAddr().String())
	return s
}

func (b *testBroker) awaitCopy(slave *testBroker) {
	b.t.Helper()
	b.eventually(func() bool {
		return slave.store.MaxPhyOffset() == b.store.MaxPhyOffset() && slave.store.DispatchBehindBytes() == 0
	})
}

// What a slave does and what it leaves to its master (Java BrokerRole.SLAVE).
func TestSlaveRules(t *testing.T) {
	m := startReplica(t, "slaveReadEnable=true")
	m.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	for range 10 {
		m.mustSend("T", 0, "", "x")
	}
	s := startSlaveOf(t, m, "")
	m.awaitCopy(s)
	s.eventually(func() bool { return s.topics.Get("T") != nil })
	answer, h := s.pull("T", 0, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.Len(t, bodies(t, answer), 10)
	require.EqualValues(t, codec.MasterID, h.SuggestWhichBrokerID, "it has caught up")
	answer, h = s.pull("T", 0, 10)
	require.Equal(t, codec.RespPullRetryImmediately, answer.Code, "the master has what comes next")
	require.EqualValues(t, codec.MasterID, h.SuggestWhichBrokerID)

	require.Equal(t, codec.RespSystemBusy, s.send("T", 0, "", []byte("no")).Code)
	require.Equal(t, codec.RespSlaveNotAvailable, s.call(codec.ReqEndTransaction, nil, nil).Code)
	for _, code := range []int{codec.ReqConsumerSendMsgBack, codec.ReqPopMessage, codec.ReqAckMessage} {
		answer := s.call(code, nil, nil)
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "master")
	}
	require.Equal(t, m.store.MaxPhyOffset(), s.store.MaxPhyOffset(), "nothing of this was stored")

	var info body.HARuntimeInfo
	s.mustCall(codec.ReqGetBrokerHAStatus, nil, &info)
	require.False(t, info.Master)
	require.True(t, info.HAClientRuntimeInfo.Activated)
	info = body.HARuntimeInfo{}
	m.mustCall(codec.ReqGetBrokerHAStatus, nil, &info)
	require.True(t, info.Master)
	require.EqualValues(t, 1, info.InSyncSlaveNums)
	require.Len(t, info.HAConnectionInfo, 1)
	require.Equal(t, m.store.MaxPhyOffset(), info.MasterCommitLogMaxOffset)

	// Without its master the slave holds pulls, and leaves offsets that it may only not have reached yet.
	require.NoError(t, m.Close(t.Context()))
	s.eventually(func() bool { return s.replica.client.State() == 0 })
	answer, h = s.pull("T", 0, 10)
	require.Equal(t, codec.RespPullNotFound, answer.Code)
	answer, h = s.pull("T", 0, 500)
	require.Equal(t, codec.RespPullRetryImmediately, answer.Code)
	require.EqualValues(t, 500, h.NextBeginOffset)
}

func TestSlaveReadDisabled(t *testing.T) {
	s := startReplica(t, "brokerRole=SLAVE\nbrokerId=1")
	require.Equal(t, codec.RespSystemBusy, s.do(pullRequest("G", "T", 0, 0, 0)).Code)
}

// The tables follow the master; what consumers did on the slave while the master was away is told to it (case B31).
func TestSlaveTables(t *testing.T) {
	m := startReplica(t, "")
	m.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	for range 30 {
		m.mustSend("T", 0, "", "x")
	}
	m.createGroup("G", func(g *body.SubscriptionGroupConfig) { g.RetryMaxTimes = 3 })
	m.commit("G", "T", 0, 10)
	s := startSlaveOf(t, m, "")
	sync := func() { s.replica.sync.Load().SyncAll(t.Context()) }
	offset := func(b *testBroker) codec.QueueOffset { at, _ := b.offsets.Query("G", "T", 0); return at }
	m.awaitCopy(s)
	s.eventually(func() bool { return s.topics.Get("T") != nil && offset(s) == 10 && s.groups.Get("G") != nil })
	require.Equal(t, m.topics.DataVersion(), s.topics.DataVersion())
	require.EqualValues(t, 3, s.groups.Get("G").Config.RetryMaxTimes)

	m.commit("G", "T", 0, 12)
	sync()
	require.EqualValues(t, 12, offset(s))
	m.commit("G", "T", 0, 5) // on purpose
	sync()
	require.EqualValues(t, 5, offset(s))
	s.commit("G", "T", 0, 20) // a consumer without its master
	sync()
	require.EqualValues(t, 20, offset(s))
	require.EqualValues(t, 20, offset(m), "the master is told")
	sync()
	m.commit("G", "T", 0, 7)
	sync()
	require.EqualValues(t, 7, offset(s))

	m.createTopic("U", 2, codec.PermRead)
	sync()
	require.NotNil(t, s.topics.Get("U"))
	_, err := m.topics.Delete("U")
	require.NoError(t, err)
	m.offsets.DeleteTopic("T")
	sync()
	require.Nil(t, s.topics.Get("U"))
	_, ok := s.offsets.Query("G", "T", 0)
	require.False(t, ok)
}

// What a producer is answered by SYNC_MASTER.
func TestSyncMasterAnswers(t *testing.T) {
	f := func(conf string, alone int) {
		t.Helper()
		m := startReplica(t, "brokerRole=SYNC_MASTER\nslaveTimeout=20000\n"+conf)
		m.createTopic("T", 4, codec.PermRead|codec.PermWrite)
		require.Equal(t, alone, m.send("T", 0, "", []byte("alone")).Code)
		require.Equal(t, codec.RespSuccess, m.send("T", 0, "WAIT\x01false", []byte("nobody waits")).Code)
		s := startSlaveOf(t, m, "")
		m.awaitCopy(s)
		m.eventually(func() bool { return m.HA().InSyncReplicas() == 2 })
		for range 20 {
			m.mustSend("T", 1, "", "both")
			if alone == codec.RespSuccess { // nobody waits
				continue
			}
			require.Equal(t, m.store.MaxPhyOffset(), s.store.MaxPhyOffset(), "answered before the slave has it")
		}
		batch, err := codec.AppendBatchEntry(nil, codec.BatchEntry{Body: []byte("b")})
		require.NoError(t, err)
		answer := m.do(sendWith("T", batch, func(h *codec.SendMessageHeader) { h.Batch = true }))
		require.Equal(t, codec.RespSuccess, answer.Code)
		require.True(t, alone == codec.RespSuccess || m.store.MaxPhyOffset() == s.store.MaxPhyOffset())
	}
	f("", codec.RespSlaveNotAvailable)
	f("inSyncReplicas=2", codec.RespSlaveNotAvailable)
	f("haAckRule=java4", codec.RespSlaveNotAvailable)
	f("haAckRule=java5", codec.RespSuccess)
	f("flushDiskType=SYNC_FLUSH", codec.RespSlaveNotAvailable)
}

// A slave that says nothing more: the first send waits for slaveTimeout, and is stored (case B30).
func TestSyncMasterWithFrozenSlave(t *testing.T) {
	m := startReplica(t, "brokerRole=SYNC_MASTER\nslaveTimeout=200\nhaHousekeepingInterval=1500")
	m.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	conn, err := net.Dial("tcp", m.HAAddr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(make([]byte, 8))
	require.NoError(t, err)
	m.eventually(func() bool { return m.HA().InSyncReplicas() == 2 })
	answer := m.send("T", 0, "", []byte("x"))
	require.Equal(t, codec.RespFlushSlaveTimeout, answer.Code)
	m.eventually(func() bool { return m.HA().InSyncReplicas() == 1 })
	require.Equal(t, codec.RespSlaveNotAvailable, m.send("T", 0, "", []byte("y")).Code)
	m.waitQueue("T", 0, 2)
	m.eventually(func() bool { return strings.Contains(m.log.String(), "haHousekeepingInterval") }) // said last
}
