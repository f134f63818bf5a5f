package store

// Cold data in Java's sense, for the broker's flow control (Java CommitLog.ColdDataCheckService): the area of the log
// further behind its end than a share of the memory, whether or not the pages are there.

// InColdArea tells whether the message at an offset of a queue lies in the cold area, without waiting: a queue entry that
// is not in memory belongs to old messages. false for an offset without an entry.
func (s *MessageStore) InColdArea(topic string, queueID int32, offset QueueOffset) bool {
	cq := s.queues.find(topic, queueID)
	if cq == nil || offset < 0 {
		return false
	}
	pos := int64(offset) * cqEntryBytes
	if cq.batch != nil {
		e, ok := cq.entryOf(int64(offset))
		return ok && s.inColdArea(e.phyOffset, int64(s.cl.maxOffset()))
	}
	mf := cq.mfq.find(pos)
	if mf == nil {
		return false
	}
	pos -= mf.fileFrom
	entry, ok := mf.slice(pos, cqEntryBytes)
	if !ok {
		return false
	}
	defer mf.Release()
	if !mf.cache.resident(mf, pos, cqEntryBytes, s.o.Clock.Millis()) {
		return true
	}
	return s.inColdArea(decodeCQEntry(entry).phyOffset, int64(s.cl.maxOffset()))
}

func (s *MessageStore) inColdArea(phyOffset, maxPhy int64) bool {
	return maxPhy-phyOffset > s.reads.coldBytes
}

// SetReadAhead switches reading ahead of consumers on the disk (Java dataReadAheadEnable, SET_COMMITLOG_READ_MODE).
func (s *MessageStore) SetReadAhead(on bool) { s.readAhead.off.Store(!on) }

// ReadAhead tells whether it is on.
func (s *MessageStore) ReadAhead() bool { return !s.readAhead.off.Load() }

// countCold adds a record that is to be sent or filtered to the cold ones if it is one.
func (g *getter) countCold(e cqEntry) {
	r := &g.s.reads
	if !g.s.inColdArea(e.phyOffset, g.maxPhy) {
		return
	}
	if r.scanCold && !g.mf.cache.readWithin(g.mf, e.phyOffset-g.mf.fileFrom, g.now, r.coldSeconds) {
		return
	}
	g.res.ColdBytes += int64(e.size)
}

// readWithin tells whether the chunk at pos was read from the disk in the last seconds.
func (c *residencyCache) readWithin(mf *mappedFile, pos, nowMillis int64, seconds uint32) bool {
	asked := c.chunks(mf.size)[pos/residencyChunkBytes].asked.Load()
	return asked != 0 && uint32(nowMillis/1000)-asked <= seconds
}
