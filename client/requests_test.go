package client

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

func hasDuplicates(header []byte) bool {
	for _, name := range []string{"code", "flag", "opaque"} {
		if strings.Count(string(header), name) > 1 {
			return true
		}
	}
	return strings.Contains(string(header), `\u`)
}

func TestSplitAddrs(t *testing.T) {
	f := func(list string, want ...string) {
		t.Helper()
		got, err := SplitAddrs(list)
		if len(want) == 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f("a:1", "a:1")
	f("a:1;b:2", "a:1", "b:2")
	f(" a:1, b:2 ;a:1;", "a:1", "b:2")
	f("[::1]:9876", "[::1]:9876")
	f("")
	f(";")
	f("a")
	f("a:")
}

// peers are several servers on one network.
func startPeers(t *testing.T, fs ...func(c *codec.Command) *codec.Command) (addrs []string, d Dialer) {
	t.Helper()
	byAddr := map[string]*peer{}
	for _, f := range fs {
		p := startPeer(t, f)
		addr := p.addr()
		for byAddr[addr] != nil { // each is alone in its network: names are ours
			addr = "x" + addr
		}
		byAddr[addr] = p
		addrs = append(addrs, addr)
	}
	return addrs, DialerFunc(func(ctx context.Context, _, addr string) (net.Conn, error) {
		return byAddr[addr].net.Dial(ctx, byAddr[addr].addr())
	})
}

func TestNameServersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [3]atomic.Int32
		knows := func(i int, answer func(c *codec.Command) *codec.Command) func(c *codec.Command) *codec.Command {
			return func(c *codec.Command) *codec.Command {
				calls[i].Add(1)
				return answer(c)
			}
		}
		route := func(c *codec.Command) *codec.Command {
			if c.Get("topic") != "T" {
				return codec.NewResponse(c, codec.RespTopicNotExist, "no such topic")
			}
			a := codec.NewResponse(c, codec.RespSuccess, "")
			a.Body = []byte(`{"brokerDatas":[{"brokerAddrs":{0:"a:1",1:"a:2"},"brokerName":"b","cluster":"C"}],` +
				`"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,"writeQueueNums":1}]}`)
			return a
		}
		silent := func(*codec.Command) *codec.Command { return nil }
		empty := func(c *codec.Command) *codec.Command {
			return codec.NewResponse(c, codec.RespTopicNotExist, "just started")
		}
		addrs, d := startPeers(t, knows(0, silent), knows(1, empty), knows(2, route))
		c := New(Options{Dialer: d})
		defer c.Close()
		ns := NewNameServers(c, addrs)
		start := time.Now()
		r, err := ns.Route(t.Context(), "T")
		require.NoError(t, err)
		require.Equal(t, DefaultCallTimeout, time.Since(start), "one silent server costs its timeout")
		require.Equal(t, []Queue{{"b", "a:1", 0}}, WriteQueues(r))
		require.Equal(t, []Queue{{"b", "a:1", 0}, {"b", "a:1", 1}}, ReadQueues(r))
		start = time.Now()
		_, err = ns.Route(t.Context(), "T")
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "the one that answered is asked first")
		_, err = ns.Route(t.Context(), "other")
		require.True(t, IsResponse(err, codec.RespTopicNotExist), "%v", err)
		require.EqualValues(t, 2, calls[0].Load())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = NewNameServers(c, addrs[:1]).Route(ctx, "T")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestQueuesOfARoute(t *testing.T) {
	r := &body.TopicRouteData{
		QueueDatas: []*body.QueueData{
			{BrokerName: "b", Perm: codec.PermRead | codec.PermWrite, ReadQueueNums: 1, WriteQueueNums: 2},
			{BrokerName: "a", Perm: codec.PermRead, ReadQueueNums: 1, WriteQueueNums: 1},
			{BrokerName: "slaves", Perm: codec.PermRead | codec.PermWrite, ReadQueueNums: 1, WriteQueueNums: 1},
			{BrokerName: "gone", Perm: codec.PermRead | codec.PermWrite, ReadQueueNums: 1, WriteQueueNums: 1},
		},
		BrokerDatas: []*body.BrokerData{
			{BrokerName: "b", BrokerAddrs: map[int64]string{0: "b:0", 1: "b:1"}},
			{BrokerName: "a", BrokerAddrs: map[int64]string{0: "a:0"}},
			{BrokerName: "slaves", BrokerAddrs: map[int64]string{3: "s:3", 2: "s:2"}},
		},
	}
	require.Equal(t, []Queue{{"b", "b:0", 0}, {"b", "b:0", 1}}, WriteQueues(r))
	require.Equal(t, []Queue{{"a", "a:0", 0}, {"b", "b:0", 0}, {"slaves", "s:2", 0}}, ReadQueues(r))
	require.Equal(t, map[string]string{"b": "b:0"},
		Masters(&body.ClusterInfo{BrokerAddrTable: map[string]*body.BrokerData{"b": r.BrokerDatas[0],
			"s": r.BrokerDatas[2]}}))
}

