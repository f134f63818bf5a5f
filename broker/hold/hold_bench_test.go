package hold

import (
	"fmt"
	"testing"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
)

// BenchmarkParkAndWake is a pull that is parked and the arrival that wakes it, beside others that stay parked.
func BenchmarkParkAndWake(b *testing.B) {
	for _, others := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("parked=%d", others), func(b *testing.B) {
			s := newService(nil)
			defer s.Close()
			deadline := time.Now().Add(time.Hour).UnixMilli()
			for i := range others {
				s.Park(Key{fmt.Sprintf("T%d", i/100), int32(i % 100)}, uint64(i+2), deadline, &waiter{want: 1 << 40})
			}
			w := &waiter{}
			at := codec.QueueOffset(0)
			b.ReportAllocs()
			for b.Loop() {
				w.want = at
				if !s.Park(Key{"T", 1}, 1, deadline, w) {
					b.Fatal("not parked")
				}
				s.Arrived("T", 1, at, 7, nil)
				at++
			}
			if w.woken.Load() == 0 {
				b.Fatal("never woken")
			}
		})
	}
}

// BenchmarkArrivedUnawaited is a message that nobody waits for while others wait elsewhere.
func BenchmarkArrivedUnawaited(b *testing.B) {
	s := newService(nil)
	defer s.Close()
	s.Park(Key{"T", 1}, 1, time.Now().Add(time.Hour).UnixMilli(), &waiter{})
	at := codec.QueueOffset(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Arrived("T", 2, at, 7, nil)
		at++
	}
}

// BenchmarkExpire is a look at 100,000 who wait on ten queues, of whom 667 have waited long enough: those of 100 ms if all
// wait for 15 s. They park again.
func BenchmarkExpire(b *testing.B) {
	const all, step, hold = 100_000, 667, 15_000
	var waits []Wait
	s := New(Options{Clock: clock.System, Tick: time.Hour, Expired: func(w []Wait) { waits = w },
		MaxOffset: func(string, int32) codec.QueueOffset { return 0 }})
	now := time.Now().UnixMilli() + 10*hold // real time never comes there
	for i := range all {
		s.Park(Key{"T", int32(i % 10)}, uint64(i%50), now+int64(i)*100/step, &waiter{})
	}
	b.ReportAllocs()
	for b.Loop() {
		now += 100
		s.expire(s.collect(now, func(l *line, out []entry) []entry { return l.expire(out, now) }))
		for i, w := range waits {
			s.Park(Key{"T", int32(i % 10)}, uint64(i%50), now+hold, w)
		}
	}
	if s.Parked() != all {
		b.Fatal(s.Parked())
	}
	s.o.Expired = nil
	s.Close()
}
