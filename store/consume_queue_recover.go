package store

import (
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	// recoverFiles is how many files of a queue, from the last, are read to find its end (Java).
	recoverFiles = 3
	// Sizes of the reads that find the end: small first, because most queues have few entries in a large sparse file.
	firstScanBytes = 200 * cqEntryBytes
	maxScanBytes   = 12800 * cqEntryBytes
)

// manyWorkers are for the start and the stop: with thousands of queues both wait for the disk most of the time.
func manyWorkers() int { return 4 * runtime.GOMAXPROCS(0) }

// forEach runs f on every queue, on so many goroutines, until one fails on each.
func (t *consumeQueueTable) forEach(queues []*consumeQueue, workers int, f func(cq *consumeQueue) error) error {
	workers = min(len(queues), workers)
	var at atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for {
				i := int(at.Add(1)) - 1
				if i >= len(queues) || errs[w] != nil {
					return
				}
				errs[w] = f(queues[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// load finds the queues of the directory and maps their files. Names that are no queue ids are skipped, as Java does.
func (t *consumeQueueTable) load() error {
	if err := t.fs.RemoveAll(path.Join(t.o.RootDir, deletedQueuesDirName)); err != nil {
		return fmt.Errorf("store: remove deleted queues: %w", err)
	}
	marks, damaged, err := t.mark.load()
	if err != nil {
		return err
	}
	if damaged != nil {
		t.log.Warn("queue checkpoint ignored", "err", damaged)
	}
	t.loaded = marks
	for topic, before := range marks.deleted {
		t.deletedTopics[topic] = before
	}
	t.recovering = true
	t.markedBatch = make(map[string]bool)
	for k, mark := range marks.queues {
		t.markedBatch[k.topic] = t.markedBatch[k.topic] || mark.batch
	}
	if err := errors.Join(t.loadKind(SimpleCQ), t.loadKind(BatchCQ)); err != nil {
		return err
	}
	if err := t.removeOrphanUnits(); err != nil {
		return err
	}
	return t.forEach(t.all(), manyWorkers(), (*consumeQueue).load)
}

func (t *consumeQueueTable) loadTopic(kind CQType, topic string) error {
	dir := path.Join(queuesDir(t.o, kind), topic)
	info, err := t.fs.Stat(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if !info.IsDir() {
		return nil
	}
	names, err := t.fs.List(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		if id, err := strconv.ParseInt(name, 10, 32); err == nil && strconv.Itoa(int(id)) == name {
			if stale, err := t.loadQueue(kind, topic, int32(id)); err != nil || stale {
				return err
			}
		}
	}
	return nil
}

// load maps the files. A file that is too short is taken away with those behind it; the log has what they held. One that
// is too long was made with another configuration, and nothing is touched.
func (cq *consumeQueue) load() error {
	if err := cq.ext.load(); err != nil {
		return err
	}
	for {
		repaired, err := cq.mfq.load()
		cq.damaged = cq.damaged || repaired
		var bad *badFileError
		if err == nil || !errors.As(err, &bad) || bad.sizeBytes >= cq.mfq.fileSize {
			return err
		}
		cq.mfq.log.Warn("short file of a queue removed, the log has its entries", "file", bad.path,
			"sizeBytes", bad.sizeBytes)
		if err := cq.mfq.fs.Remove(bad.path); err != nil {
			return fmt.Errorf("store: remove %s: %w", bad.path, err)
		}
		cq.damaged = true
	}
}

// recover finds the end of every queue. clean tells that the last stop was one. It returns the offset below which every
// record has its entry, except those of queues that were found damaged: rebuild brings those back after the end of the
// log is known.
func (t *consumeQueueTable) recover(clean bool) (PhyOffset, error) {
	if !clean && !t.usableMarks() {
		t.loaded.queues = nil
	}
	t.flushedTo.Store(t.loaded.dispatched)
	err := t.forEach(t.all(), manyWorkers(), func(cq *consumeQueue) error {
		mark, ok := t.loaded.queues[queueKey{cq.topic, cq.queueID}]
		if !ok || mark.batch != (cq.batch != nil) {
			mark = queueMark{minPhy: -1, maxPhy: -1}
		}
		if err := cq.recover(mark, clean); err != nil {
			return err
		}
		if before, ok := t.deletedTopics[cq.topic]; ok && cq.startsBefore(int64(before)) {
			cq.damaged = false
			return cq.reset()
		}
		if mark.maxPhy >= 0 && cq.maxOffset.Load() >= mark.maxOffset {
			cq.saved.Store(&mark)
		}
		return nil
	})
	return t.maxPhyOffset(), err
}

// usableMarks tells whether entries behind the marks are all dispatched again after a crash: they are, as long as the
// checkpoint, which says where that begins, is not newer than the marks. It is newer when Java's broker used the directory
// meanwhile.
func (t *consumeQueueTable) usableMarks() bool {
	return t.loaded.present && t.checkpoint.logicsMsgTimestamp.Load() <= t.loaded.dispatched
}

// maxPhyOffset is the largest end of a record that has an entry, -1 without entries.
func (t *consumeQueueTable) maxPhyOffset() PhyOffset {
	maxPhy := int64(-1)
	for _, cq := range t.all() {
		maxPhy = max(maxPhy, cq.maxPhy.Load())
	}
	return PhyOffset(maxPhy)
}

// startsBefore tells whether the first record of the queue lies before an offset.
func (cq *consumeQueue) startsBefore(phyOffset int64) bool {
	from, to := cq.firstStored(), cq.maxOffset.Load()
	first := cq.search(from, to, func(e cqEntry) bool { return !e.isBlank() || e.phyOffset > 0 })
	e, ok := cq.entry(first)
	return ok && e.phyOffset < phyOffset
}

// recover finds the end of the queue: where the mark says, if the entries around it agree. After a crash the entries
// behind the mark, of which any may be torn, are written again from the log. Without a mark the last three files are read
// up to the first entry that cannot be one.
//
// Entries that a crash kept from beyond the end must not be taken for real ones some day: no start believes anything
// behind a mark, the place behind the last entry is always zero, and what was found without a mark is cut off.
func (cq *consumeQueue) recover(mark queueMark, clean bool) error {
	// What a killed process wrote may still be on its way to the disk: the next flush has to see to it.
	cq.namesDirty.Store(!clean)
	if holes := cq.mfq.holes(); len(holes) > 0 {
		cq.damaged = true
		if err := cq.mfq.setEnd(holes[0].from); err != nil {
			return err
		}
	}
	if cq.mfq.last() == nil {
		cq.damaged = true // a directory without files
		return cq.ext.reset()
	}
	end, maxPhy := mark.maxOffset*cq.unit, mark.maxPhy
	marked := cq.agrees(mark) && (!clean || cq.endsAt(mark))
	if !marked {
		var err error
		if end, maxPhy, err = cq.scan(); err != nil {
			return err
		}
	}
	last := cq.mfq.last()
	switch {
	case end <= cq.mfq.minOffset():
		cq.damaged = true // files without an entry
		return cq.reset()
	case end <= last.fileFrom:
		cq.damaged = true
	}
	var err error
	if marked || clean && cq.zeroAt(end) {
		err = cq.mfq.setEnd(end)
	} else {
		err = cq.cut(end)
	}
	cq.maxPhy.Store(maxPhy)
	cq.minOffset.Store(cq.firstStored())
	cq.maxOffset.Store(end / cq.unit)
	cq.renumber()
	return errors.Join(err, cq.recoverExt())
}

// cut makes everything behind a position zero. That is durable after the next flush, which comes before the checkpoint
// moves: until then a crash leads back here. Syncing thousands of queues one by one would take seconds.
func (cq *consumeQueue) cut(end int64) error {
	cq.namesDirty.Store(true)
	return cq.mfq.endAt(end, (*mappedFile).cutLazily)
}

// endsAt tells whether nothing stands behind the mark.
func (cq *consumeQueue) endsAt(mark queueMark) bool {
	end := mark.maxOffset * cq.unit
	return cq.mfq.find(end-cq.unit) == cq.mfq.last() && cq.zeroAt(end)
}

// agrees tells whether the last entry below the mark is the one that was there, and the files that a scan would read
// begin and end with entries, up to the mark.
func (cq *consumeQueue) agrees(mark queueMark) bool {
	e, ok := cq.entry(mark.maxOffset - 1)
	if mark.maxPhy < 0 || !ok || e.isBlank() || e.end() != mark.maxPhy {
		return false
	}
	files := cq.mfq.list()
	for _, mf := range files[max(0, len(files)-recoverFiles):] {
		first := mf.fileFrom / cq.unit
		last := min(first+mf.size/cq.unit, mark.maxOffset) - 1
		if first <= last && (cq.zeroAt(first*cq.unit) || cq.zeroAt(last*cq.unit)) {
			return false
		}
	}
	return true
}

// zeroAt tells that no entry stands at a position, which is in the last file or behind it.
func (cq *consumeQueue) zeroAt(pos int64) bool {
	e, ok := cq.entry(pos / cq.unit)
	return !ok || e.isZero()
}

// scan finds the position behind the last entry, and the end of its record.
func (cq *consumeQueue) scan() (end, maxPhy int64, err error) {
	files := cq.mfq.list()
	i := max(0, len(files)-recoverFiles)
	maxPhy = -1
	if i > 0 {
		if e, ok := cq.entry(files[i].fileFrom/cq.unit - 1); ok && !e.isBlank() {
			maxPhy = e.end()
		}
	}
	for ; i < len(files); i++ {
		var pos int64
		if pos, maxPhy, err = cq.scanEntries(files[i], maxPhy); err != nil {
			return 0, 0, err
		}
		end = files[i].fileFrom + pos
		if pos < files[i].size {
			break
		}
	}
	return end, maxPhy, nil
}

// scanEntries reads entries until the first that is none: offset or size out of range, or a record before the one of the
// entry before (a torn page). It reads the file, not the mapping, so that the pages of a sparse file stay
// out of memory.
func (cq *consumeQueue) scanEntries(mf *mappedFile, maxPhy int64) (pos, lastPhy int64, err error) {
	f, err := mf.fs.Open(mf.path)
	if err != nil {
		return 0, 0, fmt.Errorf("store: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, firstScanBytes)
	after := int64(-1)
	for pos < mf.size {
		part := buf[:min(int64(len(buf)), mf.size-pos)]
		if _, err := f.ReadAt(part, pos); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, fmt.Errorf("store: %w", err)
		}
		for ; int64(len(part)) >= cq.unit; part, pos = part[cq.unit:], pos+cq.unit {
			e := decodeCQEntry(part)
			if cq.batch != nil {
				unit := decodeBatchEntry(part)
				if !unit.valid(after) {
					return pos, maxPhy, nil
				}
				after = unit.next()
			}
			if e.phyOffset < 0 || e.size <= 0 {
				return pos, maxPhy, nil
			}
			if e.isBlank() {
				continue
			}
			if e.phyOffset < maxPhy {
				return pos, maxPhy, nil
			}
			maxPhy = e.end()
		}
		if len(buf) < maxScanBytes {
			buf = make([]byte, 4*len(buf))
		}
	}
	return pos, maxPhy, nil
}

// truncate drops the entries of records that end behind p: at the end of recovery what the log has lost, and before an
// abnormal recovery dispatches again what a crash may have torn.
func (t *consumeQueueTable) truncate(p PhyOffset) error {
	return t.forEach(t.all(), manyWorkers(), func(cq *consumeQueue) error {
		end := cq.maxOffset.Load()
		err := cq.truncate(int64(p))
		if cq.maxOffset.Load() < end {
			err = errors.Join(err, cq.recoverExt())
		}
		if saved := cq.saved.Load(); err == nil && saved != nil && saved.maxOffset > cq.maxOffset.Load() {
			m := cq.mark()
			cq.saved.Store(&m)
			t.marksMoved.Store(true)
		}
		return err
	})
}

func (cq *consumeQueue) truncate(p int64) error {
	if cq.maxPhy.Load() <= p {
		return nil
	}
	from, to := cq.firstStored(), cq.maxOffset.Load()
	end := cq.search(from, to, func(e cqEntry) bool {
		if e.isBlank() {
			return e.phyOffset >= p && e.phyOffset > 0
		}
		return e.end() > p
	})
	// With all entries gone the first file stays, empty: making thousands of files anew takes seconds, and most queues get
	// their entries back at once. rebuild removes it if not, and clears what is left behind the end.
	if err := cq.mfq.setEnd(end * cq.unit); err != nil {
		return err
	}
	maxPhy := int64(-1)
	for q := end - 1; q >= from && maxPhy < 0; q-- {
		e, ok := cq.entry(q)
		switch {
		case ok && !e.isBlank():
			maxPhy = e.end()
		case ok && e.phyOffset > 0:
			maxPhy = e.phyOffset
		default:
			q = from // blanks up to the front
		}
	}
	cq.maxPhy.Store(maxPhy)
	cq.maxOffset.Store(end)
	cq.renumber()
	return nil
}

// dispatch gives a record its entry during recovery. An entry that would leave a hole is put off: the queue lost what
// belongs there, and rebuild fills it from the start of the hole on.
func (t *consumeQueueTable) dispatch(d *dispatchRecord) error {
	if !d.consumable() {
		return nil
	}
	_, err := t.put(d, true)
	if t.o.lightDispatch() && err == nil {
		err = t.putLight(d, true, nil)
	}
	if errors.Is(err, errQueueOrder) || errors.Is(err, errTopicName) {
		t.log.Error("record left out of its queue", "phyOffset", d.phyOffset, "err", err)
		return nil
	}
	return err
}

// rebuild ends recovery: the log is whole from its start to its end. Queues that lack entries get them by a walk over the
// log from the first one that is missing; the least offset and the next one of every queue are set. clean tells that the
// last stop was one: then a queue that ends before its mark lost a file, unless another broker used this directory since,
// which may have deleted the topic. What lies behind shown gets its entries later.
func (t *consumeQueueTable) rebuild(clean bool, shown PhyOffset) error {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	marks := t.loaded.queues
	if t.foreign || clean && t.loaded.logEnd != t.cl.maxOffset() {
		marks = nil // another broker was here
	}
	for k, mark := range marks {
		if mark.batch != (t.kindOf(k.topic) == BatchCQ) {
			delete(marks, k)
		} else if cq := t.find(k.topic, k.queueID); cq == nil || cq.maxOffset.Load() < mark.maxOffset {
			t.findOrCreate(k.topic, k.queueID).damaged = true
		}
	}
	minPhy := int64(t.cl.minOffset())
	for _, cq := range t.all() {
		mark, ok := marks[queueKey{cq.topic, cq.queueID}]
		if err := cq.checkFront(mark, ok, minPhy); err != nil {
			return err
		}
	}
	if err := t.rebuildDamaged(shown); err != nil {
		return err
	}
	for k, mark := range marks {
		if mark.maxPhy <= minPhy {
			if err := t.find(k.topic, k.queueID).numberOn(mark); err != nil {
				return err
			}
		}
	}
	for topic, before := range t.deletedTopics {
		// What a crash cut off the log will be written anew, by topics that live.
		if end := t.cl.maxOffset(); before > end {
			t.deletedTopics[topic] = end
			t.marksMoved.Store(true)
		}
		if int64(before) <= minPhy {
			delete(t.deletedTopics, topic)
		}
	}
	for _, cq := range t.all() {
		if err := cq.tidy(); err != nil {
			return err
		}
		cq.correctMin(minPhy)
		_, end := cq.bounds()
		cq.next.Store(end)
	}
	t.recovering = false
	t.loaded = queueMarks{}
	return nil
}

// tidy removes the files of a queue that got no entries, and what is left behind the end of another.
func (cq *consumeQueue) tidy() error {
	last := cq.mfq.last()
	switch end := cq.maxOffset.Load() * cq.unit; {
	case end == 0:
		return cq.reset() // an empty directory would look like a loss at each start
	case last == nil:
		return nil
	case last.contains(end) && !decodeCQEntry(last.data()[end-last.fileFrom:]).isZero():
		return cq.cut(end)
	}
	return nil
}

// checkFront empties a queue that lost its first files, so that it is rebuilt: its first entry is not where the mark says
// although that record is still in the log, or, without a mark, nothing ever expired and yet the queue does not start at 0.
func (cq *consumeQueue) checkFront(mark queueMark, marked bool, minPhy int64) error {
	first := cq.firstStored()
	lost := marked && mark.minPhy >= minPhy && first > mark.minOffset
	if !marked {
		lost = minPhy == 0 && first > 0
	}
	if !lost {
		return nil
	}
	cq.damaged = true
	return cq.reset()
}

// finishRecovery makes durable what recovery changed in the marks, before anything is put.
func (t *consumeQueueTable) finishRecovery() error {
	if !t.marksMoved.Swap(false) && !t.index.marksMoved {
		return nil
	}
	return t.saveMarks()
}

// verifyLogBytes is the largest log that is walked from its start when there are no marks, in a directory of Java's
// broker: losses that left no trace are found then, too. It takes a second or two, once.
const verifyLogBytes = 1 << 30

func (t *consumeQueueTable) rebuildDamaged(end PhyOffset) error {
	t.recovering = false
	from, damaged := end, 0
	verify := !t.loaded.present && from-t.cl.minOffset() <= verifyLogBytes
	if verify {
		from = t.cl.minOffset()
	}
	for _, cq := range t.all() {
		if cq.damaged {
			from = min(from, PhyOffset(max(0, cq.maxPhy.Load())))
			damaged++
		}
	}
	if damaged == 0 && !verify {
		return nil
	}
	if damaged > 0 {
		t.log.Warn("rebuilding queues from the log", "queues", damaged, "phyOffset", from, "end", end)
	}
	w := logWalker{cl: t.cl, o: t.o, at: from, written: t.cl.maxOffset()}
	defer w.release()
	var d dispatchRecord
	for {
		ok, err := w.next(end, &d)
		switch {
		case err != nil:
			t.log.Error("damaged record while rebuilding queues", "err", err)
		case !ok:
			for _, cq := range t.all() {
				cq.damaged = false
			}
			return nil
		case verify && damaged == 0 && t.findBytes(d.topic, d.queueID) == nil:
			// A topic that was deleted: its records are still there.
		default:
			d.setTagsCode(t.o)
			if err := t.dispatch(&d); err != nil {
				return err
			}
		}
	}
}

// numberOn makes q the next offset of a queue that lost its files after all its records had expired. The last of the
// blank entries has another size: Java takes phyOffset+size of a queue's last entry for the end of the records that the
// queue has, and drops new ones before it.
func (cq *consumeQueue) numberOn(mark queueMark) error {
	if cq.batch != nil {
		cq.batch.from = mark.next
		return nil
	}
	q := mark.maxOffset
	end, phyOffset := cq.maxOffset.Load(), max(0, cq.maxPhy.Load())
	empty, perFile := cq.mfq.last() == nil, cq.mfq.fileSize/cqEntryBytes
	switch {
	case end >= q:
		return nil
	case empty && q%perFile == 0:
		return cq.startAt(q) // nothing to fill
	case empty:
		end, phyOffset = q-q%perFile, 0
	case q-end > maxHoleEntries:
		return fmt.Errorf("%w: %s-%d: %d leaves a hole of %d", errQueueOrder, cq.topic, cq.queueID, q, q-end)
	}
	if err := cq.fill(end, q-1, phyOffset); err != nil {
		return err
	}
	var b [cqEntryBytes]byte
	cqEntry{phyOffset: phyOffset, size: lastBlankSize}.put(b[:])
	if err := cq.write(q-1, b[:]); err != nil {
		return err
	}
	if empty {
		cq.minOffset.Store(q)
	}
	cq.maxOffset.Store(q)
	return nil
}

// destroy removes every queue: there is no log they could belong to.
func (t *consumeQueueTable) destroy() error {
	for _, cq := range t.all() {
		cq.close()
	}
	t.createMu.Lock()
	for i := range t.shards {
		t.shards[i].Store(new(map[string]*topicQueues))
	}
	t.createMu.Unlock()
	t.lightTopics.Store(0)
	t.loaded = queueMarks{}
	clear(t.deletedTopics)
	err := errors.Join(t.fs.RemoveAll(t.dir), t.fs.RemoveAll(queuesDir(t.o, BatchCQ)),
		t.fs.RemoveAll(path.Join(t.o.RootDir, extDirName)))
	if err != nil {
		return fmt.Errorf("store: remove queues without a log: %w", err)
	}
	return nil
}
