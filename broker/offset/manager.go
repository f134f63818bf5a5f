package offset

import (
	"log/slog"
	"maps"
	"net/netip"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// key is a group and a topic.
type key struct{ group, topic string }

func (k key) String() string { return k.topic + codec.TopicGroupSeparator + k.group }

func parseKey(s string) (key, bool) {
	topic, group, ok := strings.Cut(s, codec.TopicGroupSeparator)
	return key{group, topic}, ok && topic != "" && group != ""
}

// queues are the offsets of one group in one topic: a copy-on-write slice by queue id, −1 = none.
type queues struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*cell]
}

// cell is one queue's progress.
type cell struct {
	committed atomic.Int64 // −1 = none
	pulled    atomic.Int64 // of statistics only, not persisted
	reset     atomic.Int64 // pending server-side reset, −1 = none
}

// MaxQueueID bounds the queue ids of requests: a table slot is kept for each up to the highest.
const MaxQueueID = 1 << 16

func (q *queues) cell(id int32) *cell {
	if l := q.list.Load(); l != nil && id >= 0 && int(id) < len(*l) {
		return (*l)[id]
	}
	return nil
}

func (q *queues) make(id int32) *cell {
	if c := q.cell(id); c != nil {
		return c
	}
	if id < 0 || id >= MaxQueueID {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []*cell
	if l := q.list.Load(); l != nil {
		list = append(list, *l...)
	}
	for int(id) >= len(list) {
		c := &cell{}
		c.committed.Store(-1)
		c.pulled.Store(-1)
		c.reset.Store(-1)
		list = append(list, c)
	}
	q.list.Store(&list)
	return list[id]
}

// each calls f for every queue with a committed offset.
func (q *queues) each(f func(id int32, at codec.QueueOffset)) {
	l := q.list.Load()
	if l == nil {
		return
	}
	for id, c := range *l {
		if at := c.committed.Load(); at >= 0 {
			f(int32(id), codec.QueueOffset(at))
		}
	}
}

// Options of the manager.
type Options struct {
	FS        vfs.FS
	ConfigDir string
	Clock     clock.Clock
	Log       *slog.Logger
	// VersionStep is how many commits make a new data version (Java consumerOffsetUpdateVersionStep).
	VersionStep int64
}

// Manager is Java's ConsumerOffsetManager.
type Manager struct {
	o       Options
	table   atomic.Pointer[map[key]*queues]
	mu      sync.Mutex // changes of the table; never held across I/O: commits on event loops may add a queue
	saving  sync.Mutex // version and saved
	version body.DataVersion
	commits atomic.Int64
	saved   int64 // commits when it was written last
	resets  atomic.Int64
}

// New makes an empty manager.
func New(o Options) *Manager {
	m := &Manager{o: o}
	m.table.Store(&map[key]*queues{})
	m.version.Timestamp = o.Clock.Millis()
	return m
}

func (m *Manager) file() string { return path.Join(m.o.ConfigDir, "consumerOffset.json") }

// Load reads consumerOffset.json.
func (m *Manager) Load() error {
	var w body.ConsumerOffsetSerializeWrapper
	found, err := persist.Load(m.o.FS, m.file(), &w, m.o.Log)
	if err != nil || !found {
		return err
	}
	for name, offsets := range w.OffsetTable {
		k, ok := parseKey(name)
		if !ok {
			m.o.Log.Warn("consumer offsets of an unreadable key are left out", "file", m.file(), "key", name)
			continue
		}
		q := m.find(k, true)
		for id, at := range offsets {
			if c := q.make(int32(id)); c != nil && int64(at) >= 0 {
				c.committed.Store(int64(at))
			}
		}
	}
	if w.DataVersion != nil {
		m.version = *w.DataVersion
	}
	return nil
}

func (m *Manager) find(k key, create bool) *queues {
	if q := (*m.table.Load())[k]; q != nil || !create {
		return q
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.table.Load()
	if q := old[k]; q != nil {
		return q
	}
	table := maps.Clone(old)
	q := &queues{}
	table[k] = q
	m.table.Store(&table)
	return q
}

// Commit sets a group's progress in a queue. An offset behind the last one is taken too, as in Java, and logged.
func (m *Manager) Commit(from netip.AddrPort, group, topic string, queueID int32, at codec.QueueOffset) {
	if at < 0 {
		return
	}
	c := m.find(key{group, topic}, true).make(queueID)
	if c == nil {
		return
	}
	old := c.committed.Swap(int64(at))
	if old != int64(at) {
		m.commits.Add(1)
	}
	if old > int64(at) {
		m.o.Log.Warn("consumer offset goes back", "group", group, "topic", topic, "queueId", queueID, "from", old,
			"to", int64(at), "remote", from)
	}
}

// Query is a group's progress in a queue; ok is false when there is none.
func (m *Manager) Query(group, topic string, queueID int32) (at codec.QueueOffset, ok bool) {
	q := m.find(key{group, topic}, false)
	if q == nil {
		return 0, false
	}
	c := q.cell(queueID)
	if c == nil || c.committed.Load() < 0 {
		return 0, false
	}
	return codec.QueueOffset(c.committed.Load()), true
}

// CommitPull remembers the offset a group asks for next, for statistics.
func (m *Manager) CommitPull(group, topic string, queueID int32, at codec.QueueOffset) {
	if c := m.find(key{group, topic}, true).make(queueID); c != nil {
		c.pulled.Store(int64(at))
	}
}

// QueryPull is what CommitPull remembered.
func (m *Manager) QueryPull(group, topic string, queueID int32) (at codec.QueueOffset, ok bool) {
	if q := m.find(key{group, topic}, false); q != nil {
		if c := q.cell(queueID); c != nil && c.pulled.Load() >= 0 {
			return codec.QueueOffset(c.pulled.Load()), true
		}
	}
	return 0, false
}

// Offsets are all committed offsets of a group in a topic.
func (m *Manager) Offsets(group, topic string) map[int32]codec.QueueOffset {
	out := map[int32]codec.QueueOffset{}
	if q := m.find(key{group, topic}, false); q != nil {
		q.each(func(id int32, at codec.QueueOffset) { out[id] = at })
	}
	return out
}

// TopicsOf are the topics in which a group has offsets.
func (m *Manager) TopicsOf(group string) (topics []string) {
	for k := range *m.table.Load() {
		if k.group == group {
			topics = append(topics, k.topic)
		}
	}
	return topics
}

// GroupsOf are the groups with offsets in a topic.
func (m *Manager) GroupsOf(topic string) (groups []string) {
	for k := range *m.table.Load() {
		if k.topic == topic {
			groups = append(groups, k.group)
		}
	}
	return groups
}

// Clone gives dest the offsets of src in a topic (request code 314).
func (m *Manager) Clone(src, dest, topic string) {
	from := m.find(key{src, topic}, false)
	if from == nil {
		return
	}
	to := m.find(key{dest, topic}, true)
	from.each(func(id int32, at codec.QueueOffset) { to.make(id).committed.Store(int64(at)) })
	m.commits.Add(1)
}

// DeleteGroup and DeleteTopic forget offsets, so that what is made anew under the name starts afresh.
func (m *Manager) DeleteGroup(group string) { m.drop(func(k key) bool { return k.group == group }) }

// DeleteTopic forgets all groups' offsets in a topic.
func (m *Manager) DeleteTopic(topic string) { m.drop(func(k key) bool { return k.topic == topic }) }

func (m *Manager) drop(match func(key) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	table := maps.Clone(*m.table.Load())
	maps.DeleteFunc(table, func(k key, _ *queues) bool { return match(k) })
	if len(table) != len(*m.table.Load()) {
		m.table.Store(&table)
		m.commits.Add(1)
	}
}

// AssignReset has the next pull of the group start elsewhere (Java assignResetOffset, code 222): it is answered
// PULL_OFFSET_MOVED once. The committed offset is moved at once.
func (m *Manager) AssignReset(topic, group string, queueID int32, at codec.QueueOffset) {
	c := m.find(key{group, topic}, true).make(queueID)
	if c == nil || at < 0 {
		return
	}
	if c.reset.Swap(int64(at)) < 0 {
		m.resets.Add(1)
	}
	c.committed.Store(int64(at))
	m.commits.Add(1)
}

// HasReset tells whether a reset waits for the group's next pull.
func (m *Manager) HasReset(topic, group string, queueID int32) bool {
	if m.resets.Load() == 0 {
		return false
	}
	q := m.find(key{group, topic}, false)
	if q == nil {
		return false
	}
	c := q.cell(queueID)
	return c != nil && c.reset.Load() >= 0
}

// TakeReset takes a waiting reset. Without any waiting it costs one atomic load.
func (m *Manager) TakeReset(topic, group string, queueID int32) (at codec.QueueOffset, ok bool) {
	if m.resets.Load() == 0 {
		return 0, false
	}
	q := m.find(key{group, topic}, false)
	if q == nil {
		return 0, false
	}
	c := q.cell(queueID)
	if c == nil {
		return 0, false
	}
	v := c.reset.Swap(-1)
	if v < 0 {
		return 0, false
	}
	m.resets.Add(-1)
	return codec.QueueOffset(v), true
}

// Wrapper is the table for GET_ALL_CONSUMER_OFFSET and the file.
func (m *Manager) Wrapper() body.ConsumerOffsetSerializeWrapper {
	m.saving.Lock()
	defer m.saving.Unlock()
	return m.wrap()
}

func (m *Manager) wrap() body.ConsumerOffsetSerializeWrapper {
	v := m.version
	w := body.ConsumerOffsetSerializeWrapper{DataVersion: &v, OffsetTable: map[string]map[int32]codec.QueueOffset{}}
	for k, q := range *m.table.Load() {
		offsets := map[int32]codec.QueueOffset{}
		q.each(func(id int32, at codec.QueueOffset) { offsets[id] = at })
		if len(offsets) > 0 {
			w.OffsetTable[k.String()] = offsets
		}
	}
	return w
}

// Persist writes consumerOffset.json if something changed since the last time.
func (m *Manager) Persist() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	now := m.commits.Load()
	if now == m.saved {
		return nil
	}
	if step := max(m.o.VersionStep, 1); now/step != m.saved/step {
		m.version = m.version.Next(m.o.Clock.Millis(), m.version.StateVersion)
	}
	w := m.wrap()
	if err := persist.Save(m.o.FS, m.file(), &w); err != nil {
		return err
	}
	m.saved = now
	return nil
}
