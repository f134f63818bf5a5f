package conn

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/reactor"
)

// ExpiredTimeout is how long a client lives without a heartbeat (Java channelExpiredTimeout).
const ExpiredTimeout = 120 * time.Second

// Registration is one consumer group of a heartbeat.
type Registration struct {
	Client       Client
	Group        string
	Type         body.ConsumeType
	Model        body.MessageModel
	From         body.ConsumeFromWhere
	Subscription []*Subscription
	// WithoutSub: the client sent no subscriptions (heartbeat V2), what is known stays.
	WithoutSub bool
}

// ConsumerManager keeps the consumer groups that have members.
type ConsumerManager struct {
	clock  clock.Clock
	log    *slog.Logger
	groups atomic.Pointer[map[string]*Consumers]

	mu    sync.Mutex          // membership
	conns map[uint64][]string // connection → its groups
	// changed is told about groups whose members changed and who of them is connected.
	changed func(group string, members []reactor.Conn)
}

// NewConsumerManager makes an empty manager; changed is called outside its locks.
func NewConsumerManager(ck clock.Clock, log *slog.Logger, changed func(string, []reactor.Conn)) *ConsumerManager {
	m := &ConsumerManager{clock: ck, log: log, conns: map[uint64][]string{}, changed: changed}
	m.groups.Store(&map[string]*Consumers{})
	return m
}

// Lookup finds a group with members, nil when there is none. No lock, no allocation.
func (m *ConsumerManager) Lookup(group []byte) *Consumers { return (*m.groups.Load())[string(group)] }

// Get is Lookup by string.
func (m *ConsumerManager) Get(group string) *Consumers { return (*m.groups.Load())[group] }

// Groups are the names of the groups with members, sorted.
func (m *ConsumerManager) Groups() []string { return slices.Sorted(maps.Keys(*m.groups.Load())) }

// GroupsOf are the groups that subscribe a topic now.
func (m *ConsumerManager) GroupsOf(topic string) (out []string) {
	for name, c := range *m.groups.Load() {
		if (*c.subs.Load())[topic] != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Register takes a heartbeat. members tells that the membership or the topics changed; unknownSub that a heartbeat
// without subscriptions came for a group that has none, so the client should send them.
func (m *ConsumerManager) Register(r Registration, notify bool) (members, unknownSub bool) {
	m.mu.Lock()
	c := m.Get(r.Group)
	if c == nil {
		c = newConsumers(r.Group)
		next := maps.Clone(*m.groups.Load())
		next[r.Group] = c
		m.groups.Store(&next)
	}
	c.mu.Lock()
	fresh := c.updateClient(r.Client)
	if fresh {
		id := r.Client.Conn.ID()
		if !slices.Contains(m.conns[id], r.Group) {
			m.conns[id] = append(m.conns[id], r.Group)
		}
	}
	c.consumeType, c.from = r.Type, r.From
	model := r.Model
	if model == "" {
		model = body.Clustering
	}
	c.model.Store(&model)
	topics := false
	news := ""
	if r.WithoutSub {
		unknownSub = fresh || len(*c.subs.Load()) == 0
	} else {
		topics = c.updateSubscriptions(r.Subscription)
		news = c.checkConflict(r.Client.ID, r.Subscription)
	}
	members = fresh || topics
	conns := c.connsLocked()
	c.mu.Unlock()
	m.mu.Unlock()
	if news != "" {
		m.log.Warn("members of a group subscribe differently, they take each other's messages", "group", r.Group,
			"conflict", news)
	}
	if members && notify && model != body.Broadcasting {
		m.changed(r.Group, conns)
	}
	return members, unknownSub
}

func (c *Consumers) connsLocked() []reactor.Conn {
	out := make([]reactor.Conn, 0, len(c.clients))
	for _, cl := range c.clients {
		out = append(out, cl.Conn)
	}
	return out
}

// Unregister takes a client out of a group.
func (m *ConsumerManager) Unregister(group string, conn reactor.Conn, notify bool) {
	m.mu.Lock()
	m.conns[conn.ID()] = slices.DeleteFunc(m.conns[conn.ID()], func(g string) bool { return g == group })
	if len(m.conns[conn.ID()]) == 0 {
		delete(m.conns, conn.ID())
	}
	conns, removed := m.remove(group, conn.ID())
	m.mu.Unlock()
	if removed && notify {
		m.changed(group, conns)
	}
}

// remove takes a connection out of a group and the group away when it was the last; mu is held.
func (m *ConsumerManager) remove(group string, id uint64) (left []reactor.Conn, removed bool) {
	c := m.Get(group)
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.clients[id]
	if cl == nil {
		return nil, false
	}
	delete(c.clients, id)
	delete(c.signatures, cl.ID)
	if len(c.clients) == 0 {
		next := maps.Clone(*m.groups.Load())
		delete(next, group)
		m.groups.Store(&next)
		return nil, true
	}
	return c.connsLocked(), !c.Broadcasting()
}

// ConnClosed takes a connection out of all its groups. notify tells for a group whether its members want to know.
func (m *ConsumerManager) ConnClosed(conn reactor.Conn, notify func(group string) bool) {
	type change struct {
		group string
		conns []reactor.Conn
	}
	var changes []change
	m.mu.Lock()
	for _, g := range m.conns[conn.ID()] {
		if left, removed := m.remove(g, conn.ID()); removed {
			changes = append(changes, change{g, left})
		}
	}
	delete(m.conns, conn.ID())
	m.mu.Unlock()
	for _, ch := range changes {
		if notify(ch.group) && len(ch.conns) > 0 {
			m.changed(ch.group, ch.conns)
		}
	}
}

// Expired are the connections whose clients have been silent for too long; the caller closes them.
func (m *ConsumerManager) Expired() (out []reactor.Conn) {
	limit := m.clock.Millis() - ExpiredTimeout.Milliseconds()
	for _, c := range *m.groups.Load() {
		for _, cl := range c.Clients() {
			if cl.LastUpdate < limit {
				out = append(out, cl.Conn)
			}
		}
	}
	return out
}
