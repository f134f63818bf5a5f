package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"skylark/codec"
)

// maxKeyReads bounds the records one query by key reads: other keys can have the same hash, on purpose even.
const maxKeyReads = 4096

// Positions in a record that are read without parsing it (spec store.md §2).
const (
	recordSysFlagAt        = 36
	recordStoreTimestampAt = 56 // 12 more with an IPv6 born host
	recordTimeBytes        = recordStoreTimestampAt + 12 + 8
	// recordBodyAt is behind store host, reconsume times and transaction offset, with IPv4 hosts.
	recordBodyAt = recordStoreTimestampAt + 8 + 8 + 4 + 8
)

// MinOffset is the first offset of a queue that can be consumed, 0 for an unknown queue. Equal to MaxOffset it means that
// all messages have expired.
func (s *MessageStore) MinOffset(topic string, queueID int32) QueueOffset {
	if cq := s.queues.find(topic, queueID); cq != nil {
		start, _ := cq.bounds()
		return QueueOffset(start)
	}
	return 0
}

// MaxOffset is one past the last offset that can be consumed, 0 for an unknown queue. Messages that were put and not
// dispatched yet, or with SYNC_FLUSH not flushed, are not counted.
func (s *MessageStore) MaxOffset(topic string, queueID int32) QueueOffset {
	if cq := s.queues.find(topic, queueID); cq != nil {
		_, end := cq.bounds()
		return QueueOffset(end)
	}
	return 0
}

// HasQueue tells whether the queue exists: a message was put into it.
func (s *MessageStore) HasQueue(topic string, queueID int32) bool {
	return s.queues.find(topic, queueID) != nil
}

// Queues are the ids of a topic's queues in ascending order.
func (s *MessageStore) Queues(topic string) []int32 {
	var ids []int32
	if tq := s.queues.topic(topic); tq != nil {
		for _, cq := range tq.list() {
			ids = append(ids, cq.queueID)
		}
	}
	return ids
}

// Topics are the topics that have queues, sorted.
func (s *MessageStore) Topics() []string { return s.queues.topics() }

// storeTime is the store timestamp of the record of an entry, ms; -1 when it is gone. It may wait for the disk.
func (s *MessageStore) storeTime(e cqEntry) int64 {
	if e.isBlank() || e.size < recordTimeBytes {
		return -1
	}
	b, mf, ok := s.cl.slice(PhyOffset(e.phyOffset), recordTimeBytes)
	if !ok {
		return -1
	}
	defer mf.Release()
	s.warm(mf, e.phyOffset-mf.fileFrom, recordTimeBytes)
	return recordStoreTimestamp(b)
}

// recordStoreTimestamp reads the store timestamp of a record of which b has at least recordTimeBytes.
func recordStoreTimestamp(b []byte) int64 {
	at := recordStoreTimestampAt
	if int32(binary.BigEndian.Uint32(b[recordSysFlagAt:]))&codec.SysFlagBornHostV6 != 0 {
		at += 12
	}
	return int64(binary.BigEndian.Uint64(b[at:]))
}

// warm reads a range in before it is touched, by a system call instead of a page fault.
func (s *MessageStore) warm(mf *mappedFile, pos, n int64) {
	if mf.resident(pos, n) {
		return
	}
	if err := mf.prefetch(pos, n); err != nil {
		s.log.Warn("reading ahead failed", "file", mf.path, "err", err)
	}
}

// timeFrom is the store timestamp of the first record at or behind an offset of the log, which grows with the offset also
// where records are missing. Behind the last record it is larger than any.
func (s *MessageStore) timeFrom(phyOffset int64) int64 {
	for {
		mf := s.cl.files.find(phyOffset)
		if mf == nil {
			if mf = s.cl.files.after(phyOffset); mf == nil {
				return math.MaxInt64
			}
			phyOffset = mf.fileFrom
		}
		if b, ok := mf.slice(phyOffset-mf.fileFrom, recordTimeBytes); ok {
			s.warm(mf, phyOffset-mf.fileFrom, recordTimeBytes)
			_, magic := codec.RecordSize(b)
			timestamp := recordStoreTimestamp(b)
			mf.Release()
			if magic == codec.MagicV1 || magic == codec.MagicV2 {
				return timestamp
			}
		}
		phyOffset = mf.fileFrom + mf.size
	}
}

// OffsetByTime searches a queue by store time (Java ConsumeQueue.getOffsetInQueueByTime; request 29).
//
//	BoundaryLower  first message with storeTime >= t; past the end max; before the start min
//	BoundaryUpper  last message with storeTime <= t; past the end max-1; before the start min
//
// In queues of the kind BatchCQ the first message of a batch stands for all. An unknown queue gives 0, one whose messages
// have all expired max. A message whose record is missing counts as stored at the time of the next record that is there. It
// may wait for the disk.
func (s *MessageStore) OffsetByTime(topic string, queueID int32, timestampMillis int64, b Boundary) QueueOffset {
	cq := s.queues.find(topic, queueID)
	if cq == nil {
		return 0
	}
	from, to := cq.minOffset.Load(), cq.maxOffset.Load()
	reached := func(e cqEntry) bool { return s.timeFrom(e.phyOffset) >= timestampMillis }
	if b == BoundaryUpper {
		reached = func(e cqEntry) bool { return s.timeFrom(e.phyOffset) > timestampMillis }
	}
	if from >= to {
		return QueueOffset(cq.offsetAt(to))
	}
	q := cq.search(from, to, reached)
	if b == BoundaryUpper {
		q = max(q-1, from)
	}
	return QueueOffset(cq.offsetAt(q))
}

