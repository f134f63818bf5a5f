package store

import (
	"encoding/binary"
	"math"
	"strconv"
	"sync/atomic"

	"skylark/codec"
)

// CQType is the kind of a topic's queues (Java CQType, topic attribute queue.type). It never changes while the topic exists.
type CQType uint8

// The kinds. CQUnknown is what Options.QueueType says of a topic that it does not know: its directory then tells.
const (
	CQUnknown CQType = iota
	SimpleCQ
	BatchCQ
)

// String is Java's name.
func (t CQType) String() string { return [...]string{"unknown", "SimpleCQ", "BatchCQ"}[t] }

const (
	// batchEntryBytes is one entry of a queue of the kind BatchCQ.
	batchEntryBytes = 46
	// batchInvalidPos stands where Java's compacted topics have a position.
	batchInvalidPos = 0xFFFFFFFF
	// MaxInnerMessages is how many messages one inner batch may hold: its entry has 16 bits for their number.
	MaxInnerMessages = math.MaxInt16
)

// batchEntry is one entry of a queue of the kind BatchCQ (Java BatchConsumeQueue). It stands for one record and as many
// queue offsets as the record has messages:
//
//	offset  size  field
//	0       8     phyOffset of the record
//	8       4     size of the record
//	12      8     tagsCode: hash of the record's own tags
//	20      8     store timestamp, ms
//	28      8     base: queue offset of its first message
//	36      2     number of its messages, 1 or more
//	38      4     -1; a position in compacted topics
//	42      4     0
//
// The first 20 bytes are those of a cqEntry. Entries stand one behind the other, so that the i-th is at byte 46·i, and an
// offset is found by binary search over the bases.
type batchEntry struct {
	cqEntry
	storeTimestamp int64
	base           int64
	count          int16
}

// next is the queue offset behind its last message.
func (e *batchEntry) next() int64 { return e.base + int64(e.count) }

func (e *batchEntry) put(b []byte) {
	_ = b[batchEntryBytes-1]
	e.cqEntry.put(b)
	be := binary.BigEndian
	be.PutUint64(b[20:], uint64(e.storeTimestamp))
	be.PutUint64(b[28:], uint64(e.base))
	be.PutUint16(b[36:], uint16(e.count))
	be.PutUint32(b[38:], batchInvalidPos)
	be.PutUint32(b[42:], 0)
}

func decodeBatchEntry(b []byte) batchEntry {
	_ = b[batchEntryBytes-1]
	be := binary.BigEndian
	return batchEntry{cqEntry: decodeCQEntry(b), storeTimestamp: int64(be.Uint64(b[20:])), base: int64(be.Uint64(b[28:])),
		count: int16(be.Uint16(b[36:]))}
}

// valid tells whether it can be an entry behind one that ends at the queue offset after, -1 if that is not known.
func (e *batchEntry) valid(after int64) bool {
	return e.phyOffset >= 0 && e.size > 0 && e.base >= max(after, 0) && e.count > 0
}

// batchRange are the queue offsets of a queue of the kind BatchCQ: [min, max) can be consumed. The minOffset and maxOffset
// of its consumeQueue, and of its mark, count entries. Offsets of which there is no message leave no trace but the next
// base.
type batchRange struct {
	min, max atomic.Int64
	// from is where the numbering goes on when there is no entry.
	from int64
}

// bounds are the offsets of the queue that can be consumed.
func (cq *consumeQueue) bounds() (minOffset, maxOffset int64) {
	if b := cq.batch; b != nil {
		return b.min.Load(), b.max.Load()
	}
	return cq.minOffset.Load(), cq.maxOffset.Load()
}

// renumber makes the range that of the entries, after these have changed other than by an append.
func (cq *consumeQueue) renumber() {
	b := cq.batch
	if b == nil {
		return
	}
	from, to := cq.minOffset.Load(), cq.maxOffset.Load()
	end := b.from
	if last, ok := cq.batchEntry(to - 1); ok {
		end = last.next()
	}
	start := end
	if first, ok := cq.batchEntry(from); ok && from < to {
		start = first.base
	}
	b.min.Store(start)
	b.max.Store(end)
}

