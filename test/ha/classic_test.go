//go:build interop

package ha

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// A pair of brokers: the slave, started late, gets the whole log and follows over many files and large messages; consumers
// read the same from both; both go on after a restart of either.
func TestPair(t *testing.T) {
	f := func(master, slave string) {
		t.Run(fmt.Sprintf("%s-%s", master, slave), func(t *testing.T) {
			c := newCluster(t)
			m := c.node(master, 0).start()
			m.fill("T", 100)
			s := c.node(slave, 1).start()
			awaitSame(t, m, s)
			m.fill("T", 1500)
			for range 3 {
				require.Equal(t, codec.RespSuccess, m.send("T", 1, make([]byte, 700<<10)))
			}
			awaitSame(t, m, s)
			awaitQueues(t, m, s, "T")
			s.stop()
			m.fill("T", 300)
			s = c.node(slave, 1).start()
			awaitSame(t, m, s)
			m.stop()
			m = c.node(master, 0).start()
			m.fill("T", 100)
			awaitSame(t, m, s)
			awaitQueues(t, m, s, "T")
		})
	}
	f(ours, java53)
	f(java53, ours)
	f(ours, ours)
	if !testing.Short() {
		f(ours, java49)
		f(java49, ours)
	}
}

// What a producer is answered with one slave: the promised copies, or a code that says they are missing.
func TestSyncMaster(t *testing.T) {
	f := func(master, slave string, props ...string) {
		t.Run(fmt.Sprintf("%s-%s-%d", master, slave, len(props)), func(t *testing.T) {
			c := newCluster(t)
			m := c.node(master, 0, append(props, "brokerRole=SYNC_MASTER")...).start()
			require.Equal(t, codec.RespSlaveNotAvailable, m.send("T", 0, []byte("alone")))
			s := c.node(slave, 1).start()
			require.Eventually(t, func() bool { return m.send("T", 0, []byte("x")) == codec.RespSuccess }, patience, tick)
			for i := range 50 {
				require.Equal(t, codec.RespSuccess, m.send("T", 0, []byte("both")), "message %d", i)
			}
			awaitSame(t, m, s)
			s.stop()
			require.Eventually(t, func() bool { return m.send("T", 0, []byte("y")) == codec.RespSlaveNotAvailable }, patience,
				tick)
		})
	}
	f(ours, java53)
	f(ours, java53, "inSyncReplicas=2")
	f(ours, ours)
}

// A Java pair becomes a Skylark pair, one node at a time on its own directory, and a Java pair again (docs/ha.md).
func TestLiveMigration(t *testing.T) {
	c := newCluster(t)
	m, s := c.node(java53, 0).start(), c.node(java53, 1).start()
	m.fill("T", 200)
	awaitSame(t, m, s)
	for _, kind := range []string{ours, java53} {
		s.stop()
		s = c.node(kind, 1).start()
		m.fill("T", 50)
		awaitSame(t, m, s)
		m.stop()
		m = c.node(kind, 0).start()
		m.fill("T", 50)
		awaitSame(t, m, s)
		awaitQueues(t, m, s, "T")
	}
	total := 0
	for q := range int32(4) {
		total += len(m.pull("T", q))
	}
	require.Equal(t, 400, total)
}
