package ha

import (
	"fmt"
	"net"

	"skylark/store"
)

// add serves one more connection, on a master.
func (s *AutoSwitchHAService) add(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.links.list()); s.closed || !s.set.Leading() || n >= MaxSlaves {
		s.o.Slog.Debug("connection of a slave refused", "remote", conn.RemoteAddr(), "connections", n, "master",
			s.set.Leading())
		_ = conn.Close()
		return
	}
	c := newSwitchConnection(s, conn)
	s.links.add(c)
	s.o.Slog.Info("slave connected", "remote", conn.RemoteAddr())
	s.done.Go(c.readReports)
	s.done.Go(c.push)
}

// remove forgets a connection that ended.
func (s *AutoSwitchHAService) remove(c *switchConnection, id int64) {
	s.mu.Lock()
	s.links.remove(c)
	known := s.byID[id] == c
	if known {
		delete(s.byID, id)
		s.set.Closed(id)
	}
	ends := s.closed
	s.mu.Unlock()
	if known && !ends {
		s.lookSoon()
	}
}

// introduced notes who a connection is; one of before under the same id ends.
func (s *AutoSwitchHAService) introduced(c *switchConnection, id int64, learner bool) error {
	s.mu.Lock()
	if !s.set.Leading() {
		s.mu.Unlock()
		return errNotLed
	}
	if id == s.set.self {
		s.mu.Unlock()
		return fmt.Errorf("%w: it has this broker's own id %d", errStranger, id)
	}
	old := s.byID[id]
	s.byID[id] = c
	s.set.Connected(id, learner, s.o.Clock.Millis())
	s.mu.Unlock()
	s.o.Slog.Info("slave introduces itself", "remote", c.conn.RemoteAddr(), "brokerId", id, "asyncLearner", learner)
	if old != nil {
		old.close(errReplaced)
	}
	return nil
}

// acked is called when a slave has more.
func (s *AutoSwitchHAService) acked(c *switchConnection, id int64, ack store.PhyOffset) {
	s.mu.Lock()
	group := s.group
	if s.byID[id] != c || group == nil {
		s.mu.Unlock()
		return
	}
	look := s.set.Acked(id, ack, s.o.Log.MaxPhyOffset(), s.o.Clock.Millis())
	s.publish()
	s.mu.Unlock()
	group.advance()
	if look {
		s.lookSoon()
	}
}

// need is how many slaves a put waits for now, in the numbers of confirmed.
func (s *AutoSwitchHAService) need(live *Live) (slaves int) {
	switch {
	case live.Majority > 1:
		slaves = live.Majority / 2
	case live.Rule == OneSlave:
		slaves = 1
	case live.Rule == InSyncReplicas:
		slaves = live.InSyncReplicas - 1
	}
	if live.AllAckInSyncStateSet {
		return allOfSet + max(live.MinInSyncReplicas-1, live.Majority/2, 0)
	}
	return max(slaves, 0)
}

// waits tells whether puts wait for copies.
func (s *AutoSwitchHAService) waits(live *Live) bool { return s.need(live) > 0 }

// confirmed is up to where the log counts as copied for a put that needs so many slaves.
func (s *AutoSwitchHAService) confirmed(slaves int) store.PhyOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copied(slaves, s.o.Log.MaxPhyOffset())
}

// copied is confirmed under mu, with the end of the log.
func (s *AutoSwitchHAService) copied(slaves int, end store.PhyOffset) store.PhyOffset {
	if !s.set.Leading() {
		return -1
	}
	at := end
	if slaves >= allOfSet {
		at = s.set.Confirmed(end)
		slaves -= allOfSet
	}
	if slaves > 0 {
		at = min(at, s.set.Copies(slaves))
	}
	return at
}

// Admit implements store.Replicas: with fewer than minInSyncReplicas in the SyncStateSet nothing is stored (Java), nor
// without a majority in quorum mode. A member that is on its way in or out does not count.
func (s *AutoSwitchHAService) Admit() store.PutStatus {
	n := int(s.inSync.Load())
	if n == 0 { // no master: the store says so itself
		return store.PutOK
	}
	live := s.o.Live()
	need := live.MinInSyncReplicas
	if live.Majority > 1 {
		need = max(need, live.Majority/2+1)
	}
	if n < need {
		return store.InSyncReplicasNotEnough
	}
	return store.PutOK
}

// Copied implements store.Replicas. A put of an earlier time as master is answered FLUSH_SLAVE_TIMEOUT: nobody knows whether
// it stayed. One that needs more slaves than the set has is answered SLAVE_NOT_AVAILABLE at once; Java waits for the whole
// slaveTimeout then.
func (s *AutoSwitchHAService) Copied(end store.PhyOffset, done func(store.PutStatus)) bool {
	live := s.o.Live()
	need := s.need(live)
	s.mu.Lock()
	group := s.group
	switch {
	case group == nil || end <= s.ledFrom:
		s.mu.Unlock()
		done(store.FlushSlaveTimeout)
		return false
	case need == 0 || s.copied(need, end) >= end:
		s.mu.Unlock()
		return true
	case need%allOfSet > s.set.InSync()-1:
		s.mu.Unlock()
		done(store.SlaveNotAvailable)
		return false
	}
	s.mu.Unlock()
	return group.wait(end, need, live.SlaveTimeout, done)
}

// SyncStateSet is what the controller said last.
func (s *AutoSwitchHAService) SyncStateSet() (set []int64, setEpoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Set()
}

// InSyncReplicas is the number of replicas that are surely in the SyncStateSet, the master among them; 0 on a slave.
func (s *AutoSwitchHAService) InSyncReplicas() int { return int(s.inSync.Load()) }

// ConfirmOffset is up to where the log is confirmed: on a master what consumers are shown at most, on a slave what its
// master said, as far as it has that.
func (s *AutoSwitchHAService) ConfirmOffset() store.PhyOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch end := s.o.Log.MaxPhyOffset(); {
	case s.set.Leading() && s.shown == noEnd:
		return end
	default:
		return min(store.PhyOffset(s.confirm.Load()), end)
	}
}

// EpochEntries are the epochs of the log, the oldest first.
func (s *AutoSwitchHAService) EpochEntries() []EpochEntry { return s.o.Epochs.Entries() }

// LastEpoch is the newest of them, NoEpoch without any.
func (s *AutoSwitchHAService) LastEpoch() int32 { return s.o.Epochs.Last() }

// Slaves are the connections that have begun, on a master.
func (s *AutoSwitchHAService) Slaves() []SlaveStatus {
	end, now := s.o.Log.MaxPhyOffset(), s.o.Clock.Millis()
	var all []SlaveStatus
	for _, c := range s.links.list() {
		c.mu.Lock()
		id, _, _ := c.link.Slave()
		status := SlaveStatus{BrokerID: id, Remote: c.conn.RemoteAddr().String(), Ack: c.link.Ack(), Next: c.link.Next(),
			Behind: max(int64(end-c.link.Ack()), 0), BytesPerSecond: c.flow.perSecond(now)}
		begun := c.link.Started()
		c.mu.Unlock()
		if begun {
			all = append(all, status)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		all[i].InSync = s.set.Has(all[i].BrokerID)
	}
	return all
}

// Status is the slave's connection to its master; the zero value on a master.
func (s *AutoSwitchHAService) Status() ClientStatus {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return ClientStatus{}
	}
	return client.Status()
}

// State tells where a slave is with its master; ClientReady on a master.
func (s *AutoSwitchHAService) State() ClientState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return ClientReady
	}
	return s.client.State()
}
