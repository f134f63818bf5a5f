package ha

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"skylark/store"
)

// HAService is the master's side (Java DefaultHAService): it listens for slaves, pushes the log to them, and answers the
// puts that wait for copies. It is store.Replicas.
//
// What a put costs: without slaves one load of a nil function in the store; with slaves a look whether each sender sleeps;
// with a rule that waits, see GroupTransferService. A slow slave holds up nobody but those who wait for it.
type HAService struct {
	o        Options
	group    *GroupTransferService
	listener net.Listener // nil before Start

	links  connections[*HAConnection]
	mu     sync.Mutex
	closed bool
	done   sync.WaitGroup
	pushed atomic.Int64 // the largest offset ever confirmed (Java push2SlaveMaxOffset)
}

// NewHAService makes a service; Start begins to listen.
func NewHAService(o Options) *HAService {
	s := &HAService{o: o}
	s.links.log = o.Log
	s.group = newGroupTransferService(o.Clock, s.confirmed)
	return s
}

// Start accepts slaves; the listener belongs to the service from here on.
func (s *HAService) Start(l net.Listener) {
	s.listener = l
	s.done.Go(func() { acceptSlaves(l, s.o.Slog, s.add) })
}

// Addr is where slaves connect, nil before Start.
func (s *HAService) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// add serves one more connection.
func (s *HAService) add(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.links.list()); s.closed || n >= MaxSlaves {
		s.o.Slog.Warn("connection of a slave refused", "remote", conn.RemoteAddr(), "connections", n)
		_ = conn.Close()
		return
	}
	c := newHAConnection(s, conn)
	s.links.add(c)
	s.o.Slog.Info("slave connected", "remote", conn.RemoteAddr())
	s.done.Go(c.readReports)
	s.done.Go(c.push)
}

// remove forgets a connection that ended.
func (s *HAService) remove(c *HAConnection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links.remove(c)
}

// confirmed is up to where so many slaves have the log.
func (s *HAService) confirmed(slaves int) store.PhyOffset {
	links := s.links.list()
	if slaves <= 0 || slaves > len(links) {
		return -1
	}
	if slaves == 1 {
		best := store.PhyOffset(-1)
		for _, c := range links {
			best = max(best, store.PhyOffset(c.ack.Load()))
		}
		return best
	}
	var acks [MaxSlaves]store.PhyOffset
	for i, c := range links {
		acks[i] = store.PhyOffset(c.ack.Load())
	}
	slices.Sort(acks[:len(links)])
	return acks[len(links)-slaves]
}

// acked is called when a slave has more.
func (s *HAService) acked(offset store.PhyOffset) {
	for {
		old := s.pushed.Load()
		if int64(offset) <= old || s.pushed.CompareAndSwap(old, int64(offset)) {
			break
		}
	}
	s.group.advance()
}

// inSync is how many slaves are connected and not further behind end than MaxGapNotInSync.
func (s *HAService) inSync(end store.PhyOffset, live *Live) (n int) {
	for _, c := range s.links.list() {
		if ack := c.ack.Load(); ack >= 0 && int64(end)-ack < live.MaxGapNotInSync {
			n++
		}
	}
	return n
}

// InSyncReplicas is how many replicas, the master among them, are not further behind the log's end than
// MaxGapNotInSync (Java inSyncReplicasNums).
func (s *HAService) InSyncReplicas() int { return 1 + s.inSync(s.o.Log.MaxPhyOffset(), s.o.Live()) }

// needed is how many slaves a put waits for now.
func (s *HAService) needed(live *Live, end store.PhyOffset) int {
	switch live.Rule {
	case NoCopies:
		return 0
	case OneSlave:
		return 1
	}
	need := live.InSyncReplicas
	if live.AutoInSync {
		need = max(min(need, s.replicas(live, end)), live.MinInSyncReplicas)
	}
	return need - 1
}

// replicas is how many can be counted on: in sync, and alive for the name server.
func (s *HAService) replicas(live *Live, end store.PhyOffset) int {
	n := 1 + s.inSync(end, live)
	if live.AliveReplicas > 0 {
		n = min(n, live.AliveReplicas)
	}
	return n
}

// Admit implements store.Replicas.
func (s *HAService) Admit() store.PutStatus {
	live := s.o.Live()
	if !live.Refuse || live.Rule != InSyncReplicas {
		return store.PutOK
	}
	end := s.o.Log.MaxPhyOffset()
	if s.needed(live, end)+1 > s.replicas(live, end) {
		return store.InSyncReplicasNotEnough
	}
	return store.PutOK
}

// Copied implements store.Replicas. With too few slaves that are connected and in sync the answer is SlaveNotAvailable at
// once: waiting would not make it more likely. Java 5 waits for the whole slaveTimeout then.
func (s *HAService) Copied(end store.PhyOffset, done func(store.PutStatus)) bool {
	live := s.o.Live()
	need := s.needed(live, end)
	switch {
	case need <= 0 || s.confirmed(need) >= end:
		return true
	case s.inSync(end, live) < need:
		done(store.SlaveNotAvailable)
		return false
	}
	return s.group.wait(end, need, live.SlaveTimeout, done)
}

// Close ends all connections and answers who waits. It may be called without Start.
func (s *HAService) Close() error {
	s.mu.Lock()
	s.closed = true
	links := s.links.list()
	s.mu.Unlock()
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	for _, c := range links {
		c.close(errServiceClosed)
	}
	s.done.Wait()
	s.group.close()
	if err != nil {
		return fmt.Errorf("ha: %w", err)
	}
	return nil
}

var errServiceClosed = errors.New("ha: the service is closed")
