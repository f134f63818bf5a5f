package store

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

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
	// appendMu is held by AppendLog, so that nobody ends the store or the role in the middle of it. It comes before putLock.
	appendMu sync.Mutex
	copyTo   copyFile // this and pace are owned by the holder of appendMu
	pace     copyPace
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
// is called before Start, or while no put is under way. With Options.ConfirmedOnly they see nothing that comes before
// ConfirmTo says so.
func (s *MessageStore) Follow() {
	s.flags.set(flagSlave, nil)
	s.cl.following.Store(true)
	s.cl.putLock.Lock()
	defer s.cl.putLock.Unlock()
	s.tail = tailScan{next: s.cl.wroteEnd(), storeTimestamp: s.cl.lastTimestamp}
	s.cl.confirmLimit.Store(int64(s.tail.next))
	if s.o.ConfirmedOnly {
		s.cl.boundConfirmed(s.tail.next)
	}
}

// Following tells that the store is a slave's.
func (s *MessageStore) Following() bool { return s.cl.following.Load() }

// Lead makes a slave's store take messages. What it got of a last record that is not whole is cut off, and the queues go
// on where they end, behind records that have no entries yet because they are not confirmed. Of those that are, the caller
// has seen by DispatchBehindBytes that they have.
func (s *MessageStore) Lead() error {
	if !s.Following() {
		return nil
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if _, err := s.cutTail(); err != nil {
		return err
	}
	if err := s.numberQueues(); err != nil {
		return err
	}
	if err := s.copyTo.close(); err != nil {
		s.log.Warn("file of the log not closed", "err", err) // what was written is in its pages, a flush tells of failures
	}
	s.cl.bulk.Store(false)
	s.cl.confirmLimit.Store(math.MaxInt64)
	s.cl.following.Store(false)
	s.flags.clear(flagSlave)
	s.cl.populate.wake()
	return nil
}

// numberQueues has the queues number messages behind all that the log has.
func (s *MessageStore) numberQueues() (err error) {
	s.queues.writeMu.Lock()
	defer s.queues.writeMu.Unlock()
	s.cl.stopPuts(func() {
		for _, cq := range s.queues.all() {
			_, end := cq.bounds()
			cq.next.Store(end)
		}
		err = s.queues.numberOn(s.reput.where())
		s.cl.lastTimestamp = max(s.cl.lastTimestamp, s.tail.storeTimestamp)
	})
	return err
}

// CutTail cuts what a slave got of a last record that is not whole, which nobody was shown, and gives the end of the log.
func (s *MessageStore) CutTail() (PhyOffset, error) {
	if !s.Following() {
		return 0, ErrNotSlave
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	return s.cutTail()
}

// cutTail is CutTail under appendMu. Everything before the cut can be shown afterwards: it is committed, and flushed where
// that is what consumers wait for. The file is not written anew, as TruncateLog does: a new master is waited for.
func (s *MessageStore) cutTail() (PhyOffset, error) {
	if err := s.cl.files.commit(); err != nil {
		return 0, err
	}
	end := s.tail.next
	if wrote := s.cl.wroteEnd(); end >= wrote {
		end = wrote
	} else if err := s.cutInPlace(end); err != nil {
		return 0, err
	}
	if s.o.FlushDiskType == SyncFlush {
		if err := s.cl.files.flush(0); err != nil {
			return 0, err
		}
	}
	s.reput.wake()
	return end, nil
}

// cutInPlace takes back the last bytes of the last file, which are committed and were shown to nobody.
func (s *MessageStore) cutInPlace(end PhyOffset) error {
	q := s.cl.files
	mf := q.last()
	if int64(end) < mf.fileFrom {
		return s.TruncateLog(end)
	}
	s.cl.putLock.Lock()
	defer s.cl.putLock.Unlock()
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	q.commitMu.Lock()
	defer q.commitMu.Unlock()
	pos, wrote := int64(end)-mf.fileFrom, mf.wrotePosition.Load()
	s.log.Info("what there is of the last record is cut", "phyOffset", end, "bytes", wrote-pos)
	mf.wrotePosition.Store(pos)
	mf.flushedPosition.Store(min(pos, mf.flushedPosition.Load()))
	q.flushedWhere.Store(min(int64(end), q.flushedWhere.Load()))
	q.committedWhere.Store(int64(end)) // also of a file without a buffer: it had committed all of it
	s.cl.wasCut()
	if mf.buffered {
		mf.committedPosition.Store(pos)
		if _, err := mf.out.WriteAt(make([]byte, wrote-pos), pos); err != nil {
			return fmt.Errorf("store: clear %s from %d: %w", mf.path, pos, err)
		}
		return nil
	}
	return mf.zero(pos, wrote)
}

// ConfirmTo is a bound of what consumers are shown, besides what is there, on a master and on a slave: in a group with
// automatic switching only what all of the SyncStateSet have. math.MaxInt64 is none.
func (s *MessageStore) ConfirmTo(p PhyOffset) {
	s.cl.confirmTo.Store(int64(p))
	s.reput.wake()
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
