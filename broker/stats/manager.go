package stats

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
)

// Names of statistics (Java BrokerStatsManager, Stats) and their keys.
const (
	TopicPutNums    = "TOPIC_PUT_NUMS"    // topic
	TopicPutSize    = "TOPIC_PUT_SIZE"    // topic
	TopicPutLatency = "TOPIC_PUT_LATENCY" // queueId@topic
	GroupGetNums    = "GROUP_GET_NUMS"    // topic@group
	GroupGetSize    = "GROUP_GET_SIZE"    // topic@group
	GroupGetLatency = "GROUP_GET_LATENCY" // queueId@topic@group, or topic@group without enableDetailStat
	QueuePutNums    = "QUEUE_PUT_NUMS"    // topic@queueId; of the schedule topic alone, as in Java
	QueuePutSize    = "QUEUE_PUT_SIZE"    // topic@queueId
	QueueGetNums    = "QUEUE_GET_NUMS"    // topic@queueId@group
	QueueGetSize    = "QUEUE_GET_SIZE"    // topic@queueId@group
	SendBackNums    = "SNDBCK_PUT_NUMS"   // topic@group
	SendBackToDLQ   = "SNDBCK2DLQ_TIMES"  // owner@topic@group@SEND_BACK_TO_DLQ
	BrokerPutNums   = "BROKER_PUT_NUMS"   // cluster name, as the next three
	BrokerGetNums   = "BROKER_GET_NUMS"
	BrokerPutOwn    = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
	BrokerGetOwn    = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
	GroupAckNums    = "GROUP_ACK_NUMS"  // topic@group; messages acknowledged by receipt
	GroupCkNums     = "GROUP_CK_NUMS"   // topic@group; check points of pops
	BrokerAckNums   = "BROKER_ACK_NUMS" // cluster name, as the next
	BrokerCkNums    = "BROKER_CK_NUMS"
	ChannelActivity = "CHANNEL_ACTIVITY" // CONNECT, CLOSE, IDLE, EXCEPTION
)

// Rhythms of the samples.
const (
	sampleInterval = 10 * time.Second
	minutesPer     = 60  // × 10 s = 10 min
	hoursPer       = 360 // × 10 s = 1 h
)

// MaxItems bounds the counters, 200 bytes each and 700 more while they move; beyond it new keys share one
// counter that is shown nowhere.
const MaxItems = 1 << 20

// Options of the manager.
type Options struct {
	Clock clock.Clock
	// Cluster is the key of the broker-wide counters, as in Java.
	Cluster string
	// Detail counts by queue where Java does (enableDetailStat).
	Detail bool
	// MergeLmq tells whether the topics and groups %LMQ%… count as one, %LMQ% (Java LmqBrokerStatsManager); nil = never.
	MergeLmq func() bool
}

// Manager keeps all counters of a broker.
type Manager struct {
	o      Options
	mu     sync.Mutex
	items  map[string]map[string]*item // name → key
	count  int
	ticks  *ticks
	spare  *item
	totals totals
	groups atomic.Pointer[map[string]*groupTopics]

	put, get, putOwn, getOwn, ack, ck *Counter

	stop, done chan struct{}
}

// groupTopics are a group's counters by topic, copy-on-write.
type groupTopics struct {
	table atomic.Pointer[map[string]*GroupGet]
}

// New makes the manager; Start begins to sample.
func New(o Options) *Manager {
	now := o.Clock.Millis()
	m := &Manager{o: o, items: map[string]map[string]*item{}, spare: &item{}, ticks: newTicks(now)}
	m.groups.Store(&map[string]*groupTopics{})
	m.put, m.get = m.Counter(BrokerPutNums, o.Cluster), m.Counter(BrokerGetNums, o.Cluster)
	m.putOwn, m.getOwn = m.Counter(BrokerPutOwn, o.Cluster), m.Counter(BrokerGetOwn, o.Cluster)
	m.ack, m.ck = m.Counter(BrokerAckNums, o.Cluster), m.Counter(BrokerCkNums, o.Cluster)
	m.totals.init(now)
	return m
}

// Start samples every 10 s until Close.
func (m *Manager) Start() {
	m.stop, m.done = make(chan struct{}), make(chan struct{})
	t := m.o.Clock.NewTicker(sampleInterval)
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

// Sample notes all counters: the 10 s rhythm.
func (m *Manager) Sample() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Clock.Millis()
	m.ticks.turn(now)
	for _, table := range m.items {
		for _, it := range table {
			it.sample(m.ticks)
		}
	}
	m.totals.sample(now, m.putOwn.Load(), m.getOwn.Load())
}

