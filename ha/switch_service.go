package ha

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"skylark/store"
)

// Errors of changes of role.
var (
	// ErrOldEpoch answers a role of an epoch that is over: the log has epochs that are newer.
	ErrOldEpoch = errors.New("ha: the master epoch is over")
	errNotLed   = errors.New("ha: this replica is no master")
	errReplaced = errors.New("ha: the replica has connected anew")
	errNewRole  = errors.New("ha: the role changes")
)

// AutoSwitchHAService is the replication of a broker whose role a controller decides (Java AutoSwitchHAService): master or
// slave, one after the other. It is store.Replicas.
//
// As slave it connects where SetMaster says and follows. As master it serves slaves, keeps the SyncStateSet, and answers the
// puts that wait for copies. Before its first role the store takes no messages.
//
// What a put costs: one lock and a look at the acknowledgements of the set; see GroupTransferService for one that waits.
type AutoSwitchHAService struct {
	o        SwitchOptions
	listener net.Listener // nil before Start

	role sync.Mutex // one change of role at a time; before mu

	mu      sync.Mutex
	set     SyncSet
	group   *GroupTransferService // of this time as master, nil on a slave
	ledFrom store.PhyOffset       // where the log ended when this time as master began
	links   connections[*switchConnection]
	byID    map[int64]*switchConnection // the newest of each slave
	client  *switchClient               // nil on a master
	id      int64                       // of this replica
	address string                      // of the master
	shown   store.PhyOffset             // to consumers, noEnd = no bound
	masters int32                       // the epoch of the last role, NoEpoch before the first
	closed  bool

	inSync  atomic.Int32 // SyncSet.InSync of a master, 0 on a slave
	confirm atomic.Int64 // shown of a master, and on a slave what its master says
	done    sync.WaitGroup
	stop    chan struct{}
	look    chan struct{}
}

// noEnd is no bound, and the end of the last epoch.
const noEnd = store.PhyOffset(math.MaxInt64)

// allOfSet as a number of slaves means all that count, and so many of them surely besides (see need).
const allOfSet = 1 << 16

// NewAutoSwitchHAService makes a service without a role: the log takes no messages from here on. It is made before the store
// starts.
func NewAutoSwitchHAService(o SwitchOptions) (*AutoSwitchHAService, error) {
	s := &AutoSwitchHAService{o: o, byID: map[int64]*switchConnection{}, masters: NoEpoch, shown: noEnd,
		stop: make(chan struct{}), look: make(chan struct{}, 1)}
	s.links.log = o.Log
	s.confirm.Store(int64(o.Log.DispatchedWhere()))
	if err := o.Epochs.TruncateSuffix(o.Log.MaxPhyOffset() + 1); err != nil { // what a crash took has no epoch either
		return nil, err
	}
	o.Log.Follow()
	return s, nil
}

// Start accepts slaves while this replica is master; the listener belongs to the service from here on. nil: none can come.
func (s *AutoSwitchHAService) Start(l net.Listener) {
	s.listener = l
	if l != nil {
		s.done.Go(func() { acceptSlaves(l, s.o.Slog, s.add) })
	}
	s.done.Go(s.keepSet)
}

// Addr is where slaves connect, nil before Start.
func (s *AutoSwitchHAService) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// BecomeMaster makes this replica the master of an epoch, with the SyncStateSet of the controller. As a slave before, it
// follows no longer, and waits until consumers can be shown all that is confirmed: everything that it has, if it was elected
// and so is alone in the set; a master that comes back keeps hidden what others of the set may lack. An error leaves a
// replica without master and without slaves, which may be tried again.
func (s *AutoSwitchHAService) BecomeMaster(ctx context.Context, id int64, masterEpoch int32, set []int64,
	setEpoch int32) error {
	s.role.Lock()
	defer s.role.Unlock()
	if err := s.current(masterEpoch); err != nil {
		return err
	}
	if s.o.Log.Following() {
		return s.leadFirst(ctx, id, masterEpoch, set, setEpoch)
	}
	s.mu.Lock()
	same := s.masters == masterEpoch
	s.mu.Unlock()
	if same {
		s.SetSyncStateSet(set, setEpoch)
		return nil
	}
	end, err := s.o.Log.RecordStart(s.o.Log.MaxPhyOffset()) // write buffers may be in the middle of a record
	if err == nil {
		err = s.beginEpoch(masterEpoch, end)
	}
	if err != nil {
		return err
	}
	s.lead(id, masterEpoch, set, setEpoch, false, 0)
	s.o.Slog.Info("master again", "masterEpoch", masterEpoch, "syncStateSet", set, "syncStateSetEpoch", setEpoch)
	return nil
}

