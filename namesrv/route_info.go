package namesrv

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
)

// DefaultHeartbeatTimeout is how long a broker may be silent that did not say how long (Java
// RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME).
const DefaultHeartbeatTimeout = 120 * time.Second

// maxConflicts bounds the conflicts that are remembered so as to be logged once.
const maxConflicts = 1024

// BrokerIdentity is what a broker says of itself.
type BrokerIdentity struct {
	Cluster string
	Name    string
	Addr    string // host:port that clients use
	ID      int64  // 0 is the master
}

// String is "C/broker-a/0 at 10.0.0.1:10911".
func (i BrokerIdentity) String() string {
	return fmt.Sprintf("%s/%s/%d at %s", i.Cluster, i.Name, i.ID, i.Addr)
}

// Registration is a decoded REGISTER_BROKER request.
type Registration struct {
	BrokerIdentity
	HAServerAddr  string
	ZoneName      string
	ActingMaster  *bool         // nil: a broker older than 5.0
	Timeout       time.Duration // 0: DefaultHeartbeatTimeout
	DataVersion   body.DataVersion
	Topics        map[string]*body.TopicConfig
	Mappings      map[string]*body.TopicQueueMappingInfo
	FilterServers []string
	Conn          uint64 // the connection it came on
}

// RegisterStatus is what became of a registration.
type RegisterStatus int

// The statuses. RegisterIgnored is answered with code 0 all the same, as in Java.
const (
	RegisterOK RegisterStatus = iota
	RegisterIgnored
	RegisterRefused
)

// RegisterResult is answered to the broker.
type RegisterResult struct {
	Status       RegisterStatus
	Remark       string // why refused
	MasterAddr   string // of the live master, for a slave
	HAServerAddr string // likewise
}

// MinBrokerIDChange is a NOTIFY_MIN_BROKER_ID_CHANGE to send to each of Targets.
type MinBrokerIDChange struct {
	BrokerName    string
	MinBrokerID   int64
	MinBrokerAddr string
	OfflineAddr   string // who left; "" when somebody joined
	HAAddr        string // of the new smallest id, when it joined
	Targets       []string
}

// Note is a line to log; Args are slog's.
type Note struct {
	Level slog.Level
	Msg   string
	Args  []any
}

// Effects is what the caller has to do after a change. Changes of one manager are sent in the order in which
// they were returned.
type Effects struct {
	Close   []uint64 // connections of silent brokers
	Gone    []string // addresses that are no longer registered
	Changes []MinBrokerIDChange
	Notes   []Note
}

func (e *Effects) note(level slog.Level, msg string, args ...any) {
	e.Notes = append(e.Notes, Note{Level: level, Msg: msg, Args: args})
}

// broker is a broker name with its members. It has one at least.
type broker struct {
	data     body.BrokerData
	topics   map[string]struct{}
	mappings map[string]string // topic to the name under which the mapping is kept
}

// minID is the smallest id, 0 when there is none (as Java counts for a new broker name).
func (b *broker) minID() int64 {
	first, smallest := true, int64(0)
	for id := range b.data.BrokerAddrs {
		if first || id < smallest {
			first, smallest = false, id
		}
	}
	return smallest
}

func (b *broker) hasMaster() bool {
	_, ok := b.data.BrokerAddrs[codec.MasterID]
	return ok
}

// live is a registered address. live.identity is the entry of brokerAddrTable, and every entry there has a
// live one.
type live struct {
	BrokerIdentity
	lastUpdate    time.Time
	timeout       time.Duration
	version       body.DataVersion
	conn          uint64
	haServerAddr  string
	filterServers []string
}

func (l *live) deadline() time.Time { return l.lastUpdate.Add(l.timeout) }

// RouteInfoManager is the core of the name server (Java RouteInfoManager): who is registered, and which
// topics it has. It does no I/O and starts nothing; changes return what is to be done. Safe for concurrent
// use: changes take the write lock for as long as the registered topics take to compare, queries the read
// lock, cached routes neither.
type RouteInfoManager struct {
	settings func() *config.NamesrvConfig

	mu               sync.RWMutex
	topicQueueTable  map[string]map[string]body.QueueData // topic, broker name
	topicMappings    map[string]map[string]*body.TopicQueueMappingInfo
	brokerAddrTable  map[string]*broker             // broker name
	clusterAddrTable map[string]map[string]struct{} // cluster, broker name
	brokerLiveTable  map[string]*live               // address
	byConn           map[uint64]map[string]struct{} // connection, address
	filterServers    int                            // live entries that have some
	conflicts        map[string]struct{}            // logged already
	cache            routeCache
}

