package broker

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// offsetOfGroup asks as a client does; -1: none.
func (p *peer) offsetOfGroup(groupName, topicName string, queueID int32) int64 {
	p.t.Helper()
	set := false
	answer := p.call(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: groupName,
		Topic: topicName, QueueID: queueID, SetZeroIfNotFound: &set}, nil)
	if answer.Code == codec.RespQueryNotFound {
		return -1
	}
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
	var h codec.OffsetResponseHeader
	require.NoError(p.t, codec.DecodeHeader(answer, &h))
	return int64(h.Offset)
}

// CLONE_GROUP_OFFSET (314): a group gets the offsets of another one, of one topic or of all, over a kill.
func TestCloneGroupOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		for _, name := range []string{"T", "U", "V"} {
			b.createTopic(name, 2, 6)
		}
		for _, name := range []string{"from", "to"} {
			b.createGroup(name, nil)
		}
		b.commit("from", "T", 0, 7)
		b.commit("from", "U", 0, 3)
		b.commit("to", "T", 0, 1)
		b.commit("to", "T", 1, 9)
		clone := func(topicName, dest string, offline bool) *codec.Command {
			return b.call(codec.ReqCloneGroupOffset, &codec.CloneGroupOffsetRequestHeader{SrcGroup: "from", DestGroup: dest,
				Topic: topicName, Offline: offline}, nil)
		}
		offsets := func() (out []int64) {
			for _, name := range []string{"T", "U"} {
				out = append(out, b.offsetOfGroup("to", name, 0), b.offsetOfGroup("to", name, 1))
			}
			return out
		}
		require.Equal(t, codec.RespSuccess, clone("V", "to", true).Code, "nothing to clone")
		require.Equal(t, codec.RespSuccess, clone("unknown", "to", true).Code)
		require.Equal(t, []int64{1, 9, -1, -1}, offsets())
		require.Equal(t, codec.RespSuccess, clone("T", "to", true).Code)
		require.Equal(t, []int64{7, -1, -1, -1}, offsets(), "its own are gone")
		b = b.kill()
		require.Equal(t, []int64{7, -1, -1, -1}, offsets(), "success is on the disk")

		c := b.dial()
		c.beat("c1", consumer(t, "from", 1, "T *"))
		require.Equal(t, codec.RespSuccess, clone("", "to", false).Code)
		require.Equal(t, []int64{7, -1, -1, -1}, offsets(), "U is not subscribed any more")
		require.Equal(t, codec.RespSuccess, clone("", "to", true).Code)
		require.Equal(t, []int64{7, -1, 3, -1}, offsets())

		// A reset that waits is void.
		answer := b.resetOffset(func(h *codec.ResetOffsetRequestHeader) { h.Group, h.Timestamp = "to", 0 })
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, codec.RespSuccess, clone("T", "to", true).Code)
		require.False(t, b.offsets.HasReset("T", "to", 0))
		require.Equal(t, codec.RespInvalidParameter, clone("T", "a@b", true).Code, "would spoil the file's keys")
	})
}

// QUERY_CONSUME_TIME_SPAN (303): how old what waits is.
func TestConsumeTimeSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		b.createTopic("T", 2, 6)
		b.createGroup("G", nil)
		begin := time.Now().UnixMilli()
		for range 5 {
			b.mustSend("T", 0, "", "m")
			time.Sleep(10 * time.Second)
		}
		b.commit("G", "T", 0, 2)
		f := func(groupName string, consumed, delay int64) {
			t.Helper()
			var spans body.QueryConsumeTimeSpanBody
			b.mustCall(codec.ReqQueryConsumeTimeSpan, &codec.QueryConsumeTimeSpanRequestHeader{Topic: "T", Group: groupName},
				&spans)
			require.Len(t, spans.ConsumeTimeSpanSet, 2)
			q := spans.ConsumeTimeSpanSet[0]
			require.Equal(t, b.queue("T", 0), *q.MessageQueue)
			require.Equal(t, []int64{0, 40_000, consumed, delay}, []int64{q.MinTimeStamp - begin, q.MaxTimeStamp - begin,
				q.ConsumeTimeStamp - begin, q.DelayTime})
			empty := spans.ConsumeTimeSpanSet[1]
			require.Equal(t, []int64{-1, -1, -1, 0}, []int64{empty.MinTimeStamp, empty.MaxTimeStamp,
				empty.ConsumeTimeStamp, empty.DelayTime})
		}
		f("G", 10_000, 30_000)
		f("new", 0, 50_000)
		b.commit("G", "T", 0, 5)
		f("G", 40_000, 0)
		answer := b.call(codec.ReqQueryConsumeTimeSpan, &codec.QueryConsumeTimeSpanRequestHeader{Topic: "U", Group: "G"}, nil)
		require.Equal(t, codec.RespTopicNotExist, answer.Code)
		require.Equal(t, "topic[U] not exist", answer.Remark)
	})
}

