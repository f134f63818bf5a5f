package timer

// warmSteps is how far ahead messages are read (Java TimerDequeueWarmService).
const warmSteps = 3

// warmLoop reads the messages of the next slots, so that they are in memory when they are due. It is for messages that
// have waited so long that the machine has forgotten them; timerWarmEnable.
func (s *TimerMessageStore) warmLoop() {
	var r reader
	var buf []byte
	done := int64(0)
	for s.pause(s.o.Precision / 2) {
		s.mu.Lock()
		limit := s.floor(s.o.Clock.Millis()) + warmSteps*s.precision
		t := s.wheel.next(max(done, s.readTime), limit)
		sl, ok := s.wheel.get(t)
		ok = ok && t < limit
		r.use(s.log)
		s.mu.Unlock()
		for pos := sl.last; ok && pos != none; {
			u, err := r.back(pos)
			if err != nil || u.prev >= pos {
				break // dequeue says it
			}
			if raw, err := s.o.Store.ReadRecord(u.phy, buf); err == nil && cap(raw) <= maxKeptBuffer {
				buf = raw
			}
			select {
			case <-s.stop:
				return
			default:
			}
			pos = u.prev
		}
		if ok {
			done = t + s.precision
		}
	}
}