// NewRouteInfoManager makes empty tables. settings is asked at every use, so that live keys work at once.
func NewRouteInfoManager(settings func() *config.NamesrvConfig) *RouteInfoManager {
	m := &RouteInfoManager{
		settings:         settings,
		topicQueueTable:  map[string]map[string]body.QueueData{},
		topicMappings:    map[string]map[string]*body.TopicQueueMappingInfo{},
		brokerAddrTable:  map[string]*broker{},
		clusterAddrTable: map[string]map[string]struct{}{},
		brokerLiveTable:  map[string]*live{},
		byConn:           map[uint64]map[string]struct{}{},
		conflicts:        map[string]struct{}{},
	}
	m.cache.init()
	return m
}

// Register takes a registration (Java registerBroker; the package comment says who may register what).
// deadline is when the address expires unless something comes before.
func (m *RouteInfoManager) Register(r *Registration, now time.Time) (res RegisterResult, deadline time.Time,
	eff Effects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.brokerAddrTable[r.Name]
	minBefore := int64(0)
	if b != nil && b.data.Cluster == r.Cluster {
		minBefore = b.minID()
	}
	versionChanged := m.voidOther(r, &eff)
	b = m.brokerAddrTable[r.Name] // may have gone with the address
	if res = m.judge(b, r, now, &eff); res.Status != RegisterOK {
		return res, deadline, eff
	}
	if b == nil {
		b = m.addBroker(r)
	}
	first := m.takeID(b, r, &eff)
	m.updateTopics(b, r, first, first || versionChanged, &eff)
	l := m.updateLive(r, now, &eff)
	if r.ID != codec.MasterID {
		if master := m.brokerLiveTable[b.data.MasterAddr()]; master != nil {
			res.MasterAddr, res.HAServerAddr = master.Addr, master.haServerAddr
		}
	}
	if r.ID < minBefore && m.settings().NotifyMinBrokerIdChanged {
		m.notifyJoin(b, r, &eff)
	}
	return res, l.deadline(), eff
}

// voidOther removes what the address is registered as, unless it is the same as r. It tells whether the data
// version differs from the one registered.
func (m *RouteInfoManager) voidOther(r *Registration, eff *Effects) (versionChanged bool) {
	l := m.brokerLiveTable[r.Addr]
	switch {
	case l == nil:
		return true
	case l.BrokerIdentity == r.BrokerIdentity:
		return l.version != r.DataVersion
	}
	eff.note(slog.LevelInfo, "broker address changes its role", "was", l.String(), "is", r.String())
	if l.Cluster == r.Cluster && l.Name == r.Name {
		m.dropLive(l) // the name stays, with its topics, even if this was the only member
		delete(m.brokerAddrTable[l.Name].data.BrokerAddrs, l.ID)
		m.cache.clear()
		return l.version != r.DataVersion
	}
	m.remove(l, "its address is registered as another", eff)
	return true
}

