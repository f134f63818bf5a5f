package timer

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"skylark/codec"
	"skylark/store"
)

// Load reads the files: checkpoint, wheel, counts, and the list of the log's. Errors name the file: a wheel or log file
// whose length this configuration cannot have made is ErrCorrupt of package store.
func (s *TimerMessageStore) Load() (err error) {
	cp, m, _, err := s.cf.load()
	if err != nil {
		return err
	}
	s.written, s.wroteMark = cp, m
	s.readTime, s.queueOffset, s.since = s.floor(cp.LastReadTimeMs), codec.QueueOffset(cp.LastTimerQueueOffset), -1
	if s.wheel, err = loadWheel(s.o.FS, s.wf.name, s.precision, s.o.private.slots, s.readTime); err != nil {
		return err
	}
	if s.metrics, s.counted, err = loadMetrics(s.o.FS, s.metricsName()); err != nil {
		return err
	}
	if s.log, err = openLog(s.o.FS, path.Join(s.o.RootDir, "timerlog"), s.o.MappedFileSizeTimerLog); err != nil {
		return err
	}
	s.loaded = true
	return nil
}

// recover brings log, wheel and offsets together (Java TimerMessageStore.recover):
//
//  1. The log ends at the first unit that is none, or that was written after the checkpoint and does not lead to a
//     message. What follows is set to zero: it would look like units when the log has grown up to it.
//  2. Units that the wheel lacks are added, from the file before the checkpoint's position on; slots that lead beyond
//     the end are made anew.
//  3. The messages from the checkpoint's queue offset on are taken in again, but for those that have a unit behind the
//     checkpoint's position. (Java goes on behind the message of the last unit, which forgets those that were delivered
//     without one and whose delivery was lost.)
//  4. What was delivered since the checkpoint is looked up in the CommitLog from the mark on, if there is one.
func (s *TimerMessageStore) recover() error {
	began := s.o.Clock.Now()
	now := s.floor(s.o.Clock.Millis())
	s.writeTime = now
	found := s.written != Checkpoint{}
	if !found { // no checkpoint: everything that waits in the log counts
		s.readTime = 0
	}
	if err := s.findEnd(); err != nil {
		return err
	}
	added, err := s.addUnits()
	if err != nil {
		return err
	}
	s.correctOffsets(now)
	if err := s.findDone(); err != nil {
		return err
	}
	if added || !s.counted || !s.wroteMark.quiet {
		if err := s.count(); err != nil {
			return err
		}
	}
	if s.log.end > 0 || s.wheel.waiting > 0 || added {
		s.o.Log.Info("timer messages recovered", "waiting", s.wheel.waiting, "logEnd", s.log.end, "queueOffset",
			int64(s.queueOffset), "readTime", s.readTime, "known", len(s.known), "delivered", len(s.done),
			"took", s.o.Clock.Now().Sub(began))
	}
	return nil
}

// findEnd finds where the log ends and cuts off what follows.
func (s *TimerMessageStore) findEnd() error {
	l := s.log
	flushed := s.written.LastTimerLogFlushPos
	if len(l.files) == 0 {
		l.end = 0
		return s.logLost(flushed)
	}
	pos := max((flushed-l.fileSize)/l.fileSize*l.fileSize, l.start())
	if pos > l.end {
		pos = l.end - l.fileSize
	}
	s.known = map[codec.PhyOffset]struct{}{}
	err := s.eachUnit(pos, l.end, func(pos int64, u unit) (bool, error) {
		if pos < flushed || u.phy < s.o.Store.MinPhyOffset() {
			return true, nil
		}
		rec, err := s.record(u.phy)
		if errors.Is(err, errGone) || err == nil && (rec.TotalSize != int(u.size) || string(rec.Topic) != codec.TimerTopic) {
			return false, nil
		}
		if err == nil {
			s.known[u.phy] = struct{}{}
		}
		return err == nil, err
	}, func(end int64) { l.end = end })
	if err != nil {
		return err
	}
	return errors.Join(s.cut(), s.logLost(flushed))
}

