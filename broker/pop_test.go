package broker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/pop"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

const popConf = "mappedFileSizeTimerLog=4096\n"

// popped is a message as a client sees it.
type popped struct {
	body      string
	topic     string // the real one
	receipt   pop.Receipt
	reconsume int32
	props     []byte
}

func popRequest(topicName string, queueID, num int, invisible, wait time.Duration,
	alter func(h *codec.PopMessageRequestHeader)) *codec.Command {
	h := codec.PopMessageRequestHeader{ConsumerGroup: "g", Topic: topicName, QueueID: int32(queueID), MaxMsgNums: int32(num),
		InvisibleTime: invisible.Milliseconds(), PollTime: wait.Milliseconds(), BornTime: time.Now().UnixMilli()}
	if wait == 0 { // a request that is half a second old when it is served is refused; a busy machine must not fail a test
		h.BornTime += time.Minute.Milliseconds()
	}
	if alter != nil {
		alter(&h)
	}
	return request(codec.ReqPopMessage, &h, nil)
}

// popAnswer reads what a client reads of a pop's answer.
func popAnswer(t testing.TB, answer *codec.Command) (out []popped, h codec.PopMessageResponseHeader) {
	t.Helper()
	if answer.Code != codec.RespSuccess && answer.Code != codec.RespPollingTimeout {
		require.Fail(t, "pop refused", "%d %s", answer.Code, answer.Remark)
	}
	require.NoError(t, codec.DecodeHeader(answer, &h))
	starts, offsets := map[string]int64{}, map[string][]string{}
	for _, e := range split(h.StartOffsetInfo, ";") {
		f := strings.Fields(e)
		require.NotContains(t, starts, f[0]+" "+f[1], "an entry comes once")
		starts[f[0]+" "+f[1]], _ = strconv.ParseInt(f[2], 10, 64)
	}
	for _, e := range split(h.MsgOffsetInfo, ";") {
		f := strings.Fields(e)
		offsets[f[0]+" "+f[1]] = strings.Split(f[2], ",")
	}
	for _, rec := range records(t, answer.Body) {
		m := popped{body: string(rec.Body), topic: string(rec.Topic), reconsume: rec.ReconsumeTimes, props: rec.Properties}
		if ck, ok := rec.Property(codec.PropPopCK); ok {
			var err error
			m.receipt, err = pop.ParseReceipt(string(ck))
			require.NoError(t, err)
			m.topic = pop.RealTopic(m.topic, "g", strconv.Itoa(m.receipt.Flag))
		} else {
			k := fmt.Sprintf("0 %d", rec.QueueID)
			require.Contains(t, offsets[k], strconv.FormatInt(int64(rec.QueueOffset), 10))
			m.receipt = pop.Receipt{StartOffset: codec.QueueOffset(starts[k]), PopTime: h.PopTime, Invisible: h.InvisibleTime,
				ReviveQID: h.ReviveQID, Broker: "broker-a", QueueID: rec.QueueID, Offset: rec.QueueOffset}
		}
		out = append(out, m)
	}
	return out, h
}

func split(s, sep string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, sep)
}

func (b *testBroker) popN(topicName string, n int, invisible time.Duration) []popped {
	b.t.Helper()
	out, _ := popAnswer(b.t, b.do(popRequest(topicName, -1, n, invisible, 0, nil)))
	return out
}

func (b *testBroker) ack(m popped) *codec.Command {
	b.t.Helper()
	return b.call(codec.ReqAckMessage, &codec.AckMessageRequestHeader{ConsumerGroup: "g", Topic: m.topic,
		QueueID: m.receipt.QueueID, ExtraInfo: m.receipt.String(), Offset: m.receipt.Offset}, nil)
}

func (b *testBroker) mustAck(m popped) {
	b.t.Helper()
	answer := b.ack(m)
	require.Equal(b.t, codec.RespSuccess, answer.Code, answer.Remark)
}

// change gives the receipt that the answer makes.
func (b *testBroker) change(m popped, invisible time.Duration) (popped, *codec.Command) {
	b.t.Helper()
	answer := b.call(codec.ReqChangeMessageInvisibleTime, &codec.ChangeInvisibleTimeRequestHeader{ConsumerGroup: "g",
		Topic: m.topic, QueueID: m.receipt.QueueID, ExtraInfo: m.receipt.String(), Offset: m.receipt.Offset,
		InvisibleTime: invisible.Milliseconds()}, nil)
	if answer.Code == codec.RespSuccess {
		var h codec.ChangeInvisibleTimeResponseHeader
		require.NoError(b.t, codec.DecodeHeader(answer, &h))
		m.receipt.PopTime, m.receipt.Invisible, m.receipt.ReviveQID = h.PopTime, h.InvisibleTime, h.ReviveQID
		m.receipt.StartOffset = m.receipt.Offset
	}
	return m, answer
}

