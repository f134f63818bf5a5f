package schedule

import (
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// Store is what the service needs of a message store.
type Store interface {
	QueueEntries(topic string, queueID int32, from codec.QueueOffset, count int) []store.QueueEntry
	ReadRecord(p codec.PhyOffset, buf []byte) ([]byte, error)
	Append(m *codec.Message) store.PutResult
	Durable(end codec.PhyOffset, timeout time.Duration, done func(store.PutStatus)) bool
	FlushedWhere() codec.PhyOffset
	Queues(topic string) []int32
	MinOffset(topic string, queueID int32) codec.QueueOffset
	MaxOffset(topic string, queueID int32) codec.QueueOffset
}

// Delivery is a delayed message that went to its real topic.
type Delivery struct {
	Topic      string
	QueueID    int32
	Level      int
	SizeBytes  int   // of its record
	LateMillis int64 // how long after it was due
}

// Options of the service.
type Options struct {
	Levels Levels
	Store  Store
	FS     vfs.FS
	// File is config/delayOffset.json.
	File string
	// FlushInterval is how often changed offsets are written (Java flushDelayOffsetInterval).
	FlushInterval time.Duration
	Clock         clock.Clock
	Log           *slog.Logger
	// Delivered counts; it is called by the service's goroutine.
	Delivered func(Delivery)
	// Paused tells that another broker delivers for now; asked every pausePoll. nil = never.
	Paused func() bool
}

// Limits of one turn of the service.
const (
	entriesPerRead = 64
	// retryDelay is the pause of a level whose message could not be put (Java DELAY_FOR_A_WHILE).
	retryDelay = 100 * time.Millisecond
	// complainInterval is the least distance of two log lines about the same level.
	complainInterval = 30 * time.Second
	// maxKeptBuffer bounds the record buffer that is kept for the next message.
	maxKeptBuffer = 256 << 10
)

// ScheduleMessageService delivers what is due.
type ScheduleMessageService struct {
	o      Options
	levels []level
	beyond map[int]int64 // offsets of levels that have neither a delay nor a queue
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	closed sync.Once
	began  bool
	dirty  atomic.Bool

	// The goroutine's own.
	pending *snapshot
	saved   time.Time
	buf     []byte

	versionMu sync.Mutex
	version   body.DataVersion
}

// level is the state of one delay level. offset and end are read by other goroutines.
type level struct {
	offset     atomic.Int64 // queue offset of the next message to deliver
	arrived    atomic.Bool  // something came since the level was found empty
	end        atomic.Int64 // physical offset that has to be flushed before offset may be written
	next       int64        // due time of the message at offset in ms, 0 = none known
	late       atomic.Int64 // ms that the last delivery was late
	worst      atomic.Int64 // … and the latest since the start
	complained int64        // ms, the last log line
	_          [8]byte      // the levels are updated by different goroutines
}

// New makes the service; Load and Start follow.
func New(o Options) *ScheduleMessageService {
	if o.Delivered == nil {
		o.Delivered = func(Delivery) {}
	}
	if o.FlushInterval <= 0 {
		o.FlushInterval = 10 * time.Second
	}
	return &ScheduleMessageService{o: o, levels: make([]level, o.Levels.Max()+1), beyond: map[int]int64{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Levels is the table in force.
func (s *ScheduleMessageService) Levels() Levels { return s.o.Levels }

// Rewrite turns a put with a delay level into one of the schedule topic: the level as it counts, without the
// request for a timer that a level replaces (Java transformDelayLevelMessage). The properties get a new
// array.
func (s *ScheduleMessageService) Rewrite(m *codec.Message, lv int) {
	lv = s.o.Levels.Clamp(lv)
	props := make([]byte, 0, len(m.Properties)+len(m.Topic)+48)
	props = codec.RemoveProperty(props, m.Properties, codec.PropRealTopic, codec.PropRealQueueID,
		codec.PropDelayTimeLevel, codec.PropTimerDeliverMs, codec.PropTimerDelaySec, codec.PropTimerDelayMs)
	props = codec.AppendProperty(props, codec.PropDelayTimeLevel, strconv.Itoa(lv))
	props = codec.AppendProperty(props, codec.PropRealTopic, m.Topic)
	props = codec.AppendProperty(props, codec.PropRealQueueID, strconv.Itoa(int(m.QueueID)))
	m.Properties, m.Topic, m.QueueID = props, codec.ScheduleTopic, int32(lv-1)
}

// Start begins to deliver, also what waits in levels that the table does not have any more. Offsets outside a queue are
// corrected first: one below its begin to that, one beyond its end to the first message that may not have been delivered
// yet.
func (s *ScheduleMessageService) Start() {
	s.addLevels()
	for lv := 1; lv < len(s.levels); lv++ {
		l := &s.levels[lv]
		lo, hi := s.bounds(lv)
		if at := codec.QueueOffset(l.offset.Load()); at < lo || at > hi {
			to := lo
			if at > hi {
				to = s.firstDueAfter(lv, lo, hi, s.lastSave())
			}
			s.o.Log.Warn("delay offset is outside its queue", "level", lv, "offset", int64(at), "min", int64(lo),
				"max", int64(hi), "corrected", int64(to))
			s.setOffset(l, int64(to))
		}
		l.arrived.Store(true)
	}
	s.saved = s.o.Clock.Now()
	s.began = true
	go s.run()
}

// addLevels makes a level for each queue that has messages beyond the table: the table was longer once.
func (s *ScheduleMessageService) addLevels() {
	n := len(s.levels)
	for _, queueID := range s.o.Store.Queues(codec.ScheduleTopic) {
		if lv := int(queueID) + 1; lv <= MaxLevels {
			n = max(n, lv+1)
		}
	}
	if n == len(s.levels) {
		return
	}
	levels := make([]level, n)
	for lv := range levels {
		switch at, ok := s.beyond[lv]; {
		case lv < len(s.levels):
			levels[lv].offset.Store(s.levels[lv].offset.Load())
		case ok:
			levels[lv].offset.Store(at)
			delete(s.beyond, lv)
		}
	}
	s.o.Log.Warn("messages wait in levels that messageDelayLevel does not have, they are delivered at their time", "levels",
		s.o.Levels.Max(), "queues", n-1)
	s.levels = levels
}

// lastSave is when the offsets were written, or now: what was due before has been delivered.
func (s *ScheduleMessageService) lastSave() int64 {
	now := s.o.Clock.Millis()
	if at := s.version.Timestamp; at > 0 && at < now {
		return at
	}
	return now
}

// firstDueAfter is the first message of a level that is due at t or later. They are in the order of their times.
func (s *ScheduleMessageService) firstDueAfter(lv int, lo, hi codec.QueueOffset, t int64) codec.QueueOffset {
	return lo + codec.QueueOffset(sort.Search(int(hi-lo), func(i int) bool {
		e := s.o.Store.QueueEntries(codec.ScheduleTopic, int32(lv-1), lo+codec.QueueOffset(i), 1)
		return len(e) == 0 || e[0].TagsCode >= t
	}))
}

func (s *ScheduleMessageService) bounds(lv int) (lo, hi codec.QueueOffset) {
	return s.o.Store.MinOffset(codec.ScheduleTopic, int32(lv-1)),
		s.o.Store.MaxOffset(codec.ScheduleTopic, int32(lv-1))
}

func (s *ScheduleMessageService) setOffset(l *level, at int64) {
	l.offset.Store(at)
	s.dirty.Store(true)
}

// Arrived is told by the reput service that a message came to a queue of the schedule topic.
func (s *ScheduleMessageService) Arrived(queueID int32) {
	lv := int(queueID) + 1
	if lv < 1 || lv >= len(s.levels) || s.levels[lv].arrived.Swap(true) {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// LateMillis is how late the last delivery of a level was, and the latest one since the start.
func (s *ScheduleMessageService) LateMillis(lv int) (last, worst int64) {
	if lv < 1 || lv >= len(s.levels) {
		return 0, 0
	}
	return s.levels[lv].late.Load(), s.levels[lv].worst.Load()
}

func (s *ScheduleMessageService) run() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sleep := s.deliverDue()
		sleep = min(sleep, s.saveSome())
		timer.Reset(sleep)
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// pausePoll is how often a paused service asks whether it still is.
const pausePoll = time.Second

// pause forgets what is known of the levels: their offsets are somebody else's for now.
func (s *ScheduleMessageService) pause() time.Duration {
	for lv := 1; lv < len(s.levels); lv++ {
		s.levels[lv].next = 0
		s.levels[lv].arrived.Store(true)
	}
	return pausePoll
}

// idleSleep is how long the service sleeps when nothing waits; a wake ends it.
const idleSleep = time.Hour

// deliverDue serves every level that may have something and returns the time to the next due message.
func (s *ScheduleMessageService) deliverDue() time.Duration {
	if s.o.Paused != nil && s.o.Paused() {
		return s.pause()
	}
	sleep := idleSleep
	for again := true; again; {
		again = false
		sleep = idleSleep
		for lv := 1; lv < len(s.levels); lv++ {
			l := &s.levels[lv]
			if l.next == 0 && !l.arrived.Load() {
				continue
			}
			now := s.o.Clock.Millis()
			if l.next <= now {
				again = s.deliverLevel(lv, l, now) || again
			}
			if l.next > 0 {
				sleep = min(sleep, time.Duration(max(l.next-now, 0))*time.Millisecond)
			}
			select {
			case <-s.stop:
				return 0
			default:
			}
		}
	}
	return sleep
}

// deliverLevel delivers one run of a level; true when more may be due right away.
func (s *ScheduleMessageService) deliverLevel(lv int, l *level, now int64) bool {
	l.arrived.Store(false) // before the read: what arrives from here on sets it again
	at := codec.QueueOffset(l.offset.Load())
	entries := s.o.Store.QueueEntries(codec.ScheduleTopic, int32(lv-1), at, entriesPerRead)
	if len(entries) == 0 {
		l.next = 0
		if lo, hi := s.bounds(lv); at < lo { // retention was faster
			s.o.Log.Warn("delayed messages expired before they were due", "level", lv, "offset", int64(at), "min",
				int64(lo))
			s.setOffset(l, int64(lo))
			return true
		} else if at > hi { // the topic was made anew
			s.setOffset(l, int64(hi))
		}
		return false
	}
	for i, e := range entries {
		due := e.TagsCode
		if latest := now + s.o.Levels.Delay(lv).Milliseconds(); due > latest && lv <= s.o.Levels.Max() {
			due = now // the table or the clock was changed (Java correctDeliverTimestamp)
		}
		if due > now {
			l.next = due
			return false
		}
		if err := s.deliver(lv, l, e, now-due); err != nil {
			if now-l.complained >= complainInterval.Milliseconds() {
				l.complained = now
				s.o.Log.Error("delayed message not delivered, will be tried again", "level", lv,
					"queueOffset", int64(at)+int64(i), "phyOffset", int64(e.PhyOffset), "error", err)
			}
			l.next = now + retryDelay.Milliseconds()
			return false
		}
		s.setOffset(l, int64(at)+int64(i)+1)
		l.late.Store(now - due)
		if now-due > l.worst.Load() {
			l.worst.Store(now - due)
		}
	}
	l.next = 0
	l.arrived.Store(true)
	return true
}

// deliver puts the message at e to its real topic. A record that is gone, damaged or has no place to go is
// skipped; whatever may get better is an error.
func (s *ScheduleMessageService) deliver(lv int, l *level, e store.QueueEntry, late int64) error {
	skip := func(why string, err error) error {
		s.o.Log.Error("delayed message skipped: "+why, "level", lv, "phyOffset", int64(e.PhyOffset), "error", err)
		return nil
	}
	raw, err := s.o.Store.ReadRecord(e.PhyOffset, s.buf)
	switch {
	case errors.Is(err, store.ErrNotFound), store.IsCorrupt(err), codec.IsCorrupt(err):
		return skip("its record is gone", err)
	case err != nil:
		return err
	}
	if s.buf = raw; cap(raw) > maxKeptBuffer {
		s.buf = nil
	}
	rec, err := codec.ParseRecord(raw, true)
	if err != nil {
		return skip("its record is damaged", err)
	}
	m, err := original(&rec)
	if err != nil {
		return skip("it has no place to go", err)
	}
	if m.Topic == codec.HalfTopic {
		return skip("half messages have no delay", nil)
	}
	put := s.o.Store.Append(m)
	switch put.Status {
	case store.PutOK:
		l.end.Store(int64(put.EndOffset))
		s.o.Delivered(Delivery{Topic: m.Topic, QueueID: m.QueueID, Level: lv,
			SizeBytes: int(put.EndOffset - put.PhyOffset), LateMillis: late})
		return nil
	case store.MessageIllegal, store.PropertiesSizeExceeded:
		return skip("the store refuses it", put.Err)
	default:
		return fmt.Errorf("%v: %w", put.Status, put.Err)
	}
}

// original makes the message for the real topic and queue. The properties stay as stored, DELAY, REAL_TOPIC
// and REAL_QID among them: Java's consumers see them too.
func original(rec *codec.Record) (*codec.Message, error) {
	topic, ok := rec.Property(codec.PropRealTopic)
	if !ok {
		return nil, fmt.Errorf("property %s is missing", codec.PropRealTopic)
	}
	queue, _ := rec.Property(codec.PropRealQueueID)
	queueID, err := strconv.ParseInt(string(queue), 10, 32)
	if err != nil || queueID < 0 {
		return nil, fmt.Errorf("property %s is %q", codec.PropRealQueueID, queue)
	}
	m := &codec.Message{Topic: string(topic), QueueID: int32(queueID), Flag: rec.Flag, SysFlag: rec.SysFlag,
		BornTimestamp: rec.BornTimestamp, BornHost: rec.BornHost, StoreHost: rec.StoreHost,
		ReconsumeTimes: rec.ReconsumeTimes, Body: rec.Body, Properties: rec.Properties}
	if tags, ok := rec.Property(codec.PropTags); ok {
		m.TagsCode = codec.TagsCode(tags)
	}
	return m, nil
}

// Close stops the delivery; Save follows once the store is closed. It may be called without Start, and twice.
func (s *ScheduleMessageService) Close() {
	s.closed.Do(func() {
		close(s.stop)
		if s.began {
			<-s.done
		}
	})
}
