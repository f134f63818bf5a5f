//go:build interop && linux

package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// slowness of a link.
type slowness struct {
	kbit  int
	delay time.Duration // if the kernel can
}

// The longest that sends may be refused.
const (
	// anInstant is for what does not touch the master or what it waits for: the time a machine with few processors may take.
	anInstant = time.Second
	// aFailover is from the end of a master's process to the next master's first answer.
	aFailover = 3 * time.Second
	// aSilence is the same when nothing says that the master is gone.
	aSilence = 13 * time.Second
	// aShrink is until a replica that does not answer has left the SyncStateSet.
	aShrink = 18 * time.Second
)

// fault is one kind of round.
type fault struct {
	name string
	// limit is the longest that sends may be refused.
	limit time.Duration
	// least and most bound how long it lasts.
	least, most time.Duration
	// skip tells why a cluster cannot have it.
	skip func(c *cluster) string
	// begin does the harm and gives what undoes it.
	begin func(s *scene) (heal func() error, err error)
	// old tells that the master may believe that it still is one: somebody goes on sending to it.
	old bool
}

// scene is what a fault happens to.
type scene struct {
	c      *cluster
	rng    *rand.Rand
	master *server
	slave  *server // one of them
	leader *server // of the controllers
	detail string  // what the fault chose
}

func threeControllers(c *cluster) string {
	if len(c.controllers) < 3 {
		return "one controller alone"
	}
	return ""
}

func slowLinks(c *cluster) string {
	if !c.net.tc {
		return "no tc, or no queue it could make"
	}
	return ""
}

func always(*cluster) string { return "" }

// faults is everything that can happen.
var faults = []fault{
	{name: "kill master", limit: aFailover, least: 3 * time.Second, most: 6 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) { return killed(s.master) }},
	{name: "kill slave", limit: aFailover, least: 2 * time.Second, most: 5 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) { return killed(s.slave) }},
	{name: "kill controller", limit: anInstant, least: 3 * time.Second, most: 6 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) { return killed(s.leader) }},
	{name: "kill master, controller", limit: 2 * aFailover, least: 6 * time.Second, most: 9 * time.Second,
		skip: threeControllers, begin: func(s *scene) (func() error, error) { return killed(s.master, s.leader) }},
	{name: "stop master", limit: aSilence, least: 15 * time.Second, most: 18 * time.Second, skip: always, old: true,
		begin: func(s *scene) (func() error, error) { return stopped(s.master) }},
	{name: "stop slave", limit: aShrink, least: 5 * time.Second, most: 22 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) { return stopped(s.slave) }},
	{name: "stop controller", limit: anInstant, least: 5 * time.Second, most: 12 * time.Second,
		skip: threeControllers, begin: func(s *scene) (func() error, error) { return stopped(s.leader) }},
	{name: "cut master, controllers", limit: aSilence, least: 15 * time.Second, most: 18 * time.Second, skip: always, old: true,
		begin: func(s *scene) (func() error, error) { return s.apart([]*server{s.master}, s.c.controllers, bothWays) }},
	{name: "cut master, controllers, one way", limit: aSilence, least: 15 * time.Second, most: 18 * time.Second, skip: always,
		old: true, begin: func(s *scene) (func() error, error) {
			return s.apart([]*server{s.master}, s.c.controllers, s.oneWay())
		}},
	{name: "cut master, slave", limit: aShrink, least: 5 * time.Second, most: 20 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) {
			return s.apart([]*server{s.master}, []*server{s.slave}, bothWays)
		}},
	{name: "cut master, slave, one way", limit: aShrink, least: 5 * time.Second, most: 20 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) {
			return s.apart([]*server{s.master}, []*server{s.slave}, s.oneWay())
		}},
	{name: "isolate master", limit: aSilence, least: 15 * time.Second, most: 18 * time.Second, skip: always, old: true,
		begin: func(s *scene) (func() error, error) {
			return s.apart([]*server{s.master}, s.others(s.master), bothWays)
		}},
	{name: "isolate slave", limit: aShrink, least: 5 * time.Second, most: 20 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) {
			return s.apart([]*server{s.slave}, s.others(s.slave), bothWays)
		}},
	{name: "slow slave", limit: aFailover, least: 8 * time.Second, most: 20 * time.Second, skip: slowLinks,
		begin: func(s *scene) (func() error, error) { return s.slow(s.slave) }},
	{name: "slow master", limit: aFailover, least: 8 * time.Second, most: 20 * time.Second, skip: slowLinks,
		begin: func(s *scene) (func() error, error) { return s.slow(s.master) }},
	{name: "full disk of master", limit: aFailover, least: 15 * time.Second, most: 22 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) { return s.master.free, s.master.fill() }},
	{name: "full disk of slave", limit: aFailover, least: 15 * time.Second, most: 22 * time.Second, skip: always,
		begin: func(s *scene) (func() error, error) { return s.slave.free, s.slave.fill() }},
}

