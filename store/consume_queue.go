package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"sort"
	"strconv"
	"sync/atomic"

	"skylark/internal/vfs"
)

// blankEntrySize is the size field of an entry that belongs to no record: it fills the place of queue offsets whose
// records this store never had (Java ConsumeQueue.fillPreBlank).
const blankEntrySize = math.MaxInt32

// lastBlankSize is the size of a blank entry at the end of a queue, see numberOn.
const lastBlankSize = 1

// maxHoleEntries bounds how many blank entries are written for one jump of the queue offset (80 MB of files). A larger
// jump can only come from a damaged record, which is left out.
const maxHoleEntries = 4 << 20

// errQueueOrder answers an entry whose queue offset does not fit behind the last one.
var errQueueOrder = errors.New("store: queue offset out of order")

// cqEntry is one entry of a ConsumeQueue:
//
//	offset  size  field
//	0       8     phyOffset of the record
//	8       4     size of the record
//	12      8     tagsCode: hash of the tags; in SCHEDULE_TOPIC_XXXX the time the message is due (ms); below
//	              -2^31 the address of a ConsumeQueueExt unit
//
// The entry of queue offset q stands at byte 20·q of the file set. A blank entry is (0, 0x7FFFFFFF, 0); where records
// are missing in the middle its phyOffset is the end of the record before, so that phyOffset never decreases.
type cqEntry struct {
	phyOffset int64
	size      int32
	tagsCode  int64
}

func (e cqEntry) end() int64    { return e.phyOffset + int64(e.size) }
func (e cqEntry) isBlank() bool { return e.size == blankEntrySize || e.size == lastBlankSize }
func (e cqEntry) isZero() bool  { return e == cqEntry{} }

// isExtAddress tells that a tagsCode is an address into ConsumeQueueExt and says nothing about tags.
func isExtAddress(tagsCode int64) bool { return tagsCode < math.MinInt32 }

func (e cqEntry) put(b []byte) {
	_ = b[cqEntryBytes-1]
	binary.BigEndian.PutUint64(b, uint64(e.phyOffset))
	binary.BigEndian.PutUint32(b[8:], uint32(e.size))
	binary.BigEndian.PutUint64(b[12:], uint64(e.tagsCode))
}

func decodeCQEntry(b []byte) cqEntry {
	_ = b[cqEntryBytes-1]
	return cqEntry{
		phyOffset: int64(binary.BigEndian.Uint64(b)),
		size:      int32(binary.BigEndian.Uint32(b[8:])),
		tagsCode:  int64(binary.BigEndian.Uint64(b[12:])),
	}
}

// consumeQueue maps queue offsets of one topic and queue to records of the CommitLog (Java ConsumeQueue).
//
// Per entry written: 20 bytes copied into a mapping, no system call but one for each step of reserved blocks, nothing
// allocated. Per read: no lock, no allocation.
//
// One goroutine at a time writes (recovery, then the ReputMessageService), under consumeQueueTable.writeMu. Readers load
// maxOffset, which moves after the entry is in the mapping. What a queue costs while nothing happens: this struct, its
// list of files and one mapping for each file.
type consumeQueue struct {
	topic   string
	queueID int32
	mfq     *mappedFileQueue
	unit    int64            // bytes of an entry
	batch   *batchRange      // of the kind BatchCQ, whose entries are batchEntry; else nil
	ext     *consumeQueueExt // nil without enableConsumeQueueExt

	// next is the queue offset of the next message put. It is read and moved under the put lock.
	next atomic.Int64
	// [minOffset, maxOffset) can be consumed.
	minOffset atomic.Int64
	maxOffset atomic.Int64
	// maxPhy is where the record of the last entry ends, -1 without entries: whatever lies before it is in the queue.
	maxPhy atomic.Int64

	// namesDirty tells that a file was created whose name and length may not be durable.
	namesDirty atomic.Bool
	// saved is what is on the disk; owned by the flusher.
	saved atomic.Pointer[queueMark]
	// damaged tells recovery that entries are missing.
	damaged bool
	// readyTo is the byte of the file set up to which pages behind the end are in memory; owned by the writer.
	readyTo int64
}

func newConsumeQueue(o *Options, kind CQType, topic string, queueID int32) *consumeQueue {
	queueDir := path.Join(queuesDir(o, kind), topic, strconv.Itoa(int(queueID)))
	cq := &consumeQueue{topic: topic, queueID: queueID, unit: cqEntryBytes}
	if kind == BatchCQ {
		cq.unit, cq.batch = batchEntryBytes, &batchRange{}
		cq.mfq = newMappedFileQueue(o, queueDir, o.MappedFileSizeBatchConsumeQueue, false)
	} else {
		cq.mfq = newMappedFileQueue(o, queueDir, o.MappedFileSizeConsumeQueue, false)
		cq.ext = newConsumeQueueExt(o, topic, queueID)
	}
	cq.maxPhy.Store(-1)
	return cq
}