// batchEntry reads the i-th entry; false when it is not there. It may wait for the disk.
func (cq *consumeQueue) batchEntry(i int64) (e batchEntry, ok bool) {
	if i < 0 {
		return e, false
	}
	b, mf, ok := cq.mfq.slice(i*batchEntryBytes, batchEntryBytes)
	if !ok {
		return e, false
	}
	defer mf.Release()
	if pos := i*batchEntryBytes - mf.fileFrom; !mf.resident(pos, batchEntryBytes) {
		_ = mf.prefetch(pos, batchEntryBytes) // else the fault reads it in
	}
	return decodeBatchEntry(b), true
}

// position is the index of the entry that holds the message at a queue offset, or of the first behind it; the number of
// entries if there is none. It may wait for the disk.
func (cq *consumeQueue) position(q int64) int64 {
	from, to := max(cq.minOffset.Load(), cq.firstStored()), cq.maxOffset.Load()
	for from < to {
		mid := from + (to-from)/2
		// An entry that vanishes meanwhile is one of the oldest.
		if e, ok := cq.batchEntry(mid); !ok || e.next() <= q {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return to
}

// entryOf is the entry of the message at a queue offset, false when there is none. It may wait for the disk.
func (cq *consumeQueue) entryOf(q int64) (cqEntry, bool) {
	if cq.batch == nil {
		return cq.entry(q)
	}
	e, ok := cq.batchEntry(cq.position(q))
	return e.cqEntry, ok && e.base <= q
}

// offsetAt is the queue offset of the first message of the i-th entry; behind the last one the end of the queue.
func (cq *consumeQueue) offsetAt(i int64) int64 {
	if cq.batch == nil {
		return i
	}
	if e, ok := cq.batchEntry(i); ok && i < cq.maxOffset.Load() {
		return e.base
	}
	return cq.batch.max.Load()
}

// appendBatch adds the entry of a record. As with consumeQueue.append one that is there already changes nothing, a base of
// 0 in a queue that has entries means that the topic was made anew, and any other base before the end is errQueueOrder. A
// base beyond the end is taken.
func (cq *consumeQueue) appendBatch(e *batchEntry) error {
	b := cq.batch
	if e.end() <= cq.maxPhy.Load() {
		return nil
	}
	if end := b.max.Load(); e.base < end {
		if e.base != 0 {
			return orderError(cq, e.base, end)
		}
		if err := cq.reset(); err != nil {
			return err
		}
	}
	i := cq.maxOffset.Load()
	var unit [batchEntryBytes]byte
	e.put(unit[:])
	if err := cq.write(i, unit[:]); err != nil {
		return err
	}
	if b.min.Load() == b.max.Load() {
		b.min.Store(e.base)
	}
	cq.maxPhy.Store(e.end())
	cq.maxOffset.Store(i + 1)
	b.max.Store(e.next())
	return nil
}

// appendsBatchAtOnce is appendsAtOnce for a queue of the kind BatchCQ.
func (cq *consumeQueue) appendsBatchAtOnce(base int64) bool {
	return base == cq.batch.max.Load() && (cq.maxOffset.Load()+2)*batchEntryBytes <= cq.readyTo
}

var innerNumPattern = []byte(codec.PropInnerNum + "\x01")

// innerCount is how many messages a record stands for (Java CommitLog.setBatchSizeIfNeeded): its INNER_NUM, which only
// inner batches have, else 1.
func innerCount(properties []byte) int16 {
	value := propertyValue(properties, innerNumPattern)
	if value == nil {
		return 1
	}
	n, err := strconv.ParseInt(string(value), 10, 16)
	if err != nil || n < 1 {
		return 1
	}
	return int16(n)
}

// batchEntry is the entry of the record in a queue of the kind BatchCQ.
func (d *dispatchRecord) batchEntry() batchEntry {
	return batchEntry{cqEntry: cqEntry{int64(d.phyOffset), int32(d.size), d.tagsCode}, storeTimestamp: d.storeTimestamp,
		base: int64(d.queueOffset), count: innerCount(d.properties)}
}
