package store

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"skylark/codec"
)

// commitLog is the run of files that holds every record (Java CommitLog).
//
// # One put, in four resources
//
//	copies       the body twice: into the pooled scratch record before any lock, from there into the mapping
//	allocations  none (a batch: its list of offsets)
//	syscalls     none; the clock is a vdso read. A wake-up only when a service sleeps or a populate mark is passed
//	locks        the put lock, held for a clock read, the patches and the copy
//
// Java takes a topic-queue lock around the whole and encodes inside it, because the queue offset is part of the encoding.
// Ours is a hole that is filled under the put lock, where the queue's next offset is read and moved as well: one lock
// fewer, and the records of a queue are in the log in the order of their offsets all the same.
//
// The copy stays inside the put lock. Copying outside, into a claimed range that is published in order, was considered:
// a 1 KiB copy takes 30 ns, less than the second handshake would, and two cores have one writer each at most.
//
// # The put lock
//
// Whoever holds it owns the end of the log: the active file, its positions and the monotone store timestamp. It is never
// held across I/O: when the next file is not there, put lets go, waits for the AllocateMappedFileService and tries again.
type commitLog struct {
	o     *Options
	files *mappedFileQueue
	flags *runningFlags

	alloc    *allocateMappedFileService
	populate *populateAheadService
	flusher  flusher
	pool     *transientStorePool // nil without
	// writerFaults counts the pages that the writer touched before the populateAheadService did.
	writerFaults atomic.Int64

	active atomic.Pointer[mappedFile] // the file being written, nil before the first put

	putLock       sync.Mutex
	lastTimestamp int64 // store timestamp of the last record, ms; guarded by putLock
	// epoch counts the calls of stopPuts: a queue found in an earlier one may be gone.
	epoch atomic.Uint64
	// following tells that the log is a copy of a master's (see MessageStore.Follow).
	following atomic.Bool
	// bulk tells that a slave's log is written with system calls (see copyPace).
	bulk atomic.Bool
	// confirmLimit bounds what consumers of a slave are shown to whole records, confirmTo what anybody's are (ConfirmTo);
	// MaxInt64 without a bound.
	confirmLimit, confirmTo atomic.Int64
	// lockedAt is when putLock was taken, ms; 0 while it is free (Java beginTimeInLock).
	lockedAt atomic.Int64
}

// maxLockMillis is Java's bound of a plausible lock time.
const maxLockMillis = 10_000_000

// Errors of put.
var (
	errLogBusy        = errors.New("store: the put lock is held for too long: the writer waits for the disk")
	errTooLongForFile = errors.New("store: message is longer than a commit log file can hold")
	errNoFile         = errors.New("store: no commit log file to write to")
	errStaleQueue     = errors.New("store: queue was looked up before a deletion")
)

// flusher is GroupCommitService or FlushRealTimeService.
type flusher interface {
	start()
	// appended tells that the log grew; cheap when the service is awake.
	appended()
	// durable is MessageStore.Durable.
	durable(end PhyOffset, timeout time.Duration, done func(PutStatus)) bool
	close()
}

// rollNeeded is the answer of place when the next file has to be waited for.
type rollNeeded struct{ from int64 }

func newCommitLog(o *Options, flags *runningFlags, checkpoint *storeCheckpoint, fail func(error)) *commitLog {
	cl := &commitLog{o: o, flags: flags}
	cl.confirmLimit.Store(math.MaxInt64)
	cl.confirmTo.Store(math.MaxInt64)
	cl.files = newMappedFileQueue(o, o.CommitLogDir, o.MappedFileSizeCommitLog, true)
	cl.alloc = newAllocateMappedFileService(cl.files, o)
	cl.populate = newPopulateAheadService(cl.alloc, &cl.active, &cl.following, &cl.bulk, o)
	flush := func() *flushRealTimeService { return newFlushRealTimeService(cl.files, o, checkpoint, fail) }
	switch {
	case o.FlushDiskType == SyncFlush:
		cl.flusher = newGroupCommitService(cl.files, o, checkpoint, fail)
	case o.TransientStorePoolEnable:
		cl.flusher = newCommitRealTimeService(cl.files, o, flush(), fail)
	default:
		cl.flusher = flush()
	}
	return cl
}

