package offset

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/cowtable"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// MaxPairs bounds the pairs of group and topic that offsets are kept of: about 300 bytes each, and 32 a
// queue.
const MaxPairs = 1 << 20

// Errors of a commit. Nothing has changed then.
var (
	// ErrInvalid: the offset is negative or the queue id out of range.
	ErrInvalid = errors.New("offset: invalid")
	// ErrLimit: MaxPairs are kept.
	ErrLimit = errors.New("offset: too many groups and topics")
)

// topics are the offsets of one group: topic → queues, copy-on-write.
type topics struct {
	table atomic.Pointer[map[string]*queues]
}

func parseKey(s string) (topic, group string, ok bool) {
	topic, group, ok = strings.Cut(s, codec.TopicGroupSeparator)
	return topic, group, ok && topic != "" && group != "" && !strings.Contains(group, codec.TopicGroupSeparator)
}

// Options of the manager.
type Options struct {
	FS        vfs.FS
	ConfigDir string
	Clock     clock.Clock
	Log       *slog.Logger
	// VersionStep is how many commits make a new data version (Java consumerOffsetUpdateVersionStep).
	VersionStep int64
	// Durable is called before offsets are written: it makes durable what they pass over, or says why not. nil = nothing
	// is needed.
	Durable func() error
	// EnableLmq keeps the offsets in lmqConsumerOffset.json, where groups %LMQ%… have one a topic (Java
	// LmqConsumerOffsetManager).
	EnableLmq bool
}

// Manager is Java's ConsumerOffsetManager.
type Manager struct {
	o       Options
	groups  cowtable.Table[topics]
	mu      sync.Mutex // changes of the tables; never held across I/O: commits on event loops may add a queue
	pairs   int
	saving  sync.Mutex // version and saved
	version body.DataVersion
	commits atomic.Int64
	saved   int64 // commits when it was written last
	resets  atomic.Int64
	born    uint64 // tells the marks of this process from those of others
}

// New makes an empty manager.
func New(o Options) *Manager {
	m := &Manager{o: o, born: rand.Uint64()}
	m.version.Timestamp = o.Clock.Millis()
	return m
}

func (m *Manager) file() string {
	if m.o.EnableLmq {
		return path.Join(m.o.ConfigDir, "lmqConsumerOffset.json")
	}
	return m.plainFile()
}

func (m *Manager) plainFile() string { return path.Join(m.o.ConfigDir, "consumerOffset.json") }

// Load reads the offsets. It is called before anything else. With EnableLmq for the first time it reads consumerOffset.json:
// Java's broker forgets it then.
func (m *Manager) Load() error {
	var w body.ConsumerOffsetSerializeWrapper
	found, err := persist.Load(m.o.FS, m.file(), &w, m.o.Log)
	if err == nil && !found && m.o.EnableLmq {
		found, err = persist.Load(m.o.FS, m.plainFile(), &w, m.o.Log)
	}
	if err != nil || !found {
		return err
	}
	if m.o.EnableLmq {
		w.OffsetTable = withLight(w.OffsetTable, w.LmqOffsetTable)
	}
	tables := map[string]map[string]*queues{}
	for name, offsets := range w.OffsetTable {
		topic, group, ok := parseKey(name)
		if !ok {
			m.o.Log.Warn("consumer offsets of an unreadable key are left out", "file", m.file(), "key", name)
			continue
		}
		if tables[group] == nil {
			tables[group] = map[string]*queues{}
		}
		q := &queues{}
		for id, at := range offsets {
			if c := q.make(id); c != nil && at >= 0 {
				c.committed.Store(int64(at))
			} else {
				m.o.Log.Warn("consumer offset is left out", "file", m.file(), "key", name, "queueId", id, "offset", at)
			}
		}
		tables[group][topic] = q
		m.pairs++
	}
	groups := make(map[string]*topics, len(tables))
	for group, table := range tables {
		t := &topics{}
		t.table.Store(&table)
		groups[group] = t
	}
	m.groups.Load(groups)
	if w.DataVersion != nil {
		m.version = *w.DataVersion
	}
	return nil
}

func (m *Manager) find(group, topic string) *queues {
	t := m.groups.Get(group)
	if t == nil {
		return nil
	}
	return (*t.table.Load())[topic]
}

