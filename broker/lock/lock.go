// Package lock is the table of queue locks of orderly consumers (Java RebalanceLockManager, spec request-codes.md §4,
// codes 41 and 42). It is in memory only: no lock survives a restart.
package lock

import (
	"sync"
	"time"

	"skylark/codec/body"
	"skylark/internal/clock"
)

// MaxLiveTime is how long a lock lasts after its last renewal (Java rocketmq.broker.rebalance.lockMaxLiveTime).
const MaxLiveTime = 60 * time.Second

// RebalanceLockManager keeps group → queue → holder.
type RebalanceLockManager struct {
	clock  clock.Clock
	mu     sync.Mutex
	groups map[string]map[body.MessageQueue]holder
}

type holder struct {
	clientID string
	renewed  int64 // ms
}

// New makes an empty table.
func New(ck clock.Clock) *RebalanceLockManager {
	return &RebalanceLockManager{clock: ck, groups: map[string]map[body.MessageQueue]holder{}}
}

func (h holder) expired(now int64) bool { return now-h.renewed > MaxLiveTime.Milliseconds() }

// Lock takes or renews the locks and returns those that clientID holds now.
func (m *RebalanceLockManager) Lock(group, clientID string, queues []body.MessageQueue) (held []body.MessageQueue) {
	now := m.clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := m.groups[group]
	if locks == nil {
		locks = map[body.MessageQueue]holder{}
		m.groups[group] = locks
	}
	for _, q := range queues {
		if h, ok := locks[q]; !ok || h.clientID == clientID || h.expired(now) {
			locks[q] = holder{clientID, now}
			held = append(held, q)
		}
	}
	return held
}

// Unlock gives up the locks that clientID holds; others are untouched. A released queue can be locked at once.
func (m *RebalanceLockManager) Unlock(group, clientID string, queues []body.MessageQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := m.groups[group]
	for _, q := range queues {
		if locks[q].clientID == clientID {
			delete(locks, q)
		}
	}
	if len(locks) == 0 {
		delete(m.groups, group)
	}
}

// AnyHeld tells whether the group has a lock that is not expired (Java isLockAllExpired, negated): then its failed
// messages go to the dead letters, since a retry topic would break the order.
func (m *RebalanceLockManager) AnyHeld(group string) bool {
	now := m.clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.groups[group] {
		if !h.expired(now) {
			return true
		}
	}
	return false
}

// DeleteGroup forgets a group's locks.
func (m *RebalanceLockManager) DeleteGroup(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, group)
}

// Sweep forgets expired locks, so that groups that are gone cost nothing.
func (m *RebalanceLockManager) Sweep() {
	now := m.clock.Millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	for g, locks := range m.groups {
		for q, h := range locks {
			if h.expired(now) {
				delete(locks, q)
			}
		}
		if len(locks) == 0 {
			delete(m.groups, g)
		}
	}
}
