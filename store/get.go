package store

import (
	"math"
	"sync"

	"skylark/codec"
	"skylark/zerocopy"
)

const (
	// maxPullBytes is Java's absolute bound of one answer.
	maxPullBytes = 128 << 20
	// minPullBytes is the smallest limit a request can set (Java).
	minPullBytes = 100
	// hotTailBytes before the end of the log count as resident if this process wrote them: that was moments ago.
	hotTailBytes = 4 << 20
	// entryBlockBytes of a ConsumeQueue are looked at for residency at once: as much as a plain pull reads.
	entryBlockBytes = 64 * cqEntryBytes
)

// reads is what Get keeps from call to call.
type reads struct {
	// hotBytes behind the end of the log count as in memory for the limits of an answer and for SuggestSlave
	// (MemoryBytes × AccessMessageInMemoryMaxRatio).
	hotBytes int64
	// coldBytes behind the end of the log the cold area begins (MemoryBytes × AccessMessageInMemoryHotRatio); coldSeconds
	// after it was read from the disk data counts as cold. countCold and scanCold: see Options.ColdDataFlowControlEnable.
	coldBytes           int64
	coldSeconds         uint32
	countCold, scanCold bool
	// recoveredTo is the end of the log at the start; records before it may have to come from the disk.
	recoveredTo int64
	records     sync.Pool // *codec.Record for filters
}

// setUp is called when the end of the log is known.
func (r *reads) setUp(o *Options, end PhyOffset) {
	memory := o.MemoryBytes
	if memory == 0 {
		memory = machineMemoryBytes()
	}
	r.hotBytes = memory / 100 * int64(o.AccessMessageInMemoryMaxRatio)
	r.coldBytes = memory / 100 * int64(max(o.AccessMessageInMemoryHotRatio, 0))
	r.coldSeconds = uint32(o.ColdDataCheckInterval.Seconds())
	r.countCold, r.scanCold = o.ColdDataFlowControlEnable, o.ColdDataScanEnable
	r.recoveredTo = int64(end)
}

// Get reads messages of one queue from req.Offset on (Java DefaultMessageStore.getMessage; spec store-behaviour.md §7):
//
//	condition                        status                 NextOffset
//	no such queue                    GetNoMatchedLogicQueue 0
//	the queue never had a message    GetNoMessageInQueue    0
//	offset < min                     GetOffsetTooSmall      min
//	offset = max                     GetOffsetOverflowOne   offset
//	offset > max                     GetOffsetOverflowBadly max
//	entry not readable               GetOffsetFoundNull     first offset of the next ConsumeQueue file
//	nothing passed the filter        GetNoMatchedMessage    behind the last entry looked at
//	records are gone from the log    GetMessageWasRemoving  behind them
//	the range is not in memory       GetCold                offset (ours; only without AllowCold)
//	else                             GetFound               behind the last entry looked at
//
// A slave's rule, to answer the asked offset instead of a corrected one, is the broker's.
//
// One call looks at max(MaxFilterMessageSize, 20·MaxMsgs) bytes of one ConsumeQueue file and returns at most MaxMsgs
// messages and MaxBytes, and of data that counts as in memory MaxTransferCountInMemory and MaxTransferBytesInMemory, of
// older data the …OnDisk limits. The first message is always returned whole.
//
//	per call     no lock, no allocation once res has capacity, no system call while the range is known to be resident
//	per message  20 bytes read; a run of records that follow each other in the log is one segment and one reference
//
// Without AllowCold nothing that is not in memory is touched, and res says GetCold if not even the first message is.
// With it, pieces of 256 KiB are read in first, so that no page fault stops a scheduler thread (see readAheadService).
func (s *MessageStore) Get(req *GetRequest, res *GetResult) {
	res.Messages.Release()
	res.Status, res.Count, res.SuggestSlave, res.ColdBytes = GetNoMatchedLogicQueue, 0, false, 0
	res.NextOffset, res.MinOffset, res.MaxOffset = 0, 0, 0
	cq := s.queues.find(req.Topic, req.QueueID)
	if cq == nil {
		s.stats.got(res)
		return
	}
	start, end := cq.bounds()
	res.MaxOffset, res.MinOffset = QueueOffset(end), QueueOffset(start)
	switch {
	case res.MaxOffset == 0:
		res.Status = GetNoMessageInQueue
	case req.Offset < res.MinOffset:
		res.Status, res.NextOffset = GetOffsetTooSmall, res.MinOffset
	case req.Offset == res.MaxOffset:
		res.Status, res.NextOffset = GetOffsetOverflowOne, req.Offset
	case req.Offset > res.MaxOffset:
		res.Status, res.NextOffset = GetOffsetOverflowBadly, res.MaxOffset
	default:
		g := getter{s: s, req: req, res: res, maxPhy: int64(s.cl.maxOffset())}
		if cq.batch != nil {
			g.readBatch(cq)
		} else {
			g.read(cq)
		}
	}
	s.stats.got(res)
}

