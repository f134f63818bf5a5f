package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/zerocopy"
)

// Errors of AppendLog: the log of the slave and what its master sends do not fit.
var (
	// ErrLogGap answers bytes that do not start where the log ends.
	ErrLogGap = errors.New("store: the bytes do not start at the end of the log")
	// ErrForeignLog answers bytes that are no records, or records of other offsets: another log.
	ErrForeignLog = errors.New("store: the bytes are no records of this log")
	// ErrNotSlave answers AppendLog and TruncateLog while the store takes messages itself.
	ErrNotSlave = errors.New("store: the store follows no master")
)

// Replicas is what a put waits for besides the disk (package ha). The store asks it for messages with WaitStoreMsgOK only.
type Replicas interface {
	// Admit tells, before a message is stored, whether it can be copied as often as promised: PutOK, or
	// InSyncReplicasNotEnough. It does not wait and allocates nothing.
	Admit() PutStatus
	// Copied tells whether everything before end is on as many replicas as promised. If not, done is called exactly once,
	// as with MessageStore.Durable: with PutOK, FlushSlaveTimeout or SlaveNotAvailable, maybe before Copied returns.
	Copied(end PhyOffset, done func(PutStatus)) bool
}

// replication is what a MessageStore keeps of its part in a group of replicas.
type replication struct {
	// replicas is nil on a broker that promises no copies: nothing is asked then. Set before Start.
	replicas Replicas
	// watch hears that the log grew; nil while nobody copies it.
	watch atomic.Pointer[func()]
	tail  tailScan
}

// tailScan follows the records at the end of a slave's log, which comes in pieces that end anywhere. Owned by whoever
// appends, under the put lock.
type tailScan struct {
	next           PhyOffset // of the first record that is not all there
	storeTimestamp int64     // of the record before it, ms
}

// SetReplicas makes puts wait for copies, from before Start on.
func (s *MessageStore) SetReplicas(r Replicas) { s.replicas = r }

// WatchLog has f called whenever there may be more to read with ReadLog, by whoever put it: it must not wait. nil ends it.
func (s *MessageStore) WatchLog(f func()) {
	if f == nil {
		s.watch.Store(nil)
		return
	}
	s.watch.Store(&f)
}

// grew tells who copies the log.
func (s *MessageStore) grew() {
	if f := s.watch.Load(); f != nil {
		(*f)()
	}
}

// ReadLog is a piece of the CommitLog from an offset on, in one file, as readers see it: up to maxBytes, with one
// reference that is the caller's (seg.Owner). false: there is nothing, because the log ends there or no file holds it.
func (s *MessageStore) ReadLog(from PhyOffset, maxBytes int) (seg zerocopy.Segment, ok bool) {
	mf := s.cl.files.find(int64(from))
	if mf == nil || from >= s.cl.maxOffset() {
		return seg, false
	}
	pos := int64(from) - mf.fileFrom
	n := min(mf.readPosition()-pos, int64(maxBytes), int64(s.cl.maxOffset()-from))
	if n <= 0 {
		return seg, false
	}
	b, ok := mf.slice(pos, n)
	if !ok {
		return seg, false
	}
	return zerocopy.Segment{Bytes: b, Owner: mf}, true
}

// LogFileBytes is the length of a CommitLog file, which is the same on master and slave.
func (s *MessageStore) LogFileBytes() int64 { return s.cl.files.fileSize }

// Follow makes the store a slave's: puts are refused, the log grows by AppendLog, and consumers see only whole records. It
// is called before Start, or while no put is under way.
func (s *MessageStore) Follow() {
	s.flags.set(flagSlave, nil)
	s.cl.following.Store(true)
	s.cl.putLock.Lock()
	defer s.cl.putLock.Unlock()
	s.tail = tailScan{next: s.cl.wroteEnd(), storeTimestamp: s.cl.lastTimestamp}
	s.cl.confirmLimit.Store(int64(s.tail.next))
}

// Following tells that the store is a slave's.
func (s *MessageStore) Following() bool { return s.cl.following.Load() }

