package namesrv

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"skylark/codec"
	"skylark/codec/body"
)

// Route is what a client gets of a topic, nil if it is not known (Java pickupTopicRouteData). Lists are
// sorted by broker name. The result is the caller's own; mappings are shared and not to be changed.
func (m *RouteInfoManager) Route(topic string) *body.TopicRouteData {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.route(topic)
}

// route is called with mu held for reading.
func (m *RouteInfoManager) route(topic string) *body.TopicRouteData {
	queues := m.topicQueueTable[topic]
	if len(queues) == 0 {
		return nil
	}
	r := &body.TopicRouteData{FilterServerTable: map[string][]string{}}
	acting := m.settings().SupportActingMaster && !strings.HasPrefix(topic, codec.SyncBrokerMemberGroupPrefix)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		qd, data := queues[name], m.brokerAddrTable[name].data
		data.BrokerAddrs = maps.Clone(data.BrokerAddrs)
		if m.filterServers > 0 {
			for _, addr := range data.BrokerAddrs {
				if l := m.brokerLiveTable[addr]; len(l.filterServers) > 0 {
					r.FilterServerTable[addr] = slices.Clone(l.filterServers)
				}
			}
		}
		if acting && data.EnableActingMaster && qd.Perm&codec.PermWrite == 0 {
			actAsMaster(data.BrokerAddrs)
		}
		r.QueueDatas = append(r.QueueDatas, &qd)
		r.BrokerDatas = append(r.BrokerDatas, &data)
	}
	r.TopicQueueMappingByBroker = maps.Clone(m.topicMappings[topic])
	return r
}

// actAsMaster shows the smallest id as master where there is none.
func actAsMaster(addrs map[int64]string) {
	if _, has := addrs[codec.MasterID]; has || len(addrs) == 0 {
		return
	}
	id := slices.Min(slices.Collect(maps.Keys(addrs)))
	addrs[codec.MasterID] = addrs[id]
	delete(addrs, id)
}

// FilterZone keeps the brokers of a zone and those without master, whose slaves anybody may read (Java
// ZoneRouteRPCHook).
func FilterZone(r *body.TopicRouteData, zone string) {
	removed := map[string]bool{}
	r.BrokerDatas = slices.DeleteFunc(r.BrokerDatas, func(b *body.BrokerData) bool {
		_, master := b.BrokerAddrs[codec.MasterID]
		if !master || strings.EqualFold(b.ZoneName, zone) {
			return false
		}
		removed[b.BrokerName] = true
		for _, addr := range b.BrokerAddrs {
			delete(r.FilterServerTable, addr)
		}
		return true
	})
	r.QueueDatas = slices.DeleteFunc(r.QueueDatas,
		func(q *body.QueueData) bool { return removed[q.BrokerName] })
}

// ClusterInfo is all clusters and brokers (106).
func (m *RouteInfoManager) ClusterInfo() *body.ClusterInfo {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := &body.ClusterInfo{BrokerAddrTable: map[string]*body.BrokerData{},
		ClusterAddrTable: map[string][]string{}}
	for name, b := range m.brokerAddrTable {
		data := b.data
		data.BrokerAddrs = maps.Clone(data.BrokerAddrs)
		c.BrokerAddrTable[name] = &data
	}
	for cluster, names := range m.clusterAddrTable {
		c.ClusterAddrTable[cluster] = slices.Sorted(maps.Keys(names))
	}
	return c
}

// MemberGroup is the members of a broker name (901); none if it is not known in that cluster.
func (m *RouteInfoManager) MemberGroup(cluster, name string) *body.BrokerMemberGroup {
	m.mu.RLock()
	defer m.mu.RUnlock()
	g := &body.BrokerMemberGroup{Cluster: cluster, BrokerName: name, BrokerAddrs: map[int64]string{}}
	if b := m.brokerAddrTable[name]; b != nil && b.data.Cluster == cluster {
		maps.Copy(g.BrokerAddrs, b.data.BrokerAddrs)
	}
	return g
}

// AllTopics is every topic's name, sorted (206).
func (m *RouteInfoManager) AllTopics() []string {
	return m.topicsIf(func(map[string]body.QueueData) bool { return true })
}

// topicsIf is the sorted names of topics whose queues, by broker name, f wants; never nil.
func (m *RouteInfoManager) topicsIf(f func(queues map[string]body.QueueData) bool) []string {
	m.mu.RLock()
	topics := make([]string, 0, len(m.topicQueueTable))
	for topic, queues := range m.topicQueueTable {
		if f(queues) {
			topics = append(topics, topic)
		}
	}
	m.mu.RUnlock()
	slices.Sort(topics)
	return topics
}

// TopicsByCluster is the topics of a cluster, sorted, none for one that is not known (224). Java lists a
// topic once for each broker name that has it.
func (m *RouteInfoManager) TopicsByCluster(cluster string) []string {
	m.mu.RLock()
	set := map[string]struct{}{}
	for name := range m.clusterAddrTable[cluster] {
		for topic := range m.brokerAddrTable[name].topics {
			set[topic] = struct{}{}
		}
	}
	m.mu.RUnlock()
	topics := slices.AppendSeq(make([]string, 0, len(set)), maps.Keys(set))
	slices.Sort(topics)
	return topics
}

// UnitTopics is the topics whose flags satisfy f (311 to 313). Of the brokers that have a topic the first by
// name counts, in Java any.
func (m *RouteInfoManager) UnitTopics(f func(topicSysFlag int32) bool) []string {
	return m.topicsIf(func(queues map[string]body.QueueData) bool {
		first := ""
		for name := range queues {
			if first == "" || name < first {
				first = name
			}
		}
		return f(queues[first].TopicSysFlag)
	})
}

// SystemTopics is the names of all clusters and brokers, which are topics too, and a broker to ask for more
// (304).
func (m *RouteInfoManager) SystemTopics() *body.TopicList {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := &body.TopicList{TopicList: []string{}}
	for _, cluster := range slices.Sorted(maps.Keys(m.clusterAddrTable)) {
		list.TopicList = append(list.TopicList, cluster)
		list.TopicList = slices.AppendSeq(list.TopicList, maps.Keys(m.clusterAddrTable[cluster]))
	}
	slices.Sort(list.TopicList)
	list.TopicList = slices.Compact(list.TopicList)
	if len(m.brokerAddrTable) > 0 {
		first := slices.MinFunc(slices.Collect(maps.Values(m.brokerAddrTable)), func(a, b *broker) int {
			return cmp.Compare(a.data.BrokerName, b.data.BrokerName)
		})
		list.BrokerAddr = first.data.BrokerAddrs[first.minID()]
	}
	return list
}

// Brokers is the number of registered addresses, Topics that of topics.
func (m *RouteInfoManager) Brokers() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.brokerLiveTable)
}

// Topics is the number of topics.
func (m *RouteInfoManager) Topics() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.topicQueueTable)
}
