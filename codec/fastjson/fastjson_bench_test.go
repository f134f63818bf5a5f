package fastjson

import (
	"os"
	"testing"
)

func BenchmarkHeartbeat(b *testing.B) {
	text, err := os.ReadFile("testdata/bodies/heartbeat.json")
	if err != nil {
		b.Fatal(err)
	}
	var hb heartbeat
	b.Run("Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			hb = heartbeat{}
			if err := Unmarshal(text, &hb); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Marshal", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		var buf []byte
		for b.Loop() {
			if buf, err = AppendMarshal(buf[:0], &hb, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
