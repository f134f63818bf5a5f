package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
)

// resetOffset asks for a reset as tools do.
func (p *peer) resetOffset(alter func(h *codec.ResetOffsetRequestHeader)) *codec.Command {
	p.t.Helper()
	h := codec.ResetOffsetRequestHeader{Topic: "T", Group: "G", QueueID: -1, Timestamp: -1, IsForce: true}
	alter(&h)
	return p.call(codec.ReqInvokeBrokerToResetOffset, &h, nil)
}

// The broker resets offsets itself: the group's next pull is told the new offset, old commits do not undo it.
func TestResetInTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		b.createTopic("T", 2, 6)
		b.createGroup("G", nil)
		begin := time.Now()
		for i := range 10 {
			b.mustSend("T", 0, "", fmt.Sprint(i))
			b.mustSend("T", 1, "", fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		b.waitQueue("T", 0, 10)
		b.waitQueue("T", 1, 10)
		b.commit("G", "T", 0, 10)
		f := func(want [2]int64, alter func(h *codec.ResetOffsetRequestHeader)) {
			t.Helper()
			answer := b.resetOffset(alter)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			var table body.ResetOffsetBody
			require.NoError(t, body.Decode(answer.Body, &table))
			for q, at := range want {
				if at < 0 {
					continue
				}
				require.EqualValues(t, at, table.OffsetTable[b.queue("T", int32(q))])
				answer = b.call(codec.ReqUpdateConsumerOffset,
					&codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "G", Topic: "T", QueueID: int32(q),
						CommitOffset: 9}, nil)
				require.Equal(t, "Offset has been previously reset", answer.Remark, "an old commit changes nothing")
				answer, h := b.pulled(b.do(pullWith("G", "T", q, 10, func(h *codec.PullMessageHeader) {
					h.SysFlag |= codec.PullFlagCommitOffset
					h.CommitOffset = 10
				})))
				require.Equal(t, codec.RespPullOffsetMoved, answer.Code)
				require.EqualValues(t, at, h.NextBeginOffset)
				got, ok := b.offsets.Query("G", "T", int32(q))
				require.True(t, ok)
				require.EqualValues(t, at, got)
				answer, _ = b.pulled(b.do(pullRequest("G", "T", q, codec.QueueOffset(at), 0)))
				require.NotEqual(t, codec.RespPullOffsetMoved, answer.Code, "told once")
			}
		}
		f([2]int64{10, 10}, func(h *codec.ResetOffsetRequestHeader) {})
		f([2]int64{0, 0}, func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = 0 })
		f([2]int64{4, 4}, func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = begin.UnixMilli() + 4000 })
		f([2]int64{-1, 3}, func(h *codec.ResetOffsetRequestHeader) {
			h.QueueID, h.Offset = 1, new(codec.QueueOffset)
			*h.Offset = 3
		})
		refused := func(code int, alter func(h *codec.ResetOffsetRequestHeader)) {
			t.Helper()
			answer := b.resetOffset(alter)
			require.Equal(t, code, answer.Code, answer.Remark)
			require.NotEmpty(t, answer.Remark)
		}
		refused(codec.RespTopicNotExist, func(h *codec.ResetOffsetRequestHeader) { h.Topic = "no" })
		refused(codec.RespSubscriptionGroupNotExist, func(h *codec.ResetOffsetRequestHeader) { h.Group = "no" })
		refused(codec.RespSystemError, func(h *codec.ResetOffsetRequestHeader) { h.QueueID = 2 })
		refused(codec.RespSystemError, func(h *codec.ResetOffsetRequestHeader) {
			h.QueueID, h.Offset = 1, new(codec.QueueOffset)
			*h.Offset = 12
		})

		// A parked pull is told at once.
		parked := b.begin(pullRequest("G", "T", 0, 10, maxSuspend))
		synctest.Wait()
		require.Equal(t, 1, b.Parked())
		b.resetOffset(func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = 0 })
		answer, h := b.pulled(await(t, parked))
		require.Equal(t, codec.RespPullOffsetMoved, answer.Code)
		require.Zero(t, h.NextBeginOffset)

		// It survives a restart as the group's offset.
		b.resetOffset(func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = begin.UnixMilli() + 7000 })
		b = b.restart()
		got, _ := b.offsets.Query("G", "T", 1)
		require.EqualValues(t, 7, got)
	})
}

