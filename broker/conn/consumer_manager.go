package conn

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/cowtable"
	"skylark/reactor"
)

// ExpiredTimeout is how long a client lives without a heartbeat (Java channelExpiredTimeout).
const ExpiredTimeout = 120 * time.Second

// Limits of what clients can make the broker remember. Java has none.
const (
	// MaxClientID bounds the bytes of a client id.
	MaxClientID = 1024
	// MaxGroupsPerConn bounds the consumer and the producer groups of one connection, each.
	MaxGroupsPerConn = 4096
	// MaxMemberships bounds the members of all consumer groups, and of all producer groups: about 300 bytes
	// each.
	MaxMemberships = 1 << 20
	// MaxSubscriptionBytes bounds the topics and expressions of one group's heartbeat.
	MaxSubscriptionBytes = 1 << 20
)

// ErrLimit answers a heartbeat that wants more than the limits above.
var ErrLimit = errors.New("conn: too many clients or subscriptions")

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
	// Fingerprint of a V2 heartbeat, 0 = V1.
	Fingerprint int32
}

// Events of the manager, called outside its locks. All are set.
type Events struct {
	// Changed tells that the members of a group changed, and who of them is connected.
	Changed func(group string, members []reactor.Conn)
	// Registered is called for every heartbeat that brings subscriptions.
	Registered func(group string, subs []*Subscription)
	// Gone tells that a group has lost its last member.
	Gone func(group string)
	// Ghost has a connection ended and forgotten, see GhostBeats.
	Ghost func(conn reactor.Conn)
}

// ConsumerManager keeps the consumer groups that have members (Java ConsumerManager).
type ConsumerManager struct {
	clock   clock.Clock
	log     *slog.Logger
	expired time.Duration
	on      Events
	groups  cowtable.Table[Consumers]

	requested requested

	mu      sync.Mutex          // membership
	conns   map[uint64][]string // connection → its groups
	members int

	seen agreement
}

// NewConsumerManager makes an empty manager; a client is Expired after expired without heartbeat.
func NewConsumerManager(ck clock.Clock, log *slog.Logger, expired time.Duration, on Events) *ConsumerManager {
	return &ConsumerManager{clock: ck, log: log, expired: expired, conns: map[uint64][]string{}, on: on}
}

// Lookup finds a group with members, nil when there is none. No lock, no allocation.
func (m *ConsumerManager) Lookup(group []byte) *Consumers { return m.groups.GetBytes(group) }

// Get is Lookup by string.
func (m *ConsumerManager) Get(group string) *Consumers { return m.groups.Get(group) }

