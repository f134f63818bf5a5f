package timer

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// Store is what the service needs of a message store.
type Store interface {
	QueueEntries(topic string, queueID int32, from codec.QueueOffset, count int) []store.QueueEntry
	ReadRecord(p codec.PhyOffset, buf []byte) ([]byte, error)
	PeekRecord(p codec.PhyOffset, buf []byte) ([]byte, bool)
	Append(m *codec.Message) store.PutResult
	Durable(end codec.PhyOffset, timeout time.Duration, done func(store.PutStatus)) bool
	FlushedWhere() codec.PhyOffset
	MinPhyOffset() codec.PhyOffset
	MaxPhyOffset() codec.PhyOffset
	MinOffset(topic string, queueID int32) codec.QueueOffset
	MaxOffset(topic string, queueID int32) codec.QueueOffset
}

// Delivery is a message that left the wheel.
type Delivery struct {
	Topic      string // where it went: its real topic, or the timer topic if it rolled on
	QueueID    int32
	SizeBytes  int   // of its record
	LateMillis int64 // how long after its slot was over; of one that rolled 0
	Rolled     bool
}

// Live are the settings that may change while the service runs (Java's keys timer…).
type Live struct {
	MaxDelay            time.Duration // timerMaxDelaySec
	CongestNumEachSlot  int           // timerCongestNumEachSlot
	StopEnqueue         bool          // timerStopEnqueue: leave new messages in their topic
	StopDequeue         bool          // timerStopDequeue: deliver nothing
	SkipUnknownError    bool          // timerSkipUnknownError: drop what fails for a reason nobody knows
	ProgressLogInterval time.Duration // timerProgressLogIntervalMs
}

// Options of the service. RootDir holds timerwheel and timerlog, RootDir/config the two small files.
type Options struct {
	RootDir                 string
	FS                      vfs.FS
	Store                   Store
	MappedFileSizeCommitLog int64         // bytes of a CommitLog file
	MappedFileSizeTimerLog  int64         // bytes, 100 MiB
	Precision               time.Duration // timerPrecisionMs, 1 s
	RollWindowSlot          int           // timerRollWindowSlot, 172800
	FlushInterval           time.Duration // timerFlushIntervalMs, 1 s
	GetMessageThreadNum     int           // timerGetMessageThreadNum: who reads ahead when messages are not in memory
	Warm                    bool          // timerWarmEnable: read messages ahead of their time
	Live                    func() Live   // nil = Java's defaults
	Clock                   clock.Clock
	Log                     *slog.Logger
	// Delivered counts; it is called by the service's goroutine. nil = nobody counts.
	Delivered func(Delivery)

	private struct {
		slots int64 // of the wheel, for tests: a multiple of 256
	}
}

// DefaultLive are Java 5.3.3's.
func DefaultLive() Live {
	return Live{MaxDelay: 72 * time.Hour, CongestNumEachSlot: 1<<31 - 1, ProgressLogInterval: 10 * time.Second}
}