// usePool makes the write buffers, before start. Recovery is over.
func (cl *commitLog) usePool() error {
	if !cl.o.TransientStorePoolEnable {
		return nil
	}
	pool, err := newTransientStorePool(cl.o.TransientStorePoolSize, cl.o.MappedFileSizeCommitLog, cl.o.Log)
	if err != nil {
		return err
	}
	cl.pool, cl.alloc.pool = pool, pool
	cl.files.useBuffers()
	return nil
}

// start begins the services; recovery is over.
func (cl *commitLog) start() {
	last := cl.files.last()
	if last != nil {
		cl.active.Store(last)
		if err := cl.ready(last); err != nil {
			cl.o.Log.Warn("the rest of the last commit log file has no room on the disk", "file", last.path, "err", err)
		} else {
			// First: blocks that an earlier run has written ahead are read, with read-ahead.
			ahead(last, min(last.wrotePosition.Load()+populateChunk, last.size), false, cl.o)
			last.startZeros(cl.o)
		}
	}
	cl.alloc.start(last)
	cl.populate.start()
	cl.flusher.start()
}

// ready makes a file of an earlier run writable to its end. Java leaves sparse files, so this may find the disk full.
func (cl *commitLog) ready(mf *mappedFile) error { return mf.reserve(mf.size) }

// close stops the services; what was written is flushed unless a flush failed before. Appends are refused by now.
func (cl *commitLog) close() {
	cl.putLock.Lock() // the last put is out
	cl.active.Store(nil)
	cl.putLock.Unlock()
	cl.populate.close()
	cl.alloc.close()
	cl.flusher.close()
}

// placed is where a run of records went.
type placed struct {
	phyOffset      PhyOffset
	queueOffset    QueueOffset
	storeTimestamp int64
	// sinceMillis is when the put began to wait for the lock or a file, or had the lock.
	sinceMillis int64
	waited      bool
}

// put places a run of encoded records, one behind the other in the same file, and fills their holes: physical offsets,
// queue offsets from next on (all 0 if next is nil), one store timestamp; next moves on. All or nothing. Errors:
// errLogBusy, errTooLongForFile, errStaleQueue (next was found before epoch changed), or whatever kept the next file from
// being made, wrapped in errNoFile.
func (cl *commitLog) put(run []byte, next *atomic.Int64, epoch uint64) (placed, error) {
	return cl.putRun(run, next, epoch, nil)
}

// putRun is put of a run that may have a numbering, which can be refused with errOffsetWidth.
func (cl *commitLog) putRun(run []byte, next *atomic.Int64, epoch uint64, x *numbering) (placed, error) {
	if int64(len(run))+codec.BlankRecordBytes > cl.files.fileSize {
		return placed{}, errTooLongForFile
	}
	since := int64(0)
	for {
		if !cl.putLock.TryLock() {
			if cl.busy() {
				return placed{}, errLogBusy
			}
			if since == 0 {
				since = cl.o.Clock.Millis()
			}
			cl.putLock.Lock()
		}
		at, roll, err := cl.place(run, next, epoch, x)
		cl.putLock.Unlock()
		if err != nil {
			return placed{}, err
		}
		if roll == nil {
			if since != 0 {
				at.sinceMillis, at.waited = since, true
			}
			return at, nil
		}
		if since == 0 {
			since = cl.o.Clock.Millis()
		}
		// Somebody else may fill the new file before we come back; each turn is a whole file of progress.
		if err := cl.alloc.wait(roll.from); err != nil {
			return placed{}, fmt.Errorf("%w: %w", errNoFile, err)
		}
	}
}

