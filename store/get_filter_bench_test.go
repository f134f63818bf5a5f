package store

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// tenth is a filter that every tenth message fits: by its bit, where it has one, and by the property v.
type tenth struct{ records int }

func (f *tenth) MatchQueueEntry(int64) bool         { return true }
func (f *tenth) NeedsRecord() bool                  { return true }
func (f *tenth) MatchRecord(rec *codec.Record) bool { return f.MatchProperties(rec.Properties) }
func (f *tenth) MatchUnit(_ int64, bitMap []byte) bool {
	return len(bitMap) == 0 || bitMap[0] == 1
}

func (f *tenth) MatchProperties(properties []byte) bool {
	f.records++
	return bytes.Contains(properties, tenthPattern)
}

var tenthPattern = []byte("v\x010\x02")

// putTenths stores count messages of size bytes in each of some queues.
func putTenths(t testing.TB, s *MessageStore, queues, count, size int) {
	t.Helper()
	for n := range queues * count {
		i := n / queues
		m := testMessage("Topic", int32(n%queues), "")
		m.Body = make([]byte, size)
		m.Properties = []byte("UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02")
		m.Properties = codec.AppendProperty(m.Properties, "v", string('0'+rune(i%10)))
		require.Equal(t, PutOK, s.Put(m).Status)
	}
	awaitDispatch(t, s)
}

// withTenths keeps units with a bit for the filter.
func withTenths(o *Options) {
	o.EnableConsumeQueueExt = true
	o.CalcFilterBitMap = func(dst, _, properties []byte) []byte {
		if bytes.Contains(properties, tenthPattern) {
			return append(dst, 1)
		}
		return append(dst, 0)
	}
}

// BenchmarkFilteredGet is a pull of 32 messages of 1 KiB from one of 8 queues of which every tenth fits, so that some 320
// are looked at: by their properties, or by their bits.
func BenchmarkFilteredGet(b *testing.B) {
	f := func(name string, change func(o *Options)) {
		b.Run(name, func(b *testing.B) {
			o := DefaultOptions(b.TempDir())
			o.MappedFileSizeCommitLog = 256 << 20
			o.MappedFileSizeConsumeQueueExt = 4 << 20
			change(&o)
			s, err := Open(o)
			require.NoError(b, err)
			require.NoError(b, s.Start())
			b.Cleanup(func() { require.NoError(b, s.Close()) })
			const count = 20_000
			putTenths(b, s, 8, count, 1024)
			var res GetResult
			req := GetRequest{Topic: "Topic", MaxMsgs: 32, Filter: &tenth{}, AllowCold: true}
			b.ReportAllocs()
			for b.Loop() {
				s.Get(&req, &res)
				if res.Count != 32 {
					b.Fatal(res.Count, res.Status)
				}
				res.Messages.Release()
				if req.Offset = res.NextOffset; req.Offset > count-800 {
					req.Offset = 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/320, "ns/scanned")
		})
	}
	f("properties", func(*Options) {})
	f("bits", withTenths)
}