// current refuses what is over.
func (s *AutoSwitchHAService) current(masterEpoch int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errServiceClosed
	}
	if last := max(s.o.Epochs.Last(), s.masters); masterEpoch < last {
		return fmt.Errorf("%w: %d, the last is %d", ErrOldEpoch, masterEpoch, last)
	}
	return nil
}

// beginEpoch labels what is written from p on. What is labelled with this epoch already was never anybody's but ours.
func (s *AutoSwitchHAService) beginEpoch(masterEpoch int32, p store.PhyOffset) error {
	if s.o.Epochs.Last() == masterEpoch {
		return nil
	}
	return s.o.Epochs.Append(masterEpoch, p)
}

// leadFirst makes a slave the master.
func (s *AutoSwitchHAService) leadFirst(ctx context.Context, id int64, masterEpoch int32, set []int64,
	setEpoch int32) error {
	began := s.o.Clock.Millis()
	s.mu.Lock()
	client := s.client
	s.client = nil
	s.mu.Unlock()
	if client != nil {
		client.Close()
	}
	end, err := s.o.Log.CutTail()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.shown = -1 // publish says it anew
	s.mu.Unlock()
	if s.showsAll(id, set) {
		s.o.Log.ConfirmTo(end)
	}
	if err := s.dispatched(ctx); err != nil {
		return err
	}
	if err := s.o.Epochs.TruncateSuffix(end + 1); err != nil {
		return err
	}
	if err := s.beginEpoch(masterEpoch, end); err != nil {
		return err
	}
	s.lead(id, masterEpoch, set, setEpoch, true, end)
	if err := s.o.Log.Lead(); err != nil {
		s.leave()
		return err
	}
	s.o.Slog.Info("slave becomes master", "masterEpoch", masterEpoch, "phyOffset", end, "syncStateSet", set,
		"syncStateSetEpoch", setEpoch, "millis", s.o.Clock.Millis()-began)
	return nil
}

// showsAll tells that a master with this set shows what nobody else has.
func (s *AutoSwitchHAService) showsAll(id int64, set []int64) bool {
	live := s.o.Live()
	alone := !slices.ContainsFunc(set, func(other int64) bool { return other != id })
	return alone || !live.AllAckInSyncStateSet && live.Majority <= 1
}

// dispatched waits until all that may be shown has its queue entries.
func (s *AutoSwitchHAService) dispatched(ctx context.Context) error {
	if s.o.Log.DispatchBehindBytes() == 0 {
		return nil
	}
	tick := s.o.Clock.NewTicker(dispatchPoll)
	defer tick.Stop()
	for s.o.Log.DispatchBehindBytes() > 0 {
		select {
		case <-tick.C():
		case <-s.stop:
			return errServiceClosed
		case <-ctx.Done():
			return fmt.Errorf("ha: %d bytes of the log have no queue entries yet: %w", s.o.Log.DispatchBehindBytes(), ctx.Err())
		}
	}
	return nil
}

// lead begins to count copies; first: this replica was no master before, its log ends at end.
func (s *AutoSwitchHAService) lead(id int64, masterEpoch int32, set []int64, setEpoch int32, first bool,
	end store.PhyOffset) {
	s.mu.Lock()
	confirmed := min(max(store.PhyOffset(s.confirm.Load()), s.o.Log.DispatchedWhere()), s.o.Log.MaxPhyOffset())
	s.id, s.masters = id, masterEpoch
	if first {
		s.ledFrom = end
		s.group = newGroupTransferService(s.o.Clock, s.confirmed)
	}
	s.set.Lead(id, set, setEpoch, confirmed, s.o.Clock.Millis())
	s.publish()
	group := s.group
	s.mu.Unlock()
	group.advance()
	s.lookSoon()
}

