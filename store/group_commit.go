package store

import (
	"sync"
	"sync/atomic"
	"time"

	"skylark/internal/clock"
)

// groupCommitService is SYNC_FLUSH (Java GroupCommitService and FlushDiskWatcher): one flush makes durable whatever was
// written before it began, and answers everybody who waited for that. While a flush runs the next group gathers, so the
// group grows with the latency of the disk and nobody waits for a timer.
//
//	per message  one lock to queue it, no allocation beyond the caller's closure, no goroutine, no timer
//	per group    one msync (it ends in the file system's fdatasync), one callback each
//
// A single timer stands in for Java's watcher thread: armed for the earliest deadline, it fires while a flush hangs and
// answers FLUSH_DISK_TIMEOUT to whoever is due. After a failed flush nothing is flushed any more (see
// flushRealTimeService) and everybody gets SERVICE_NOT_AVAILABLE.
type groupCommitService struct {
	files      *mappedFileQueue
	o          *Options
	checkpoint *storeCheckpoint
	fail       func(error)
	flushed    func() // after each flush; set before start
	dirty      dirtySignal
	broken     atomic.Bool

	mu       sync.Mutex
	waiting  []flushRequest
	inFlight []flushRequest
	closed   bool
	timer    clock.Timer // nil when not armed
	timerAt  int64       // ms

	stop chan struct{}
	done chan struct{}
}

// flushRequest is one put that waits; done is nil once it was answered.
type flushRequest struct {
	end      int64
	deadline int64 // ms
	done     func(PutStatus)
}

func newGroupCommitService(q *mappedFileQueue, o *Options, c *storeCheckpoint, fail func(error)) *groupCommitService {
	return &groupCommitService{files: q, o: o, checkpoint: c, fail: fail, flushed: func() {},
		dirty: newDirtySignal(), stop: make(chan struct{}), done: make(chan struct{})}
}

func (s *groupCommitService) start() { go s.run() }

// appended starts a flush also for puts that do not wait, as Java does.
func (s *groupCommitService) appended() { s.dirty.raise() }

// durable queues done unless everything before end is flushed. When the queue is full, or the service stopped, done is
// called before durable returns.
func (s *groupCommitService) durable(end PhyOffset, timeout time.Duration, done func(PutStatus)) bool {
	if s.files.flushedWhere.Load() >= int64(end) {
		return true
	}
	if timeout <= 0 {
		timeout = s.o.SyncFlushTimeout
	}
	deadline := s.o.Clock.Millis() + timeout.Milliseconds()
	s.mu.Lock()
	refused := PutOK
	switch {
	case s.closed:
		refused = ServiceNotAvailable
	case len(s.waiting)+len(s.inFlight) >= s.o.GroupCommitQueue:
		refused = FlushDiskTimeout
	default:
		s.waiting = append(s.waiting, flushRequest{int64(end), deadline, done})
		s.arm(deadline)
	}
	s.mu.Unlock()
	if refused != PutOK {
		done(refused)
		return false
	}
	s.dirty.raise()
	return false
}

// arm makes the timer fire at deadline or earlier. The caller holds mu.
func (s *groupCommitService) arm(deadline int64) {
	if s.timer != nil {
		if s.timerAt <= deadline {
			return
		}
		s.timer.Stop()
	}
	s.timerAt = deadline
	wait := time.Duration(max(deadline-s.o.Clock.Millis(), 0)) * time.Millisecond
	s.timer = s.o.Clock.AfterFunc(wait, s.expire)
}

// expire answers those whose time is over. It runs in the timer's goroutine, because ours may hang in the flush.
func (s *groupCommitService) expire() {
	now := s.o.Clock.Millis()
	var due []func(PutStatus)
	s.mu.Lock()
	s.timer = nil
	next := int64(0)
	for _, list := range [][]flushRequest{s.inFlight, s.waiting} {
		for i := range list {
			r := &list[i]
			switch {
			case r.done == nil:
			case r.deadline <= now:
				due = append(due, r.done)
				r.done = nil
			case next == 0 || r.deadline < next:
				next = r.deadline
			}
		}
	}
	if next != 0 {
		s.arm(next)
	}
	s.mu.Unlock()
	for _, done := range due {
		done(FlushDiskTimeout)
	}
}

// work tells that somebody waits, or that something is not flushed or not committed: a file without a write buffer may have
// bytes of which only the first is true, for a flush takes what was put after the commit, too.
func (s *groupCommitService) work() bool {
	s.mu.Lock()
	queued := len(s.waiting) > 0
	s.mu.Unlock()
	return queued || !s.broken.Load() && min(s.files.flushedWhere.Load(), s.files.maxOffset()) < s.files.wroteEnd()
}

func (s *groupCommitService) run() {
	defer close(s.done)
	for s.dirty.await(s.work, s.stop) {
		s.commit()
	}
}

// commit is one group: take what waits, flush, answer.
func (s *groupCommitService) commit() {
	s.mu.Lock()
	s.waiting, s.inFlight = s.inFlight[:0], s.waiting
	s.mu.Unlock()
	if !s.broken.Load() {
		if err := s.flush(); err != nil {
			s.broken.Store(true)
			s.fail(err)
		}
	}
	where := s.files.flushedWhere.Load()
	for i := range s.inFlight {
		s.answer(i, where)
	}
	s.flushed() // behind the answers: a wake-up takes as long as several of them
	s.mu.Lock()
	clear(s.inFlight)
	s.inFlight = s.inFlight[:0]
	s.mu.Unlock()
}

// flush makes what was written durable; from write buffers it goes to the files first.
func (s *groupCommitService) flush() error {
	if err := s.files.commit(); err != nil {
		return err
	}
	return flushLog(s.files, 0, s.checkpoint)
}

// answer tells one waiter of the group how it went.
func (s *groupCommitService) answer(i int, where int64) {
	s.mu.Lock()
	r := &s.inFlight[i]
	done := r.done
	r.done = nil
	ok := r.end <= where
	s.mu.Unlock()
	switch {
	case done == nil:
	case ok:
		done(PutOK)
	default:
		// Only a failed flush leaves something behind: the records were written before they were queued.
		done(ServiceNotAvailable)
	}
}

func (s *groupCommitService) close() {
	close(s.stop)
	<-s.done
	s.mu.Lock()
	s.closed = true
	late := s.waiting
	s.waiting = nil
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	for _, r := range late {
		if r.done != nil {
			r.done(ServiceNotAvailable)
		}
	}
}
