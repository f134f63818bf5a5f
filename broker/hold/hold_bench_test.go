package hold

import (
	"fmt"
	"testing"
	"time"

	"skylark/codec"
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
