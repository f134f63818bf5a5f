package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"skylark/codec"
	"skylark/internal/vfs"
)

// tailScan follows the records at the end of a slave's log, which comes in pieces that end anywhere. Owned by whoever
// appends, under the put lock.
type tailScan struct {
	next           PhyOffset // of the first record that is not all there
	storeTimestamp int64     // of the record before it, ms
}

// Bounds of what is written with system calls. Looked at is each paceBytes.
const (
	paceBytes = 4 << 20
	// bulkPiece is the mean piece of a slave that catches up with a master of ours: what its socket had gathered meanwhile.
	// bulkMillis, 200 MB/s, is one that catches up with Java's, whose frames are short.
	bulkPiece  = 128 << 10
	bulkMillis = 20
	// tailPiece and tailMillis, 100 MB/s, are both those of one that has caught up.
	tailPiece  = 64 << 10
	tailMillis = 40
)

// copyPace decides how a slave's log is written. Large pieces, or many, go to the file with system calls: a page of the
// mapping that nobody has touched costs a fault, zeros that are overwritten at once, and a place in the page table, for
// each 4 KiB, whoever meets the fault; a write makes pages of any size and fills them with what it has. Others are stored
// into the mapping, in pages that are populated ahead, as on a master: a system call may wait for the journal of the file
// system (it changes the time of the file), and the senders of a SYNC_MASTER wait with it. Readers see the same pages
// either way.
type copyPace struct {
	bytes, pieces int64
	since         int64 // ms
}

// took counts n bytes and tells whether the next ones are bulk.
func (p *copyPace) took(n int, bulk bool, millis func() int64) bool {
	p.pieces++
	if p.bytes += int64(n); p.bytes < paceBytes {
		return bulk
	}
	now := millis()
	took, piece := now-p.since, p.bytes/p.pieces
	*p = copyPace{since: now}
	if bulk {
		return took < tailMillis || piece >= tailPiece
	}
	return took <= bulkMillis || piece >= bulkPiece
}

// copyFile is the open file to which a slave that catches up copies. Meanwhile its mapping has no read-ahead: a reader near
// the end of the log would fill megabytes behind it with zeros, just before they are written.
type copyFile struct {
	mf *mappedFile // nil when none is open; with a reference
	f  vfs.File
}

// writeAt writes to mf at pos. It may wait for the disk.
func (c *copyFile) writeAt(mf *mappedFile, pos int64, b []byte) error {
	if c.mf != mf {
		if err := errors.Join(c.close(), c.open(mf)); err != nil {
			return err
		}
	}
	if _, err := c.f.WriteAt(b, pos); err != nil {
		return fmt.Errorf("store: write %s [%d,+%d): %w", mf.path, pos, len(b), err)
	}
	return nil
}

