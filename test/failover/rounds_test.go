//go:build interop && linux

package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

const (
	// roundsPerCluster bounds how long one cluster is used.
	roundsPerCluster = 5
	// calm is how long all is well before a fault.
	calm = 2 * time.Second
	// healTimeout is how long a group may take to be whole again.
	healTimeout = 60 * time.Second
)

// shapes are in effect one after the other; the seed says which is first.
var shapes = []shape{
	{controllers: 3, brokers: 2},
	{controllers: 3, brokers: 3, quorum: true},
	{controllers: 1, brokers: 2, patient: true},
	{controllers: 3, brokers: 3},
}

// outcome is one line of the table's source.
type outcome struct {
	fault       *fault
	limit       time.Duration
	unavailable time.Duration
	javaWaited  time.Duration
	again       int
	findings
}

// TestRounds lets one thing after the other fail under load.
func TestRounds(t *testing.T) {
	skipIfMissing(t)
	for name := range strings.SplitSeq(*flagOnly, ";") {
		require.True(t, name == "" || slices.ContainsFunc(faults, func(f fault) bool { return f.name == name }),
			"-only: there is no fault %q", name)
	}
	rng := rand.New(rand.NewPCG(*flagSeed, 0))
	first := rng.IntN(len(shapes))
	var all []outcome
	d := &deck{rng: rng}
	for done, n := 0, 0; done < *flagRounds; n++ {
		sh := shapes[(first+n)%len(shapes)]
		rounds := min(roundsPerCluster, *flagRounds-done)
		done += rounds
		name := fmt.Sprintf("seed-%d-cluster-%d-%s", *flagSeed, n, sh)
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, ours, sh)
			s := startSession(t, c, rng)
			for range rounds {
				f := d.draw(c)
				if f == nil && *flagOnly != "" {
					t.Skipf("this cluster can have none of -only %q", *flagOnly)
				}
				require.NotNil(t, f, "there are faults that every cluster can have")
				all = append(all, s.round(f))
			}
		})
	}
	t.Logf("seed %d\n%s", *flagSeed, table(all))
}

// deck gives every fault once before it gives one twice.
type deck struct {
	rng  *rand.Rand
	left []*fault
}

func (d *deck) draw(c *cluster) *fault {
	for range 2 {
		for i, f := range d.left {
			if f.skip(c) == "" {
				d.left = slices.Delete(d.left, i, i+1)
				return f
			}
		}
		var more []*fault
		for i := range faults {
			if f := &faults[i]; wanted(f.name) && !slices.Contains(d.left, f) {
				more = append(more, f)
			}
		}
		d.rng.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		d.left = append(d.left, more...)
	}
	return nil
}

func wanted(name string) bool {
	return *flagOnly == "" || slices.Contains(strings.Split(*flagOnly, ";"), name)
}

// session is a cluster under load.
type session struct {
	t      *testing.T
	c      *cluster
	rng    *rand.Rand
	r      *record
	ours   *load
	java   *javaLoad
	groups []string
	epoch  int // when the load began
	rounds int
	before findings // what earlier rounds counted
}

func startSession(t *testing.T, c *cluster, rng *rand.Rand) *session {
	t.Helper()
	s := &session{t: t, c: c, rng: rng, r: newRecord(), groups: []string{goGroup}}
	s.epoch = c.epoch()
	s.ours = startLoad(c, s.r)
	t.Cleanup(s.ours.stop)
	if *flagJava {
		s.java = startJavaLoad(t, c, s.r)
		s.groups = append(s.groups, javaGroup)
		t.Cleanup(func() { require.NoError(t, s.java.stop()) })
	}
	c.eventually(readyTimeout, "our producers send", func() bool { return len(s.r.since(ours, 0)) > 100 })
	return s
}

