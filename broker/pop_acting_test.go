package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// A slave that acts as master serves POP: receipts of the master's are good once, what is popped and not acknowledged, there
// or here, is returned by another broker of the topic, each message once, and the master goes on behind it (cases B31, B35).
func TestPopOnActingMaster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes real time")
	}
	const pops = popConf + "popFromRetryProbability=0\npopCkStayBufferTime=2000\n"
	ns := startNameServer(t)
	at := func(conf string) string { return fmt.Sprintf("namesrvAddr=%s\n%s%s%s", ns, actingConf, pops, conf) }
	m := startReplica(t, at(""))
	m.eventually(func() bool { return !m.replica.isolated.Load() })
	s := startReplica(t, at("brokerRole=SLAVE\nbrokerId=1\n"))
	other := startReplica(t, fmt.Sprintf("namesrvAddr=%s\nbrokerName=broker-b\n%s", ns, pops))
	for _, b := range []*testBroker{m, other} {
		b.createTopic("T", 1, codec.PermRead|codec.PermWrite)
	}
	m.createGroup("g", func(*body.SubscriptionGroupConfig) {})
	for i := range 10 {
		m.mustSend("T", 0, "", fmt.Sprint("m", i))
	}
	m.waitQueue("T", 0, 10)
	got := m.popN("T", 4, 15*time.Second)
	require.Equal(t, []string{"m0", "m1", "m2", "m3"}, popTexts(got))
	m.mustAck(got[0])
	m.awaitCopy(s)
	s.eventually(func() bool {
		s.replica.sync.Load().SyncAll(t.Context())
		next, _ := s.offsets.Query("g", "T", 0)
		return !s.replica.isolated.Load() && m.replica.alive.Load() == 2 && next == 4
	})
	require.Equal(t, codec.RespSystemError, s.ack(got[1]).Code, "not on a slave")

	m.peer.Close()
	m.Broker.Close(t.Context())
	end := s.store.MaxPhyOffset()
	s.eventually(s.pop.Acting)
	s.mustAck(got[1])
	require.Equal(t, codec.RespNoMessage, s.ack(got[1]).Code, "it is good once")
	rest := s.popN("T", 32, 6*time.Second)
	require.Equal(t, []string{"m4", "m5", "m6", "m7", "m8", "m9"}, popTexts(rest))
	s.mustAck(rest[0])
	later, answer := s.change(rest[1], 8*time.Second)
	require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	s.mustAck(later)
	s.eventually(func() bool { next, _ := s.offsets.Query("g", "T", 0); return next == 10 })
	s.mustAck(rest[2]) // its check point is on the other broker by now
	require.Equal(t, codec.RespSystemError, s.call(codec.ReqChangeMessageInvisibleTime,
		&codec.ChangeInvisibleTimeRequestHeader{ConsumerGroup: "g", Topic: "T", ExtraInfo: rest[3].receipt.String(),
			Offset: rest[3].receipt.Offset, InvisibleTime: 60_000}, nil).Code)
	require.Equal(t, end, s.store.MaxPhyOffset(), "the slave's log stays the master's")

	var back []string
	take := func() {
		for _, p := range other.popN("T", 32, time.Minute) {
			require.EqualValues(t, 1, p.reconsume)
			other.mustAck(p)
			back = append(back, p.body)
		}
	}
	other.eventually(func() bool { take(); return len(back) >= 5 })
	require.NoError(t, s.offsets.Persist())

	m = start(t, setup{conf: at(""), dir: m.s.dir, prepare: func(b *Broker) { b.o.ListenHA = "127.0.0.1:0" }})
	m.eventually(func() bool { return !m.replica.isolated.Load() })
	s.eventually(func() bool { return !s.pop.Acting() })
	require.Empty(t, m.popN("T", 32, time.Minute), "the master goes on behind it")
	take()
	require.ElementsMatch(t, []string{"m2", "m3", "m7", "m8", "m9"}, back)
}