// StoreTimeOf is the store timestamp of one message, ms, -1 if it is not there. It may wait for the disk.
func (s *MessageStore) StoreTimeOf(topic string, queueID int32, q QueueOffset) int64 {
	e, ok := s.messageEntry(topic, queueID, q)
	if !ok {
		return -1
	}
	return s.storeTime(e)
}

// messageEntry is the entry of a message that can be consumed.
func (s *MessageStore) messageEntry(topic string, queueID int32, q QueueOffset) (cqEntry, bool) {
	cq := s.queues.find(topic, queueID)
	if cq == nil {
		return cqEntry{}, false
	}
	if start, end := cq.bounds(); int64(q) < start || int64(q) >= end {
		return cqEntry{}, false
	}
	return cq.entryOf(int64(q))
}

// EarliestStoreTime is the store timestamp of the first message of a queue, ms, -1 without messages.
func (s *MessageStore) EarliestStoreTime(topic string, queueID int32) int64 {
	return s.StoreTimeOf(topic, queueID, s.MinOffset(topic, queueID))
}

// EarliestMessageTime is the store timestamp of the first record in the log, ms, -1 without records.
func (s *MessageStore) EarliestMessageTime() int64 {
	return s.cl.earliestTimestamp()
}

// ReadRecord copies the whole record at p to buf[:0] and returns it. Where no record starts it is ErrNotFound. A record that
// is in a write buffer only is committed first: who was told its offset, such as the producer that ends a transaction,
// must not have to wait for a commit interval. Java answers such a producer with an error.
func (s *MessageStore) ReadRecord(p PhyOffset, buf []byte) ([]byte, error) {
	if s.cl.pool != nil && p >= s.cl.maxOffset() && p < s.cl.wroteEnd() {
		s.cl.commitNow()
	}
	head, mf, ok := s.cl.slice(p, codec.BlankRecordBytes)
	if !ok {
		return nil, fmt.Errorf("%w: no record at %d", ErrNotFound, p)
	}
	defer mf.Release()
	pos := int64(p) - mf.fileFrom
	s.warm(mf, pos, codec.BlankRecordBytes)
	size, magic := codec.RecordSize(head)
	limit := mf.readPosition()
	if magic != codec.MagicV1 && magic != codec.MagicV2 || size < codec.MinRecordBytes || pos+int64(size) > limit {
		return nil, fmt.Errorf("%w: no record at %d", ErrNotFound, p)
	}
	s.warm(mf, pos, int64(size))
	rec := mf.data()[pos : pos+int64(size)]
	parsed, err := codec.ParseRecord(rec, false)
	if err != nil || parsed.PhyOffset != p {
		return nil, fmt.Errorf("%w: no record at %d", ErrNotFound, p)
	}
	return append(buf[:0], rec...), nil
}

// QueryByKey returns copies of the records of a topic that have key as their UNIQ_KEY or as one of their KEYS and were
// stored in [beginMillis, endMillis], oldest first: the newest maxNum of them, and never more than MaxMsgsNumBatch.
// lastUpdate and lastPhy tell how far the index has come. Unlike Java's the answer has no records whose key only has the
// same hash. It may wait for the disk.
func (s *MessageStore) QueryByKey(topic, key string, maxNum int, beginMillis, endMillis int64) (recs [][]byte,
	lastUpdate int64, lastPhy PhyOffset) {
	maxNum = min(maxNum, s.o.MaxMsgsNumBatch)
	if maxNum <= 0 || topic == "" || key == "" {
		return nil, 0, 0
	}
	s.index.catchUp()
	hash := indexHash([]byte(topic + "#" + key))
	var found []int64
	reads := maxKeyReads
	lastUpdate, last, err := s.index.query(hash, beginMillis, endMillis, func(phyOffset int64) bool {
		// A record is met twice when its UNIQ_KEY is one of its KEYS, or when it was indexed again after a crash.
		if !slices.Contains(found, phyOffset) {
			rec, err := s.ReadRecord(PhyOffset(phyOffset), nil)
			if err == nil && recordHasKey(rec, topic, key, beginMillis, endMillis) {
				found = append(found, phyOffset)
				recs = append(recs, rec)
			}
		}
		reads--
		return len(found) < maxNum && reads > 0
	})
	if err != nil {
		s.log.Error("index cannot be read", "err", err)
	}
	slices.SortFunc(recs, func(a, b []byte) int {
		return int(min(max(recordPhyOffset(a)-recordPhyOffset(b), -1), 1))
	})
	return recs, lastUpdate, PhyOffset(last)
}