// place is putRun under the lock.
func (cl *commitLog) place(run []byte, next *atomic.Int64, epoch uint64, x *numbering) (placed, *rollNeeded, error) {
	now := cl.o.Clock.Millis()
	cl.lockedAt.Store(now)
	defer cl.lockedAt.Store(0)
	if err := cl.flags.refusal(flagsUnderLock); err != nil {
		return placed{}, nil, err
	}
	if epoch != cl.epoch.Load() {
		return placed{}, nil, errStaleQueue
	}
	if x != nil && !x.fits() {
		return placed{}, nil, errOffsetWidth
	}
	mf, roll, err := cl.room(int64(len(run)))
	if mf == nil {
		return placed{}, roll, err
	}
	cl.lastTimestamp = max(now, cl.lastTimestamp)
	pos := mf.wrotePosition.Load()
	at := placed{phyOffset: PhyOffset(mf.fileFrom + pos), storeTimestamp: cl.lastTimestamp, sinceMillis: now}
	step := QueueOffset(0)
	if next != nil {
		at.queueOffset, step = QueueOffset(next.Load()), 1
	}
	if x != nil {
		x.fill(run)
		step = QueueOffset(x.step)
	}
	q := at.queueOffset
	for from := 0; from < len(run); q += step {
		size, _ := codec.RecordSize(run[from:])
		codec.PatchRecord(run[from:from+size], q, at.phyOffset+PhyOffset(from), at.storeTimestamp)
		from += size
	}
	cl.write(mf, pos, run, at.storeTimestamp)
	if next != nil {
		next.Store(int64(q))
	}
	if x != nil {
		x.placed()
	}
	return at, nil, nil
}

// write copies finished records to the end of the log, which is at pos of mf. The caller holds the put lock.
func (cl *commitLog) write(mf *mappedFile, pos int64, run []byte, storeTimestamp int64) {
	end := pos + int64(len(run))
	if populated := mf.populated.Load(); end > populated {
		cl.writerFaults.Add(pagesTouched(max(pos, populated), end))
		mf.claim(end)
	}
	copy(mf.writable()[pos:end], run)
	mf.wrotePosition.Store(end)
	mf.storeTimestamp.Store(storeTimestamp)
	cl.populate.passed(mf.fileFrom + end)
}

// lastStoreTime is the store time (ms) of the last record.
func (cl *commitLog) lastStoreTime() int64 {
	cl.putLock.Lock()
	defer cl.putLock.Unlock()
	return cl.lastTimestamp
}

// stopPuts runs f, which takes queues away, while no message is between its queue and the log. A put that has found its
// queue before looks again.
func (cl *commitLog) stopPuts(f func()) {
	cl.putLock.Lock()
	defer cl.putLock.Unlock()
	f()
	cl.epoch.Add(1)
}

// room is the file that takes need bytes and the blank behind them. When the active file has less, the rest of it
// becomes a blank record and the spare file is next; roll says which file is missing.
func (cl *commitLog) room(need int64) (mf *mappedFile, roll *rollNeeded, err error) {
	mf = cl.active.Load()
	if mf == nil {
		next := cl.alloc.take(0)
		if next == nil {
			return nil, &rollNeeded{0}, nil
		}
		return cl.begin(next), nil, nil
	}
	if mf.reserved < mf.size {
		if err := cl.ready(mf); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errNoFile, err)
		}
	}
	pos := mf.wrotePosition.Load()
	rest := mf.size - pos
	if need+codec.BlankRecordBytes <= rest {
		return mf, nil, nil
	}
	from := mf.fileFrom + mf.size
	next := cl.alloc.take(from)
	if next == nil {
		return nil, &rollNeeded{from}, nil
	}
	// The rest becomes a blank record (Java BLANK_MAGIC_CODE): 8 bytes are written, all count.
	if rest >= codec.BlankRecordBytes {
		mf.claim(pos + codec.BlankRecordBytes)
		codec.AppendBlank(mf.writable()[pos:pos], int(rest))
		pos += codec.BlankRecordBytes
	}
	mf.fill(pos)
	return cl.begin(next), nil, nil
}

// begin makes a new file the active one.
func (cl *commitLog) begin(next *mappedFile) *mappedFile {
	if left := cl.active.Load(); left != nil {
		cl.unlockLater(left)
	}
	cl.files.add(next)
	cl.active.Store(next)
	cl.populate.wake()
	return next
}

