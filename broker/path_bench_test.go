package broker

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
	"skylark/zerocopy"
)

// sink is a connection whose peer takes everything at once.
type sink struct {
	reactor.Conn
	id  uint64
	ctx any
}

var sinkIDs atomic.Uint64

func (c *sink) ID() uint64                 { return c.id }
func (c *sink) RemoteAddr() netip.AddrPort { return sinkAddr }
func (c *sink) LocalAddr() netip.AddrPort  { return sinkAddr }
func (c *sink) PendingBytes() int          { return 0 }
func (c *sink) Context() any               { return c.ctx }
func (c *sink) SetContext(v any)           { c.ctx = v }
func (c *sink) Close(error)                {}
func (c *sink) Send([]byte) error          { return nil }

func (c *sink) SendOutbox(o *reactor.Outbox) error {
	o.Release()
	return nil
}

var sinkAddr = netip.MustParseAddrPort("127.0.0.1:4711")

// loop serves frames on a broker as an event loop does, without the network.
type loop struct {
	b      *testBroker
	conn   *sink
	frames []codec.Frame
	out    reactor.Outbox
}

func newLoop(t testing.TB, b *testBroker, reqs ...*codec.Command) *loop {
	p := &loop{b: b, conn: &sink{id: sinkIDs.Add(1) | 1<<60}}
	require.NoError(t, b.server.OnOpen(p.conn))
	t.Cleanup(func() { b.server.OnClose(p.conn, nil) })
	for i, req := range reqs {
		req.Opaque = int32(i)
		f, _, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
		require.NoError(t, err)
		p.frames = append(p.frames, f)
	}
	return p
}

// turn serves all frames in one turn and drops the answers.
func (p *loop) turn() {
	p.b.server.OnFrames(p.conn, p.frames, &p.out)
	p.out.Release()
}

// answers serves one turn and decodes what it wrote.
func (p *loop) answers(t testing.TB) (out []*codec.Command) {
	t.Helper()
	p.b.server.OnFrames(p.conn, p.frames, &p.out)
	var buf []byte
	p.out.Each(func(part []byte, _ zerocopy.Owner) { buf = append(buf, part...) })
	p.out.Release()
	for len(buf) > 0 {
		f, n, _, err := codec.SplitFrame(buf, codec.MaxFrameBytes)
		require.NoError(t, err)
		require.NotZero(t, n)
		var c codec.Command
		require.NoError(t, c.Decode(f))
		out = append(out, c.Clone())
		buf = buf[n:]
	}
	return out
}

const benchConf = "mappedFileSizeCommitLog=268435456\nmappedFileSizeConsumeQueue=6000000\nmessageIndexEnable=false\n"

// benchProps are the properties a Java producer sends.
const benchProps = "KEYS\x01k1\x02UNIQ_KEY\x017F00000100005C6C0000000000111D54\x02WAIT\x01true\x02TAGS\x01TagA"

// repeat makes n requests of one kind.
func repeat(n int, make func(i int) *codec.Command) (out []*codec.Command) {
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

func benchmarkSend(b *testing.B, inOneTurn int, conf string) {
	br := startBroker(b, benchConf+conf)
	br.createTopic("T", 4, 6)
	data := bytes.Repeat([]byte("x"), 1024)
	p := newLoop(b, br, repeat(inOneTurn, func(i int) *codec.Command {
		return sendRequest("T", i%4, benchProps, data)
	})...)
	p.turn()
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += inOneTurn {
		p.turn()
	}
}

// BenchmarkSend is a send of 1 KiB from the frame to the answer's bytes, with dispatch and flush at work
// behind it: one a read, and 32 a read as busy producers cause them.
func BenchmarkSend(b *testing.B) {
	b.Run("one", func(b *testing.B) { benchmarkSend(b, 1, "") })
	b.Run("pipelined", func(b *testing.B) { benchmarkSend(b, 32, "") })
	b.Run("batch32", func(b *testing.B) {
		br := startBroker(b, benchConf)
		br.createTopic("T", 4, 6)
		var entries []byte
		for range 32 {
			entry, err := codec.AppendBatchEntry(nil, codec.BatchEntry{Body: bytes.Repeat([]byte("x"), 1024),
				Properties: []byte(benchProps)})
			require.NoError(b, err)
			entries = append(entries, entry...)
		}
		p := newLoop(b, br, batchRequest("T", "", entries))
		b.SetBytes(1024)
		b.ReportAllocs()
		b.ResetTimer()
		for n := 0; n < b.N; n += 32 {
			p.turn()
		}
	})
}

// fillQueue stores n messages of 1 KiB in queue 0 of T.
func fillQueue(t testing.TB, b *testBroker, n int) {
	t.Helper()
	b.createTopic("T", 1, 6)
	b.createGroup("g", nil)
	data := bytes.Repeat([]byte("x"), 1024)
	for i := range n {
		b.mustSend("T", 0, benchProps, string(append(data[:1020:1020], fmt.Sprintf("%04d", i)...)))
	}
	b.waitQueue("T", 0, n)
}

// BenchmarkPull is a pull of 32 messages of 1 KiB from the frame to header and ranges; bytes and time are of
// one pull.
func BenchmarkPull(b *testing.B) {
	f := func(conf string, alter func(h *codec.PullMessageHeader)) func(b *testing.B) {
		return func(b *testing.B) {
			br := startBroker(b, benchConf+conf)
			fillQueue(b, br, 64)
			p := newLoop(b, br, pullWith("g", "T", 0, 0, alter))
			require.Len(b, bodies(b, p.answers(b)[0]), 32)
			b.SetBytes(32 << 10)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				p.turn()
			}
		}
	}
	b.Run("all", f("", func(h *codec.PullMessageHeader) {}))
	b.Run("tag", f("", func(h *codec.PullMessageHeader) { h.Subscription = []byte("TagA || TagB") }))
	b.Run("sql", f("enablePropertyFilter=true\n", func(h *codec.PullMessageHeader) {
		h.Subscription, h.ExpressionType = []byte("KEYS = 'k1' AND UNIQ_KEY IS NOT NULL"), []byte("SQL92")
	}))
	b.Run("heap", f("transferMsgByHeap=true\n", func(h *codec.PullMessageHeader) {}))
}

