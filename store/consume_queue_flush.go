package store

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"skylark/internal/vfs"
)

// mark is the state of the queue at one moment: the entries below maxOffset are in the mapping.
func (cq *consumeQueue) mark() queueMark {
	m := queueMark{minOffset: cq.minOffset.Load(), maxOffset: cq.maxOffset.Load(), minPhy: -1, maxPhy: -1}
	if e, ok := cq.entry(m.minOffset); ok && m.minOffset < m.maxOffset && !e.isBlank() {
		m.minPhy = e.phyOffset
	}
	if e, ok := cq.entry(m.maxOffset - 1); ok && !e.isBlank() {
		m.maxPhy = e.end()
	}
	if cq.batch != nil {
		m.batch, m.next = true, cq.batch.max.Load()
	}
	return m
}

// flush makes all entries durable. newFiles tells that a file was made since the last flush: its name in the directory of
// the queue and its length have to be made durable, too; the directories above are the table's.
func (cq *consumeQueue) flush(newFiles bool) error {
	m := cq.mark()
	if cq.namesDirty.Swap(false) { // a file was made since the table looked, for an entry below the mark
		newFiles = true
		if err := errors.Join(syncParents(cq.mfq), cq.ext.syncParents()); err != nil {
			cq.namesDirty.Store(true)
			return err
		}
	}
	if err := cq.ext.flush(); err != nil {
		cq.namesDirty.Store(true)
		return err
	}
	if newFiles {
		if err := syncQueueNames(cq.mfq); err != nil {
			cq.namesDirty.Store(true)
			return err
		}
	}
	if cq.mfq.flushedWhere.Load() < cq.mfq.maxOffset() {
		if err := cq.mfq.flush(0); err != nil {
			return err
		}
	}
	if saved := cq.saved.Load(); saved == nil || *saved != m {
		cq.saved.Store(&m)
	}
	return nil
}

