package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// A pop with an SQL92 filter gets what matches, again when it comes back, and passes over the rest.
func TestPopFiltersReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "enablePropertyFilter=true\n")
		for i := range 8 {
			b.mustSend("T", 0, fmt.Sprintf("a\x01%d\x02", i), fmt.Sprintf("m%d", i))
		}
		time.Sleep(10 * time.Millisecond)
		take := func(n int32, invisible time.Duration, wait time.Duration) []popped {
			t.Helper()
			list, _ := popAnswer(t, await(t, b.begin(popRequest("T", -1, 32, invisible, wait,
				func(h *codec.PopMessageRequestHeader) {
					h.Exp, h.ExpType, h.MaxMsgNums = "a IN ('1','4','5')", "SQL92", n
				}))))
			return list
		}
		got := take(2, 3*time.Second, 0)
		require.Equal(t, []string{"m1", "m4"}, popTexts(got))
		b.mustAck(got[0])
		got = take(32, 3*time.Second, 0)
		require.Equal(t, []string{"m5"}, popTexts(got))
		b.mustAck(got[0])
		back := take(32, time.Minute, 20*time.Second) // it waits, and is woken by what comes back
		require.Equal(t, []string{"m4"}, popTexts(back))
		b.mustAck(back[0])
		waiting := b.begin(popRequest("T", -1, 32, time.Minute, 30*time.Second,
			func(h *codec.PopMessageRequestHeader) { h.Exp, h.ExpType = "a > 6", "SQL92" }))
		synctest.Wait()
		b.mustSend("T", 0, "a\x013\x02", "no")
		time.Sleep(time.Second)
		require.Equal(t, 1, b.Pop().Polling().Len(), "it waits still")
		b.mustSend("T", 0, "a\x019\x02", "yes")
		list, _ := popAnswer(t, await(t, waiting))
		require.Equal(t, []string{"yes"}, popTexts(list))
		b.stop()
	})
}

// The messages of one pop are bounded by number and by bytes; what is left comes with the next.
func TestPopBatchLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "mappedFileSizeCommitLog=16777216\n")
		for i := range 50 {
			b.mustSend("T", i%3, "", fmt.Sprintf("s%d", i))
		}
		time.Sleep(10 * time.Millisecond)
		seen := map[string]bool{}
		for _, want := range []int{32, 18} {
			list := b.popN("T", 32, time.Minute)
			require.Len(t, list, want)
			for _, m := range list {
				require.False(t, seen[m.body])
				seen[m.body] = true
				b.mustAck(m)
			}
		}
		big := make([]byte, 100<<10)
		for range 6 {
			b.mustSend("T", 0, "", string(big))
		}
		time.Sleep(10 * time.Millisecond)
		n, pops := 0, 0
		for ; n < 6; pops++ {
			answer := b.do(popRequest("T", 0, 32, time.Minute, 0, nil))
			list, _ := popAnswer(t, answer)
			require.NotEmpty(t, list)
			require.LessOrEqual(t, len(answer.Body), 256<<10+len(big)+1000, "maxTransferBytesOnMessageInMemory")
			n += len(list)
		}
		require.Greater(t, pops, 1)
		b.stop()
	})
}

// popFromRetryProbability is the share of pops that look into the retry topic first.
func TestPopRetryPriority(t *testing.T) {
	f := func(percent int, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := startPopBroker(t, fmt.Sprintf("popFromRetryProbability=%d\n", percent))
			b.sendN("T", 0, 1)
			require.Len(t, b.popN("T", 1, time.Second), 1)
			time.Sleep(5 * time.Second)
			b.mustSend("T", 0, "", "new")
			time.Sleep(10 * time.Millisecond)
			for _, name := range want {
				require.Equal(t, []string{name}, popTexts(b.popN("T", 1, time.Minute)))
			}
			b.stop()
		})
	}
	f(100, "m0", "new")
	f(0, "new", "m0")
}

