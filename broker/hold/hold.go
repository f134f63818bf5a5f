package hold

import (
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
)

// Wait is one parked request. The owner embeds it; the service calls exactly one of Wake and Expire once,
// unless Cancel took it back first.
type Wait interface {
	// Want is the queue offset that is waited for: a message at or beyond it wakes.
	Want() codec.QueueOffset
	// Interested tells from the ConsumeQueue entry, and the properties if it needs them, whether the message is
	// for this waiter. It may be wrong in the direction of true.
	Interested(tagsCode int64, properties []byte) bool
	// Wake is called when a message has arrived, Expire when the time is up.
	Wake()
	Expire()
}

// Key is the queue that is waited on.
type Key struct {
	Topic   string
	QueueID int32
}

// Options of the service.
type Options struct {
	// MaxWaits bounds the parked requests in all; Park refuses beyond it. Memory: about 300 bytes each.
	MaxWaits int
	// Tick is the resolution of deadlines, 100 ms by default. With many parked it is longer, see tick. No timer runs while
	// nothing is parked.
	Tick  time.Duration
	Clock clock.Clock
	// MaxOffset tells the end of a queue: one past its last consumable message.
	MaxOffset func(topic string, queueID int32) codec.QueueOffset
	// Expired is called in place of Expire, with all whose time is up at once; nil: Expire of each. The list is its own.
	Expired func(waits []Wait)
}

// shards spreads the table's lock; a power of two.
const shards = 64

// PullRequestHoldService is the table of parked requests. All methods may be called from any goroutine.
type PullRequestHoldService struct {
	o      Options
	parked atomic.Int64
	closed atomic.Bool
	ids    atomic.Uint64
	shard  [shards]shard
	timer  struct {
		sync.Mutex
		on     bool
		closed bool
	}
}

type shard struct {
	sync.Mutex
	waits map[Key]*line
	// spare is a line that ran empty: the next queue to be waited on takes it.
	spare *line
	// due is no later than the earliest deadline among waits (ms), so that a tick passes over most shards.
	due int64
}

const never = 1<<63 - 1

// New makes the service.
func New(o Options) *PullRequestHoldService {
	if o.MaxWaits == 0 {
		o.MaxWaits = 1 << 20
	}
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	s := &PullRequestHoldService{o: o}
	for i := range s.shard {
		s.shard[i].waits, s.shard[i].due = map[Key]*line{}, never
	}
	return s
}

func (s *PullRequestHoldService) shardOf(k Key) *shard {
	h := uint32(k.QueueID) * 0x9E3779B1
	for i := 0; i < len(k.Topic); i++ {
		h = (h ^ uint32(k.Topic[i])) * 16777619
	}
	return &s.shard[(h^h>>15)%shards]
}

// Park keeps w until a message arrives at key or until deadline (ms since 1970). conn is the connection it
// answers to, for Drop. false: too many are parked already, or the service is closed; w was not taken.
func (s *PullRequestHoldService) Park(key Key, conn uint64, deadline int64, w Wait) bool {
	if s.parked.Add(1) > int64(s.o.MaxWaits) {
		s.parked.Add(-1)
		return false
	}
	e := entry{id: s.ids.Add(1), conn: conn, deadline: deadline, wait: w}
	want := w.Want() // before anybody can wake w: it may be reused then
	sh := s.shardOf(key)
	sh.Lock()
	sh.line(key).add(e)
	sh.due = min(sh.due, deadline)
	sh.Unlock()
	if s.closed.Load() && s.take(sh, key, e.id) { // Close looks at the table after it has set closed: one of the two sees e
		return false
	}
	s.startTimer()
	if s.o.MaxOffset(key.Topic, key.QueueID) != want && s.take(sh, key, e.id) {
		w.Wake() // a message came in between, or the queue was deleted and begins anew
	}
	return true
}

// take removes an entry; false when somebody else did.
func (s *PullRequestHoldService) take(sh *shard, key Key, id uint64) bool {
	sh.Lock()
	defer sh.Unlock()
	l := sh.waits[key]
	if l == nil || len(l.keep(nil, func(e *entry) bool { return e.id != id })) == 0 {
		return false
	}
	sh.tidy(key, l)
	s.parked.Add(-1)
	return true
}

// Arrived wakes those who wait for a message of the queue. offset is the message's own; properties may be nil
// when they are not known, which counts as interesting.
func (s *PullRequestHoldService) Arrived(topic string, queueID int32, offset codec.QueueOffset,
	tagsCode int64, properties []byte) {
	if s.parked.Load() == 0 {
		return
	}
	key := Key{topic, queueID}
	sh := s.shardOf(key)
	var buf [8]entry
	sh.Lock()
	l := sh.waits[key]
	if l == nil {
		sh.Unlock()
		return
	}
	wake := l.keep(buf[:0], func(e *entry) bool {
		return offset < e.wait.Want() || !e.wait.Interested(tagsCode, properties)
	})
	sh.tidy(key, l)
	sh.Unlock()
	s.parked.Add(-int64(len(wake)))
	for i := range wake {
		wake[i].wait.Wake()
	}
}

