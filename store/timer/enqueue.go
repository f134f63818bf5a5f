package timer

import (
	"errors"
	"strconv"

	"skylark/codec"
	"skylark/store"
)

// enqueue takes up to a batch of messages from the timer topic into the log and the wheel, or puts them to late. more
// tells that there is another batch. On an error nothing of the batch has happened.
func (s *TimerMessageStore) enqueue(live *Live) (more bool, err error) {
	if live.StopEnqueue || len(s.late) > 0 { // late ones go first: the checkpoint has one offset
		return false, nil
	}
	from := s.queueOffset // only this goroutine writes it
	if lo := s.o.Store.MinOffset(codec.TimerTopic, 0); from < lo {
		s.o.Log.Warn("timer messages expired before they were taken in", "queueOffset", int64(from), "min", int64(lo))
		s.setQueueOffset(lo)
		from = lo
	}
	entries := s.o.Store.QueueEntries(codec.TimerTopic, 0, from, enqueueBatch)
	if len(entries) == 0 {
		s.known = nil
		return false, nil
	}
	if !s.windowOpen() {
		return false, nil
	}
	s.begin()
	s.batch = s.batch[:0]
	clear(s.overlay)
	plan := batch{at: s.log.end, from: from, count: s.counts[:0]}
	for i, e := range entries {
		ok, err := s.plan(&plan, from+codec.QueueOffset(i), e, live)
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		plan.taken++
	}
	s.counts = plan.count
	if err := s.write(&plan); err != nil {
		return false, err
	}
	return true, nil
}

// windowOpen is false while the slots that are still to be delivered reach so far back that new ones would meet them
// in the wheel: after a stop of more than 14 days less the window.
func (s *TimerMessageStore) windowOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeTime-s.readTime+s.window < (s.wheel.size-blankSlots)*s.precision
}

func (s *TimerMessageStore) setQueueOffset(at codec.QueueOffset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueOffset = at
	s.setDirty()
}