// obtain finds or makes the queues of a pair; nil when there are too many pairs.
func (m *Manager) obtain(group, topic string) *queues {
	if q := m.find(group, topic); q != nil {
		return q
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.find(group, topic); q != nil {
		return q
	}
	if m.pairs >= MaxPairs {
		return nil
	}
	t := m.groups.Get(group)
	if t == nil {
		t = &topics{}
		t.table.Store(&map[string]*queues{})
		m.groups.Set(group, t)
	}
	table := maps.Clone(*t.table.Load())
	q := &queues{}
	table[topic] = q
	t.table.Store(&table)
	m.pairs++
	return q
}

// light is the queue that the offset of a group is kept under: groups of light queues have one for all.
func (m *Manager) light(group string, queueID int32) int32 {
	if m.o.EnableLmq && codec.IsLMQ(group) {
		return 0
	}
	return queueID
}

// withLight adds the offsets of groups of light queues to the others.
func withLight(table map[string]map[int32]codec.QueueOffset, light map[string]codec.QueueOffset,
) map[string]map[int32]codec.QueueOffset {
	if table == nil {
		table = map[string]map[int32]codec.QueueOffset{}
	}
	for key, at := range light {
		table[key] = map[int32]codec.QueueOffset{0: at}
	}
	return table
}

func (m *Manager) cell(group, topic string, queueID int32) (*cell, error) {
	queueID = m.light(group, queueID)
	if c := m.find(group, topic).cell(queueID); c != nil {
		return c, nil
	}
	if queueID < 0 || queueID >= MaxQueueID {
		return nil, fmt.Errorf("%w: queue id %d not in [0, %d)", ErrInvalid, queueID, MaxQueueID)
	}
	q := m.obtain(group, topic)
	if q == nil {
		return nil, fmt.Errorf("%w: %d", ErrLimit, MaxPairs)
	}
	return q.make(queueID), nil
}

// Commit sets a group's progress in a queue. An offset behind the last one is taken too, as in Java, and
// logged.
func (m *Manager) Commit(from netip.AddrPort, group, topic string, queueID int32,
	at codec.QueueOffset) error {
	if at < 0 {
		return fmt.Errorf("%w: offset %d is negative", ErrInvalid, at)
	}
	c, err := m.cell(group, topic, queueID)
	if err != nil {
		return err
	}
	old := c.committed.Swap(int64(at))
	if old != int64(at) {
		m.commits.Add(1)
	}
	if old > int64(at) {
		m.o.Log.Warn("consumer offset goes back", "group", group, "topic", topic, "queueId", queueID, "from", old,
			"to", int64(at), "remote", from)
	}
	return nil
}

// Query is a group's progress in a queue; ok is false when there is none.
func (m *Manager) Query(group, topic string, queueID int32) (at codec.QueueOffset, ok bool) {
	if c := m.find(group, topic).cell(m.light(group, queueID)); c != nil {
		at = codec.QueueOffset(c.committed.Load())
		return max(at, 0), at >= 0
	}
	return 0, false
}

// CommitPull remembers the offset a group asks for next, for statistics.
func (m *Manager) CommitPull(group, topic string, queueID int32, at codec.QueueOffset) {
	if c, err := m.cell(group, topic, queueID); err == nil && c.pulled.Load() != int64(at) {
		c.pulled.Store(int64(at))
	}
}

// QueryPull is what CommitPull remembered.
func (m *Manager) QueryPull(group, topic string, queueID int32) (at codec.QueueOffset, ok bool) {
	if c := m.find(group, topic).cell(m.light(group, queueID)); c != nil {
		at = codec.QueueOffset(c.pulled.Load())
		return max(at, 0), at >= 0
	}
	return 0, false
}

// Offsets are all committed offsets of a group in a topic.
func (m *Manager) Offsets(group, topic string) map[int32]codec.QueueOffset {
	out := map[int32]codec.QueueOffset{}
	m.find(group, topic).each(func(id int32, at codec.QueueOffset) { out[id] = at })
	return out
}

// committed tells whether there is an offset in any queue: a pair may be kept for its pulls alone.
func (q *queues) committed() (any bool) {
	q.each(func(int32, codec.QueueOffset) { any = true })
	return any
}

// PulledTopics are the topics that a group has pulled since the start, sorted.
func (m *Manager) PulledTopics(group string) (out []string) {
	if t := m.groups.Get(group); t != nil {
		out = slices.Sorted(maps.Keys(*t.table.Load()))
	}
	return out
}

// TopicsOf are the topics in which a group has offsets, sorted.
func (m *Manager) TopicsOf(group string) (out []string) {
	if t := m.groups.Get(group); t != nil {
		for topic, q := range *t.table.Load() {
			if q.committed() {
				out = append(out, topic)
			}
		}
	}
	slices.Sort(out)
	return out
}

// GroupsOf are the groups with offsets in a topic, sorted.
func (m *Manager) GroupsOf(topic string) (out []string) {
	for group, t := range m.groups.All() {
		if q := (*t.table.Load())[topic]; q.committed() {
			out = append(out, group)
		}
	}
	slices.Sort(out)
	return out
}

// WithProgress are those of some topics in which any group has come further than the begin of a queue. It looks at every
// group once, however many topics there are.
func (m *Manager) WithProgress(topics map[string]bool) (out []string) {
	found := map[string]bool{}
	for _, t := range m.groups.All() {
		for name, q := range *t.table.Load() {
			if topics[name] && !found[name] {
				q.each(func(_ int32, at codec.QueueOffset) { found[name] = found[name] || at > 0 })
			}
		}
	}
	for name, any := range found {
		if any {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Clone gives dest the offsets of src in a topic instead of its own (request code 314); resets of dest that wait
// are void. Without any offset of src nothing changes. The error is ErrLimit.
func (m *Manager) Clone(src, dest, topic string) error {
	from := m.find(src, topic)
	if from == nil || src == dest {
		return nil
	}
	offsets := m.Offsets(src, topic)
	if len(offsets) == 0 {
		return nil
	}
	to := m.obtain(dest, topic)
	if to == nil {
		return fmt.Errorf("%w: %d", ErrLimit, MaxPairs)
	}
	for id, at := range offsets {
		to.make(id).committed.Store(int64(at))
	}
	for id, c := range *to.list.Load() {
		if _, ok := offsets[int32(id)]; !ok {
			c.committed.Store(none)
		}
		if c.reset.Swap(none) >= 0 {
			m.resets.Add(-1)
		}
	}
	m.commits.Add(1)
	return nil
}

// DeleteGroup forgets a group's offsets, so that what is made anew under the name starts afresh.
func (m *Manager) DeleteGroup(group string) {
	m.drop(func(g, _ string) bool { return g == group })
}

// DeleteTopic forgets all groups' offsets in a topic.
func (m *Manager) DeleteTopic(topic string) {
	m.drop(func(_, t string) bool { return t == topic })
}

func (m *Manager) drop(match func(group, topic string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := 0
	for group, t := range m.groups.All() {
		table := *t.table.Load()
		rest := maps.Clone(table)
		for topic, q := range table {
			if match(group, topic) {
				m.resets.Add(-q.pendingResets())
				delete(rest, topic)
			}
		}
		if len(rest) == len(table) {
			continue
		}
		dropped += len(table) - len(rest)
		t.table.Store(&rest)
		if len(rest) == 0 {
			m.groups.Set(group, nil)
		}
	}
	if dropped > 0 {
		m.pairs -= dropped
		m.commits.Add(1)
	}
}

// AssignReset has the next pull of the group start elsewhere (Java assignResetOffset, code 222): it is
// answered PULL_OFFSET_MOVED once. The committed offset is moved at once.
func (m *Manager) AssignReset(topic, group string, queueID int32, at codec.QueueOffset) error {
	if at < 0 {
		return fmt.Errorf("%w: offset %d is negative", ErrInvalid, at)
	}
	c, err := m.cell(group, topic, queueID)
	if err != nil {
		return err
	}
	if c.reset.Swap(int64(at)) < 0 {
		m.resets.Add(1)
	}
	c.committed.Store(int64(at))
	m.commits.Add(1)
	return nil
}

// HasReset tells whether a reset waits for the group's next pull.
func (m *Manager) HasReset(topic, group string, queueID int32) bool {
	if m.resets.Load() == 0 {
		return false
	}
	c := m.find(group, topic).cell(queueID)
	return c != nil && c.reset.Load() >= 0
}

// TakeReset takes a waiting reset. Without any waiting it costs one atomic load.
func (m *Manager) TakeReset(topic, group string, queueID int32) (at codec.QueueOffset, ok bool) {
	if m.resets.Load() == 0 {
		return 0, false
	}
	c := m.find(group, topic).cell(queueID)
	if c == nil {
		return 0, false
	}
	v := c.reset.Swap(none)
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
	w := body.ConsumerOffsetSerializeWrapper{DataVersion: &v,
		OffsetTable: map[string]map[int32]codec.QueueOffset{}}
	if m.o.EnableLmq {
		w.LmqOffsetTable = map[string]codec.QueueOffset{}
	}
	for group, t := range m.groups.All() {
		for topic, q := range *t.table.Load() {
			offsets := map[int32]codec.QueueOffset{}
			q.each(func(id int32, at codec.QueueOffset) { offsets[id] = at })
			switch key := topic + codec.TopicGroupSeparator + group; {
			case len(offsets) == 0:
			case m.o.EnableLmq && codec.IsLMQ(group):
				w.LmqOffsetTable[key] = offsets[0]
			default:
				w.OffsetTable[key] = offsets
			}
		}
	}
	return w
}

// Mark names the offsets as they are: what Wrapper gives after a Mark holds every change that this mark counts, and a change
// after it makes another mark. It costs nothing, unlike a data version, which is a new one when the file is written only.
func (m *Manager) Mark() string {
	return strconv.FormatUint(m.born, 36) + "." + strconv.FormatInt(m.commits.Load(), 36)
}

// NextState bumps the version for the time of another master: epoch is what the controllers count. Versions of this time are
// newer than all of the time before. The next Persist writes it.
func (m *Manager) NextState(epoch int32) {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.version = m.version.Next(m.o.Clock.Millis(), max(m.version.StateVersion, int64(epoch)))
	m.commits.Add(1)
}

// Persist writes consumerOffset.json if something changed since the last time.
func (m *Manager) Persist() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	now := m.commits.Load()
	if now == m.saved {
		return nil
	}
	next := m.version
	if step := max(m.o.VersionStep, 1); now/step != m.saved/step {
		next = next.Next(m.o.Clock.Millis(), next.StateVersion)
	}
	was := m.version
	m.version = next
	w := m.wrap()
	if m.o.Durable != nil {
		if err := m.o.Durable(); err != nil {
			m.version = was
			return err
		}
	}
	if err := persist.Save(m.o.FS, m.file(), &w); err != nil {
		m.version = was
		return err
	}
	m.saved = now
	return nil
}