// BenchmarkParkAndWake is a pull that parks and the send that wakes it.
func BenchmarkParkAndWake(b *testing.B) {
	br := startBroker(b, benchConf)
	br.createTopic("T", 1, 6)
	data := bytes.Repeat([]byte("x"), 1024)
	br.createGroup("g", nil)
	send := newLoop(b, br, sendRequest("T", 0, benchProps, data))
	pulls := newLoop(b, br, repeat(b.N, func(i int) *codec.Command {
		return pullRequest("g", "T", 0, codec.QueueOffset(i), time.Minute)
	})...)
	frames := pulls.frames
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		pulls.frames = frames[i : i+1]
		pulls.turn()
		send.turn()
		for br.Parked() > 0 {
			runtime.Gosched()
		}
	}
}

// The paths of a message allocate nothing, in each of their forms.
func TestMessagePathsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	data := bytes.Repeat([]byte("x"), 1024)
	f := func(name, conf string, limit float64, prepare func(b *testBroker), reqs ...*codec.Command) {
		t.Helper()
		b := start(t, setup{conf: "mappedFileSizeCommitLog=16777216\nmessageIndexEnable=false\n" + conf})
		prepare(b)
		p := newLoop(t, b, reqs...)
		for _, answer := range p.answers(t) {
			require.Equal(t, codec.RespSuccess, answer.Code, "%s: %s", name, answer.Remark)
		}
		got := testing.AllocsPerRun(300, func() {
			for !b.store.CanAppend(64 << 10) { // pages are made ready behind us; else the send pool would serve it
				runtime.Gosched()
			}
			p.turn()
		}) / float64(len(reqs))
		require.LessOrEqual(t, got, limit, "%s: allocations per request", name)
	}
	topic := func(b *testBroker) { b.createTopic("T", 4, 6) }
	messages := func(b *testBroker) { fillQueue(t, b, 64) }
	binary := func(req *codec.Command) *codec.Command { req.Type = codec.SerializeROCKETMQ; return req }
	sql := func(h *codec.PullMessageHeader) {
		h.Subscription, h.ExpressionType = []byte("KEYS = 'k1'"), []byte("SQL92")
	}
	// The services behind the log allocate now and then; 0.1 a request leaves room for them and for nothing
	// else.
	f("send", "", 0.1, topic, sendRequest("T", 0, benchProps, data))
	f("send binary", "", 0.1, topic, binary(sendRequest("T", 0, benchProps, data)))
	f("send remembered", "duplicateSuppressionEnable=true\nduplicateWindowCount=1\n", 0.1, topic,
		sendRequest("T", 0, "UNIQ_KEY\x01one", data), sendRequest("T", 0, "UNIQ_KEY\x01two", data))
	f("send without unique key", "", 0.1, topic, sendRequest("T", 0, "TAGS\x01A", data))
	f("send forged properties", "", 0.1, topic, sendRequest("T", 0, benchProps+"\x02CLUSTER\x01x", data))
	f("sends of one turn", "", 0.1, topic, repeat(32, func(i int) *codec.Command {
		return sendRequest("T", i%4, benchProps, data)
	})...)
	f("delayed", "", 2.1, topic, sendRequest("T", 0, benchProps+"\x02DELAY\x0118", data))
	f("timer", "", 4.1, topic, sendRequest("T", 0, benchProps+"\x02TIMER_DELAY_SEC\x013600", data))
	f("pull", "", 0, messages, pullRequest("g", "T", 0, 0, 0))
	f("pull binary", "", 0, messages, binary(pullRequest("g", "T", 0, 0, 0)))
	f("pull by tag", "", 0, messages, pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
		h.Subscription = []byte("TagA || B")
	}))
	f("pull by SQL", "enablePropertyFilter=true\n", 0, messages, pullWith("g", "T", 0, 0, sql))
	f("pull by heap", "transferMsgByHeap=true\n", 0, messages, pullRequest("g", "T", 0, 0, 0))
	f("pull and commit", "", 0, messages, pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
		h.SysFlag |= codec.PullFlagCommitOffset
		h.CommitOffset = 3
	}))
	f("pull by heartbeat", "", 0, func(b *testBroker) {
		messages(b)
		b.beat("c1", consumer(t, "g", 1, "T TagA"))
	}, pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) { h.SysFlag, h.SubVersion = 0, 1 }))
}
