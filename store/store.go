package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path"
	"strings"
	"sync"

	"skylark/internal/vfs"
)

// MessageStore is one directory of files (Java DefaultMessageStore): the CommitLog with every record, the ConsumeQueues
// and the IndexFiles that are built from it. All methods may be called from any goroutine between Start and Close.
type MessageStore struct {
	o   Options
	fs  vfs.FS
	log *slog.Logger

	flags      runningFlags
	lock       io.Closer
	abort      abortFile
	checkpoint *storeCheckpoint
	mark       *queueCheckpoint
	cl         *commitLog
	queues     *consumeQueueTable
	index      *indexService

	reput           *reputMessageService
	flushQueues     *flushConsumeQueueService
	writeCheckpoint *checkpointService
	clean           *cleanService
	readAhead       *readAheadService

	showsAtOnce bool // see commitLog.shownAtOnce

	replication

	scratch scratchPool
	stats   storeStats
	reads

	stateMu sync.Mutex
	started bool
	closed  bool
}

// Open locks the directory of o.RootDir, creates what is missing, loads the files and recovers them to one common end;
// see recover for the rules. Nothing runs yet and nothing can be put: Start does that. Errors: ErrLocked when another
// broker uses the directory, ErrCorrupt with the file's name when a file has a length or name that this configuration
// cannot have made, and those of the file system.
func Open(o Options) (*MessageStore, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if strings.Contains(o.CommitLogDir, ",") {
		return nil, fmt.Errorf("store: storePathCommitLog %q: more than one directory is not supported", o.CommitLogDir)
	}
	s := &MessageStore{o: o, fs: o.FS, log: o.Log}
	s.flags.set(flagClosed, nil)
	s.stats.startMillis = o.Clock.Millis()
	for _, dir := range []string{o.RootDir, o.CommitLogDir} {
		if err := vfs.MkdirAllSync(s.fs, dir); err != nil {
			return nil, fmt.Errorf("store: directory %s: %w", dir, err)
		}
	}
	lock, foreign, err := lockDirectory(s.fs, o.RootDir)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	s.wire()
	s.queues.foreign = foreign
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// wire makes the parts and tells them of each other.
func (s *MessageStore) wire() {
	o := &s.o
	s.abort = newAbortFile(s.fs, o.RootDir)
	s.checkpoint = newStoreCheckpoint(s.fs, o.RootDir)
	s.mark = newQueueCheckpoint(s.fs, o.RootDir)
	s.cl = newCommitLog(o, &s.flags, s.checkpoint, s.logFailed)
	s.queues = newConsumeQueueTable(o, s.cl, s.mark)
	s.queues.stopPuts, s.queues.checkpoint = s.cl.stopPuts, s.checkpoint
	s.reput = newReputMessageService(o, s.cl, s.queues, &s.flags)
	s.index = newIndexService(o, s.cl, &s.flags, s.checkpoint, s.reput.where)
	s.queues.index, s.reput.index = s.index, s.index
	s.flushQueues = newFlushConsumeQueueService(o, s.queues, s.index, s.checkpoint, s.reput.dispatched.Load,
		s.queuesFailed)
	s.reput.wrote = s.flushQueues.wrote
	if o.ConfirmedOnly {
		s.reput.wrote = func() {
			s.flushQueues.wrote()
			s.checkpoint.signal.raise()
		}
	}
	s.writeCheckpoint = newCheckpointService(s.checkpoint, o, s.logFailed)
	s.clean = newCleanService(s)
	s.readAhead = newReadAheadService()
	s.readAhead.off.Store(o.DataReadAheadDisable)
	s.showsAtOnce = s.cl.shownAtOnce()
	switch f := s.cl.flusher.(type) {
	case *groupCommitService:
		f.flushed = s.reput.wake // only what is flushed is shown to consumers
	case *commitRealTimeService:
		f.committed = func() {
			s.reput.wake()
			s.grew()
		}
	}
}

// load is Open behind the lock.
func (s *MessageStore) load() error {
	if err := s.refuseForeign(); err != nil {
		return err
	}
	aborted, err := s.abort.exists()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if _, err := s.cl.files.load(); err != nil {
		return err
	}
	if err := s.queues.load(); err != nil {
		return err
	}
	damaged, err := s.checkpoint.load(s.o.Clock.Millis())
	if err != nil {
		return err
	}
	if damaged != nil {
		s.log.Warn("checkpoint ignored", "err", damaged)
	}
	if err := s.recover(!aborted); err != nil {
		return err
	}
	s.reads.setUp(&s.o, s.cl.maxOffset())
	return s.queues.finishRecovery()
}

// refuseForeign refuses what other kinds of Java stores leave and this one would take for empty: queues in RocksDB
// (storeType=defaultRocksDB).
func (s *MessageStore) refuseForeign() error {
	name := path.Join(s.o.RootDir, consumeQueueDirName, "CURRENT")
	if info, err := s.fs.Stat(name); err == nil && !info.IsDir() {
		return fmt.Errorf("store: %s: the queues are kept in RocksDB, which is not supported; start the Java broker "+
			"with storeType=default once, which builds them as files", name)
	}
	return nil
}

// Start writes `abort` and starts the services; from here on messages can be put.
func (s *MessageStore) Start() error {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.started:
		return nil
	}
	if err := s.cl.usePool(); err != nil {
		return err
	}
	if err := s.abort.write(); err != nil {
		return fmt.Errorf("store: write %s: %w", s.abort.path, err)
	}
	s.started = true
	s.cl.start()
	s.reput.start(s.cl.maxOffset())
	s.index.start() // behind the dispatch, which says how far it may go
	s.flushQueues.start()
	s.writeCheckpoint.start()
	s.clean.watchDisk()
	s.clean.start()
	s.readAhead.start()
	s.flags.clear(flagClosed)
	return nil
}

