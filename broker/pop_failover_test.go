package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// A slave that becomes the master goes on with what its master popped: receipts are good once, what was acknowledged
// stays away, what was not comes back.
func TestPopFailover(t *testing.T) {
	const invisible = 12 * time.Second // the slave is up by then
	if testing.Short() {
		t.Skip("takes real time")
	}
	m := startReplica(t, popConf+"popFromRetryProbability=0\n")
	m.createTopic("T", 1, codec.PermRead|codec.PermWrite)
	for _, name := range []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"} {
		m.mustSend("T", 0, "", name)
	}
	m.waitQueue("T", 0, 8)
	s := startSlaveOf(t, m, popConf)
	s.eventually(func() bool { return s.topics.Get("T") != nil })
	got := m.popN("T", 6, invisible)
	require.Len(t, got, 6)
	m.mustAck(got[0])
	m.mustAck(got[1])
	m.awaitCopy(s)
	s.replica.sync.Load().SyncAll(t.Context())
	require.Equal(t, codec.RespSystemError, s.ack(got[2]).Code, "not on a slave")
	m.stop()
	s.stop()
	b := start(t, setup{conf: popConf + "popFromRetryProbability=0\n", dir: s.s.dir})
	b.eventually(func() bool { return b.store.DispatchBehindBytes() == 0 })
	b.mustAck(got[2])
	require.Equal(t, codec.RespNoMessage, b.ack(got[2]).Code)
	rest := b.popN("T", 32, time.Minute)
	require.Equal(t, []string{"m6", "m7"}, popTexts(rest), "the progress is the master's")
	for _, r := range rest {
		b.mustAck(r)
	}
	var back []string
	for len(back) < 3 {
		answer := await(t, b.begin(popRequest("T", -1, 32, time.Minute, 20*time.Second, nil)))
		list, _ := popAnswer(t, answer)
		require.NotEmpty(t, list, "%v came back", back)
		for _, r := range list {
			require.EqualValues(t, 1, r.reconsume)
			b.mustAck(r)
		}
		back = append(back, popTexts(list)...)
	}
	require.ElementsMatch(t, []string{"m3", "m4", "m5"}, back)
	b.stop()
}
