package lock

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/vfs"
)

// MaxLiveTime is how long a lock lasts after its last renewal (Java's default of
// rocketmq.broker.rebalance.lockMaxLiveTime).
const MaxLiveTime = 60 * time.Second

// Limits of the table, which Java does not have: queues beyond them are not granted.
const (
	// MaxLocks bounds all locks, about 250 bytes each.
	MaxLocks = 1 << 20
	// MaxWaiting bounds the refused clients that are remembered for one lock, about 100 bytes each.
	MaxWaiting = 64
	// MaxGroupsPerConn bounds the groups that a connection is remembered to hold locks of. Locks of further groups
	// last until they expire when the connection ends.
	MaxGroupsPerConn = 4096
	// maxNameBytes bounds the names of a queue's topic and broker, of the client and the group.
	maxNameBytes = 1024
)

// How often the owner of a queue that others want is told.
const (
	firstNudge = time.Second
	maxNudge   = 20 * time.Second
)

// Options of the table.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger
	// MaxLive is how long a lock lasts after its last renewal.
	MaxLive time.Duration
	// FS and File are where owners are kept over a restart; without FS they are not.
	FS   vfs.FS
	File string
}

// Request is what a client asks for or gives up.
type Request struct {
	Group    string
	ClientID string
	Conn     uint64 // that the request came by; 0: not known
	Queues   []body.MessageQueue
}

// Notice names a client that has reason to rebalance now.
type Notice struct {
	Group    string
	ClientID string
}

// RebalanceLockManager keeps group → queue → holder. All methods may be called from any goroutine.
type RebalanceLockManager struct {
	o         Options
	mu        sync.Mutex
	groups    map[string]map[body.MessageQueue]*holder
	conns     map[uint64]map[string]struct{} // connection → groups it may hold locks of
	contested map[place]*holder              // that somebody was refused
	count     int
	changes   int64 // of owners
	frozen    bool  // Close was called

	saving sync.Mutex
	saved  int64 // changes that are on disk
}

type place struct {
	group string
	queue body.MessageQueue
}

type holder struct {
	clientID string
	conn     uint64 // of the last renewal
	renewed  int64  // ms
	waiting  []waiter
	nudgeAt  int64 // ms, when the holder is told that others wait
	pause    time.Duration
}

// waiter is a client that was refused.
type waiter struct {
	clientID string
	conn     uint64
	asked    int64 // ms, last
}

// New makes an empty table.
func New(o Options) *RebalanceLockManager {
	return &RebalanceLockManager{o: o, groups: map[string]map[body.MessageQueue]*holder{},
		conns: map[uint64]map[string]struct{}{}, contested: map[place]*holder{}}
}

func (m *RebalanceLockManager) expired(h *holder, now int64) bool {
	return now-h.renewed > m.o.MaxLive.Milliseconds()
}

// Lock takes or renews the locks and returns those that the client holds now. It is remembered as waiting for
// the others.
func (m *RebalanceLockManager) Lock(r Request) (held []body.MessageQueue) {
	if len(r.Queues) == 0 || len(r.Group) > maxNameBytes || len(r.ClientID) > maxNameBytes {
		return nil
	}
	now := m.o.Clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := m.groups[r.Group]
	if locks == nil {
		locks = map[body.MessageQueue]*holder{}
	}
	// The names are pieces of a request's text.
	r.Group, r.ClientID = strings.Clone(r.Group), strings.Clone(r.ClientID)
	for _, q := range r.Queues {
		h := locks[q]
		switch {
		case h == nil:
			if m.count >= MaxLocks || len(q.Topic) > maxNameBytes || len(q.BrokerName) > maxNameBytes {
				continue
			}
			q.BrokerName, q.Topic = strings.Clone(q.BrokerName), strings.Clone(q.Topic)
			h = &holder{}
			locks[q] = h
			m.count++
		case h.clientID != r.ClientID && !m.expired(h, now):
			m.refuse(h, &r, q, now)
			continue
		}
		if h.clientID != r.ClientID {
			h.clientID, h.pause = r.ClientID, 0
			h.waiting = slices.DeleteFunc(h.waiting, func(w waiter) bool { return w.clientID == r.ClientID })
			m.changes++
		}
		h.conn, h.renewed = r.Conn, now
		held = append(held, q)
	}
	if len(locks) > 0 {
		m.groups[r.Group] = locks
	}
	if len(held) > 0 {
		m.remember(r.Conn, r.Group)
	}
	return held
}

// refuse notes who wants a lock that another holds; mu is held.
func (m *RebalanceLockManager) refuse(h *holder, r *Request, q body.MessageQueue, now int64) {
	for i := range h.waiting {
		if h.waiting[i].clientID == r.ClientID {
			h.waiting[i].asked, h.waiting[i].conn = now, r.Conn
			return
		}
	}
	if len(h.waiting) >= MaxWaiting {
		return
	}
	if len(h.waiting) == 0 {
		h.pause = firstNudge
		h.nudgeAt = now + firstNudge.Milliseconds()
		m.contested[place{r.Group, body.MessageQueue{BrokerName: strings.Clone(q.BrokerName), QueueID: q.QueueID,
			Topic: strings.Clone(q.Topic)}}] = h
	}
	h.waiting = append(h.waiting, waiter{r.ClientID, r.Conn, now})
}