func startPopBroker(t *testing.T, conf string) *testBroker {
	if !strings.Contains(conf, "popFromRetryProbability") {
		conf += "popFromRetryProbability=0\n"
	}
	b := start(t, setup{virtual: true, fs: vfs.NewMem(), conf: popConf + conf})
	time.Sleep(100 * time.Millisecond)
	return b
}

func (b *testBroker) sendN(topicName string, queueID, n int) {
	b.t.Helper()
	end := codec.QueueOffset(n) + max(b.store.MaxOffset(topicName, int32(queueID)), 0)
	for i := range n {
		b.mustSend(topicName, queueID, "TAGS\x01A\x02", fmt.Sprintf("m%d", i))
	}
	b.eventually(func() bool { return b.store.MaxOffset(topicName, int32(queueID)) >= end })
}

func popTexts(list []popped) (out []string) {
	for _, m := range list {
		out = append(out, m.body)
	}
	return out
}

// Case B35 (a), (b) and (c): receipts that are good once, and those that are not.
func TestPopReceipts(t *testing.T) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		synctest.Test(t, func(t *testing.T) {
			b := startPopBroker(t, "flushDiskType="+flush+"\n")
			b.sendN("T", 0, 10)
			got := b.popN("T", 10, 5*time.Second)
			require.Len(t, got, 10)
			require.Empty(t, b.popN("T", 10, 5*time.Second), "invisible")
			changed, answer := b.change(got[4], 10*time.Second)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			f := func(m popped, code int, remark string) {
				t.Helper()
				_, change := b.change(m, time.Minute)
				for _, answer := range []*codec.Command{b.ack(m), change} {
					require.Equal(t, code, answer.Code, answer.Remark)
					require.Contains(t, answer.Remark, remark)
				}
			}
			f(got[4], codec.RespNoMessage, "used up") // the old receipt
			b.mustAck(changed)
			f(changed, codec.RespNoMessage, "used up")
			b.mustAck(got[0])
			f(got[0], codec.RespNoMessage, "used up")
			alter := func(m popped, f func(r *pop.Receipt)) popped { f(&m.receipt); return m }
			f(alter(got[1], func(r *pop.Receipt) { r.StartOffset = 1 }), codec.RespNoMessage, "used up")
			f(alter(got[1], func(r *pop.Receipt) { r.QueueID = 1 }), codec.RespNoMessage, "illegal")
			f(alter(got[1], func(r *pop.Receipt) { r.Invisible++ }), codec.RespMessageIllegal, "does not belong")
			f(alter(got[1], func(r *pop.Receipt) { r.ReviveQID = 8 }), codec.RespMessageIllegal, "revive queue")
			f(alter(got[1], func(r *pop.Receipt) { r.Flag = 1 }), codec.RespMessageIllegal, "does not belong")
			f(alter(got[1], func(r *pop.Receipt) { r.Broker = "broker-b" }), codec.RespMessageIllegal, "does not belong")
			answer = b.call(codec.ReqAckMessage, &codec.AckMessageRequestHeader{ConsumerGroup: "g", Topic: "T", QueueID: 0,
				ExtraInfo: "0 1 x", Offset: 1}, nil)
			require.Equal(t, codec.RespMessageIllegal, answer.Code)
			answer = b.call(codec.ReqAckMessage, &codec.AckMessageRequestHeader{ConsumerGroup: "g", Topic: "T", QueueID: 0,
				ExtraInfo: got[2].receipt.String(), Offset: 1}, nil)
			require.Equal(t, codec.RespMessageIllegal, answer.Code, "the receipt of another message")
			time.Sleep(5 * time.Second)
			f(got[1], codec.RespNoMessage, "is over")
			time.Sleep(5 * time.Second)
			again := b.popN("T", 32, time.Minute)
			require.ElementsMatch(t, []string{"m1", "m2", "m3", "m5", "m6", "m7", "m8", "m9"}, popTexts(again))
			for _, m := range again {
				require.EqualValues(t, 1, m.reconsume)
				first, _ := codec.LookupProperty(m.props, codec.PropFirstPopTime)
				require.Equal(t, strconv.FormatInt(got[0].receipt.PopTime, 10), string(first))
				b.mustAck(m)
			}
			time.Sleep(100 * time.Second)
			require.Empty(t, b.popN("T", 32, time.Minute))
			require.Zero(t, b.Pop().Open())
			b.stop()
		})
	}
}

