package dedup

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkClaim is what a send costs more: one id claimed and stored, in a full window of the default size.
func BenchmarkClaim(b *testing.B) {
	w := New(Options{Count: 100_000, Keep: time.Hour, MaxBytes: 64 << 20}).Of("T")
	ids := make([][]byte, 1<<18)
	for i := range ids {
		ids[i] = fmt.Appendf(nil, "7F0000010007251438A3%012X", i)
	}
	for i := range 150_000 {
		ticket, _, _ := w.Claim(ids[i], 1)
		ticket.Store(at(i), 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		ticket, _, _ := w.Claim(ids[(150_000+i)%len(ids)], 1)
		ticket.Store(Found{PhyOffset: 1, End: 2}, 1)
	}
}
