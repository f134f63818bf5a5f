package broker

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"skylark/codec"
	"skylark/internal/goruntime"
)

// BenchmarkCollector is what the collector does to a broker that takes sends of 1 KiB, 32 a turn, with Go's own GOGC and
// with ours: how often it runs, how long it stops everything, how long goroutines that could run waited for a thread.
func BenchmarkCollector(b *testing.B) {
	for _, percent := range []int{100, goruntime.MaxPercent} {
		b.Run(fmt.Sprintf("GOGC=%d", percent), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(percent))
			const inOneTurn = 32
			br := startBroker(b, benchConf)
			br.createTopic("T", 4, 6)
			data := bytes.Repeat([]byte("x"), 1024)
			p := newLoop(b, br, repeat(inOneTurn, func(i int) *codec.Command {
				return sendRequest("T", i%4, benchProps, data)
			})...)
			p.turn()
			before := goruntime.Read()
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += inOneTurn {
				p.turn()
			}
			b.StopTimer()
			r := goruntime.Read()
			r.Sub(before)
			b.ReportMetric(float64(r.Cycles)*1e6/float64(b.N), "cycles/Mmsg")
			b.ReportMetric(float64(r.GCPauses.Quantile(1).Microseconds()), "pause-max-µs")
			b.ReportMetric(float64(r.GCPauses.Above(time.Millisecond)), "pauses>1ms")
			b.ReportMetric(float64(r.SchedLatency.Quantile(0.99).Microseconds()), "sched-p99-µs")
			b.ReportMetric(float64(r.LiveBytes>>10), "live-KiB")
		})
	}
}
