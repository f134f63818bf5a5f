package schedule

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/codec/fastjson"
	"skylark/internal/vfs"
	"skylark/store"
)

// offsetFile is config/delayOffset.json: level → queue offset.
type offsetFile struct {
	DataVersion struct {
		Counter      int64 `json:"counter"`
		StateVersion int64 `json:"stateVersion"`
		Timestamp    int64 `json:"timestamp"`
	} `json:"dataVersion"`
	OffsetTable map[int]int64 `json:"offsetTable"`

	saved time.Time
}

// Load reads the offsets, from the backup if the file is missing or damaged. When both are damaged the error names
// them: starting at 0 would deliver everything again.
func (s *ScheduleMessageService) Load() error {
	var f offsetFile
	err := s.loadFrom(s.o.File, &f)
	if err != nil {
		first := err
		if err = s.loadFrom(s.o.File+".bak", &f); err == nil && !errors.Is(first, fs.ErrNotExist) {
			s.o.Log.Error("delay offsets read from the backup", "file", s.o.File, "error", first)
		}
		if errors.Is(first, fs.ErrNotExist) && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("schedule: %s and its .bak are damaged: %w", s.o.File, errors.Join(first, err))
		}
	}
	for lv, at := range f.OffsetTable {
		if lv < 1 || at < 0 {
			return fmt.Errorf("schedule: %s: offsetTable has level %d with offset %d", s.o.File, lv, at)
		}
		if lv < len(s.levels) {
			s.levels[lv].offset.Store(at)
		}
	}
	s.file = f
	return nil
}

func (s *ScheduleMessageService) loadFrom(path string, f *offsetFile) error {
	data, err := vfs.ReadFile(s.o.FS, path)
	if err != nil {
		return err
	}
	*f = offsetFile{}
	if err := fastjson.Unmarshal(data, f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *ScheduleMessageService) untilSave() time.Duration {
	return s.o.FlushInterval - s.o.Clock.Now().Sub(s.file.saved)
}

// Save writes the offsets if they changed, once what they skip is as durable as the store promises.
func (s *ScheduleMessageService) Save() error {
	s.saveMu.Lock()
	defer s.saveMu.Unlock()
	if !s.dirty.Swap(false) {
		return nil
	}
	f := s.file
	f.OffsetTable = map[int]int64{}
	var end int64
	for lv, at := range s.file.OffsetTable { // levels beyond today's table keep what waits in them
		if lv >= len(s.levels) {
			f.OffsetTable[lv] = at
		}
	}
	for lv := 1; lv < len(s.levels); lv++ {
		if at := s.levels[lv].offset.Load(); at > 0 {
			f.OffsetTable[lv] = at
		}
		end = max(end, s.levels[lv].end.Load())
	}
	if err := s.waitDurable(codec.PhyOffset(end)); err != nil {
		s.dirty.Store(true)
		return err
	}
	f.DataVersion.Counter++
	f.DataVersion.Timestamp = s.o.Clock.Millis()
	f.saved = s.o.Clock.Now()
	data, err := fastjson.MarshalPretty(f)
	if err == nil {
		err = vfs.WriteFileAtomic(s.o.FS, s.o.File, data, true)
	}
	if err != nil {
		s.dirty.Store(true)
		s.file.saved = f.saved // not at once again
		return fmt.Errorf("schedule: %w", err)
	}
	s.file = f
	return nil
}

func (s *ScheduleMessageService) waitDurable(end codec.PhyOffset) error {
	ch := make(chan store.PutStatus, 1)
	if s.o.Store.Durable(end, durableTimeout, func(st store.PutStatus) { ch <- st }) {
		return nil
	}
	if st := <-ch; st != store.PutOK {
		return fmt.Errorf("schedule: delivered messages are not durable yet: %v", st)
	}
	return nil
}

// JSON is the answer to GET_ALL_DELAY_OFFSET (45).
func (s *ScheduleMessageService) JSON() ([]byte, error) {
	s.saveMu.Lock()
	f := s.file
	s.saveMu.Unlock()
	f.OffsetTable = s.Offsets()
	return fastjson.Marshal(f)
}

// RuntimeInfo gives scheduleMessageOffset_<level> = delayOffset,maxOffset.
func (s *ScheduleMessageService) RuntimeInfo(into map[string]string) {
	for lv := 1; lv < len(s.levels); lv++ {
		at := s.levels[lv].offset.Load()
		if at == 0 {
			continue
		}
		end := s.o.Store.MaxOffset(codec.ScheduleTopic, int32(lv-1))
		into["scheduleMessageOffset_"+strconv.Itoa(lv)] = fmt.Sprintf("%d,%d", at, end)
	}
}
