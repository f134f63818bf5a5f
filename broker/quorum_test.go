package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

const quorumConf = "haAckRule=majority\ntotalReplicas=3\n"

// What haAckRule=majority promises: every message that was acknowledged is on all replicas that can be elected, a majority
// at least; one of three may be lost, two may not, and whoever is elected has everything.
func TestQuorum(t *testing.T) {
	g := startGuided(t)
	a, b, c := g.broker(quorumConf), g.broker(quorumConf), g.broker(quorumConf)
	a.createTopic("T", 4, codec.PermRead|codec.PermWrite)
	g.inSync(a, 3)
	sent := 0
	send := func(to *testBroker, on ...*testBroker) {
		t.Helper()
		to.mustSend("T", 0, "", fmt.Sprint(sent))
		sent++
		for _, r := range on {
			require.Equal(t, to.store.MaxPhyOffset(), r.store.MaxPhyOffset(), "acknowledged before the replica has it")
		}
	}
	for range 50 {
		send(a, b, c)
	}

	c.stop()
	for range 50 {
		send(a, b)
	}

	b.peer.Close()
	b.stop()
	a.eventually(func() bool { set, _ := a.replica.switching.ha.SyncStateSet(); return len(set) == 1 })
	end := a.store.MaxPhyOffset()
	answer := a.send("T", 0, "", []byte("no"))
	require.Equal(t, codec.RespSystemError, answer.Code)
	require.Contains(t, answer.Remark, "in-sync replicas not enough")
	require.Equal(t, end, a.store.MaxPhyOffset(), "nothing was stored")

	b = start(t, b.s)
	g.inSync(a, 2)
	send(a, b)
	a.peer.Close()
	a.stop()
	b.eventually(func() bool { return !b.isSlave() })
	b.waitQueue("T", 0, sent)
	require.Equal(t, codec.RespSystemError, b.send("T", 0, "", []byte("no")).Code, "alone it is no majority")
	a = start(t, a.s)
	g.inSync(b, 2)
	send(b, a)
	var got []string
	for _, rec := range b.all("T", 0) {
		got = append(got, string(rec.Body))
	}
	require.Len(t, got, sent)
	for i, text := range got {
		require.Equal(t, fmt.Sprint(i), text)
	}
}