// WakeQueue wakes everybody who waits on a queue, whatever they want: a reset offset, a deleted topic, a
// permission.
func (s *PullRequestHoldService) WakeQueue(key Key) {
	sh := s.shardOf(key)
	sh.Lock()
	list := sh.waits[key].all()
	delete(sh.waits, key)
	sh.Unlock()
	s.parked.Add(-int64(len(list)))
	for _, e := range list {
		e.wait.Wake()
	}
}

// WakeTopic wakes everybody who waits on any queue of a topic: it was deleted.
func (s *PullRequestHoldService) WakeTopic(topic string) { s.WakeTopics(map[string]bool{topic: true}) }

// WakeTopics is WakeTopic for many: it looks at the queues that are waited on, once each.
func (s *PullRequestHoldService) WakeTopics(topics map[string]bool) {
	if s.parked.Load() == 0 {
		return
	}
	var woken []entry
	for i := range s.shard {
		sh := &s.shard[i]
		sh.Lock()
		for k, l := range sh.waits {
			if topics[k.Topic] {
				woken = append(woken, l.all()...)
				delete(sh.waits, k)
			}
		}
		sh.Unlock()
	}
	s.parked.Add(-int64(len(woken)))
	for _, e := range woken {
		e.wait.Wake()
	}
}

// Drop forgets what was parked for a connection that is gone; nothing is called.
func (s *PullRequestHoldService) Drop(conn uint64) {
	if s.parked.Load() == 0 {
		return
	}
	s.collect(never, func(l *line, out []entry) []entry {
		return l.keep(out, func(e *entry) bool { return e.conn != conn })
	})
}

// Parked is the number of requests that wait.
func (s *PullRequestHoldService) Parked() int { return int(s.parked.Load()) }

// collect takes out what pick takes from the lines that have a deadline until now.
func (s *PullRequestHoldService) collect(now int64, pick func(l *line, out []entry) []entry) []entry {
	var out []entry
	for i := range s.shard {
		sh := &s.shard[i]
		sh.Lock()
		if sh.due > now || len(sh.waits) == 0 {
			sh.Unlock()
			continue
		}
		sh.due = never
		for k, l := range sh.waits {
			if l.due <= now {
				out = pick(l, out)
			}
			sh.due = min(sh.due, l.due)
			sh.tidy(k, l)
		}
		sh.Unlock()
	}
	s.parked.Add(-int64(len(out)))
	return out
}

// Deadlines are looked at less often when many wait: one ms for parkedPerMilli of them, up to maxTick. Then more answers
// leave, and come back as the next requests, in one write and one read of a connection. Java's broker looks every 5 s.
const (
	parkedPerMilli = 400
	maxTick        = 250 * time.Millisecond
)

func (s *PullRequestHoldService) pause() time.Duration {
	return max(s.o.Tick, min(maxTick, time.Duration(s.parked.Load()/parkedPerMilli)*time.Millisecond))
}

// startTimer has the deadlines looked at, as long as something is parked.
func (s *PullRequestHoldService) startTimer() {
	s.timer.Lock()
	defer s.timer.Unlock()
	if !s.timer.on && !s.timer.closed {
		s.timer.on = true
		s.o.Clock.AfterFunc(s.pause(), s.tick)
	}
}

func (s *PullRequestHoldService) tick() {
	now := s.o.Clock.Millis()
	s.expire(s.collect(now, func(l *line, out []entry) []entry { return l.expire(out, now) }))
	s.timer.Lock()
	s.timer.on = false
	s.timer.Unlock()
	if s.parked.Load() > 0 {
		s.startTimer()
	}
}

// Close answers everybody by Expire and takes nothing more.
func (s *PullRequestHoldService) Close() {
	s.closed.Store(true)
	s.timer.Lock()
	s.timer.closed = true
	s.timer.Unlock()
	s.expire(s.collect(never, func(l *line, out []entry) []entry { return l.expire(out, never) }))
}

func (s *PullRequestHoldService) expire(list []entry) {
	if s.o.Expired == nil || len(list) == 0 {
		for _, e := range list {
			e.wait.Expire()
		}
		return
	}
	waits := make([]Wait, len(list))
	for i, e := range list {
		waits[i] = e.wait
	}
	s.o.Expired(waits)
}
