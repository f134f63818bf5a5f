package stats

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
)

// Names of statistics (Java BrokerStatsManager, Stats). Group keys are "topic@group", queue keys "topic@queue@group".
const (
	TopicPutNums    = "TOPIC_PUT_NUMS"
	TopicPutSize    = "TOPIC_PUT_SIZE"
	GroupGetNums    = "GROUP_GET_NUMS"
	GroupGetSize    = "GROUP_GET_SIZE"
	GroupGetLatency = "GROUP_GET_LATENCY"
	SendBackNums    = "SNDBCK_PUT_NUMS"
	DLQPutNums      = "DLQ_PUT_NUMS"
	BrokerPutNums   = "BROKER_PUT_NUMS"
	BrokerGetNums   = "BROKER_GET_NUMS"
)

// Rhythms of the samples.
const (
	secondsRhythm = 10 * time.Second
	minutesPer    = 60  // × 10 s = 10 min
	hoursPer      = 360 // × 10 s = 1 h
)

// MaxItems bounds the counters; beyond it new keys share one counter that is shown nowhere.
const MaxItems = 1 << 20

type groupKey struct{ topic, group string }

type groupItem struct{ nums, size *item }

// Manager keeps all counters of a broker.
type Manager struct {
	clock   clock.Clock
	cluster string
	mu      sync.Mutex
	items   map[string]map[string]*item // name → key
	count   int
	groups  atomic.Pointer[map[groupKey]groupItem]
	spare   *item
	stop    chan struct{}
	done    chan struct{}
	ticks   int
	totals  totals
}

// New makes the manager; Start begins to sample. cluster is the key of the broker-wide counters, as in Java.
func New(ck clock.Clock, cluster string) *Manager {
	m := &Manager{clock: ck, cluster: cluster, items: map[string]map[string]*item{}, spare: newItem(0)}
	m.groups.Store(&map[groupKey]groupItem{})
	m.totals.init(ck.Millis())
	return m
}

// Start samples every 10 s until Close.
func (m *Manager) Start() {
	m.stop, m.done = make(chan struct{}), make(chan struct{})
	t := m.clock.NewTicker(secondsRhythm)
	go func() {
		defer close(m.done)
		defer t.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-t.C():
				m.Sample()
			}
		}
	}()
}

// Close ends the sampling.
func (m *Manager) Close() {
	if m.stop != nil {
		close(m.stop)
		<-m.done
		m.stop = nil
	}
}

// Sample takes one sample of everything: the 10 s rhythm.
func (m *Manager) Sample() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Millis()
	m.ticks++
	for _, table := range m.items {
		for _, it := range table {
			s := it.sample(now)
			it.minute.add(s)
			if m.ticks%minutesPer == 0 {
				it.hour.add(s)
			}
			if m.ticks%hoursPer == 0 {
				it.day.add(s)
			}
		}
	}
	m.totals.sample(now)
}

// item finds or makes a counter; mu is held.
func (m *Manager) item(name, key string) *item {
	table := m.items[name]
	if table == nil {
		table = map[string]*item{}
		m.items[name] = table
	}
	it := table[key]
	if it == nil {
		if m.count >= MaxItems {
			return m.spare
		}
		m.count++
		it = newItem(m.clock.Millis())
		table[key] = it
	}
	return it
}

// Counter is the counter of a name and key, to be added to without a lookup.
func (m *Manager) Counter(name, key string) *Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.item(name, key).sum
}

// TopicPut are the counters of messages and bytes put to a topic.
func (m *Manager) TopicPut(topic string) (nums, bytes *Counter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.item(TopicPutNums, topic).sum, &m.item(TopicPutSize, topic).sum
}

// GroupGet counts messages and bytes that a group got of a topic. It takes no lock and allocates nothing once the
// pair is known.
func (m *Manager) GroupGet(group, topic string, n, bytes int) {
	k := groupKey{topic, group}
	it, ok := (*m.groups.Load())[k]
	if !ok {
		it = m.addGroup(k)
	}
	it.nums.sum.Add(int64(n))
	it.size.sum.Add(int64(bytes))
}

func (m *Manager) addGroup(k groupKey) groupItem {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.groups.Load()
	if it, ok := old[k]; ok {
		return it
	}
	key := k.topic + codec.TopicGroupSeparator + k.group
	it := groupItem{m.item(GroupGetNums, key), m.item(GroupGetSize, key)}
	table := maps.Clone(old)
	table[k] = it
	m.groups.Store(&table)
	return it
}

// Inc counts a value of a rare kind (send-back, dead letter, latency).
func (m *Manager) Inc(name, key string, n int64) {
	m.mu.Lock()
	it := m.item(name, key)
	m.mu.Unlock()
	it.add(n)
}

// BrokerPut and BrokerGet are the broker-wide counters of messages.
func (m *Manager) BrokerPut() *Counter { return m.Counter(BrokerPutNums, m.cluster) }

// BrokerGet counts messages handed to consumers.
func (m *Manager) BrokerGet() *Counter { return m.Counter(BrokerGetNums, m.cluster) }

// View is the answer to VIEW_BROKER_STATS_DATA; ok is false for what was never counted.
func (m *Manager) View(name, key string) (v body.BrokerStatsData, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.items[name][key]
	if it == nil {
		return v, false
	}
	v.StatsMinute, v.StatsHour, v.StatsDay = it.minute.view(), it.hour.view(), it.day.view()
	return v, true
}

// DeleteTopic and DeleteGroup forget the counters of what was deleted.
func (m *Manager) DeleteTopic(topic string) {
	m.forget(func(key string) bool {
		first, _, _ := strings.Cut(key, codec.TopicGroupSeparator)
		return first == topic
	}, func(k groupKey) bool { return k.topic == topic })
}

// DeleteGroup forgets a group's counters.
func (m *Manager) DeleteGroup(group string) {
	m.forget(func(key string) bool { return strings.HasSuffix(key, codec.TopicGroupSeparator+group) },
		func(k groupKey) bool { return k.group == group })
}

func (m *Manager) forget(key func(string) bool, pair func(groupKey) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, table := range m.items {
		if name == BrokerPutNums || name == BrokerGetNums {
			continue
		}
		for k := range table {
			if key(k) {
				delete(table, k)
				m.count--
			}
		}
	}
	groups := maps.Clone(*m.groups.Load())
	maps.DeleteFunc(groups, func(k groupKey, _ groupItem) bool { return pair(k) })
	m.groups.Store(&groups)
}
