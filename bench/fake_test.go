package bench

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/reactor"
	"skylark/reactor/mem"
	"skylark/reactor/rpc"
	"skylark/reactor/std"
)

// fake is a name server and a broker in memory, on the network of package mem or on sockets. What a test
// wants to be different it sets in send.
type fake struct {
	t    testing.TB
	srv  *rpc.Server
	eng  reactor.Engine
	net  *mem.Network // nil: sockets
	addr string

	// send judges a send request before it is served; nil lets all pass.
	send func(h *codec.SendMessageHeader) verdict
	// unknownCodes are answered "not supported".
	unknownCodes map[int]bool

	mu      sync.Mutex
	topics  map[string]*fakeTopic
	offsets map[string]codec.QueueOffset
	groups  map[string]int // heartbeats
	conns   map[uint64]reactor.Conn
	sends   []fakeSend
	pulls   int
}

// verdict is what becomes of a send.
type verdict struct {
	code   int
	after  time.Duration // the answer is held back so long
	silent bool          // no answer at all
	drop   bool          // acknowledged, but not kept
	close  bool          // the connection ends
}

// fakeSend is a send request that came.
type fakeSend struct {
	at time.Time
}

type fakeTopic struct {
	config *body.TopicConfig
	queues []*fakeQueue
}

type fakeQueue struct {
	records [][]byte
	waiting []func() // pulls held until a message comes
}

// startFake starts one on the network in memory; sockets is for tests without virtual time.
func startFake(t testing.TB, sockets bool) *fake {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	f := &fake{t: t, srv: rpc.NewServer(clock.System, log), topics: map[string]*fakeTopic{},
		offsets: map[string]codec.QueueOffset{}, groups: map[string]int{}, conns: map[uint64]reactor.Conn{}}
	pool := f.srv.NewPool(rpc.PoolOptions{Name: "all", Workers: 1, Capacity: 1 << 20})
	f.srv.RegisterDefault(rpc.ProcessorFunc(f.serve), pool)
	f.srv.SetListener(rpc.ConnListener{Opened: func(c reactor.Conn) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns[c.ID()] = c
		return nil
	}})
	o := reactor.Options{Listen: []string{"127.0.0.1:0"}, Loops: 1, Log: log}
	if sockets {
		f.eng = std.New(o)
	} else {
		f.net = mem.NewNetwork()
		f.eng = mem.NewOn(f.net, o)
	}
	require.NoError(t, f.eng.Start(f.srv))
	f.addr = f.eng.Addrs()[0].String()
	t.Cleanup(func() {
		_ = f.eng.Stop(context.Background())
		f.srv.Close()
	})
	return f
}

// options are those of a run against the fake as a name server.
func (f *fake) options(k Kind) Options {
	o := DefaultOptions(k)
	o.Namesrv, o.Topic, o.Queues = []string{f.addr}, "T", 4
	if f.net != nil {
		o.Dialer = client.DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) {
			return f.net.Dial(ctx, addr)
		})
		o.sleep = func(d time.Duration) { wait(context.Background(), d) }
	} else {
		o.Timeout = time.Minute // a machine that does much else must not fail what looks at no times
	}
	return o
}

func (f *fake) makeTopic(name string, queues int32) *fakeTopic {
	t := &fakeTopic{config: &body.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6}}
	for range queues {
		t.queues = append(t.queues, &fakeQueue{})
	}
	f.topics[name] = t
	return t
}

// locked calls g while the fake serves nothing.
func (f *fake) locked(g func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g()
}

// counts are how many pulls came, sends, and groups that sent a heartbeat.
func (f *fake) counts() (pulls, sends, groups int) {
	f.locked(func() { pulls, sends, groups = f.pulls, len(f.sends), len(f.groups) })
	return pulls, sends, groups
}

// sentAt is when the sends came.
func (f *fake) sentAt() (out []fakeSend) {
	f.locked(func() { out = slices.Clone(f.sends) })
	return out
}

// records are all messages of a topic, parsed.
func (f *fake) records(topic string) (out []codec.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.topics[topic].queues {
		for _, b := range q.records {
			r, err := codec.ParseRecord(b, true)
			require.NoError(f.t, err)
			out = append(out, r)
		}
	}
	return out
}

