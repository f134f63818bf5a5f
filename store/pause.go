package store

// PausePuts keeps messages out until ResumePuts: they are refused with ServiceNotAvailable and why. When it returns none is
// under way, so that MaxPhyOffset stays where it is; what is stored goes on to be flushed, copied and read. Messages that
// wait for their copies are answered meanwhile. A slave's log is not concerned.
func (s *MessageStore) PausePuts(why error) {
	s.flags.set(flagPaused, why)
	s.cl.stopPuts(func() {})
}

// ResumePuts ends PausePuts.
func (s *MessageStore) ResumePuts() { s.flags.clear(flagPaused) }