// Case B35 (e): restart and kill -9 in the middle. What is acknowledged never comes again, the rest does, from where the
// group was.
func TestPopRestart(t *testing.T) {
	f := func(conf string, again func(b *testBroker) *testBroker, repeats bool) {
		synctest.Test(t, func(t *testing.T) {
			b := startPopBroker(t, conf)
			b.sendN("T", 0, 10)
			got := b.popN("T", 6, 20*time.Second)
			for _, m := range got[:3] {
				b.mustAck(m)
			}
			time.Sleep(time.Second) // the offsets are not written yet
			b = again(b)
			time.Sleep(100 * time.Millisecond)
			b.mustAck(got[3]) // receipts outlive the broker
			require.Equal(t, codec.RespNoMessage, b.ack(got[3]).Code, "once")
			rest := b.popN("T", 32, time.Minute)
			if !repeats {
				require.Equal(t, []string{"m6", "m7", "m8", "m9"}, popTexts(rest), "the progress is kept")
			}
			for _, m := range rest {
				b.mustAck(m)
			}
			time.Sleep(30 * time.Second)
			require.Equal(t, codec.RespNoMessage, b.ack(got[4]).Code, "late, of the run before")
			back := b.popN("T", 32, time.Minute)
			if !repeats {
				require.ElementsMatch(t, []string{"m4", "m5"}, popTexts(back))
			}
			for _, m := range back {
				b.mustAck(m)
			}
			time.Sleep(10 * time.Second)
			b = again(b)
			time.Sleep(100 * time.Second)
			require.Empty(t, b.popN("T", 32, time.Minute))
			b.stop()
		})
	}
	f("", (*testBroker).restart, false)
	f("", (*testBroker).kill, false)
	f("flushDiskType=SYNC_FLUSH\n", (*testBroker).kill, false)
	f("enablePopBufferMerge=true\nenablePopBatchAck=true\n", (*testBroker).restart, false)
	f("enablePopBufferMerge=true\n", (*testBroker).kill, true)
}

// A pop waits for a message, for a returned one too, and is told when its time is up.
func TestPopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 1)
		got := b.popN("T", 1, 3*time.Second)
		require.Len(t, got, 1)
		began := time.Now()
		answer := await(t, b.begin(popRequest("T", -1, 8, time.Minute, 10*time.Second, nil)))
		back, _ := popAnswer(t, answer)
		require.Equal(t, []string{"m0"}, popTexts(back), "it came back")
		require.Less(t, time.Since(began), 5*time.Second)
		began = time.Now()
		first := b.begin(popRequest("T", -1, 8, time.Minute, 10*time.Second, nil))
		second := b.begin(popRequest("T", 1, 8, time.Minute, 11*time.Second, nil))
		late := b.begin(popRequest("T", -1, 8, time.Minute, 12*time.Second, nil))
		synctest.Wait()
		var info codec.PollingInfoResponseHeader
		require.NoError(t, codec.DecodeHeader(b.mustCall(codec.ReqPollingInfo, &codec.PollingInfoRequestHeader{
			ConsumerGroup: "g", Topic: "T", QueueID: -1}, nil), &info))
		require.EqualValues(t, 2, info.PollingNum)
		b.mustSend("T", 0, "", "new")
		list, _ := popAnswer(t, await(t, first))
		require.Equal(t, []string{"new"}, popTexts(list), "who waits the shortest gets it")
		answer = await(t, second)
		require.Equal(t, codec.RespPollingTimeout, answer.Code)
		require.InDelta(t, 10.85, time.Since(began).Seconds(), 0.05)
		answer = await(t, late)
		require.Equal(t, codec.RespPollingTimeout, answer.Code)
		require.InDelta(t, 11.85, time.Since(began).Seconds(), 0.05)
		p := b.dial()
		p.begin(popRequest("T", -1, 8, time.Minute, time.Minute, nil))
		synctest.Wait()
		p.Close()
		synctest.Wait()
		require.Zero(t, b.Pop().Polling().Len(), "the connection is gone")
		b.stop()
	})
}

