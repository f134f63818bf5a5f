// Package lock is the table of queue locks of orderly consumers (Java RebalanceLockManager, spec
// request-codes.md §4, codes 41 and 42). It is in memory only: no lock survives a restart.
package lock

import (
	"strings"
	"sync"
	"time"

	"skylark/codec/body"
	"skylark/internal/clock"
)

// MaxLiveTime is how long a lock lasts after its last renewal (Java's default of
// rocketmq.broker.rebalance.lockMaxLiveTime).
const MaxLiveTime = 60 * time.Second

// Limits of the table, which Java does not have: queues beyond them are not granted.
const (
	// MaxLocks bounds all locks, about 200 bytes each.
	MaxLocks = 1 << 20
	// maxNameBytes bounds the names of a queue's topic and broker, of the client and the group.
	maxNameBytes = 1024
)

// RebalanceLockManager keeps group → queue → holder.
type RebalanceLockManager struct {
	clock   clock.Clock
	maxLive time.Duration
	mu      sync.Mutex
	groups  map[string]map[body.MessageQueue]holder
	count   int
}

type holder struct {
	clientID string
	renewed  int64 // ms
}

// New makes an empty table whose locks last maxLive after their last renewal.
func New(ck clock.Clock, maxLive time.Duration) *RebalanceLockManager {
	return &RebalanceLockManager{clock: ck, maxLive: maxLive, groups: map[string]map[body.MessageQueue]holder{}}
}

func (m *RebalanceLockManager) expired(h holder, now int64) bool {
	return now-h.renewed > m.maxLive.Milliseconds()
}

// Lock takes or renews the locks and returns those that clientID holds now.
func (m *RebalanceLockManager) Lock(group, clientID string,
	queues []body.MessageQueue) (held []body.MessageQueue) {
	if len(queues) == 0 || len(group) > maxNameBytes || len(clientID) > maxNameBytes {
		return nil
	}
	now := m.clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := m.groups[group]
	if locks == nil {
		locks, group = map[body.MessageQueue]holder{}, strings.Clone(group)
	}
	clientID = strings.Clone(clientID)
	for _, q := range queues {
		h, ok := locks[q]
		if ok && h.clientID != clientID && !m.expired(h, now) {
			continue
		}
		if !ok {
			if m.count >= MaxLocks || len(q.Topic) > maxNameBytes || len(q.BrokerName) > maxNameBytes {
				continue
			}
			m.count++ // the names are pieces of a request's text
			q = body.MessageQueue{BrokerName: strings.Clone(q.BrokerName), QueueID: q.QueueID,
				Topic: strings.Clone(q.Topic)}
		}
		locks[q] = holder{clientID, now}
		held = append(held, q)
	}
	if len(locks) > 0 {
		m.groups[group] = locks
	}
	return held
}

// Unlock gives up the locks that clientID holds; others are untouched. A released queue can be locked at
// once.
func (m *RebalanceLockManager) Unlock(group, clientID string, queues []body.MessageQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := m.groups[group]
	for _, q := range queues {
		if h, ok := locks[q]; ok && h.clientID == clientID {
			delete(locks, q)
			m.count--
		}
	}
	if len(locks) == 0 {
		delete(m.groups, group)
	}
}

// AnyHeld tells whether the group has a lock that is not expired (Java isLockAllExpired, negated): then its
// failed messages go to the dead letters, since a retry topic would break the order.
func (m *RebalanceLockManager) AnyHeld(group string) bool {
	now := m.clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.groups[group] {
		if !m.expired(h, now) {
			return true
		}
	}
	return false
}

// DeleteGroup forgets a group's locks.
func (m *RebalanceLockManager) DeleteGroup(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count -= len(m.groups[group])
	delete(m.groups, group)
}

// Sweep forgets expired locks, so that groups that are gone cost nothing.
func (m *RebalanceLockManager) Sweep() {
	now := m.clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	for g, locks := range m.groups {
		for q, h := range locks {
			if m.expired(h, now) {
				delete(locks, q)
				m.count--
			}
		}
		if len(locks) == 0 {
			delete(m.groups, g)
		}
	}
}
