package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkGet is a pull of 32 messages of 1 KiB: of a queue whose records follow each other in the log, and of one of 8
// queues that were filled in turn.
func BenchmarkGet(b *testing.B) {
	for _, queues := range []int{1, 8} {
		for _, parallel := range []bool{false, true} {
			b.Run(fmt.Sprintf("queues%d/parallel=%v", queues, parallel), func(b *testing.B) {
				s := benchStore(b, false)
				const count = 20_000
				for i := range count {
					require.Equal(b, PutOK, s.Put(benchMessage("Topic", int32(i%queues), i, 1024)).Status)
				}
				awaitDispatch(b, s)
				last := QueueOffset(count/queues - 32)
				run := func(next func() bool) {
					var res GetResult
					req := GetRequest{Topic: "Topic", MaxMsgs: 32}
					for next() {
						s.Get(&req, &res)
						if res.Count != 32 {
							b.Errorf("%d messages: %v", res.Count, res.Status)
							return
						}
						res.Messages.Release()
						if req.Offset += 32; req.Offset > last {
							req.Offset = 0
						}
					}
				}
				b.ReportAllocs()
				b.ResetTimer()
				if parallel {
					b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
				} else {
					run(b.Loop)
				}
			})
		}
	}
}