// BecomeSlave makes this replica a slave, of a master that SetMaster names. The store takes no messages any more; puts that
// wait for copies are answered FLUSH_SLAVE_TIMEOUT: nobody knows whether they stay.
func (s *AutoSwitchHAService) BecomeSlave(_ context.Context, id int64, masterEpoch int32) error {
	s.role.Lock()
	defer s.role.Unlock()
	if err := s.current(masterEpoch); err != nil {
		return err
	}
	if !s.o.Log.Following() {
		s.o.Log.Follow()
		s.leave()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	anew := masterEpoch != s.masters
	s.masters = masterEpoch
	s.id = id
	if s.client == nil {
		s.client = startSwitchClient(&s.o, id, s.address, s.follows)
	} else {
		s.client.setMaster(id, s.address, anew)
	}
	s.o.Slog.Info("slave", "masterEpoch", masterEpoch, "end", s.o.Log.MaxPhyOffset(), "remote", s.address)
	return nil
}

// leave ends the time as master.
func (s *AutoSwitchHAService) leave() {
	s.mu.Lock()
	end := s.o.Log.MaxPhyOffset()
	s.set.Confirmed(end)
	s.publish()
	s.set.Leave()
	if s.shown == noEnd { // what comes from here on others confirm
		s.shown = end
		s.o.Log.ConfirmTo(end)
	}
	s.inSync.Store(0)
	group, links := s.group, s.links.list()
	s.group = nil
	s.mu.Unlock()
	if group != nil {
		group.close()
	}
	for _, c := range links {
		c.close(errNewRole)
	}
}

// follows is told by a slave's master what is confirmed.
func (s *AutoSwitchHAService) follows(confirmed store.PhyOffset) {
	s.confirm.Store(int64(confirmed))
	s.o.Log.ConfirmTo(confirmed)
}

// SetMaster says where the master's HA port is, "" = nowhere for now.
func (s *AutoSwitchHAService) SetMaster(haAddr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = haAddr
	if s.client != nil {
		s.client.setMaster(s.id, haAddr, false)
	}
}

// SetSyncStateSet is the controller's word: an answer to AlterSyncStateSet, or to a question. What is older than the last
// one has no effect.
func (s *AutoSwitchHAService) SetSyncStateSet(set []int64, setEpoch int32) {
	s.mu.Lock()
	s.set.Word(set, setEpoch)
	s.publish()
	group := s.group
	s.mu.Unlock()
	if group != nil {
		group.advance()
	}
	s.lookSoon()
}

// AlterRefused says that the controller's leader has refused the last AlterSyncStateSet for good, though it knows the epochs
// of the request. It is not for a request that was sent twice, nor for FENCED_SYNC_STATE_SET_EPOCH: that may be the answer
// to one whose first copy was carried out; then the set has to be asked for, and SetSyncStateSet told.
func (s *AutoSwitchHAService) AlterRefused() {
	s.mu.Lock()
	s.set.Refused(s.o.Clock.Millis())
	s.publish()
	group := s.group
	s.mu.Unlock()
	if group != nil {
		group.advance()
	}
}

// publish says what is confirmed. The caller holds mu, and calls the group's advance when it has released it.
func (s *AutoSwitchHAService) publish() {
	if !s.set.Leading() {
		return
	}
	s.inSync.Store(int32(s.set.InSync()))
	live, end := s.o.Live(), s.o.Log.MaxPhyOffset()
	bound := noEnd
	switch {
	case s.set.Alone():
		s.set.Confirmed(end)
	case live.AllAckInSyncStateSet:
		bound = s.set.Confirmed(end)
	case live.Majority > 1:
		bound = max(s.set.Copies(live.Majority/2), store.PhyOffset(s.confirm.Load()))
	}
	if bound == noEnd {
		s.confirm.Store(max(int64(end), s.confirm.Load()))
	} else {
		s.confirm.Store(int64(bound))
	}
	if bound != s.shown {
		s.shown = bound
		s.o.Log.ConfirmTo(bound)
	}
}

// keepSet looks after the SyncStateSet and forgets epochs whose files have expired.
func (s *AutoSwitchHAService) keepSet() {
	tick := s.o.Clock.NewTicker(setInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
		case <-s.look:
		case <-s.stop:
			return
		}
		s.lookNow()
		if err := s.o.Epochs.TruncatePrefix(s.o.Log.MinPhyOffset()); err != nil {
			s.o.Slog.Error("epochs that have expired are kept", "err", err)
		}
	}
}

func (s *AutoSwitchHAService) lookSoon() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// lookNow asks for a change of the SyncStateSet where it is due.
func (s *AutoSwitchHAService) lookNow() {
	s.mu.Lock()
	ask := s.set.Tick(s.o.Log.MaxPhyOffset(), s.o.Clock.Millis(), s.o.Live().MaxTimeSlaveNotCatchup.Milliseconds())
	s.publish()
	group := s.group
	local, setEpoch := s.set.Set()
	s.mu.Unlock()
	if group != nil {
		group.advance()
	}
	if ask != nil {
		s.o.Slog.Info("another SyncStateSet is asked for", "from", local, "to", ask, "syncStateSetEpoch", setEpoch)
		s.o.AlterSyncStateSet(ask)
	}
}

// Close ends all connections and answers who waits. It may be called without Start.
func (s *AutoSwitchHAService) Close() error {
	s.role.Lock()
	defer s.role.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	client := s.client
	s.client = nil
	group, links := s.group, s.links.list()
	s.mu.Unlock()
	close(s.stop)
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	if client != nil {
		client.Close()
	}
	for _, c := range links {
		c.close(errServiceClosed)
	}
	s.done.Wait()
	if group != nil {
		group.close()
	}
	if err != nil {
		return fmt.Errorf("ha: %w", err)
	}
	return nil
}
