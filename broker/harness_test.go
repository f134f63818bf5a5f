package broker

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/engines"
	"skylark/reactor/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is what a test wants of its broker.
type setup struct {
	conf string
	dir  string // "" = a temporary one
	// fs replaces the disk; dir is /data then.
	fs vfs.FS
	// virtual has the network in memory, for synctest bubbles.
	virtual bool
	namesrv client.Dialer
	engine  func(reactor.Options) reactor.Engine // nil: gnet
	// prepare is called between New and Start.
	prepare func(b *Broker)
}

// testBroker is a broker of its own on free ports, with small files, and a client of it.
type testBroker struct {
	*Broker
	*peer
	t   testing.TB
	s   setup
	log *logBuffer
	net *mem.Network
}

// smallFiles make a store that rolls soon and costs little.
const smallFiles = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=100\n" +
	"maxIndexNum=400\nbrokerIP1=127.0.0.1\ndiskMaxUsedSpaceRatio=95\nbrokerName=broker-a\n"

func startBroker(t testing.TB, conf string) *testBroker {
	t.Helper()
	return start(t, setup{conf: conf})
}

// configText is smallFiles without what the test says itself.
func configText(s setup) (text string) {
	for line := range strings.Lines(smallFiles + "storePathRootDir=" + s.dir + "\n") {
		if key, _, _ := strings.Cut(line, "="); !strings.Contains("\n"+s.conf, "\n"+key+"=") {
			text += line
		}
	}
	return text + s.conf
}

// start opens a broker that the test's end closes.
func start(t testing.TB, s setup) *testBroker {
	t.Helper()
	tb, err := tryStart(t, s)
	require.NoError(t, err)
	t.Cleanup(tb.stop)
	return tb
}

