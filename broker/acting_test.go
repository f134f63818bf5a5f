package broker

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/internal/vfs"
	"skylark/namesrv"
	"skylark/reactor/engines"
)

// startNameServer runs one with supportActingMaster; it gives its address.
func startNameServer(t *testing.T) string {
	t.Helper()
	set := config.NewNamesrvSet()
	f, err := config.Parse("supportActingMaster=true\nnotifyMinBrokerIdChanged=true\nkvConfigPath=/kv.json\n"+
		"scanNotActiveBrokerInterval=100\n", "namesrv.conf")
	require.NoError(t, err)
	_, err = set.Load(f)
	require.NoError(t, err)
	ns, err := namesrv.New(namesrv.Options{Config: set, FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler),
		NewEngine: engines.ByName("epoll", slog.Default()), Listen: []string{"127.0.0.1:0"}})
	require.NoError(t, err)
	require.NoError(t, ns.Start())
	t.Cleanup(func() { _ = ns.Close(t.Context()) })
	return ns.Addr().String()
}

const actingConf = "enableSlaveActingMaster=true\nenableRemoteEscape=true\ntotalReplicas=2\nbrokerHeartbeatInterval=100\n" +
	"syncBrokerMemberGroupPeriod=100\nbrokerNotActiveTimeoutMillis=1500\nslaveReadEnable=true\nmessageDelayLevel=1s 2s 3s\n" +
	"haSendHeartbeatInterval=200\nhaHousekeepingInterval=2000\ntransactionCheckInterval=300\ntransactionTimeOut=3600000\n"

// A slave acts as master while there is none: what is delayed goes to another broker, consumers read here and commit here;
// the master comes online when the slave follows it and its progress was taken back (cases B31).
func TestActingMaster(t *testing.T) {
	ns := startNameServer(t)
	at := func(conf string) string { return fmt.Sprintf("namesrvAddr=%s\n%s%s", ns, actingConf, conf) }
	m := startReplica(t, at(""))
	m.eventually(func() bool { return !m.replica.isolated.Load() })
	s := startReplica(t, at("brokerRole=SLAVE\nbrokerId=1\n"))
	other := startReplica(t, fmt.Sprintf("namesrvAddr=%s\nbrokerName=broker-b\n", ns))
	for _, b := range []*testBroker{m, other} {
		b.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	}
	for range 10 {
		m.mustSend("T", 0, "", "x")
	}
	m.awaitCopy(s)
	s.eventually(func() bool {
		s.replica.sync.Load().SyncAll(t.Context())
		return !s.replica.isolated.Load() && s.topics.Get("T") != nil && m.replica.alive.Load() == 2
	})
	require.False(t, s.replica.acting.Load())
	m.mustSend("T", 0, "DELAY\x013", "late")
	settled := m.sendHalf("T", "pg", "settled", "k", "v")
	m.sendHalf("T", "pg", "open", codec.PropDelayTimeLevel, "1")
	m.mustEnd(settled, codec.SysFlagTransactionRollback)
	m.awaitCopy(s)

	end := m.store.MaxPhyOffset()
	m.peer.Close()
	m.Broker.Close(t.Context())
	s.eventually(func() bool { return s.replica.acting.Load() })
	other.eventually(func() bool {
		for q := range 4 {
			for _, rec := range other.all("T", q) {
				if string(rec.Body) == "late" {
					return true
				}
			}
		}
		return false
	})
	other.eventually(func() bool { return other.Transactions().Stats().Open == 1 })
	s.eventually(func() bool { at, _ := s.offsets.Query(codec.TransGroup, codec.HalfTopic, 0); return at == 2 })
	require.Equal(t, end, s.store.MaxPhyOffset(), "the slave's log stays the master's")
	require.Len(t, other.all(codec.HalfTopic, 0), 1)
	half := other.all(codec.HalfTopic, 0)[0]
	require.Equal(t, "open", string(half.Body))
	level, _ := half.Property(codec.PropDelayTimeLevel)
	require.Equal(t, "1", string(level))
	group, _ := half.Property(codec.PropProducerGroup)
	require.Equal(t, "pg", string(group))
	s.createGroup("G", func(*body.SubscriptionGroupConfig) {})
	s.commit("G", "T", 0, 9)
	require.NoError(t, s.offsets.Persist())

	m = start(t, setup{conf: at(""), dir: m.s.dir, prepare: func(b *Broker) { b.o.ListenHA = "127.0.0.1:0" }})
	m.eventually(func() bool { return !m.replica.isolated.Load() })
	got, ok := m.offsets.Query("G", "T", 0)
	require.True(t, ok)
	require.EqualValues(t, 9, got, "taken back before the master was seen by anybody")
	s.eventually(func() bool { return !s.replica.acting.Load() && s.replica.client.State() != 0 })
	at2, _ := m.offsets.Query(codec.TransGroup, codec.HalfTopic, 0)
	require.EqualValues(t, 2, at2, "the other broker has it now")
	m.sendHalf("T", "pg", "new", "k", "v")
	m.eventually(func() bool { return m.Transactions().Stats().Open == 1 })
	m.mustSend("T", 1, "", "again")
	m.awaitCopy(s)
	require.Never(t, func() bool { return len(m.all("T", 0)) > 10 }, 300*time.Millisecond, 50*time.Millisecond,
		"the delayed message was delivered elsewhere already")
}

// Without the escape what is delayed waits for the master.
func TestActingMasterWithoutEscape(t *testing.T) {
	b := startReplica(t, "brokerRole=SLAVE\nbrokerId=1\nenableSlaveActingMaster=true")
	b.replica.acting.Store(true)
	e := escapeStore{b.store, b.Broker}
	put := e.Append(&codec.Message{Topic: "T", Body: []byte("x")})
	require.ErrorIs(t, put.Err, errEscapeOff)
	require.Zero(t, b.store.MaxPhyOffset())
}
