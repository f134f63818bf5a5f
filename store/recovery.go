package store

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"time"

	"skylark/codec"
	"skylark/internal/vfs"
)

// scanAheadBytes are read at once during the scan of the log; page by page it would be the slower half of a start.
const scanAheadBytes = 4 << 20

// maxTimestampLead is how far ahead of the clock the last record's store time may be and still hold the next ones back;
// more means that the clock was wrong then, and the order of times gives way.
const maxTimestampLead = time.Minute

// logScan walks over the records at the end of the log and finds where they stop being records.
type logScan struct {
	cl *commitLog
	o  *Options
	// record gets every record in order.
	record func(d *dispatchRecord) error

	end     PhyOffset // behind the last record
	stopped error     // what stands at end instead of a record, nil for zeros and the end of the files
	lastAt  PhyOffset // the last record, -1 without
	last    int64     // its store timestamp
	passed  []*mappedFile
}

// run scans from a record's start on. An error is one of record; damage is not an error but the end.
func (s *logScan) run(from PhyOffset) error {
	s.end = from
	mf := s.cl.files.find(int64(from))
	if mf == nil {
		mf = s.cl.files.after(int64(from))
	}
	for mf != nil {
		s.passed = append(s.passed, mf)
		s.end = max(s.end, PhyOffset(mf.fileFrom))
		more, err := s.file(mf)
		if err != nil || !more {
			return err
		}
		s.end = PhyOffset(mf.fileFrom + mf.size)
		mf = s.cl.files.after(int64(s.end))
	}
	return nil
}

// file scans from s.end to the end of one file; more tells that the file ended with a blank record.
func (s *logScan) file(mf *mappedFile) (more bool, err error) {
	data := mf.data()
	var d dispatchRecord
	ahead := int64(0)
	for {
		pos := int64(s.end) - mf.fileFrom
		if pos >= ahead {
			ahead = min(pos+scanAheadBytes, mf.size)
			if err := mf.prefetch(pos, ahead-pos); err != nil {
				s.o.Log.Debug("no read-ahead", "file", mf.path, "err", err)
			}
		}
		if mf.size-pos < codec.BlankRecordBytes {
			return true, nil
		}
		if size, magic := codec.RecordSize(data[pos:]); size == 0 && magic == 0 {
			return false, nil
		}
		rec, err := codec.ParseRecord(data[pos:], s.o.CheckCRCOnRecover)
		switch {
		case err != nil:
			s.stopped = err
			return false, nil
		case rec.IsBlank():
			return true, nil
		case rec.PhyOffset != s.end:
			s.stopped = fmt.Errorf("%w: record of offset %d", ErrCorrupt, rec.PhyOffset)
			return false, nil
		case len(rec.Topic) == 0 || bytes.IndexByte(rec.Topic, 0) >= 0: // the checksum covers the body only
			s.stopped = fmt.Errorf("%w: record of topic %q", ErrCorrupt, rec.Topic)
			return false, nil
		case tornProperties(data[pos:], &rec):
			s.stopped = fmt.Errorf("%w: properties of the last record are torn", ErrCorrupt)
			return false, nil
		}
		d.fill(&rec, s.end, s.o)
		if err := s.record(&d); err != nil {
			return false, err
		}
		s.lastAt, s.last = s.end, rec.StoreTimestamp
		s.end += PhyOffset(rec.TotalSize)
	}
}

// tornProperties tells that a record, at the start of b, lost the end of its properties: they hold a zero byte, as a
// page does that never reached the disk, and no record follows. The checksum covers the body only. A zero byte alone is
// no proof, for a client may send one.
func tornProperties(b []byte, rec *codec.Record) bool {
	if bytes.IndexByte(rec.Properties, 0) < 0 {
		return false
	}
	next, err := codec.ParseRecord(b[rec.TotalSize:], false)
	return err != nil || !next.IsBlank() && next.PhyOffset != rec.PhyOffset+PhyOffset(rec.TotalSize)
}