// Filters, what a new group begins with, refusals.
func TestPopRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "initPopOffsetByCheckMsgInMem=false\n")
		for i := range 6 {
			b.mustSend("T", 0, fmt.Sprintf("TAGS\x01%c\x02a\x01%d\x02", 'A'+i%2, i), fmt.Sprintf("m%d", i))
		}
		time.Sleep(10 * time.Millisecond)
		f := func(group string, alter func(h *codec.PopMessageRequestHeader), want ...string) {
			t.Helper()
			list, _ := popAnswer(t, b.do(popRequest("T", -1, 32, time.Minute, 0, func(h *codec.PopMessageRequestHeader) {
				h.ConsumerGroup = group
				alter(h)
			})))
			require.Equal(t, want, popTexts(list))
		}
		f("g1", func(h *codec.PopMessageRequestHeader) { h.Exp, h.ExpType = "B", "TAG" }, "m1", "m3", "m5")
		f("g1", func(h *codec.PopMessageRequestHeader) { h.Exp, h.ExpType = "*", "TAG" })
		f("g2", func(h *codec.PopMessageRequestHeader) { h.Exp, h.ExpType = "a > 3", "SQL92" }, "m4", "m5")
		f("g3", func(h *codec.PopMessageRequestHeader) { h.InitMode = codec.ConsumeInitModeMax }, "m5")
		f("g4", func(h *codec.PopMessageRequestHeader) { h.Exp, h.ExpType = "nothing", "TAG" })
		time.Sleep(time.Second)
		at, ok := b.offsets.Query("g4", "T", 0)
		require.True(t, ok && at == 6, "passed over: %d", at)
		g := func(code int, alter func(h *codec.PopMessageRequestHeader)) {
			t.Helper()
			answer := b.do(popRequest("T", -1, 32, time.Minute, 0, alter))
			require.Equal(t, code, answer.Code, answer.Remark)
		}
		g(codec.RespInvalidParameter, func(h *codec.PopMessageRequestHeader) { h.MaxMsgNums = 33 })
		g(codec.RespInvalidParameter, func(h *codec.PopMessageRequestHeader) { h.InvisibleTime = -1 })
		g(codec.RespInvalidParameter, func(h *codec.PopMessageRequestHeader) { h.QueueID = 8 })
		g(codec.RespPollingTimeout, func(h *codec.PopMessageRequestHeader) { h.BornTime = time.Now().UnixMilli() - 600 })
		g(codec.RespTopicNotExist, func(h *codec.PopMessageRequestHeader) { h.Topic = "none" })
		g(codec.RespSubscriptionParseFailed, func(h *codec.PopMessageRequestHeader) { h.Exp, h.ExpType = "a >", "SQL92" })
		b.stop()
		b = start(t, setup{virtual: true, fs: vfs.NewMem(), conf: "timerWheelEnable=false\n"})
		g(codec.RespSystemError, nil)
		b.stop()
	})
}

// Case B35 (f): a message goes to the dead letters once the group's retries are used up. With V1 and V2 retry topics.
func TestPopRetriesEnd(t *testing.T) {
	for _, conf := range []string{"", "enableRetryTopicV2=true\n"} {
		synctest.Test(t, func(t *testing.T) {
			b := startPopBroker(t, conf)
			c := body.NewSubscriptionGroupConfig("g")
			c.RetryMaxTimes = 1
			require.NoError(t, b.groups.Update(c))
			b.sendN("T", 0, 1)
			require.Len(t, b.popN("T", 1, time.Second), 1)
			time.Sleep(4 * time.Second)
			again := b.popN("T", 1, time.Second)
			require.Len(t, again, 1)
			require.Equal(t, b.Pop().RetryTopics("T", "g")[0], again[0].topic)
			time.Sleep(4 * time.Second)
			require.Empty(t, b.popN("T", 1, time.Second))
			dead := b.all(codec.DLQTopic("g"), 0)
			require.Len(t, dead, 1)
			from, _ := dead[0].Property(codec.PropRetryTopic)
			require.Equal(t, "T", string(from))
			b.stop()
		})
	}
}