// Close refuses further puts, flushes and dispatches what there is, in Java's order, and releases the directory. If
// everything reached the disk and every queue has its entries, `abort` is removed, and the next Open is a fast one.
// Waiting Durable calls are answered. Bytes that readers still hold stay valid until they release them. A second call
// does nothing.
func (s *MessageStore) Close() error {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.flags.set(flagClosed, nil)
	var err error
	if s.started {
		err = s.stop()
	}
	return errors.Join(err, s.release())
}

// stop ends the services, each after those that feed it.
func (s *MessageStore) stop() error {
	s.clean.close()
	s.readAhead.close()
	err := s.stopCopying()
	s.cl.close()
	behind := s.reput.close()
	s.index.close()
	err = errors.Join(err, s.flushQueues.close())
	s.writeCheckpoint.close()
	err = errors.Join(err, s.checkpoint.flush())
	switch {
	case err != nil:
	case behind > 0 || s.flags.has(flagNotWritable|flagLogicsQueueError) || s.cl.flushedWhere() < s.cl.wroteEnd():
		s.log.Warn("store closed with work left, the next start is an abnormal one", "dispatchBehindBytes", behind,
			"flushedWhere", s.cl.flushedWhere(), "maxPhyOffset", s.cl.maxOffset())
	default:
		err = s.abort.remove()
	}
	if err != nil {
		err = fmt.Errorf("store: close: %w", err)
	}
	return err
}

// release unmaps the files, as far as nobody reads them, and lets go of the directory.
func (s *MessageStore) release() error {
	for _, cq := range s.queues.all() {
		cq.close()
	}
	s.cl.files.close()
	if s.cl.pool != nil {
		s.cl.pool.close()
	}
	return errors.Join(s.index.release(), s.lock.Close())
}

// logFailed makes the store read-only: a write to the log's disk failed and nobody knows what is on it.
func (s *MessageStore) logFailed(err error) { s.writeFailed(flagNotWritable, err) }

