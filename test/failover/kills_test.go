//go:build interop && linux

package failover

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kill is one failover: how long after kill -9 of the master the controllers had another one, clients were told of it, and a
// message was acknowledged.
type kill struct{ elected, routed, sent time.Duration }

const (
	// killLimit is how long a group may take to have a master again, and healKill to be whole again: Java's slaves look for
	// their master every few seconds.
	killLimit = 60 * time.Second
	healKill  = 120 * time.Second
)

// TestKills kills masters, of our group and of one of Java's brokers, controllers and name server, and compares the times.
func TestKills(t *testing.T) {
	skipIfMissing(t)
	if *flagKills == 0 {
		t.Skip("a measurement, not a test: give -kills")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Time from kill -9 of the master of a pair (ms). Three controllers; defaults, but every replica "+
		"acknowledges; %d kills of each group.\n\n", *flagKills)
	out.WriteString("| group | until | min | p50 | p90 | max | mean |\n|---|---|---|---|---|---|---|\n")
	for _, kind := range []string{ours, java} {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, kind, shape{controllers: 3, brokers: 2})
			r := newRecord()
			epoch := c.epoch()
			l := startLoad(c, r)
			t.Cleanup(l.stop)
			c.eventually(readyTimeout, "producers send", func() bool { return len(r.since(ours, 0)) > 100 })
			var kills []kill
			for i := range *flagKills {
				k := killMaster(c, r)
				t.Logf("%s, kill %d: elected after %d ms, routed after %d ms, sent after %d ms", kind, i+1,
					k.elected.Milliseconds(), k.routed.Milliseconds(), k.sent.Milliseconds())
				kills = append(kills, k)
			}
			l.pause()
			r.setbacks = nil // masters die faster here than slaves copy progress
			f, err := check(c, r, c.epoch()-epoch+1, goGroup)
			l.resume()
			require.NoError(t, err)
			t.Logf("%s: acknowledged %d, lost %d, stored twice %d, %q", kind, f.acked, f.lost, f.twice, f.wrong)
			out.WriteString(killRows(kind, kills))
			fmt.Fprintf(&out, "| %s | acknowledged %d, lost %d, stored twice %d | | | | | |\n", kind, f.acked, f.lost, f.twice)
			if kind == ours {
				require.Empty(t, f.wrong)
			}
		})
	}
	t.Logf("\n%s", out.String())
	if *flagOut != "" {
		require.NoError(t, os.WriteFile(*flagOut, []byte(out.String()), 0o644))
	}
}

// killMaster ends the master, measures, and makes the group whole again.
func killMaster(c *cluster, r *record) kill {
	old := c.master()
	require.True(c.t, wait(c.ctx, calm))
	n := len(r.since(ours, 0))
	r.fault()
	at := time.Now()
	require.NoError(c.t, old.kill())
	var k kill
	c.eventually(killLimit, "another master is elected", func() bool {
		info := c.info()
		return info != nil && info.MasterBrokerID != nil && *info.MasterBrokerID > 0 && int(*info.MasterBrokerID) != old.id
	})
	k.elected = time.Since(at)
	c.eventually(killLimit, "clients are told", func() bool { r := c.route(); return r != "" && r != old.addr() })
	k.routed = time.Since(at)
	c.eventually(killLimit, "messages are acknowledged", func() bool {
		for _, a := range r.since(ours, n) {
			if a.addr != old.addr() {
				k.sent = a.end.Sub(at)
				return true
			}
		}
		return false
	})
	require.NoError(c.t, old.start())
	c.eventually(healKill, "the group is whole again", func() bool { return c.whole(len(c.brokers)) })
	return k
}

func killRows(kind string, kills []kill) string {
	var b strings.Builder
	f := func(until string, of func(k kill) time.Duration) {
		if len(kills) == 0 {
			return
		}
		var times []time.Duration
		var sum time.Duration
		for _, k := range kills {
			times = append(times, of(k))
			sum += of(k)
		}
		slices.Sort(times)
		at := func(share float64) int64 { return times[int(share*float64(len(times)-1))].Milliseconds() }
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d |\n", kind, until, at(0), at(0.5), at(0.9), at(1),
			(sum / time.Duration(len(kills))).Milliseconds())
	}
	f("another master is elected", func(k kill) time.Duration { return k.elected })
	f("clients are told", func(k kill) time.Duration { return k.routed })
	f("a message is acknowledged", func(k kill) time.Duration { return k.sent })
	return b.String()
}