func (o *Options) ensureDefaults() {
	if o.Live == nil {
		live := DefaultLive()
		o.Live = func() Live { return live }
	}
	if o.Delivered == nil {
		o.Delivered = func(Delivery) {}
	}
	if o.Precision < time.Millisecond {
		o.Precision = time.Second
	}
	if o.FlushInterval <= 0 {
		o.FlushInterval = time.Second
	}
	if o.MappedFileSizeTimerLog < unitBytes+blankBytes {
		o.MappedFileSizeTimerLog = 100 << 20
	}
	if o.private.slots == 0 {
		o.private.slots = wheelSlots
	}
	if most := int(o.private.slots/2) - blankSlots; o.RollWindowSlot < 2 || o.RollWindowSlot > most { // as Java corrects it
		o.RollWindowSlot = most
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Limits of the work in one turn: the two sides take turns, so neither waits long for the other.
const (
	enqueueBatch = 256
	dequeueBatch = 256
	// retryDelay is the pause after something that may get better: a full disk, an unreadable file.
	retryDelay = 100 * time.Millisecond
	// complainInterval is the least distance of two log lines about the same trouble.
	complainInterval = 30 * time.Second
	// keepOverdue is how long recalls that came too late to their slot are remembered.
	keepOverdue = time.Minute
	// idleSleep is how long the service sleeps when nothing waits; an arrival ends it.
	idleSleep = time.Hour
	// maxKeptBuffer bounds the record buffer that is kept for the next message.
	maxKeptBuffer = 256 << 10
)

// TimerMessageStore is the service. Per message on its way: two records read, one unit of 52 bytes written with those
// of its batch, one read with those of its window, one record appended; no allocation but for small numbers as text.
type TimerMessageStore struct {
	o         Options
	precision int64
	window    int64 // ms ahead from which on a message rolls
	wake      chan struct{}
	stop      chan struct{}
	running   sync.WaitGroup
	closed    sync.Once
	loaded    bool
	started   bool  // guarded by mu
	followed  *lost // what another broker has delivered meanwhile, see Follow; guarded by mu

	// mu guards what follows, up to the goroutine's own.
	mu          sync.Mutex
	wheel       *wheel
	log         *timerLog
	metrics     Metrics
	counted     bool              // the file of the counts was there
	readTime    int64             // ms: the slot that is delivered next
	writeTime   int64             // ms: slots before it are due
	queueOffset codec.QueueOffset // of the next message to take in
	late        []lateMessage     // taken in when they were due already; not delivered yet
	end         codec.PhyOffset   // what has to be flushed before the state may be written
	dirty       bool              // the files are behind
	enqueued    rate
	dequeued    rate
	since       codec.PhyOffset // where deliveries began that readTime and late do not tell; -1 none
	slotOpen    bool            // some of the messages of the slot at readTime have been delivered
	active      bool            // begin was called and rest was not
	written     Checkpoint      // what the file says; written under cpMu too
	wroteMark   mark

	changed      chan struct{} // tells flushLoop that dirty was set
	flushMu      sync.Mutex    // one writes files at a time; held across I/O, as is cpMu
	cpMu         sync.Mutex    // the file of the checkpoint
	broken       bool          // a sync failed: no checkpoint is written any more
	savedMetrics time.Time     // when the counts were written
	cf           checkpointFile
	wf           wheelFile

	lateMillis atomic.Int64
	worstLate  atomic.Int64

	// The goroutine's own.
	cur        *slotRun
	marked     bool // begin has nothing to do
	units      reader
	buf        []byte
	retryAt    int64
	complained int64
	known      map[codec.PhyOffset]struct{} // have a unit behind the checkpoint
	done       map[string]int               // delivered after the checkpoint
	doneUntil  int64                        // … and due before
	again      lost
	// lateRecalls are the keys of the recalls in late; overdue those of recalls that met nothing, or roll on, although their
	// slot is long over, after a stop, with the time at which that was seen.
	lateRecalls map[string]bool
	overdue     map[string]int64
	// Scratch.
	counts    []topicCount
	lastTopic string
	out       codec.Message
	props     []byte
	batch     []byte
	overlay   map[int64]slot
	progress  int64
}

// lost is what is taken from the timer topic once more because the TimerLog has lost it.
type lost struct {
	until  codec.QueueOffset // messages before it
	before int64             // … are not needed if their slot was before this time (ms)
}

// lateMessage is one that needs no slot any more.
type lateMessage struct {
	queueOffset codec.QueueOffset
	phy         codec.PhyOffset
	due         int64
}

// New makes the service; Load and Start follow.
func New(o Options) *TimerMessageStore {
	o.ensureDefaults()
	s := &TimerMessageStore{o: o, precision: o.Precision.Milliseconds(), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), changed: make(chan struct{}, 1), overlay: map[int64]slot{}}
	s.window = int64(o.RollWindowSlot) * s.precision
	s.cf = checkpointFile{fs: o.FS, name: path.Join(o.RootDir, "config", "timercheck")}
	s.wf = wheelFile{fs: o.FS, name: path.Join(o.RootDir, "timerwheel"), size: o.private.slots * slotBytes}
	return s
}

func (s *TimerMessageStore) metricsName() string {
	return path.Join(s.o.RootDir, "config", "timermetrics")
}

// Start recovers what Load read and begins to work. The message store has been started.
func (s *TimerMessageStore) Start() error {
	if !s.loaded {
		return errors.New("timer: BUG: Start without Load")
	}
	if err := s.recover(); err != nil {
		return err
	}
	s.mu.Lock()
	s.started = true
	s.mu.Unlock()
	loops := []func(){s.run, s.flushLoop}
	if s.o.Warm {
		loops = append(loops, s.warmLoop)
	}
	for _, loop := range loops {
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			loop()
		}()
	}
	return nil
}

