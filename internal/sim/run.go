package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Bounds of a run.
const (
	faultTime = 60 * time.Second
	// recoverTime is how long the group may take to be whole again after the last fault: brokers that hang are missed after
	// 10 s, a master that was killed keeps silent for 16 s, controllers elect within 3 s and look every 5 s.
	recoverTime = 90 * time.Second
	// loadTime is how long clients go on to send after the last fault.
	loadTime = 5 * time.Second
	// serveTime is how long clients may take to send another message then.
	serveTime = 20 * time.Second
)

// ConfigOf draws the shape of a run from its seed.
func ConfigOf(seed uint64, trace io.Writer) Config {
	rng := rand.New(rand.NewPCG(seed, 0xc0_4f_19))
	return Config{
		Controllers: []int{1, 3, 3, 3, 5}[rng.IntN(5)],
		Brokers:     []int{2, 2, 3, 3, 3}[rng.IntN(5)],
		Clients:     2,
		Queues:      2,
		Ack:         []Ack{AckAll, AckAll, AckTwo, AckMajority, AckMaster}[rng.IntN(5)],
		Faults:      faultTime,
		NoPowerLoss: rng.IntN(2) == 0,
		Trace:       trace,
	}
}

// Result is what came out of a run.
type Result struct {
	Err   error
	Trace uint64 // tells runs apart
	Check *Checker
	Steps int
	Took  time.Duration // from the last fault until all was whole
}

// Run is one whole run: faults under load, then rest, then everything has to be there.
func Run(seed uint64, cfg Config) Result {
	c := NewCluster(seed, cfg)
	c.Start()
	r := Result{Err: c.run(), Check: c.W.Check, Trace: c.W.TraceSum(), Steps: c.W.steps}
	r.Took = time.Duration(c.W.Check.Counts["recovered in ms"]) * time.Millisecond
	for _, h := range c.W.Hosts {
		if h.proc != nil {
			h.proc.Kill()
		}
	}
	return r
}

func (c *Cluster) run() error {
	w := c.W
	w.Tracef("%d controllers, %d brokers, acknowledged by %v, power stays: %v", c.Config.Controllers, c.Config.Brokers,
		c.Config.Ack, c.Config.NoPowerLoss)
	if err := w.RunUntil(recoverTime, func() bool { return c.Master() != nil }); err != nil {
		return err
	}
	if c.Master() == nil {
		w.Fail("available: there is no first master")
		return w.failure
	}
	if !c.Config.NoPowerLoss {
		if err := w.RunUntil(recoverTime, c.begun); err != nil {
			return err
		}
	}
	n := &nemesis{c: c}
	n.start()
	if err := w.Run(c.Config.Faults); err != nil {
		return err
	}
	n.stop()
	return c.rest()
}

// begun tells that every log has something. A replica that has confirmed messages does not follow a master whose log is
// empty, on purpose: it may have the only copy, and waits for an operator. Only the loss of power makes such a master.
func (c *Cluster) begun() bool {
	for _, h := range c.Brokers {
		if b, ok := c.broker(h); !ok || b.log.MaxPhyOffset() == 0 {
			return false
		}
	}
	return true
}

// rest heals everything and waits until all is whole again.
func (c *Cluster) rest() error {
	w := c.W
	began := w.now
	w.After(loadTime, func() { c.quiet = true })
	whole := func() bool { return c.quiet && c.Settled() }
	if err := w.RunUntil(recoverTime, whole); err != nil {
		return err
	}
	if !whole() {
		w.Fail("available: after %v without faults %s", recoverTime, c.describe())
		return w.failure
	}
	w.Check.Counts["recovered in ms"] = int((w.now - began).Milliseconds())
	w.Tracef("whole again after %v", w.now-began)
	c.quiet = false
	before := w.Check.Counts["acked"]
	if err := w.RunUntil(serveTime, func() bool { return w.Check.Counts["acked"] >= before+10 }); err != nil {
		return err
	}
	if w.Check.Counts["acked"] < before+10 {
		w.Fail("available: %d sends in %v, all is whole", w.Check.Counts["acked"]-before, serveTime)
		return w.failure
	}
	c.quiet = true
	if err := w.Run(clientTimeout); err != nil { // what is under way ends
		return err
	}
	if err := w.RunUntil(recoverTime, c.Settled); err != nil {
		return err
	}
	if !c.Settled() {
		w.Fail("available: at rest %s", c.describe())
	}
	if w.failure == nil {
		w.Check.finish()
	}
	return w.failure
}

// describe says what is not whole.
func (c *Cluster) describe() string {
	s := "there is no leading controller"
	if g := c.Group(); g != nil {
		s = fmt.Sprintf("master %d epoch %d, SyncStateSet %v epoch %d", g.Master, g.MasterEpoch, g.SyncStateSet,
			g.SyncStateSetEpoch)
	}
	for _, h := range c.Brokers {
		b, ok := c.broker(h)
		if !ok {
			s += fmt.Sprintf("; %s is down", h.Name)
			continue
		}
		role, _ := b.m.Role()
		s += fmt.Sprintf("; %s: id %d, %v, epoch %d, master %d, log [%d,%d) confirmed %d", h.Name, b.id(), b.m.Stage(), role.Epoch,
			role.MasterID, b.log.min, b.log.MaxPhyOffset(), b.confirmed())
	}
	return s
}