func recordPhyOffset(rec []byte) int64 { return int64(binary.BigEndian.Uint64(rec[28:])) }

// recordHasKey tells whether a record is one that a query by key asked for.
func recordHasKey(b []byte, topic, key string, beginMillis, endMillis int64) bool {
	rec, err := codec.ParseRecord(b, false)
	if err != nil || string(rec.Topic) != topic || rec.StoreTimestamp < beginMillis || rec.StoreTimestamp > endMillis {
		return false
	}
	if string(propertyValue(rec.Properties, uniqKeyPattern)) == key {
		return true
	}
	for k := range eachKey(propertyValue(rec.Properties, keysPattern)) {
		if string(k) == key {
			return true
		}
	}
	return false
}

// QueueEntries returns up to count entries of a queue from an offset on; fewer where the queue or one of its files ends,
// or where the first ones have expired: entry i is that of offset from+i. It may wait for the disk.
func (s *MessageStore) QueueEntries(topic string, queueID int32, from QueueOffset, count int) []QueueEntry {
	cq := s.queues.find(topic, queueID)
	if cq == nil {
		return nil
	}
	if start, _ := cq.bounds(); int64(from) < start {
		return nil
	}
	if cq.batch != nil {
		return cq.batchQueueEntries(from, count)
	}
	n := min(int64(count), cq.maxOffset.Load()-int64(from))
	mf := cq.mfq.find(int64(from) * cqEntryBytes)
	if n <= 0 || mf == nil {
		return nil
	}
	pos := int64(from)*cqEntryBytes - mf.fileFrom
	n = min(n, (mf.size-pos)/cqEntryBytes)
	b, ok := mf.slice(pos, n*cqEntryBytes)
	if !ok {
		return nil
	}
	defer mf.Release()
	s.warm(mf, pos, int64(len(b)))
	entries := make([]QueueEntry, n)
	for i := range entries {
		e := decodeCQEntry(b[i*cqEntryBytes:])
		if isExtAddress(e.tagsCode) {
			e.tagsCode = s.tagsCodeAt(cq, e)
		}
		entries[i] = QueueEntry{PhyOffset: PhyOffset(e.phyOffset), Size: e.size, TagsCode: e.tagsCode}
	}
	return entries
}

// tagsCodeAt is the tagsCode that an entry with an address stands for: of its unit, else of its record; 0 if both are gone.
func (s *MessageStore) tagsCodeAt(cq *consumeQueue, e cqEntry) int64 {
	if cq.ext != nil {
		if u, ok := cq.ext.unit(extOffset(e.tagsCode)); ok {
			return u.tagsCode
		}
	}
	b, mf, ok := s.cl.slice(PhyOffset(e.phyOffset), int(e.size))
	if !ok {
		return 0
	}
	defer mf.Release()
	s.warm(mf, e.phyOffset-mf.fileFrom, int64(e.size))
	return s.tagsCodeOf(b)
}

// CheckInMemory tells whether a message is in memory (Java checkInMemByConsumeOffset, for request 14). It may wait for the
// queue's entry.
func (s *MessageStore) CheckInMemory(topic string, queueID int32, q QueueOffset) bool {
	e, ok := s.messageEntry(topic, queueID, q)
	if !ok || e.isBlank() {
		return false
	}
	_, mf, ok := s.cl.slice(PhyOffset(e.phyOffset), int(e.size))
	if !ok {
		return false
	}
	defer mf.Release()
	return mf.resident(e.phyOffset-mf.fileFrom, int64(e.size))
}

// DeleteTopic removes the queues of a topic and their files. Its records stay in the log until they expire, without a way
// to them; keys of them still lead to them. A topic that has no queues is no error.
func (s *MessageStore) DeleteTopic(topic string) error {
	_, err := s.queues.deleteTopic(topic)
	return err
}

// CleanUnusedTopics deletes the topics with queues that keep does not want, except system topics and LMQs, and returns
// how many (Java cleanUnusedTopic, request 316).
func (s *MessageStore) CleanUnusedTopics(keep func(topic string) bool) int {
	deleted := 0
	for _, topic := range s.queues.topics() {
		if keep(topic) || codec.IsSystemTopic(topic) || codec.IsLMQ(topic) {
			continue
		}
		ok, err := s.queues.deleteTopic(topic)
		if err != nil {
			s.log.Error("unused topic not deleted", "topic", topic, "err", err)
		}
		if ok {
			deleted++
		}
	}
	return deleted
}

// CleanExpiredConsumeQueues removes queues, not of system topics, all of whose messages have expired, and returns how
// many (Java cleanExpiredConsumerQueue, request 306). Their offsets start at 0 again.
func (s *MessageStore) CleanExpiredConsumeQueues() int {
	removed, err := s.queues.cleanExpired(codec.IsSystemTopic)
	if err != nil {
		s.log.Error("expired queues not deleted", "err", err)
	}
	return removed
}