// Arrived is told by the reput service that a message came to the timer topic.
func (s *TimerMessageStore) Arrived() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *TimerMessageStore) floor(t int64) int64 { return t / s.precision * s.precision }

// run is the service's goroutine.
func (s *TimerMessageStore) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.turn())
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// turn works until there is nothing to do and returns for how long.
func (s *TimerMessageStore) turn() time.Duration {
	for {
		select {
		case <-s.stop:
			return 0
		default:
		}
		now := s.o.Clock.Millis()
		if s.retryAt > 0 {
			if wait := s.retryAt - now; wait > 0 && wait <= retryDelay.Milliseconds() {
				return time.Duration(wait) * time.Millisecond
			}
			s.retryAt = 0
		}
		s.takeFollowed()
		s.setBack(s.floor(now))
		live := s.o.Live()
		more, err := s.enqueue(&live)
		if err == nil {
			// What was stored before a slot is over belongs to it, recalls above all. A backlog may hold it up for
			// a quarter of a step.
			if more && s.cur == nil && len(s.late) == 0 && now < s.readAt()+s.precision*5/4 {
				continue
			}
			var busy bool
			busy, err = s.dequeue(&live, s.floor(now))
			more = more || busy
		}
		if err != nil {
			s.complain(now, err)
			s.retryAt = now + retryDelay.Milliseconds()
			continue
		}
		s.logProgress(now, live.ProgressLogInterval)
		if !more {
			s.forgetOverdue(now)
			return s.idleFor(&live)
		}
	}
}

// setBack follows a clock that was set back: slots from now on are not due any more. Those that have been delivered are
// empty, so nothing comes twice.
func (s *TimerMessageStore) setBack(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.writeTime {
		return
	}
	s.writeTime = now
	if s.cur == nil && s.readTime > now {
		s.readTime = now
	}
}

func (s *TimerMessageStore) complain(now int64, err error) {
	if now-s.complained >= complainInterval.Milliseconds() || now < s.complained {
		s.complained = now
		s.o.Log.Error("timer messages wait, will be tried again", "error", err)
	}
}

func (s *TimerMessageStore) readAt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readTime
}

// idleFor is the time to the next slot that is due.
func (s *TimerMessageStore) idleFor(live *Live) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest()
	now := s.o.Clock.Millis()
	if live.StopDequeue || live.StopEnqueue && s.behind() > 0 { // nobody tells when the settings change
		return retryDelay
	}
	if s.wheel.waiting <= 0 && len(s.wheel.dirty) == 0 && s.wheelEmpty() {
		return idleSleep
	}
	due := s.wheel.next(s.readTime, s.readTime+s.wheel.size*s.precision) + s.precision
	return min(max(time.Duration(due-now)*time.Millisecond, 0), idleSleep)
}

func (s *TimerMessageStore) wheelEmpty() bool {
	for _, pg := range s.wheel.pages {
		if pg != nil && pg.used > 0 {
			return false
		}
	}
	return true
}

// behind is how many messages of the timer topic have not been taken in.
func (s *TimerMessageStore) behind() int64 {
	return max(int64(s.o.Store.MaxOffset(codec.TimerTopic, 0)-s.queueOffset), 0)
}

func (s *TimerMessageStore) logProgress(now int64, interval time.Duration) {
	if now-s.progress < interval.Milliseconds() {
		return
	}
	s.progress = now
	st := s.Status()
	if st.Waiting == 0 && st.OffsetBehind == 0 {
		return
	}
	s.o.Log.Debug("timer progress", "waiting", st.Waiting, "readBehindMillis", st.ReadBehindMillis,
		"offsetBehind", st.OffsetBehind, "queueOffset", int64(st.QueueOffset), "lateMillis", st.LateMillis)
}

// Close ends the goroutines; Save follows once the store is closed. It may be called without Start, and twice.
func (s *TimerMessageStore) Close() {
	s.closed.Do(func() {
		close(s.stop)
		s.running.Wait()
	})
}

// fail wraps an error of a record.
func fail(what string, p codec.PhyOffset, err error) error {
	return fmt.Errorf("timer: %s at %d: %w", what, p, err)
}
