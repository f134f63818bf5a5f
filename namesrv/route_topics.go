package namesrv

import (
	"log/slog"
	"slices"

	"skylark/codec"
	"skylark/codec/body"
)

// WipeWritePerm takes the write bit from all topics of a broker name and tells how many it has (205). A
// registration with a new data version brings it back.
func (m *RouteInfoManager) WipeWritePerm(brokerName string) int {
	return m.changePerm(brokerName, func(perm int32) int32 { return perm &^ codec.PermWrite })
}

// AddWritePerm sets all topics of a broker name to read and write and tells how many it has (327).
func (m *RouteInfoManager) AddWritePerm(brokerName string) int {
	return m.changePerm(brokerName, func(int32) int32 { return codec.PermRead | codec.PermWrite })
}

func (m *RouteInfoManager) changePerm(brokerName string, change func(perm int32) int32) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.brokerAddrTable[brokerName]
	if b == nil {
		return 0
	}
	return m.setPerm(b, change)
}

// DeleteTopic removes a topic, from the brokers of one cluster if that is not "" (216), and tells from how
// many. A broker that still has it brings it back with its next registration.
func (m *RouteInfoManager) DeleteTopic(topic, cluster string) (brokers int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.topicQueueTable[topic] {
		if cluster == "" || m.brokerAddrTable[name].data.Cluster == cluster {
			m.deleteQueueData(topic, name)
			brokers++
		}
	}
	return brokers
}

// RegisterTopic merges a topic's queues (217). If any of the brokers is unknown nothing happens.
func (m *RouteInfoManager) RegisterTopic(topic string, queues []*body.QueueData) (eff Effects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	unknown := func(q *body.QueueData) bool { return q == nil || m.brokerAddrTable[q.BrokerName] == nil }
	if i := slices.IndexFunc(queues, unknown); i >= 0 {
		name := ""
		if queues[i] != nil {
			name = queues[i].BrokerName
		}
		eff.note(slog.LevelWarn, "topic of an unknown broker ignored", "topic", topic, "broker", name)
		return eff
	}
	for _, q := range queues {
		if m.putQueueData(m.brokerAddrTable[q.BrokerName], topic, *q) {
			eff.note(slog.LevelInfo, "topic registered", "topic", topic, "broker", q.BrokerName)
		}
	}
	return eff
}
