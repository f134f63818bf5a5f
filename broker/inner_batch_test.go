package broker

import (
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

func (p *peer) createBatchTopic(name string, queues int32) {
	p.t.Helper()
	p.mustCall(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: name,
		DefaultTopic: codec.AutoCreateTopicKey, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6,
		TopicFilterType: "SINGLE_TAG", Attributes: "+queue.type=BatchCQ"}, nil)
}

// unwrap takes a pull answer apart as a 5.x client does: "offset body" of every message.
func unwrap(t testing.TB, answer *codec.Command) (out []string) {
	t.Helper()
	for _, rec := range records(t, answer.Body) {
		if rec.SysFlag&codec.SysFlagInnerBatch == 0 || rec.SysFlag&codec.SysFlagNeedUnwrap == 0 {
			out = append(out, fmt.Sprint(rec.QueueOffset, " ", string(rec.Body)))
			continue
		}
		require.NoError(t, codec.EachBatchEntry(rec.Body, func(i int, e codec.BatchEntry) error {
			out = append(out, fmt.Sprint(int(rec.QueueOffset)+i, " ", string(e.Body)))
			return nil
		}))
	}
	return out
}

// A batch with an id becomes one record in a topic with queue.type=BatchCQ, without one a record for each message; single
// messages and delayed ones are records of their own (Java SendMessageProcessor.sendBatchMessage).
func TestInnerBatch(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), conf: "messageDelayLevel=1s 5s\n"})
	b.createBatchTopic("B", 2)
	entries := func(bodies ...string) (data []byte) {
		for _, s := range bodies {
			data = append(data, batchEntry(t, s, "TAGS\x01"+s[:1])...)
		}
		return data
	}
	f := func(req *codec.Command, msgIDs int, offset, batchID string) *codec.Command {
		t.Helper()
		answer := b.do(req)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, offset, answer.Get("queueOffset"))
		if batchID == "made" {
			batchID = answer.Get("transactionId")
			require.Len(t, batchID, 32)
		}
		require.Equal(t, batchID, answer.Get("batchUniqId"))
		require.Len(t, answer.Get("msgId"), 33*msgIDs-1)
		return answer
	}
	f(batchRequest("B", "UNIQ_KEY\x01U1\x02KEYS\x01k1", entries("a1", "a2", "a3")), 1, "0", "U1")
	f(sendRequest("B", 0, "", []byte("single")), 1, "3", "")
	f(batchRequest("B", "", entries("b1", "b2")), 2, "4", "") // of an older client
	f(batchRequest("B", "UNIQ_KEY\x01U2\x02TAGS\x01x\x02INNER_NUM\x0199", entries("c1", "c2")), 1, "6", "U2")
	wrapped := sendWith("B", entries("d1", "d2"), func(h *codec.SendMessageHeader) { h.SysFlag = codec.SysFlagInnerBatch })
	f(wrapped, 1, "8", "made")
	b.mustSend("B", 0, "DELAY\x011", "late")
	b.waitQueue("B", 0, 11)

	want := []string{"0 a1", "1 a2", "2 a3", "3 single", "4 b1", "5 b2", "6 c1", "7 c2", "8 d1", "9 d2", "10 late"}
	check := func() {
		t.Helper()
		answer, h := b.pull("B", 0, 0)
		require.Equal(t, want, unwrap(t, answer))
		require.EqualValues(t, 11, h.NextBeginOffset)
		answer, _ = b.pull("B", 0, 1) // in the middle of a batch: the whole batch
		require.Equal(t, want, unwrap(t, answer))
		answer, _ = b.pull("B", 0, 10)
		require.Equal(t, want[10:], unwrap(t, answer))
	}
	check()
	rec := b.all("B", 0)[0]
	require.Equal(t, "3", prop(t, rec, codec.PropInnerNum))
	require.Equal(t, "0", prop(t, rec, codec.PropInnerBase))
	require.Equal(t, "DefaultCluster", prop(t, rec, codec.PropCluster))
	require.EqualValues(t, codec.SysFlagInnerBatch|codec.SysFlagNeedUnwrap, rec.SysFlag)
	require.Equal(t, "2", prop(t, b.all("B", 0)[6], codec.PropInnerNum))
	b = b.restart()
	check()
	b = b.kill()
	check()

	names, err := b.s.fs.List(path.Join(b.s.dir, "batchconsumequeue"))
	require.NoError(t, err)
	require.Equal(t, []string{"B"}, names)
	names, err = b.s.fs.List(path.Join(b.s.dir, "consumequeue"))
	require.NoError(t, err)
	require.NotContains(t, names, "B")
}

