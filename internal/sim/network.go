package sim

import (
	"slices"
	"time"
)

// Network carries bytes between hosts. A connection keeps its order and loses nothing, as TCP's: what is lost is sent
// again, later. Datagrams are lost, doubled and overtaken.
type Network struct {
	w                  *World
	cut                map[[2]int]bool // from, to: nothing passes
	minDelay, maxDelay time.Duration
	loss               float64
	nextConn           uint64
}

const (
	dialTimeout = 3 * time.Second
	// resendFirst and resendMost are the waits before something that was lost is sent again.
	resendFirst, resendMost = 200 * time.Millisecond, 3 * time.Second
)

// Cut lets nothing pass from one host to another; the other direction is not touched.
func (n *Network) Cut(from, to *Host) { n.cut[[2]int{from.ID, to.ID}] = true }

// Isolate cuts hosts off from all others, both ways.
func (n *Network) Isolate(hosts ...*Host) {
	for _, a := range n.w.Hosts {
		for _, b := range n.w.Hosts {
			if slices.Contains(hosts, a) != slices.Contains(hosts, b) {
				n.Cut(a, b)
			}
		}
	}
}

// Heal makes all links good.
func (n *Network) Heal() {
	clear(n.cut)
	n.loss, n.minDelay, n.maxDelay = 0, 200*time.Microsecond, 2*time.Millisecond
}

func (n *Network) passes(from, to *Host) bool { return !n.cut[[2]int{from.ID, to.ID}] && !to.off }

// delay of something that gets through. A few take much longer.
func (n *Network) delay() time.Duration {
	d := n.w.between(n.minDelay, n.maxDelay)
	if n.w.chance(0.01) {
		d += n.w.between(0, 10*n.maxDelay)
	}
	return d
}

// Datagram has f called at the other host, once, twice or never. sent, if it is not nil, hears whether the sender can know
// that it was lost.
func (n *Network) Datagram(from, to *Host, f func(), lost func()) {
	if from.image != nil || from.proc == nil {
		return
	}
	if !n.passes(from, to) || n.w.chance(n.loss) {
		if lost != nil {
			from.After(n.w.between(time.Millisecond, time.Second), lost)
		}
		return
	}
	copies := 1
	if n.loss > 0 && n.w.chance(0.05) {
		copies = 2
	}
	for range copies {
		var arrive func()
		arrive = func() {
			switch {
			case to.proc == nil || !n.passes(from, to):
			case to.frozenUntil > n.w.now:
				n.w.After(to.frozenUntil-n.w.now, arrive)
			default:
				to.do(f)
			}
		}
		n.w.After(n.delay(), arrive)
	}
}

// Conn is one end of a connection.
type Conn struct {
	ID   uint64
	Host *Host
	// Port tells what the one who connected wants.
	Port string
	// Received gets what the other end has sent, Closed that it has ended, unless this end has closed it. They are set in
	// Process.Accept, or by the one who dials.
	Received func(v any)
	Closed   func()

	peer  *Conn
	life  int
	open  bool
	out   []item // on its way to peer, in order
	moves bool   // the first of out has an event
	tries int    // how often the first of out was lost
	last  time.Duration
}

// item travels: data, or the end of the connection.
type item struct {
	v   any
	at  time.Duration
	fin bool
}

// Remote is the host at the other end.
func (c *Conn) Remote() *Host { return c.peer.Host }

// Open tells whether this end is open.
func (c *Conn) Open() bool { return c.open }

