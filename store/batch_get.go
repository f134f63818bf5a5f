package store

import (
	"math"

	"skylark/codec"
)

// readBatch is read for a queue of the kind BatchCQ. What is asked for in the middle of a batch gets the whole batch; an
// offset without a message gets what is behind it (Java the batch before it, again and again).
func (g *getter) readBatch(cq *consumeQueue) {
	req, res := g.req, g.res
	res.Status, res.NextOffset = GetNoMatchedMessage, req.Offset
	i, ok := g.position(cq)
	if !ok {
		g.cold()
		return
	}
	to := cq.maxOffset.Load()
	mf := cq.mfq.find(i * batchEntryBytes)
	if i >= to || mf == nil { // deleted this moment
		g.lost(cq)
		return
	}
	pos := i*batchEntryBytes - mf.fileFrom
	entries, ok := mf.slice(pos, min(to*batchEntryBytes-mf.fileFrom, mf.size)-pos)
	if !ok {
		g.lost(cq)
		return
	}
	g.scanBatch(entries, mf, pos)
	mf.Release()
	g.endRun()
	res.SuggestSlave = g.maxPhy-g.pulling > g.s.reads.hotBytes
}

// lost answers when the entries asked for have just expired.
func (g *getter) lost(cq *consumeQueue) {
	start, _ := cq.bounds()
	g.res.Status, g.res.NextOffset = GetOffsetFoundNull, max(QueueOffset(start), g.req.Offset)
}

// position is consumeQueue.position that waits only if it may; false: an entry on the way is not in memory.
func (g *getter) position(cq *consumeQueue) (i int64, ok bool) {
	from, to := max(cq.minOffset.Load(), cq.firstStored()), cq.maxOffset.Load()
	for from < to {
		mid := from + (to-from)/2
		b, mf, ok := cq.mfq.slice(mid*batchEntryBytes, batchEntryBytes)
		if !ok {
			from = mid + 1
			continue
		}
		if !g.inMemory(mf, mid*batchEntryBytes-mf.fileFrom, batchEntryBytes) {
			mf.Release()
			return 0, false
		}
		e := decodeBatchEntry(b)
		mf.Release()
		if e.next() <= int64(g.req.Offset) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return to, true
}

// entryBlockBatchBytes of entries are looked at for residency at once.
const entryBlockBatchBytes = 64 * batchEntryBytes

// scanBatch looks at entries, which stand at pos of mf, until a limit is reached. As in Java a call looks at so many queue
// offsets as bytes of entries, were each message one entry, would reach MaxFilterMessageSize.
func (g *getter) scanBatch(entries []byte, mf *mappedFile, pos int64) {
	res := g.res
	limit := int64(max(g.s.o.MaxFilterMessageSize, g.req.MaxMsgs*batchEntryBytes))
	checked := 0
	for at := 0; at+batchEntryBytes <= len(entries); at += batchEntryBytes {
		if at >= checked {
			block := min(entryBlockBatchBytes, len(entries)-at)
			if !g.inMemory(mf, pos+int64(at), int64(block)) {
				g.cold()
				return
			}
			checked = at + block
		}
		e := decodeBatchEntry(entries[at:])
		if at > 0 && (e.base-int64(g.req.Offset))*batchEntryBytes >= limit || g.batchFull(e.cqEntry, int(e.count)) {
			return
		}
		before := res.Count
		if !g.take(g.ownTags(e.cqEntry)) {
			g.cold()
			return
		}
		if res.Count > before {
			res.Count += int(e.count) - 1
		}
		res.NextOffset = QueueOffset(e.next())
	}
}

// ownTags leaves the tags of a batch that has none of its own, and that the filter would not take, to its record: see
// matchTags.
func (g *getter) ownTags(e cqEntry) cqEntry {
	if filter := g.req.Filter; filter != nil && e.tagsCode == 0 && !filter.MatchQueueEntry(0) {
		e.tagsCode = math.MinInt64
	}
	return e
}

// matchTags asks the filter about the tags of a record whose entry does not tell them. An inner batch without tags of its
// own counts as matching when one of its messages does: the client leaves out the others. Java's broker passes over such a
// batch.
func (s *MessageStore) matchTags(filter MessageFilter, b []byte) bool {
	rec, err := codec.ParseRecord(b, false)
	if err != nil || rec.IsBlank() {
		return filter.MatchQueueEntry(0)
	}
	var d dispatchRecord
	d.fill(&rec, rec.PhyOffset, &s.o)
	if d.tagsCode != 0 || !rec.IsInnerBatch() {
		return filter.MatchQueueEntry(d.tagsCode)
	}
	match := false
	// A body that is no batch is left to the consumer, who can tell.
	err = codec.EachBatchEntry(rec.Body, func(_ int, e codec.BatchEntry) error {
		tagsCode := int64(0)
		if tags := propertyValue(e.Properties, tagsPattern); len(tags) > 0 {
			tagsCode = codec.TagsCode(tags)
		}
		match = match || filter.MatchQueueEntry(tagsCode)
		return nil
	})
	return match || err != nil
}

// batchQueueEntries is QueueEntries for a queue of the kind BatchCQ: each message of a batch has the batch's entry.
func (cq *consumeQueue) batchQueueEntries(from QueueOffset, count int) (entries []QueueEntry) {
	q := int64(from)
	for i := cq.position(q); len(entries) < count && i < cq.maxOffset.Load(); i++ {
		e, ok := cq.batchEntry(i)
		if !ok || e.base > q {
			break
		}
		for ; q < e.next() && len(entries) < count; q++ {
			entries = append(entries, QueueEntry{PhyOffset: PhyOffset(e.phyOffset), Size: e.size, TagsCode: e.tagsCode})
		}
	}
	return entries
}