func (f *fake) replyJSON(r *rpc.Request, v any) {
	b, err := body.Encode(v)
	require.NoError(f.t, err)
	r.ReplyBody(b)
}

func (f *fake) serve(r *rpc.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unknownCodes[r.Cmd.Code] {
		r.ReplyError(codec.RespRequestCodeNotSupported, "not supported")
		return
	}
	switch r.Cmd.Code {
	case codec.ReqSendMessageV2, codec.ReqSendBatchMessage:
		f.serveSend(r)
	case codec.ReqPullMessage:
		f.servePull(r)
	case codec.ReqGetRouteInfoByTopic:
		t := f.topics[r.Cmd.Get("topic")]
		if t == nil {
			r.ReplyError(codec.RespTopicNotExist, "no such topic")
			return
		}
		f.replyJSON(r, &body.TopicRouteData{
			QueueDatas: []*body.QueueData{{BrokerName: "b", Perm: t.config.Perm, ReadQueueNums: t.config.ReadQueueNums,
				WriteQueueNums: t.config.WriteQueueNums}},
			BrokerDatas: []*body.BrokerData{{BrokerName: "b", BrokerAddrs: map[int64]string{0: f.addr}}},
		})
	case codec.ReqGetBrokerClusterInfo:
		f.replyJSON(r, &body.ClusterInfo{BrokerAddrTable: map[string]*body.BrokerData{
			"b": {BrokerName: "b", BrokerAddrs: map[int64]string{0: f.addr}}}})
	case codec.ReqUpdateAndCreateTopic:
		var h codec.CreateTopicRequestHeader
		if r.Decode(&h, codec.RespInvalidParameter) {
			f.makeTopic(h.Topic, h.WriteQueueNums)
			r.OK()
		}
	case codec.ReqUpdateAndCreateTopicList:
		var list body.CreateTopicListRequestBody
		require.NoError(f.t, body.Decode(r.Cmd.Body, &list))
		for _, c := range list.TopicConfigList {
			f.makeTopic(c.TopicName, c.WriteQueueNums)
		}
		r.OK()
	case codec.ReqGetTopicConfig:
		if t := f.topics[r.Cmd.Get("topic")]; t != nil {
			f.replyJSON(r, t.config)
		} else {
			r.ReplyError(codec.RespTopicNotExist, "no such topic")
		}
	case codec.ReqGetBrokerRuntimeInfo:
		f.replyJSON(r, &body.KVTable{Table: map[string]string{"brokerVersionDesc": "FAKE_1"}})
	case codec.ReqHeartBeat:
		var h body.HeartbeatData
		require.NoError(f.t, body.Decode(r.Cmd.Body, &h))
		for _, c := range h.ConsumerDataSet {
			f.groups[c.GroupName]++
		}
		for _, p := range h.ProducerDataSet {
			f.groups[p.GroupName]++
		}
		r.OK()
	default:
		f.serveOffsets(r)
	}
}

func (f *fake) serveOffsets(r *rpc.Request) {
	var h codec.QueryConsumerOffsetRequestHeader
	h.Topic = r.Cmd.Get("topic")
	key := r.Cmd.Get("consumerGroup") + "@" + r.Cmd.Get("queueId")
	var offset codec.QueueOffset
	switch r.Cmd.Code {
	case codec.ReqGetMinOffset:
	case codec.ReqGetMaxOffset:
		var h codec.GetMaxOffsetRequestHeader
		require.NoError(f.t, codec.DecodeHeader(r.Cmd, &h))
		offset = codec.QueueOffset(len(f.topics[h.Topic].queues[h.QueueID].records))
	case codec.ReqQueryConsumerOffset:
		var ok bool
		if offset, ok = f.offsets[key]; !ok {
			r.ReplyError(codec.RespQueryNotFound, "none")
			return
		}
	case codec.ReqUpdateConsumerOffset:
		var h codec.UpdateConsumerOffsetRequestHeader
		require.NoError(f.t, codec.DecodeHeader(r.Cmd, &h))
		f.offsets[key] = h.CommitOffset
		r.OK()
		return
	case codec.ReqGetSubscriptionGroupConfig:
		r.ReplyError(codec.RespSubscriptionGroupNotExist, "none")
		return
	case codec.ReqUpdateAndCreateSubscriptionGroup:
		r.OK()
		return
	default:
		r.ReplyError(codec.RespRequestCodeNotSupported, "")
		return
	}
	r.ReplyHeader(&codec.OffsetResponseHeader{Offset: offset})
}

