package broker

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store/timer"
)

const timerConf = "recallMessageEnable=true\nmappedFileSizeTimerLog=4096\ntimerRollWindowSlot=100\n"

// timedProps makes properties that ask for a delivery after d.
func timedProps(uniqKey string, d time.Duration) string {
	return fmt.Sprintf("UNIQ_KEY\x01%s\x02TIMER_DELIVER_MS\x01%d\x02", uniqKey, time.Now().Add(d).UnixMilli())
}

func recallOf(t *testing.T, answer *codec.Command) string {
	t.Helper()
	var h codec.SendMessageResponseHeader
	require.NoError(t, codec.DecodeHeader(answer, &h))
	return h.RecallHandle
}

// The way of a timer message through the broker: answer, counters, delivery, metrics, runtime info, restart.
func TestTimerMessages(t *testing.T) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, setup{virtual: true, fs: vfs.NewMem(), conf: timerConf + "flushDiskType=" + flush + "\n"})
			time.Sleep(100 * time.Millisecond)
			sent := b.mustSend("T", 2, timedProps("K1", 3*time.Second), "three")
			require.Equal(t, "2", sent.Get("queueId"), "the client sees its own queue")
			handle, err := base64.URLEncoding.DecodeString(recallOf(t, sent))
			require.NoError(t, err)
			out := time.Now().Add(3*time.Second).UnixMilli() / 1000 * 1000
			require.Equal(t, fmt.Sprintf("v1 T broker-a %d K1", out+1), string(handle))
			require.Empty(t, recallOf(t, b.mustSend("T", 2, "UNIQ_KEY\x01K2\x02", "plain")))
			require.Empty(t, recallOf(t, b.mustSend("T", 2, timedProps("K3", -time.Second), "past")))
			b.mustSend("T", 0, timedProps("K4", time.Hour), "an hour") // rolls 36 times
			time.Sleep(time.Second)
			var m timer.Metrics
			b.mustCall(codec.ReqGetTimerMetrics, nil, &m)
			require.EqualValues(t, 2, m.TimingCount["T"].Count)
			info := b.RuntimeInfo()
			require.Equal(t, "2", info["timerCongestNum"])
			require.Equal(t, "0", info["timerReadBehind"])
			require.Len(t, b.all("T", 2), 2)
			time.Sleep(3 * time.Second)
			got := b.all("T", 2)
			require.Len(t, got, 3)
			require.Equal(t, "three", string(got[2].Body))
			require.Equal(t, out+1000, got[2].StoreTimestamp)
			require.Equal(t, b.storeHost, got[2].StoreHost)
			time.Sleep(12 * time.Second) // until the CommitLog is flushed
			cp, err := timer.DecodeCheckpoint(b.mustCall(codec.ReqGetTimerCheckPoint, nil, nil).Body)
			require.NoError(t, err)
			require.EqualValues(t, 2, cp.LastTimerQueueOffset)
			require.Positive(t, cp.LastTimerLogFlushPos)
			b = b.restart()
			time.Sleep(30 * time.Minute)
			b = b.kill()
			require.Empty(t, b.all("T", 0))
			time.Sleep(31 * time.Minute)
			got = b.all("T", 0)
			require.Len(t, got, 1)
			late := got[0].StoreTimestamp - got[0].BornTimestamp - time.Hour.Milliseconds()
			require.True(t, late >= 0 && late < 1000, "%d ms", late)
			require.Empty(t, b.all("T", 1))
			b.stop()
		})
	}
}

// Java's refusals, and case B08.
func TestTimerRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{virtual: true, fs: vfs.NewMem(), conf: "timerMaxDelaySec=2592000\ntimerCongestNumEachSlot=2\n"})
		f := func(props string, code int, remark string) {
			t.Helper()
			answer := b.send("T", 0, props, []byte("x"))
			require.Equal(t, code, answer.Code, answer.Remark)
			require.Contains(t, answer.Remark, remark)
		}
		f("TIMER_DELAY_SEC\x019223372036854775807\x02", codec.RespMessageIllegal, "out of range")
		f("TIMER_DELAY_SEC\x01abc\x02", codec.RespMessageIllegal, "timer message illegal")
		f("TIMER_DELAY_SEC\x012592001\x02", codec.RespMessageIllegal, "timerMaxDelaySec")
		f("TIMER_DELAY_SEC\x013600\x02", codec.RespSuccess, "")
		f("TIMER_DELAY_SEC\x012592000\x02", codec.RespSuccess, "")
		f("TIMER_DELIVER_MS\x011\x02", codec.RespSuccess, "")
		time.Sleep(time.Millisecond)
		require.Len(t, b.all("T", 0), 1, "past: at once")
		const at = "TIMER_DELIVER_MS\x01946684900000\x02"
		for range 3 {
			f(at, codec.RespSuccess, "")
			time.Sleep(time.Millisecond)
		}
		for b.Timer().Congestion(946684899000) < 4 { // by chance now
			b.send("T", 0, at, []byte("x"))
			time.Sleep(time.Millisecond)
		}
		f(at, codec.RespSystemError, "flow control")
		f("DELAY\x011\x02TIMER_DELAY_SEC\x01100\x02", codec.RespSuccess, "")
		time.Sleep(2 * time.Second)
		require.Len(t, b.all("T", 0), 2, "the delay level goes first")
		b.stop()
		b = start(t, setup{virtual: true, fs: vfs.NewMem(), conf: "timerWheelEnable=false\n"})
		answer := b.send("T", 0, "TIMER_DELAY_SEC\x011\x02", []byte("x"))
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "accurate timer message is not enabled")
		require.Equal(t, codec.RespSystemError, b.call(codec.ReqGetTimerMetrics, nil, nil).Code)
		require.Equal(t, "0.0", b.RuntimeInfo()["timerEnqueueTps"])
		b.stop()
	})
}

