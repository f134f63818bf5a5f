package broker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/client"
	"skylark/codec"
	"skylark/config"
	"skylark/reactor"
	"skylark/reactor/gnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBroker is a broker of its own on a free port, with small files.
type testBroker struct {
	*Broker
	t    *testing.T
	dir  string
	conf string
	c    *client.Conn
}

// smallFiles make a store that rolls soon and costs little.
const smallFiles = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=100\n" +
	"maxIndexNum=400\nbrokerIP1=127.0.0.1\ndiskMaxUsedSpaceRatio=95\n"

func startBroker(t *testing.T, conf string) *testBroker {
	t.Helper()
	return openBroker(t, t.TempDir(), conf)
}

func openBroker(t *testing.T, dir, conf string) *testBroker {
	t.Helper()
	set := config.NewBrokerSet()
	f, err := config.Parse(smallFiles+"storePathRootDir="+dir+"\n"+conf, "test.conf")
	require.NoError(t, err)
	warnings, err := set.Load(f)
	require.NoError(t, err)
	require.Empty(t, warnings)
	b, err := New(Options{Config: set, NewEngine: func(o reactor.Options) reactor.Engine { return gnet.New(o) },
		Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}})
	require.NoError(t, err)
	require.NoError(t, b.Start())
	tb := &testBroker{Broker: b, t: t, dir: dir, conf: conf}
	tb.c = tb.dial()
	t.Cleanup(tb.stop)
	return tb
}

func (b *testBroker) stop() {
	require.NoError(b.t, b.Close(context.Background()))
}

func (b *testBroker) dial() *client.Conn {
	c, err := client.Dial(context.Background(), b.Addr().String(), client.Options{})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return c
}

// restart stops cleanly and opens the same directory again.
func (b *testBroker) restart() *testBroker {
	b.c.Close()
	b.stop()
	return openBroker(b.t, b.dir, b.conf)
}

func (b *testBroker) call(code int, header any, data []byte) *codec.Command {
	b.t.Helper()
	req := codec.NewRequest(code)
	if header != nil {
		codec.EncodeHeader(req, header)
	}
	req.Body = data
	return b.do(req)
}

func (b *testBroker) do(req *codec.Command) *codec.Command {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	answer, err := b.c.Call(ctx, req)
	require.NoError(b.t, err)
	return answer
}

// sendRequest is a SEND_MESSAGE_V2.
func sendRequest(topicName string, queueID int, props string, data []byte) *codec.Command {
	req := codec.NewRequest(codec.ReqSendMessageV2)
	h := codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte(topicName),
		DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: 4, QueueID: int32(queueID),
		BornTimestamp: time.Now().UnixMilli(), Properties: codec.Field{Value: []byte(props)}}
	h.Encode(req)
	req.Body = data
	return req
}

func (b *testBroker) send(topicName string, queueID int, props string, data []byte) *codec.Command {
	b.t.Helper()
	return b.do(sendRequest(topicName, queueID, props, data))
}

// pullRequest asks with the subscription in the request.
func pullRequest(groupName, topicName string, queueID int, at codec.QueueOffset, hold time.Duration) *codec.Command {
	req := codec.NewRequest(codec.ReqPullMessage)
	h := codec.PullMessageHeader{ConsumerGroup: []byte(groupName), Topic: []byte(topicName), QueueID: int32(queueID),
		QueueOffset: at, MaxMsgNums: 32, SysFlag: codec.PullFlagSubscription, Subscription: []byte("*"),
		ExpressionType: []byte("TAG"), RequestSource: codec.RequestSourceSDK}
	if hold > 0 {
		h.SysFlag |= codec.PullFlagSuspend
		h.SuspendTimeoutMillis = hold.Milliseconds()
	}
	h.Encode(req)
	return req
}

func (b *testBroker) pull(topicName string, queueID int, at codec.QueueOffset) (*codec.Command,
	codec.PullMessageResponseHeader) {
	b.t.Helper()
	answer := b.do(pullRequest("g", topicName, queueID, at, 0))
	var h codec.PullMessageResponseHeader
	require.NoError(b.t, codec.DecodeHeader(answer, &h), "%v", answer)
	return answer, h
}

// records splits the body of a pull answer.
func records(t *testing.T, data []byte) (out []codec.Record) {
	t.Helper()
	for len(data) > 0 {
		rec, err := codec.ParseRecord(data, true)
		require.NoError(t, err)
		out = append(out, rec)
		data = data[rec.TotalSize:]
	}
	return out
}

// waitQueue waits until a queue has n messages that can be consumed.
func (b *testBroker) waitQueue(topicName string, queueID int, n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.store.MaxOffset(topicName, int32(queueID)) >= codec.QueueOffset(n) },
		10*time.Second, time.Millisecond)
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

func TestSendAndPull(t *testing.T) {
	b := startBroker(t, "")
	for i := range 10 {
		answer := b.send("T", 1, "KEYS\x01k\x02TAGS\x01A", []byte(fmt.Sprint("m", i)))
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, fmt.Sprint(i), answer.Get("queueOffset"))
		require.Equal(t, "1", answer.Get("queueId"))
		require.Len(t, answer.Get("msgId"), 32)
		require.Equal(t, "DefaultRegion", answer.Get("MSG_REGION"))
	}
	b.waitQueue("T", 1, 10)
	answer, h := b.pull("T", 1, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.EqualValues(t, 10, h.NextBeginOffset)
	recs := records(t, answer.Body)
	require.Len(t, recs, 10)
	for i, rec := range recs {
		require.Equal(t, fmt.Sprint("m", i), string(rec.Body))
		require.EqualValues(t, i, rec.QueueOffset)
		tags, _ := rec.Property("TAGS")
		require.Equal(t, "A", string(tags))
		uniq, ok := rec.Property("UNIQ_KEY")
		require.True(t, ok, "the broker gives a unique key to a message without one")
		require.Len(t, uniq, 32)
	}
}