// judge decides whether r may be registered as b, which is nil for a new name. A name whose only member has
// just changed its role and is refused goes away.
func (m *RouteInfoManager) judge(b *broker, r *Registration, now time.Time, eff *Effects) (
	res RegisterResult) {
	defer func() {
		if b != nil && len(b.data.BrokerAddrs) == 0 && res.Status != RegisterOK {
			m.removeBroker(b, eff)
		}
	}()
	refuse := func(why string) RegisterResult { return RegisterResult{Status: RegisterRefused, Remark: why} }
	if b != nil && b.data.Cluster != r.Cluster {
		holder := b.data.BrokerAddrs[b.minID()]
		why := fmt.Sprintf("register broker failed: broker name %s belongs to cluster %s at %s and cannot be "+
			"registered for cluster %s at %s", r.Name, b.data.Cluster, holder, r.Cluster, r.Addr)
		m.conflict(why, r, holder, eff)
		return refuse(why)
	}
	var holder *live
	if b != nil {
		holder = m.brokerLiveTable[b.data.BrokerAddrs[r.ID]]
	}
	if holder == nil {
		if len(r.Topics) == 1 {
			eff.note(slog.LevelWarn, "a single topic cannot be the first registration of a broker",
				"broker", r.String())
			return refuse("register broker failed")
		}
		return res
	}
	if holder.Addr == r.Addr {
		return res
	}
	if holder.version.StateVersion > r.DataVersion.StateVersion {
		m.conflict(fmt.Sprintf("broker %s is ignored: %s has the newer state version %d", r.BrokerIdentity,
			holder.Addr, holder.version.StateVersion), r, holder.Addr, eff)
		return RegisterResult{Status: RegisterIgnored}
	}
	fresh := now.Sub(holder.lastUpdate) <= holder.timeout/2
	if r.ID == codec.MasterID && older(r.DataVersion, holder.version) && fresh {
		why := fmt.Sprintf("register broker failed: the master of %s is %s, whose data is newer than that of %s",
			r.Name, holder.Addr, r.Addr)
		m.conflict(why, r, holder.Addr, eff)
		return refuse(why)
	}
	return res
}

// older compares what was changed last: the epoch of the master, then the time of the last change, then their
// number. A copy that went its own way has the later time even if it counted less.
func older(a, b body.DataVersion) bool {
	return cmp.Or(cmp.Compare(a.StateVersion, b.StateVersion), cmp.Compare(a.Timestamp, b.Timestamp),
		cmp.Compare(a.Counter, b.Counter)) < 0
}

// conflict notes a refusal once for each pair of addresses.
func (m *RouteInfoManager) conflict(why string, r *Registration, holder string, eff *Effects) {
	key := r.String() + " " + holder
	if _, known := m.conflicts[key]; known {
		return
	}
	if len(m.conflicts) >= maxConflicts {
		clear(m.conflicts)
	}
	m.conflicts[key] = struct{}{}
	eff.note(slog.LevelWarn, "broker registration refused", "reason", why, "registered", holder,
		"refused", r.Addr)
}

func (m *RouteInfoManager) addBroker(r *Registration) *broker {
	b := &broker{
		data:     body.BrokerData{BrokerAddrs: map[int64]string{}, BrokerName: r.Name, Cluster: r.Cluster},
		topics:   map[string]struct{}{},
		mappings: map[string]string{},
	}
	m.brokerAddrTable[r.Name] = b
	names := m.clusterAddrTable[r.Cluster]
	if names == nil {
		names = map[string]struct{}{}
		m.clusterAddrTable[r.Cluster] = names
	}
	names[r.Name] = struct{}{}
	return b
}

// takeID gives r its id. first tells that nobody had it.
func (m *RouteInfoManager) takeID(b *broker, r *Registration, eff *Effects) (first bool) {
	before := b.data
	acting := r.ActingMaster != nil && *r.ActingMaster
	b.data.EnableActingMaster, b.data.ZoneName = acting, r.ZoneName
	holder := b.data.BrokerAddrs[r.ID]
	if holder == r.Addr {
		if before.EnableActingMaster != acting || before.ZoneName != r.ZoneName {
			m.cache.clear()
		}
		return false
	}
	if l := m.brokerLiveTable[holder]; holder != "" && l != nil {
		eff.note(slog.LevelInfo, "broker takes over", "broker", r.String(), "from", holder)
		eff.Gone = append(eff.Gone, holder)
		m.dropLive(l)
	}
	b.data.BrokerAddrs[r.ID] = r.Addr
	m.cache.clear()
	return holder == ""
}