// What is invisible is counted, and with enablePopMessageThreshold limits the pops of a queue; acks and check points have
// Java's statistics.
func TestPopCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "enablePopMessageThreshold=true\npopInflightMessageThreshold=4\n")
		b.sendN("T", 0, 20)
		f := func(ready, inflight int64) {
			t.Helper()
			own, retry := b.Pop().GroupLag("T", "g")
			require.Equal(t, [2]int64{ready, inflight}, [2]int64{own.Ready + retry.Ready, own.Inflight + retry.Inflight})
			require.Equal(t, fmt.Sprint(inflight), b.RuntimeInfo()["popInflightMessages"])
		}
		f(20, 0)
		got := append(b.popN("T", 4, 10*time.Second), b.popN("T", 3, 5*time.Second)...)
		require.Len(t, got, 7)
		f(13, 7)
		require.Empty(t, b.popN("T", 4, time.Minute), "too many are invisible")
		for _, m := range got[:3] {
			b.mustAck(m)
		}
		changed, answer := b.change(got[3], 30*time.Second)
		require.Equal(t, codec.RespSuccess, answer.Code)
		f(13, 4)
		require.Len(t, b.popN("T", 1, time.Minute), 1)
		f(12, 5)
		time.Sleep(10 * time.Second)
		f(15, 2) // three came back
		b.mustAck(changed)
		f(15, 1)
		lag := b.lag("g", "T", 0)
		require.EqualValues(t, 8, lag.ConsumerOffset)
		require.EqualValues(t, 5, b.stat("GROUP_ACK_NUMS", "T@g").StatsHour.Sum)
		require.EqualValues(t, 4, b.stat("GROUP_CK_NUMS", "T@g").StatsHour.Sum)
		require.EqualValues(t, 5, b.stat("BROKER_ACK_NUMS", "DefaultCluster").StatsHour.Sum)
		require.EqualValues(t, 4, b.stat("BROKER_CK_NUMS", "DefaultCluster").StatsHour.Sum)

		b = b.restart()
		f(15, 0)
		require.Len(t, b.popN("T", 10, time.Second), 10)
		require.Len(t, b.popN("T", 10, time.Second), 3, "of the retry topic: too many of the other are invisible")
		b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
		time.Sleep(10 * time.Second)
		require.Equal(t, "0", b.RuntimeInfo()["popInflightMessages"])
		b.stop()
	})
}

// Receipts of the run before do not spoil the count of this one.
func TestPopInflightAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 8)
		old := b.popN("T", 4, 20*time.Second)
		time.Sleep(time.Second)
		b = b.restart()
		require.Len(t, b.popN("T", 4, 20*time.Second), 4)
		for _, m := range old {
			b.mustAck(m)
		}
		require.EqualValues(t, 4, b.Pop().Lag("T", "g", 0).Inflight)
		b.stop()
	})
}

// What a group pops counts as its subscription for a while, though nobody says so in a heartbeat: through a proxy nobody
// does.
func TestPopSubscriptionCompensated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "serverChannelMaxIdleTimeSeconds=100000\n")
		b.sendN("T", 0, 2)
		b.mustSend("T2", 0, "", "other")
		time.Sleep(10 * time.Millisecond)
		b.createGroup("g", nil)
		b.commit("g", "T2", 0, 1) // the group has consumed it once
		p := b.dial()
		p.beat("c1", consumer(t, "g", 1, "T3 *"))
		topics := func() (out []string) {
			var stats body.ConsumeStats
			b.mustCall(codec.ReqGetConsumeStats, &codec.GetConsumeStatsRequestHeader{ConsumerGroup: "g"}, &stats)
			for q := range stats.OffsetTable {
				if q.QueueID == 0 {
					out = append(out, q.Topic)
				}
			}
			return out
		}
		require.Empty(t, topics())
		require.Nil(t, b.consumers.Find("g", "T"))
		require.Len(t, b.popN("T", 1, time.Minute), 1)
		require.Equal(t, []string{"T"}, topics())
		require.NotNil(t, b.consumers.Find("g", codec.PopRetryTopicV1("T", "g")))
		require.Equal(t, []string{"T"}, b.consumers.PoppedTopics("g"))
		for range 10 { // a client that is alive
			time.Sleep(time.Minute + 5*time.Second)
			p.beat("c1", consumer(t, "g", 1, "T3 *"))
		}
		require.Empty(t, topics(), "subscriptionExpiredTimeout")
		require.Empty(t, b.consumers.PoppedTopics("g"))
		b.stop()
	})
}

