package conn

import (
	"sync"
	"sync/atomic"

	"skylark/codec"
)

// MaxCompensated bounds the subscriptions of requests that the broker remembers, about 200 bytes each; beyond it the
// newest are not entered.
const MaxCompensated = 1 << 16

// requested are the subscriptions that came with pops (Java ConsumerManager.consumerCompensationTable): who consumes
// through a proxy sends no heartbeats to the broker.
type requested struct {
	mu    sync.RWMutex
	table map[string]map[string]*request // group → topic
	n     int
}

// request is the last subscription of a group's pops of a topic.
type request struct {
	sub atomic.Pointer[Subscription]
	at  atomic.Int64 // ms
}

func (r *requested) find(group, topic string) *request {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table[group][topic]
}

// Compensate notes the subscription that a pop of a group brought. It allocates nothing when the group and the topic are
// known.
func (m *ConsumerManager) Compensate(group, topic string, sub *Subscription) {
	r, now := &m.requested, m.clock.Millis()
	q := r.find(group, topic)
	if q == nil {
		if q = r.enter(group, topic); q == nil {
			return
		}
	}
	q.sub.Store(sub)
	q.at.Store(now)
}

func (r *requested) enter(group, topic string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.table[group][topic]; q != nil {
		return q
	}
	if r.n >= MaxCompensated {
		return nil
	}
	if r.table == nil {
		r.table = map[string]map[string]*request{}
	}
	if r.table[group] == nil {
		r.table[group] = map[string]*request{}
	}
	q := &request{}
	r.table[group][topic] = q
	r.n++
	return q
}

// Find is the subscription of a group for a topic: what its members' heartbeats say, or else what its last pops brought
// (Java findSubscriptionData); nil when there is neither. Who pops a topic pops its retry topics too.
func (m *ConsumerManager) Find(group, topic string) *Subscription {
	if c := m.Get(group); c != nil {
		if s := c.Subscription([]byte(topic)); s != nil {
			return s
		}
	}
	q := m.requested.find(group, topic)
	if q == nil && codec.IsRetryTopic(topic) {
		q = m.requested.find(group, codec.NormalTopicOf(topic, group))
	}
	if q == nil {
		return nil
	}
	return q.sub.Load()
}

// PoppedTopics are the topics that a group has popped lately.
func (m *ConsumerManager) PoppedTopics(group string) (out []string) {
	m.requested.mu.RLock()
	defer m.requested.mu.RUnlock()
	for name := range m.requested.table[group] {
		out = append(out, name)
	}
	return out
}

// ExpireCompensated forgets subscriptions of pops that have not come again for a time in ms (Java
// subscriptionExpiredTimeout).
func (m *ConsumerManager) ExpireCompensated(afterMillis int64) {
	r, limit := &m.requested, m.clock.Millis()-afterMillis
	r.mu.Lock()
	defer r.mu.Unlock()
	for group, topics := range r.table {
		for name, q := range topics {
			if q.at.Load() < limit {
				delete(topics, name)
				r.n--
			}
		}
		if len(topics) == 0 {
			delete(r.table, group)
		}
	}
}
