package timer

import "skylark/codec"

// Follow notes how far a master is, whose checkpoint is cp (Java SlaveSynchronize.syncTimerCheckPoint). The service is
// loaded and not started: it has no TimerLog of its own, so the checkpoint it writes says that the log was lost, and Start
// takes from the timer topic what the master has not delivered. Or it was started and is paused (Live.StopEnqueue and
// StopDequeue), after this broker acted as master: what the master has delivered since leaves the wheel then.
func (s *TimerMessageStore) Follow(cp Checkpoint) error {
	s.mu.Lock()
	if s.started {
		s.followed = &lost{until: codec.QueueOffset(cp.LastTimerQueueOffset), before: s.floor(cp.LastReadTimeMs)}
		s.mu.Unlock()
		s.Arrived()
		return nil
	}
	next := s.written
	next.LastReadTimeMs = cp.LastReadTimeMs
	next.LastTimerQueueOffset = max(cp.LastTimerQueueOffset, 0)
	next.MasterTimerQueueOffset = max(cp.LastTimerQueueOffset, 0)
	next.LastTimerLogFlushPos = max(s.log.end+1, s.written.LastTimerLogFlushPos)
	next.DataVersion = cp.DataVersion
	if next == s.written || cp.LastReadTimeMs <= 0 || cp.LastReadTimeMs < s.written.LastReadTimeMs {
		s.mu.Unlock()
		return nil
	}
	s.written, s.wroteMark = next, mark{}
	s.readTime, s.queueOffset = s.floor(next.LastReadTimeMs), codec.QueueOffset(next.LastTimerQueueOffset)
	s.mu.Unlock()
	s.cpMu.Lock()
	defer s.cpMu.Unlock()
	if err := s.cf.write(&next, mark{}); err != nil {
		return err
	}
	return s.cf.sync()
}

// takeFollowed does what Follow asked for, in the service's goroutine.
func (s *TimerMessageStore) takeFollowed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followed
	if f == nil || f.before <= s.readTime && f.until <= s.again.until {
		s.followed = nil
		return
	}
	s.followed = nil
	late := s.late[:0:0]
	for _, l := range s.late {
		if l.queueOffset >= f.until {
			late = append(late, l)
		}
	}
	s.late = late
	if s.cur != nil && s.cur.time < f.before {
		s.cur, s.slotOpen = nil, false
	}
	s.wheel.each(func(t int64, _ slot) {
		if t < f.before {
			s.wheel.clear(t)
		}
	})
	s.readTime = max(s.readTime, f.before)
	s.again = *f
	s.setDirty()
}

// FollowMetrics takes over a master's counts (Java SlaveSynchronize.syncTimerMetrics).
func (s *TimerMessageStore) FollowMetrics(m Metrics) error {
	s.mu.Lock()
	if s.metrics.DataVersion == m.DataVersion {
		s.mu.Unlock()
		return nil
	}
	s.metrics = m.clone()
	s.counted = true
	copied := s.metrics.clone()
	s.mu.Unlock()
	return saveMetrics(s.o.FS, s.metricsName(), &copied)
}
