package namesrv

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"skylark/codec"
	"skylark/codec/body"
)

// Unregister removes a broker (Java unregisterBroker). Name, cluster, id and address must be those
// registered, else nothing happens: Java looks at the address alone, so that a late request of a slave can
// remove the master that the same node has become.
func (m *RouteInfoManager) Unregister(id BrokerIdentity) (eff Effects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.brokerLiveTable[id.Addr]
	switch {
	case l == nil:
		eff.note(slog.LevelInfo, "broker to unregister is not registered", "broker", id.String())
	case l.BrokerIdentity != id:
		eff.note(slog.LevelWarn, "broker to unregister is registered as another", "broker", id.String(),
			"registered", l.String())
	default:
		m.remove(l, "it said so", &eff)
	}
	return eff
}

// ConnectionClosed removes what a connection registered last (Java onChannelDestroy, which removes one of
// them).
func (m *RouteInfoManager) ConnectionClosed(conn uint64) (eff Effects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, addr := range slices.Sorted(maps.Keys(m.byConn[conn])) {
		m.remove(m.brokerLiveTable[addr], "its connection closed", &eff)
	}
	return eff
}

// Expire removes brokers that have been silent for longer than their timeout (Java scanNotActiveBroker). next
// is the earliest time at which another one can be, zero if there is none.
func (m *RouteInfoManager) Expire(now time.Time) (next time.Time, eff Effects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, addr := range slices.Sorted(maps.Keys(m.brokerLiveTable)) {
		l := m.brokerLiveTable[addr]
		if now.Sub(l.lastUpdate) <= l.timeout {
			if next.IsZero() || l.deadline().Before(next) {
				next = l.deadline()
			}
			continue
		}
		m.remove(l, "it was silent for longer than "+l.timeout.String(), &eff)
		if m.byConn[l.conn] == nil { // nobody else lives on it
			eff.Close = append(eff.Close, l.conn)
		}
	}
	return next, eff
}

// Heartbeat keeps a registered broker alive (904); an unknown one is ignored.
func (m *RouteInfoManager) Heartbeat(cluster, addr string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.brokerLiveTable[addr]; l != nil && l.Cluster == cluster {
		l.lastUpdate = now
	}
}

// QueryDataVersion compares a broker's data version with the registered one and keeps the broker alive (322).
// known is the registered one, nil if the address is not registered. A broker that is registered under
// another name or id is told that it changed, so that it registers again.
func (m *RouteInfoManager) QueryDataVersion(id BrokerIdentity, v *body.DataVersion, now time.Time) (
	changed bool, known *body.DataVersion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.brokerLiveTable[id.Addr]
	if l == nil || l.Cluster != id.Cluster {
		return true, nil
	}
	l.lastUpdate = now
	version := l.version
	return l.BrokerIdentity != id || v == nil || *v != version, &version
}

// remove unregisters a live address.
func (m *RouteInfoManager) remove(l *live, why string, eff *Effects) {
	b := m.brokerAddrTable[l.Name]
	smallest := l.ID == b.minID()
	m.dropLive(l)
	delete(b.data.BrokerAddrs, l.ID)
	m.cache.clear()
	eff.Gone = append(eff.Gone, l.Addr)
	eff.note(slog.LevelInfo, "broker unregistered", "broker", l.String(), "reason", why)
	if len(b.data.BrokerAddrs) == 0 {
		m.removeBroker(b, eff)
		return
	}
	if !b.data.EnableActingMaster {
		return
	}
	if !b.hasMaster() {
		m.setPerm(b, func(perm int32) int32 { return perm &^ codec.PermWrite })
	}
	if smallest && m.settings().NotifyMinBrokerIdChanged {
		id := b.minID()
		eff.Changes = append(eff.Changes, MinBrokerIDChange{BrokerName: l.Name, MinBrokerID: id,
			MinBrokerAddr: b.data.BrokerAddrs[id], OfflineAddr: l.Addr,
			Targets: slices.Sorted(maps.Values(b.data.BrokerAddrs))})
	}
}

// dropLive forgets an address; its place in brokerAddrTable is the caller's.
func (m *RouteInfoManager) dropLive(l *live) {
	delete(m.brokerLiveTable, l.Addr)
	m.disown(l)
	m.setFilterServers(l, nil)
}

func (m *RouteInfoManager) disown(l *live) {
	owned := m.byConn[l.conn]
	delete(owned, l.Addr)
	if len(owned) == 0 {
		delete(m.byConn, l.conn)
	}
}

// removeBroker removes a name without members, with its topics.
func (m *RouteInfoManager) removeBroker(b *broker, eff *Effects) {
	name, cluster := b.data.BrokerName, b.data.Cluster
	for topic := range b.topics {
		m.deleteQueueData(topic, name)
	}
	for topic, as := range b.mappings {
		of := m.topicMappings[topic]
		delete(of, as)
		if len(of) == 0 {
			delete(m.topicMappings, topic)
		}
	}
	delete(m.brokerAddrTable, name)
	names := m.clusterAddrTable[cluster]
	delete(names, name)
	if len(names) == 0 {
		delete(m.clusterAddrTable, cluster)
	}
	m.cache.clear()
	eff.note(slog.LevelInfo, "broker name removed", "broker", name, "cluster", cluster)
}

// deleteQueueData removes a topic of one broker name, and the topic if it was the last.
func (m *RouteInfoManager) deleteQueueData(topic, name string) {
	of := m.topicQueueTable[topic]
	delete(of, name)
	if len(of) == 0 {
		delete(m.topicQueueTable, topic)
	}
	if b := m.brokerAddrTable[name]; b != nil {
		delete(b.topics, topic)
	}
	m.cache.drop(topic)
}

// setPerm changes the perm of all topics of a broker name and tells how many there are.
func (m *RouteInfoManager) setPerm(b *broker, change func(perm int32) int32) int {
	for topic := range b.topics {
		of := m.topicQueueTable[topic]
		qd := of[b.data.BrokerName]
		qd.Perm = change(qd.Perm)
		of[b.data.BrokerName] = qd
	}
	m.cache.clear()
	return len(b.topics)
}