// getter is the state of one Get.
type getter struct {
	s      *MessageStore
	req    *GetRequest
	res    *GetResult
	maxPhy int64
	now    int64 // ms, 0 until asked for

	// The run of records being gathered: [from, to) of the log in mf, with one reference.
	mf       *mappedFile
	from, to int64
	bytes    int64 // gathered in all
	skipTo   int64 // records before it are gone
	pulling  int64 // phyOffset of the last entry looked at

	// knownFrom and knownTo are positions of mf between which it is known to be in memory, besides what is hot.
	knownFrom, knownTo int64

	filter PropertyFilter // of req, if it is one
	ext    extReader
	look   lookAhead
}

// read scans the entries of one ConsumeQueue file.
func (g *getter) read(cq *consumeQueue) {
	req, res := g.req, g.res
	if req.Filter != nil {
		g.filter, _ = req.Filter.(PropertyFilter)
		g.ext.x = cq.ext
	}
	res.Status, res.NextOffset = GetNoMatchedMessage, req.Offset
	pos := int64(req.Offset) * cqEntryBytes
	entries, cqFile, ok := g.entries(cq, pos)
	if !ok {
		perFile := QueueOffset(cq.mfq.fileSize / cqEntryBytes)
		res.Status, res.NextOffset = GetOffsetFoundNull, req.Offset+perFile-req.Offset%perFile
		return
	}
	g.scan(entries, cqFile, pos-cqFile.fileFrom)
	cqFile.Release()
	g.ext.release()
	g.endRun()
	res.SuggestSlave = g.maxPhy-g.pulling > g.s.reads.hotBytes
}

// entries is what the scan may look at from pos on, all in one file, with a reference.
func (g *getter) entries(cq *consumeQueue, pos int64) (entries []byte, mf *mappedFile, ok bool) {
	mf = cq.mfq.find(pos)
	if mf == nil {
		return nil, nil, false
	}
	limit := int64(max(g.s.o.MaxFilterMessageSize, g.req.MaxMsgs*cqEntryBytes))
	// A last part of an entry counts as a whole one, as in Java.
	limit = min((limit+cqEntryBytes-1)/cqEntryBytes*cqEntryBytes, int64(g.res.MaxOffset)*cqEntryBytes-pos,
		mf.fileFrom+mf.size-pos)
	entries, ok = mf.slice(pos-mf.fileFrom, limit)
	return entries, mf, ok
}

// scan looks at entries, which stand at pos of cqFile, until a limit is reached.
func (g *getter) scan(entries []byte, cqFile *mappedFile, pos int64) {
	res := g.res
	checked := 0 // bytes of entries known to be in memory
	for at := 0; at < len(entries); at += cqEntryBytes {
		if at >= checked {
			block := min(entryBlockBytes, len(entries)-at)
			if !g.inMemory(cqFile, pos+int64(at), int64(block)) {
				g.cold()
				return
			}
			checked = at + block
		}
		if g.filter != nil && at%(touchEntries*cqEntryBytes) == 0 {
			g.touch(entries[at:min(len(entries), at+touchEntries*cqEntryBytes)])
		}
		e := decodeCQEntry(entries[at:])
		if g.batchFull(e, 1) {
			return
		}
		if !g.take(e) {
			g.cold()
			return
		}
		res.NextOffset++
	}
}