// broker answers the requests of send.go, pull.go and admin.go as Skylark and Java do.
func broker(t *testing.T, old bool) func(c *codec.Command) *codec.Command {
	header := func(c *codec.Command, h any) *codec.Command {
		a := codec.NewResponse(c, codec.RespSuccess, "")
		codec.EncodeHeader(a, h)
		return a
	}
	return func(c *codec.Command) *codec.Command {
		switch c.Code {
		case codec.ReqSendMessageV2, codec.ReqSendBatchMessage:
			var h codec.SendMessageHeader
			require.NoError(t, h.Decode(c))
			require.NotZero(t, h.BornTimestamp)
			if string(h.Topic) == "none" {
				return codec.NewResponse(c, codec.RespTopicNotExist, "none")
			}
			return header(c, &codec.SendMessageResponseHeader{MsgID: "A,B", QueueID: h.QueueID, QueueOffset: 77})
		case codec.ReqPullMessage:
			var h codec.PullMessageHeader
			require.NoError(t, h.Decode(c))
			if string(h.ConsumerGroup) == "unknown" {
				return codec.NewResponse(c, codec.RespSubscriptionGroupNotExist, "no group")
			}
			require.Equal(t, body.SubscribeAll, string(h.Subscription))
			a := header(c, &codec.PullMessageResponseHeader{NextBeginOffset: h.QueueOffset + 2, MinOffset: 1, MaxOffset: 9})
			a.Body, _ = codec.AppendRecordV1(nil, &codec.Message{Topic: "T", Body: []byte("one")})
			a.Body, _ = codec.AppendRecordV1(a.Body, &codec.Message{Topic: "T", Body: []byte("two")})
			return a
		case codec.ReqGetMaxOffset:
			return header(c, &codec.OffsetResponseHeader{Offset: 30})
		case codec.ReqGetMinOffset:
			return header(c, &codec.OffsetResponseHeader{Offset: 31})
		case codec.ReqSearchOffsetByTimestamp:
			return header(c, &codec.OffsetResponseHeader{Offset: 29})
		case codec.ReqQueryConsumerOffset:
			return codec.NewResponse(c, codec.RespQueryNotFound, "none")
		default:
			return admin(t, c, old)
		}
	}
}

// admin is the rest: topics, groups, heartbeats.
func admin(t *testing.T, c *codec.Command, old bool) *codec.Command {
	text := func(c *codec.Command, v any) *codec.Command {
		a := codec.NewResponse(c, codec.RespSuccess, "")
		b, err := body.Encode(v)
		require.NoError(t, err)
		a.Body = b
		return a
	}
	topic := &body.TopicConfig{TopicName: "T", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}
	switch c.Code {
	case codec.ReqGetTopicConfig:
		if old {
			return codec.NewResponse(c, codec.RespRequestCodeNotSupported, " request type 351 not supported")
		}
		return text(c, topic)
	case codec.ReqGetAllTopicConfig:
		return text(c, &body.TopicConfigSerializeWrapper{TopicConfigTable: map[string]*body.TopicConfig{"T": topic}})
	case codec.ReqGetBrokerRuntimeInfo:
		return text(c, &body.KVTable{Table: map[string]string{"brokerVersionDesc": "V5_3_3"}})
	case codec.ReqHeartBeat:
		var h body.HeartbeatData
		require.NoError(t, body.Decode(c.Body, &h))
		require.Equal(t, "me", h.ClientID)
	case codec.ReqUpdateAndCreateTopic:
		var h codec.CreateTopicRequestHeader
		require.NoError(t, codec.DecodeHeader(c, &h))
		require.Equal(t, "+message.type=FIFO", h.Attributes)
		require.Equal(t, "SINGLE_TAG", h.TopicFilterType)
	case codec.ReqUpdateAndCreateSubscriptionGroup:
		var g body.SubscriptionGroupConfig
		require.NoError(t, body.Decode(c.Body, &g))
		require.Equal(t, "g", g.GroupName)
	case codec.ReqUpdateConsumerOffset, codec.ReqDeleteTopicInBroker:
	default:
		return codec.NewResponse(c, codec.RespRequestCodeNotSupported, "")
	}
	return codec.NewResponse(c, codec.RespSuccess, "")
}

func TestRequests(t *testing.T) {
	for _, typ := range bothTypes {
		for _, old := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { testRequests(t, typ, old) })
		}
	}
}