// killed ends processes by kill -9, at once; they are started anew to heal it.
func killed(servers ...*server) (heal func() error, err error) {
	for _, s := range servers {
		err = errors.Join(err, s.kill())
	}
	return func() (err error) {
		for _, s := range servers {
			err = errors.Join(err, s.start())
		}
		return err
	}, err
}

// stopped lets a process hang. The system goes on to take what is sent to it.
func stopped(s *server) (heal func() error, err error) {
	s.alive = false
	return func() error {
		s.alive = true
		return s.signal(syscall.SIGCONT)
	}, s.signal(syscall.SIGSTOP)
}

// ways of a cut: from the first to the second, and back.
type ways int

const (
	forth ways = 1 << iota
	back
	bothWays = forth | back
)

func (s *scene) oneWay() ways {
	if s.rng.IntN(2) == 0 {
		s.detail = "to it"
		return back
	}
	s.detail = "from it"
	return forth
}

// apart cuts servers from others.
func (s *scene) apart(some, others []*server, w ways) (heal func() error, err error) {
	type pair struct{ from, to *netNode }
	var cuts []pair
	for _, a := range some {
		for _, b := range others {
			if w&forth != 0 {
				cuts = append(cuts, pair{a.node, b.node})
			}
			if w&back != 0 {
				cuts = append(cuts, pair{b.node, a.node})
			}
		}
	}
	for _, p := range cuts {
		err = errors.Join(err, s.c.net.cut(p.from, p.to))
	}
	return func() (err error) {
		for _, p := range cuts {
			err = errors.Join(err, s.c.net.mend(p.from, p.to))
		}
		return err
	}, err
}

// others are all nodes but one, clients too.
func (s *scene) others(one *server) []*server {
	all := slices.Concat(s.c.brokers, s.c.controllers, []*server{s.c.namesrv, {node: s.c.load}})
	return slices.DeleteFunc(all, func(o *server) bool { return o == one })
}

// slow lets through less than what is sent, or nearly as much.
func (s *scene) slow(victim *server) (heal func() error, err error) {
	how := slowness{kbit: 500 << s.rng.IntN(5), delay: time.Duration(5+s.rng.IntN(50)) * time.Millisecond}
	s.detail = fmt.Sprintf("%d kbit/s", how.kbit)
	return func() error { return s.c.net.unshape(victim.node) }, s.c.net.shape(victim.node, how)
}

// bound is the longest that sends may be refused by a cluster: three seconds with our defaults; with Java's, a quorum still
// has a replica that hangs out of its set soon.
func (f *fault) bound(sh shape) time.Duration {
	if sh.quorum && f.limit == aShrink || !sh.patient && (f.limit == aShrink || f.limit == aSilence) {
		return aFailover
	}
	return f.limit
}

// lasts picks how long a fault is there.
func (f *fault) lasts(rng *rand.Rand) time.Duration {
	return f.least + time.Duration(rng.Int64N(int64(f.most-f.least)+1))
}