// Case B08: a batch with a delay inside is refused as a whole, also as an inner batch; so are others that cannot be.
func TestInnerBatchRefused(t *testing.T) {
	b := startBroker(t, "")
	b.createBatchTopic("B", 1)
	b.createTopic("T", 1, 6)
	f := func(remark string, req *codec.Command) {
		t.Helper()
		answer := b.do(req)
		require.Equal(t, codec.RespMessageIllegal, answer.Code, answer.Remark)
		require.Contains(t, answer.Remark, remark)
	}
	const id = "UNIQ_KEY\x01U"
	two := append(batchEntry(t, "m", ""), batchEntry(t, "m", "DELAY\x013")...)
	f("entry 1: a message of a batch can be neither delayed", batchRequest("B", id, two))
	f("neither delayed", batchRequest("B", id+"\x02DELAY\x013", batchEntry(t, "m", "")))
	f("neither delayed", batchRequest("B", id, batchEntry(t, "m", "TIMER_DELAY_SEC\x015")))
	f("neither delayed", batchRequest("B", id, batchEntry(t, "m", "TRAN_MSG\x01true")))
	f("", batchRequest("B", id, []byte("rubbish")))
	inner := func(topicName string, data []byte) *codec.Command {
		return sendWith(topicName, data, func(h *codec.SendMessageHeader) { h.SysFlag = codec.SysFlagInnerBatch })
	}
	f("", inner("B", []byte("rubbish")))
	f("queue type of topic T is not BatchCQ", inner("T", batchEntry(t, "m", "")))
	f("INNER_NUM", sendRequest("B", 0, "INNER_NUM\x015", []byte("m")))
	var many []byte
	for range 32768 {
		many = append(many, batchEntry(t, "m", "")...)
	}
	f("at most 32767", batchRequest("B", id, many))
	require.Zero(t, b.store.MaxOffset("B", 0))
}

// A consumer that waits with a tag gets an inner batch without a tag of its own that has one of its messages, and the
// group's retries of single messages work (a batch cannot be given back, as in Java: clients send the message then).
func TestInnerBatchConsumers(t *testing.T) {
	b := startBroker(t, "")
	b.createBatchTopic("B", 1)
	wait := func(at codec.QueueOffset) <-chan *codec.Command {
		waiting := b.begin(pullWith("g", "B", 0, at, func(h *codec.PullMessageHeader) {
			h.Subscription = []byte("b")
			h.SysFlag |= codec.PullFlagSuspend
			h.SuspendTimeoutMillis = time.Minute.Milliseconds()
		}))
		b.eventually(func() bool { return b.Parked() == 1 })
		return waiting
	}
	waiting := wait(0)
	data := append(batchEntry(t, "x", "TAGS\x01a"), batchEntry(t, "y", "TAGS\x01c")...)
	require.Equal(t, codec.RespSuccess, b.do(batchRequest("B", "UNIQ_KEY\x01U1", data)).Code)
	answer, h := b.pulled(await(t, waiting)) // nothing for it
	require.Equal(t, codec.RespPullRetryImmediately, answer.Code)
	require.EqualValues(t, 2, h.NextBeginOffset)
	waiting = wait(2)
	data = append(batchEntry(t, "x", "TAGS\x01a"), batchEntry(t, "y", "TAGS\x01b")...)
	require.Equal(t, codec.RespSuccess, b.do(batchRequest("B", "UNIQ_KEY\x01U2", data)).Code)
	answer = await(t, waiting)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.Equal(t, []string{"2 x", "3 y"}, unwrap(t, answer))

	recs := records(t, answer.Body)
	back := b.call(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Offset: recs[0].PhyOffset,
		Group: "g", DelayLevel: 1}, nil)
	require.Equal(t, codec.RespSystemError, back.Code)
	require.Contains(t, back.Remark, "MESSAGE_ILLEGAL")
	b.mustSend("B", 0, "", "single")
	b.waitQueue("B", 0, 5)
	answer, _ = b.pull("B", 0, 4)
	rec := records(t, answer.Body)[0]
	back = b.call(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Offset: rec.PhyOffset, Group: "g",
		DelayLevel: 1}, nil)
	require.Equal(t, codec.RespSuccess, back.Code, back.Remark)
	b.waitQueue(codec.RetryTopic("g"), 0, 1)
	found := b.mustCall(codec.ReqSearchOffsetByTimestamp, &codec.SearchOffsetRequestHeader{Topic: "B", QueueID: 0,
		Timestamp: recs[0].StoreTimestamp}, nil)
	require.Contains(t, []string{"0", "2"}, found.Get("offset")) // both batches may be of one millisecond
}