// cold ends a scan at something that is not in memory.
func (g *getter) cold() {
	if g.res.Count == 0 {
		g.res.Status, g.res.NextOffset = GetCold, g.req.Offset
	}
}

// batchFull tells that the answer must not grow by this record of so many messages (Java isTheBatchFull).
func (g *getter) batchFull(e cqEntry, messages int) bool {
	o, count := &g.s.o, g.res.Count
	if count == 0 {
		return false
	}
	bytes := g.bytes + int64(e.size)
	maxBytes := int64(maxPullBytes)
	if g.req.MaxBytes > 0 {
		maxBytes = min(maxBytes, max(int64(g.req.MaxBytes), minPullBytes))
	}
	if count+messages > g.req.MaxMsgs || bytes > maxBytes {
		return true
	}
	if g.maxPhy-e.phyOffset <= g.s.reads.hotBytes {
		return bytes > int64(o.MaxTransferBytesInMemory) || count+1 > o.MaxTransferCountInMemory
	}
	return bytes > int64(o.MaxTransferBytesOnDisk) || count+1 > o.MaxTransferCountOnDisk
}

// take adds the record of an entry unless a filter or the log leaves it out; false: it is not in memory.
func (g *getter) take(e cqEntry) bool {
	if e.isBlank() || e.size <= 0 { // no record, or a damaged file
		g.status(GetMessageWasRemoving)
		return true
	}
	if e.phyOffset < g.skipTo {
		g.pulling = e.phyOffset
		return true
	}
	filter, tagsKnown := g.req.Filter, true
	if filter != nil {
		var match, here bool
		if match, tagsKnown, here = g.matchEntry(filter, e); !here {
			return false
		}
		if !match {
			g.pulling = e.phyOffset
			g.status(GetNoMatchedMessage)
			return true
		}
	}
	b, ok := g.record(e)
	if !ok {
		fileSize := g.s.cl.files.fileSize
		g.skipTo = e.phyOffset - e.phyOffset%fileSize + fileSize
		g.pulling = e.phyOffset
		g.status(GetMessageWasRemoving)
		return true
	}
	if !g.inMemory(g.mf, e.phyOffset-g.mf.fileFrom, int64(e.size)) {
		return false
	}
	g.pulling = e.phyOffset
	if g.s.reads.countCold {
		g.countCold(e)
	}
	if filter != nil && (!tagsKnown && !g.s.matchTags(filter, b) ||
		filter.NeedsRecord() && !g.matchRecord(filter, b)) {
		g.status(GetNoMatchedMessage)
		return true
	}
	if e.phyOffset != g.to || g.to == g.from {
		g.cutRun(e.phyOffset)
	}
	g.to = e.end()
	g.bytes += int64(e.size)
	g.res.Count++
	g.res.Status = GetFound
	g.skipTo = math.MinInt64
	return true
}

// matchEntry judges by the entry and, where that has an address, its unit. tagsKnown is false if the unit is not to be had:
// the record has to tell then. here is false if the unit is not in memory.
func (g *getter) matchEntry(filter MessageFilter, e cqEntry) (match, tagsKnown, here bool) {
	if !isExtAddress(e.tagsCode) {
		return filter.MatchQueueEntry(e.tagsCode), true, true
	}
	u, ok, here := g.unit(extOffset(e.tagsCode))
	if !ok || !here {
		return true, false, here
	}
	match = filter.MatchQueueEntry(u.tagsCode) &&
		(g.filter == nil || g.filter.MatchUnit(u.storeTimestamp, u.bitMap))
	return match, true, true
}

// tagsCodeOf is the tagsCode of a record: for entries that have an address into ConsumeQueueExt in its place, when that is
// not enabled or lost the unit. 0 if the bytes are no record.
func (s *MessageStore) tagsCodeOf(b []byte) int64 {
	rec, err := codec.ParseRecord(b, false)
	if err != nil || rec.IsBlank() {
		return 0
	}
	var d dispatchRecord
	d.fill(&rec, rec.PhyOffset, &s.o)
	return d.tagsCode
}