// append adds the entry of the message with queue offset q. One whose record ends before maxPhy is there already, and
// nothing happens: dispatching a record twice is harmless.
//
// A q beyond the end leaves a hole of blank entries; in an empty queue the hole is everything before q and minOffset
// becomes q. A q of 0 in a queue that has entries means that the topic was deleted and made again: the old entries go.
// Any other q before the end is errQueueOrder (Java logs "repeatedly" and drops the message, too).
func (cq *consumeQueue) append(e cqEntry, q int64) error {
	if e.end() <= cq.maxPhy.Load() {
		return nil
	}
	if err := cq.makePlace(q); err != nil {
		return err
	}
	return cq.appendEntry(e, q)
}

// makePlace makes q the next free place if it is not.
func (cq *consumeQueue) makePlace(q int64) error {
	if end := cq.maxOffset.Load(); q != end {
		return cq.align(q, end)
	}
	return nil
}

// appendEntry writes the entry of queue offset q, the next free place.
func (cq *consumeQueue) appendEntry(e cqEntry, q int64) error {
	var b [cqEntryBytes]byte
	e.put(b[:])
	if err := cq.write(q, b[:]); err != nil {
		return err
	}
	cq.maxPhy.Store(e.end())
	cq.maxOffset.Store(q + 1)
	return nil
}

const (
	// firstReadyBytes and maxReadyBytes bound how many bytes of a queue are faulted in ahead of its writer: as much as
	// the file holds already, in between. Ten thousand queues of a few messages cost a page each.
	firstReadyBytes = 4 << 10
	maxReadyBytes   = 64 << 10
)

// appendsAtOnce tells whether the entry of queue offset q goes to the end, into pages that are in memory.
func (cq *consumeQueue) appendsAtOnce(q int64) bool {
	if cq.batch != nil {
		return cq.appendsBatchAtOnce(q)
	}
	return q == cq.maxOffset.Load() && (q+2)*cqEntryBytes <= cq.readyTo
}

// makeReady faults in the pages behind the end if the next entry lies outside those that are. pos is the end in mf.
func (cq *consumeQueue) makeReady(mf *mappedFile) {
	pos := mf.wrotePosition.Load()
	end := min(pos+2*cq.unit, mf.reserved)
	if mf.fileFrom+end <= cq.readyTo {
		return
	}
	n := min(max(pos, firstReadyBytes), maxReadyBytes)
	n = min((end+n)/vfs.PageSize*vfs.PageSize, mf.reserved) - pos
	if mf.populate(pos, n) == nil {
		cq.readyTo = mf.fileFrom + pos + n
	}
}

// align makes q the next free place.
func (cq *consumeQueue) align(q, end int64) error {
	switch {
	case q < 0 || q > math.MaxInt64/cqEntryBytes-1:
		return fmt.Errorf("%w: %s-%d: %d", errQueueOrder, cq.topic, cq.queueID, q)
	case q == 0:
		return cq.reset()
	case q < end:
		return orderError(cq, q, end)
	case cq.mfq.last() == nil:
		return cq.startAt(q)
	case q-end > maxHoleEntries:
		return fmt.Errorf("%w: %s-%d: %d leaves a hole of %d", errQueueOrder, cq.topic, cq.queueID, q, q-end)
	}
	return cq.fill(end, q, max(0, cq.maxPhy.Load()))
}

// orderError says that a message comes too late for its offset.
func orderError(cq *consumeQueue, q, end int64) error {
	return fmt.Errorf("%w: %s-%d: %d behind %d", errQueueOrder, cq.topic, cq.queueID, q, end)
}

// startAt makes q the first offset of an empty queue.
func (cq *consumeQueue) startAt(q int64) error {
	perFile := cq.mfq.fileSize / cqEntryBytes
	if err := cq.fill(q-q%perFile, q, 0); err != nil {
		return err
	}
	cq.minOffset.Store(q)
	cq.maxOffset.Store(q)
	return nil
}

// reset empties the queue; its files go.
func (cq *consumeQueue) reset() error {
	cq.minOffset.Store(0)
	cq.maxOffset.Store(0)
	cq.maxPhy.Store(-1)
	cq.saved.Store(nil)
	cq.readyTo = 0
	cq.renumber()
	return errors.Join(cq.mfq.destroy(), cq.ext.reset())
}

// blankBlock is how many blank entries are written at a time.
const blankBlock = 512