func (c *copyFile) open(mf *mappedFile) error {
	f, err := mf.fs.OpenReadWrite(mf.path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if !mf.Acquire() {
		return errors.Join(fmt.Errorf("%w: %s", errFileGone, mf.path), f.Close())
	}
	c.mf, c.f = mf, f
	mf.adviseReads(0, vfs.AdviseRandom)
	return nil
}

func (c *copyFile) close() error {
	if c.f == nil {
		return nil
	}
	if !c.mf.writesZeros() {
		c.mf.adviseReads(0, vfs.AdviseNormal)
	}
	err := c.f.Close()
	c.mf.Release()
	c.mf, c.f = nil, nil
	return err
}

// AppendLog puts bytes of the master's log behind ours (Java CommitLog.appendData). at is where they start there: the end
// of our log, or, without a log, the start of a file. They may end within a record but not cross a file. One goroutine
// calls it. It waits for a file that has to be made, and for the page cache. Errors: ErrLogGap, ErrForeignLog (nothing of
// the foreign record is shown to anybody), ErrNotWritable when the disk is full or failed, and those of a write, after
// which the piece may be given again.
//
//	per piece   one copy or, while it catches up, one write; one lock that nobody else wants, no allocation
//	per record  28 bytes of it read to find the next and to compare its offset
func (s *MessageStore) AppendLog(at PhyOffset, b []byte) error {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if !s.Following() {
		return ErrNotSlave
	}
	if why := s.flags.refusal(flagsThatStopCopies); why != nil {
		return why
	}
	if len(b) == 0 {
		return nil
	}
	mf, err := s.copyRoom(at, len(b))
	if err != nil {
		return err
	}
	pos := int64(at) - mf.fileFrom
	bulk := s.cl.bulk.Load() && !mf.buffered
	if bulk {
		mf.claim(pos + int64(len(b)))
		if err := s.copyTo.writeAt(mf, pos, b); err != nil {
			return s.copyFailed(mf, pos, int64(len(b)), err)
		}
	}
	s.cl.putLock.Lock()
	err = s.showPiece(mf, pos, b, bulk)
	s.cl.putLock.Unlock()
	if err != nil {
		return err
	}
	if next := s.pace.took(len(b), bulk, s.o.Clock.Millis); next != bulk && !mf.buffered {
		s.cl.bulk.Store(next)
		s.cl.populate.wake()
		if !next {
			return s.copyTo.close()
		}
	}
	s.cl.flusher.appended()
	s.reput.wake()
	s.grew()
	return nil
}

// copyFailed takes back what a failed write may have left behind the end of the log, where a recovery would take it for
// records (see mappedFile). The piece may be sent again.
func (s *MessageStore) copyFailed(mf *mappedFile, pos, n int64, err error) error {
	s.o.Listener.WriteError(err)
	if zero := mf.zero(pos, pos+n); zero != nil {
		err = errors.Join(err, zero)
		s.logFailed(err)
	}
	return err
}

// copyRoom is the file to which n bytes at an offset go; it waits until it is made.
func (s *MessageStore) copyRoom(at PhyOffset, n int) (*mappedFile, error) {
	for {
		s.cl.putLock.Lock()
		mf, roll, err := s.cl.fileAt(int64(at))
		s.cl.putLock.Unlock()
		switch {
		case err != nil:
			return nil, err
		case roll == nil:
			if int64(at)-mf.fileFrom+int64(n) > mf.size {
				return nil, fmt.Errorf("%w: [%d,+%d) crosses the end of file %s; mappedFileSizeCommitLog must be that of "+
					"the master", ErrForeignLog, at, n, mf.path)
			}
			return mf, nil
		}
		if err := s.cl.alloc.wait(roll.from); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoFile, err)
		}
	}
}

// showPiece makes a piece, which is written already or is not, the end of the log. The caller holds the put lock.
func (s *MessageStore) showPiece(mf *mappedFile, pos int64, b []byte, written bool) error {
	end := pos + int64(len(b))
	if end == mf.size {
		mf.contentEnd = end // published by wrotePosition
	}
	if !written {
		s.cl.write(mf, pos, b, s.tail.storeTimestamp)
	} else {
		mf.wrotePosition.Store(end)
		s.cl.populate.passed(mf.fileFrom + end)
	}
	err := s.tail.scan(mf, pos, b)
	mf.storeTimestamp.Store(s.tail.storeTimestamp)
	s.cl.lastTimestamp = max(s.cl.lastTimestamp, s.tail.storeTimestamp)
	s.cl.confirmLimit.Store(int64(s.tail.next))
	return err
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

// scan moves over the records that are whole by now. mf is the last file, which ends with the piece b at from.
func (t *tailScan) scan(mf *mappedFile, from int64, b []byte) error {
	data, wrote := mf.writable(), from+int64(len(b))
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
		record := data[pos:wrote]
		if pos >= from {
			record = b[pos-from:] // not the mapping, whose page nobody has touched yet
		}
		size, magic := codec.RecordSize(record)
		if magic == codec.MagicBlank {
			size = int(mf.size - pos)
		} else if size < codec.MinRecordBytes || int64(size) > mf.size-pos || magic != codec.MagicV1 && magic != codec.MagicV2 {
			return fmt.Errorf("%w: no record at %d (size %d, magic %#x)", ErrForeignLog, t.next, size, uint32(magic))
		}
		if size > len(record) {
			return nil
		}
		if magic != codec.MagicBlank {
			phyOffset, timestamp := recordPlace(record)
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

// stopCopying waits for an AppendLog under way; further ones are refused by now.
func (s *MessageStore) stopCopying() error {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if err := s.copyTo.close(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
