package sim

import (
	"fmt"
	"io"
	"slices"
	"time"

	"skylark/controller/node"
	"skylark/controller/replicas"
)

// Names of the broker group.
const (
	clusterName = "c"
	groupName   = "a"
)

// Ack is when a send is answered with SEND_OK.
type Ack uint8

// The settings, by the keys that make them.
const (
	// AckAll is allAckInSyncStateSet: all of the SyncStateSet have it. One machine may die.
	AckAll Ack = iota
	// AckTwo is AckAll with inSyncReplicas=2 and minInSyncReplicas=2: also while the set is small.
	AckTwo
	// AckMajority is haAckRule=majority: AckAll, a majority of all replicas at least, and slow ones are dropped after 1 s.
	AckMajority
	// AckMaster is ASYNC_MASTER: the master alone. What it had alone when it dies is lost.
	AckMaster
)

func (a Ack) String() string { return [...]string{"all", "two", "majority", "master"}[a] }

// durable tells whether what is acknowledged or shown survives the death of one machine.
func (a Ack) durable() bool { return a != AckMaster }

// all tells that all of the SyncStateSet have to have it.
func (a Ack) all() bool { return a != AckMaster }

// least is how many replicas must be in the SyncStateSet (minInSyncReplicas).
func (a Ack) least(brokers int) int {
	switch a {
	case AckTwo:
		return 2
	case AckMajority:
		return brokers/2 + 1
	}
	return 1
}

// maxBehindMillis is haMaxTimeSlaveNotCatchup.
func (a Ack) maxBehindMillis() int64 {
	if a == AckMajority {
		return 1000
	}
	return 15000
}

// Config of a run.
type Config struct {
	Controllers, Brokers, Clients, Queues int
	Ack                                   Ack
	// ControllerKeys are lines for the controllers' configuration.
	ControllerKeys string
	// Faults is how long they go on.
	Faults time.Duration
	// NoPowerLoss leaves out the faults that promises exclude.
	NoPowerLoss bool
	// NoExcuse has nothing excused: the test makes only faults that promises include.
	NoExcuse bool
	Trace    io.Writer
}

// Cluster is one broker group with its controllers and clients.
type Cluster struct {
	W           *World
	Config      Config
	Controllers []*Host
	Brokers     []*Host
	Clients     []*Host

	lastMessage uint64
	lastAcked   time.Duration
	quiet       bool // clients send no more
}

// NewCluster makes a cluster that is switched off.
func NewCluster(seed uint64, cfg Config) *Cluster {
	w := NewWorld(seed, cfg.Trace)
	c := &Cluster{W: w, Config: cfg}
	w.Check.c = c
	for i := range cfg.Controllers {
		c.Controllers = append(c.Controllers, w.AddHost(fmt.Sprintf("controller%d", i), func() Process {
			return &controllerProc{c: c}
		}))
	}
	for i := range cfg.Brokers {
		c.Brokers = append(c.Brokers, w.AddHost(fmt.Sprintf("broker%d", i+1), func() Process { return &brokerProc{c: c} }))
	}
	for i := range cfg.Clients {
		c.Clients = append(c.Clients, w.AddHost(clientName(i), func() Process { return &clientProc{c: c, number: i} }))
	}
	for _, h := range w.Hosts {
		h.rate = 1 + (w.Rand.Float64()-0.5)/50
		for _, dir := range []string{"/c", "/b"} {
			if err := h.FS.MkdirAll(dir); err != nil {
				w.Fail("%w", err)
			}
		}
		if err := h.FS.SyncDir("/"); err != nil {
			w.Fail("%w", err)
		}
	}
	return c
}

// Start switches everything on.
func (c *Cluster) Start() {
	for _, h := range c.W.Hosts {
		c.W.After(c.W.between(0, 500*time.Millisecond), h.Start)
	}
	c.W.After(checkInterval, c.look)
}

const checkInterval = 500 * time.Millisecond

// look has the checkers look now and then.
func (c *Cluster) look() {
	c.W.Check.logs()
	c.W.After(checkInterval, c.look)
}

func (c *Cluster) controllerIndex(h *Host) int { return slices.Index(c.Controllers, h) }

func (c *Cluster) controllerByID(id string) *Host {
	for i, h := range c.Controllers {
		if fmt.Sprintf("n%d", i) == id {
			return h
		}
	}
	return nil
}

func (c *Cluster) controllerByAddr(addr string) *Host {
	for i, h := range c.Controllers {
		if c.controllerAddr(i) == addr {
			return h
		}
	}
	return nil
}

func (c *Cluster) controllerAddrs() (list []string) {
	for i := range c.Controllers {
		list = append(list, c.controllerAddr(i))
	}
	return list
}

func (c *Cluster) brokerAddr(h *Host) string {
	return fmt.Sprintf("10.0.2.%d:10911", slices.Index(c.Brokers, h)+1)
}

func (c *Cluster) brokerByAddr(addr string) *Host {
	for _, h := range c.Brokers {
		if c.brokerAddr(h) == addr {
			return h
		}
	}
	return nil
}

func (c *Cluster) broker(h *Host) (*brokerProc, bool) {
	b, ok := h.proc.(*brokerProc)
	return b, ok
}

// Leader is the leading controller's node, nil if there is none.
func (c *Cluster) Leader() *node.Node {
	var best *node.Node
	for _, h := range c.Controllers {
		if p, ok := h.proc.(*controllerProc); ok && p.s != nil {
			n := p.s.Node()
			if n.Role().Ready && (best == nil || n.Role().Term > best.Role().Term) {
				best = n
			}
		}
	}
	return best
}

// Group is the broker group as the leading controller has it, nil if there is none.
func (c *Cluster) Group() *replicas.Group {
	if n := c.Leader(); n != nil {
		return n.State().Group(groupName)
	}
	return nil
}

// Master is the master's host in the eyes of the leading controller and in its own, nil if they do not agree.
func (c *Cluster) Master() *Host {
	g := c.Group()
	if g == nil || g.Master == 0 {
		return nil
	}
	for _, h := range c.Brokers {
		if b, ok := c.broker(h); ok && b.id() == g.Master {
			if role, ok := b.m.Role(); ok && role.Master && role.Epoch == g.MasterEpoch {
				return h
			}
		}
	}
	return nil
}

// Settled tells that everybody is up, has its role, all replicas are in the SyncStateSet, and all logs end at one place.
func (c *Cluster) Settled() bool {
	m := c.Master()
	if m == nil || len(c.Group().SyncStateSet) != len(c.Brokers) {
		return false
	}
	end := m.proc.(*brokerProc).log.MaxPhyOffset()
	for _, h := range c.Brokers {
		b, ok := c.broker(h)
		if !ok || b.log.MaxPhyOffset() != end || b.confirmed() != end {
			return false
		}
	}
	for _, h := range c.Controllers {
		p, ok := h.proc.(*controllerProc)
		if !ok || p.s.Node().Applied() != c.Leader().Applied() {
			return false
		}
	}
	return true
}
