package offset

import (
	"maps"

	"skylark/codec"
	"skylark/codec/body"
)

// Ahead is a queue in which a group is further here than on the master.
type Ahead struct {
	Group, Topic string
	QueueID      int32
	Offset       codec.QueueOffset // here
}

// Table are the offsets of GET_ALL_CONSUMER_OFFSET: by topic@group, then by queue.
type Table = map[string]map[int32]codec.QueueOffset

// Follow takes over a master's offsets (Java SlaveSynchronize.syncConsumerOffset), except where consumers have worked here
// since: those of before, what the same master said last (nil: nothing was heard yet), tell them apart from what the master
// moved back on purpose. Without them an offset counts as moved here if our data version is the newer one. What is further
// here is kept and returned, so that the master can be told: an old master that returns must not take consumers back.
//
// Pairs that the master had before and has no more were deleted there, and go. Java keeps them for ever, so that a topic
// made anew finds old offsets on the slave.
func (m *Manager) Follow(before Table, w *body.ConsumerOffsetSerializeWrapper) (ahead []Ahead) {
	m.saving.Lock()
	newer := before == nil && w.DataVersion != nil && m.version.Compare(*w.DataVersion) > 0
	m.saving.Unlock()
	for name, offsets := range w.OffsetTable {
		topic, group, ok := parseKey(name)
		if !ok {
			continue
		}
		for id, at := range offsets {
			c, err := m.cell(group, topic, id)
			if err != nil || at < 0 {
				continue
			}
			own := c.committed.Load()
			moved := newer
			if last, ok := before[name][id]; before != nil {
				moved = !ok || own != int64(last)
			}
			if moved && own > int64(at) {
				ahead = append(ahead, Ahead{group, topic, id, codec.QueueOffset(own)})
				continue
			}
			if own != int64(at) {
				c.committed.Store(int64(at))
				m.commits.Add(1)
			}
		}
	}
	for name := range before {
		if _, ok := w.OffsetTable[name]; !ok {
			if topic, group, ok := parseKey(name); ok {
				m.drop(func(g, t string) bool { return g == group && t == topic })
			}
		}
	}
	if len(ahead) == 0 && w.DataVersion != nil {
		m.saving.Lock()
		m.version = *w.DataVersion
		m.saving.Unlock()
	}
	return ahead
}

// CloneTable copies what a table says, for the next Follow.
func CloneTable(t Table) Table {
	out := make(Table, len(t))
	for name, offsets := range t {
		out[name] = maps.Clone(offsets)
	}
	return out
}

// TakeBack takes the larger of our offsets and those of a slave that consumers used while this master was away, unless the
// slave's version is older. It returns how many queues moved.
func (m *Manager) TakeBack(w *body.ConsumerOffsetSerializeWrapper) (moved int) {
	m.saving.Lock()
	older := w.DataVersion != nil && m.version.Compare(*w.DataVersion) > 0
	m.saving.Unlock()
	if older {
		return 0
	}
	for name, offsets := range w.OffsetTable {
		topic, group, ok := parseKey(name)
		if !ok {
			continue
		}
		for id, at := range offsets {
			c, err := m.cell(group, topic, id)
			if err == nil && int64(at) > c.committed.Load() {
				c.committed.Store(int64(at))
				m.commits.Add(1)
				moved++
			}
		}
	}
	return moved
}