// serveSend stores a message or a batch.
func (f *fake) serveSend(r *rpc.Request) {
	var h codec.SendMessageHeader
	require.NoError(f.t, h.Decode(r.Cmd))
	v := verdict{}
	if f.send != nil {
		v = f.send(&h)
	}
	if v.close {
		r.Conn().Close(nil)
		return
	}
	t := f.topics[string(h.Topic)]
	q := t.queues[h.QueueID]
	first := len(q.records)
	if v.code == 0 {
		f.store(r.Cmd, &h, q, v.drop)
	}
	f.sends = append(f.sends, fakeSend{at: time.Now()})
	if v.silent || r.Cmd.IsOneway() {
		return
	}
	typ, opaque := r.Cmd.Type, r.Cmd.Opaque
	answer := codec.SendResponse{Code: v.code, StoreHost: netip.MustParseAddrPort("127.0.0.1:1"), QueueID: h.QueueID,
		QueueOffset: codec.QueueOffset(first)}
	if v.after == 0 {
		r.Out().SetBuffer(codec.AppendSendResponse(r.Out().Buffer(), typ, opaque, &answer))
		return
	}
	conn := r.Conn()
	time.AfterFunc(v.after, func() { _ = conn.Send(codec.AppendSendResponse(nil, typ, opaque, &answer)) })
}

func (f *fake) store(cmd *codec.Command, h *codec.SendMessageHeader, q *fakeQueue, drop bool) {
	keep := func(b, props []byte) {
		if drop {
			return
		}
		m := &codec.Message{Topic: string(h.Topic), QueueID: h.QueueID, SysFlag: h.SysFlag, BornTimestamp: h.BornTimestamp,
			Body: b, Properties: props, QueueOffset: codec.QueueOffset(len(q.records))}
		rec, err := codec.AppendRecordV1(nil, m)
		require.NoError(f.t, err)
		q.records = append(q.records, rec)
	}
	if h.Batch {
		require.NoError(f.t, codec.EachBatchEntry(cmd.Body, func(_ int, e codec.BatchEntry) error {
			keep(e.Body, e.Properties)
			return nil
		}))
	} else {
		keep(cmd.Body, h.Properties.AppendValue(nil))
	}
	waiting := q.waiting
	q.waiting = nil
	for _, wake := range waiting {
		wake()
	}
}

// servePull answers with messages or holds the pull.
func (f *fake) servePull(r *rpc.Request) {
	var h codec.PullMessageHeader
	require.NoError(f.t, h.Decode(r.Cmd))
	f.pulls++
	q := f.topics[string(h.Topic)].queues[h.QueueID]
	if h.SysFlag&codec.PullFlagCommitOffset != 0 {
		f.offsets[string(h.ConsumerGroup)+"@"+r.Cmd.Get("queueId")] = h.CommitOffset
	}
	d, offset, most, end := r.Defer(), h.QueueOffset, int(h.MaxMsgNums), codec.QueueOffset(len(q.records))
	answer := func() {
		resp := codec.PullResponse{NextBeginOffset: offset, MaxOffset: codec.QueueOffset(len(q.records))}
		code := codec.RespPullNotFound
		var b []byte
		for i := 0; i < most && int(offset)+i < len(q.records); i++ {
			b = append(b, q.records[int(offset)+i]...)
			resp.NextBeginOffset++
			code = codec.RespSuccess
		}
		frame := codec.AppendPullResponse(nil, d.Type, d.Opaque, code, "", &resp, len(b))
		_ = d.Conn.Send(append(frame, b...))
	}
	if offset < end || h.SysFlag&codec.PullFlagSuspend == 0 {
		answer()
		return
	}
	done := false
	once := func() {
		if !done {
			done = true
			answer()
		}
	}
	q.waiting = append(q.waiting, once)
	time.AfterFunc(time.Duration(h.SuspendTimeoutMillis)*time.Millisecond, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		once()
	})
}

// breakAll ends all connections.
func (f *fake) breakAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range maps.Values(f.conns) {
		c.Close(nil)
	}
	clear(f.conns)
}