// updateTopics takes the topics of a master, or of the smallest id of a 5.x broker that has no master.
func (m *RouteInfoManager) updateTopics(b *broker, r *Registration, first, changed bool, eff *Effects) {
	primeSlave := r.ActingMaster != nil && r.ID != codec.MasterID && r.ID == b.minID()
	if r.ID != codec.MasterID && !primeSlave {
		return
	}
	if m.settings().DeleteTopicWithBrokerRegistration && len(r.Mappings) == 0 && len(r.Topics) > 1 {
		for _, topic := range slices.Sorted(maps.Keys(b.topics)) {
			if _, still := r.Topics[topic]; !still {
				m.deleteQueueData(topic, r.Name)
				eff.note(slog.LevelInfo, "topic deleted", "topic", topic, "broker", r.Name)
			}
		}
	}
	written := 0
	for key, c := range r.Topics {
		if c == nil {
			continue
		}
		topic := cmp.Or(c.TopicName, key)
		if _, has := b.topics[topic]; has && !changed {
			continue
		}
		qd := body.QueueData{BrokerName: r.Name, Perm: c.Perm, ReadQueueNums: c.ReadQueueNums,
			WriteQueueNums: c.WriteQueueNums, TopicSysFlag: c.TopicSysFlag}
		if primeSlave && b.data.EnableActingMaster {
			qd.Perm &^= codec.PermWrite
		}
		if m.putQueueData(b, topic, qd) {
			written++
		}
	}
	if changed {
		m.putMappings(b, r.Mappings)
	}
	if written > 0 {
		eff.note(slog.LevelInfo, "topics registered", "broker", r.String(), "changed", written,
			"of", len(r.Topics), "first", first)
	}
}

// putQueueData tells whether it differs from what was there.
func (m *RouteInfoManager) putQueueData(b *broker, topic string, qd body.QueueData) bool {
	of := m.topicQueueTable[topic]
	if of == nil {
		of = map[string]body.QueueData{}
		m.topicQueueTable[topic] = of
	} else if old, has := of[qd.BrokerName]; has && old == qd {
		return false
	}
	of[qd.BrokerName] = qd
	b.topics[topic] = struct{}{}
	m.cache.drop(topic)
	return true
}

func (m *RouteInfoManager) putMappings(b *broker, mappings map[string]*body.TopicQueueMappingInfo) {
	for topic, info := range mappings {
		if info == nil {
			continue
		}
		of := m.topicMappings[topic]
		if of == nil {
			of = map[string]*body.TopicQueueMappingInfo{}
			m.topicMappings[topic] = of
		}
		name := cmp.Or(info.BrokerName, b.data.BrokerName)
		of[name] = info
		b.mappings[topic] = name
		m.cache.drop(topic)
	}
}

// updateLive makes the address live, owned by the connection that registered it last.
func (m *RouteInfoManager) updateLive(r *Registration, now time.Time, eff *Effects) *live {
	l := m.brokerLiveTable[r.Addr]
	if l == nil {
		l = &live{BrokerIdentity: r.BrokerIdentity}
		m.brokerLiveTable[r.Addr] = l
		eff.note(slog.LevelInfo, "broker registered", "broker", r.String(), "ha", r.HAServerAddr,
			"conn", r.Conn)
	} else if l.conn != r.Conn {
		m.disown(l)
	}
	l.conn, l.lastUpdate, l.timeout = r.Conn, now, cmp.Or(r.Timeout, DefaultHeartbeatTimeout)
	l.version, l.haServerAddr = r.DataVersion, r.HAServerAddr
	m.setFilterServers(l, r.FilterServers)
	owned := m.byConn[l.conn]
	if owned == nil {
		owned = map[string]struct{}{}
		m.byConn[l.conn] = owned
	}
	owned[l.Addr] = struct{}{}
	return l
}

func (m *RouteInfoManager) setFilterServers(l *live, servers []string) {
	if slices.Equal(l.filterServers, servers) {
		return
	}
	if len(l.filterServers) > 0 {
		m.filterServers--
	}
	if len(servers) > 0 {
		m.filterServers++
	}
	l.filterServers = servers
	m.cache.clear()
}

// notifyJoin tells the other members of a new smallest id, or itself if there are none.
func (m *RouteInfoManager) notifyJoin(b *broker, r *Registration, eff *Effects) {
	targets := slices.Sorted(maps.Values(b.data.BrokerAddrs))
	if len(targets) > 1 {
		targets = slices.DeleteFunc(targets, func(addr string) bool { return addr == r.Addr })
	}
	eff.Changes = append(eff.Changes, MinBrokerIDChange{BrokerName: r.Name, MinBrokerID: r.ID,
		MinBrokerAddr: r.Addr, HAAddr: r.HAServerAddr, Targets: targets})
}
