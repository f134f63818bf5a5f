package schedule

import (
	"fmt"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/codec/fastjson"
	"skylark/internal/persist"
	"skylark/store"
)

// offsetFile is config/delayOffset.json: level → queue offset.
type offsetFile struct {
	DataVersion body.DataVersion `json:"dataVersion"`
	OffsetTable map[int]int64    `json:"offsetTable"`
}

// snapshot is a state of the offsets on its way to the file.
type snapshot struct {
	table map[int]int64
	end   codec.PhyOffset // of the last message that the offsets skip
	since time.Time
}

// How long a snapshot waits to be flushed before it is looked at again, and before a warning.
const (
	flushPoll = 100 * time.Millisecond
	flushWarn = time.Minute
)

// Load reads the offsets. What cannot be one is corrected; levels beyond today's table are kept in the file.
// The error is that of package persist: with ErrDamaged every level starts at the begin of its queue.
func (s *ScheduleMessageService) Load() error {
	var f offsetFile
	if _, err := persist.Load(s.o.FS, s.o.File, &f, s.o.Log); err != nil {
		return err
	}
	s.version = f.DataVersion
	for lv, at := range f.OffsetTable {
		switch {
		case lv < 1 || at < 0:
			s.o.Log.Warn("delay offset that cannot be one is dropped", "file", s.o.File, "level", lv, "offset", at)
			s.dirty.Store(true)
		case lv < len(s.levels):
			s.levels[lv].offset.Store(at)
		default: // kept, in case that the level comes back
			s.o.Log.Warn("delay offset of a level that messageDelayLevel does not have", "file", s.o.File, "level", lv)
			s.beyond[lv] = at
		}
	}
	return nil
}

// snapshot takes the offsets as they are. The ends are read after the offsets, so they cover them.
func (s *ScheduleMessageService) snapshot() *snapshot {
	snap := &snapshot{table: map[int]int64{}, since: s.o.Clock.Now()}
	for lv, at := range s.beyond {
		snap.table[lv] = at
	}
	for lv := 1; lv < len(s.levels); lv++ {
		if at := s.levels[lv].offset.Load(); at > 0 {
			snap.table[lv] = at
		}
		snap.end = max(snap.end, codec.PhyOffset(s.levels[lv].end.Load()))
	}
	return snap
}

// saveSome moves the saving on without waiting, and tells when to come again.
func (s *ScheduleMessageService) saveSome() time.Duration {
	now := s.o.Clock.Now()
	if s.pending == nil {
		if !s.dirty.Load() {
			return idleSleep
		}
		if wait := s.o.FlushInterval - now.Sub(s.saved); wait > 0 {
			return wait
		}
		s.dirty.Store(false)
		s.pending = s.snapshot()
		// With SYNC_FLUSH nobody else may ask for these bytes to be flushed.
		s.o.Store.Durable(s.pending.end, 0, func(store.PutStatus) {})
	}
	if s.o.Store.FlushedWhere() < s.pending.end {
		if waited := now.Sub(s.pending.since); waited > flushWarn {
			s.o.Log.Warn("delay offsets wait for delivered messages to be flushed", "file", s.o.File, "waited", waited)
			s.pending.since = now
		}
		return flushPoll
	}
	snap := s.pending
	s.pending, s.saved = nil, now
	if err := s.write(snap); err != nil {
		s.dirty.Store(true)
		s.o.Log.Error("delay offsets not written", "file", s.o.File, "error", err)
	}
	return 0
}

func (s *ScheduleMessageService) write(snap *snapshot) error {
	s.versionMu.Lock()
	next := s.version.Next(s.o.Clock.Millis(), s.version.StateVersion)
	s.versionMu.Unlock()
	return s.save(snap.table, next)
}

// save writes the file.
func (s *ScheduleMessageService) save(table map[int]int64, version body.DataVersion) error {
	if err := persist.Save(s.o.FS, s.o.File, &offsetFile{DataVersion: version, OffsetTable: table}); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	s.versionMu.Lock()
	s.version = version
	s.versionMu.Unlock()
	return nil
}

// Save writes the offsets after Close, when the store has been closed too and everything is flushed.
func (s *ScheduleMessageService) Save() error {
	if s.pending == nil && !s.dirty.Load() {
		return nil
	}
	snap := s.snapshot()
	if flushed := s.o.Store.FlushedWhere(); flushed < snap.end {
		return fmt.Errorf("schedule: delay offsets not written: messages up to %d were delivered, %d is flushed",
			snap.end, flushed)
	}
	s.pending = nil
	s.dirty.Store(false)
	return s.write(snap)
}

// Offsets are the delivered offsets by level.
func (s *ScheduleMessageService) Offsets() map[int]int64 { return s.snapshot().table }

// JSON is the answer to GET_ALL_DELAY_OFFSET (45).
func (s *ScheduleMessageService) JSON() ([]byte, error) {
	s.versionMu.Lock()
	f := offsetFile{DataVersion: s.version}
	s.versionMu.Unlock()
	f.OffsetTable = s.Offsets()
	return fastjson.Marshal(f)
}

// RuntimeInfo gives scheduleMessageOffset_<level> = delayOffset,maxOffset, and ours: scheduleMessageLateMillis_<level> =
// last,worst, how late deliveries were.
func (s *ScheduleMessageService) RuntimeInfo(into map[string]string) {
	for lv := 1; lv < len(s.levels); lv++ {
		at := s.levels[lv].offset.Load()
		if at == 0 {
			continue
		}
		end := s.o.Store.MaxOffset(codec.ScheduleTopic, int32(lv-1))
		into["scheduleMessageOffset_"+strconv.Itoa(lv)] = fmt.Sprintf("%d,%d", at, end)
		into["scheduleMessageLateMillis_"+strconv.Itoa(lv)] = fmt.Sprintf("%d,%d", s.levels[lv].late.Load(),
			s.levels[lv].worst.Load())
	}
}