// QUERY_CORRECTION_OFFSET (308): the smallest offset of all groups; no question deletes offsets.
func TestCorrectionOffsets(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 3, 6)
	for i, name := range []string{"a", "b", "c"} {
		b.createGroup(name, nil)
		b.commit(name, "T", 0, codec.QueueOffset(10*(i+1)))
	}
	b.commit("b", "T", 1, 5)
	f := func(filterGroups, compare string, want map[int32]codec.QueueOffset) {
		t.Helper()
		var got body.QueryCorrectionOffsetBody
		b.mustCall(codec.ReqQueryCorrectionOffset, &codec.QueryCorrectionOffsetRequestHeader{Topic: "T",
			FilterGroups: filterGroups, CompareGroup: compare}, &got)
		require.Equal(t, want, got.CorrectionOffsets)
	}
	f("", "c", map[int32]codec.QueueOffset{0: 10, 1: 5})
	f("a", "c", map[int32]codec.QueueOffset{0: 20, 1: 5})
	f("a,b", "b", map[int32]codec.QueueOffset{0: math.MaxInt64}) // c is at 30, b behind it
	f("a,b,c", "a", map[int32]codec.QueueOffset{})
	f("", "unknown", map[int32]codec.QueueOffset{0: 10, 1: 5})
	require.EqualValues(t, 10, b.offsetOfGroup("a", "T", 0))
}

// GET_BROKER_CONSUME_STATS (317): all groups at once.
func TestBrokerConsumeStats(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 2, 6)
	b.createTopic("O", 1, 6)
	require.NoError(t, b.topics.SetOrder("O"))
	for i := range 10 {
		b.mustSend("T", i%2, "", "m")
		b.mustSend("O", 0, "", "m")
	}
	b.waitQueue("T", 0, 5)
	b.waitQueue("T", 1, 5)
	b.waitQueue("O", 0, 10)
	b.createGroup("G", nil)
	b.commit("G", "T", 0, 2)
	b.commit("G", "O", 0, 12) // beyond the end
	b.do(pullRequest("G", "T", 0, 2, 0))
	stats := func(ordered bool) (body.ConsumeStatsList, []*body.ConsumeStats) {
		var list body.ConsumeStatsList
		b.mustCall(codec.ReqGetBrokerConsumeStats, &codec.GetBrokerConsumeStatsRequestHeader{IsOrder: ordered}, &list)
		require.Equal(t, b.AdvertisedAddr(), list.BrokerAddr)
		require.Len(t, list.ConsumeStatsList, len(b.groups.All()), "one map a group, also without offsets")
		for _, m := range list.ConsumeStatsList {
			if of, ok := m["G"]; ok {
				return list, of
			}
		}
		return list, nil
	}
	list, of := stats(false)
	require.Len(t, of, 2)
	require.EqualValues(t, 3+5, list.TotalDiff, "never negative")
	require.EqualValues(t, 3, list.TotalInflightDiff, "pulled and not committed")
	o := of[1].OffsetTable[b.queue("T", 0)]
	require.Equal(t, []codec.QueueOffset{5, 2, 5}, []codec.QueueOffset{o.BrokerOffset, o.ConsumerOffset, o.PullOffset})
	require.Positive(t, o.LastTimestamp)
	list, of = stats(true)
	require.Len(t, of, 1)
	require.Zero(t, list.TotalDiff)
	c := b.dial()
	c.beat("c1", consumer(t, "G", 1, "O *"))
	_, of = stats(false)
	require.Len(t, of, 1, "T is not subscribed any more")
}

