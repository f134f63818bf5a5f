package pop

import (
	"errors"
	"log/slog"
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"skylark/broker/offset"
	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// Store is what POP needs of a message store.
type Store interface {
	Get(req *store.GetRequest, res *store.GetResult)
	Append(m *codec.Message) store.PutResult
	QueueEntries(topic string, queueID int32, from codec.QueueOffset, count int) []store.QueueEntry
	ReadRecord(p codec.PhyOffset, buf []byte) ([]byte, error)
	MinOffset(topic string, queueID int32) codec.QueueOffset
	MaxOffset(topic string, queueID int32) codec.QueueOffset
	CheckInMemory(topic string, queueID int32, q codec.QueueOffset) bool
	MaxPhyOffset() codec.PhyOffset
}

// Settings are the keys of the broker's configuration that may change at run time; for their meaning see
// config.BrokerConfig.
type Settings struct {
	RetryV2, ReadRetryV1   bool
	FromRetryPercent       int
	InitByMemory           bool
	ReturnRetryTopic       bool
	InflightThreshold      int64 // 0 = none
	Buffer, BatchAck       bool
	BufferStay, BufferHead time.Duration // popCkStayBufferTime, popCkStayBufferTimeOut
	BufferMax              int           // check points in memory only
	OffsetQueueMax         int           // pops of one queue whose offset waits
	PollingSize            int           // waiting requests of one group and queue
	MaxPolling             int           // … in all
	MaxOpen                int           // open check points
	ReviveInterval         time.Duration
	SkipRePutMax           bool
	Log                    bool // enablePopLog: every step is logged
}

// Options of the service. All are set.
type Options struct {
	Store     Store
	Offsets   *offset.Manager
	FS        vfs.FS
	OrderFile string // config/consumerOrderInfo.json
	// ProgressFile repeats the offsets of POP for the case of a crash, see progress.go; OffsetFile is consumerOffset.json.
	ProgressFile, OffsetFile string
	Cluster                  string
	BrokerName               string
	Clock                    clock.Clock
	Log                      *slog.Logger
	// ReviveQueues is reviveQueueNum.
	ReviveQueues int
	StoreHost    func() netip.AddrPort
	Settings     func() Settings
	// Timed sends a message by way of the timer.
	Timed func(m *codec.Message) (store.PutStatus, error)
	// TimerIdle tells that everything due until now is out of the timer and can be consumed.
	TimerIdle func() bool
	// Follower tells that the log is a copy of a master's now: then nobody pops here, and nothing is returned.
	Follower func() bool
	// Acting tells that a follower acts as master and gives messages to other brokers, see acting.go. nil = never.
	Acting func() bool
	// Elsewhere puts a record of the revive topic on another broker: the same one, and the same queue, for what has the same
	// name. nil with Acting.
	Elsewhere func(name RecordName, m *codec.Message) error
	// Fetch reads a message of another broker; ErrGone: there is none at that place. nil: it cannot be done.
	Fetch func(broker, topic string, queueID int32, at codec.QueueOffset) ([]byte, error)
	// TopicQueues are the queues of a topic that may be read, 0 when there is no such topic.
	TopicQueues func(topic string) int32
	// RetryLimit is how often a message is returned to a group; false: there is no such group.
	RetryLimit func(group string) (int32, bool)
	// MakeTopic makes a retry or dead letter topic with one queue, unless there is one.
	MakeTopic func(name string) error
	// Stored counts a message that was put.
	Stored func(m *codec.Message, put *store.PutResult)
}

// Service pops, and keeps what is popped.
type Service struct {
	o           Options
	reviveTopic string
	started     atomic.Int64 // ms, when it began to serve; receipts of before are not in the ledger
	pops        atomic.Uint32
	lastPut     atomic.Int64 // end of the last record
	ledger      ledger
	buffered    atomic.Int64
	order       orderTable
	polling     Polling
	revive      ReviveService
	acting      atomic.Bool
	progress    progress
	restored    []progressEntry // by Load, until Start
	// returnedBefore are messages of check points that the revive offset had not passed when a broker was killed: by Load,
	// then the revive service's.
	returnedBefore map[checkPointAt]uint32
	ring           []returnedMessage // what they were read from, until Start

	mu     sync.Mutex
	queues map[queueKey]*queue
	active map[*queue]struct{} // have offsets that wait
	buffer []*open             // check points in memory only
	away   []awayAck           // acks for other brokers
}

// New makes the service; Load and Start follow.
func New(o Options) *Service {
	s := &Service{o: o, reviveTopic: codec.ReviveTopic(o.Cluster),
		queues: map[queueKey]*queue{}, active: map[*queue]struct{}{}}
	s.progress = progress{fs: o.FS, path: o.ProgressFile, log: o.Log}
	s.ledger.table = map[key]*open{}
	s.order.init(s)
	s.polling.init(o.Clock, o.Settings)
	s.revive.init(s)
	return s
}

// Load reads the order information, and the offsets that a crash has kept out of consumerOffset.json.
func (s *Service) Load() error { return errors.Join(s.order.load(), s.loadProgress()) }

// loadProgress takes over what a broker that was killed has left.
func (s *Service) loadProgress() error {
	s.lastPut.Store(int64(s.o.Store.MaxPhyOffset()))
	entries, ring, err := readProgress(s.o.FS, s.o.ProgressFile, s.o.OffsetFile)
	if errors.Is(err, errSuperseded) {
		s.o.Log.Info("offsets of an earlier start left out", "because", err)
		return nil
	}
	if err != nil {
		s.o.Log.Warn("offsets of before a crash left out, messages may come again", "error", err)
		return nil
	}
	for _, e := range entries {
		now, ok := s.o.Offsets.Query(e.group, e.topic, e.queueID)
		if e.log > s.lastPut.Load() || ok && int64(now) >= e.next {
			continue
		}
		s.commit(&queue{queueKey: e.queueKey}, codec.QueueOffset(e.next))
		s.restored = append(s.restored, e)
	}
	s.returnedBefore = map[checkPointAt]uint32{}
	for _, m := range ring {
		if ck, message := m.at(); m.log <= s.lastPut.Load() && !s.passed(ck) {
			s.returnedBefore[ck] |= 1 << message
			s.ring = append(s.ring, m)
		}
	}
	if len(s.restored)+len(s.ring) > 0 {
		s.o.Log.Info("offsets of before a crash taken over", "queues", len(s.restored), "of", len(entries),
			"returnedMessages", len(s.ring))
	}
	return nil
}

// passed tells that the revive offset has passed a check point.
func (s *Service) passed(ck checkPointAt) bool {
	now, ok := s.o.Offsets.Query(codec.ReviveGroup, s.reviveTopic, ck.queueID)
	return ok && ck.offset <= now
}

// EndProgress drops what a crash would need, when consumerOffset.json has been written after Save.
func (s *Service) EndProgress(saved bool) error {
	for _, m := range s.progress.ring() {
		if ck, _ := m.at(); !s.passed(ck) {
			saved = false // the next start has to know
			break
		}
	}
	if !saved {
		s.progress.touch(s.o.Clock.Millis())
	}
	return s.progress.close(saved)
}

// Moved tells that an operator has set a group's offset.
func (s *Service) Moved(topic, group string, queueID int32, at codec.QueueOffset) {
	s.progress.move(queueKey{topic, group, queueID}, at, s.lastPut.Load())
}

// Start begins to return messages. A broker that was a slave until now has another one's log and offsets.
func (s *Service) Start(wasSlave bool) {
	if wasSlave {
		s.restored, s.ring, s.returnedBefore = nil, nil, nil
		s.lastPut.Store(int64(s.o.Store.MaxPhyOffset()))
	}
	s.started.Store(s.o.Clock.Millis())
	s.progress.open(s.o.Clock.Millis())
	for _, e := range s.restored { // this run may be killed before they are in consumerOffset.json
		s.progress.set(e.queueKey, codec.QueueOffset(e.next), e.log)
	}
	for _, m := range s.ring {
		s.progress.put(m)
	}
	s.progress.discardOld()
	s.restored, s.ring = nil, nil
	s.order.start()
	s.revive.start()
}

// resign forgets what it knows: another broker is the master now.
func (s *Service) resign() {
	s.mu.Lock()
	clear(s.queues)
	clear(s.active)
	s.buffer, s.away = nil, nil
	s.mu.Unlock()
	s.buffered.Store(0)
	s.ledger.mu.Lock()
	clear(s.ledger.table)
	clear(s.ledger.before)
	s.ledger.mu.Unlock()
	s.returnedBefore = nil
	s.progress.drop(func(_, _ string) bool { return true })
	for _, w := range s.polling.collect(func(*Waiter) bool { return true }) {
		w.Fire(false) // to be told where to go
	}
}

// takeOver begins anew, with the log and the offsets of the master of before.
func (s *Service) takeOver() {
	s.lastPut.Store(int64(s.o.Store.MaxPhyOffset()))
	s.started.Store(s.o.Clock.Millis())
	s.revive.begin()
}

// Close ends the revive service and answers all that wait. The records of buffered check points are written.
func (s *Service) Close() {
	s.polling.Close()
	s.revive.close()
	s.order.close()
	if !s.acting.Load() { // else what is in memory only is popped again
		s.flushBuffer(true)
	}
}

// Save moves the offsets over what the store has flushed, when the store is closed, and writes the order information.
func (s *Service) Save() error {
	s.advanceAll()
	return s.order.save()
}

// Polling are the requests that wait for messages.
func (s *Service) Polling() *Polling { return &s.polling }

// ReviveTopic is the name of the topic with check points and acks.
func (s *Service) ReviveTopic() string { return s.reviveTopic }

// Open is the number of check points whose messages are invisible.
func (s *Service) Open() int { return s.ledger.len() }

// trace logs a step of a group in a queue with enablePopLog.
func (s *Service) trace(step string, k queueKey, more ...any) {
	if s.o.Settings().Log {
		s.o.Log.Info(step, append([]any{"topic", k.topic, "group", k.group, "queueId", k.queueID}, more...)...)
	}
}

// queueKey names a group's view of a queue.
type queueKey struct {
	topic, group string
	queueID      int32
}

// queue is a group's position in a queue. mu is held while somebody pops.
type queue struct {
	queueKey
	mu       sync.Mutex
	next     codec.QueueOffset // behind what was popped, -1 = nothing was
	wait     []waiting         // pops whose offset is not committed yet, oldest first
	inflight atomic.Int64      // messages that are invisible
	used     atomic.Int64      // ms
}

// visible takes the messages of some bits out of those that are invisible. Not below none: what was deleted meanwhile is
// not counted any more.
func (q *queue) visible(messages uint32) {
	n := int64(bits.OnesCount32(messages))
	for {
		old := q.inflight.Load()
		if q.inflight.CompareAndSwap(old, max(old-n, 0)) {
			return
		}
	}
}

// waiting is a pop whose messages the group's offset has not passed.
type waiting struct {
	open *open // of a buffered check point: it waits until that is done or stored
	next codec.QueueOffset
}

// queue finds or makes the state of a queue.
func (s *Service) queue(topic, group string, queueID int32) *queue {
	k := queueKey{topic, group, queueID}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[k]
	if q == nil {
		q = &queue{queueKey: k, next: -1}
		s.queues[k] = q
	}
	q.used.Store(s.o.Clock.Millis())
	return q
}

// peekQueue is queue without making one.
func (s *Service) peekQueue(topic, group string, queueID int32) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[queueKey{topic, group, queueID}]
}

