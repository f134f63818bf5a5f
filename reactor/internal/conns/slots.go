package conns

import "sync/atomic"

var lastID atomic.Uint64

// NextID returns a connection number that no other connection of the process has or had.
func NextID() uint64 { return lastID.Add(1) }

// Slots counts open connections against Options.MaxConnections. Engines that hand connections to one another
// share it.
type Slots struct {
	max  int64
	used atomic.Int64
}

// NewSlots makes a counter that stops at max.
func NewSlots(max int) *Slots { return &Slots{max: int64(max)} }

// Acquire takes a slot; false means that all are in use.
func (s *Slots) Acquire() bool {
	if s.used.Add(1) > s.max {
		s.used.Add(-1)
		return false
	}
	return true
}

// Release gives a slot back.
func (s *Slots) Release() { s.used.Add(-1) }

// InUse is the number of open connections.
func (s *Slots) InUse() int { return int(s.used.Load()) }

// Max is the limit.
func (s *Slots) Max() int { return int(s.max) }
