package topic

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"skylark/broker/stats"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// Limits of the table.
const (
	// MaxQueueNums bounds the queues of a topic. Java takes any number.
	MaxQueueNums = 65535
	// MaxAutoTopics is the number of topics from which none is made automatically any more; tools may go on. A
	// topic takes about 1 KiB.
	MaxAutoTopics = 100_000
)

// Errors of changes.
var (
	ErrNotExist = errors.New("topic: no such topic")
	ErrSystem   = errors.New("topic: a system topic cannot be changed")
	ErrInvalid  = errors.New("topic: invalid configuration")
	ErrTooMany  = errors.New("topic: too many topics")
)

// Topic is a topic as it is now.
type Topic struct {
	Name          string
	Config        body.TopicConfig
	Order         bool
	SendForbidden bool // clients may not send to it
	System        bool
	Compaction    bool // cleanup.policy COMPACTION: messages need a key
	BatchCQ       bool // queue.type BatchCQ: may hold inner batches
	Light         bool // that of a light queue: it exists by its name, and every look-up makes another one
	Put           *stats.TopicPut
}

// Options of the manager. The names are Java's keys of BrokerConfig.
type Options struct {
	FS                    vfs.FS
	ConfigDir             string
	Clock                 clock.Clock
	Log                   *slog.Logger
	ClusterName           string
	BrokerName            string
	AutoCreateTopicEnable bool
	DefaultTopicQueueNums int
	ClusterTopicEnable    bool
	BrokerTopicEnable     bool
	TraceTopicEnable      bool
	MsgTraceTopicName     string
	TimerWheelEnable      bool
	ReviveQueueNum        int
	ValidateSystemTopic   bool // validateSystemTopicWhenUpdateTopic
	MixedMessageType      bool // enableMixedMessageType
	ScheduleQueues        int  // delay levels
	Stats                 *stats.Manager
	// EnableLmq: every topic %LMQ%… exists, with one queue, and stands in no table (Java LmqTopicConfigManager).
	EnableLmq bool
}

// Manager is Java's TopicConfigManager.
type Manager struct {
	o        Options
	table    atomic.Pointer[map[string]*Topic]
	mu       sync.Mutex // changes
	version  body.DataVersion
	onChange func(changed []*Topic)
}

// New makes the manager with the system topics.
func New(o Options) *Manager {
	m := &Manager{o: o, onChange: func([]*Topic) {}}
	m.version.Timestamp = o.Clock.Millis()
	table := map[string]*Topic{}
	for _, c := range m.systemTopics() {
		table[c.TopicName] = m.make(c)
	}
	m.table.Store(&table)
	return m
}

// OnChange is called after a change has been written, with what changed, outside the manager's lock. It is
// set once, before the broker serves.
func (m *Manager) OnChange(f func(changed []*Topic)) { m.onChange = f }

func simple(name string, queues int, perm int32) body.TopicConfig {
	return body.TopicConfig{TopicName: name, ReadQueueNums: int32(queues), WriteQueueNums: int32(queues),
		Perm: perm, TopicFilterType: body.SingleTag}
}

// systemTopics are created at every start (spec store.md §10).
func (m *Manager) systemTopics() []body.TopicConfig {
	const rw, rwx = codec.PermRead | codec.PermWrite, codec.PermRead | codec.PermWrite | codec.PermInherit
	o := &m.o
	list := []body.TopicConfig{
		simple(codec.SelfTestTopic, 1, rw),
		simple(codec.BenchmarkTopic, 1024, rw),
		simple(codec.OffsetMovedEventTopic, 1, rw),
		simple(codec.ScheduleTopic, max(o.ScheduleQueues, 18), rw),
		simple(codec.ReplyTopic(o.ClusterName), 1, rw),
		simple(codec.ReviveTopic(o.ClusterName), max(o.ReviveQueueNum, 1), rw),
		simple(codec.SyncBrokerMemberTopic(o.BrokerName), 1, codec.PermInherit),
		simple(codec.HalfTopic, 1, rw),
		simple(codec.OpHalfTopic, 1, rw),
	}
	if o.AutoCreateTopicEnable {
		list = append(list, simple(codec.AutoCreateTopicKey, o.DefaultTopicQueueNums, rwx))
	}
	perm := int32(codec.PermInherit)
	if o.ClusterTopicEnable {
		perm |= rw
	}
	list = append(list, simple(o.ClusterName, 16, perm))
	perm = codec.PermInherit
	if o.BrokerTopicEnable {
		perm |= rw
	}
	list = append(list, simple(o.BrokerName, 1, perm))
	if o.TraceTopicEnable {
		list = append(list, simple(o.MsgTraceTopicName, 1, rw))
	}
	if o.TimerWheelEnable {
		list = append(list, simple(codec.TimerTopic, 1, rw))
	}
	return list
}

