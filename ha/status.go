package ha

import (
	"skylark/store"
)

// ClientStatus is a slave's part of GET_BROKER_HA_STATUS (Java HARuntimeInfo.HAClientRuntimeInfo).
type ClientStatus struct {
	Activated      bool
	Master         string // host:port of its HA port
	LastRead       int64  // ms; 0 = never
	LastWrite      int64
	BytesPerSecond int64
	Max            store.PhyOffset
}

// SlaveStatus is one connection in GET_BROKER_HA_STATUS (Java HARuntimeInfo.HAConnectionRuntimeInfo).
type SlaveStatus struct {
	BrokerID       int64  // of its handshake, with automatic switching
	Remote         string // host:port
	Ack            store.PhyOffset
	Next           store.PhyOffset // where the transfer is
	Behind         int64           // bytes
	InSync         bool
	BytesPerSecond int64
}

// Slaves are the connections that have begun.
func (s *HAService) Slaves() []SlaveStatus {
	live, end, now := s.o.Live(), s.o.Log.MaxPhyOffset(), s.o.Clock.Millis()
	var all []SlaveStatus
	for _, c := range s.links.list() {
		c.mu.Lock()
		ack := c.ack.Load()
		if ack >= 0 {
			behind := int64(end) - ack
			all = append(all, SlaveStatus{Remote: c.conn.RemoteAddr().String(), Ack: store.PhyOffset(ack), Next: c.link.next,
				Behind: max(behind, 0), InSync: behind < live.MaxGapNotInSync, BytesPerSecond: c.flow.perSecond(now)})
		}
		c.mu.Unlock()
	}
	return all
}

// Pushed is the largest offset that any slave ever confirmed (Java push2SlaveMaxOffset).
func (s *HAService) Pushed() store.PhyOffset { return store.PhyOffset(s.pushed.Load()) }