// remember notes that a connection holds locks of a group; mu is held.
func (m *RebalanceLockManager) remember(conn uint64, group string) {
	if conn == 0 {
		return
	}
	groups := m.conns[conn]
	if groups == nil {
		groups = map[string]struct{}{}
		m.conns[conn] = groups
	}
	if len(groups) < MaxGroupsPerConn {
		groups[group] = struct{}{}
	}
}

// release takes a lock away and returns who waited for it; mu is held.
func (m *RebalanceLockManager) release(group string, q body.MessageQueue, h *holder, out []Notice) []Notice {
	for _, w := range h.waiting {
		out = append(out, Notice{group, w.clientID})
	}
	locks := m.groups[group]
	delete(locks, q)
	if len(locks) == 0 {
		delete(m.groups, group)
	}
	delete(m.contested, place{group, q})
	m.count--
	m.changes++
	return out
}

// Unlock gives up the locks that the client holds; others are untouched. A released queue can be locked at
// once. Those who were refused it are returned.
func (m *RebalanceLockManager) Unlock(r Request) (tell []Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := m.groups[r.Group]
	for _, q := range r.Queues {
		if h := locks[q]; h != nil && h.clientID == r.ClientID && !m.frozen {
			tell = m.release(strings.Clone(r.Group), q, h, tell)
		}
	}
	return once(tell)
}

// ReleaseClient gives up all locks of a client that has left a group.
func (m *RebalanceLockManager) ReleaseClient(group, clientID string) (tell []Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return nil
	}
	for q, h := range m.groups[group] {
		if h.clientID == clientID {
			tell = m.release(strings.Clone(group), q, h, tell)
		}
	}
	return once(tell)
}

// ReleaseConn gives up the locks that were renewed last by a connection that has ended, and forgets that its
// client waited for others. elsewhere tells by which other connection a member of the group is still here, 0
// when it is not: then it keeps its locks.
func (m *RebalanceLockManager) ReleaseConn(conn uint64, elsewhere func(group, clientID string) uint64) (tell []Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return nil
	}
	for at, h := range m.contested {
		m.forget(at, h, func(w waiter) bool { return w.conn == conn && conn != 0 })
	}
	groups := m.conns[conn]
	delete(m.conns, conn)
	for group := range groups {
		for q, h := range m.groups[group] {
			if h.conn != conn {
				continue
			}
			if other := elsewhere(group, h.clientID); other != 0 && other != conn {
				h.conn = other
				m.remember(other, group)
				continue
			}
			tell = m.release(group, q, h, tell)
		}
	}
	return once(tell)
}

// forget drops waiters of a contested lock; mu is held.
func (m *RebalanceLockManager) forget(at place, h *holder, gone func(waiter) bool) {
	if h.waiting = slices.DeleteFunc(h.waiting, gone); len(h.waiting) == 0 {
		delete(m.contested, at)
	}
}

// Step looks at the locks that somebody waits for: call it every second. Without any it costs nothing.
func (m *RebalanceLockManager) Step() (tell []Notice) {
	now := m.o.Clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return nil
	}
	for at, h := range m.contested {
		m.forget(at, h, func(w waiter) bool { return now-w.asked > m.o.MaxLive.Milliseconds() })
		switch {
		case len(h.waiting) == 0:
		case m.expired(h, now):
			tell = m.release(at.group, at.queue, h, tell)
		case now >= h.nudgeAt:
			tell = append(tell, Notice{at.group, h.clientID})
			h.pause = min(2*max(h.pause, firstNudge), maxNudge)
			h.nudgeAt = now + h.pause.Milliseconds()
		}
	}
	return once(tell)
}

// once sorts notices and leaves doubles out.
func once(tell []Notice) []Notice {
	slices.SortFunc(tell, func(a, b Notice) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.ClientID, b.ClientID))
	})
	return slices.Compact(tell)
}

// AnyHeld tells whether the group has a lock that is not expired (Java isLockAllExpired, negated): then its
// failed messages go to the dead letters, since a retry topic would break the order.
func (m *RebalanceLockManager) AnyHeld(group string) bool {
	now := m.o.Clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.groups[group] {
		if !m.expired(h, now) {
			return true
		}
	}
	return false
}

// Owner is the client that holds a queue now, "" when nobody does.
func (m *RebalanceLockManager) Owner(group string, q body.MessageQueue) string {
	now := m.o.Clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.groups[group][q]; h != nil && !m.expired(h, now) {
		return h.clientID
	}
	return ""
}

// DeleteGroup forgets a group's locks.
func (m *RebalanceLockManager) DeleteGroup(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q, h := range m.groups[group] {
		m.release(group, q, h, nil)
	}
}

// Sweep forgets expired locks that nobody waits for, so that groups that are gone cost nothing.
func (m *RebalanceLockManager) Sweep() {
	now := m.o.Clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return
	}
	for g, locks := range m.groups {
		for q, h := range locks {
			if m.expired(h, now) && len(h.waiting) == 0 {
				m.release(g, q, h, nil)
			}
		}
	}
}

// Counts are the locks and how many of them somebody waits for.
func (m *RebalanceLockManager) Counts() (locks, contested int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count, len(m.contested)
}