// SystemNames are the names that are the broker's own, whether the topic exists or not, sorted (Java
// TopicValidator.getSystemTopicSet).
func (m *Manager) SystemNames() []string {
	names := []string{codec.AutoCreateTopicKey, codec.ScheduleTopic, codec.BenchmarkTopic, codec.HalfTopic,
		codec.TraceTopic, codec.OpHalfTopic, codec.TransCheckMaxTimeTopic, codec.SelfTestTopic,
		codec.OffsetMovedEventTopic, codec.RocksDBOffsetTopic}
	for _, t := range m.All() {
		if t.System {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsSystem tells whether a topic is the broker's own: it cannot be created or deleted by tools.
func (m *Manager) IsSystem(name string) bool {
	return codec.IsSystemTopic(name) || name == m.o.ClusterName || name == m.o.BrokerName ||
		name == codec.ReplyTopic(m.o.ClusterName) || m.o.TraceTopicEnable && name == m.o.MsgTraceTopicName
}

func (m *Manager) make(c body.TopicConfig) *Topic {
	t := &Topic{Name: c.TopicName, Config: c, Order: c.Order, SendForbidden: codec.IsSendForbidden(c.TopicName),
		System: m.IsSystem(c.TopicName), Compaction: c.Attributes[attributeCleanupPolicy] == policyCompaction,
		BatchCQ: c.Attributes[attributeQueueType] == queueTypeBatch}
	t.Put = m.o.Stats.TopicPut(c.TopicName)
	return t
}

func (m *Manager) file() string { return path.Join(m.o.ConfigDir, "topics.json") }

// Load reads topics.json. Damage of file and backup is ErrDamaged of package persist; the system topics stay.
func (m *Manager) Load() error {
	var w body.TopicConfigSerializeWrapper
	found, err := persist.Load(m.o.FS, m.file(), &w, m.o.Log)
	if err != nil || !found {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	table := maps.Clone(*m.table.Load())
	for name, c := range w.TopicConfigTable {
		if c == nil {
			continue
		}
		c.TopicName = name
		if own := table[name]; own != nil && m.o.ValidateSystemTopic && name != codec.BenchmarkTopic {
			// Nobody could change it but the options, and these count: Java goes on with what the file says, so that
			// a new defaultTopicQueueNums or autoCreateTopicEnable has no effect.
			continue
		}
		table[name] = m.make(*c)
	}
	if !m.o.AutoCreateTopicEnable {
		delete(table, codec.AutoCreateTopicKey)
	}
	m.table.Store(&table)
	m.version = w.DataVersion
	return nil
}

// Lookup finds a topic without allocating, unless it is that of a light queue; nil when there is none.
func (m *Manager) Lookup(name []byte) *Topic {
	if m.o.EnableLmq && bytes.HasPrefix(name, lmqPrefix) {
		return m.light(string(name))
	}
	return (*m.table.Load())[string(name)]
}

// Get is Lookup by string.
func (m *Manager) Get(name string) *Topic {
	if m.o.EnableLmq && codec.IsLMQ(name) {
		return m.light(name)
	}
	return (*m.table.Load())[name]
}

var lmqPrefix = []byte(codec.LMQPrefix)

// light is the topic of a light queue, nil if it cannot be one. It is made for whoever asks: there may be as many as
// clients have names.
func (m *Manager) light(name string) *Topic {
	if codec.ValidateTopic(name) != nil {
		return nil
	}
	t := m.make(simple(name, 1, codec.PermRead|codec.PermWrite))
	t.Light = true
	return t
}

// All are the topics sorted by name.
func (m *Manager) All() []*Topic {
	table := *m.table.Load()
	out := make([]*Topic, 0, len(table))
	for _, name := range slices.Sorted(maps.Keys(table)) {
		out = append(out, table[name])
	}
	return out
}

// Len is the number of topics.
func (m *Manager) Len() int { return len(*m.table.Load()) }

// DataVersion is the version of the table as registered at the name servers.
func (m *Manager) DataVersion() body.DataVersion {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// NextVersion bumps the version without a change of topics: the broker's permission changed.
func (m *Manager) NextVersion() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.publish(*m.table.Load())
}

// NextState bumps the version for the time of another master: epoch is what the controllers count. Versions of this time are
// newer than all of the time before.
func (m *Manager) NextState(epoch int32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version.StateVersion = max(m.version.StateVersion, int64(epoch))
	return m.publish(*m.table.Load())
}

// Wrapper is the table for registration and GET_ALL_TOPIC_CONFIG.
func (m *Manager) Wrapper() body.TopicConfigAndMappingSerializeWrapper {
	m.mu.Lock()
	defer m.mu.Unlock()
	return body.TopicConfigAndMappingSerializeWrapper{DataVersion: m.version,
		TopicConfigTable: configs(*m.table.Load())}
}

func configs(table map[string]*Topic) map[string]*body.TopicConfig {
	out := make(map[string]*body.TopicConfig, len(table))
	for name, t := range table {
		c := t.Config
		out[name] = &c
	}
	return out
}

// publish writes the table and then puts it in force; mu is held. On an error nothing has changed.
func (m *Manager) publish(table map[string]*Topic) error {
	next := m.version.Next(m.o.Clock.Millis(), m.version.StateVersion)
	w := body.TopicConfigSerializeWrapper{DataVersion: next, TopicConfigTable: configs(table)}
	if err := persist.Save(m.o.FS, m.file(), &w); err != nil {
		return err
	}
	m.version = next
	m.table.Store(&table)
	return nil
}

// Persist writes the table as it is (at the first start, at shutdown).
func (m *Manager) Persist() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := body.TopicConfigSerializeWrapper{DataVersion: m.version, TopicConfigTable: configs(*m.table.Load())}
	return persist.Save(m.o.FS, m.file(), &w)
}

// put adds or replaces topics in one change.
func (m *Manager) put(list ...body.TopicConfig) ([]*Topic, error) {
	table := maps.Clone(*m.table.Load())
	var changed []*Topic
	for _, c := range list {
		t := m.make(c)
		table[c.TopicName] = t
		changed = append(changed, t)
	}
	if err := m.publish(table); err != nil {
		return nil, err
	}
	return changed, nil
}

// Delete removes topics; false when none of them existed.
func (m *Manager) Delete(names ...string) (bool, error) {
	m.mu.Lock()
	table := maps.Clone(*m.table.Load())
	var gone []*Topic
	for _, n := range names {
		if t := table[n]; t != nil {
			delete(table, n)
			gone = append(gone, t)
		}
	}
	var err error
	if len(gone) > 0 {
		err = m.publish(table)
	}
	m.mu.Unlock()
	return len(gone) > 0, err
}

// Update creates or changes topics as a tool asks: attributes are taken as the "+k=v,-k" text of the request
// merged already. An equal configuration changes nothing.
func (m *Manager) Update(list ...body.TopicConfig) error {
	for i := range list {
		if err := m.check(&list[i]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	var differ []body.TopicConfig
	for _, c := range list {
		if m.o.EnableLmq && codec.IsLMQ(c.TopicName) {
			continue
		}
		if old := m.Get(c.TopicName); old == nil || !equal(&old.Config, &c) {
			differ = append(differ, c)
		}
	}
	var changed []*Topic
	var err error
	if len(differ) > 0 {
		changed, err = m.put(differ...)
	}
	m.mu.Unlock()
	if err == nil && len(changed) > 0 {
		m.onChange(changed)
	}
	return err
}

func equal(a, b *body.TopicConfig) bool {
	return a.TopicName == b.TopicName && a.Order == b.Order && a.Perm == b.Perm &&
		a.ReadQueueNums == b.ReadQueueNums && a.WriteQueueNums == b.WriteQueueNums &&
		a.TopicFilterType == b.TopicFilterType && a.TopicSysFlag == b.TopicSysFlag &&
		maps.Equal(a.Attributes, b.Attributes)
}

func (m *Manager) check(c *body.TopicConfig) error {
	if err := codec.ValidateTopic(c.TopicName); err != nil {
		return err
	}
	if m.o.ValidateSystemTopic && m.IsSystem(c.TopicName) {
		return fmt.Errorf("%w: The topic[%s] is conflict with system topic.", ErrSystem, c.TopicName)
	}
	for name, n := range map[string]int32{"readQueueNums": c.ReadQueueNums, "writeQueueNums": c.WriteQueueNums} {
		if n < 1 || n > MaxQueueNums {
			return fmt.Errorf("%w: %s %d of topic %s not in [1, %d]", ErrInvalid, name, n, c.TopicName, MaxQueueNums)
		}
	}
	if c.Perm < 0 || c.Perm > 7 {
		return fmt.Errorf("%w: perm %d of topic %s not in [0, 7]", ErrInvalid, c.Perm, c.TopicName)
	}
	return nil
}
