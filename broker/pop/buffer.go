package pop

// With enablePopBufferMerge (Java PopBufferMergeService) a check point stays in memory for a while; when all its messages
// are acknowledged by then, it is never written. The group's offset waits for it, so that a crash repeats its messages,
// the acknowledged ones too, as with Java.

// keep enters a check point that is in memory only.
func (s *Service) keep(e *open) {
	s.buffered.Add(1)
	s.mu.Lock()
	s.buffer = append(s.buffer, e)
	s.mu.Unlock()
}

// flushBuffer writes the buffered check points whose time has come, or all, with the acks they got.
func (s *Service) flushBuffer(all bool) {
	set := s.o.Settings()
	for _, e := range s.dueOfBuffer(&set, all) {
		if err := s.unbuffer(e, set.BatchAck); err != nil {
			s.o.Log.Warn("check point not written", "topic", e.ck.Topic, "group", e.ck.Group, "error", err)
			s.mu.Lock()
			s.buffer = append(s.buffer, e)
			s.mu.Unlock()
			continue
		}
		s.buffered.Add(-1)
	}
}

// dueOfBuffer takes the check points out of the buffer that have to be written, or all, and those that need not be any more.
func (s *Service) dueOfBuffer(set *Settings, all bool) (due []*open) {
	if s.buffered.Load() == 0 {
		return nil
	}
	now := s.o.Clock.Millis()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.buffer[:0]
	for _, e := range s.buffer {
		s.ledger.mu.Lock()
		done := e.done()
		s.ledger.mu.Unlock()
		switch {
		case done:
			s.buffered.Add(-1)
		case all, now-e.at > set.BufferStay.Milliseconds(),
			e.ck.PopTime+e.ck.Invisible-now < set.BufferHead.Milliseconds():
			due = append(due, e)
		default:
			kept = append(kept, e)
		}
	}
	clear(s.buffer[len(kept):])
	s.buffer = kept
	return due
}

// unbuffer writes a check point and its acks. Acks that come meanwhile are written by those who bring them.
func (s *Service) unbuffer(e *open, batch bool) error {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock() // no ack comes between the check point and buffered
	if e.done() {
		return nil
	}
	ck := e.ck
	if _, err := s.putCheckPoint(&ck, e.reviveQID); err != nil {
		return err
	}
	e.buffered = false
	a := ackRecord{BrokerName: ck.BrokerName, Group: ck.Group, PopTime: ck.PopTime, QueueID: ck.QueueID,
		StartOffset: ck.StartOffset, Topic: ck.Topic}
	for i := range int(ck.Num) {
		if e.acked&(1<<i) == 0 {
			continue
		}
		if a.Offset = ck.offset(i); batch {
			a.Offsets = append(a.Offsets, a.Offset)
			continue
		}
		s.putLateAck(e, &a)
	}
	if a.Offsets != nil {
		s.putLateAck(e, &a)
	}
	return nil
}

// putLateAck writes an ack that was answered long ago; the ledger has it, whatever becomes of the record.
func (s *Service) putLateAck(e *open, a *ackRecord) {
	m, err := s.ackRecord(a, e.reviveQID, e.ck.PopTime+e.ck.Invisible)
	if err == nil {
		_, err = s.put(m)
	}
	if err != nil {
		s.o.Log.Warn("ack not written, the message comes again after a restart", "topic", a.Topic, "group", a.Group, "error",
			err)
	}
}