// recover brings log and queues to the same end (Java DefaultMessageStore.recover). clean tells that the last run
// removed its `abort` file.
//
// # Where the scan of the log starts
//
// After a clean stop: behind the last record that has a queue entry, when that record is intact; else at the start of
// its file, as Java does. So a clean start reads one record, whatever the size of the log.
// After a crash: at the newest file whose first record was stored before the checkpoint says that log and queues were
// flushed, as Java does. Everything from there on is dispatched again: the queues drop what they have of it first,
// because a crash may have torn it.
//
// # Where it ends
//
// At the first bytes that are no record of this offset: zeros, a length or checksum that does not fit. The log is cut
// there; the removed bytes go to RootDir/recovery and Listener.Truncated hears of them. Behind the end every byte becomes
// zero on the disk, and everything before it is synced: a process that was killed leaves its last writes in the page
// cache only, and a later power cut must not take them from under messages that were acknowledged since.
//
// # What the queues do
//
// They compare what they have with the marks of their own checkpoint and with the records that were scanned. A queue that
// lacks entries, down to a deleted tree, is filled by a walk over the log from its first missing entry on (case B15).
// The index makes up for what it lacks in the background, after Start.
//
// # What consumers see
//
// Everything; with Options.ConfirmedOnly what they saw before, see confirmScan.
func (s *MessageStore) recover(clean bool) error {
	for _, hole := range s.cl.files.holes() {
		s.log.Error("commit log files are missing; consumers skip what was there", "from", offsetFileName(hole.from),
			"to", offsetFileName(hole.to), "sizeBytes", hole.to-hole.from)
		s.o.Listener.Truncated(path.Join(s.cl.files.dir, offsetFileName(hole.from)), 0, hole.to-hole.from,
			"commit log file is missing")
	}
	maxPhy, err := s.queues.recover(clean)
	if err != nil {
		return err
	}
	if s.cl.files.last() == nil {
		return errors.Join(s.recoverWithoutLog(), s.setShown(&confirmScan{}))
	}
	began := s.o.Clock.Now()
	shown := confirmScan{dispatch: s.queues.dispatch, to: s.mayShow(maxPhy)}
	scan := logScan{cl: s.cl, o: &s.o, record: shown.record, lastAt: -1}
	from := s.abnormalStart()
	if clean {
		from = s.normalStart(maxPhy, &scan)
	} else if err := s.queues.truncate(from); err != nil {
		return err
	}
	shown.begin(from, scan.last)
	if err := scan.run(from); err != nil {
		return err
	}
	shown.ended(&scan)
	if err := s.endLog(&scan, clean); err != nil {
		return err
	}
	if err := s.queues.truncate(shown.end); err != nil {
		return err
	}
	marks := s.queues.loaded
	if err := s.queues.rebuild(clean, shown.end); err != nil {
		return err
	}
	if err := s.index.load(clean, marks); err != nil {
		return err
	}
	s.setRecovered(&scan)
	if err := s.setShown(&shown); err != nil {
		return err
	}
	s.log.Info("store recovered", "clean", clean, "scannedFrom", from, "end", scan.end, "shownTo", shown.end,
		"minPhyOffset", s.cl.minOffset(), "elapsed", s.o.Clock.Now().Sub(began))
	return nil
}

// recoverWithoutLog: queues without a log belong to nothing (Java deletes them as well).
func (s *MessageStore) recoverWithoutLog() error {
	if len(s.queues.all()) > 0 {
		s.log.Warn("the commit log has no files; its queues are deleted", "dir", s.cl.files.dir)
	}
	if err := s.queues.destroy(); err != nil {
		return err
	}
	return errors.Join(s.queues.rebuild(false, 0), s.index.load(false, queueMarks{}))
}

