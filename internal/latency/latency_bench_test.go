package latency

import (
	"testing"

	"skylark/internal/clock"
)

// BenchmarkTurn is what a turn of one send pays: two clock reads, two stages in one of SampleEvery turns. Compare it to
// BenchmarkMillis, which it replaces.
func BenchmarkTurn(b *testing.B) {
	r := NewRecorder(clock.System, 1e9)
	b.ReportAllocs()
	var s Span
	for b.Loop() {
		s.Begin(r, 0, 0, false)
		s.Count(Send, 310)
		s.Enter(Append)
		s.Enter(Serve)
		s.End(peer)
	}
}

// BenchmarkMillis is the clock read a turn began with before.
func BenchmarkMillis(b *testing.B) {
	for b.Loop() {
		_ = clock.System.Millis()
	}
}

// BenchmarkSnapshot is what a reader of the histograms costs.
func BenchmarkSnapshot(b *testing.B) {
	r := NewRecorder(clock.System, 0)
	for b.Loop() {
		r.Snapshot()
	}
}
