package store

import (
	"math"
	"sync/atomic"
	"time"

	"skylark/internal/vfs"
)

// commitGatherTime is how long a commit waits for more after the last one, unless commitPieceBytes came in meanwhile: at
// full speed it makes a write of 100 KiB of what would be one of a few pages, and a consumer waits for it at most so long.
const commitGatherTime = time.Millisecond

// commitRealTimeService writes the records from the write buffers to the files (Java CommitRealTimeService), for
// ASYNC_FLUSH; GroupCommitService commits what it flushes itself. Readers see a record after its commit:
//
//	at once                                    when CommitCommitLogThoroughInterval passed since the last commit
//	with CommitCommitLogLeastPages full pages (0: at once), but commitGatherTime after the last commit
//	after CommitCommitLogThoroughInterval      otherwise
//
// Without WakeCommitWhenPutMessage it looks every CommitIntervalCommitLog only. It sleeps while there is nothing. A put
// compares its position with one number, as with populateAheadService.
type commitRealTimeService struct {
	files     *mappedFileQueue
	o         *Options
	flush     *flushRealTimeService
	fail      func(error)
	committed func() // after each commit; set before start

	urgent atomic.Bool // see hurry
	failed bool        // owned by run: nothing is tried again, what is readable must not depend on luck
	last   time.Time   // of the last commit; owned by run

	// wakeAt is the position in the log at which the service has to look again; MaxInt64 while it is awake.
	wakeAt atomic.Int64
	wakeup chan struct{}
	stop   chan struct{}
	done   chan struct{}
}

func newCommitRealTimeService(q *mappedFileQueue, o *Options, flush *flushRealTimeService, fail func(error),
) *commitRealTimeService {
	s := &commitRealTimeService{files: q, o: o, flush: flush, fail: fail, committed: func() {},
		wakeup: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	s.wakeAt.Store(math.MaxInt64)
	return s
}

func (s *commitRealTimeService) start() {
	s.flush.start()
	go s.run()
}

func (s *commitRealTimeService) appended() {
	if s.files.wroteEnd() >= s.wakeAt.Load() {
		s.wakeAt.Store(math.MaxInt64)
		select {
		case s.wakeup <- struct{}{}:
		default:
		}
	}
}

// durable is always true: ASYNC_FLUSH promises nothing.
func (s *commitRealTimeService) durable(PhyOffset, time.Duration, func(PutStatus)) bool { return true }

func (s *commitRealTimeService) run() {
	defer close(s.done)
	for s.step() {
	}
	if !s.failed && s.files.committedWhere.Load() < s.files.wroteEnd() {
		s.commit()
	}
}

// step commits, or waits for a reason to; false at the stop.
func (s *commitRealTimeService) step() bool {
	where, wrote := s.files.committedWhere.Load(), s.files.wroteEnd()
	switch rest := s.last.Add(s.o.CommitCommitLogThoroughInterval).Sub(s.o.Clock.Now()); {
	case s.failed:
		s.urgent.Store(false)
		return s.sleep(where, math.MaxInt64, 0)
	case where == wrote:
		if !s.sleep(where, where+1, 0) {
			return false
		}
		return s.o.WakeCommitWhenPutMessage || s.sleep(where, math.MaxInt64, s.o.CommitIntervalCommitLog)
	case rest > 0 && wrote < s.threshold(where) && !s.urgent.Load():
		if !s.o.WakeCommitWhenPutMessage {
			return s.sleep(where, math.MaxInt64, min(rest, s.o.CommitIntervalCommitLog))
		}
		return s.sleep(where, s.threshold(where), rest)
	}
	s.commit()
	if s.o.CommitCommitLogLeastPages <= 0 {
		return true
	}
	where = s.files.committedWhere.Load()
	return s.sleep(where, where+commitPieceBytes, commitGatherTime)
}

// threshold is the end of the log that makes CommitCommitLogLeastPages pages behind where.
func (s *commitRealTimeService) threshold(where int64) int64 {
	if s.o.CommitCommitLogLeastPages <= 0 {
		return where + 1
	}
	return (where/vfs.PageSize + int64(s.o.CommitCommitLogLeastPages)) * vfs.PageSize
}

// hurry commits what was put so far at once: slaves see only that, and a put waits for them.
func (s *commitRealTimeService) hurry() {
	s.urgent.Store(true)
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// cut tells that the log ends earlier now, with nothing to commit: what it waits for has moved.
func (s *commitRealTimeService) cut() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

func (s *commitRealTimeService) commit() {
	s.urgent.Store(false)
	err := s.files.commit()
	s.last = s.o.Clock.Now()
	if err != nil {
		s.failed = true
		s.fail(err)
	}
	s.committed()
	s.flush.appended()
}

// sleep returns when the log has reached end, or was cut before where, after limit if that is not 0, or, with false, at
// the stop.
func (s *commitRealTimeService) sleep(where, end int64, limit time.Duration) bool {
	var over chan struct{}
	if limit > 0 {
		over = make(chan struct{})
		defer s.o.Clock.AfterFunc(limit, func() { close(over) }).Stop()
	}
	defer s.wakeAt.Store(math.MaxInt64)
	for {
		s.wakeAt.Store(end) // each time: a put that saw an earlier mark may have taken this one away
		if s.files.wroteEnd() >= end || s.urgent.Load() && s.files.committedWhere.Load() < s.files.wroteEnd() ||
			s.files.committedWhere.Load() < where {
			return true
		}
		select {
		case <-s.wakeup:
		case <-over:
			return true
		case <-s.stop:
			return false
		}
	}
}

// close commits and flushes everything.
func (s *commitRealTimeService) close() {
	close(s.stop)
	<-s.done
	s.flush.close()
}
