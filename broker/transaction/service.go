package transaction

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/store"
)

// TransactionalMessageService is Java's TransactionalMessageServiceImpl with its check and op batch services.
type TransactionalMessageService struct {
	o Options
	t transactions

	loaded  chan struct{} // closed when the table is complete
	early   []*transaction
	counts  metrics
	stats   counters
	givenUp givenUpList

	opWake chan struct{}
	stop   chan struct{}
	tasks  sync.WaitGroup
	began  bool
	closed sync.Once

	dirty    atomic.Bool // the progress may have changed
	snapshot *progress   // of saveProgress, the op goroutine's own; after Close its caller's
	saved    progress
	buf      []byte
	turns    atomic.Uint64 // round robin of the producers
}

// counters are what happened since the start.
type counters struct {
	prepared, committed, rolledBack, asked, resumed, givenUp atomic.Int64
}

// Stats are counts since the start of the broker, and what is open now.
type Stats struct {
	Prepared, Committed, RolledBack, Asked, Resumed, GivenUp int64

	Open         int   // transactions
	OldestMillis int64 // age of the oldest open one, 0 without any
	NoProducer   int   // open ones that wait for a producer of their group
}

// New makes the service; Load and Start follow.
func New(o Options) *TransactionalMessageService {
	if o.maxLag == 0 {
		o.maxLag = maxLag
	}
	s := &TransactionalMessageService{o: o, loaded: make(chan struct{}), opWake: make(chan struct{}, 1),
		stop: make(chan struct{})}
	s.t.init()
	s.counts.init(&s.o, s.wakeOps)
	return s
}

// Load reads config/transactionMetrics. The error is that of package persist.
func (s *TransactionalMessageService) Load() error { return s.counts.load() }

// Start begins to build the table and then to check. Half messages may be put at once; what ends them waits for the
// table.
func (s *TransactionalMessageService) Start() {
	s.began = true
	s.tasks.Add(2)
	go s.runChecks()
	go s.runOps()
}

// Full tells that MaxOpen transactions are open.
func (s *TransactionalMessageService) Full() bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.t.open+len(s.t.queued) >= MaxOpen
}

// Prepared enters a half message that was put. topic is its real one.
func (s *TransactionalMessageService) Prepared(m *codec.Message, topic string, put *store.PutResult) {
	h := parseHalf(m.Properties)
	s.t.mu.Lock()
	tx := s.t.newTransaction(&h, topic, put.QueueOffset, put.PhyOffset, m.BornTimestamp, put.StoreTimestamp)
	if s.isLoaded() {
		s.t.enter(tx)
	} else {
		s.early = append(s.early, tx)
	}
	s.t.mu.Unlock()
	s.stats.prepared.Add(1)
	s.counts.add(topic, 1)
}

func (s *TransactionalMessageService) isLoaded() bool {
	select {
	case <-s.loaded:
		return true
	default:
		return false
	}
}

// Close stops checks, writes the op messages that wait, and is called before the store is closed; Save follows. It may
// be called without Start, and twice.
func (s *TransactionalMessageService) Close() {
	s.closed.Do(func() {
		close(s.stop)
		s.tasks.Wait()
		if !s.began || !s.isLoaded() {
			return
		}
		for s.writeBatch(true) {
			continue
		}
		s.takeSnapshot()
	})
}

// Save writes the counts and hands the progress to the consumer offsets, when the store has been closed and everything
// is flushed.
func (s *TransactionalMessageService) Save() error {
	if s.snapshot != nil {
		if flushed := s.o.Store.FlushedWhere(); flushed < s.snapshot.end {
			return fmt.Errorf("transaction: progress not saved: it needs the log up to %d, %d is flushed", s.snapshot.end,
				flushed)
		}
		s.commitProgress()
	}
	if !s.isLoaded() {
		return nil // the floor is not known: it must not move past commits that were not searched for
	}
	return s.counts.save(s.currentFloor())
}

// Stats counts.
func (s *TransactionalMessageService) Stats() Stats {
	c := &s.stats
	out := Stats{Prepared: c.prepared.Load(), Committed: c.committed.Load(), RolledBack: c.rolledBack.Load(),
		Asked: c.asked.Load(), Resumed: c.resumed.Load(), GivenUp: c.givenUp.Load()}
	now := s.o.Clock.Millis()
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	out.Open = s.t.open
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if tx == nil || done(tx) {
			continue
		}
		out.OldestMillis = max(out.OldestMillis, now-tx.since)
		if tx.waiting == NoProducer {
			out.NoProducer++
		}
	}
	return out
}

// sleep waits, false when the service stops.
func (s *TransactionalMessageService) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-timer.C:
		return true
	}
}
