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
	conns  map[uint64][]string // connection → its groups
	count  int                 // memberships
	next   uint64              // round robin of OneOf
}

// NewProducerManager makes an empty manager.
func NewProducerManager(ck clock.Clock) *ProducerManager {
	return &ProducerManager{clock: ck, groups: map[string]map[uint64]*Client{}, conns: map[uint64][]string{}}
}

// Register enters or refreshes a producer. The error is ErrLimit.
func (m *ProducerManager) Register(group string, cl Client) error {
	id := cl.Conn.ID()
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[group]
	if g[id] == nil {
		switch {
		case len(cl.ID) > MaxClientID:
			return fmt.Errorf("%w: a client id of %d bytes, at most %d", ErrLimit, len(cl.ID), MaxClientID)
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
	g[id] = &cl
	return nil
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

// ByClientID finds a producer of any group, nil when there is none (request-reply).
func (m *ProducerManager) ByClientID(id string) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		for _, cl := range g {
			if cl.ID == id {
				return cl
			}
		}
	}
	return nil
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