// With useServerSideResetOffset=false the members are told, and the offsets move only backwards without
// force.
func TestResetInTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "useServerSideResetOffset=false\n")
		b.createTopic("T", 1, 6)
		b.createGroup("G", nil)
		for range 10 {
			b.mustSend("T", 0, "", "m")
			time.Sleep(time.Second)
		}
		b.waitQueue("T", 0, 10)
		answer := b.resetOffset(func(h *codec.ResetOffsetRequestHeader) {})
		require.Equal(t, codec.RespSystemError, answer.Code, "no offset yet")
		b.commit("G", "T", 0, 5)
		answer = b.resetOffset(func(h *codec.ResetOffsetRequestHeader) {})
		require.Equal(t, codec.RespConsumerNotOnline, answer.Code)

		c := b.dial()
		c.beat("c1", consumer(t, "G", 1, "T *"))
		synctest.Wait()
		c.notices()
		f := func(want int64, language codec.LanguageCode, alter func(h *codec.ResetOffsetRequestHeader)) []byte {
			t.Helper()
			h := codec.ResetOffsetRequestHeader{Topic: "T", Group: "G", QueueID: -1, Timestamp: -1, IsForce: true}
			alter(&h)
			req := request(codec.ReqInvokeBrokerToResetOffset, &h, nil)
			req.Language = language
			answer := b.do(req)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			var table body.ResetOffsetBody
			require.NoError(t, body.Decode(answer.Body, &table))
			require.EqualValues(t, want, table.OffsetTable[b.queue("T", 0)])
			synctest.Wait()
			told := <-c.requests
			require.Equal(t, codec.ReqResetConsumerClientOffset, told.Code)
			require.Equal(t, []string{"T", "G", "true"}, []string{told.Get("topic"), told.Get("group"),
				fmt.Sprint(told.IsOneway())})
			return told.Body
		}
		data := f(10, codec.LanguageJava, func(h *codec.ResetOffsetRequestHeader) {})
		var table body.ResetOffsetBody
		require.NoError(t, body.Decode(data, &table))
		require.EqualValues(t, 10, table.OffsetTable[b.queue("T", 0)])
		f(5, codec.LanguageJava, func(h *codec.ResetOffsetRequestHeader) { h.IsForce = false })
		data = f(0, codec.LanguageCPP, func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = 0 })
		var list body.ResetOffsetBodyForC
		require.NoError(t, body.Decode(data, &list))
		require.Len(t, list.OffsetTable, 1)
		require.Equal(t, []any{"broker-a", int32(0), "T"}, []any{list.OffsetTable[0].BrokerName,
			list.OffsetTable[0].QueueID, list.OffsetTable[0].Topic})
	})
}