// Lead makes a slave's store take messages. What it got of a last record that is not whole is cut off, and the queues go
// on where they end; it waits until all records have their entries, which the caller has seen by DispatchBehindBytes.
func (s *MessageStore) Lead() error {
	if !s.Following() {
		return nil
	}
	if end := s.tail.next; end < s.cl.wroteEnd() {
		if err := s.TruncateLog(end); err != nil {
			return err
		}
	}
	if behind := s.DispatchBehindBytes(); behind > 0 {
		return fmt.Errorf("store: %d bytes of the log have no queue entries yet", behind)
	}
	s.cl.stopPuts(func() {
		for _, cq := range s.queues.all() {
			_, end := cq.bounds()
			cq.next.Store(end)
		}
		s.cl.lastTimestamp = max(s.cl.lastTimestamp, s.tail.storeTimestamp)
	})
	s.cl.confirmLimit.Store(math.MaxInt64)
	s.cl.following.Store(false)
	s.flags.clear(flagSlave)
	s.cl.populate.wake()
	return nil
}

// ConfirmTo is a bound of what consumers are shown, besides what is there: a master in a group with automatic switching
// shows only what the others have. math.MaxInt64 is none.
func (s *MessageStore) ConfirmTo(p PhyOffset) {
	s.cl.confirmLimit.Store(int64(p))
	s.reput.wake()
}

// AppendLog puts bytes of the master's log behind ours (Java CommitLog.appendData). at is where they start there: the end
// of our log, or, without a log, the start of a file. They may end within a record but not cross a file. One goroutine
// calls it. It waits for a file that has to be made, not for the disk. Errors: ErrLogGap, ErrForeignLog (nothing of the
// foreign record is shown to anybody), ErrNotWritable when the disk is full or failed.
//
//	per piece   one lock, one copy, no allocation
//	per record  8 bytes of it read to find the next, and its offset compared
func (s *MessageStore) AppendLog(at PhyOffset, b []byte) error {
	if !s.Following() {
		return ErrNotSlave
	}
	if s.flags.blocked(flagSlave) {
		return s.flags.whyNotWritable()
	}
	for {
		s.cl.putLock.Lock()
		roll, err := s.appendPiece(at, b)
		s.cl.putLock.Unlock()
		if roll == nil {
			if err == nil {
				s.cl.flusher.appended()
				s.reput.wake()
				s.grew()
			}
			return err
		}
		if err := s.cl.alloc.wait(roll.from); err != nil {
			return fmt.Errorf("%w: %w", errNoFile, err)
		}
	}
}

// appendPiece is AppendLog under the put lock.
func (s *MessageStore) appendPiece(at PhyOffset, b []byte) (*rollNeeded, error) {
	mf, roll, err := s.cl.fileAt(int64(at))
	if mf == nil || len(b) == 0 {
		return roll, err
	}
	pos := int64(at) - mf.fileFrom
	end := pos + int64(len(b))
	if end > mf.size {
		return nil, fmt.Errorf("%w: [%d,+%d) crosses the end of file %s; mappedFileSizeCommitLog must be that of the master",
			ErrForeignLog, at, len(b), mf.path)
	}
	if end == mf.size {
		mf.contentEnd = end // published by wrotePosition
	}
	s.cl.write(mf, pos, b, s.tail.storeTimestamp)
	err = s.tail.scan(mf)
	mf.storeTimestamp.Store(s.tail.storeTimestamp)
	s.cl.lastTimestamp = max(s.cl.lastTimestamp, s.tail.storeTimestamp)
	s.cl.confirmLimit.Store(int64(s.tail.next))
	return nil, err
}