// Groups are the names of the groups with members, sorted.
func (m *ConsumerManager) Groups() (out []string) {
	for name := range m.groups.All() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// GroupsOf are the groups that subscribe a topic now.
func (m *ConsumerManager) GroupsOf(topic string) (out []string) {
	for name, c := range m.groups.All() {
		if (*c.subs.Load())[topic] != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Register takes a heartbeat. resend asks a V2 client for its subscriptions: it left them out and the group
// has none or does not know the client, or the group's last heartbeat was another one's. notify lets the
// members be told of a change. The error is ErrLimit; the client is then not registered.
func (m *ConsumerManager) Register(r Registration, notify bool) (resend bool, err error) {
	if err := checkRegistration(&r); err != nil {
		return false, err
	}
	m.mu.Lock()
	c, err := m.enter(&r)
	if err != nil {
		m.mu.Unlock()
		return false, err
	}
	c.mu.Lock()
	fresh := c.updateClient(r.Client)
	c.consumeType, c.from = r.Type, r.From
	model := r.Model
	if model == "" {
		model = body.Clustering
	}
	if model != c.Model() {
		c.model.Store(&model)
	}
	resend = r.Fingerprint != 0 && c.fingerprint != 0 && c.fingerprint != r.Fingerprint
	c.fingerprint = r.Fingerprint
	topics := false
	if r.WithoutSub {
		resend = resend || fresh || len(*c.subs.Load()) == 0
	} else {
		topics = c.updateSubscriptions(r.Subscription)
		c.noteSignature(r.Client.ID, r.Subscription)
	}
	conflict, over := c.report(r.Client.LastUpdate)
	cl := c.clients[r.Client.Conn.ID()]
	ghosts, twice := c.noteBeat(cl)
	var conns []reactor.Conn
	tell := (fresh || topics) && notify && model != body.Broadcasting
	if tell {
		conns = c.connsLocked()
	}
	c.mu.Unlock()
	m.mu.Unlock()
	m.say(r.Group, cl, conflict, over, twice)
	if tell {
		m.on.Changed(r.Group, conns)
	}
	if !r.WithoutSub {
		m.on.Registered(r.Group, r.Subscription)
	}
	m.dropGhosts(r.Group, cl, ghosts)
	return resend, nil
}

// say logs what a heartbeat has brought to light.
func (m *ConsumerManager) say(group string, cl *Client, conflict string, over, twice bool) {
	if conflict != "" {
		m.seen.conflicts.Add(1)
		m.log.Warn("members of a group subscribe differently, they take each other's messages", "group", group,
			"conflict", conflict)
	}
	if over {
		m.log.Info("members of a group subscribe the same again", "group", group)
	}
	if twice {
		m.seen.twice.Add(1)
		m.log.Warn("two connections of a group have the same client id and are both alive: they consume the same queues",
			"group", group, "clientId", cl.ID, "remote", cl.Conn.RemoteAddr())
	}
}

func checkRegistration(r *Registration) error {
	if len(r.Client.ID) > MaxClientID {
		return fmt.Errorf("%w: a client id of %d bytes, at most %d", ErrLimit, len(r.Client.ID), MaxClientID)
	}
	n := 0
	for _, s := range r.Subscription {
		n += s.sizeBytes()
	}
	if n > MaxSubscriptionBytes {
		return fmt.Errorf("%w: the subscriptions of group %s have %d bytes, at most %d", ErrLimit, r.Group, n,
			MaxSubscriptionBytes)
	}
	return nil
}

// enter finds or makes the group of a registration and notes the connection's membership; mu is held.
func (m *ConsumerManager) enter(r *Registration) (*Consumers, error) {
	id := r.Client.Conn.ID()
	c := m.Get(r.Group)
	if c != nil && c.has(id) {
		return c, nil
	}
	switch {
	case len(m.conns[id]) >= MaxGroupsPerConn:
		return nil, fmt.Errorf("%w: client %s has %d consumer groups on one connection", ErrLimit, r.Client.ID,
			len(m.conns[id]))
	case m.members >= MaxMemberships:
		return nil, fmt.Errorf("%w: %d consumers are connected", ErrLimit, m.members)
	}
	if c == nil {
		c = newConsumers(r.Group)
		m.groups.Set(r.Group, c)
	}
	m.conns[id] = append(m.conns[id], r.Group)
	m.members++
	return c, nil
}

func (c *Consumers) has(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[id] != nil
}

func (c *Consumers) connsLocked() []reactor.Conn {
	out := make([]reactor.Conn, 0, len(c.clients))
	for _, cl := range c.clients {
		out = append(out, cl.Conn)
	}
	return out
}

// change is what a removal has to tell.
type change struct {
	group string
	left  []reactor.Conn
	gone  bool
}

func (m *ConsumerManager) tell(ch change, notify bool) {
	if ch.gone {
		m.on.Gone(ch.group)
	} else if notify && len(ch.left) > 0 {
		m.on.Changed(ch.group, ch.left)
	}
}

// Unregister takes a client out of a group.
func (m *ConsumerManager) Unregister(group string, conn reactor.Conn, notify bool) {
	m.mu.Lock()
	ch, removed := m.remove(group, conn.ID())
	if removed {
		rest := slices.DeleteFunc(m.conns[conn.ID()], func(g string) bool { return g == group })
		if m.conns[conn.ID()] = rest; len(rest) == 0 {
			delete(m.conns, conn.ID())
		}
	}
	m.mu.Unlock()
	if removed {
		m.tell(ch, notify)
	}
}

// remove takes a connection out of a group and the group away when it was the last; mu is held.
func (m *ConsumerManager) remove(group string, id uint64) (ch change, removed bool) {
	c := m.Get(group)
	if c == nil {
		return ch, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.removeClient(id) {
		return ch, false
	}
	m.members--
	ch.group = group
	if len(c.clients) == 0 {
		m.groups.Set(group, nil)
		ch.gone = true
	} else if !c.Broadcasting() {
		ch.left = c.connsLocked()
	}
	return ch, true
}

// ConnClosed takes a connection out of all its groups. notify tells for a group whether its members want to
// know.
func (m *ConsumerManager) ConnClosed(conn reactor.Conn, notify func(group string) bool) {
	var changes []change
	m.mu.Lock()
	for _, g := range m.conns[conn.ID()] {
		if ch, removed := m.remove(g, conn.ID()); removed {
			changes = append(changes, ch)
		}
	}
	delete(m.conns, conn.ID())
	m.mu.Unlock()
	for _, ch := range changes {
		m.tell(ch, notify(ch.group))
	}
}

// Expired are the connections whose clients have been silent for too long; the caller closes them.
func (m *ConsumerManager) Expired() (out []reactor.Conn) {
	limit := m.clock.Millis() - m.expired.Milliseconds()
	for _, c := range m.groups.All() {
		for _, cl := range c.Clients() {
			if cl.LastUpdate < limit {
				out = append(out, cl.Conn)
			}
		}
	}
	return out
}
