package ha

import (
	"slices"

	"skylark/store"
)

// Times of a SyncSet, ms.
const (
	// joinFreshMillis: a slave that had everything so long ago may be on its way into the set.
	joinFreshMillis = 500
	// joinMillis is how long it may need from there to its barrier; puts wait for it meanwhile.
	joinMillis = 1000
	// connectMillis is how long a new master waits for members that are not connected.
	connectMillis = 3000
	// unknownAskMillis after a request without an answer it is not carried out any more.
	unknownAskMillis = 10_000
	// refusedMillis is how long nothing is asked for after a refusal.
	refusedMillis = 1000
)

// SyncSet is a master's view of its group (Java AutoSwitchHAService: syncStateSet, remoteSyncStateSet,
// connectionCaughtUpTimeTable): which slaves must have a message before it counts as confirmed. Pure: the service drives it,
// under a lock. Times are ms, sets are sorted ids.
//
// # What makes it safe
//
// The controller elects one of the set as it knows it. So whatever was confirmed has to be on all members of that set, at
// any time. The controller may have carried out any change that was asked for, whether or not the answer came back. So
// everybody counts who is in the last set that the controller told, or in any that was asked for since: asking for one
// without him does not make him count less. Java forgets the first of two open requests there (apache/rocketmq#5663).
//
// A slave comes in like this: when it has had everything a moment ago it becomes a candidate: from then on puts wait for it,
// and what was confirmed before ends at its barrier. When it has reached its barrier the controller is asked. Java asks when
// a slave has everything that is confirmed: with a single replica that is the end of the log, which a slave under load
// reaches by luck only.
type SyncSet struct {
	leading bool
	self    int64
	leadAt  int64

	local []int64 // as the controller said last
	epoch int32   // of local

	mayBe   []int64 // in any set that was asked for since
	surely  []int64 // in all of them
	asks    int     // how many
	wanted  []int64 // the last one
	askedAt int64
	// earlierAt is when the request before the last one was made.
	earlierAt int64
	quietTo   int64 // nobody joins before, after a refusal

	slaves  map[int64]*setSlave
	confirm store.PhyOffset // never goes back
}

// setSlave is a slave that is connected, or of the set.
type setSlave struct {
	connected bool
	learner   bool
	ack       store.PhyOffset // up to where it has the log, -1 = unknown
	caughtUp  int64           // when it last had everything
	mark      store.PhyOffset // the end of the log at markAt: an ack of it means that it had everything then
	markAt    int64
	barrier   store.PhyOffset // of a candidate, -1 = is none
	barrierAt int64
}

// Lead makes this replica the master of a set, for the first time or once more. confirmed is what it knows to be confirmed.
func (s *SyncSet) Lead(self int64, set []int64, setEpoch int32, confirmed store.PhyOffset, nowMillis int64) {
	slaves := s.slaves
	if !s.leading || slaves == nil {
		slaves = map[int64]*setSlave{}
	}
	*s = SyncSet{leading: true, self: self, leadAt: nowMillis, local: sortedIDs(set), epoch: setEpoch, confirm: confirmed,
		slaves: slaves}
	s.answered()
}

// Leave ends that: nothing is confirmed any more.
func (s *SyncSet) Leave() { s.leading = false }

func sortedIDs(set []int64) []int64 {
	set = slices.Clone(set)
	slices.Sort(set)
	return slices.Compact(set)
}

func contains(set []int64, id int64) bool {
	_, found := slices.BinarySearch(set, id)
	return found
}

// answered ends all requests.
func (s *SyncSet) answered() {
	s.mayBe, s.surely, s.wanted, s.asks = s.local, s.local, nil, 0
	for id, x := range s.slaves {
		x.barrier = -1
		s.forget(id, x)
	}
}

// forget drops a slave that is gone and does not count.
func (s *SyncSet) forget(id int64, x *setSlave) {
	if !x.connected && !contains(s.local, id) && !contains(s.mayBe, id) {
		delete(s.slaves, id)
	}
}

// Connected notes a slave's handshake; a connection of before under this id has ended.
func (s *SyncSet) Connected(id int64, learner bool, nowMillis int64) {
	if !s.leading {
		return
	}
	x := s.slaves[id]
	if x == nil {
		x = &setSlave{}
		if contains(s.local, id) {
			x.caughtUp = s.leadAt // it had everything for the controller
		}
		s.slaves[id] = x
	}
	x.connected, x.learner = true, learner
	x.ack, x.barrier, x.mark, x.markAt = -1, -1, -1, nowMillis
}

// Closed notes the end of its connection.
func (s *SyncSet) Closed(id int64) {
	if x := s.slaves[id]; x != nil {
		x.connected, x.ack, x.barrier = false, -1, -1
		s.forget(id, x)
	}
}

// Acked notes up to where a slave has the log, which ends at end. look: it may be time for a Tick.
func (s *SyncSet) Acked(id int64, ack, end store.PhyOffset, nowMillis int64) (look bool) {
	x := s.slaves[id]
	if x == nil || !x.connected {
		return false
	}
	x.ack = max(x.ack, ack)
	switch {
	case x.ack >= end:
		x.caughtUp = nowMillis
	case x.mark >= 0 && x.ack >= x.mark:
		x.caughtUp = max(x.caughtUp, x.markAt)
	case x.mark >= 0:
		return false
	}
	x.mark, x.markAt = end, nowMillis
	return !x.learner && s.asks == 0 && !contains(s.local, id) && x.ack >= x.barrier
}