// BATCH_ACK_MESSAGE takes what is good and names what is not.
func TestPopBatchAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 6)
		got := b.popN("T", 6, 5*time.Second)
		f := func(code int, offsets ...int) *codec.Command {
			t.Helper()
			r := got[0].receipt
			a := body.BatchAck{ConsumerGroup: "g", Topic: "T", Retry: "0", StartOffset: int64(r.StartOffset), QueueID: r.QueueID,
				ReviveQueueID: r.ReviveQID, PopTime: r.PopTime, InvisibleTime: r.Invisible}
			for _, at := range offsets {
				a.BitSet.Set(at)
			}
			data, err := body.Encode(&body.BatchAckMessageRequestBody{BrokerName: "broker-a", Acks: []*body.BatchAck{&a}})
			require.NoError(t, err)
			answer := b.call(codec.ReqBatchAckMessage, nil, data)
			require.Equal(t, code, answer.Code, answer.Remark)
			return answer
		}
		f(codec.RespNoMessage)
		f(codec.RespSuccess, 0, 1)
		require.Contains(t, f(codec.RespNoMessage, 1, 2, 70).Remark, "2 of 3 acks refused")
		time.Sleep(8 * time.Second)
		f(codec.RespNoMessage, 3)
		require.ElementsMatch(t, []string{"m3", "m4", "m5"}, popTexts(b.popN("T", 32, time.Minute)))
		b.stop()
	})
}

// PEEK_MESSAGE and NOTIFICATION look without taking.
func TestPopPeekAndNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 1, 3)
		peek := func() *codec.Command {
			return b.call(codec.ReqPeekMessage, &codec.PeekMessageRequestHeader{ConsumerGroup: "g", Topic: "T", QueueID: -1,
				MaxMsgNums: 32}, nil)
		}
		require.Equal(t, []string{"m0", "m1", "m2"}, bodies(t, peek()))
		require.Len(t, b.popN("T", 32, 2*time.Second), 3)
		require.Equal(t, codec.RespPullNotFound, peek().Code)
		notification := func(wait time.Duration) <-chan *codec.Command {
			return b.begin(request(codec.ReqNotification, &codec.NotificationRequestHeader{ConsumerGroup: "g", Topic: "T",
				QueueID: -1, PollTime: wait.Milliseconds(), BornTime: time.Now().UnixMilli()}, nil))
		}
		has := func(answer *codec.Command) bool {
			var h codec.NotificationResponseHeader
			require.NoError(t, codec.DecodeHeader(answer, &h))
			return h.HasMsg
		}
		require.False(t, has(await(t, notification(0))))
		began := time.Now()
		require.True(t, has(await(t, notification(time.Minute))), "they came back")
		require.Less(t, time.Since(began), 5*time.Second)
		time.Sleep(time.Second)
		require.Equal(t, []string{"m0", "m1", "m2"}, bodies(t, peek()))
		for _, m := range b.popN("T", 32, time.Minute) {
			b.mustAck(m)
		}
		require.False(t, has(await(t, notification(3*time.Second))))
		b.stop()
	})
}

// Orderly pops: one at a time, acks move the group's offset, what is not acknowledged comes again in order. With restart
// and kill.
func TestPopOrderly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.sendN("T", 0, 6)
		take := func(attempt string, wait time.Duration) ([]popped, codec.PopMessageResponseHeader) {
			t.Helper()
			return popAnswer(t, await(t, b.begin(popRequest("T", 0, 3, 10*time.Second, wait,
				func(h *codec.PopMessageRequestHeader) { h.Order, h.AttemptID = true, attempt }))))
		}
		got, h := take("a1", 0)
		require.Equal(t, []string{"m0", "m1", "m2"}, popTexts(got))
		require.EqualValues(t, codec.PopOrderReviveQueue, h.ReviveQID)
		require.Equal(t, "0 0 0", h.OrderCountInfo)
		none, _ := take("a2", 0)
		require.Empty(t, none, "the queue is being consumed")
		same, _ := take("a1", 0)
		require.Equal(t, []string{"m0", "m1", "m2"}, popTexts(same), "the same attempt again")
		got = same
		b.mustAck(got[1])
		require.Equal(t, codec.RespNoMessage, b.ack(got[1]).Code)
		b.mustAck(got[0])
		require.Equal(t, codec.RespNoMessage, b.ack(got[0]).Code)
		at, _ := b.offsets.Query("g", "T", 0)
		require.EqualValues(t, 2, at)
		changed, answer := b.change(got[2], 30*time.Second)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, got[2].receipt.PopTime, changed.receipt.PopTime)
		time.Sleep(6 * time.Second)
		b = b.restart()
		time.Sleep(10 * time.Second)
		none, _ = take("a3", 0)
		require.Empty(t, none, "still blocked after the restart")
		began := time.Now()
		got, h = take("a4", time.Minute)
		require.Equal(t, []string{"m2", "m3", "m4"}, popTexts(got))
		require.Less(t, time.Since(began), 20*time.Second)
		require.Equal(t, "0 qo0%2 1;0 0 0", h.OrderCountInfo)
		next := b.begin(popRequest("T", 0, 3, 10*time.Second, time.Minute,
			func(h *codec.PopMessageRequestHeader) { h.Order, h.AttemptID = true, "a5" }))
		for _, m := range got {
			b.mustAck(m)
		}
		got, _ = popAnswer(t, await(t, next))
		require.Equal(t, []string{"m5"}, popTexts(got), "woken by the last ack")
		time.Sleep(6 * time.Second)
		b = b.kill()
		time.Sleep(5 * time.Second)
		got, _ = take("a6", 0)
		require.Equal(t, []string{"m5"}, popTexts(got))
		b.mustAck(got[0])
		b.stop()
	})
}

