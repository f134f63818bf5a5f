package timer

import (
	"errors"
	"fmt"
	"time"

	"skylark/codec"
	"skylark/store"
)

// How long the writer of files waits for the CommitLog before it looks again, and before a warning; and how often old
// files of the TimerLog are looked for.
const (
	flushPoll     = 50 * time.Millisecond
	flushWarn     = time.Minute
	cleanInterval = 30 * time.Second
	// metricsInterval is how often the counts are written while the service is busy.
	metricsInterval = 10 * time.Second
)

// snapshot is a state of the service on its way to the files.
type snapshot struct {
	end     codec.PhyOffset // has to be flushed first
	files   []*logFile
	pages   map[int][]byte
	cp      Checkpoint
	mark    mark
	metrics Metrics
}

// flushLoop writes the files FlushInterval after something changed.
func (s *TimerMessageStore) flushLoop() {
	timer := time.NewTimer(cleanInterval)
	defer timer.Stop()
	cleaned := s.o.Clock.Now()
	complained := time.Time{}
	for {
		select {
		case <-s.stop:
			return
		case <-s.changed:
			if !s.pause(s.o.FlushInterval) {
				return
			}
			if err := s.flush(s.awaitFlushed); err != nil && !errors.Is(err, errStopped) {
				if now := s.o.Clock.Now(); now.Sub(complained) >= complainInterval {
					complained = now
					s.o.Log.Error("timer files not written", "error", err)
				}
			}
		}
		if now := s.o.Clock.Now(); now.Sub(cleaned) >= cleanInterval {
			cleaned = now
			s.clean()
		}
	}
}

// pause is false when the service stops.
func (s *TimerMessageStore) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-timer.C:
		return true
	}
}

var errStopped = errors.New("timer: stopped")

// awaitFlushed waits until the CommitLog is durable up to end.
func (s *TimerMessageStore) awaitFlushed(end codec.PhyOffset) error {
	s.o.Store.Durable(end, 0, func(store.PutStatus) {}) // with SYNC_FLUSH nobody else may ask for these bytes
	for waited := time.Duration(0); s.o.Store.FlushedWhere() < end; waited += flushPoll {
		if !s.pause(flushPoll) {
			return errStopped
		}
		if waited > 0 && waited%flushWarn == 0 {
			s.o.Log.Warn("timer files wait for the CommitLog to be flushed", "waited", waited)
		}
	}
	return nil
}

// flush writes one state: log, wheel, counts, checkpoint, in this order (see the package comment).
func (s *TimerMessageStore) flush(await func(end codec.PhyOffset) error) (err error) {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	snap := s.take()
	if snap == nil {
		return nil
	}
	defer func() {
		if err != nil {
			s.giveBack(snap)
		}
	}()
	if s.broken {
		return fmt.Errorf("timer: a sync of the files failed, nothing is written any more until a restart")
	}
	if err := await(snap.end); err != nil {
		return err
	}
	for _, f := range snap.files {
		if err := f.f.Sync(); err != nil { // the kernel may have dropped the pages: a second sync would lie
			s.broken = true
			return fmt.Errorf("timer: %s: %w", f.name, err)
		}
	}
	if err := s.wf.write(snap.pages); err != nil {
		return err
	}
	// A quiet mark says that the counts are right; after a crash without one they are counted again.
	if now := s.o.Clock.Now(); snap.mark.quiet || now.Sub(s.savedMetrics) >= metricsInterval {
		if err := saveMetrics(s.o.FS, s.metricsName(), &snap.metrics); err != nil {
			return err
		}
		s.savedMetrics = now
	}
	if err := s.writeCheckpoint(snap); err != nil {
		return err
	}
	return s.cf.sync()
}