// queuesFailed is the same for queues and index. A full disk is left to the disk watch and another try.
func (s *MessageStore) queuesFailed(err error) {
	if diskFull(err) {
		s.log.Error("queues not flushed", "err", err)
		s.o.Listener.WriteError(err)
		return
	}
	s.writeFailed(flagLogicsQueueError, err)
}

func (s *MessageStore) writeFailed(flag runningFlag, err error) {
	if s.flags.set(flag, err) {
		s.log.Error("write failed, messages are refused from now on", "err", err)
	}
	s.o.Listener.WriteError(err)
}

// MinPhyOffset is the start of the CommitLog.
func (s *MessageStore) MinPhyOffset() PhyOffset { return s.cl.minOffset() }

// MaxPhyOffset is the end of what readers find in the CommitLog: where the next record goes, or the file behind it; with a
// transient store pool the end of what was committed (Java getMaxPhyOffset).
func (s *MessageStore) MaxPhyOffset() PhyOffset { return s.cl.maxOffset() }

// LastStoreTime is the store time (ms) of the last record that was put, which is ahead of the clock when that was set back.
// It waits for a put under way.
func (s *MessageStore) LastStoreTime() int64 { return s.cl.lastStoreTime() }

// FlushedWhere is the end of what a power cut cannot take.
func (s *MessageStore) FlushedWhere() PhyOffset { return s.cl.flushedWhere() }

// Flush brings what the CommitLog's files have to the disk now, also with ASYNC_FLUSH. It waits for the disk.
func (s *MessageStore) Flush() error { return s.cl.files.flush(0) }

// RemainHowManyDataToCommit is how many bytes are in write buffers only, 0 without a transient store pool.
func (s *MessageStore) RemainHowManyDataToCommit() int64 { return s.cl.remainToCommit() }

// RemainTransientStoreBufferNumbs is how many write buffers are free, MaxInt32 without a transient store pool.
func (s *MessageStore) RemainTransientStoreBufferNumbs() int {
	if s.cl.pool == nil {
		return math.MaxInt32
	}
	return s.cl.pool.available()
}

// TransientStorePoolDeficient tells that puts fail because no file can be made without a write buffer: the pool is empty
// and FastFailIfNoBufferInStorePool is set. Java says so whenever the pool is empty; ours then writes through the mapping.
func (s *MessageStore) TransientStorePoolDeficient() bool { return s.cl.alloc.deficient() }

// WriterPageFaults is how many pages a put touched before they were populated ahead of it, since Start. Each is a page
// fault under the put lock; it stays 0 while the helper keeps up.
func (s *MessageStore) WriterPageFaults() int64 { return s.cl.writerFaults.Load() }

// DispatchBehindBytes is how much of the log has no queue entries yet.
func (s *MessageStore) DispatchBehindBytes() int64 { return s.reput.behind() }

// Writable tells whether puts are accepted; why is ErrNotWritable with every reason (disk full, failed flush, closed).
func (s *MessageStore) Writable() (ok bool, why error) {
	why = s.flags.refusal(flagsThatStopWrites)
	return why == nil, why
}

// NotDurable is why Durable answered ServiceNotAvailable: ErrNotWritable with the failed flush, or ErrClosed. It is nil
// while flushes work.
func (s *MessageStore) NotDurable() error { return s.flags.refusal(flagsThatStopFlushes) }

// PageCacheBusy tells that a put has held the log for longer than OSPageCacheBusyTimeout (Java isOSPageCacheBusy).
func (s *MessageStore) PageCacheBusy() bool { return s.cl.busy() }

// LockTimeMillis is how long the put lock has been held, 0 while it is free.
func (s *MessageStore) LockTimeMillis() int64 { return s.cl.lockTimeMillis() }

// DeleteExpiredFiles deletes log files older than FileReservedTime in the next rounds of the clean-up, whatever the hour
// (request 329). The first round begins at once, in the background.
func (s *MessageStore) DeleteExpiredFiles() { s.clean.deleteNow() }
