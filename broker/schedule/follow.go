package schedule

import (
	"skylark/codec/body"
	"skylark/codec/fastjson"
)

// Follow takes over a master's delay offsets, the body of GET_ALL_DELAY_OFFSET (Java SlaveSynchronize.syncDelayOffset), and
// writes the file. With deliveries of our own since then (a slave that acted as master) the larger offset of a level counts.
// It is not called while the service delivers.
func (s *ScheduleMessageService) Follow(text []byte) error {
	var f offsetFile
	if err := fastjson.Unmarshal(text, &f); err != nil {
		return err
	}
	s.versionMu.Lock()
	newer, known := s.version.Compare(f.DataVersion) > 0, s.version
	s.versionMu.Unlock()
	changed := false
	for lv, at := range f.OffsetTable {
		if lv < 1 || at < 0 || lv >= len(s.levels) {
			continue
		}
		l := &s.levels[lv]
		if own := l.offset.Load(); own != at && !(newer && own > at) {
			l.offset.Store(at)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	if !newer {
		known = f.DataVersion
	}
	return s.save(s.snapshot().table, known)
}

// NextState bumps the version for the time of another master: epoch is what the controllers count. Versions of this time are
// newer than all of the time before. It is called before Start.
func (s *ScheduleMessageService) NextState(epoch int32) error {
	s.versionMu.Lock()
	next := s.version.Next(s.o.Clock.Millis(), max(s.version.StateVersion, int64(epoch)))
	s.versionMu.Unlock()
	return s.save(s.snapshot().table, next)
}

// Version is that of the offsets.
func (s *ScheduleMessageService) Version() body.DataVersion {
	s.versionMu.Lock()
	defer s.versionMu.Unlock()
	return s.version
}