// syncQueueNames makes names and the last length durable. Where a file has just been deleted there is nothing to do.
func syncQueueNames(q *mappedFileQueue) error {
	fs := q.fs
	if mf := q.last(); mf != nil {
		f, err := fs.Open(mf.path)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if ignoreNotExist(err) != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return syncDirs(fs, q.dir)
}

// syncParents makes the names of a queue's directory and of those above durable.
func syncParents(q *mappedFileQueue) error {
	topic := path.Dir(q.dir)
	return syncDirs(q.fs, path.Dir(path.Dir(topic)), path.Dir(topic), topic)
}

// syncDirs makes the names in directories durable; those that are gone are left out.
func syncDirs(fs vfs.FS, dirs ...string) error {
	for _, dir := range dirs {
		if err := ignoreNotExist(fs.SyncDir(dir)); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil
}

// flushPages flushes the files of every queue that have so many dirty pages.
func (t *consumeQueueTable) flushPages(leastPages int) error {
	var first error
	t.each(func(cq *consumeQueue) {
		err := cq.mfq.flush(leastPages)
		if cq.ext != nil {
			err = errors.Join(err, cq.ext.mfq.flush(leastPages))
		}
		if err != nil && first == nil {
			first = err
		}
	})
	return first
}

// flush makes every queue durable. It goes from the root down, and each directory is synced once however many queues
// were made in it. While the store runs one worker does it, to leave the disk to the CommitLog; at the end many, since the
// disk makes one journal commit of what comes at the same time.
func (t *consumeQueueTable) flush(workers int) error {
	newFiles := make(map[*consumeQueue]bool)
	topics := make(map[string]CQType)
	t.each(func(cq *consumeQueue) {
		if cq.namesDirty.Swap(false) {
			newFiles[cq] = true
			topics[cq.topic] = cq.kind()
		}
	})
	err := t.syncTopics(topics)
	if err == nil {
		return t.forEach(t.all(), workers, func(cq *consumeQueue) error { return cq.flush(newFiles[cq]) })
	}
	for cq := range newFiles {
		cq.namesDirty.Store(true)
	}
	return err
}

func (t *consumeQueueTable) syncTopics(topics map[string]CQType) error {
	if len(topics) == 0 {
		return nil
	}
	if err := syncDirs(t.fs, t.o.RootDir, t.dir, queuesDir(t.o, BatchCQ)); err != nil {
		return err
	}
	for topic, kind := range topics {
		if err := syncDirs(t.fs, path.Join(queuesDir(t.o, kind), topic)); err != nil {
			return err
		}
		if !t.o.EnableConsumeQueueExt {
			continue
		}
		if err := syncDirs(t.fs, path.Join(t.o.RootDir, extDirName), extDir(t.o.RootDir, topic)); err != nil {
			return err
		}
	}
	return nil
}

// saveMarks writes the queue checkpoint: what the last flush of each queue made durable.
func (t *consumeQueueTable) saveMarks() error {
	return t.mark.save(func() queueMarks {
		m := queueMarks{logEnd: t.cl.maxOffset(), dispatched: t.flushedTo.Load(),
			deleted: make(map[string]PhyOffset), queues: make(map[queueKey]queueMark)}
		t.writeMu.Lock()
		for topic, before := range t.deletedTopics {
			m.deleted[topic] = before
		}
		t.each(func(cq *consumeQueue) {
			if saved := cq.saved.Load(); saved != nil && (saved.maxOffset > 0 || saved.next > 0) {
				m.queues[queueKey{cq.topic, cq.queueID}] = *saved
			}
		})
		t.writeMu.Unlock()
		if t.index != nil {
			m.index, m.indexedTo = t.index.marks()
		}
		return m
	})
}

// flushConsumeQueueService flushes the ConsumeQueues (Java FlushConsumeQueueService): every
// FlushIntervalConsumeQueue those with FlushConsumeQueueLeastPages dirty pages, and every
// FlushConsumeQueueThoroughPeriod all of them and the index. After that the checkpoint says so.
//
// While nothing is written it sleeps: an idle broker must not wake up every second for this. After a flush that failed for
// another reason than a full disk nothing is declared durable any more (the kernel forgets which pages it could not
// write), so the next start is an abnormal one and builds the queues anew from the last checkpoint on.
type flushConsumeQueueService struct {
	o          *Options
	table      *consumeQueueTable
	index      *indexService
	checkpoint *storeCheckpoint
	// dispatched is the store time of the last record whose entry is written, ms.
	dispatched func() int64
	fail       func(error)
	dirty      dirtySignal
	broken     error // owned by run, then by close
	stop       chan struct{}
	done       chan struct{}
	once       sync.Once
}

func newFlushConsumeQueueService(o *Options, t *consumeQueueTable, x *indexService, c *storeCheckpoint,
	dispatched func() int64, fail func(error)) *flushConsumeQueueService {
	return &flushConsumeQueueService{o: o, table: t, index: x, checkpoint: c, dispatched: dispatched, fail: fail,
		dirty: newDirtySignal(), stop: make(chan struct{}), done: make(chan struct{})}
}

func (s *flushConsumeQueueService) start() { go s.run() }

// wrote tells that entries were written; cheap while the service is awake.
func (s *flushConsumeQueueService) wrote() { s.dirty.raise() }

// work tells that the checkpoint is behind what was dispatched.
func (s *flushConsumeQueueService) work() bool {
	return s.broken == nil && (s.dispatched() > s.checkpoint.logicsMsgTimestamp.Load() || s.index.unsaved())
}

func (s *flushConsumeQueueService) run() {
	defer close(s.done)
	for s.dirty.await(s.work, s.stop) {
		if !s.whileDirty() {
			return
		}
	}
}

// whileDirty flushes by the intervals until everything is durable; false at the stop.
func (s *flushConsumeQueueService) whileDirty() bool {
	ticker := s.o.Clock.NewTicker(s.o.FlushIntervalConsumeQueue)
	defer ticker.Stop()
	since := s.o.Clock.Now()
	for s.work() {
		select {
		case <-s.stop:
			return false
		case <-ticker.C():
		}
		var err error
		if now := s.o.Clock.Now(); now.Sub(since) >= s.o.FlushConsumeQueueThoroughPeriod {
			since = now
			err = s.thorough(1)
		} else {
			err = s.table.flushPages(s.o.FlushConsumeQueueLeastPages)
		}
		if err != nil {
			if !diskFull(err) { // a checkpoint that found no room can be written later
				s.broken = err
			}
			s.fail(err)
		}
	}
	return true
}

// thorough makes everything dispatched so far durable and says so in both checkpoints.
func (s *flushConsumeQueueService) thorough(workers int) error {
	at := s.dispatched()
	if err := errors.Join(s.table.flush(workers), s.index.flush()); err != nil {
		return err
	}
	// The marks first: they must never be older than the checkpoint (see consumeQueueTable.usableMarks).
	s.table.flushedTo.Store(max(at, s.table.flushedTo.Load()))
	if err := s.table.saveMarks(); err != nil {
		return err
	}
	if at > s.checkpoint.logicsMsgTimestamp.Load() {
		s.checkpoint.logicsMsgTimestamp.Store(at)
	}
	return s.checkpoint.flush()
}

// close stops the service and does a last thorough flush. The dispatch must have ended. A second call does nothing.
func (s *flushConsumeQueueService) close() error {
	var err error
	s.once.Do(func() {
		close(s.stop)
		<-s.done
		if err = s.broken; err == nil {
			err = s.thorough(manyWorkers())
		}
	})
	return err
}
