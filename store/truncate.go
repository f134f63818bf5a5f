package store

import (
	"errors"
	"fmt"
	"math"
	"path"
	"sync/atomic"

	"skylark/codec"
	"skylark/internal/vfs"
)

// RecordStart is the start of the last record that begins at p or before, found by a walk through its file; the end of the
// log when p is not before it. It is where a log that differs from another at byte p can be cut.
func (s *MessageStore) RecordStart(p PhyOffset) (PhyOffset, error) {
	start, _, err := s.recordStart(p)
	return start, err
}

// recordStart also tells the store time of the record before, 0 if that is in another file.
func (s *MessageStore) recordStart(p PhyOffset) (start PhyOffset, before int64, err error) {
	mf := s.cl.files.find(int64(p))
	if mf == nil || !mf.Acquire() {
		if end := s.cl.wroteEnd(); p >= end {
			return end, 0, nil
		}
		return 0, 0, fmt.Errorf("store: no commit log file holds %d", p)
	}
	defer mf.Release()
	data, wrote := mf.data(), mf.wrotePosition.Load()
	for pos := int64(0); ; {
		at := PhyOffset(mf.fileFrom + pos)
		if wrote-pos < codec.BlankRecordBytes {
			return at, before, nil
		}
		size, magic := codec.RecordSize(data[pos:wrote])
		next := pos + int64(size)
		if magic == codec.MagicBlank || size < codec.BlankRecordBytes || next > wrote || at+PhyOffset(size) > p {
			return at, before, nil
		}
		if size >= codec.MinRecordBytes {
			_, before = recordPlace(data[pos:wrote])
		}
		pos = next
	}
}

// divergedDirPrefix begins the names of the directories in RootDir that take what a slave had and its master had not. They
// may hold the only copy of messages, so nothing here deletes them.
const divergedDirPrefix = "diverged-"

// TruncateLog cuts a slave's log at p, the start of a record, because the master's goes on differently there. What is cut
// goes to a directory RootDir/diverged-<p>-<ms>, all of it, and it does not come back after a crash: when TruncateLog
// returns the new end is durable. Consumers, who may hold bytes of what is cut, keep them: the file in which the log ends
// then is written anew. Whoever calls AppendLog calls it. p at the start of the log, or before, empties it (see DropLog).
func (s *MessageStore) TruncateLog(p PhyOffset) error {
	if !s.Following() {
		return ErrNotSlave
	}
	start, before, err := s.recordStart(p)
	switch {
	case err != nil:
		return err
	case start != p:
		return fmt.Errorf("store: the log cannot be cut at %d, a record starts at %d", p, start)
	case p >= s.cl.wroteEnd():
		return nil
	}
	s.log.Warn("commit log is cut where the master's differs", "phyOffset", p, "end", s.cl.wroteEnd())
	if err := s.keepCut(p); err != nil {
		return err
	}
	return s.cutLog(p, before)
}

// DropLog empties a slave's log, which has nothing in common with the master's any more, and its queues. keep puts the files
// aside as TruncateLog does.
func (s *MessageStore) DropLog(keep bool) error {
	if !s.Following() {
		return ErrNotSlave
	}
	s.log.Warn("commit log is given up and copied anew", "minPhyOffset", s.cl.minOffset(), "end", s.cl.wroteEnd(),
		"kept", keep)
	if keep {
		if err := s.keepCut(s.cl.minOffset()); err != nil {
			return err
		}
	}
	return s.cutLog(-1, 0)
}

