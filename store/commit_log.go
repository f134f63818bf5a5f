package store

import (
	"errors"
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
//	locks        one stripe of the topic-queue locks, one put lock held for two clock-free patches and the copy
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

	active atomic.Pointer[mappedFile] // the file being written, nil before the first put

	putLock       sync.Mutex
	lastTimestamp int64 // store timestamp of the last record, ms; guarded by putLock
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
	cl.files = newMappedFileQueue(o, o.CommitLogDir, o.MappedFileSizeCommitLog, true)
	cl.alloc = newAllocateMappedFileService(cl.files, o)
	cl.populate = newPopulateAheadService(cl.alloc, &cl.active, o)
	if o.FlushDiskType == SyncFlush {
		cl.flusher = newGroupCommitService(cl.files, o, checkpoint, fail)
	} else {
		cl.flusher = newFlushRealTimeService(cl.files, o, checkpoint, fail)
	}
	return cl
}

// start begins the services; recovery is over.
func (cl *commitLog) start() {
	if last := cl.files.last(); last != nil {
		cl.active.Store(last)
		if err := cl.ready(last); err != nil {
			cl.o.Log.Warn("the rest of the last commit log file has no room on the disk", "file", last.path, "err", err)
		}
	}
	cl.alloc.start()
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

// put places a run of encoded records, one behind the other in the same file, and fills their holes: physical offsets,
// queue offsets from q on in steps of step, one store timestamp. All or nothing. Errors: errLogBusy, errTooLongForFile, or
// whatever kept the next file from being made, wrapped in errNoFile.
func (cl *commitLog) put(run []byte, q, step QueueOffset) (phy PhyOffset, storeTimestamp int64, err error) {
	if int64(len(run))+codec.BlankRecordBytes > cl.files.fileSize {
		return 0, 0, errTooLongForFile
	}
	for {
		if !cl.putLock.TryLock() {
			if cl.busy() {
				return 0, 0, errLogBusy
			}
			cl.putLock.Lock()
		}
		phy, storeTimestamp, roll, err := cl.place(run, q, step)
		cl.putLock.Unlock()
		if err != nil {
			return 0, 0, errors.Join(errNoFile, err)
		}
		if roll == nil {
			return phy, storeTimestamp, nil
		}
		// Somebody else may fill the new file before we come back; each turn is a whole file of progress.
		if err := cl.alloc.wait(roll.from); err != nil {
			return 0, 0, errors.Join(errNoFile, err)
		}
	}
}

// place is put under the lock.
func (cl *commitLog) place(run []byte, q, step QueueOffset) (PhyOffset, int64, *rollNeeded, error) {
	now := cl.o.Clock.Millis()
	cl.lockedAt.Store(now)
	defer cl.lockedAt.Store(0)
	if cl.flags.has(flagClosed) {
		return 0, 0, nil, ErrClosed
	}
	mf, roll, err := cl.room(int64(len(run)))
	if mf == nil {
		return 0, 0, roll, err
	}
	cl.lastTimestamp = max(now, cl.lastTimestamp)
	pos := mf.wrotePosition.Load()
	phy := PhyOffset(mf.fileFrom + pos)
	for at := 0; at < len(run); q += step {
		size, _ := codec.RecordSize(run[at:])
		codec.PatchRecord(run[at:at+size], q, phy+PhyOffset(at), cl.lastTimestamp)
		at += size
	}
	copy(mf.data()[pos:], run)
	end := pos + int64(len(run))
	mf.wrotePosition.Store(end)
	mf.storeTimestamp.Store(cl.lastTimestamp)
	cl.populate.passed(mf.fileFrom + end)
	return phy, cl.lastTimestamp, nil, nil
}

// room is the file that takes need bytes and the blank behind them. When the active file has less, the rest of it
// becomes a blank record and the spare file is next; roll says which file is missing.
func (cl *commitLog) room(need int64) (mf *mappedFile, roll *rollNeeded, err error) {
	mf = cl.active.Load()
	from := int64(0)
	if mf != nil {
		rest := mf.size - mf.wrotePosition.Load()
		if need+codec.BlankRecordBytes <= rest {
			if mf.reserved < mf.size {
				if err := cl.ready(mf); err != nil {
					return nil, nil, err
				}
			}
			return mf, nil, nil
		}
		from = mf.fileFrom + mf.size
	}
	next := cl.alloc.take(from)
	if next == nil {
		return nil, &rollNeeded{from}, nil
	}
	if mf != nil {
		if err := cl.blank(mf); err != nil {
			return nil, nil, err // next stays unused; the alloc service makes it anew
		}
	}
	cl.files.add(next)
	cl.active.Store(next)
	cl.populate.wake()
	return next, nil, nil
}

// blank marks the rest of a file as unused (Java BLANK_MAGIC_CODE): 8 bytes are written, all count.
func (cl *commitLog) blank(mf *mappedFile) error {
	if mf.reserved < mf.size {
		if err := cl.ready(mf); err != nil {
			return err
		}
	}
	pos := mf.wrotePosition.Load()
	if rest := mf.size - pos; rest >= codec.BlankRecordBytes {
		codec.AppendBlank(mf.data()[pos:pos], int(rest))
	}
	mf.wrotePosition.Store(mf.size)
	return nil
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

// flushedWhere is the end of what is durable.
func (cl *commitLog) flushedWhere() PhyOffset { return PhyOffset(cl.files.flushedWhere.Load()) }

// confirmOffset is how far messages may be shown to consumers (Java 5 getConfirmOffset): with SYNC_FLUSH only what a
// power cut cannot take back.
func (cl *commitLog) confirmOffset() PhyOffset {
	if cl.o.FlushDiskType == SyncFlush {
		return cl.flushedWhere()
	}
	return cl.maxOffset()
}

// diskFull tells whether an error is the disk's lack of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