// Dial connects to a host. done gets the connection, or nil. It is called later, always, if the process lives.
func (h *Host) Dial(to *Host, port string, done func(c *Conn)) {
	n := h.w.Net
	life := h.life
	fail := func(after time.Duration) {
		h.After(after, func() { done(nil) })
	}
	if !n.passes(h, to) || !n.passes(to, h) {
		fail(dialTimeout)
		return
	}
	h.w.After(n.delay(), func() {
		if h.life != life {
			return
		}
		if to.proc == nil {
			fail(n.delay())
			return
		}
		n.nextConn += 2
		here := &Conn{ID: n.nextConn, Host: h, Port: port, life: h.life, open: true}
		there := &Conn{ID: n.nextConn + 1, Host: to, Port: port, life: to.life, open: true, peer: here}
		here.peer = there
		h.conns, to.conns = append(h.conns, here), append(to.conns, there)
		var accept, opened func()
		accept = func() { // a stopped process accepts later; its operating system has connected
			switch {
			case !there.open || to.life != there.life:
			case to.frozenUntil > h.w.now:
				h.w.After(to.frozenUntil-h.w.now, accept)
			default:
				to.do(func() { to.proc.Accept(there) })
			}
		}
		accept()
		opened = func() {
			switch {
			case h.life != life:
			case h.frozenUntil > h.w.now:
				h.w.After(h.frozenUntil-h.w.now, opened)
			default:
				h.do(func() {
					done(here)
					if !here.open && here.Closed != nil { // it ended before it was begun
						here.Closed()
					}
				})
			}
		}
		h.w.After(n.delay(), opened)
	})
}

// Send has v arrive at the other end. v is not changed afterwards.
func (c *Conn) Send(v any) {
	if c.open && c.Host.image == nil {
		c.push(item{v: v})
	}
}

// Close ends the connection; what was sent still arrives.
func (c *Conn) Close() {
	if !c.open || c.Host.image != nil {
		return
	}
	c.forget()
	c.push(item{fin: true})
}

// shut ends it with its process. told: the operating system tells the other end.
func (c *Conn) shut(told bool) {
	c.open = false
	if told {
		c.push(item{fin: true})
	} else {
		c.out = nil
	}
}

func (c *Conn) forget() {
	c.open = false
	if i := slices.Index(c.Host.conns, c); i >= 0 {
		c.Host.conns = slices.Delete(c.Host.conns, i, i+1)
	}
}

func (c *Conn) push(it item) {
	n := c.Host.w.Net
	d := n.delay()
	for n.w.chance(n.loss) && d < resendMost {
		d += resendFirst
	}
	it.at = max(c.last, n.w.now+d)
	c.last = it.at
	c.out = append(c.out, it)
	c.move()
}

// move has the first of what is under way arrive in time.
func (c *Conn) move() {
	if c.moves || len(c.out) == 0 {
		return
	}
	c.moves = true
	w := c.Host.w
	w.After(c.out[0].at-w.now, c.arrive)
}

func (c *Conn) arrive() {
	c.moves = false
	if len(c.out) == 0 {
		return
	}
	w, peer := c.Host.w, c.peer
	switch {
	case c.Host.off && c.Host.life != c.life:
		c.out = nil // nobody sends it again
		return
	case !w.Net.passes(c.Host, peer.Host):
		c.again(min(resendFirst<<c.tries, resendMost))
		c.tries = min(c.tries+1, 6)
		return
	case peer.Host.frozenUntil > w.now:
		c.again(peer.Host.frozenUntil - w.now)
		return
	}
	it := c.out[0]
	c.out, c.tries = c.out[1:], 0
	c.move()
	switch {
	case !peer.open || peer.Host.life != peer.life:
		if !it.fin && c.open { // nobody is there: a reset comes back
			c.out = nil
			c.Host.w.After(w.Net.delay(), func() { c.end() })
		}
	case it.fin:
		peer.end()
	case peer.Received != nil:
		peer.Host.do(func() { peer.Received(it.v) })
	}
}

func (c *Conn) again(d time.Duration) {
	c.moves = true
	c.Host.w.After(d, c.arrive)
}

// end tells this end's process that the connection has ended.
func (c *Conn) end() {
	switch {
	case !c.open || c.Host.life != c.life:
	case c.Host.frozenUntil > c.Host.w.now:
		c.Host.w.After(c.Host.frozenUntil-c.Host.w.now, c.end)
	default:
		c.forget()
		if c.Closed != nil {
			c.Host.do(c.Closed)
		}
	}
}
