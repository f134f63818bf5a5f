package broker

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// bodyStats is how far a group is behind in a queue.
type bodyStats struct {
	body.OffsetWrapper
	lag int64
}

func (b *testBroker) lag(groupName, topicName string, queueID int32) *bodyStats {
	b.t.Helper()
	var stats body.ConsumeStats
	b.mustCall(codec.ReqGetConsumeStats, &codec.GetConsumeStatsRequestHeader{ConsumerGroup: groupName,
		Topic: topicName}, &stats)
	o := stats.OffsetTable[b.queue(topicName, queueID)]
	require.NotNil(b.t, o)
	return &bodyStats{*o, int64(o.BrokerOffset - o.ConsumerOffset)}
}

// stat asks for a counter; nil if there is none.
func (b *testBroker) stat(name, key string) *body.BrokerStatsData {
	b.t.Helper()
	answer := b.call(codec.ReqViewBrokerStatsData, &codec.ViewBrokerStatsDataRequestHeader{StatsName: name,
		StatsKey: key}, nil)
	if answer.Code != codec.RespSuccess {
		require.Equal(b.t, codec.RespSystemError, answer.Code)
		require.Equal(b.t, fmt.Sprintf("The stats <%s> <%s> not exist", name, key), answer.Remark)
		return nil
	}
	var data body.BrokerStatsData
	require.NoError(b.t, body.Decode(answer.Body, &data))
	return &data
}

// Case B38: counters by name; delayed messages count; what is deleted is gone; totals survive nothing but
// stay sane.
func TestCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: "autoDeleteUnusedStats=true\n" +
			"serverChannelMaxIdleTimeSeconds=100000\n"})
		b.dial().beat("c1", consumer(t, "G", 1, "T *")) // it will fall silent
		for i := range 60 {
			b.mustSend("T", i%4, "", "plain")
		}
		for i := range 30 {
			b.mustSend("T", i%4, "DELAY\x011", "late")
		}
		for q := range 4 {
			b.waitQueue("T", q, 15)
		}
		answer := b.do(pullWith("G", "T", 0, 0, func(h *codec.PullMessageHeader) { h.MaxMsgNums = 10 }))
		require.Len(t, bodies(t, answer), 10)
		time.Sleep(75 * time.Second)

		put := b.stat("TOPIC_PUT_NUMS", "T")
		require.NotNil(t, put)
		require.EqualValues(t, 90, put.StatsHour.Sum)
		require.NotNil(t, b.stat("TOPIC_PUT_SIZE", "T"))
		require.NotNil(t, b.stat("BROKER_PUT_NUMS", "DefaultCluster"))
		require.Nil(t, b.stat("BROKER_PUT_NUMS", "broker-a"))
		get := b.stat("GROUP_GET_NUMS", "T@G")
		require.NotNil(t, get)
		require.EqualValues(t, 10, get.StatsHour.Sum)
		require.EqualValues(t, 10, b.stat("BROKER_GET_NUMS", "DefaultCluster").StatsHour.Sum)
		require.Nil(t, b.stat("NO_SUCH_STAT", "T"))
		require.Nil(t, b.stat("TOPIC_PUT_NUMS", "unknown"))
		require.Nil(t, b.stat("GROUP_GET_NUMS", "unknown@G"))

		for range 60 { // a minute at a steady rate
			b.mustSend("T", 0, "", "steady")
			time.Sleep(time.Second)
		}
		put = b.stat("TOPIC_PUT_NUMS", "T")
		require.InEpsilon(t, float64(put.StatsMinute.Sum)/60, put.StatsMinute.TPS, 0.1)
		require.InDelta(t, 60, put.StatsMinute.Sum, 12)

		info := b.RuntimeInfo()
		for _, key := range []string{"putTps", "getTotalTps", "getFoundTps", "getMissTps", "getTransferredTps",
			"getTransferedTps", "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgGetTotalTodayNow", "dispatchBehindBytes",
			"commitLogDiskRatio", "putMessageDistributeTime", "sendThreadPoolQueueSize", "brokerVersionDesc", "runtime",
			"scheduleMessageOffset_1", "earliestMessageTimeStamp", "pageCacheLockTimeMills"} {
			require.Contains(t, info, key, "%v", maps.Keys(info))
		}
		require.Equal(t, "0", info["dispatchBehindBytes"])
		var table body.KVTable
		b.mustCall(codec.ReqGetBrokerRuntimeInfo, nil, &table)
		require.Equal(t, info["msgPutTotalTodayNow"], table.Table["msgPutTotalTodayNow"])
		require.NotEqual(t, "0", info["msgPutTotalTodayNow"])

		b.mustCall(codec.ReqDeleteSubscriptionGroup, &codec.DeleteSubscriptionGroupRequestHeader{GroupName: "G"},
			nil)
		b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
		require.Nil(t, b.stat("TOPIC_PUT_NUMS", "T"))
		require.Nil(t, b.stat("GROUP_GET_NUMS", "T@G"))

		b = b.restart()
		for key, value := range b.RuntimeInfo() {
			require.NotContains(t, value, "-1.", "%s is negative", key)
			require.NotContains(t, []string{"-"}, value[:min(1, len(value))], "%s is %s", key, value)
		}
	})
}

// A pull that finds nothing is a miss, and what is stored under a delay belongs to the schedule topic.
func TestCountersOfMissesAndDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true})
		b.createTopic("T", 1, 6)
		for range 5 {
			answer, _ := b.pull("T", 0, 0)
			require.Equal(t, codec.RespPullNotFound, answer.Code)
		}
		b.mustSend("T", 0, "DELAY\x012", "late")
		time.Sleep(4 * time.Second)
		require.NotNil(t, b.stat("TOPIC_PUT_NUMS", codec.ScheduleTopic))
		require.Nil(t, b.stat("TOPIC_PUT_NUMS", "T"), "not yet")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NotNil(t, b.stat("TOPIC_PUT_NUMS", "T"))
		time.Sleep(time.Minute)
		require.NotEmpty(t, b.RuntimeInfo()["getMissTps"])
		require.NotEqual(t, "0.0 0.0 0.0", b.RuntimeInfo()["getMissTps"])
	})
}