// Case B35 (d): random pops, acks and changes under load, with kills. An acknowledged message never returns, each other
// does, none is lost.
func TestPopRandom(t *testing.T) {
	f := func(conf string, kills bool) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(len(conf))))
			b := startPopBroker(t, conf)
			acked, sent := map[string]bool{}, 0
			step := func(send bool) {
				for range 5 {
					if send {
						b.mustSend("T", rnd.IntN(4), "", fmt.Sprint(sent))
						sent++
					}
				}
				time.Sleep(50 * time.Millisecond)
				for _, m := range b.popN("T", 1+rnd.IntN(10), 4*time.Second) {
					require.True(t, kills || !acked[m.body], "%s returns", m.body) // a crash may repeat
					if rnd.IntN(4) == 0 {
						var answer *codec.Command
						m, answer = b.change(m, time.Duration(1+rnd.IntN(6))*time.Second)
						require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
					}
					if rnd.IntN(3) > 0 || !send {
						b.mustAck(m)
						acked[m.body] = true
					}
				}
			}
			for i := range 120 {
				step(true)
				if kills && i%40 == 39 {
					time.Sleep(6 * time.Second)
					b = b.kill()
					time.Sleep(100 * time.Millisecond)
				}
			}
			for range 400 {
				step(false)
			}
			require.Len(t, acked, sent, "lost: %v", missing(acked, sent))
			b.stop()
		})
	}
	f("", false)
	f("enablePopBufferMerge=true\npopCkStayBufferTime=1000\npopCkStayBufferTimeOut=500\n", false)
	f("enableRetryTopicV2=true\n", true)
}

func missing(acked map[string]bool, n int) (out []string) {
	for i := range n {
		if !acked[fmt.Sprint(i)] {
			out = append(out, fmt.Sprint(i))
		}
	}
	return out
}

// SET_MESSAGE_REQUEST_MODE is kept and told to those who ask for their queues.
func TestMessageRequestMode(t *testing.T) {
	ids := []string{"c1", "c2", "c3", "c4"}
	var queues []body.MessageQueue
	for i := range int32(4) {
		queues = append(queues, body.MessageQueue{BrokerName: "b", Topic: "T", QueueID: i})
	}
	f := func(client string, n, share int, want ...int32) {
		t.Helper()
		var got []int32
		for _, q := range allocatePop(queues[:n], ids, client, body.StrategyAveragely, share) {
			got = append(got, q.QueueID)
		}
		require.Equal(t, want, got)
	}
	f("c1", 4, 0, -1)
	f("c1", 4, 3, -1)
	f("c1", 4, 1, 0, 1)
	f("c4", 4, 2, 3, 0, 1)
	f("c4", 2, 2, 1)
	f("other", 4, 1)

	b := startBroker(t, "")
	b.mustSend("T", 0, "", "x")
	set := func(topicName, groupName string) int {
		data, err := body.Encode(&body.SetMessageRequestModeRequestBody{Topic: topicName, ConsumerGroup: groupName,
			Mode: body.ModePop, PopShareQueueNum: 2})
		require.NoError(t, err)
		return b.call(codec.ReqSetMessageRequestMode, nil, data).Code
	}
	require.Equal(t, codec.RespNoPermission, set("%RETRY%g", "g"))
	require.Equal(t, codec.RespTopicNotExist, set("none", "g"))
	require.Equal(t, codec.RespSuccess, set("T", "g"))
	b = b.restart()
	var all body.MessageRequestModeSerializeWrapper
	b.mustCall(codec.ReqGetAllMessageRequestMode, nil, &all)
	require.Equal(t, []string{"T"}, slices.Collect(maps.Keys(all.MessageRequestModeMap)))
	mode, share := b.requestMode("T", "g")
	require.Equal(t, body.ModePop, mode)
	require.Equal(t, 2, share)
}
