package sim

import (
	"time"
)

// nemesis makes faults, one after the other; some go on while others begin.
type nemesis struct {
	c       *Cluster
	stopped bool
}

func (n *nemesis) start() { n.c.W.After(n.pause(), n.strike) }

func (n *nemesis) pause() time.Duration {
	w := n.c.W
	if w.chance(0.3) { // two at once
		return w.between(0, 100*time.Millisecond)
	}
	return w.between(200*time.Millisecond, 8*time.Second)
}

// strike makes a fault.
func (n *nemesis) strike() {
	if n.stopped || n.c.W.Failed() {
		return
	}
	w := n.c.W
	h := n.victim()
	switch w.Rand.IntN(14) {
	case 0, 1:
		n.down(h, h.Kill)
	case 2:
		n.down(h, func() { n.power(h) })
	case 3:
		if w.chance(0.5) && !n.c.Config.NoPowerLoss {
			w.Tracef("%s will lose its power in some file operation", h.Name)
			h.dieIn = 1 + w.Rand.IntN(40)
			w.After(w.between(time.Second, 5*time.Second), func() { n.restart(h) })
		} else {
			n.down(h, func() { n.stop1(h) })
		}
	case 4:
		h.Freeze(w.between(100*time.Millisecond, 25*time.Second))
	case 5, 6:
		w.Tracef("%s is cut off", h.Name)
		w.Net.Isolate(h)
	case 7:
		n.oneWay()
	case 8:
		w.Tracef("the network is bad")
		w.Net.loss = w.Rand.Float64() / 4
		w.Net.maxDelay = w.between(2*time.Millisecond, 300*time.Millisecond)
	case 9, 10:
		w.Tracef("the network is healed")
		w.Net.Heal()
	case 11:
		n.cutMaster()
	case 12:
		h.wall += w.between(-time.Hour, time.Hour)
		w.Tracef("%s: its wall clock jumps", h.Name)
	case 13: // everybody at once
		w.Tracef("all brokers are killed")
		for _, b := range n.c.Brokers {
			n.down(b, b.Kill)
		}
	}
	w.After(n.pause(), n.strike)
}

// victim is a host; the master and the leader are hit more often.
func (n *nemesis) victim() *Host {
	w := n.c.W
	if w.chance(0.3) {
		if m := n.c.Master(); m != nil {
			return m
		}
	}
	all := len(n.c.Controllers) + len(n.c.Brokers)
	return w.Hosts[w.Rand.IntN(all)]
}

// down takes a host down, and up again later.
func (n *nemesis) down(h *Host, how func()) {
	how()
	w := n.c.W
	after := w.between(10*time.Millisecond, 5*time.Second)
	if w.chance(0.3) {
		after = w.between(5*time.Second, 30*time.Second)
	}
	w.After(after, func() { n.restart(h) })
}

func (n *nemesis) restart(h *Host) {
	if h.dieIn > 0 { // it did not come to it
		h.dieIn = 0
	}
	h.Start()
}

// power cuts it, or kills the process where promises exclude that.
func (n *nemesis) power(h *Host) {
	if n.c.Config.NoPowerLoss {
		h.Kill()
		return
	}
	h.PowerOff()
}

// stop1 stops a process in order.
func (n *nemesis) stop1(h *Host) {
	if b, ok := n.c.broker(h); ok {
		n.c.W.Tracef("%s is stopped in order", h.Name)
		b.Stop()
		return
	}
	h.Kill()
}

func (n *nemesis) oneWay() {
	w := n.c.W
	from, to := w.Hosts[w.Rand.IntN(len(w.Hosts))], w.Hosts[w.Rand.IntN(len(w.Hosts))]
	if from != to {
		w.Tracef("nothing gets from %s to %s", from.Name, to.Name)
		w.Net.Cut(from, to)
	}
}

// cutMaster cuts the master off from the other brokers, or from the controllers.
func (n *nemesis) cutMaster() {
	m := n.c.Master()
	if m == nil {
		return
	}
	from := n.c.Brokers
	if n.c.W.chance(0.5) {
		from = n.c.Controllers
	}
	n.c.W.Tracef("master %s is cut off from %s and its like", m.Name, from[0].Name)
	for _, h := range from {
		if h != m {
			n.c.W.Net.Cut(m, h)
			n.c.W.Net.Cut(h, m)
		}
	}
}

// stop heals everything.
func (n *nemesis) stop() {
	n.stopped = true
	w := n.c.W
	w.Tracef("all faults end")
	w.Net.Heal()
	for _, h := range w.Hosts {
		h.frozenUntil, h.dieIn = 0, 0
		h.Start()
	}
}