// Queries by key, unique key, message id and time.
func TestQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		begin := time.Now().UnixMilli()
		var ids []string
		for i := range 40 {
			answer := b.mustSend("T", 0, fmt.Sprintf("KEYS\x01all k%d\x02UNIQ_KEY\x01u%d", i%10, i), fmt.Sprint(i))
			ids = append(ids, answer.Get("msgId"))
			time.Sleep(time.Second)
		}
		b.waitQueue("T", 0, 40)
		b.eventually(func() bool { return b.store.DispatchBehindBytes() == 0 })
		query := func(key string, maxNum int32, from, to int64, unique bool) []string {
			t.Helper()
			req := request(codec.ReqQueryMessage, &codec.QueryMessageRequestHeader{Topic: "T", Key: key,
				MaxNum: maxNum, BeginTimestamp: from, EndTimestamp: to}, nil)
			if unique {
				req.Set(codec.ExtUniqueKeyQuery, "true")
			}
			answer := b.do(req)
			if answer.Code != codec.RespSuccess {
				require.Equal(t, codec.RespQueryNotFound, answer.Code)
				require.Equal(t, "can not find message, maybe time range not correct", answer.Remark)
				require.Empty(t, answer.Body)
				return nil
			}
			require.NotEmpty(t, answer.Get("indexLastUpdateTimestamp"))
			require.NotEmpty(t, answer.Get("indexLastUpdatePhyoffset"))
			return bodies(t, answer)
		}
		const end = int64(1) << 62
		require.ElementsMatch(t, []string{"3", "13", "23", "33"}, query("k3", 32, 0, end, false))
		require.Len(t, query("all", 32, 0, end, false), 32)
		require.Len(t, query("all", 5, 0, end, false), 5)
		require.Len(t, query("all", 1<<31-1, 0, end, false), 40, "bounded by maxMsgsNumBatch, 64")
		require.Nil(t, query("none", 32, 0, end, false))
		require.Nil(t, query("k3", 32, end-1, end, false))
		require.Nil(t, query("k3", 0, 0, end, false))
		require.Nil(t, query("k3", -1, 0, end, false))
		require.Len(t, query("k3", 32, begin+12000, begin+24000, false), 2)
		require.Equal(t, []string{"17"}, query("u17", 0, 0, end, true))

		for i, id := range ids[:3] {
			_, at, err := codec.ParseOffsetMsgID(id)
			require.NoError(t, err)
			answer := b.call(codec.ReqViewMessageByID, &codec.ViewMessageRequestHeader{Offset: at}, nil)
			require.Equal(t, []string{fmt.Sprint(i)}, bodies(t, answer))
		}
		for _, at := range []codec.PhyOffset{-1, 1, 1 << 50} {
			answer := b.call(codec.ReqViewMessageByID, &codec.ViewMessageRequestHeader{Offset: at}, nil)
			require.Equal(t, codec.RespSystemError, answer.Code)
			require.Equal(t, fmt.Sprintf("can not find message by the offset, %d", at), answer.Remark)
		}

		search := func(topicName string, queueID int32, at int64, boundary string) string {
			t.Helper()
			return b.mustCall(codec.ReqSearchOffsetByTimestamp, &codec.SearchOffsetRequestHeader{Topic: topicName,
				QueueID: queueID, Timestamp: at, BoundaryType: boundary}, nil).Get("offset")
		}
		require.Equal(t, "5", search("T", 0, begin+5000, ""))
		require.Equal(t, "6", search("T", 0, begin+5500, "lower"))
		require.Equal(t, "5", search("T", 0, begin+5500, "UPPER"))
		require.Equal(t, "0", search("T", 0, 0, ""))
		require.Equal(t, "40", search("T", 0, end, ""))
		require.Equal(t, "39", search("T", 0, end, "upper"))
		require.Equal(t, "0", search("unknown", 0, begin, ""))
		earliest := func(queueID int32) string {
			return b.mustCall(codec.ReqGetEarliestMsgStoreTime, &codec.TopicQueueRequestHeader{Topic: "T",
				QueueID: queueID}, nil).Get("timestamp")
		}
		require.Equal(t, fmt.Sprint(begin), earliest(0))
		require.Equal(t, "-1", earliest(1))
		var table body.TopicStatsTable
		b.mustCall(codec.ReqGetTopicStatsInfo, &codec.TopicRequestHeader{Topic: "T"}, &table)
		require.Len(t, table.OffsetTable, 4)
		require.Equal(t, body.TopicOffset{MinOffset: 0, MaxOffset: 40, LastUpdateTimestamp: begin + 39000},
			*table.OffsetTable[b.queue("T", 0)])
		answer := b.call(codec.ReqGetTopicStatsInfo, &codec.TopicRequestHeader{Topic: "no"}, nil)
		require.Equal(t, codec.RespTopicNotExist, answer.Code)
	})
}

