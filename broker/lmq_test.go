package broker

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/pop"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

const lmqConf = "enableLmq=true\nenableMultiDispatch=true\n"

// A light queue is consumed like a topic of one queue: %LMQ% names exist without being in any table, with offsets of their
// own, over restarts and kills.
func TestLightQueues(t *testing.T) {
	fs := vfs.NewMem()
	b := start(t, setup{fs: fs, conf: lmqConf})
	const props = "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b"
	for i := range 10 {
		b.mustSend("T", i%4, props, fmt.Sprint("m", i))
	}
	b.mustSend("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%b", "only b")
	b.waitQueue("%LMQ%a", 0, 10)
	b.waitQueue("%LMQ%b", 0, 11)
	pull := func(at codec.QueueOffset, hold time.Duration) *codec.Command {
		return pullRequest("%LMQ%g", "%LMQ%b", 0, at, hold)
	}
	check := func() {
		t.Helper()
		answer, h := b.pulled(b.do(pull(3, 0)))
		require.Equal(t, []string{"m3", "m4", "m5", "m6", "m7", "m8", "m9", "only b"}, bodies(t, answer))
		require.EqualValues(t, 11, h.NextBeginOffset)
		require.EqualValues(t, 11, h.MaxOffset)
		rec := records(t, answer.Body)[0]
		require.EqualValues(t, 3, rec.OffsetIn("%LMQ%a"))
		require.EqualValues(t, 3, rec.OffsetIn("%LMQ%b"))
		require.EqualValues(t, 0, rec.QueueOffset)
		require.Equal(t, "3,3", prop(t, rec, codec.PropInnerMultiQueueOffset))
	}
	check()
	commit := &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "%LMQ%g", Topic: "%LMQ%b", CommitOffset: 7}
	b.mustCall(codec.ReqUpdateConsumerOffset, commit, nil)
	b.pull("T", 0, 0)
	b.mustCall(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "g", Topic: "T",
		QueueID: 2, CommitOffset: 1}, nil)
	query := func(want string) {
		t.Helper()
		answer := b.mustCall(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "%LMQ%g",
			Topic: "%LMQ%b"}, nil)
		require.Equal(t, want, answer.Get("offset"))
	}
	query("7")
	b = b.restart()
	check()
	query("7")
	data, err := vfs.ReadFile(fs, path.Join(b.s.dir, "config/lmqConsumerOffset.json"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(data)), ""), `"lmqOffsetTable":{"%LMQ%b@%LMQ%g":7},"offsetTable":{"T@g":{2:1}}`)
	b = b.kill()
	check()
	query("7")

	// A consumer that waits on a light queue.
	waiting := b.begin(pull(11, time.Minute))
	b.eventually(func() bool { return b.Parked() == 1 })
	b.mustSend("T", 1, "INNER_MULTI_DISPATCH\x01%LMQ%b", "late")
	require.Equal(t, []string{"late"}, bodies(t, await(t, waiting)))

	for _, name := range []string{"topics.json", "subscriptionGroup.json"} {
		data, err := vfs.ReadFile(b.s.fs, path.Join(b.s.dir, "config", name))
		require.NoError(t, err)
		require.NotContains(t, string(data), "%LMQ%")
	}
	for _, topic := range b.topics.All() {
		require.False(t, codec.IsLMQ(topic.Name))
	}
	b.createTopic("%LMQ%c", 8, 6) // says yes and does nothing, as Java
	require.EqualValues(t, 1, b.topics.Get("%LMQ%c").Config.ReadQueueNums)
	var assigned body.QueryAssignmentResponseBody
	q, err := body.Encode(&body.QueryAssignmentRequestBody{Topic: "%LMQ%b", ConsumerGroup: "%LMQ%g", ClientID: "c",
		StrategyName: body.StrategyAveragely, MessageModel: body.Broadcasting})
	require.NoError(t, err)
	answer := b.call(codec.ReqQueryAssignment, nil, q)
	require.NoError(t, body.Decode(answer.Body, &assigned))
	require.Equal(t, body.MessageQueue{BrokerName: "broker-a", Topic: "%LMQ%b"},
		*(*assigned.MessageQueueAssignments)[0].MessageQueue)
	b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "%LMQ%b"}, nil)
	require.False(t, b.store.HasQueue("%LMQ%b", 0))
}

// The switch takes the offsets along that were kept without it; Java's forgets them.
func TestLightQueuesTakeOffsetsOver(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem()})
	b.mustSend("T", 0, "", "m")
	b.pull("T", 0, 0)
	b.mustCall(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "g", Topic: "T",
		CommitOffset: 1}, nil)
	b.peer.Close()
	b.stop()
	s := b.s
	s.conf = lmqConf
	b = start(t, s)
	answer := b.mustCall(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "g",
		Topic: "T"}, nil)
	require.Equal(t, "1", answer.Get("offset"))
}

