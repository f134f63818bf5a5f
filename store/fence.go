package store

// Fence keeps messages out, or lets them in again: a master that may not be the master any more refuses them with
// ServiceNotAvailable. What is stored goes on to be flushed, copied and read.
func (s *MessageStore) Fence(on bool) {
	if on {
		s.flags.set(flagFenced, nil)
	} else {
		s.flags.clear(flagFenced)
	}
}
