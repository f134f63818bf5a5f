package consumerfilter

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec/body"
	"skylark/filter"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// Limits of the table. Java has none.
const (
	// MaxEntries bounds the pairs of topic and group.
	MaxEntries = 100_000
	// MaxExpressionBytes bounds the text of all expressions. Compiled they take up to 30 times as much.
	MaxExpressionBytes = 16 << 20
)

// ErrLimit answers a registration beyond the limits.
var ErrLimit = errors.New("consumerfilter: too many SQL92 subscriptions")

// deadBeforeLoad is how long ago a group is taken to have died when its entry is loaded (Java: 30 s).
const deadBeforeLoad = 30 * time.Second

// Options of the manager.
type Options struct {
	FS        vfs.FS
	ConfigDir string
	Clock     clock.Clock
	Log       *slog.Logger
	// ErrorPercent and Expected size the bloom filter (Java maxErrorRateOfBloomFilter,
	// expectConsumerNumUseFilter).
	ErrorPercent, Expected int
	// KeepDead is how long a dead entry stays (Java filterDataCleanTimeSpan).
	KeepDead time.Duration
	// Stored is the store time (ms) of the last message that may have its bit map already, which can be ahead of the clock; nil
	// if no bit maps are made.
	Stored func() int64
	// Unclean tells that the last run did not end by Close: then the file may be older than the last bit maps, and entries
	// count as born when they are loaded.
	Unclean bool
}

// Entry is a group's filter data of a topic as it is now. It never changes.
type Entry = filter.ConsumerFilterData

type key struct{ topic, group string }

// state is what a change replaces.
type state struct {
	table  map[key]*Entry
	live   map[string]int      // entries of a group that are not dead
	topics map[string][]*Entry // entries of a topic
}

func newState(table map[key]*Entry) *state {
	st := &state{table: table, live: map[string]int{}, topics: map[string][]*Entry{}}
	for k, e := range table {
		if !e.Dead() {
			st.live[k.group]++
		}
		st.topics[k.topic] = append(st.topics[k.topic], e)
	}
	return st
}

// Manager is Java's ConsumerFilterManager.
type Manager struct {
	o     Options
	bloom *filter.BloomFilter
	state atomic.Pointer[state]
	mu    sync.Mutex // changes
	bytes int        // of the expressions
	dirty bool
	save  sync.Mutex // of the file; never held together with mu
}

// New makes an empty manager. The error names the numbers that make no bloom filter.
func New(o Options) (*Manager, error) {
	bloom, err := filter.NewBloomFilter(o.ErrorPercent, o.Expected)
	if err != nil {
		return nil, fmt.Errorf("consumerfilter: maxErrorRateOfBloomFilter %d, expectConsumerNumUseFilter %d: %w",
			o.ErrorPercent, o.Expected, err)
	}
	m := &Manager{o: o, bloom: bloom}
	m.state.Store(newState(nil))
	return m, nil
}

// Bloom makes the bits of the entries; its BitCount is the length of a message's bit map.
func (m *Manager) Bloom() *filter.BloomFilter { return m.bloom }

// Lookup is a group's entry, dead or alive, nil when there is none. No lock, no allocation.
func (m *Manager) Lookup(topic, group string) *Entry { return m.state.Load().table[key{topic, group}] }

// OfTopic are the entries of a topic, in no order. Do not change the slice.
func (m *Manager) OfTopic(topic string) []*Entry { return m.state.Load().topics[topic] }

// Len is the number of entries.
func (m *Manager) Len() int { return len(m.state.Load().table) }

// Register takes the subscriptions of a heartbeat: SQL92 ones are entered, refreshed or revived; entries of
// the group whose topic is not among them die. One that does not compile has no entry: its pulls are refused.
// The error is ErrLimit; what fits is entered.
func (m *Manager) Register(group string, subs []*body.SubscriptionData) (err error) {
	if m.unchanged(group, subs) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Clock.Millis()
	next := m.clone()
	named := map[string]bool{}
	for _, s := range subs {
		named[s.Topic] = true
		if s.IsTag() || s.SubString == "" {
			continue
		}
		err = errors.Join(err, m.register(next, key{s.Topic, group}, s))
	}
	for k, e := range next {
		if k.group == group && !named[k.topic] && !e.Dead() {
			next[k] = with(e, func(e *Entry) { e.DeadTime = now })
			m.dirty = true
		}
	}
	m.state.Store(newState(next))
	m.bear()
	return err
}

// unborn is the BornTime of an entry that is new to the table: no bit map counts as made with it in mind.
const unborn = math.MaxInt64