// setDirty makes flushLoop write; the caller holds mu.
func (s *TimerMessageStore) setDirty() {
	s.dirty = true
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// batch is what enqueue is about to do.
type batch struct {
	at    int64 // position of the next unit
	from  codec.QueueOffset
	taken int
	end   codec.PhyOffset // of the records taken
	units int
	count []topicCount
	late  []lateMessage
	// recalls are the keys of recalls among late: what they recall may be there too, after a stop.
	recalls []string
}

type topicCount struct {
	topic string
	n     int64
}

// plan adds one message to the batch; false when it has to begin the next one.
func (s *TimerMessageStore) plan(b *batch, at codec.QueueOffset, e store.QueueEntry, live *Live) (bool, error) {
	if _, ok := s.known[e.PhyOffset]; ok {
		delete(s.known, e.PhyOffset)
		return true, nil
	}
	rec, err := s.record(e.PhyOffset)
	switch {
	case errors.Is(err, errGone):
		s.o.Log.Error("timer message skipped: its record is gone", "queueOffset", int64(at), "phyOffset",
			int64(e.PhyOffset), "error", err)
		return true, nil
	case err != nil && live.SkipUnknownError:
		s.o.Log.Error("timer message skipped: timerSkipUnknownError", "queueOffset", int64(at), "error", err)
		return true, nil
	case err != nil:
		return false, err
	}
	w := wishOf(rec.Properties)
	out, err := strconv.ParseInt(string(w.out), 10, 64)
	if err != nil || out < 0 || w.topic == nil {
		s.o.Log.Error("timer message skipped: it has no time or topic", "queueOffset", int64(at), "phyOffset",
			int64(e.PhyOffset), codec.PropTimerOutMs, string(w.out), codec.PropRealTopic, string(w.topic))
		return true, nil
	}
	b.end = max(b.end, e.PhyOffset+codec.PhyOffset(rec.TotalSize))
	if at < s.again.until && out < s.again.before {
		return true, nil // it was delivered before the log was lost
	}
	if out < s.writeTime && s.floor(out) < s.readTime && !live.StopDequeue {
		if w.recall != nil {
			b.recalls = append(b.recalls, string(w.recall))
		}
		b.late = append(b.late, lateMessage{queueOffset: at, phy: e.PhyOffset, due: out + s.precision})
		return true, nil
	}
	if !s.room(b.at) {
		if b.units > 0 {
			return false, nil
		}
		if err := s.newFile(); err != nil {
			return false, err
		}
		b.at = s.log.end
	}
	s.planUnit(b, w, e, out)
	return true, nil
}

// wish is what a message of the timer topic says about itself: when it is due, its topic, and, of a recall, the unique key
// of the message that is recalled. nil where there is no such property.
type wish struct{ out, topic, recall []byte }

func wishOf(props []byte) (w wish) {
	for name, value := range codec.EachProperty(props) {
		switch string(name) {
		case codec.PropTimerOutMs:
			w.out = value
		case codec.PropRealTopic:
			w.topic = value
		case codec.PropTimerDelUniqKey:
			w.recall = value
		}
	}
	return w
}

// room tells whether a unit fits at pos.
func (s *TimerMessageStore) room(pos int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.room(pos)
}

// newFile goes on in the next file of the log.
func (s *TimerMessageStore) newFile() error {
	s.mu.Lock()
	pos := s.log.end
	cur, from, have := s.log.plan()
	if cur != nil {
		cur.dirty = true
	}
	s.mu.Unlock()
	if cur != nil {
		if err := s.log.blank(cur, pos); err != nil {
			return err
		}
	}
	var next *logFile
	if !have {
		var err error
		if next, err = s.log.create(from); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if next != nil {
		s.log.files = append(s.log.files, next)
	}
	s.log.end = from
	return nil
}

// planUnit appends the unit of a message (Java doEnqueue).
func (s *TimerMessageStore) planUnit(b *batch, w wish, e store.QueueEntry, out int64) {
	// Slots before readTime are not read any more. While delivery is stopped it falls back, and after the clock was
	// set back it is ahead: then the message waits in the first slot that will be read.
	u := unit{magic: magicDefault, enqueue: s.writeTime, due: max(s.floor(out), s.readTime), phy: e.PhyOffset,
		size: e.Size, hash: codec.JavaHashBytes(w.topic)}
	if ahead := u.due - s.writeTime; ahead >= s.window {
		u.magic |= magicRoll
		u.due = s.writeTime + s.window
		if ahead-s.window < s.window/3 { // leave enough for the next roll
			u.due = s.floor(s.writeTime + s.window/2)
		}
	}
	change := int64(1)
	if w.recall != nil {
		u.magic |= magicDelete
		change = -1
	}
	sl, ok := s.overlay[u.due]
	if !ok {
		sl, _ = s.wheel.get(u.due) // nobody else writes the wheel
	}
	u.prev = sl.last
	if sl.first == none {
		sl.first = b.at
	}
	sl.last = b.at
	sl.num += int32(change)
	s.overlay[u.due] = sl
	s.batch = appendUnit(s.batch, &u)
	b.at += unitBytes
	b.units++
	b.count = append(b.count, topicCount{s.name(w.topic), change})
}

// write stores the units of a batch, then makes them count.
func (s *TimerMessageStore) write(b *batch) error {
	if len(s.batch) > 0 {
		s.mu.Lock()
		f := s.log.file(s.log.end)
		f.dirty = true
		s.mu.Unlock()
		if err := f.write(s.batch, s.log.end); err != nil {
			return err
		}
	}
	now := s.o.Clock.Millis()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.end += int64(len(s.batch))
	for t, sl := range s.overlay {
		s.wheel.put(t, sl)
	}
	for _, c := range b.count {
		s.metrics.add(c.topic, c.n, now)
	}
	s.lateRecalls = nil
	for _, key := range b.recalls {
		if s.lateRecalls == nil {
			s.lateRecalls = map[string]bool{}
		}
		s.lateRecalls[key] = false
	}
	if s.late = b.late; len(s.late) > 0 {
		s.opened()
	}
	s.queueOffset = b.from + codec.QueueOffset(b.taken)
	s.end = max(s.end, b.end)
	s.enqueued.add(int64(b.taken), now)
	s.setDirty()
	return nil
}

// name is a topic as a string; most follow one of the same.
func (s *TimerMessageStore) name(topic []byte) string {
	if s.lastTopic != string(topic) {
		s.lastTopic = string(topic)
	}
	return s.lastTopic
}

// errGone marks a record that will not come back.
var errGone = errors.New("timer: the record is gone")

// record reads a message; its bytes are valid until the next call.
func (s *TimerMessageStore) record(p codec.PhyOffset) (rec codec.Record, err error) {
	raw, ok := s.o.Store.PeekRecord(p, s.buf) // most were put a moment ago: no look for pages that are not in memory
	if !ok {
		raw, err = s.o.Store.ReadRecord(p, s.buf)
	}
	if err == nil {
		if s.buf = raw; cap(raw) > maxKeptBuffer {
			s.buf = nil
		}
		if rec, err = codec.ParseRecord(raw, true); err == nil {
			return rec, nil
		}
	}
	if errors.Is(err, store.ErrNotFound) || store.IsCorrupt(err) || codec.IsCorrupt(err) {
		return rec, errors.Join(errGone, err)
	}
	return rec, fail("record", p, err)
}