// item finds or makes a counter; mu is held.
func (m *Manager) item(name, key, topic, group string) *item {
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
		it = &item{topic: topic, group: group}
		table[key] = it
	}
	return it
}

// Counter is the counter of a name and key that belong to no topic and no group.
func (m *Manager) Counter(name, key string) *Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.item(name, key, "", "").Counter
}

func (m *Manager) of(name, key, topic, group string) *Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.item(name, key, topic, group).Counter
}

func join(parts ...string) string {
	out := parts[0]
	for _, p := range parts[1:] {
		out += codec.TopicGroupSeparator + p
	}
	return out
}

// TopicPut counts what is put to one topic. Its counters are made at the first put.
type TopicPut struct {
	m           *Manager
	topic       string
	once        sync.Once
	nums, bytes *Counter
	latency     queues
}

// TopicPut makes the counting of a topic, to be kept with it.
func (m *Manager) TopicPut(topic string) *TopicPut { return &TopicPut{m: m, topic: m.merged(topic)} }

// merged is the name under which a topic or group is counted.
func (m *Manager) merged(name string) string {
	if codec.IsLMQ(name) && m.o.MergeLmq != nil && m.o.MergeLmq() {
		return codec.LMQPrefix
	}
	return name
}

func (p *TopicPut) init() {
	p.nums, p.bytes = p.m.of(TopicPutNums, p.topic, p.topic, ""), p.m.of(TopicPutSize, p.topic, p.topic, "")
}

// Count counts one put of messages to a queue. It allocates nothing once the queue is known.
func (p *TopicPut) Count(queueID int32, messages, sizeBytes int, latencyMillis int64) {
	p.once.Do(p.init)
	p.nums.Add(int64(messages))
	p.bytes.Add(int64(sizeBytes))
	p.latency.at(queueID, func() *Counter {
		return p.m.of(TopicPutLatency, join(strconv.Itoa(int(queueID)), p.topic), p.topic, "")
	}).Add(latencyMillis)
}

// CountTurn counts so many puts of one message each, of sizeBytes together; their latencies are counted by CountLatency.
func (p *TopicPut) CountTurn(puts, sizeBytes int) {
	p.once.Do(p.init)
	p.nums.AddMany(int64(puts), int64(puts))
	p.bytes.AddMany(int64(sizeBytes), int64(puts))
}

// CountLatency counts the latencies, together, of so many puts to a queue.
func (p *TopicPut) CountLatency(queueID int32, puts int, latencyMillis int64) {
	p.latency.at(queueID, func() *Counter {
		return p.m.of(TopicPutLatency, join(strconv.Itoa(int(queueID)), p.topic), p.topic, "")
	}).AddMany(latencyMillis, int64(puts))
}

// GroupGet counts what one group gets of one topic.
type GroupGet struct {
	m            *Manager
	topic, group string
	nums, bytes  *Counter
	latency      queues
	acks, cks    atomic.Pointer[Counter]
}

// GroupGet finds or makes the counters of a group and a topic. It takes no lock and allocates nothing once
// they are known.
func (m *Manager) GroupGet(group, topic string) *GroupGet {
	if t := (*m.groups.Load())[group]; t != nil {
		if g := (*t.table.Load())[topic]; g != nil {
			return g
		}
	}
	return m.addGroup(group, topic)
}