// QUERY_CONSUME_QUEUE (321): the entries of a queue.
func TestQueryConsumeQueue(t *testing.T) {
	b := startBroker(t, "enablePropertyFilter=true\n")
	for i := range 1500 { // over the end of a file
		b.mustSend("T", 0, "TAGS\x01A", fmt.Sprint(i))
	}
	b.waitQueue("T", 0, 1500)
	query := func(h codec.QueryConsumeQueueRequestHeader) (*codec.Command, body.QueryConsumeQueueResponseBody) {
		answer := b.call(codec.ReqQueryConsumeQueue, &h, nil)
		var got body.QueryConsumeQueueResponseBody
		if answer.Code == codec.RespSuccess {
			require.NoError(t, body.Decode(answer.Body, &got))
			require.EqualValues(t, 1500, got.MaxQueueIndex)
			require.Zero(t, got.MinQueueIndex)
		}
		return answer, got
	}
	_, got := query(codec.QueryConsumeQueueRequestHeader{Topic: "T", Index: 990, Count: 20})
	require.Len(t, got.QueueData, 20)
	e := b.store.QueueEntries("T", 0, 1005, 1)[0]
	require.Equal(t, body.ConsumeQueueData{PhyOffset: e.PhyOffset, PhySize: e.Size, TagsCode: e.TagsCode},
		*got.QueueData[15])
	require.Nil(t, got.SubscriptionData)
	require.Empty(t, got.FilterData)
	_, got = query(codec.QueryConsumeQueueRequestHeader{Topic: "T", Index: 1495, Count: 100})
	require.Len(t, got.QueueData, 5)
	for _, h := range []codec.QueryConsumeQueueRequestHeader{{Index: 1500, Count: 1}, {Index: -5, Count: 10},
		{Index: math.MaxInt64, Count: math.MaxInt32}, {Count: -1}} {
		h.Topic = "T"
		answer, got := query(h)
		require.Equal(t, fmt.Sprintf("Index %d of 0@T is not exist!", h.Index), answer.Remark)
		require.Empty(t, got.QueueData)
	}
	answer, _ := query(codec.QueryConsumeQueueRequestHeader{Topic: "T", QueueID: 1, Count: 1})
	require.Equal(t, []any{codec.RespSystemError, "1@T is not exist!"}, []any{answer.Code, answer.Remark})

	_, got = query(codec.QueryConsumeQueueRequestHeader{Topic: "T", Count: 1, ConsumerGroup: "G"})
	require.Equal(t, "G@T is not online!", got.FilterData)
	c := b.dial()
	c.beat("c1", consumer(t, "G", 1, "T a > 5"))
	_, got = query(codec.QueryConsumeQueueRequestHeader{Topic: "T", Count: 1, ConsumerGroup: "G"})
	require.Equal(t, "a > 5", got.SubscriptionData.SubString)
	require.Contains(t, got.FilterData, "a > 5")
	c.beat("c1", consumer(t, "G", 2, "T A"))
	_, got = query(codec.QueryConsumeQueueRequestHeader{Topic: "T", Count: 1, ConsumerGroup: "G"})
	require.Equal(t, "A", got.SubscriptionData.SubString)
}