// Topics by tools: made, changed, shown, deleted with all that belongs to them.
func TestTopicCommands(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 4, 6)
	var c body.TopicConfig
	b.mustCall(codec.ReqGetTopicConfig, &codec.TopicRequestHeader{Topic: "T"}, &c)
	require.Equal(t, []int32{4, 4, 6}, []int32{c.ReadQueueNums, c.WriteQueueNums, c.Perm})
	b.createTopic("T", 8, 4)
	var all body.TopicConfigAndMappingSerializeWrapper
	b.mustCall(codec.ReqGetAllTopicConfig, nil, &all)
	require.EqualValues(t, 8, all.TopicConfigTable["T"].ReadQueueNums)
	require.NotNil(t, all.TopicConfigTable["TBW102"])
	list, err := body.Encode(&body.CreateTopicListRequestBody{TopicConfigList: []*body.TopicConfig{
		{TopicName: "L1", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: body.SingleTag},
		{TopicName: "L2", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 6, TopicFilterType: body.SingleTag}}})
	require.NoError(t, err)
	require.Equal(t, codec.RespSuccess, b.call(codec.ReqUpdateAndCreateTopicList, nil, list).Code)
	require.NotNil(t, b.topics.Get("L2"))

	f := func(code int, alter func(h *codec.CreateTopicRequestHeader)) {
		t.Helper()
		h := codec.CreateTopicRequestHeader{Topic: "N", DefaultTopic: "TBW102", ReadQueueNums: 4, WriteQueueNums: 4,
			Perm: 6, TopicFilterType: "SINGLE_TAG"}
		alter(&h)
		answer := b.call(codec.ReqUpdateAndCreateTopic, &h, nil)
		require.Equal(t, code, answer.Code, answer.Remark)
		require.NotEmpty(t, answer.Remark)
		require.Nil(t, b.topics.Get("N"))
	}
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.ReadQueueNums = 0 })
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.WriteQueueNums = -1 })
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.ReadQueueNums = 1 << 30 })
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.Perm = 99 })
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.TopicFilterType = "BAD" })
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.Attributes = "no.such=1" })
	f(codec.RespInvalidParameter, func(h *codec.CreateTopicRequestHeader) { h.Topic = "TBW102" })

	var system body.TopicList
	b.mustCall(codec.ReqGetSystemTopicListFromBroker, nil, &system)
	for _, name := range []string{"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
		"RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC",
		"OFFSET_MOVED_EVENT", "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"} {
		require.Contains(t, system.TopicList, name)
	}

	b.createTopic("T", 4, 6)
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	b.beat("c1", consumer(t, "G", 1, "T *"))
	b.commit("G", "T", 0, 1)
	parked := b.begin(pullRequest("G", "T", 1, 0, maxSuspend))
	b.eventually(func() bool { return b.Parked() == 1 })
	b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
	require.Equal(t, codec.RespTopicNotExist, await(t, parked).Code)
	require.Nil(t, b.topics.Get("T"))
	require.Empty(t, b.store.Queues("T"))
	_, found := b.offsets.Query("G", "T", 0)
	require.False(t, found)
	for name, code := range map[string]int{"T": codec.RespSuccess, "": codec.RespInvalidParameter,
		"SCHEDULE_TOPIC_XXXX": codec.RespInvalidParameter, "TBW102": codec.RespInvalidParameter} {
		answer := b.call(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: name}, nil)
		require.Equal(t, code, answer.Code, "%q: %s", name, answer.Remark)
	}
	answer := b.call(codec.ReqGetTopicConfig, &codec.TopicRequestHeader{Topic: "T"}, nil)
	require.Equal(t, codec.RespTopicNotExist, answer.Code)
}

// Groups by tools.
func TestGroupCommands(t *testing.T) {
	b := startBroker(t, "autoCreateSubscriptionGroup=false\n")
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	b.createGroup("G", func(g *body.SubscriptionGroupConfig) {
		g.WhichBrokerWhenConsumeSlowly, g.RetryMaxTimes = 3, 7
	})
	var g body.SubscriptionGroupConfig
	b.mustCall(codec.ReqGetSubscriptionGroupConfig, &codec.GroupRequestHeader{Group: "G"}, &g)
	require.EqualValues(t, 7, g.RetryMaxTimes)
	answer := b.call(codec.ReqGetSubscriptionGroupConfig, &codec.GroupRequestHeader{Group: "no"}, nil)
	require.Equal(t, codec.RespSubscriptionGroupNotExist, answer.Code)
	var all body.SubscriptionGroupWrapper
	b.mustCall(codec.ReqGetAllSubscriptionGroupConfig, nil, &all)
	require.NotNil(t, all.SubscriptionGroupTable["G"])

	pull := func() *codec.Command { return b.do(pullRequest("G", "T", 0, 0, 0)) }
	require.Equal(t, codec.RespSuccess, pull().Code)
	b.createGroup("G", func(g *body.SubscriptionGroupConfig) { g.ConsumeEnable = false })
	answer = pull()
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Equal(t, "subscription group no permission, G", answer.Remark)
	require.Equal(t, fmt.Sprint(codec.ForbiddenGroup), answer.Get("forbiddenType"))
	b.createGroup("G", nil)

	// Forbidden for one topic: seen by pulls that rely on the heartbeat, as in Java.
	b.beat("c1", consumer(t, "G", 1, "T *"))
	byHeartbeat := func() *codec.Command {
		return b.do(pullWith("G", "T", 0, 0, func(h *codec.PullMessageHeader) { h.SysFlag, h.SubVersion = 0, 1 }))
	}
	require.Equal(t, codec.RespSuccess, byHeartbeat().Code)
	no, yes := false, true
	var f body.GroupForbidden
	b.mustCall(codec.ReqUpdateAndGetGroupForbidden, &codec.UpdateGroupForbiddenRequestHeader{Group: "G",
		Topic: "T", Readable: &no}, &f)
	require.False(t, *f.Readable)
	answer = byHeartbeat()
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Equal(t, fmt.Sprint(codec.ForbiddenSubscription), answer.Get("forbiddenType"))
	b.mustCall(codec.ReqUpdateAndGetGroupForbidden, &codec.UpdateGroupForbiddenRequestHeader{Group: "G",
		Topic: "T", Readable: &yes}, &f)
	require.Equal(t, codec.RespSuccess, byHeartbeat().Code)

	// Broadcasting may be forbidden.
	b.createGroup("G", func(g *body.SubscriptionGroupConfig) { g.ConsumeBroadcastEnable = false })
	cd := consumer(t, "G", 2, "T *")
	cd.MessageModel = body.Broadcasting
	b.beat("c1", cd)
	answer = byHeartbeat()
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Equal(t, fmt.Sprint(codec.ForbiddenBroadcastDisable), answer.Get("forbiddenType"))

	b.commit("G", "T", 0, 1)
	b.mustCall(codec.ReqDeleteSubscriptionGroup, &codec.DeleteSubscriptionGroupRequestHeader{GroupName: "G"},
		nil)
	require.Nil(t, b.groups.Get("G"))
	_, found := b.offsets.Query("G", "T", 0)
	require.True(t, found, "offsets stay unless they are to go")
	require.Equal(t, codec.RespSubscriptionGroupNotExist, pull().Code)
	b.createGroup("G", nil)
	b.mustCall(codec.ReqDeleteSubscriptionGroup, &codec.DeleteSubscriptionGroupRequestHeader{GroupName: "G",
		CleanOffset: true}, nil)
	_, found = b.offsets.Query("G", "T", 0)
	require.False(t, found)
}