// logLost has the messages that the log has lost taken from the timer topic once more: everything that is due after what
// was delivered and has no unit. One that has rolled is there twice, and is delivered twice then.
func (s *TimerMessageStore) logLost(flushed int64) error {
	if s.log.end >= flushed {
		return nil
	}
	s.o.Log.Error("timer log ends before the position of its checkpoint, it is made anew from the timer topic", "end",
		s.log.end, "checkpoint", flushed)
	s.again = lost{until: min(s.queueOffset, s.o.Store.MaxOffset(codec.TimerTopic, 0)), before: min(s.readTime, s.writeTime)}
	s.queueOffset = 0
	s.known = map[codec.PhyOffset]struct{}{}
	return s.eachUnit(s.log.start(), s.log.end, func(_ int64, u unit) (bool, error) {
		s.known[u.phy] = struct{}{}
		return true, nil
	}, func(int64) {})
}

// eachUnit visits the units in [from, to) up to one that is none or for which f is false, and tells where it ended.
// Blanks are passed over.
func (s *TimerMessageStore) eachUnit(from, to int64, f func(pos int64, u unit) (bool, error), ended func(end int64)) error {
	var r reader
	r.use(s.log)
	pos := from
	for pos < to {
		rest := s.log.fileSize - pos%s.log.fileSize
		if rest < unitBytes+blankBytes { // the blank; a file may end without, if it was not needed yet
			next := pos + rest
			if next < to {
				pos = next
				continue
			}
			break
		}
		u, err := r.unit(pos, pos, pos+windowBytes)
		if store.IsCorrupt(err) {
			break
		}
		if err != nil {
			return err
		}
		ok, err := f(pos, u)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		pos += unitBytes
	}
	ended(pos)
	return nil
}

// maxCutBytes is more than is appended to the log between two checkpoints: 300,000 units.
const maxCutBytes = 16 << 20

// cut removes the files behind the end and sets the rest of its own to zero.
func (s *TimerMessageStore) cut() error {
	l := s.log
	for n := len(l.files); n > 0 && l.files[n-1].from > l.end; n-- {
		f := l.files[n-1]
		l.files = l.files[:n-1]
		if err := errors.Join(f.f.Close(), l.fs.Remove(f.name)); err != nil {
			return fmt.Errorf("timer: %w", err)
		}
	}
	f := l.file(l.end)
	if f == nil {
		return nil
	}
	buf, zero, wrote := make([]byte, windowBytes), make([]byte, windowBytes), false
	to := l.fileSize
	if s.wroteMark.quiet && l.end == s.written.LastTimerLogFlushPos { // no more than one interval can follow
		to = min(to, l.end-f.from+maxCutBytes)
	}
	for at := l.end - f.from; at < to; {
		n := min(to-at, windowBytes)
		if _, err := f.f.ReadAt(buf[:n], at); err != nil {
			return fmt.Errorf("timer: %s at %d: %w", f.name, at, err)
		}
		if !slices.Equal(buf[:n], zero[:n]) {
			wrote = true
			if _, err := f.f.WriteAt(zero[:n], at); err != nil {
				return fmt.Errorf("timer: %s at %d: %w", f.name, at, err)
			}
		}
		at += n
	}
	if wrote {
		s.o.Log.Warn("the end of the timer log was cut off", "file", f.name, "position", l.end-f.from)
		if err := f.f.Sync(); err != nil {
			return fmt.Errorf("timer: %s: %w", f.name, err)
		}
	}
	return nil
}

// addUnits brings the wheel to the state of the log.
func (s *TimerMessageStore) addUnits() (added bool, err error) {
	l, w := s.log, s.wheel
	from := max((s.written.LastTimerLogFlushPos-l.fileSize)/l.fileSize*l.fileSize, l.start())
	again := map[int64]bool{}
	w.each(func(t int64, sl slot) {
		if sl.last+unitBytes > l.end {
			again[t] = true
			if sl.first >= l.start() {
				from = min(from, sl.first-sl.first%l.fileSize%unitBytes) // a damaged slot may lead between units
			}
			w.clear(t)
		}
	})
	if len(again) > 0 {
		s.o.Log.Warn("slots of the timer wheel lead beyond the timer log and are made anew", "slots", len(again))
	}
	err = s.eachUnit(from, l.end, func(pos int64, u unit) (bool, error) {
		t := s.floor(u.due)
		if t < s.readTime {
			return true, nil
		}
		sl, ok := w.get(t)
		if ok && pos <= sl.last {
			return true, nil
		}
		if !ok {
			sl.first = pos
		}
		sl.last = pos
		if u.deletes() {
			sl.num--
		} else {
			sl.num++
		}
		w.put(t, sl)
		added = true
		return true, nil
	}, func(int64) {})
	return added || len(again) > 0, err
}