func testRequests(t *testing.T, typ codec.SerializeType, old bool) {
	p := startPeer(t, broker(t, old))
	c := New(Options{Serialize: typ, Dialer: &countingDialer{net: p.net}})
	defer c.Close()
	ctx, addr := t.Context(), p.addr()

	sent, err := c.Send(ctx, addr, &codec.SendMessageHeader{Topic: []byte("T"), QueueID: 2}, []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, &SendResult{MsgIDs: []string{"A", "B"}, QueueID: 2, QueueOffset: 77}, sent)
	batch, err := codec.AppendBatchEntry(nil, codec.BatchEntry{Body: []byte("x")})
	require.NoError(t, err)
	_, err = c.Send(ctx, addr, &codec.SendMessageHeader{Topic: []byte("T"), Batch: true}, batch)
	require.NoError(t, err)
	_, err = c.Send(ctx, addr, &codec.SendMessageHeader{Topic: []byte("none")}, nil)
	require.True(t, IsResponse(err, codec.RespTopicNotExist))
	require.NoError(t, c.SendOneway(ctx, addr, &codec.SendMessageHeader{Topic: []byte("T")}, nil))

	pulled, err := c.Pull(ctx, addr, PullRequest{Group: "g", Topic: "T", QueueOffset: 5, Suspend: time.Second, Commit: true})
	require.NoError(t, err)
	require.EqualValues(t, 7, pulled.NextBeginOffset)
	var bodies []string
	require.NoError(t, EachRecord(pulled.Body, func(r *codec.Record) error {
		bodies = append(bodies, string(r.Body))
		return nil
	}))
	require.Equal(t, []string{"one", "two"}, bodies)
	require.ErrorIs(t, EachRecord(pulled.Body[:20], nil), codec.ErrCorrupt)
	require.ErrorIs(t, EachRecord(codec.AppendBlank(nil, 8), nil), codec.ErrCorrupt)
	_, err = c.Pull(ctx, addr, PullRequest{Group: "unknown", Topic: "T"})
	require.True(t, IsResponse(err, codec.RespSubscriptionGroupNotExist))

	for want, get := range map[codec.QueueOffset]func() (codec.QueueOffset, error){
		30: func() (codec.QueueOffset, error) { return c.MaxOffset(ctx, addr, "T", 0) },
		31: func() (codec.QueueOffset, error) { return c.MinOffset(ctx, addr, "T", 0) },
		29: func() (codec.QueueOffset, error) { return c.SearchOffset(ctx, addr, "T", 0, time.Now()) },
	} {
		got, err := get()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = c.ConsumerOffset(ctx, addr, "g", "T", 0)
	require.True(t, IsResponse(err, codec.RespQueryNotFound))
	require.NoError(t, c.CommitOffset(ctx, addr, "g", "T", 0, 3))
	require.NoError(t, c.Heartbeat(ctx, addr, &body.HeartbeatData{ClientID: "me"}))

	topic, err := c.TopicConfig(ctx, addr, "T")
	require.NoError(t, err)
	require.EqualValues(t, 4, topic.WriteQueueNums)
	if old {
		_, err = c.TopicConfig(ctx, addr, "other")
		require.True(t, IsResponse(err, codec.RespTopicNotExist))
	}
	topic.Attributes, topic.TopicFilterType = map[string]string{"message.type": "FIFO"}, body.SingleTag
	require.NoError(t, c.CreateTopic(ctx, addr, topic))
	require.NoError(t, c.DeleteTopic(ctx, addr, "T"))
	require.NoError(t, c.CreateGroup(ctx, addr, body.NewSubscriptionGroupConfig("g")))
	info, err := c.RuntimeInfo(ctx, addr)
	require.NoError(t, err)
	require.Equal(t, "V5_3_3", info["brokerVersionDesc"])
}

func TestParseSend(t *testing.T) {
	req := codec.NewRequest(codec.ReqSendMessageV2)
	late := codec.NewResponse(req, codec.RespFlushDiskTimeout, "")
	codec.EncodeHeader(late, &codec.SendMessageResponseHeader{MsgID: "A"})
	got, err := ParseSend(late)
	require.NoError(t, err, "stored, but late")
	require.Equal(t, codec.RespFlushDiskTimeout, got.Code)
	_, err = ParseSend(codec.NewResponse(req, codec.RespSuccess, ""))
	require.ErrorContains(t, err, "msgId")
}

// PullFrames writes what the header's own encoder writes.
func TestPullFrames(t *testing.T) {
	var p PullFrames
	for _, typ := range bothTypes {
		h := codec.PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"), QueueID: 3, QueueOffset: 1 << 60,
			MaxMsgNums: 32, SysFlag: codec.PullFlagSuspend | codec.PullFlagSubscription, CommitOffset: -1,
			SuspendTimeoutMillis: 15000, SubVersion: 1700000000000, Subscription: []byte("A || B"),
			ExpressionType: []byte(body.ExpressionTag), RequestSource: codec.RequestSourceSDK}
		for range 2 {
			want := codec.NewRequest(codec.ReqPullMessage)
			want.Type, want.Opaque = typ, 42
			h.Encode(want)
			require.Equal(t, string(want.AppendTo(nil)), string(p.Append(nil, typ, 42, &h)))
			h.Subscription, h.ExpressionType = nil, nil
		}
	}
}