// round is one fault and the checks after it.
func (s *session) round(f *fault) outcome {
	t, c := s.t, s.c
	s.rounds++
	sc := &scene{c: c, rng: s.rng, master: c.master(), leader: c.leader()}
	slaves := c.slaves()
	sc.slave = slaves[s.rng.IntN(len(slaves))]
	lasts := f.lasts(s.rng)
	require.True(t, wait(c.ctx, calm))
	nOurs, nJava := len(s.r.since(ours, 0)), len(s.r.since(java, 0))
	_, againBefore := s.r.count()

	s.r.fault()
	from := time.Now()
	heal, err := f.begin(sc)
	require.NoError(t, err, f.name)
	what := fmt.Sprintf("round %d: %s %s (master %s, slave %s, leader %s) for %v", s.rounds, f.name, sc.detail, sc.master,
		sc.slave, sc.leader, lasts.Round(time.Millisecond))
	t.Log(what)
	ghost := s.haunt(f, sc.master)
	require.True(t, wait(c.ctx, lasts))
	require.NoError(t, heal(), f.name)
	healed := time.Now()
	c.eventually(healTimeout, what+": the group is whole again", func() bool { return c.whole(len(c.brokers)) })
	to := time.Now()
	ghost()

	o := outcome{fault: f, limit: f.bound(c.shape), unavailable: gap(s.r.since(ours, nOurs), from, to)}
	if s.java != nil {
		require.NoError(t, s.java.pause())
		o.javaWaited = gap(s.r.since(java, nJava), from, to)
	}
	s.ours.pause()
	o.findings, err = check(c, s.r, c.epoch()-s.epoch+1, s.groups...)
	if err != nil {
		o.blame("%v", err)
	}
	before := s.before
	s.before = o.findings
	o.acked, o.lost, o.twice = o.acked-before.acked, o.lost-before.lost, o.twice-before.twice
	s.ours.resume()
	if s.java != nil {
		require.NoError(t, s.java.resume())
	}
	_, again := s.r.count()
	o.again = again - againBefore
	t.Logf("%s: unavailable %d ms, Java waited %d ms, whole %d ms after it was healed, acknowledged %d, lost %d, "+
		"stored twice %d, delivered twice %d, progress lost %d ms", f.name, o.unavailable.Milliseconds(),
		o.javaWaited.Milliseconds(), to.Sub(healed).Milliseconds(), o.acked, o.lost, o.twice, o.again, o.setback.Milliseconds())
	if o.unavailable > o.limit {
		o.blame("unavailable for %v, more than %v", o.unavailable, o.limit)
	}
	for _, w := range o.wrong {
		t.Errorf("%s: %s", what, w)
	}
	return o
}

// haunt sends to the broker that was master, as a client that knows of no other, until it is told to end. What it gets
// acknowledged counts as everything else.
func (s *session) haunt(f *fault, old *server) (end func()) {
	if !f.old {
		return func() {}
	}
	ctx, cancel := context.WithCancel(s.c.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seq := 0; wait(ctx, retryPause); seq++ {
			key := fmt.Sprintf("old-%d-%d", s.rounds, seq)
			call, cancel := context.WithTimeout(ctx, callPatience)
			start := time.Now()
			res, err := s.ours.client.Send(call, old.addr(), &codec.SendMessageHeader{ProducerGroup: []byte("P-old"),
				Topic: []byte(topic), QueueID: int32(seq % queues)}, []byte(key+" "))
			if err == nil && res.Code == codec.RespSuccess {
				s.r.ack("old", acked(key, res, start))
			}
			cancel()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// table sums up rounds by fault.
func table(all []outcome) string {
	var b strings.Builder
	b.WriteString("| fault | rounds | unavailable ms p50 | max | limit | Java client waited ms max | acknowledged | lost | " +
		"stored twice | delivered twice | progress lost ms max |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range faults {
		var times []time.Duration
		var sum outcome
		for _, o := range all {
			if o.fault != &faults[i] {
				continue
			}
			times = append(times, o.unavailable)
			sum.limit = max(sum.limit, o.limit)
			sum.javaWaited = max(sum.javaWaited, o.javaWaited)
			sum.acked, sum.lost, sum.twice, sum.again = sum.acked+o.acked, sum.lost+o.lost, sum.twice+o.twice, sum.again+o.again
			sum.setback = max(sum.setback, o.setback)
		}
		if len(times) == 0 {
			continue
		}
		slices.Sort(times)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", faults[i].name, len(times),
			times[len(times)/2].Milliseconds(), times[len(times)-1].Milliseconds(), sum.limit.Milliseconds(),
			sum.javaWaited.Milliseconds(), sum.acked, sum.lost, sum.twice, sum.again, sum.setback.Milliseconds())
	}
	return b.String()
}
