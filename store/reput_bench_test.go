package store

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// benchMessage has what a Java producer sends.
func benchMessage(topic string, queueID int32, n, bodyBytes int) *codec.Message {
	m := testMessage(topic, queueID, "")
	m.Body = make([]byte, bodyBytes)
	m.WaitStoreMsgOK = false
	m.Properties = codec.AppendProperty(m.Properties, "MSG_REGION", "DefaultRegion")
	m.Properties = codec.AppendProperty(m.Properties, codec.PropUniqKey, fmt.Sprintf("7F00000100002A9F0000%012d", n))
	m.Properties = codec.AppendProperty(m.Properties, "CLUSTER", "DefaultCluster")
	m.Properties = codec.AppendProperty(m.Properties, codec.PropTags, "TagA")
	m.Properties = codec.AppendProperty(m.Properties, "TRACE_ON", "true")
	return m
}

// benchStore is a store on the disk, or in memory-backed files, with default sizes but for the log.
func benchStore(tb testing.TB, index bool) *MessageStore {
	o := DefaultOptions(tb.TempDir())
	o.FS = vfs.OS
	o.MappedFileSizeCommitLog = 256 << 20
	o.MessageIndexEnable = index
	o.Log = slog.New(slog.DiscardHandler)
	s, err := Open(o)
	require.NoError(tb, err)
	require.NoError(tb, s.Start())
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// secondDispatch is a dispatch of the log of s into queues of its own.
func secondDispatch(tb testing.TB, s *MessageStore) *reputMessageService {
	o := s.o
	o.RootDir = tb.TempDir()
	table := newConsumeQueueTable(&o, s.cl, newQueueCheckpoint(o.FS, o.RootDir))
	r := newReputMessageService(&o, s.cl, table, &s.flags)
	r.index = newIndexService(&o, s.cl, &s.flags, s.checkpoint, r.where)
	table.index = r.index
	tb.Cleanup(func() {
		r.walker.release()
		table.each(func(cq *consumeQueue) { cq.mfq.close() })
	})
	return r
}

// BenchmarkReput is the dispatch alone: 300 byte records, entries into 1 to 1000 queues.
func BenchmarkReput(b *testing.B) {
	const count = 200_000
	for _, queues := range []int{1, 8, 100, 1000} {
		b.Run(fmt.Sprintf("queues%d", queues), func(b *testing.B) {
			s := benchStore(b, false)
			for i := range count {
				r := s.Put(benchMessage(fmt.Sprint("Topic", i%queues/8), int32(i%queues%8), i, 100))
				require.Equal(b, PutOK, r.Status)
			}
			b.ReportAllocs()
			b.ResetTimer()
			done := 0
			for done < b.N {
				b.StopTimer()
				r := secondDispatch(b, s)
				require.NoError(b, r.dispatchRun()) // makes the files
				b.StartTimer()
				for r.behind() > 0 {
					if err := r.dispatchRun(); err != nil {
						b.Fatal(err)
					}
				}
				done += count
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/msg")
		})
	}
}

// BenchmarkIndex is the indexing alone: one key a message.
func BenchmarkIndex(b *testing.B) {
	const count = 200_000
	s := benchStore(b, false)
	for i := range count {
		require.Equal(b, PutOK, s.Put(benchMessage("Topic", 0, i, 100)).Status)
	}
	b.ReportAllocs()
	b.ResetTimer()
	done := 0
	for done < b.N {
		b.StopTimer()
		r := secondDispatch(b, s)
		r.position.Store(int64(s.cl.maxOffset()))
		r.index.started = true
		b.StartTimer()
		for r.index.behind() > 0 {
			r.index.indexBatch()
		}
		done += count
		b.StopTimer()
		r.index.walker.release()
		require.NoError(b, r.index.release())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/msg")
}

// BenchmarkArrival is the time from a put to the consumer's wake-up, one message at a time: the dispatch sleeps before
// each.
func BenchmarkArrival(b *testing.B) {
	o := DefaultOptions(b.TempDir())
	o.MappedFileSizeCommitLog = 256 << 20
	o.Log = slog.New(slog.DiscardHandler)
	arrived := make(chan struct{}, maxRunRecords)
	o.Listener.Arrived = func(batch []Arrival) {
		for range batch {
			arrived <- struct{}{}
		}
	}
	s, err := Open(o)
	require.NoError(b, err)
	require.NoError(b, s.Start())
	defer func() { require.NoError(b, s.Close()) }()
	m := benchMessage("Topic", 0, 1, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if r := s.Append(m); r.Status != PutOK {
			b.Fatal(r.Err)
		}
		<-arrived
	}
}