// normalStart is where the scan starts after a clean stop. A record that is trusted without a scan is noted as the last.
func (s *MessageStore) normalStart(maxPhy PhyOffset, scan *logScan) PhyOffset {
	if rec, ok := s.recordBefore(maxPhy); ok {
		scan.lastAt, scan.last = rec.PhyOffset, rec.StoreTimestamp
		return maxPhy
	}
	files := s.cl.files.list()
	for i := len(files) - 1; i > 0; i-- {
		if PhyOffset(files[i].fileFrom) <= maxPhy {
			return PhyOffset(files[i].fileFrom)
		}
	}
	return PhyOffset(files[0].fileFrom)
}

// recordBefore is the intact record that ends at p, found by the queue entry that says so. Its slices must not be used.
func (s *MessageStore) recordBefore(p PhyOffset) (rec codec.Record, ok bool) {
	for _, cq := range s.queues.all() {
		if cq.maxPhy.Load() != int64(p) {
			continue
		}
		e, ok := cq.entry(cq.maxOffset.Load() - 1)
		if !ok || e.isBlank() {
			return rec, false
		}
		b, mf, ok := s.cl.slice(PhyOffset(e.phyOffset), int(e.size))
		if !ok {
			return rec, false
		}
		defer mf.Release()
		rec, err := codec.ParseRecord(b, true)
		return rec, err == nil && rec.TotalSize == int(e.size) && rec.PhyOffset == PhyOffset(e.phyOffset)
	}
	return rec, false
}

// abnormalStart is the start of the newest file that was begun before everything was flushed, by the checkpoint.
func (s *MessageStore) abnormalStart() PhyOffset {
	flushedAt := s.checkpoint.minTimestamp()
	if s.o.MessageIndexEnable && s.o.MessageIndexSafe {
		flushedAt = s.checkpoint.minTimestampIndex()
	}
	files := s.cl.files.list()
	for i := len(files) - 1; i > 0; i-- {
		rec, err := codec.ParseRecord(files[i].data(), false)
		if err == nil && !rec.IsBlank() && rec.StoreTimestamp != 0 && rec.StoreTimestamp <= flushedAt {
			return PhyOffset(files[i].fileFrom)
		}
	}
	return PhyOffset(files[0].fileFrom)
}

// endLog makes the end that the scan found the end of the files.
func (s *MessageStore) endLog(scan *logScan, clean bool) error {
	files := s.cl.files
	end := int64(scan.end)
	last := files.find(end)
	if clean && scan.stopped == nil && last == files.last() && zeroPage(last, end-last.fileFrom) {
		return files.setEnd(end)
	}
	s.keepRemoved(scan)
	for _, mf := range scan.passed {
		if mf != last { // cut syncs the last one
			if err := mf.withFile(vfs.File.Sync); err != nil {
				return fmt.Errorf("store: sync %s: %w", mf.path, err)
			}
		}
	}
	return files.truncateDirty(end)
}

// zeroPage tells that the rest of a page, and a page more, is zero.
func zeroPage(mf *mappedFile, pos int64) bool {
	end := min((pos/vfs.PageSize+2)*vfs.PageSize, mf.size)
	return lastNonZero(mf.data()[pos:end]) == 0
}

// lastNonZero is the length of b without its trailing zeros.
func lastNonZero(b []byte) int {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return len(b)
}

// setRecovered notes where the log ends and that all of it is durable.
func (s *MessageStore) setRecovered(scan *logScan) {
	if scan.lastAt < 0 {
		return
	}
	if !s.o.ConfirmedOnly {
		s.checkpoint.confirmPhyOffset.Store(int64(scan.lastAt))
	}
	lead := scan.last - s.o.Clock.Millis()
	if lead <= maxTimestampLead.Milliseconds() {
		s.cl.lastTimestamp = scan.last
	}
	if scan.last > s.checkpoint.physicMsgTimestamp.Load() && lead <= checkpointFuture.Milliseconds() {
		s.checkpoint.physicMsgTimestamp.Store(scan.last)
	}
	if last := s.cl.files.last(); last != nil {
		last.storeTimestamp.Store(scan.last)
	}
}