// tryStart gives the error of New or Start instead of a broker.
func tryStart(t testing.TB, s setup) (*testBroker, error) {
	t.Helper()
	switch {
	case s.fs != nil:
		s.dir = "/data"
	case s.dir == "":
		s.dir = t.TempDir()
	}
	set := config.NewBrokerSet()
	f, err := config.Parse(configText(s), "test.conf")
	require.NoError(t, err)
	warnings, err := set.Load(f)
	require.NoError(t, err)
	require.Empty(t, warnings)
	tb := &testBroker{t: t, s: s, log: &logBuffer{}}
	o := Options{Config: set, FS: s.fs, Dialer: s.namesrv, Listen: []string{"127.0.0.1:0", "127.0.0.1:0"},
		Log:       slog.New(slog.NewTextHandler(tb.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		NewEngine: engines.ByName(cmp.Or(os.Getenv("SKYLARK_REACTOR"), "epoll"), slog.Default())}
	if s.engine != nil {
		o.NewEngine = s.engine
	}
	if s.virtual {
		tb.net = mem.NewNetwork()
		o.NewEngine = func(o reactor.Options) reactor.Engine { return mem.NewOn(tb.net, o) }
	}
	t.Cleanup(func() {
		if tb.log.panicked.Load() {
			t.Error("a processor panicked")
		}
		if t.Failed() {
			t.Logf("log of the broker in %s:\n%s", s.dir, tb.log)
		}
	})
	if tb.Broker, err = New(o); err != nil {
		return nil, err
	}
	if s.prepare != nil {
		s.prepare(tb.Broker)
	}
	if err := tb.Start(); err != nil {
		return nil, err
	}
	tb.peer = tb.dial()
	return tb, nil
}

func (b *testBroker) stop() {
	b.t.Helper()
	require.NoError(b.t, b.Broker.Close(context.Background()))
}

// restart stops cleanly and opens the same directory again.
func (b *testBroker) restart() *testBroker {
	b.t.Helper()
	b.peer.Close()
	b.stop()
	s := b.s
	s.prepare = nil
	return start(b.t, s)
}

// kill opens what is in the files now, as after a kill -9: nothing was closed. The broker has to be on a
// MemFS.
func (b *testBroker) kill() *testBroker {
	b.t.Helper()
	s := b.s
	s.fs = s.fs.(*vfs.MemFS).CloneAll()
	b.peer.Close()
	b.stop()
	return start(b.t, s)
}

// peer is a connection to a broker that keeps what the broker asks of it.
type peer struct {
	*client.Conn
	t        testing.TB
	requests chan *codec.Command
	// serve answers the broker's requests; nil answers nothing.
	serve func(req *codec.Command) *codec.Command
}

func (b *testBroker) dial() *peer { return b.dialWith(client.Options{}) }

func (b *testBroker) dialWith(o client.Options) *peer { return b.dialTo(b.Addr().String(), o) }

func (b *testBroker) dialTo(addr string, o client.Options) *peer {
	b.t.Helper()
	p := &peer{t: b.t, requests: make(chan *codec.Command, 1000)}
	o.Handler = func(_ *client.Conn, req *codec.Command) *codec.Command {
		p.requests <- req.Clone()
		if p.serve != nil {
			return p.serve(req)
		}
		return nil
	}
	if b.net != nil {
		nc, err := b.net.Dial(context.Background(), addr)
		require.NoError(b.t, err)
		p.Conn = client.NewConn(nc, o)
	} else {
		c, err := client.Dial(context.Background(), addr, o)
		require.NoError(b.t, err)
		p.Conn = c
	}
	b.t.Cleanup(func() { p.Conn.Close() })
	return p
}

// request makes a command with a header.
func request(code int, header any, data []byte) *codec.Command {
	req := codec.NewRequest(code)
	if header != nil {
		codec.EncodeHeader(req, header)
	}
	req.Body = data
	return req
}

func (p *peer) call(code int, header any, data []byte) *codec.Command {
	p.t.Helper()
	return p.do(request(code, header, data))
}

// mustCall also wants code 0, and decodes a body.
func (p *peer) mustCall(code int, header any, into any) *codec.Command {
	p.t.Helper()
	answer := p.call(code, header, nil)
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
	if into != nil {
		require.NoError(p.t, body.Decode(answer.Body, into))
	}
	return answer
}

func (p *peer) do(req *codec.Command) *codec.Command {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := p.Call(ctx, req)
	require.NoError(p.t, err)
	return answer
}

// begin sends a request and gives the channel its answer comes by; nil stands for a lost connection.
func (p *peer) begin(req *codec.Command) <-chan *codec.Command {
	p.t.Helper()
	ch := make(chan *codec.Command, 1)
	_, err := p.Go(req, func(answer *codec.Command, err error) { ch <- answer })
	require.NoError(p.t, err)
	return ch
}

// await takes an answer that must come.
func await(t *testing.T, ch <-chan *codec.Command) *codec.Command {
	t.Helper()
	return awaitFor(t, ch, time.Minute)
}

func awaitFor(t *testing.T, ch <-chan *codec.Command, limit time.Duration) *codec.Command {
	t.Helper()
	select {
	case answer := <-ch:
		require.NotNil(t, answer, "the connection was lost")
		return answer
	case <-time.After(limit):
		require.FailNow(t, "no answer")
		return nil
	}
}

// sendRequest is a SEND_MESSAGE_V2 as clients send it.
func sendRequest(topicName string, queueID int, props string, data []byte) *codec.Command {
	return sendWith(topicName, data, func(h *codec.SendMessageHeader) {
		h.QueueID, h.Properties = int32(queueID), codec.Field{Value: []byte(props)}
	})
}

func sendWith(topicName string, data []byte, alter func(h *codec.SendMessageHeader)) *codec.Command {
	req := codec.NewRequest(codec.ReqSendMessageV2)
	h := codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte(topicName),
		DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: 4,
		BornTimestamp: time.Now().UnixMilli()}
	alter(&h)
	h.Encode(req)
	req.Body = data
	return req
}

func (p *peer) send(topicName string, queueID int, props string, data []byte) *codec.Command {
	p.t.Helper()
	return p.do(sendRequest(topicName, queueID, props, data))
}

// mustSend wants the message stored.
func (p *peer) mustSend(topicName string, queueID int, props, data string) *codec.Command {
	p.t.Helper()
	answer := p.send(topicName, queueID, props, []byte(data))
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
	return answer
}

// pullRequest asks with the subscription in the request.
func pullRequest(groupName, topicName string, queueID int, at codec.QueueOffset,
	hold time.Duration) *codec.Command {
	return pullWith(groupName, topicName, queueID, at, func(h *codec.PullMessageHeader) {
		if hold > 0 {
			h.SysFlag |= codec.PullFlagSuspend
			h.SuspendTimeoutMillis = hold.Milliseconds()
		}
	})
}

func pullWith(groupName, topicName string, queueID int, at codec.QueueOffset,
	alter func(h *codec.PullMessageHeader)) *codec.Command {
	req := codec.NewRequest(codec.ReqPullMessage)
	h := codec.PullMessageHeader{ConsumerGroup: []byte(groupName), Topic: []byte(topicName),
		QueueID: int32(queueID), QueueOffset: at, MaxMsgNums: 32, SysFlag: codec.PullFlagSubscription,
		Subscription: []byte("*"), ExpressionType: []byte("TAG"), RequestSource: codec.RequestSourceSDK}
	alter(&h)
	h.Encode(req)
	return req
}

func (p *peer) pull(topicName string, queueID int, at codec.QueueOffset) (*codec.Command,
	codec.PullMessageResponseHeader) {
	p.t.Helper()
	return p.pulled(p.do(pullRequest("g", topicName, queueID, at, 0)))
}

// pulled decodes the header of a pull answer.
func (p *peer) pulled(answer *codec.Command) (*codec.Command, codec.PullMessageResponseHeader) {
	p.t.Helper()
	var h codec.PullMessageResponseHeader
	require.NoError(p.t, codec.DecodeHeader(answer, &h), "%v", answer)
	return answer, h
}

// records splits the body of a pull answer.
func records(t testing.TB, data []byte) (out []codec.Record) {
	t.Helper()
	for len(data) > 0 {
		rec, err := codec.ParseRecord(data, true)
		require.NoError(t, err)
		out = append(out, rec)
		data = data[rec.TotalSize:]
	}
	return out
}

// bodies are the bodies of a pull answer.
func bodies(t testing.TB, answer *codec.Command) (out []string) {
	t.Helper()
	for _, rec := range records(t, answer.Body) {
		out = append(out, string(rec.Body))
	}
	return out
}

// waitQueue waits until a queue has n messages that can be consumed.
func (b *testBroker) waitQueue(topicName string, queueID int, n int) {
	b.t.Helper()
	b.eventually(func() bool { return b.store.MaxOffset(topicName, int32(queueID)) >= codec.QueueOffset(n) })
}

func (b *testBroker) eventually(f func() bool) {
	b.t.Helper()
	require.Eventually(b.t, f, time.Minute, time.Millisecond)
}

// all reads a whole queue.
func (b *testBroker) all(topicName string, queueID int) (out []codec.Record) {
	b.t.Helper()
	st := b.Store()
	for at := st.MinOffset(topicName, int32(queueID)); at < st.MaxOffset(topicName, int32(queueID)); at++ {
		e := st.QueueEntries(topicName, int32(queueID), at, 1)
		require.Len(b.t, e, 1)
		raw, err := st.ReadRecord(e[0].PhyOffset, nil)
		require.NoError(b.t, err)
		rec, err := codec.ParseRecord(raw, true)
		require.NoError(b.t, err)
		out = append(out, rec)
	}
	return out
}

// logBuffer keeps the broker's log.
type logBuffer struct {
	mu       sync.Mutex
	text     strings.Builder
	panicked atomic.Bool
}

// maxLogBytes is where it begins anew: fuzzing says much.
const maxLogBytes = 16 << 20

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(p, []byte("processor failed")) {
		l.panicked.Store(true)
	}
	if l.text.Len() > maxLogBytes {
		l.text.Reset()
	}
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// heartbeat is what a client says of itself.
func heartbeat(clientID string, consumers ...*body.ConsumerData) *body.HeartbeatData {
	return &body.HeartbeatData{ClientID: clientID, ConsumerDataSet: consumers}
}

// consumer is a group that pushes, with a subscription "topic expression" each; SQL92 if it has a blank in
// it.
func consumer(t testing.TB, groupName string, version int64, subs ...string) *body.ConsumerData {
	c := &body.ConsumerData{GroupName: groupName, ConsumeType: body.ConsumePassively,
		MessageModel: body.Clustering, ConsumeFromWhere: body.FromLastOffset}
	for _, text := range subs {
		topicName, expression, _ := strings.Cut(text, " ")
		typ := "TAG"
		if strings.ContainsAny(expression, " =<>") && !strings.Contains(expression, "||") {
			typ = "SQL92"
		}
		sub, err := body.NewSubscription(topicName, expression, typ)
		require.NoError(t, err)
		sub.SubVersion = version
		c.SubscriptionDataSet = append(c.SubscriptionDataSet, sub)
	}
	return c
}

// beat sends a heartbeat that must be taken.
func (p *peer) beat(clientID string, consumers ...*body.ConsumerData) *codec.Command {
	p.t.Helper()
	answer := p.tryBeat(heartbeat(clientID, consumers...))
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
	return answer
}

func (p *peer) tryBeat(hb *body.HeartbeatData) *codec.Command {
	p.t.Helper()
	data, err := body.Encode(hb)
	require.NoError(p.t, err)
	return p.call(codec.ReqHeartBeat, nil, data)
}
