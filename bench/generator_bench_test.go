package bench

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
)

// nowhere is a connection that takes everything.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

// newTurn gives one turn of a connection with a full window: 32 answers come, 32 requests leave. What the
// network costs is not in it.
func newTurn(t testing.TB, o Options) func() {
	t.Helper()
	const window = 32
	o.Window, o.Duration = window, time.Hour
	queues := []client.Queue{{BrokerName: "b", Addr: "a", ID: 0}, {BrokerName: "b", Addr: "a", ID: 1}}
	p, err := newProducer(&o, &target{o: &o, queues: queues}, 7, newTimeline(), nil)
	require.NoError(t, err)
	p.tl.begin(0)
	l := p.lanes[0]
	l.attach(nowhere{})
	var answers []byte
	resp := codec.SendResponse{StoreHost: netip.MustParseAddrPort("127.0.0.1:1"), Region: codec.DefaultRegionID,
		TraceOn: true, TransactionID: []byte("7F00000100002A9F0000000000000001")}
	r := reader{}
	n := int32(0)
	turn := func() {
		answers = answers[:0]
		for range window {
			answers = codec.AppendSendResponse(answers, o.Serialize, client.FirstOpaque+n, &resp)
			n++
		}
		r.buf, r.used = answers, 0
		now := p.tl.now()
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := l.take(&r, now); err != nil || l.inflight != 0 {
			t.Fatal(err, l.inflight)
		}
		l.turn(now)
	}
	l.mu.Lock()
	l.turn(p.tl.now())
	l.mu.Unlock()
	for range 10 { // buffers grow
		turn()
	}
	return turn
}

// BenchmarkTurn is the generator's own work for 32 messages, and that of encoding their answers, which is the
// test's.
func BenchmarkTurn(b *testing.B) {
	for _, typ := range []codec.SerializeType{codec.SerializeJSON, codec.SerializeROCKETMQ} {
		b.Run(typ.String(), func(b *testing.B) {
			o := DefaultOptions(Produce)
			o.Serialize = typ
			turn := newTurn(b, o)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/msg")
		})
	}
}

func newBenchPuller(kind Kind) *puller {
	o := DefaultOptions(kind)
	c := &consumer{o: &o, t: &target{}, tl: newTimeline(), run: 7, e2e: kind == EndToEnd}
	c.tl.begin(0)
	var check *Checker
	if c.e2e {
		check = NewChecker(7)
	}
	return newPuller(c, []string{"g"}, "a", check, newShard(false))
}

// BenchmarkPull is walking over the 32 messages of an answer.
func BenchmarkPull(b *testing.B) {
	for _, kind := range []Kind{Consume, EndToEnd} {
		b.Run(string(kind), func(b *testing.B) {
			var body []byte
			for i := range 32 {
				m := make([]byte, 1024)
				Stamp{Run: 7, Seq: uint64(i), Due: time.Now().UnixNano()}.put(m)
				body, _ = codec.AppendRecordV1(body, &codec.Message{Topic: "T", Body: m})
			}
			p, q := newBenchPuller(kind), &pullQueue{}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.messages(q, body, p.c.tl.now()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/msg")
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	s := newShard(true)
	samples := make([]sample, 32)
	b.ReportAllocs()
	for b.Loop() {
		s.answered(1_000_000, samples, sums{})
	}
}
