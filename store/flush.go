package store

import (
	"sync/atomic"
	"time"
)

// dirtySignal lets a service sleep for as long as there is nothing to do and costs the writer one atomic load when the
// service is awake.
//
// The order that must hold: the writer publishes its work, then looks at idle; the service sets idle, then looks for
// work. Both are sequentially consistent, so at least one of them sees the other.
type dirtySignal struct {
	idle   atomic.Bool
	wakeup chan struct{}
}

func newDirtySignal() dirtySignal { return dirtySignal{wakeup: make(chan struct{}, 1)} }

// raise is called after work was published.
func (d *dirtySignal) raise() {
	if d.idle.Load() && d.idle.CompareAndSwap(true, false) {
		select {
		case d.wakeup <- struct{}{}:
		default:
		}
	}
}

// await returns true as soon as there is work, false when stop is closed and there is none.
func (d *dirtySignal) await(work func() bool, stop <-chan struct{}) bool {
	for {
		d.idle.Store(true)
		if work() {
			d.idle.Store(false)
			return true
		}
		select {
		case <-d.wakeup:
		case <-stop:
			d.idle.Store(false)
			return work()
		}
	}
}

// flushRealTimeService is ASYNC_FLUSH (Java FlushRealTimeService): while there is unflushed data it looks every
// FlushIntervalCommitLog and flushes FlushCommitLogLeastPages pages or more, and everything after
// FlushCommitLogThoroughInterval. Without unflushed data it sleeps. After a failed flush it never tries again: the kernel
// marks pages it could not write as clean, so a second msync would answer success for lost bytes.
type flushRealTimeService struct {
	files      *mappedFileQueue
	o          *Options
	checkpoint *storeCheckpoint
	fail       func(error)
	dirty      dirtySignal
	failed     bool // owned by run
	stop       chan struct{}
	done       chan struct{}
}

func newFlushRealTimeService(q *mappedFileQueue, o *Options, c *storeCheckpoint, fail func(error),
) *flushRealTimeService {
	return &flushRealTimeService{files: q, o: o, checkpoint: c, fail: fail, dirty: newDirtySignal(),
		stop: make(chan struct{}), done: make(chan struct{})}
}

func (s *flushRealTimeService) start() { go s.run() }

func (s *flushRealTimeService) appended() { s.dirty.raise() }

// durable is always true: ASYNC_FLUSH promises nothing.
func (s *flushRealTimeService) durable(PhyOffset, time.Duration, func(PutStatus)) bool { return true }

func (s *flushRealTimeService) work() bool {
	return !s.failed && s.files.flushedWhere.Load() < s.files.maxOffset()
}

func (s *flushRealTimeService) run() {
	defer close(s.done)
	for s.dirty.await(s.work, s.stop) {
		s.whileDirty()
	}
}

// whileDirty flushes by the intervals until nothing is unflushed; at the stop it flushes everything at once.
func (s *flushRealTimeService) whileDirty() {
	ticker := s.o.Clock.NewTicker(s.o.FlushIntervalCommitLog)
	defer ticker.Stop()
	since := s.o.Clock.Now()
	for s.work() {
		leastPages := s.o.FlushCommitLogLeastPages
		select {
		case <-ticker.C():
		case <-s.stop:
			leastPages = 0
		}
		if now := s.o.Clock.Now(); now.Sub(since) >= s.o.FlushCommitLogThoroughInterval {
			leastPages, since = 0, now
		}
		if err := flushLog(s.files, leastPages, s.checkpoint); err != nil {
			s.failed = true
			s.fail(err)
		}
	}
}

func (s *flushRealTimeService) close() {
	close(s.stop)
	<-s.done
}

// flushLog flushes and notes in the checkpoint up to which store time everything is durable.
func flushLog(q *mappedFileQueue, leastPages int, c *storeCheckpoint) error {
	if err := q.flush(leastPages); err != nil {
		return err
	}
	if leastPages == 0 {
		c.flushedLog(q.storeTimestamp.Load())
	}
	return nil
}
