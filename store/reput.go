package store

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
)

const (
	// maxRunRecords bounds how many records are dispatched before their consumers are told.
	maxRunRecords = 1024
	// maxAssistRecords and maxAssistRuns bound what an event loop dispatches at the end of a turn, maxAssistBytes how much
	// may be behind.
	maxAssistRecords = 256
	maxAssistRuns    = 4
	maxAssistBytes   = 8 << 20
	// reputRetryInterval is how long a failed write of a ConsumeQueue waits for another try (Java).
	reputRetryInterval = time.Second
)

// reputMessageService gives the records of the CommitLog their ConsumeQueue entries and tells who waits for them (Java
// ReputMessageService). It walks runs of records in the mapping up to confirmOffset: with SYNC_FLUSH only what is
// flushed.
//
//	per message  one parse in place, one lookup without lock, 20 bytes copied; nothing allocated, no system call
//	per run      one lock (consumeQueueTable.writeMu), one call of Listener.Arrived, one wake-up of the index
//
// Java looks every millisecond, so a message waits half of that on average. Here whoever puts dispatches what it has put,
// an event loop at the end of its turn (assist), as long as that takes no waiting: two goroutine switches a message are
// more than all the rest of it. Other puts, and whatever would have to wait, wake the service's goroutine, for one atomic
// load when it is awake; a run is whatever came in meanwhile.
//
// A write that fails, because the disk is full, is repeated every second for ever: puts are refused meanwhile (flag
// "logics queue error"), and no message is left out. Java gives up after 30 tries and loses the entry.
type reputMessageService struct {
	o     *Options
	log   *slog.Logger
	cl    *commitLog
	table *consumeQueueTable
	index *indexService
	flags *runningFlags
	// wrote is called after entries were written.
	wrote func()

	position   atomic.Int64 // every record before it has its entry
	needs      atomic.Int64 // end of the next record, when what may be shown ended within it
	dispatched atomic.Int64 // store time of the last record dispatched, ms

	// mu is held for one run, by the service or by an assistant. What follows belongs to its holder.
	mu       sync.Mutex
	walker   logWalker
	record   dispatchRecord
	pending  bool // record is parsed and has no entry yet
	arrivals []Arrival
	// lightDispatch: see Options.lightDispatch.
	lightDispatch bool
	limit         int  // records of the run at most
	mayWait       bool // for the disk, to make files and pages ready

	signal  dirtySignal
	started bool
	stop    chan struct{}
	done    chan struct{}
}

func newReputMessageService(o *Options, cl *commitLog, table *consumeQueueTable, flags *runningFlags,
) *reputMessageService {
	return &reputMessageService{o: o, log: o.Log, cl: cl, table: table, flags: flags, wrote: func() {},
		lightDispatch: o.lightDispatch(), walker: logWalker{cl: cl, o: o},
		arrivals: make([]Arrival, 0, maxRunRecords), signal: newDirtySignal(),
		stop: make(chan struct{}), done: make(chan struct{})}
}

// recovered has the dispatch begin at phyOffset; recovery gave everything before its entry. lastTimestamp is the store time
// of the last record before it.
func (s *reputMessageService) recovered(phyOffset PhyOffset, lastTimestamp int64) {
	s.walker.at = phyOffset
	s.position.Store(int64(phyOffset))
	s.dispatched.Store(lastTimestamp)
}

// start begins to dispatch. The log ends at end.
func (s *reputMessageService) start(end PhyOffset) {
	s.walker.written = end
	s.started = true
	go s.run()
}

// wake tells that the log, or what is confirmed of it, grew. It costs one atomic load while the service is awake.
func (s *reputMessageService) wake() { s.signal.raise() }

// where is the offset before which every record has its entry.
func (s *reputMessageService) where() PhyOffset { return PhyOffset(s.position.Load()) }

// DispatchedWhere is the offset before which every record has its ConsumeQueue entry. It has moved on when
// Listener.Arrived is called.
func (s *MessageStore) DispatchedWhere() PhyOffset { return s.reput.where() }

// behind is dispatchBehindBytes.
func (s *reputMessageService) behind() int64 {
	end := int64(s.cl.confirmOffset())
	if end < s.needs.Load() {
		return 0 // in the middle of a record
	}
	return max(0, end-s.position.Load())
}

func (s *reputMessageService) work() bool { return s.behind() > 0 }

func (s *reputMessageService) run() {
	defer close(s.done)
	defer s.walker.release()
	for s.signal.await(s.work, s.stop) {
		s.mu.Lock()
		err := s.dispatchRun()
		s.mu.Unlock()
		if err != nil && !s.pause(err) {
			return
		}
		if err == nil && s.flags.has(flagLogicsQueueError) {
			s.flags.clear(flagLogicsQueueError)
		}
	}
}