// matchRecord asks the filter about a record. Bytes that cannot be parsed are left to the consumer, who can tell.
func (g *getter) matchRecord(filter MessageFilter, b []byte) bool {
	if g.filter != nil {
		if _, at, end, ok := plainRecord(b); ok {
			g.look.properties = end - at
			return g.filter.MatchProperties(b[at:end:end])
		}
	}
	s := g.s
	rec, ok := s.reads.records.Get().(*codec.Record)
	if !ok {
		rec = new(codec.Record)
	}
	parsed, err := codec.ParseRecord(b, false)
	*rec = parsed
	match := err != nil || filter.MatchRecord(rec)
	*rec = codec.Record{} // no pointer into the log stays behind
	s.reads.records.Put(rec)
	return match
}

// status notes why there is nothing, as long as there is nothing.
func (g *getter) status(status GetStatus) {
	if g.res.Count == 0 {
		g.res.Status = status
	}
}

// record is the bytes of a record; g.mf becomes its file.
func (g *getter) record(e cqEntry) ([]byte, bool) {
	if !g.enter(e.phyOffset) {
		return nil, false
	}
	pos := e.phyOffset - g.mf.fileFrom
	end := pos + int64(e.size)
	if end > g.mf.readPosition() {
		return nil, false
	}
	return g.mf.data()[pos:end:end], true
}

// enter makes the file of a position of the log g.mf; false if there is none.
func (g *getter) enter(phyOffset int64) bool {
	if g.mf != nil && g.mf.contains(phyOffset) {
		return true
	}
	g.endRun()
	mf := g.s.cl.files.find(phyOffset)
	if mf == nil || !mf.Acquire() {
		return false
	}
	g.mf, g.knownFrom, g.knownTo = mf, 0, 0
	return true
}

// cutRun hands over the run so far and begins a new one in the same file.
func (g *getter) cutRun(from int64) {
	if g.to > g.from {
		mf := g.mf
		mf.Acquire() // we hold one, so it cannot fail
		g.addRun(mf)
	}
	g.from, g.to = from, from
}

// endRun hands over the last run with the reference of the file.
func (g *getter) endRun() {
	mf := g.mf
	if mf == nil {
		return
	}
	if g.to > g.from {
		g.addRun(mf)
	} else {
		mf.Release()
	}
	g.mf, g.from, g.to = nil, 0, 0
}

func (g *getter) addRun(mf *mappedFile) {
	g.res.Messages.Add(zerocopy.Segment{Bytes: mf.data()[g.from-mf.fileFrom : g.to-mf.fileFrom], Owner: mf})
}

// hot tells that a position of a log file was written a moment ago.
func (g *getter) hot(mf *mappedFile, pos int64) bool {
	return mf.fileFrom+pos >= max(g.maxPhy-hotTailBytes, g.s.reads.recoveredTo)
}

// resident tells that a range is in memory.
func (g *getter) resident(mf *mappedFile, pos, n int64) bool {
	if g.now == 0 {
		g.now = g.s.o.Clock.Millis()
	}
	return mf.cache.resident(mf, pos, n, g.now)
}

// known tells that a range of g.mf is in memory. One question answers for all of a piece of the file, and for those between
// it and the ones before.
func (g *getter) known(pos, n int64) bool {
	if pos >= g.knownFrom && pos+n <= g.knownTo || g.hot(g.mf, pos) {
		return true
	}
	if !g.resident(g.mf, pos, n) {
		return false
	}
	g.mf.cache.ahead(g.s.readAhead, g.mf, pos, g.now)
	from, to := g.mf.cache.piece(g.mf, pos, g.now)
	if from == g.knownTo {
		from = g.knownFrom
	}
	g.knownFrom, g.knownTo = from, to
	return true
}

// inMemory makes sure that a range can be touched: it is in memory, or may be read in and was.
func (g *getter) inMemory(mf *mappedFile, pos, n int64) bool {
	if mf == g.mf {
		if g.known(pos, n) {
			return true
		}
	} else if g.resident(mf, pos, n) {
		mf.cache.ahead(g.s.readAhead, mf, pos, g.now)
		return true
	}
	if !g.req.AllowCold {
		return false
	}
	if err := mf.cache.fetch(g.s.readAhead, mf, pos, n, g.now); err != nil {
		g.s.log.Warn("reading ahead failed", "file", mf.path, "err", err)
	}
	return true
}
