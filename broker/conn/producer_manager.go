package conn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"skylark/internal/clock"
	"skylark/reactor"
)

// ProducerManager keeps the producer groups that have members (Java ProducerManager).
type ProducerManager struct {
	clock  clock.Clock
	mu     sync.Mutex
	groups map[string]map[uint64]*Client
	conns  map[uint64][]string           // connection → its groups
	ids    map[string]map[uint64]*idConn // client id → its connections
	count  int                           // memberships
	next   uint64                        // round robin of OneOf
}

// idConn is a connection by which a client id has producers.
type idConn struct {
	groups int
	last   *Client // of its latest heartbeat
}

// NewProducerManager makes an empty manager.
func NewProducerManager(ck clock.Clock) *ProducerManager {
	return &ProducerManager{clock: ck, groups: map[string]map[uint64]*Client{}, conns: map[uint64][]string{},
		ids: map[string]map[uint64]*idConn{}}
}

// Register enters or refreshes a producer. The error is ErrLimit.
func (m *ProducerManager) Register(group string, cl Client) error {
	id := cl.Conn.ID()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(cl.ID) > MaxClientID {
		return fmt.Errorf("%w: a client id of %d bytes, at most %d", ErrLimit, len(cl.ID), MaxClientID)
	}
	g := m.groups[group]
	if g[id] == nil {
		switch {
		case len(m.conns[id]) >= MaxGroupsPerConn:
			return fmt.Errorf("%w: client %s has %d producer groups on one connection", ErrLimit, cl.ID,
				len(m.conns[id]))
		case m.count >= MaxMemberships:
			return fmt.Errorf("%w: %d producers are connected", ErrLimit, m.count)
		}
		m.conns[id] = append(m.conns[id], group)
		m.count++
	}
	if g == nil {
		g = map[uint64]*Client{}
		m.groups[group] = g
	}
	if old := g[id]; old != nil && old.ID != cl.ID {
		m.unlink(old)
		m.link(&cl)
	} else if old == nil {
		m.link(&cl)
	} else {
		m.ids[cl.ID][id].last = &cl
	}
	g[id] = &cl
	return nil
}

// link and unlink keep the index by client id; mu is held.
func (m *ProducerManager) link(cl *Client) {
	of := m.ids[cl.ID]
	if of == nil {
		of = map[uint64]*idConn{}
		m.ids[cl.ID] = of
	}
	c := of[cl.Conn.ID()]
	if c == nil {
		c = &idConn{}
		of[cl.Conn.ID()] = c
	}
	c.groups++
	c.last = cl
}

func (m *ProducerManager) unlink(cl *Client) {
	of := m.ids[cl.ID]
	c := of[cl.Conn.ID()]
	if c.groups--; c.groups > 0 {
		return
	}
	if delete(of, cl.Conn.ID()); len(of) == 0 {
		delete(m.ids, cl.ID)
	}
}

// Unregister takes a producer out of its group.
func (m *ProducerManager) Unregister(group string, conn reactor.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := conn.ID()
	if !m.remove(group, id) {
		return
	}
	rest := slices.DeleteFunc(m.conns[id], func(g string) bool { return g == group })
	if m.conns[id] = rest; len(rest) == 0 {
		delete(m.conns, id)
	}
}

func (m *ProducerManager) remove(group string, id uint64) bool {
	g := m.groups[group]
	if g[id] == nil {
		return false
	}
	m.count--
	m.unlink(g[id])
	if delete(g, id); len(g) == 0 {
		delete(m.groups, group)
	}
	return true
}

// ConnClosed takes a connection out of all its groups.
func (m *ProducerManager) ConnClosed(conn reactor.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.conns[conn.ID()] {
		m.remove(g, conn.ID())
	}
	delete(m.conns, conn.ID())
}

// Clients are the members of a group by client id, nil when there is none.
func (m *ProducerManager) Clients(group string) []*Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Collect(maps.Values(m.groups[group]))
	slices.SortFunc(out, func(a, b *Client) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Groups are the groups with members, sorted.
func (m *ProducerManager) Groups() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.groups))
}

// OneOf is a live member of a group, each in turn; nil when there is none (transaction checks).
func (m *ProducerManager) OneOf(group string) *Client {
	clients := m.Clients(group)
	if len(clients) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	return clients[m.next%uint64(len(clients))]
}

// ByClientID finds a producer of any group, nil when there is none; of several connections the one heard of last
// (request-reply).
func (m *ProducerManager) ByClientID(id string) (found *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.ids[id] {
		if found == nil || c.last.LastUpdate > found.LastUpdate ||
			c.last.LastUpdate == found.LastUpdate && c.last.Conn.ID() > found.Conn.ID() {
			found = c.last
		}
	}
	return found
}

// Expired are the connections whose producers have been silent for too long.
func (m *ProducerManager) Expired() (out []reactor.Conn) {
	limit := m.clock.Millis() - ExpiredTimeout.Milliseconds()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		for _, cl := range g {
			if cl.LastUpdate < limit {
				out = append(out, cl.Conn)
			}
		}
	}
	return out
}