// maxLmqConsumeQueueNum is a limit, and it is live; a delayed message and a transaction go to light queues when they are
// delivered, and not before.
func TestLightQueueRules(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), conf: lmqConf + "maxLmqConsumeQueueNum=2\nmessageDelayLevel=1s 5s\n"})
	b.mustSend("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b", "m")
	answer := b.send("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%c", []byte("m"))
	require.Equal(t, codec.RespSystemError, answer.Code)
	require.Contains(t, answer.Remark, "LMQ_CONSUME_QUEUE_NUM_EXCEEDED")
	answer = b.send("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%a/b", []byte("m"))
	require.Equal(t, codec.RespMessageIllegal, answer.Code)
	b.mustSend("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%a\x02DELAY\x011", "late")
	b.waitQueue("%LMQ%a", 0, 1)
	require.EqualValues(t, 1, b.store.MaxOffset("%LMQ%a", 0))
	b.waitQueue("%LMQ%a", 0, 2)
	b.mustSend("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%b\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01U", "half")
	b.waitQueue(codec.HalfTopic, 0, 1)
	require.EqualValues(t, 1, b.store.MaxOffset("%LMQ%b", 0))
	half := b.all(codec.HalfTopic, 0)[0]
	b.mustCall(codec.ReqEndTransaction, &codec.EndTransactionRequestHeader{ProducerGroup: "p", TransactionID: "U", MsgID: "U",
		TranStateTableOffset: half.QueueOffset, CommitLogOffset: half.PhyOffset,
		CommitOrRollback: codec.SysFlagTransactionCommit}, nil)
	b.waitQueue("%LMQ%b", 0, 2)
	pulled, _ := b.pulled(b.do(pullRequest("%LMQ%g", "%LMQ%b", 0, 0, 0)))
	require.Equal(t, []string{"m", "half"}, bodies(t, pulled))
	v, ok := b.stats.View("GROUP_GET_NUMS", "%LMQ%@%LMQ%")
	require.True(t, ok)
	require.NotNil(t, v)
}

// POP gives a message of a light queue the offset that it has there: receipts, acks and returns go by it.
func TestPopOfLightQueue(t *testing.T) {
	b := startBroker(t, lmqConf+"reviveInterval=100\n")
	b.sendN("T", 0, 5)
	for i := range 3 {
		b.mustSend("T", 0, "INNER_MULTI_DISPATCH\x01%LMQ%a", fmt.Sprint("l", i))
	}
	b.waitQueue("%LMQ%a", 0, 3)
	answer := b.do(popRequest("%LMQ%a", -1, 32, time.Second, 0, nil))
	require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	require.Equal(t, []string{"l0", "l1", "l2"}, bodies(t, answer))
	var h codec.PopMessageResponseHeader
	require.NoError(t, codec.DecodeHeader(answer, &h))
	require.Equal(t, "0 0 0", h.StartOffsetInfo)
	require.Equal(t, "0 0 0,1,2", h.MsgOffsetInfo)
	for at := range codec.QueueOffset(2) {
		b.mustAck(popped{topic: "%LMQ%a", receipt: pop.Receipt{PopTime: h.PopTime, Invisible: h.InvisibleTime,
			ReviveQID: h.ReviveQID, Broker: "broker-a", Offset: at}})
	}
	var again *codec.Command
	b.eventually(func() bool {
		again = b.do(popRequest("%LMQ%a", -1, 32, time.Minute, 0, nil))
		return len(again.Body) > 0
	})
	require.Equal(t, []string{"l2"}, bodies(t, again))
}

// An inner batch that was popped and not acknowledged comes again as it was: it must not get stuck, though no retry topic
// takes inner batches.
func TestPopOfInnerBatch(t *testing.T) {
	b := startBroker(t, "reviveInterval=100\n")
	b.createBatchTopic("B", 1)
	data := append(batchEntry(t, "x", ""), batchEntry(t, "y", "")...)
	require.Equal(t, codec.RespSuccess, b.do(batchRequest("B", "UNIQ_KEY\x01U1", data)).Code)
	b.mustSend("B", 0, "", "single")
	b.waitQueue("B", 0, 3)
	first := b.popN("B", 32, time.Second)
	require.Len(t, first, 2)
	require.Equal(t, string(data), first[0].body)
	require.EqualValues(t, 2, first[1].receipt.Offset)
	b.mustAck(first[1])
	var again []popped
	b.eventually(func() bool {
		again = b.popN("B", 32, time.Minute)
		return len(again) > 0
	})
	require.Len(t, again, 1)
	require.Equal(t, string(data), again[0].body)
	require.EqualValues(t, 1, again[0].reconsume)
	b.mustAck(again[0])
}