// correctOffsets brings times and offsets into their ranges.
func (s *TimerMessageStore) correctOffsets(now int64) {
	oldest := now
	s.wheel.each(func(t int64, _ slot) { oldest = min(oldest, t) })
	switch {
	case s.written == Checkpoint{}:
		s.readTime = oldest
	case s.readTime > now: // the clock was set back, or the number is wrong
		s.o.Log.Warn("timer checkpoint is ahead of the clock", "readTime", s.readTime, "now", now)
		s.readTime = now
	}
	lo, hi := s.o.Store.MinOffset(codec.TimerTopic, 0), s.o.Store.MaxOffset(codec.TimerTopic, 0)
	if at := s.queueOffset; at < lo || at > hi {
		s.queueOffset = min(max(at, lo), hi)
		s.o.Log.Warn("timer offset is outside its queue", "offset", int64(at), "min", int64(lo), "max", int64(hi),
			"corrected", int64(s.queueOffset))
	}
	s.end = 0
}

// findDone notes what left the wheel after the checkpoint.
func (s *TimerMessageStore) findDone() error {
	m := s.wroteMark
	if !m.valid || m.quiet {
		return nil
	}
	s.since = m.phy // until the next checkpoint
	s.doneUntil = s.writeTime
	size := codec.PhyOffset(s.o.MappedFileSizeCommitLog)
	for p := max(m.phy, s.o.Store.MinPhyOffset()); p < s.o.Store.MaxPhyOffset(); {
		rec, err := s.record(p)
		if errors.Is(err, errGone) { // the blank at the end of a file
			p = (p/size + 1) * size
			continue
		}
		if err != nil {
			return err
		}
		p += codec.PhyOffset(rec.TotalSize)
		if _, ok := rec.Property(codec.PropTimerDequeueMs); !ok {
			continue
		}
		uniqKey, _ := rec.Property(codec.PropUniqKey)
		times := rollTimes(&rec)
		if s.done == nil {
			s.done = map[string]int{}
		}
		s.done[doneKey(string(rec.Topic), uniqKey, times)]++
	}
	return nil
}

// count counts the waiting messages of each topic anew, from the units. The hash tells the topic; two topics with one
// hash are told apart by the message.
func (s *TimerMessageStore) count() error {
	now := s.o.Clock.Millis()
	names := map[int32][]string{}
	for name := range maps.Keys(s.metrics.TimingCount) {
		h := codec.JavaHash(name)
		names[h] = append(names[h], name)
		s.metrics.TimingCount[name] = Metric{TimeStamp: now}
	}
	var r reader
	r.use(s.log)
	var failed error
	s.wheel.each(func(t int64, sl slot) {
		if t < s.readTime {
			return
		}
		for pos := sl.last; pos != none && failed == nil; {
			u, err := r.back(pos)
			if err != nil || u.prev >= pos || s.floor(u.due) != t {
				return // dequeue says it
			}
			topic := ""
			if known := names[u.hash]; len(known) == 1 {
				topic = known[0]
			} else {
				rec, err := s.record(u.phy)
				if err != nil && !errors.Is(err, errGone) {
					failed = err
				}
				value, _ := rec.Property(codec.PropRealTopic)
				if topic = string(value); topic != "" && !slices.Contains(known, topic) {
					names[u.hash] = append(known, topic)
				}
			}
			if topic != "" {
				n := int64(1)
				if u.deletes() {
					n = -1
				}
				s.metrics.add(topic, n, now)
			}
			pos = u.prev
		}
	})
	return failed
}