// Java RecallMessageProcessorTest: what is refused, and that a recalled message does not come.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{virtual: true, fs: vfs.NewMem(), conf: timerConf})
		b.mustSend("Other", 0, "", "x")
		handle := recallOf(t, b.mustSend("T", 1, timedProps("K1", 5*time.Second), "recalled"))
		b.mustSend("T", 1, timedProps("K2", 5*time.Second), "stays")
		f := func(code int, topicName, handle, remark string) *codec.Command {
			t.Helper()
			answer := b.call(codec.ReqRecallMessage, &codec.RecallMessageRequestHeader{ProducerGroup: "pg", Topic: topicName,
				RecallHandle: handle}, nil)
			require.Equal(t, code, answer.Code, answer.Remark)
			require.Contains(t, answer.Remark, remark)
			require.Equal(t, "DefaultRegion", answer.Get("MSG_REGION"))
			return answer
		}
		enc := func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }
		soon := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
		f(codec.RespTopicNotExist, "Unknown", handle, "not exist")
		f(codec.RespIllegalOperation, "T", "%%%", "recall handle is invalid")
		f(codec.RespIllegalOperation, "T", enc("v2 T broker-a "+soon+" K1"), "recall handle is invalid")
		f(codec.RespIllegalOperation, "T", enc("v1 T broker-a"), "recall handle is invalid")
		f(codec.RespIllegalOperation, "Other", handle, "topic not match")
		f(codec.RespIllegalOperation, "T", enc("v1 T broker-b "+soon+" K1"), "broker service not available")
		f(codec.RespIllegalOperation, "T", enc("v1 T broker-a 1 K1"), "timestamp invalid")
		f(codec.RespIllegalOperation, "T", enc("v1 T broker-a x K1"), "timestamp invalid")
		f(codec.RespIllegalOperation, "T", enc("v1 T broker-a 9223372036854775807 K1"), "timestamp invalid")
		require.Equal(t, "K1", f(codec.RespSuccess, "T", handle, "").Get("msgId"))
		b = b.restart()
		time.Sleep(6 * time.Second)
		got := b.all("T", 1)
		require.Len(t, got, 1)
		require.Equal(t, "stays", string(got[0].Body))
		f(codec.RespIllegalOperation, "T", handle, "timestamp invalid")
		b.stop()
		b = start(t, setup{virtual: true, fs: vfs.NewMem()})
		f(codec.RespNoPermission, "T", handle, "operation is forbidden")
		b.stop()
	})
}

// With SYNC_FLUSH the answers of one turn wait together; each keeps its own handle.
func TestRecallHandlesOfOneTurn(t *testing.T) {
	b := startBroker(t, timerConf+"flushDiskType=SYNC_FLUSH\n")
	b.mustSend("T", 0, "", "x")
	var answers []<-chan *codec.Command
	for i := range 20 {
		props := fmt.Sprintf("UNIQ_KEY\x01K%d\x02", i)
		if i%2 == 0 {
			props = timedProps(fmt.Sprint("K", i), time.Hour)
		}
		answers = append(answers, b.begin(sendRequest("T", 0, props, []byte("x"))))
	}
	for i, ch := range answers {
		handle, err := base64.URLEncoding.DecodeString(recallOf(t, await(t, ch)))
		require.NoError(t, err)
		if i%2 == 0 {
			require.Regexp(t, fmt.Sprintf(`^v1 T broker-a \d+ K%d$`, i), string(handle))
		} else {
			require.Empty(t, handle)
		}
	}
}

// A topic that is deleted is not counted any more.
func TestDeletedTopicIsNotCounted(t *testing.T) {
	b := startBroker(t, timerConf)
	b.mustSend("T", 0, timedProps("K", time.Hour), "x")
	b.eventually(func() bool { return b.Timer().Metrics().TimingCount["T"].Count == 1 })
	b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
	require.NotContains(t, b.Timer().Metrics().TimingCount, "T")
}