// Word is what the controller says. What it said before is known already, and older answers are void.
func (s *SyncSet) Word(set []int64, setEpoch int32) {
	if !s.leading || setEpoch <= s.epoch {
		return
	}
	s.local, s.epoch = sortedIDs(set), setEpoch
	s.answered()
}

// Refused notes that the controller will not carry out the last request. Of earlier ones without an answer nobody knows.
func (s *SyncSet) Refused(nowMillis int64) {
	s.quietTo = nowMillis + refusedMillis
	if s.asks == 1 || nowMillis-s.earlierAt > unknownAskMillis {
		s.answered()
	}
}

// Tick decides what the set should be, at every event and every half second or so. maxBehindMillis is
// haMaxTimeSlaveNotCatchup. ask is a set to ask the controller for, nil for none: with the epoch that Set tells.
func (s *SyncSet) Tick(end store.PhyOffset, nowMillis, maxBehindMillis int64) (ask []int64) {
	if !s.leading {
		return nil
	}
	want := []int64{s.self}
	for _, id := range s.local {
		if id != s.self && s.stays(id, end, nowMillis, maxBehindMillis) {
			want = append(want, id)
		}
	}
	for id, x := range s.slaves {
		if !contains(s.local, id) && s.joins(id, x, end, nowMillis) {
			want = append(want, id)
		}
	}
	want = sortedIDs(want)
	switch {
	case s.asks > 0 && nowMillis-s.askedAt < askInterval.Milliseconds() || nowMillis < s.quietTo:
		return nil
	case !slices.Equal(want, s.local):
	case s.asks > 0: // nothing has to change, but something was asked for: only another answer tells what became of it
		want = s.wanted
	default:
		return nil
	}
	s.asks++
	s.wanted, s.askedAt, s.earlierAt = want, nowMillis, s.askedAt
	s.mayBe = sortedIDs(append(slices.Clone(s.mayBe), want...))
	s.surely = slices.DeleteFunc(slices.Clone(s.surely), func(id int64) bool { return !contains(want, id) })
	return want
}

// stays tells whether a member may stay.
func (s *SyncSet) stays(id int64, end store.PhyOffset, nowMillis, maxBehindMillis int64) bool {
	x := s.slaves[id]
	switch {
	case x == nil:
		return nowMillis-s.leadAt < connectMillis
	case !x.connected || x.learner:
		return false
	case x.ack >= end:
		x.caughtUp = nowMillis
	}
	return nowMillis-x.caughtUp <= maxBehindMillis
}

// joins tells whether a slave may come in; it makes candidates of those that are near.
func (s *SyncSet) joins(id int64, x *setSlave, end store.PhyOffset, nowMillis int64) bool {
	if !x.connected || x.learner || x.ack < 0 || id == s.self {
		return false
	}
	if x.ack >= end {
		x.caughtUp = nowMillis
	}
	switch {
	case x.barrier >= 0 && x.ack >= x.barrier:
		return true
	case x.barrier >= 0 && nowMillis-x.barrierAt > joinMillis:
		if !contains(s.mayBe, id) {
			x.barrier = -1
		}
		return false
	case x.barrier < 0 && s.asks == 0 && nowMillis >= s.quietTo && x.mark >= 0 && nowMillis-x.caughtUp <= joinFreshMillis:
		x.barrier, x.barrierAt = max(s.Confirmed(end), end), nowMillis // what is confirmed so far is without it
		return x.ack >= x.barrier
	}
	return false
}

// Confirmed is up to where everybody who counts has the log, which ends at end here. It never goes back while this replica
// leads.
func (s *SyncSet) Confirmed(end store.PhyOffset) store.PhyOffset {
	if !s.leading {
		return s.confirm
	}
	all := end
	for _, id := range s.mayBe {
		if id == s.self {
			continue
		}
		x := s.slaves[id]
		if x == nil || x.ack < 0 {
			return s.confirm
		}
		all = min(all, x.ack)
	}
	for _, x := range s.slaves {
		if x.barrier >= 0 {
			all = min(all, x.ack)
		}
	}
	s.confirm = max(s.confirm, all)
	return s.confirm
}

// Copies is up to where at least n slaves that are surely in the set have the log, -1 = nowhere.
func (s *SyncSet) Copies(n int) store.PhyOffset {
	var acks [MaxSlaves]store.PhyOffset
	have := 0
	for _, id := range s.surely {
		if x := s.slaves[id]; x != nil && id != s.self && x.ack >= 0 && have < len(acks) {
			acks[have] = x.ack
			have++
		}
	}
	if !s.leading || n <= 0 || n > have {
		return -1
	}
	slices.Sort(acks[:have])
	return acks[have-n]
}

// Alone tells that nobody else counts.
func (s *SyncSet) Alone() bool {
	if len(s.mayBe) > 1 {
		return false
	}
	for _, x := range s.slaves {
		if x.barrier >= 0 {
			return false
		}
	}
	return true
}

// InSync is the number of replicas that are surely in the set, this one among them.
func (s *SyncSet) InSync() int { return len(s.surely) }

// Has tells whether a replica is in the set as the controller said last.
func (s *SyncSet) Has(id int64) bool { return contains(s.local, id) }

// Set is what the controller said last.
func (s *SyncSet) Set() (set []int64, setEpoch int32) { return slices.Clone(s.local), s.epoch }

// Leading tells whether this replica is the master.
func (s *SyncSet) Leading() bool { return s.leading }