// canAppend is MessageStore.CanAppend: room in pages that are in memory.
func (cl *commitLog) canAppend(sizeBytes int64) bool {
	mf := cl.active.Load()
	if mf != nil {
		end := mf.wrotePosition.Load() + sizeBytes
		if end+codec.BlankRecordBytes <= mf.size {
			return end <= mf.populated.Load()
		}
	}
	next := cl.alloc.ready.Load()
	return next != nil && sizeBytes <= next.populated.Load()
}

// busy tells that a put has held the lock for too long: it waits for the disk in a page fault.
func (cl *commitLog) busy() bool {
	return cl.lockTimeMillis() > cl.o.OSPageCacheBusyTimeout.Milliseconds()
}

// lockTimeMillis is how long the put lock has been held, 0 when it is free. Java ignores 10 000 s and more: a clock that
// was set back.
func (cl *commitLog) lockTimeMillis() int64 {
	at := cl.lockedAt.Load()
	if at == 0 {
		return 0
	}
	if held := cl.o.Clock.Millis() - at; held > 0 && held < maxLockMillis {
		return held
	}
	return 0
}

// slice is the n bytes at p, of one file; the caller owns one reference of mf when ok.
func (cl *commitLog) slice(p PhyOffset, n int) (b []byte, mf *mappedFile, ok bool) {
	return cl.files.slice(int64(p), int64(n))
}

// minOffset and maxOffset are the ends of the log.
func (cl *commitLog) minOffset() PhyOffset { return PhyOffset(cl.files.minOffset()) }
func (cl *commitLog) maxOffset() PhyOffset { return PhyOffset(cl.files.maxOffset()) }

// wroteEnd is the end of what was put, which readers may not see yet.
func (cl *commitLog) wroteEnd() PhyOffset { return PhyOffset(cl.files.wroteEnd()) }

// flushedWhere is the end of what is durable.
func (cl *commitLog) flushedWhere() PhyOffset { return PhyOffset(cl.files.flushedWhere.Load()) }

// confirmOffset is how far messages may be shown to consumers (Java 5 getConfirmOffset): with SYNC_FLUSH only what a
// power cut cannot take back; on a slave only whole records; with ConfirmTo only what that says.
func (cl *commitLog) confirmOffset() PhyOffset {
	limit := PhyOffset(min(cl.confirmLimit.Load(), cl.confirmTo.Load()))
	if cl.o.FlushDiskType == SyncFlush {
		return min(limit, cl.flushedWhere())
	}
	return min(limit, cl.maxOffset())
}

// commitNow shows readers what is in write buffers. A failure is left to the service whose work this is: it will meet it.
func (cl *commitLog) commitNow() {
	if err := cl.files.commit(); err != nil {
		cl.o.Log.Error("write buffers not committed", "err", err)
		return
	}
	if s, ok := cl.flusher.(*commitRealTimeService); ok {
		s.committed()
		s.flush.appended()
	}
}

// shownAtOnce tells that readers see a record as soon as it is put: neither a flush nor a commit has to come first.
func (cl *commitLog) shownAtOnce() bool {
	return cl.o.FlushDiskType == AsyncFlush && !cl.o.TransientStorePoolEnable
}

// remainToCommit is how much is in write buffers only, and remainToFlush how much of the files is not durable (Java
// remainHowManyDataToCommit, remainHowManyDataToFlush).
func (cl *commitLog) remainToCommit() int64 {
	committed := cl.files.maxOffset() // first: the other only grows
	return cl.files.wroteEnd() - committed
}

func (cl *commitLog) remainToFlush() int64 {
	return max(0, cl.files.maxOffset()-cl.files.flushedWhere.Load())
}

// earliestTimestamp is the store time of the first record, -1 without any (Java getEarliestMessageTime).
func (cl *commitLog) earliestTimestamp() int64 {
	first := cl.files.first()
	if first == nil || !first.Acquire() {
		return -1
	}
	defer first.Release()
	rec, err := codec.ParseRecord(first.data()[:first.readPosition()], false)
	if err != nil || rec.IsBlank() {
		return -1
	}
	return rec.StoreTimestamp
}

// diskFull tells whether an error is the disk's lack of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
