// Package statictopic keeps the mappings of static topics (Java TopicQueueMappingManager): which physical queue of this
// broker is which logical queue of a topic. They are in config/topicQueueMapping.json, and in the routes of the topics.
//
// What is served is a topic that lives on this broker alone and was never moved, as `mqadmin updateStaticTopic -b` makes
// it: there a logical queue and its offsets are the physical ones, and no request has to be translated. Other mappings
// are refused with the reason; those in a directory of Java's are kept in the file, left out of the routes, and said in
// the log.
package statictopic

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

var (
	// ErrInvalid refuses a mapping that contradicts itself or the one there is.
	ErrInvalid = errors.New("statictopic: invalid mapping")
	// ErrNotServed refuses a mapping of several brokers, or of a topic that was moved.
	ErrNotServed = errors.New("statictopic: only static topics on this broker alone are served")
)

// MaxTopics bounds the static topics; each takes about 200 bytes and 150 for each queue.
const MaxTopics = 10_000

// Options of the manager; all are set.
type Options struct {
	FS         vfs.FS
	ConfigDir  string
	Clock      clock.Clock
	Log        *slog.Logger
	BrokerName string
}

// Manager keeps topic → mapping. Mappings that it gives away are not changed any more.
type Manager struct {
	o       Options
	mu      sync.Mutex
	table   map[string]*body.TopicQueueMappingDetail
	version body.DataVersion
}

// New makes an empty manager.
func New(o Options) *Manager {
	return &Manager{o: o, table: map[string]*body.TopicQueueMappingDetail{}}
}

func (m *Manager) file() string { return path.Join(m.o.ConfigDir, "topicQueueMapping.json") }

// Load reads topicQueueMapping.json; a missing one is an empty table. Damage of file and backup is ErrDamaged of package
// persist.
func (m *Manager) Load() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var w body.TopicQueueMappingSerializeWrapper
	if _, err := persist.Load(m.o.FS, m.file(), &w, m.o.Log); err != nil {
		return err
	}
	for name, d := range w.TopicQueueMappingInfoMap {
		if d == nil {
			continue
		}
		m.table[name] = d
		if err := m.served(d); err != nil {
			m.o.Log.Warn("static topic without its mapping: clients see its physical queues", "topic", name, "error", err)
		}
	}
	m.version = w.DataVersion
	return nil
}

// served tells why a mapping is not one that needs no translation; nil: it is.
func (m *Manager) served(d *body.TopicQueueMappingDetail) error {
	if d.BrokerName != m.o.BrokerName {
		return fmt.Errorf("%w: the mapping is for broker %q, this is %q", ErrInvalid, d.BrokerName, m.o.BrokerName)
	}
	for _, id := range slices.Sorted(maps.Keys(d.HostedQueues)) {
		items := d.HostedQueues[id]
		switch {
		case len(items) == 0:
			return fmt.Errorf("%w: logical queue %d of %s has no items", ErrInvalid, id, d.Topic)
		case len(items) > 1:
			return fmt.Errorf("%w: logical queue %d of %s was moved %d times", ErrNotServed, id, d.Topic, len(items)-1)
		}
		it := &items[0]
		if it.BrokerName != m.o.BrokerName || it.QueueID != id || it.LogicOffset != 0 || it.StartOffset != 0 || it.EndOffset >= 0 {
			return fmt.Errorf("%w: logical queue %d of %s is queue %d of %s, offsets %d to %d begin at %d", ErrNotServed, id,
				d.Topic, it.QueueID, it.BrokerName, it.StartOffset, it.EndOffset, it.LogicOffset)
		}
	}
	if n := int(d.TotalQueues); n != len(d.HostedQueues) {
		return fmt.Errorf("%w: %s has %d logical queues, %d of them here", ErrNotServed, d.Topic, n, len(d.HostedQueues))
	}
	return nil
}

// Update takes over a mapping and writes the file; an error changes nothing. force leaves out the comparison with the
// mapping there is (Java updateTopicQueueMapping).
func (m *Manager) Update(d *body.TopicQueueMappingDetail, force bool) error {
	if err := m.served(d); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.table[d.Topic]
	switch {
	case old == nil && len(m.table) >= MaxTopics:
		return fmt.Errorf("%w: there are %d static topics, that is the limit", ErrInvalid, len(m.table))
	case old != nil && !force:
		if err := newer(d, old); err != nil {
			return err
		}
	}
	return m.put(d.Topic, d)
}

// newer tells why a mapping cannot follow another one.
func newer(d, old *body.TopicQueueMappingDetail) error {
	switch {
	case d.Epoch < old.Epoch:
		return fmt.Errorf("%w: Can't accept data with small epoch %d < %d", ErrInvalid, d.Epoch, old.Epoch)
	case d.Scope != old.Scope:
		return fmt.Errorf("%w: Can't accept data with unmatched scope %s != %s", ErrInvalid, d.Scope, old.Scope)
	}
	for id, items := range old.HostedQueues {
		if now := d.HostedQueues[id]; !slices.EqualFunc(items, now, sameStretch) {
			return fmt.Errorf("%w: logical queue %d of %s is another one than before", ErrInvalid, id, d.Topic)
		}
	}
	return nil
}

func sameStretch(a, b body.LogicQueueMappingItem) bool {
	return a.BrokerName == b.BrokerName && a.QueueID == b.QueueID && a.LogicOffset == b.LogicOffset &&
		a.StartOffset == b.StartOffset
}

// put writes the file with a topic's mapping, nil to remove it, and then puts it in force; mu is held.
func (m *Manager) put(topicName string, d *body.TopicQueueMappingDetail) error {
	next := maps.Clone(m.table)
	if next[topicName] = d; d == nil {
		delete(next, topicName)
	}
	version := m.version.Next(m.o.Clock.Millis(), m.version.StateVersion)
	w := body.TopicQueueMappingSerializeWrapper{DataVersion: version, TopicQueueMappingInfoMap: next}
	if err := persist.Save(m.o.FS, m.file(), &w); err != nil {
		return err
	}
	m.table, m.version = next, version
	return nil
}

// Set puts a mapping back as Get gave it; nil removes it.
func (m *Manager) Set(topicName string, d *body.TopicQueueMappingDetail) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d == nil && m.table[topicName] == nil {
		return nil
	}
	return m.put(topicName, d)
}

// Get is the mapping of a topic, nil if it is not a static one.
func (m *Manager) Get(topicName string) *body.TopicQueueMappingDetail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[topicName]
}

// Details are all mappings, for GET_ALL_TOPIC_CONFIG, with their version.
func (m *Manager) Details() (map[string]*body.TopicQueueMappingDetail, body.DataVersion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.table), m.version
}

// Info is what the routes of a topic say of its mapping, nil when there is none or it is not served.
func (m *Manager) Info(topicName string) *body.TopicQueueMappingInfo {
	d := m.Get(topicName)
	if d == nil || m.served(d) != nil {
		return nil
	}
	info := d.TopicQueueMappingInfo
	info.CurrIDMap = map[int32]int32{}
	for id, items := range d.HostedQueues {
		info.CurrIDMap[id] = items[len(items)-1].QueueID
	}
	return &info
}