// later has the offset of a pop committed when it is time. Called with q.mu.
func (s *Service) later(q *queue, w waiting) {
	q.next = w.next
	q.wait = append(q.wait, w)
	s.mu.Lock()
	s.active[q] = struct{}{}
	s.mu.Unlock()
}

// advance commits the offset of the pops that are safe. Called with q.mu.
func (s *Service) advance(q *queue) {
	at, n := codec.QueueOffset(-1), 0
	for ; n < len(q.wait); n++ {
		w := &q.wait[n]
		if w.open != nil && !s.safe(w.open) {
			break
		}
		at = w.next
	}
	q.wait = append(q.wait[:0], q.wait[n:]...)
	if at < 0 || s.o.Offsets.HasReset(q.topic, q.group, q.queueID) {
		return
	}
	if now, ok := s.o.Offsets.Query(q.group, q.topic, q.queueID); ok && now >= at {
		return // somebody moved it on
	}
	s.commit(q, at)
}

// safe tells whether a check point is settled or written.
func (s *Service) safe(e *open) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return e.done() || !e.buffered
}

// LastPut is the end of what POP has put: before offsets that pass over it are written, the log has to be flushed up to
// there.
func (s *Service) LastPut() codec.PhyOffset { return codec.PhyOffset(s.lastPut.Load()) }

