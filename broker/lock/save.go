package lock

import (
	"slices"
	"strings"

	"skylark/codec/body"
	"skylark/internal/persist"
)

// file is queueLocks.json. Java knows no such file and leaves it alone.
type file struct {
	Locks []owned `json:"locks"`
}

// owned is a queue with its owner.
type owned struct {
	BrokerName string `json:"brokerName"`
	ClientID   string `json:"clientId"`
	Group      string `json:"group"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// Load reads the owners of before the restart: call it before anything else. They have half of MaxLive to renew
// their locks, from now on.
func (m *RebalanceLockManager) Load() error {
	if m.o.FS == nil {
		return nil
	}
	var f file
	found, err := persist.Load(m.o.FS, m.o.File, &f, m.o.Log)
	if err != nil || !found {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	renewed := m.o.Clock.Millis() - m.o.MaxLive.Milliseconds()/2
	for i := range f.Locks {
		l := &f.Locks[i]
		if l.Group == "" || l.ClientID == "" || m.count >= MaxLocks {
			continue
		}
		locks := m.groups[l.Group]
		if locks == nil {
			locks = map[body.MessageQueue]*holder{}
			m.groups[l.Group] = locks
		}
		q := body.MessageQueue{BrokerName: l.BrokerName, QueueID: l.QueueID, Topic: l.Topic}
		if locks[q] == nil {
			locks[q] = &holder{clientID: l.ClientID, renewed: renewed}
			m.count++
		}
	}
	return nil
}

// Persist writes the owners if they have changed since the last time. Expired ones are left out.
func (m *RebalanceLockManager) Persist() error {
	if m.o.FS == nil {
		return nil
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	now := m.o.Clock.Millis()
	m.mu.Lock()
	changes := m.changes
	if changes == m.saved {
		m.mu.Unlock()
		return nil
	}
	f := file{Locks: make([]owned, 0, m.count)}
	for g, locks := range m.groups {
		for q, h := range locks {
			if !m.expired(h, now) {
				f.Locks = append(f.Locks, owned{q.BrokerName, h.clientID, g, q.QueueID, q.Topic})
			}
		}
	}
	m.mu.Unlock()
	slices.SortFunc(f.Locks, func(a, b owned) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.QueueID) - int(b.QueueID)
	})
	if err := persist.Save(m.o.FS, m.o.File, &f); err != nil {
		return err
	}
	m.saved = changes
	return nil
}

// Close writes the owners for the next start. From now on nothing is released: the connections end because the
// broker stops, not because their clients have gone.
func (m *RebalanceLockManager) Close() error {
	m.mu.Lock()
	m.frozen = true
	m.mu.Unlock()
	return m.Persist()
}