func (s *TimerMessageStore) writeCheckpoint(snap *snapshot) error {
	s.cpMu.Lock()
	defer s.cpMu.Unlock()
	s.mu.Lock()
	m := snap.mark
	m.quiet = m.quiet && !s.dirty && !s.active
	s.mu.Unlock()
	if err := s.cf.write(&snap.cp, m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written, s.wroteMark = snap.cp, m
	return nil
}

// take makes a snapshot, nil when nothing has changed.
func (s *TimerMessageStore) take() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty {
		return nil
	}
	s.dirty = false
	offset := int64(s.queueOffset)
	if len(s.late) > 0 {
		offset = int64(s.late[0].queueOffset)
	}
	version := s.written.DataVersion
	m := mark{phy: s.since, valid: true}
	if s.since < 0 {
		m.phy, m.quiet = s.o.Store.MaxPhyOffset(), !s.active
	}
	return &snapshot{end: s.end, files: s.log.unsynced(), pages: s.wheel.snapshot(), metrics: s.metrics.clone(), mark: m,
		cp: Checkpoint{LastReadTimeMs: s.readTime, LastTimerLogFlushPos: s.log.end, LastTimerQueueOffset: offset,
			MasterTimerQueueOffset: offset, DataVersion: version.Next(s.o.Clock.Millis(), version.StateVersion)}}
}

// giveBack has the next snapshot contain what this one could not write.
func (s *TimerMessageStore) giveBack(snap *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range snap.files {
		f.dirty = true
	}
	for p := range snap.pages {
		s.wheel.dirty[p] = true
	}
	s.setDirty()
}

// begin is called before something is done that the checkpoint does not tell: it has to say from where on to look for
// deliveries after a crash. It is written once for each time that the service begins to be busy, and needs no sync: a
// power cut that takes it leaves an older one, from which the look is longer.
func (s *TimerMessageStore) begin() {
	if s.marked {
		return
	}
	s.cpMu.Lock()
	defer s.cpMu.Unlock()
	s.mu.Lock()
	s.active = true // from here on no checkpoint says that nothing goes on
	cp, m := s.written, s.wroteMark
	if !m.valid || m.quiet {
		m = mark{phy: s.o.Store.MaxPhyOffset(), valid: true}
		if s.since >= 0 {
			m.phy = s.since
		}
	}
	s.mu.Unlock()
	if m != s.wroteMark { // written under cpMu only
		if err := s.cf.write(&cp, m); err != nil {
			s.o.Log.Error("timer checkpoint not marked, a kill may deliver messages twice", "error", err)
			return
		}
		s.mu.Lock()
		s.wroteMark = m
		s.mu.Unlock()
	}
	s.marked = true
}

// rest is called when there is nothing to do: the next checkpoint may say so. The caller holds mu.
func (s *TimerMessageStore) rest() {
	if s.marked {
		s.marked, s.active = false, false
		s.setDirty()
	}
}

// opened notes that messages are about to be delivered one by one; the caller holds mu.
func (s *TimerMessageStore) opened() {
	if s.since < 0 {
		s.since = s.o.Store.MaxPhyOffset()
	}
}

// settled notes that the numbers of the checkpoint tell everything again; the caller holds mu.
func (s *TimerMessageStore) settled() {
	if !s.slotOpen && len(s.late) == 0 {
		s.since = -1
	}
}

// clean removes leading files of the TimerLog, never the last, whose messages have expired.
func (s *TimerMessageStore) clean() {
	least := s.o.Store.MinPhyOffset()
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	for {
		s.mu.Lock()
		var f *logFile
		if len(s.log.files) > 1 {
			f = s.log.files[0]
		}
		s.mu.Unlock()
		if f == nil {
			return
		}
		u, ok, err := s.log.lastUnit(f)
		if err == nil && (!ok || u.phy >= least) {
			return
		}
		if err == nil {
			s.mu.Lock()
			s.log.files = append([]*logFile(nil), s.log.files[1:]...)
			s.mu.Unlock()
			err = s.log.remove(f)
		}
		if err != nil {
			s.o.Log.Error("old timer log file not deleted", "error", err)
			return
		}
		s.o.Log.Info("file deleted", "file", f.name)
	}
}

// Save writes the files after Close, when the store has been closed too and everything is flushed, and closes them.
func (s *TimerMessageStore) Save() error {
	if !s.loaded {
		return nil
	}
	s.loaded = false
	err := s.flush(func(end codec.PhyOffset) error {
		if flushed := s.o.Store.FlushedWhere(); flushed < end {
			return fmt.Errorf("timer: files not written: messages up to %d were used, %d is flushed", end, flushed)
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.cf.close(), s.wf.close(), s.log.close())
}