// How far groups are behind.
func TestConsumeStats(t *testing.T) {
	b := startBroker(t, "")
	for range 5 {
		b.mustSend("T", 0, "", "m")
		b.mustSend("U", 0, "", "m")
	}
	b.waitQueue("T", 0, 5)
	b.waitQueue("U", 0, 5)
	b.beat("c1", consumer(t, "G", 1, "T *", "U *"))
	b.commit("G", "T", 0, 3)
	b.commit("G", "U", 0, 5)
	o := b.lag("G", "T", 0)
	require.EqualValues(t, 2, o.lag)
	require.NotZero(t, o.LastTimestamp)
	require.Zero(t, b.lag("G", "U", 0).lag)
	stats := func(h codec.GetConsumeStatsRequestHeader) int {
		t.Helper()
		var s body.ConsumeStats
		b.mustCall(codec.ReqGetConsumeStats, &h, &s)
		return len(s.OffsetTable)
	}
	require.Equal(t, 8, stats(codec.GetConsumeStatsRequestHeader{ConsumerGroup: "G"}))
	require.Equal(t, 0, stats(codec.GetConsumeStatsRequestHeader{ConsumerGroup: "unknown"}))
	require.Equal(t, 0, stats(codec.GetConsumeStatsRequestHeader{ConsumerGroup: "G", Topic: "unknown"}))
	b.beat("c1", consumer(t, "G", 2, "T *"))
	require.Equal(t, 4, stats(codec.GetConsumeStatsRequestHeader{ConsumerGroup: "G"}),
		"U is not subscribed any more")
	var table body.ConsumerOffsetSerializeWrapper
	b.mustCall(codec.ReqGetAllConsumerOffset, nil, &table)
	require.EqualValues(t, 3, table.OffsetTable["T@G"][0])
}

// Tools see every setting, and no secret.
func TestGetBrokerConfig(t *testing.T) {
	b := startBroker(t, "brokerClusterName=C1\nnamesrvAddr=127.0.0.1:1\n"+
		"initAuthenticationUser={\"username\":\"u\",\"password\":\"hush\"}\n")
	answer := b.mustCall(codec.ReqGetBrokerConfig, nil, nil)
	f, err := config.Parse(string(answer.Body), "body")
	require.NoError(t, err)
	settings := f.Map()
	require.Equal(t, "broker-a", settings["brokerName"])
	require.Equal(t, "C1", settings["brokerClusterName"])
	require.Equal(t, "127.0.0.1:1", settings["namesrvAddr"])
	for _, key := range []string{"listenPort", "flushDiskType", "brokerRole", "filterServerNums", "messageDelayLevel"} {
		require.Contains(t, settings, key)
	}
	require.NotContains(t, string(answer.Body), "hush")
	var v body.DataVersion
	require.NoError(t, body.Decode([]byte(answer.Get("version")), &v))
	require.NotZero(t, v.Timestamp)
}