// fill writes blank entries for the offsets [from, to).
func (cq *consumeQueue) fill(from, to, phyOffset int64) error {
	block := make([]byte, min(to-from, blankBlock)*cqEntryBytes)
	for at := 0; at < len(block); at += cqEntryBytes {
		cqEntry{phyOffset: phyOffset, size: blankEntrySize}.put(block[at:])
	}
	perFile := cq.mfq.fileSize / cqEntryBytes
	for q := from; q < to; {
		count := min(to-q, blankBlock, perFile-q%perFile)
		if err := cq.write(q, block[:count*cqEntryBytes]); err != nil {
			return err
		}
		q += count
		cq.maxOffset.Store(q)
	}
	return nil
}

// write copies whole entries to the place of the q-th, which is the end. They do not cross a file.
func (cq *consumeQueue) write(q int64, b []byte) error {
	mf, err := cq.mfq.appendable(q*cq.unit, int64(len(b)))
	if err != nil {
		return err
	}
	if mf.wrotePosition.Load() == 0 {
		cq.namesDirty.Store(true)
	}
	if err := mf.append(b); err != nil {
		return err
	}
	if err := cq.endWithZero(mf); err != nil {
		return err
	}
	if (q+1)*cq.unit+int64(len(b)) > cq.readyTo {
		cq.makeReady(mf)
	}
	return nil
}

// endWithZero clears the place behind the last entry of a file: after a crash it may hold an entry of an earlier life, and
// whoever looks for the end of the queue must find it here.
func (cq *consumeQueue) endWithZero(mf *mappedFile) error {
	pos := mf.wrotePosition.Load()
	if pos >= mf.size {
		return nil
	}
	if err := mf.reserve(pos + cq.unit); err != nil {
		return err
	}
	if next := mf.data()[pos : pos+cq.unit]; !decodeCQEntry(next).isZero() || cq.batch != nil {
		clear(next)
	}
	return nil
}

// entry reads one entry, of the kind BatchCQ the q-th and not that of a queue offset; false when it is not there. It may
// wait for the disk, by a system call and not by a page fault. Get does not come here.
func (cq *consumeQueue) entry(q int64) (e cqEntry, ok bool) {
	b, mf, ok := cq.mfq.slice(q*cq.unit, cqEntryBytes)
	if !ok {
		return e, false
	}
	if pos := q*cq.unit - mf.fileFrom; !mf.resident(pos, cqEntryBytes) {
		_ = mf.prefetch(pos, cqEntryBytes) // else the fault reads it in
	}
	e = decodeCQEntry(b)
	mf.Release()
	return e, true
}

// firstStored is the first queue offset that has a place in the files.
func (cq *consumeQueue) firstStored() int64 { return cq.mfq.minOffset() / cq.unit }

// search is the first offset in [from, to) whose entry satisfies reached, which must stay true once it is true; to if
// there is none. Entries that vanish meanwhile count as not reached: they are the oldest.
func (cq *consumeQueue) search(from, to int64, reached func(e cqEntry) bool) int64 {
	n := sort.Search(int(to-from), func(i int) bool {
		e, ok := cq.entry(from + int64(i))
		return ok && reached(e)
	})
	return from + int64(n)
}

// correctMin moves minOffset to the first entry whose record starts at minPhy, the start of the CommitLog, or later; to
// the end when there is none: min and max are then equal and numbering goes on (Java correctMinOffset, case B20).
func (cq *consumeQueue) correctMin(minPhy int64) {
	defer cq.renumber()
	from, to := max(cq.minOffset.Load(), cq.firstStored()), cq.maxOffset.Load()
	if from >= to {
		cq.minOffset.Store(min(from, to))
		return
	}
	alive := func(e cqEntry) bool { return e.phyOffset >= minPhy && (e.phyOffset > 0 || !e.isBlank()) }
	if e, ok := cq.entry(from); ok && alive(e) {
		cq.minOffset.Store(from)
		return
	}
	if cq.maxPhy.Load() <= minPhy {
		cq.minOffset.Store(to)
		return
	}
	cq.minOffset.Store(cq.search(from, to, alive))
}

// deleteExpired deletes the leading files whose last entry points before minPhy, never the last one.
func (cq *consumeQueue) deleteExpired(minPhy int64, limit int) ([]string, error) {
	deleted, err := cq.mfq.deleteLeading(limit, func(mf *mappedFile) bool {
		b, ok := mf.slice(mf.size-cq.unit, cqEntryBytes)
		if !ok {
			return false
		}
		defer mf.Release()
		return decodeCQEntry(b).phyOffset < minPhy
	})
	cq.correctMin(minPhy)
	units, extErr := cq.deleteExpiredExt(limit)
	return append(deleted, units...), errors.Join(err, extErr)
}