// assist dispatches in the caller's goroutine, an event loop, without ever waiting: nothing when somebody else is at it,
// and what needs a file, a page or the disk is left to the service. Nothing is left behind: whoever has mu looks again
// after it let go, and sees what those have put who found it taken.
func (s *reputMessageService) assist() {
	for round := 0; s.behind() > 0; round++ {
		if round == maxAssistRuns || s.behind() > maxAssistBytes || s.flags.has(flagLogicsQueueError) {
			s.wake()
			return
		}
		if !s.mu.TryLock() {
			return
		}
		ok := s.assistRun()
		s.mu.Unlock()
		if !ok {
			s.wake()
			return
		}
	}
}

// assistRun is one run of assist; false: the rest has to wait for something. The caller holds mu.
func (s *reputMessageService) assistRun() bool {
	if s.walker.at < s.walker.written || !s.table.writeMu.TryLock() {
		return false
	}
	s.limit, s.mayWait = maxAssistRecords, false
	err := s.writeEntries(s.cl.confirmOffset())
	s.table.writeMu.Unlock()
	s.announce()
	return err == nil
}

// dispatchRun dispatches one run and tells its consumers. On an error the record that has no entry stays pending. The
// caller holds mu.
func (s *reputMessageService) dispatchRun() error {
	s.limit, s.mayWait = maxRunRecords, true
	end := s.cl.confirmOffset()
	s.table.writeMu.Lock()
	err := s.writeEntries(end)
	s.table.writeMu.Unlock()
	s.announce()
	return err
}

// announce tells those who work behind the queues.
func (s *reputMessageService) announce() {
	if len(s.arrivals) > 0 {
		s.o.Listener.Arrived(s.arrivals)
		clear(s.arrivals) // no references into the log
		s.wrote()
	}
	s.index.wake()
}

// writeEntries writes the entries of a run: at most limit, and of one file, because arrivals point into it.
func (s *reputMessageService) writeEntries(end PhyOffset) error {
	s.arrivals = s.arrivals[:0]
	s.walker.stay = s.pending
	for range s.limit {
		if !s.pending {
			ok, err := s.walker.next(end, &s.record)
			if err != nil {
				s.log.Error("damaged record not dispatched, the rest of its file is left out", "err", err)
				s.o.Listener.WriteError(err)
			}
			if !ok {
				s.needs.Store(int64(s.walker.needs))
				break
			}
			s.record.setTagsCode(s.o)
			s.pending, s.walker.stay = true, true
		}
		if err := s.writeEntry(&s.record); err != nil {
			return err
		}
		s.pending = false
		s.dispatched.Store(s.record.storeTimestamp)
		s.position.Store(int64(s.walker.at))
	}
	s.position.Store(int64(s.walker.at))
	return nil
}

func (s *reputMessageService) writeEntry(d *dispatchRecord) error {
	if !d.consumable() {
		return nil
	}
	cq, err := s.table.put(d, s.mayWait)
	if s.lightDispatch && err == nil {
		err = s.table.putLight(d, s.mayWait, &s.arrivals)
	}
	switch {
	case errors.Is(err, errQueueOrder) || errors.Is(err, errTopicName):
		s.log.Error("record left out of its queue", "phyOffset", d.phyOffset, "err", err)
		return nil
	case err != nil:
		return err
	}
	if cq != nil {
		a := Arrival{Topic: cq.topic, QueueID: d.queueID, QueueOffset: d.queueOffset, TagsCode: d.tagsCode,
			StoreTimestamp: d.storeTimestamp, Properties: d.properties}
		if cq.batch != nil {
			a.QueueOffset += QueueOffset(innerCount(d.properties)) - 1
			a.TagsUnknown = d.tagsCode == 0 && d.sysFlag&codec.SysFlagInnerBatch != 0
		}
		s.arrivals = append(s.arrivals, a)
	}
	return nil
}

// pause waits after a failed write until the next try; false at the stop.
func (s *reputMessageService) pause(err error) bool {
	if s.flags.set(flagLogicsQueueError, err) {
		s.log.Error("ConsumeQueue cannot be written; puts are refused until it can", "err", err)
		s.o.Listener.WriteError(err)
	}
	again := make(chan struct{})
	t := s.o.Clock.AfterFunc(reputRetryInterval, func() { close(again) })
	defer t.Stop()
	select {
	case <-s.stop:
		return false
	case <-again:
		return true
	}
}

// close ends the dispatch after it has caught up. It returns how many bytes are left when the disk refuses.
func (s *reputMessageService) close() int64 {
	close(s.stop)
	if s.started {
		<-s.done
	}
	return s.behind()
}