// A notification whose message somebody else takes goes on waiting.
func TestNotificationWaitsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.createTopic("T", 4, 6)
		began := time.Now()
		note := b.begin(request(codec.ReqNotification, &codec.NotificationRequestHeader{ConsumerGroup: "g", Topic: "T",
			QueueID: -1, PollTime: 20000, BornTime: began.UnixMilli()}, nil))
		wait := b.begin(popRequest("T", -1, 32, time.Minute, 10*time.Second, nil))
		synctest.Wait()
		b.popNotices.Notify("T", "g", -1) // as a message would that a pop takes first
		time.Sleep(time.Second)
		require.Equal(t, 1, b.popNotices.Len(), "nothing is there")
		b.mustSend("T", 0, "", "for the pop")
		list, _ := popAnswer(t, await(t, wait))
		require.Len(t, list, 1)
		var h codec.NotificationResponseHeader
		require.NoError(t, codec.DecodeHeader(await(t, note), &h))
		require.True(t, h.HasMsg || time.Since(began) > 15*time.Second)
		b.stop()
	})
}

// Case B35 (g): the codes as they are, and cut to 16 bits as the binary header cuts them.
func TestPopCutCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 9)
		binary := b.dialWith(client.Options{Serialize: codec.SerializeROCKETMQ})
		for _, p := range []*peer{b.peer, binary} {
			for _, mask := range []int{1<<31 - 1, 1<<16 - 1} {
				send := func(code int, header any) *codec.Command {
					cmd := request(code, header, nil)
					cmd.Code &= mask
					return p.do(cmd)
				}
				list, _ := popAnswer(t, send(codec.ReqPopMessage, &codec.PopMessageRequestHeader{ConsumerGroup: "g", Topic: "T",
					QueueID: -1, MaxMsgNums: 1, InvisibleTime: 60_000, BornTime: time.Now().UnixMilli()}))
				require.Len(t, list, 1)
				m := list[0]
				answer := send(codec.ReqChangeMessageInvisibleTime, &codec.ChangeInvisibleTimeRequestHeader{ConsumerGroup: "g",
					Topic: "T", ExtraInfo: m.receipt.String(), Offset: m.receipt.Offset, InvisibleTime: 30_000})
				require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
				var h codec.ChangeInvisibleTimeResponseHeader
				require.NoError(t, codec.DecodeHeader(answer, &h))
				m.receipt.PopTime, m.receipt.Invisible, m.receipt.StartOffset = h.PopTime, h.InvisibleTime, m.receipt.Offset
				answer = send(codec.ReqAckMessage, &codec.AckMessageRequestHeader{ConsumerGroup: "g", Topic: "T",
					ExtraInfo: m.receipt.String(), Offset: m.receipt.Offset})
				require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			}
		}
		b.stop()
	})
}

// A message whose invisible time was changed is popped again in the same millisecond, because the group was moved back.
func TestPopOfChangedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 2)
		got := b.popN("T", 2, time.Minute)
		_, answer := b.change(got[1], time.Minute)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		second := codec.QueueOffset(1)
		answer = b.resetOffset(func(h *codec.ResetOffsetRequestHeader) { h.Group, h.QueueID, h.Offset = "g", 0, &second })
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, []string{"m1"}, popTexts(b.popN("T", 2, time.Minute)))
		b.stop()
	})
}

// The receipts of a message that is changed several times in a millisecond have different pop times: a broker that starts
// later knows their records by nothing else.
func TestPopChangedQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 1)
		m := b.popN("T", 1, 400*time.Millisecond)[0]
		times := map[int64]bool{m.receipt.PopTime: true}
		for _, invisible := range []time.Duration{600 * time.Millisecond, 7 * time.Second, 200 * time.Millisecond} {
			next, answer := b.change(m, invisible)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			require.False(t, times[next.receipt.PopTime], "%s", next.receipt)
			m, times[next.receipt.PopTime] = next, true
		}
		b.mustAck(m)
		time.Sleep(10 * time.Millisecond)
		b = b.restart()
		for range 15 {
			time.Sleep(time.Second)
			require.Empty(t, b.popN("T", 1, time.Minute))
		}
		b.stop()
	})
}
