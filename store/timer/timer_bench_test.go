package timer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkWay is what the service does for a message of 100 bytes: taking it in, and delivering it. The put before and the
// dispatch behind are not in it.
func BenchmarkWay(b *testing.B) {
	const batchSize = 10_000
	var t testing.T
	s := prepare(&t, setup{fs: newFS(&t), logMax: 64 << 20, file: 100 << 20, slots: wheelSlots})
	require.NoError(b, s.Load())
	require.NoError(b, s.recover())
	live := DefaultLive()
	body := strings.Repeat("x", 100)
	var in, out time.Duration
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		for i := range batchSize {
			s.put(fmt.Sprint(body, i), time.Hour)
		}
		n += batchSize
		require.Eventually(b, func() bool { return int(s.store.MaxOffset("rmq_sys_wheel_timer", 0)) == n }, time.Minute,
			time.Millisecond)
		b.StartTimer()
		began := time.Now()
		for more := true; more; {
			var err error
			more, err = s.enqueue(&live)
			require.NoError(b, err)
		}
		in += time.Since(began)
		began = time.Now()
		for busy := true; busy; {
			var err error
			busy, err = s.dequeue(&live, time.Now().Add(2*time.Hour).UnixMilli()/1000*1000)
			require.NoError(b, err)
		}
		out += time.Since(began)
		s.writeTime = time.Now().UnixMilli() / 1000 * 1000
		s.readTime = s.writeTime
	}
	b.ReportMetric(float64(in.Nanoseconds())/float64(n), "ns/in")
	b.ReportMetric(float64(out.Nanoseconds())/float64(n), "ns/out")
	require.Equal(b, n, len(s.sent))
	s.stop()
}

// BenchmarkNextOfIdle is what GET_BROKER_RUNTIME_INFO asks of a service that was never started, as a slave's.
func BenchmarkNextOfIdle(b *testing.B) {
	w, now := newWheel(1000, wheelSlots), time.Now().UnixMilli()
	b.ReportAllocs()
	for b.Loop() {
		w.next(0, now)
	}
}