// fileAt is the file to which a piece of a master's log goes. The caller holds the put lock.
func (cl *commitLog) fileAt(at int64) (mf *mappedFile, roll *rollNeeded, err error) {
	last := cl.files.last()
	switch {
	case last == nil && at%cl.files.fileSize != 0:
		return nil, nil, fmt.Errorf("%w: %d is not the start of a file of %d bytes; mappedFileSizeCommitLog must be that of "+
			"the master", ErrLogGap, at, cl.files.fileSize)
	case last != nil && at != last.end():
		return nil, nil, fmt.Errorf("%w: they start at %d, the log ends at %d", ErrLogGap, at, last.end())
	case last != nil && !last.full():
		if last.reserved < last.size {
			if err := cl.ready(last); err != nil {
				return nil, nil, fmt.Errorf("%w: %w", errNoFile, err)
			}
		}
		return last, nil, nil
	}
	next := cl.alloc.take(at)
	if next == nil {
		return nil, &rollNeeded{at}, nil
	}
	return cl.begin(next), nil, nil
}

// scan moves over the records that are whole by now. mf is the last file.
func (t *tailScan) scan(mf *mappedFile) error {
	data, wrote := mf.writable(), mf.wrotePosition.Load()
	if t.next < PhyOffset(mf.fileFrom) {
		t.next = PhyOffset(mf.fileFrom) // the log begins here
	}
	for {
		pos := int64(t.next) - mf.fileFrom
		switch rest := mf.size - pos; {
		case rest < codec.BlankRecordBytes && wrote == mf.size:
			t.next = PhyOffset(mf.fileFrom + mf.size)
			return nil
		case wrote-pos < codec.BlankRecordBytes:
			return nil
		}
		size, magic := codec.RecordSize(data[pos:wrote])
		if magic == codec.MagicBlank {
			size = int(mf.size - pos)
		} else if size < codec.MinRecordBytes || int64(size) > mf.size-pos || magic != codec.MagicV1 && magic != codec.MagicV2 {
			return fmt.Errorf("%w: no record at %d (size %d, magic %#x)", ErrForeignLog, t.next, size, uint32(magic))
		}
		if pos+int64(size) > wrote {
			return nil
		}
		if magic != codec.MagicBlank {
			phyOffset, timestamp := recordPlace(data[pos:wrote])
			if phyOffset != t.next {
				return fmt.Errorf("%w: the record at %d says that it is at %d", ErrForeignLog, t.next, phyOffset)
			}
			t.storeTimestamp = timestamp
		}
		t.next += PhyOffset(size)
	}
}

// recordPlace reads where a record, of which at least MinRecordBytes are there, says that it is, and its store time.
func recordPlace(b []byte) (p PhyOffset, storeTimestamp int64) {
	be := binary.BigEndian
	at := recordStoreTimestampAt
	if int32(be.Uint32(b[recordSysFlagAt:]))&codec.SysFlagBornHostV6 != 0 {
		at += 12
	}
	return PhyOffset(be.Uint64(b[28:])), int64(be.Uint64(b[at:]))
}

// durableOnReplicas is Durable of a store with replicas: both must be true.
func (s *MessageStore) durableOnReplicas(end PhyOffset, timeout time.Duration, done func(PutStatus)) bool {
	w := &jointWait{done: done}
	w.left.Store(2)
	if c, ok := s.cl.flusher.(*commitRealTimeService); ok {
		c.hurry()
	}
	flushed := s.cl.flusher.durable(end, timeout, w.flushed)
	copied := s.replicas.Copied(end, w.copied)
	switch {
	case flushed && copied:
		return true
	case flushed || copied:
		w.leave()
	}
	return false
}

// jointWait is a put that waits for the disk and for replicas. Of two failures the replicas' is answered, as in Java.
type jointWait struct {
	left        atomic.Int32
	disk, slave atomic.Uint32 // PutStatus
	done        func(PutStatus)
}

func (w *jointWait) flushed(status PutStatus) {
	w.disk.Store(uint32(status))
	w.leave()
}

func (w *jointWait) copied(status PutStatus) {
	w.slave.Store(uint32(status))
	w.leave()
}

func (w *jointWait) leave() {
	if w.left.Add(-1) > 0 {
		return
	}
	status := PutStatus(w.slave.Load())
	if status == PutOK || PutStatus(w.disk.Load()) == ServiceNotAvailable {
		status = PutStatus(w.disk.Load())
	}
	w.done(status)
}