// bear dates the new entries of the table in force. Only now is it certain that every bit map to come knows them; Java
// dates them before, and a message that is dispatched in between is lost to their consumers. mu is held.
func (m *Manager) bear() {
	var next map[key]*Entry
	now := m.o.Clock.Millis()
	if m.o.Stored != nil {
		now = max(now, m.o.Stored())
	}
	for k, e := range m.state.Load().table {
		if e.BornTime != unborn {
			continue
		}
		if next == nil {
			next = m.clone()
		}
		next[k] = with(e, func(e *Entry) { e.BornTime = now })
	}
	if next != nil {
		m.state.Store(newState(next))
	}
}

// unchanged tells that Register would do nothing: the common case of a heartbeat.
func (m *Manager) unchanged(group string, subs []*body.SubscriptionData) bool {
	st := m.state.Load()
	n := 0
	for _, s := range subs {
		if s.IsTag() || s.SubString == "" {
			continue
		}
		e := st.table[key{s.Topic, group}]
		if e == nil || e.Dead() || e.ClientVersion < s.SubVersion || e.BloomFilterData == nil {
			return false
		}
		n++
	}
	return n == st.live[group]
}

func (m *Manager) clone() map[key]*Entry {
	next := maps.Clone(m.state.Load().table)
	if next == nil {
		next = map[key]*Entry{}
	}
	return next
}

func with(e *Entry, change func(*Entry)) *Entry {
	c := *e
	change(&c)
	return &c
}

// register enters one subscription into next; mu is held (Java FilterDataMapByTopic.register).
func (m *Manager) register(next map[key]*Entry, k key, s *body.SubscriptionData) error {
	old := next[k]
	if old != nil {
		if s.SubVersion <= old.ClientVersion {
			if s.SubVersion == old.ClientVersion && old.Dead() {
				m.revive(next, k, old)
			}
			return nil
		}
		if old.Expression == s.SubString && old.ExpressionType == s.ExpressionType &&
			m.bloom.Valid(old.BloomFilterData) {
			next[k] = with(old, func(e *Entry) { e.ClientVersion = s.SubVersion })
			m.dirty = true
			if old.Dead() {
				m.revive(next, k, next[k])
			}
			return nil
		}
	}
	sql, err := compile(s)
	if err != nil {
		m.o.Log.Warn("SQL92 subscription cannot be used", "group", k.group, "topic", k.topic, "error", err)
		m.remove(next, k)
		return nil
	}
	m.remove(next, k)
	if len(next) >= MaxEntries || m.bytes+len(s.SubString) > MaxExpressionBytes {
		return fmt.Errorf("%w: %d entries, %d bytes", ErrLimit, len(next), m.bytes)
	}
	m.bytes += len(s.SubString)
	m.dirty = true
	next[k] = &Entry{BloomFilterData: m.bloom.Generate(filter.BloomKey(k.group, k.topic)), BornTime: unborn,
		ClientVersion: s.SubVersion, ConsumerGroup: k.group, Expression: strings.Clone(s.SubString),
		ExpressionType: s.ExpressionType, Topic: k.topic, SQL: sql}
	m.o.Log.Info("SQL92 subscription registered", "group", k.group, "topic", k.topic, "expression", s.SubString)
	return nil
}

func compile(s *body.SubscriptionData) (*filter.SQL, error) {
	if s.ExpressionType != body.ExpressionSQL92 {
		return nil, fmt.Errorf("consumerfilter: unknown expression type %q", s.ExpressionType)
	}
	return filter.Compile(s.SubString)
}

func (m *Manager) revive(next map[key]*Entry, k key, e *Entry) {
	next[k] = with(e, func(e *Entry) { e.DeadTime = 0 })
	m.dirty = true
}

func (m *Manager) remove(next map[key]*Entry, k key) {
	if e := next[k]; e != nil {
		m.bytes -= len(e.Expression)
		delete(next, k)
		m.dirty = true
	}
}

// Unregister marks the entries of a group that has no members any more.
func (m *Manager) Unregister(group string) {
	m.change(func(next map[key]*Entry, now int64) {
		for k, e := range next {
			if k.group == group && !e.Dead() {
				next[k] = with(e, func(e *Entry) { e.DeadTime = now })
				m.dirty = true
			}
		}
	})
}

// DeleteTopic and DeleteGroup forget what was deleted.
func (m *Manager) DeleteTopic(topic string) { m.drop(func(k key) bool { return k.topic == topic }) }

// DeleteGroup forgets a group's entries.
func (m *Manager) DeleteGroup(group string) { m.drop(func(k key) bool { return k.group == group }) }

func (m *Manager) drop(match func(key) bool) {
	m.change(func(next map[key]*Entry, _ int64) {
		for k := range next {
			if match(k) {
				m.remove(next, k)
			}
		}
	})
}

// change runs f on a copy of a table that is not empty and puts the copy in force.
func (m *Manager) change(f func(next map[key]*Entry, now int64)) {
	if m.Len() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.clone()
	f(next, m.o.Clock.Millis())
	m.state.Store(newState(next))
}