// keepCut puts what is cut from p on aside: the tail of the file that stays is copied, later files are moved. A crash after
// it leaves a log that ends at the file of p; an error leaves everything as it was, or with some files moved already.
func (s *MessageStore) keepCut(p PhyOffset) error {
	dir := path.Join(s.o.RootDir, fmt.Sprintf("%s%d-%d", divergedDirPrefix, p, s.o.Clock.Millis()))
	if err := vfs.MkdirAllSync(s.fs, dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	files := s.cl.files.list()
	for i := len(files) - 1; i >= 0; i-- { // the last first: what a crash leaves has no hole
		mf := files[i]
		pos := max(int64(p)-mf.fileFrom, 0)
		n := mf.wrotePosition.Load() - pos
		if n <= 0 {
			continue
		}
		var err error
		if pos == 0 {
			err = s.fs.Rename(mf.path, path.Join(dir, path.Base(mf.path)))
		} else {
			err = s.copyTail(mf, pos, n, path.Join(dir, offsetFileName(mf.fileFrom+pos)))
		}
		if err != nil {
			return fmt.Errorf("store: %s put aside from %d on: %w", mf.path, pos, err)
		}
		s.o.Listener.Truncated(mf.path, pos, n, "the master's log differs")
	}
	s.log.Error("what the master does not have is kept, remove it when nobody needs it", "dir", dir, "phyOffset", p)
	return errors.Join(s.fs.SyncDir(dir), s.fs.SyncDir(s.cl.files.dir))
}

// copyTail copies n bytes of a file from pos on to a new file.
func (s *MessageStore) copyTail(mf *mappedFile, pos, n int64, name string) error {
	if !mf.Acquire() {
		return errFileGone
	}
	defer mf.Release()
	f, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(mf.data()[pos:pos+n], 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// cutLog makes p the end of everything; -1 is an empty store. before is the store time of the record before p, ms.
//
// Everybody who works behind the log is held at the place where he takes the next record: the dispatch by its lock, the
// flusher by flushMu, the index by a note that it reads before its next batch. Order of locks: reput.mu, writeMu, putLock,
// flushMu, commitMu, mu.
func (s *MessageStore) cutLog(p PhyOffset, before int64) error {
	s.reput.mu.Lock()
	defer s.reput.mu.Unlock()
	s.queues.writeMu.Lock()
	err := s.cutQueues(p)
	if err == nil {
		err = s.cutFiles(max(p, 0), p < 0)
	}
	s.queues.writeMu.Unlock()
	s.reput.cut(max(p, 0))
	s.index.cut(max(p, 0))
	s.checkpoint.cut(before)
	return errors.Join(err, s.queues.saveMarks(), s.checkpoint.flush())
}

// cutQueues takes the entries of what is cut away. The caller holds writeMu.
func (s *MessageStore) cutQueues(p PhyOffset) error {
	if p < 0 {
		return s.queues.destroy()
	}
	for topic, before := range s.queues.deletedTopics {
		s.queues.deletedTopics[topic] = min(before, p)
	}
	minPhy := int64(s.cl.minOffset())
	for _, cq := range s.queues.all() {
		if err := cq.truncateLive(int64(p)); err != nil {
			return err
		}
		cq.correctMin(minPhy)
		if saved := cq.saved.Load(); saved != nil && saved.maxOffset > cq.maxOffset.Load() {
			m := cq.mark()
			cq.saved.Store(&m)
		}
	}
	return nil
}

// truncateLive is truncate while the store runs: what lies behind the end becomes zero, and readers find fewer entries.
func (cq *consumeQueue) truncateLive(p int64) error {
	if cq.maxPhy.Load() <= p {
		return nil
	}
	cq.mfq.flushMu.Lock()
	defer cq.mfq.flushMu.Unlock()
	from, to := cq.firstStored(), cq.maxOffset.Load()
	end := cq.search(from, to, func(e cqEntry) bool {
		if e.isBlank() {
			return e.phyOffset >= p && e.phyOffset > 0
		}
		return e.end() > p
	})
	if end <= from && from == 0 {
		return cq.reset()
	}
	mf := cq.mfq.find(end * cq.unit)
	wrote := int64(0)
	if mf != nil {
		wrote = mf.wrotePosition.Load()
	}
	cq.readyTo = 0
	cq.ext.forget()
	if err := cq.truncate(p); err != nil || mf == nil {
		return err
	}
	return mf.zero(end*cq.unit-mf.fileFrom, wrote)
}

// zero clears [from, to) behind the end of a file, on the disk too.
func (mf *mappedFile) zero(from, to int64) error {
	if from >= to {
		return nil
	}
	if err := mf.reserve(to); err != nil { // a file of an earlier run is mapped read-only
		return err
	}
	v := mf.view.Load()
	clear(v.bytes[from:to])
	if err := v.mapping.Sync(from, to-from); err != nil {
		return fmt.Errorf("store: clear %s from %d: %w", mf.path, from, err)
	}
	return nil
}

// cutFiles makes p the end of the files of the log and of those who write them; all: no file stays.
func (s *MessageStore) cutFiles(p PhyOffset, all bool) error {
	cl, q := s.cl, s.cl.files
	cl.putLock.Lock()
	defer cl.putLock.Unlock()
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	q.commitMu.Lock()
	defer q.commitMu.Unlock()
	cl.active.Store(nil)
	err := q.replaceEnd(int64(p), all)
	last := q.last()
	cl.active.Store(last)
	cl.alloc.rewind(last)
	s.tail.next = p
	cl.confirmLimit.Store(int64(p))
	if cl.confirmTo.Load() != math.MaxInt64 {
		cl.boundConfirmed(p)
	}
	cl.wasCut()
	return err
}

// wasCut tells the commit service that the log ends earlier now.
func (cl *commitLog) wasCut() {
	if s, ok := cl.flusher.(*commitRealTimeService); ok {
		s.cut()
	}
}

// replaceEnd makes offset the end of the queue while it is read. The file in which it lies is copied up to there and takes
// the place of the old one by its name, so that nobody sees bytes change; later files go, the last first: a crash in
// between leaves a whole, longer log. The caller holds flushMu and commitMu.
func (q *mappedFileQueue) replaceEnd(offset int64, all bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	files := q.list()
	n := len(files)
	for n > 0 && (all || files[n-1].fileFrom >= offset) {
		n--
		q.files.Store(new(append([]*mappedFile(nil), files[:n]...)))
		if err := files[n].destroy(); err != nil {
			return err
		}
	}
	keep := append([]*mappedFile(nil), files[:n]...)
	if n > 0 && keep[n-1].contains(offset) {
		old := keep[n-1]
		fresh, err := old.copyTo(offset-old.fileFrom, &q.live)
		if err != nil {
			return err
		}
		keep[n-1] = fresh
		q.files.Store(&keep)
		old.Release()
	}
	if n > 0 {
		q.commitFrom = keep[n-1].fileFrom
	}
	q.committedWhere.Store(offset)
	q.flushedWhere.Store(min(offset, q.flushedWhere.Load()))
	if n == 0 {
		q.flushedWhere.Store(0)
		q.committedWhere.Store(0)
		q.commitFrom = 0 // the next file may lie before those that are gone
	}
	return q.fs.SyncDir(q.dir)
}

// copyTo makes a file with the first pos bytes of mf and puts it in its place. All of it is durable but the name.
func (mf *mappedFile) copyTo(pos int64, live *atomic.Int64) (*mappedFile, error) {
	dir, name := path.Split(mf.path)
	temporary := path.Join(dir, "new."+name)
	fresh, err := createMappedFile(mf.fs, temporary, mf.fileFrom, mf.size, true, live)
	if err != nil {
		return nil, err
	}
	copy(fresh.data()[:pos], mf.data()[:pos])
	err = fresh.view.Load().mapping.Sync(0, max(pos, 1))
	if err == nil {
		err = mf.fs.Rename(temporary, mf.path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: copy of %s up to %d: %w", mf.path, pos, err), fresh.destroy())
	}
	fresh.path = mf.path
	fresh.setPosition(pos)
	fresh.storeTimestamp.Store(mf.storeTimestamp.Load())
	return fresh, nil
}

// rewind makes the files behind last unmade again; last is nil for all.
func (s *allocateMappedFileService) rewind(last *mappedFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = -1
	if last != nil {
		s.taken = last.fileFrom
	}
}

// cut takes the dispatch back to p if it was further. The caller holds mu.
func (s *reputMessageService) cut(p PhyOffset) {
	s.walker.release()
	s.walker.needs = 0
	s.needs.Store(0)
	s.walker.warmTo = 0
	if s.walker.at > p || p == 0 {
		s.walker.at, s.pending = p, false
		s.position.Store(int64(p))
	}
}

// cut takes the index back to p before its next batch. Entries of what was cut stay; a query looks whether the record has
// the key.
func (x *indexService) cut(p PhyOffset) {
	x.cutTo.Store(int64(p) + 1)
	x.wake()
}

// rewind does what cut asked for; the service calls it between two batches.
func (x *indexService) rewind() {
	p := PhyOffset(x.cutTo.Swap(0)) - 1
	if p < 0 {
		return
	}
	x.walker.release() // the file at p is another one now, even for a walk that has not come to p
	if x.walker.at <= p {
		return
	}
	x.walker.at, x.walker.warmTo = p, 0
	x.mu.Lock()
	x.indexedTo = p
	x.mu.Unlock()
	x.position.Store(int64(p))
}

// cut forgets times after before, which is of the last record; 0 = unknown. Recovery would start too late otherwise.
func (c *storeCheckpoint) cut(before int64) {
	for _, field := range []interface {
		Load() int64
		Store(int64)
	}{&c.physicMsgTimestamp, &c.logicsMsgTimestamp, &c.indexMsgTimestamp} {
		if field.Load() > before {
			field.Store(before)
		}
	}
}