func (m *Manager) addGroup(group, topic string) *GroupGet {
	if g, t := m.merged(group), m.merged(topic); g != group || t != topic {
		return m.GroupGet(g, t)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	groups := *m.groups.Load()
	t := groups[group]
	if t == nil {
		t = &groupTopics{}
		t.table.Store(&map[string]*GroupGet{})
		next := maps.Clone(groups)
		next[group] = t
		m.groups.Store(&next)
	}
	if g := (*t.table.Load())[topic]; g != nil {
		return g
	}
	key := join(topic, group)
	g := &GroupGet{m: m, topic: topic, group: group, nums: &m.item(GroupGetNums, key, topic, group).Counter,
		bytes: &m.item(GroupGetSize, key, topic, group).Counter}
	if m.count >= MaxItems {
		return g // what is shown nowhere is not remembered either
	}
	next := maps.Clone(*t.table.Load())
	next[topic] = g
	t.table.Store(&next)
	return g
}

// Count counts one answer with messages of a queue. It allocates nothing once the queue is known.
func (g *GroupGet) Count(queueID int32, messages, sizeBytes int, latencyMillis int64) {
	g.nums.Add(int64(messages))
	g.bytes.Add(int64(sizeBytes))
	if !g.m.o.Detail {
		queueID = 0
	}
	g.latency.at(queueID, func() *Counter {
		key := join(g.topic, g.group)
		if g.m.o.Detail {
			key = join(strconv.Itoa(int(queueID)), key)
		}
		return g.m.of(GroupGetLatency, key, g.topic, g.group)
	}).Add(latencyMillis)
}

// Acked counts messages that the group acknowledged by receipt. Java leaves out those of orderly pops.
func (g *GroupGet) Acked(messages int) {
	g.m.ack.Add(int64(messages))
	g.popCounter(&g.acks, GroupAckNums).Add(int64(messages))
}

// CheckPoint counts a check point of the group.
func (g *GroupGet) CheckPoint() {
	g.m.ck.Add(1)
	g.popCounter(&g.cks, GroupCkNums).Add(1)
}

// popCounter is a counter that only groups that pop have.
func (g *GroupGet) popCounter(at *atomic.Pointer[Counter], name string) *Counter {
	if c := at.Load(); c != nil {
		return c
	}
	c := g.m.of(name, join(g.topic, g.group), g.topic, g.group)
	at.Store(c)
	return c
}

// CountPut counts messages for the broker; system tells that they went to a topic of its own.
func (m *Manager) CountPut(messages int, system bool) {
	m.put.sum.Add(int64(messages)) // Java counts no times here
	if !system {
		m.putOwn.sum.Add(int64(messages))
	}
}

// CountGet counts messages handed to consumers.
func (m *Manager) CountGet(messages int, system bool) {
	m.get.sum.Add(int64(messages))
	if !system {
		m.getOwn.sum.Add(int64(messages))
	}
}

// SendBack counts a message that a group gave back, or gave up (dead). owner is the account's, "" for none.
func (m *Manager) SendBack(group, topic, owner string, dead bool) {
	group, topic = m.merged(group), m.merged(topic)
	m.of(SendBackNums, join(topic, group), topic, group).Add(1)
	if dead {
		if owner == "" {
			owner = "null" // as Java writes it
		}
		m.of(SendBackToDLQ, join(owner, topic, group, "SEND_BACK_TO_DLQ"), topic, group).Add(1)
	}
}

// QueuePut counts a put to one queue of the schedule topic.
func (m *Manager) QueuePut(topic string, queueID int32, messages, sizeBytes int) {
	if m.o.Detail {
		key := join(topic, strconv.Itoa(int(queueID)))
		m.of(QueuePutNums, key, topic, "").Add(int64(messages))
		m.of(QueuePutSize, key, topic, "").Add(int64(sizeBytes))
	}
}

// QueueGet counts a delivery from one queue of the schedule topic.
func (m *Manager) QueueGet(group, topic string, queueID int32, messages, sizeBytes int) {
	if m.o.Detail {
		key := join(topic, strconv.Itoa(int(queueID)), group)
		m.of(QueueGetNums, key, topic, group).Add(int64(messages))
		m.of(QueueGetSize, key, topic, group).Add(int64(sizeBytes))
	}
}

// View is the answer to VIEW_BROKER_STATS_DATA; ok is false for what was never counted.
func (m *Manager) View(name, key string) (v body.BrokerStatsData, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.items[name][key]
	if it == nil {
		return v, false
	}
	return it.data(m.ticks, m.o.Clock.Millis()), true
}

// TPS is the rate of the last minute, 0 for what was never counted.
func (m *Manager) TPS(name, key string) float64 {
	v, ok := m.View(name, key)
	if !ok {
		return 0
	}
	return v.StatsMinute.TPS
}

// GroupTPS is the rate at which a group gets messages of a topic.
func (m *Manager) GroupTPS(group, topic string) float64 {
	return m.TPS(GroupGetNums, join(m.merged(topic), m.merged(group)))
}

// Items is the number of counters.
func (m *Manager) Items() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// DeleteTopic forgets the counters of a topic that was deleted.
func (m *Manager) DeleteTopic(topic string) {
	m.forget(func(t, _ string) bool { return t == topic })
}

// DeleteGroup forgets a group's counters.
func (m *Manager) DeleteGroup(group string) {
	m.forget(func(_, g string) bool { return g == group })
}

func (m *Manager) forget(match func(topic, group string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, table := range m.items {
		for key, it := range table {
			if it.topic != "" && match(it.topic, it.group) {
				delete(table, key)
				m.count--
			}
		}
	}
	groups := maps.Clone(*m.groups.Load())
	for group, t := range groups {
		rest := maps.Clone(*t.table.Load())
		maps.DeleteFunc(rest, func(topic string, _ *GroupGet) bool { return match(topic, group) })
		if t.table.Store(&rest); len(rest) == 0 {
			delete(groups, group)
		}
	}
	m.groups.Store(&groups)
}