func (s *Service) commit(q *queue, at codec.QueueOffset) {
	if err := s.o.Offsets.Commit(netip.AddrPort{}, q.group, q.topic, q.queueID, at); err != nil {
		s.o.Log.Warn("consumer offset not taken", "group", q.group, "topic", q.topic, "error", err)
		return
	}
	s.progress.set(q.queueKey, at, s.lastPut.Load())
}

// Forget drops the positions and the order information of what was deleted, and has those who wait for it answered.
func (s *Service) Forget(match func(topic, group string) bool) {
	s.mu.Lock()
	var list []*queue
	for k, q := range s.queues {
		if match(k.topic, k.group) {
			list = append(list, q)
		}
	}
	s.mu.Unlock()
	for _, q := range list {
		q.mu.Lock()
		q.wait, q.next = nil, -1
		q.inflight.Store(0)
		q.mu.Unlock()
		s.order.clear(q.queueKey)
	}
	s.progress.drop(match)
	for _, w := range s.polling.collect(func(w *Waiter) bool { return match(w.Topic, w.Group) }) {
		w.Fire(false)
	}
}

// queueIdle is how long the state of a queue without anything in it is kept.
const queueIdle = 10 * time.Minute

// advanceAll commits what is safe in all queues.
func (s *Service) advanceAll() {
	s.mu.Lock()
	list := make([]*queue, 0, len(s.active))
	for q := range s.active {
		list = append(list, q)
	}
	s.mu.Unlock()
	for _, q := range list {
		q.mu.Lock()
		s.advance(q)
		if len(q.wait) == 0 {
			s.mu.Lock()
			delete(s.active, q)
			s.mu.Unlock()
		}
		q.mu.Unlock()
	}
}

// sweep forgets queues that nobody uses.
func (s *Service) sweep() {
	limit := s.o.Clock.Millis() - queueIdle.Milliseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, q := range s.queues {
		if q.used.Load() > limit || !q.mu.TryLock() {
			continue
		}
		if len(q.wait) == 0 && q.inflight.Load() <= 0 {
			if at, ok := s.o.Offsets.Query(k.group, k.topic, k.queueID); q.next < 0 || ok && at >= q.next {
				delete(s.queues, k)
			}
		}
		q.mu.Unlock()
	}
}