// fileTopic and fileEntry are consumerFilter.json. Dead is written for Java's tools and never read.
type fileTopic struct {
	GroupFilterData map[string]*fileEntry `json:"groupFilterData"`
	Topic           string                `json:"topic"`
}

type fileEntry struct {
	BloomFilterData *filter.BloomFilterData `json:"bloomFilterData"`
	BornTime        int64                   `json:"bornTime"`
	ClientVersion   int64                   `json:"clientVersion"`
	ConsumerGroup   string                  `json:"consumerGroup"`
	Dead            bool                    `json:"dead"`
	DeadTime        int64                   `json:"deadTime"`
	Expression      string                  `json:"expression"`
	ExpressionType  string                  `json:"expressionType"`
	Topic           string                  `json:"topic"`
}

type file struct {
	FilterDataByTopic map[string]*fileTopic `json:"filterDataByTopic"`
}

func (m *Manager) file() string { return path.Join(m.o.ConfigDir, "consumerFilter.json") }

// Load reads consumerFilter.json. All groups count as dead until they are heard from. An entry whose bits are
// missing or of other numbers gets new ones, born now, so that no old bit map is judged by them; Java drops
// the whole table then.
func (m *Manager) Load() error {
	var f file
	found, err := persist.Load(m.o.FS, m.file(), &f, m.o.Log)
	if err != nil || !found {
		return err
	}
	now := m.o.Clock.Millis()
	next := map[key]*Entry{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.FilterDataByTopic)) {
		t := f.FilterDataByTopic[name]
		if t == nil {
			continue
		}
		for group, fe := range t.GroupFilterData {
			if fe == nil || fe.Expression == "" {
				continue
			}
			if len(next) >= MaxEntries || m.bytes+len(fe.Expression) > MaxExpressionBytes {
				m.o.Log.Error("SQL92 subscriptions beyond the limit are left out", "file", m.file(), "entries", len(next))
				break
			}
			next[key{name, group}] = m.loaded(name, group, fe, now)
			m.bytes += len(fe.Expression)
		}
	}
	m.state.Store(newState(next))
	return nil
}

func (m *Manager) loaded(topic, group string, fe *fileEntry, now int64) *Entry {
	e := &Entry{BloomFilterData: fe.BloomFilterData, BornTime: fe.BornTime, ClientVersion: fe.ClientVersion,
		ConsumerGroup: group, DeadTime: fe.DeadTime, Expression: fe.Expression, ExpressionType: fe.ExpressionType,
		Topic: topic}
	if !m.bloom.Valid(e.BloomFilterData) {
		m.o.Log.Warn("SQL92 subscription without usable bits gets new ones", "group", group, "topic", topic)
		e.BloomFilterData, e.BornTime = m.bloom.Generate(filter.BloomKey(group, topic)), now
		m.dirty = true
	}
	if m.o.Unclean && e.BornTime < now {
		e.BornTime, m.dirty = now, true
	}
	if e.DeadTime == 0 || e.DeadTime < e.BornTime {
		e.DeadTime = max(now-deadBeforeLoad.Milliseconds(), e.BornTime)
	}
	var err error
	if e.SQL, err = compile(&body.SubscriptionData{SubString: e.Expression,
		ExpressionType: e.ExpressionType}); err != nil {
		m.o.Log.Warn("SQL92 subscription cannot be used", "group", group, "topic", topic, "error", err)
	}
	return e
}

// Persist drops entries that have been dead for too long and writes consumerFilter.json if something has
// changed since the last time.
func (m *Manager) Persist() error {
	m.save.Lock()
	defer m.save.Unlock()
	m.change(func(next map[key]*Entry, now int64) {
		for k, e := range next {
			if e.Dead() && now-e.DeadTime >= m.o.KeepDead.Milliseconds() {
				m.o.Log.Info("SQL92 subscription removed, its group is gone", "group", k.group, "topic", k.topic)
				m.remove(next, k)
			}
		}
	})
	m.mu.Lock()
	table, dirty := m.state.Load().table, m.dirty
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	f := file{FilterDataByTopic: map[string]*fileTopic{}}
	for k, e := range table {
		t := f.FilterDataByTopic[k.topic]
		if t == nil {
			t = &fileTopic{Topic: k.topic, GroupFilterData: map[string]*fileEntry{}}
			f.FilterDataByTopic[k.topic] = t
		}
		t.GroupFilterData[k.group] = &fileEntry{BloomFilterData: e.BloomFilterData, BornTime: e.BornTime,
			ClientVersion: e.ClientVersion, ConsumerGroup: e.ConsumerGroup, Dead: e.Dead(), DeadTime: e.DeadTime,
			Expression: e.Expression, ExpressionType: e.ExpressionType, Topic: e.Topic}
	}
	err := persist.Save(m.o.FS, m.file(), &f)
	if err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
	}
	return err
}