// QUERY_TOPICS_BY_CONSUMER (343) and QUERY_SUBSCRIPTION_BY_CONSUMER (345).
func TestTopicsAndSubscriptionOfGroup(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 1, 6)
	b.createTopic("U", 1, 6)
	b.createGroup("G", nil)
	b.commit("G", "U", 0, 1)
	b.commit("G", "T", 0, 1)
	var topics body.TopicList
	b.mustCall(codec.ReqQueryTopicsByConsumer, &codec.GroupRequestHeader{Group: "G"}, &topics)
	require.Equal(t, body.TopicList{BrokerAddr: b.AdvertisedAddr(), TopicList: []string{"T", "U"}}, topics)
	topics = body.TopicList{}
	b.mustCall(codec.ReqQueryTopicsByConsumer, &codec.GroupRequestHeader{Group: "unknown"}, &topics)
	require.Empty(t, topics.TopicList)

	subscription := func(topicName string) *body.SubscriptionData {
		var got body.QuerySubscriptionResponseBody
		b.mustCall(codec.ReqQuerySubscriptionByConsumer, &codec.QuerySubscriptionByConsumerRequestHeader{Group: "G",
			Topic: topicName}, &got)
		require.Equal(t, []string{"G", topicName}, []string{got.Group, got.Topic})
		return got.SubscriptionData
	}
	require.Nil(t, subscription("T"))
	b.dial().beat("c1", consumer(t, "G", 1, "T A || B"))
	require.Equal(t, "A || B", subscription("T").SubString)
	require.Nil(t, subscription("U"))
}

// INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): the members are asked (221), all at once.
func TestConsumerStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		b.createTopic("T", 2, 6)
		ask := func(client string) *codec.Command {
			return request(codec.ReqInvokeBrokerToGetConsumerStatus, &codec.GetConsumerStatusRequestHeader{Topic: "T",
				Group: "G", ClientAddr: client}, nil)
		}
		answer := b.do(ask(""))
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, "No Any Consumer online in the consumer group: [G]", answer.Remark)

		at := map[body.MessageQueue]codec.QueueOffset{b.queue("T", 0): 5, b.queue("T", 1): 6}
		member := func(id string, serve func(req *codec.Command) *codec.Command) *peer {
			c := b.dial()
			c.serve = serve
			c.beat(id, consumer(t, "G", 1, "T *"))
			return c
		}
		good := func(req *codec.Command) *codec.Command {
			if req.Code != codec.ReqGetConsumerStatusFromClient {
				return nil
			}
			require.Equal(t, []string{"T", "G"}, []string{req.Get("topic"), req.Get("group")})
			out := codec.NewResponse(req, codec.RespSuccess, "")
			out.Body, _ = body.Encode(&body.GetConsumerStatusBody{MessageQueueTable: at})
			return out
		}
		member("c1", good)
		member("c2", good)
		member("c3", func(req *codec.Command) *codec.Command { return codec.NewResponse(req, codec.RespSystemError, "no") })
		member("c4", nil) // never answers
		begin := time.Now()
		var table body.GetConsumerStatusBody
		answer = await(t, b.begin(ask("")))
		require.Equal(t, codec.RespSuccess, answer.Code)
		require.NoError(t, body.Decode(answer.Body, &table))
		require.Equal(t, map[string]map[body.MessageQueue]codec.QueueOffset{"c1": at, "c2": at}, table.ConsumerTable)
		require.Equal(t, statusTimeout, time.Since(begin).Round(time.Second))

		begin = time.Now()
		table = body.GetConsumerStatusBody{}
		require.NoError(t, body.Decode(b.do(ask("c2")).Body, &table))
		require.Len(t, table.ConsumerTable, 1)
		require.Zero(t, time.Since(begin))
		table = body.GetConsumerStatusBody{}
		require.NoError(t, body.Decode(b.do(ask("unknown")).Body, &table))
		require.Empty(t, table.ConsumerTable)
		hb := heartbeat("c5", consumer(t, "G", 1, "T *"))
		data, err := body.Encode(hb)
		require.NoError(t, err)
		old := request(codec.ReqHeartBeat, nil, data)
		old.Version = codec.Version307Snapshot - 1
		b.dial().do(old)
		answer = b.do(ask(""))
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "the client does not support this feature. version=")
	})
}
