package sim

import (
	"fmt"
	"os"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/require"
)

// scenario runs f in many worlds, which differ in all that is left to chance. f says what happens; then everything has to
// become whole again, with all that was promised.
func scenario(t *testing.T, cfg Config, f func(t *testing.T, c *Cluster)) {
	worlds := uint64(30)
	if testing.Short() || raceEnabled { // one goroutine: there is nothing to find for the detector
		worlds = 3
	}
	from := uint64(1)
	if *oneSeed != 0 {
		from, worlds = *oneSeed, 1
		if !*noTraces {
			cfg.Trace = os.Stderr
		}
	}
	for seed := from; seed < from+worlds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			c := NewCluster(seed, cfg)
			c.Start()
			await(t, c, recoverTime, "a first master", func() bool { return c.Master() != nil })
			f(t, c)
			(&nemesis{c: c}).stop()
			require.NoError(t, c.rest(), "again: go test ./internal/sim -run '^%s$' -seed %d", t.Name(), seed)
			for _, h := range c.W.Hosts {
				if h.proc != nil {
					h.proc.Kill()
				}
			}
		})
	}
}

// await lets time pass until cond holds.
func await(t *testing.T, c *Cluster, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	require.NoError(t, c.W.RunUntil(limit, cond))
	require.True(t, cond(), "after %v: %s: %s", limit, what, c.describe())
}

func pass(t *testing.T, c *Cluster, d time.Duration) {
	t.Helper()
	require.NoError(t, c.W.Run(d))
}

// other is a broker that is not the one.
func other(c *Cluster, h *Host) *Host {
	for _, b := range c.Brokers {
		if b != h {
			return b
		}
	}
	return nil
}

func inSet(c *Cluster, n int) func() bool {
	return func() bool { g := c.Group(); return g != nil && len(g.SyncStateSet) == n }
}

func usual(brokers int) Config {
	return Config{Controllers: 3, Brokers: brokers, Clients: 2, Queues: 2, Ack: AckAll}
}

// apache/rocketmq#10875: the liveness of a master was asked the wrong way round, so that one that hung, with its connection
// open, was never replaced though a slave lived.
func TestScenarioSilentMaster(t *testing.T) {
	scenario(t, usual(2), func(t *testing.T, c *Cluster) {
		await(t, c, time.Minute, "both in the set", inSet(c, 2))
		pass(t, c, c.W.between(0, 3*time.Second))
		master, epoch := c.Master(), c.Group().MasterEpoch
		master.Freeze(time.Minute)
		await(t, c, 13*time.Second, "another master", func() bool { m := c.Master(); return m != nil && m != master })
		require.Greater(t, c.Group().MasterEpoch, epoch)
		before := c.W.Check.Counts["acked"]
		pass(t, c, 2*clientTimeout)
		require.Greater(t, c.W.Check.Counts["acked"], before)
	})
}

// apache/rocketmq#8380: a slave that died made an election, though the master lived.
func TestScenarioDeadSlave(t *testing.T) {
	scenario(t, usual(3), func(t *testing.T, c *Cluster) {
		await(t, c, time.Minute, "all in the set", inSet(c, 3))
		master, epoch := c.Master(), c.Group().MasterEpoch
		slave := other(c, master)
		switch c.W.Rand.IntN(3) {
		case 0:
			slave.Kill()
		case 1:
			slave.PowerOff()
		default:
			slave.Freeze(time.Minute)
		}
		await(t, c, 20*time.Second, "it is dropped from the set", inSet(c, 2))
		pass(t, c, 20*time.Second)
		require.Same(t, master, c.Master())
		require.Equal(t, epoch, c.Group().MasterEpoch)
	})
}

// apache/rocketmq#5663: the controllers have taken a slave into the SyncStateSet, and the answer is lost. What the master
// acknowledges alone from then on would be lost with it.
func TestScenarioAnswerToSetLost(t *testing.T) {
	scenario(t, usual(2), func(t *testing.T, c *Cluster) {
		g := c.Group()
		require.Len(t, g.SyncStateSet, 1)
		await(t, c, time.Minute, "both in the set", inSet(c, 2)) // that very moment
		master := c.Master()
		for _, h := range c.Controllers {
			c.W.Net.Cut(h, master)
		}
		slave := other(c, master)
		if c.W.chance(0.5) { // and it cannot follow any more
			c.W.Net.Cut(master, slave)
		}
		pass(t, c, c.W.between(0, 8*time.Second))
		master.Kill()
		await(t, c, 30*time.Second, "the other one is master", func() bool { return c.Master() == slave })
		pass(t, c, time.Second)
	})
}

// apache/rocketmq#7689: the leading controller and the master are killed at once and come back at once. The master's log has
// messages that its slaves do not have; new ones must not get their queue offsets.
func TestScenarioLeaderAndMasterKilled(t *testing.T) {
	scenario(t, usual(2), func(t *testing.T, c *Cluster) {
		await(t, c, time.Minute, "both in the set", inSet(c, 2))
		for range 3 {
			await(t, c, time.Minute, "a master", func() bool { return c.Master() != nil })
			master := c.Master()
			if c.W.chance(0.7) { // there is something that the slave does not have
				c.W.Net.Cut(master, other(c, master))
				pass(t, c, c.W.between(0, time.Second))
			}
			var leader *Host
			for _, h := range c.Controllers {
				if h.proc.(*controllerProc).s.Node() == c.Leader() {
					leader = h
				}
			}
			master.Kill()
			leader.Kill()
			pass(t, c, c.W.between(0, 300*time.Millisecond))
			master.Start()
			leader.Start()
			c.W.Net.Heal()
			pass(t, c, c.W.between(0, 10*time.Second))
		}
	})
}

// A master loses its power, with it what its disk did not have, and is back before anybody has missed it. The slave has
// everything: it has to become master, or the master would write other messages where acknowledged ones were.
func TestScenarioMasterLosesPower(t *testing.T) {
	cfg := usual(2)
	cfg.NoExcuse = true
	scenario(t, cfg, func(t *testing.T, c *Cluster) {
		await(t, c, time.Minute, "both in the set", inSet(c, 2))
		pass(t, c, c.W.between(0, 2*time.Second))
		master := c.Master()
		master.PowerOff()
		pass(t, c, c.W.between(0, 12*time.Second))
		master.Start()
		pass(t, c, 30*time.Second)
	})
}

// The first master dies with the first message, which nobody else has. The next one has an empty log, and with
// minInSyncReplicas=2 takes no message before the old one follows it: that has to put its message aside.
func TestScenarioFirstMasterDiesWithFirstMessage(t *testing.T) {
	cfg := usual(2)
	cfg.Ack = AckTwo
	scenario(t, cfg, func(t *testing.T, c *Cluster) {
		await(t, c, time.Minute, "both in the set", inSet(c, 2)) // that very moment
		master := c.Master()
		slave := other(c, master)
		c.W.Net.Cut(master, slave)
		log := master.proc.(*brokerProc).log
		await(t, c, 10*time.Second, "a message", func() bool { return log.MaxPhyOffset() > 0 })
		pass(t, c, c.W.between(0, time.Second))
		master.Kill()
		await(t, c, 30*time.Second, "the other one is master", func() bool { return c.Master() == slave })
		c.W.Net.Heal()
		require.Zero(t, slave.proc.(*brokerProc).log.MaxPhyOffset())
		pass(t, c, c.W.between(0, 5*time.Second))
	})
}
