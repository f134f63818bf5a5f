package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/internal/vfs"
)

// All three codes store the same record, as do both header encodings.
func TestSendForms(t *testing.T) {
	b := startBroker(t, "")
	binary := b.dialWith(client.Options{Serialize: codec.SerializeROCKETMQ})
	n := 0
	f := func(p *peer, code int) {
		t.Helper()
		req := sendWith("T", []byte("body"), func(h *codec.SendMessageHeader) {
			h.QueueID, h.Flag, h.SysFlag, h.BornTimestamp = 1, 77, codec.SysFlagCompressed|codec.SysFlagCompressionZlib, 1600000000123
			h.Properties = codec.Field{Value: []byte("KEYS\x01k1 k2\x02TAGS\x01A\x02UNIQ_KEY\x01U1\x02mine\x01täg")}
			h.ReconsumeTimes, h.UnitMode = 2, false
		})
		req.Code = code
		if code == codec.ReqSendMessage { // long field names
			req = request(codec.ReqSendMessage, nil, []byte("body"))
			for k, v := range map[string]string{"producerGroup": "pg", "topic": "T", "defaultTopic": "TBW102",
				"defaultTopicQueueNums": "4", "queueId": "1", "sysFlag": fmt.Sprint(codec.SysFlagCompressed |
					codec.SysFlagCompressionZlib), "bornTimestamp": "1600000000123", "flag": "77",
				"properties": "KEYS\x01k1 k2\x02TAGS\x01A\x02UNIQ_KEY\x01U1\x02mine\x01täg", "reconsumeTimes": "2"} {
				req.Set(k, v)
			}
		}
		answer := p.do(req)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, []string{"1", fmt.Sprint(n), "U1", "DefaultRegion", "true"},
			[]string{answer.Get("queueId"), answer.Get("queueOffset"), answer.Get("transactionId"),
				answer.Get("MSG_REGION"), answer.Get("TRACE_ON")})
		n++
		b.waitQueue("T", 1, n)
		rec := b.all("T", 1)[n-1]
		require.Equal(t, offsetOf(t, answer), rec.PhyOffset)
		require.Equal(t, "body", string(rec.Body))
		require.EqualValues(t, 77, rec.Flag)
		require.EqualValues(t, codec.SysFlagCompressed|codec.SysFlagCompressionZlib, rec.SysFlag)
		require.EqualValues(t, 1600000000123, rec.BornTimestamp)
		require.EqualValues(t, 2, rec.ReconsumeTimes)
		require.Equal(t, p.LocalAddr().String(), rec.BornHost.String())
		require.Equal(t, b.AdvertisedAddr(), rec.StoreHost.String())
		require.Equal(t, "KEYS\x01k1 k2\x02TAGS\x01A\x02UNIQ_KEY\x01U1\x02mine\x01täg\x02MSG_REGION\x01DefaultRegion\x02"+
			"TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02", string(rec.Properties))
	}
	for _, p := range []*peer{b.peer, binary} {
		f(p, codec.ReqSendMessageV2)
		f(p, codec.ReqSendMessage)
	}
	answer := b.do(batchRequest("T", "", append(batchEntry(t, "one", "KEYS\x01k\x02UNIQ_KEY\x01U2"),
		batchEntry(t, "two", "UNIQ_KEY\x01U3")...)))
	require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	require.Len(t, strings.Split(answer.Get("msgId"), ","), 2)
	b.waitQueue("T", 0, 2)
	for i, rec := range b.all("T", 0) {
		require.Equal(t, []string{"one", "two"}[i], string(rec.Body))
		require.Equal(t, []string{"U2", "U3"}[i], prop(t, rec, "UNIQ_KEY"))
		require.Equal(t, "DefaultCluster", prop(t, rec, "CLUSTER"))
	}
}

// What a client may not set, and what the broker adds.
func TestSendProperties(t *testing.T) {
	b := startBroker(t, "regionId=R\ntraceOn=false\n")
	b.mustCall(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: "multi",
		DefaultTopic: "TBW102", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "MULTI_TAG"}, nil)
	n := map[string]int{}
	f := func(topicName, props, want string) {
		t.Helper()
		b.mustSend(topicName, 0, props, "m")
		n[topicName]++
		b.waitQueue(topicName, 0, n[topicName])
		rec := b.all(topicName, 0)[n[topicName]-1]
		require.Equal(t, want, string(rec.Properties))
		require.Equal(t, topicName == "multi", rec.SysFlag&codec.SysFlagMultiTags != 0)
	}
	const own = "MSG_REGION\x01R\x02TRACE_ON\x01false\x02CLUSTER\x01DefaultCluster\x02"
	f("T", "UNIQ_KEY\x01U", "UNIQ_KEY\x01U\x02"+own)
	f("T", "UNIQ_KEY\x01U\x02", "UNIQ_KEY\x01U\x02"+own)
	f("T", "CLUSTER\x01other\x02UNIQ_KEY\x01U\x02MSG_REGION\x01x\x02TRACE_ON\x01y\x02a\x01b",
		"UNIQ_KEY\x01U\x02a\x01b\x02"+own)
	f("T", "POP_CK\x01forged\x02UNIQ_KEY\x01U", "UNIQ_KEY\x01U\x02"+own)
	f("multi", "UNIQ_KEY\x01U\x02TAGS\x01A||B", "UNIQ_KEY\x01U\x02TAGS\x01A||B\x02"+own)
	answer := b.send("T", 0, "UNIQ_KEY\x01first\x02UNIQ_KEY\x01last", []byte("m"))
	require.Equal(t, "last", answer.Get("transactionId"))
	require.Equal(t, "false", answer.Get("TRACE_ON"))
}

// Case B08: every value of a delay, and delays where none may be.
func TestDelayLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: "serverChannelMaxIdleTimeSeconds=1000000\n"})
		b.createTopic("T", 4, 6)
		f := func(queueID int, level string, after time.Duration) {
			t.Helper()
			began := time.Now()
			answer := b.mustSend("T", queueID, "DELAY\x01"+level, level)
			require.Equal(t, fmt.Sprint(queueID), answer.Get("queueId"), "the queue that was asked for")
			at := b.store.MaxOffset("T", int32(queueID))
			pulled := awaitFor(t, b.begin(pullRequest("g", "T", queueID, at, 3*time.Hour)), 3*time.Hour)
			require.Equal(t, []string{level}, bodies(t, pulled))
			require.InDelta(t, after.Seconds(), time.Since(began).Seconds(), 0.2, "level %s", level)
		}
		f(0, "1", time.Second)
		f(1, "18", 2*time.Hour)
		f(2, "19", 2*time.Hour)
		f(3, "99", 2*time.Hour)
		refused := func(code int, req *codec.Command) {
			t.Helper()
			answer := b.do(req)
			require.Equal(t, code, answer.Code, answer.Remark)
			require.NotEmpty(t, answer.Remark)
		}
		for _, none := range []string{"0", "-1"} {
			at := b.store.MaxOffset("T", 0)
			b.mustSend("T", 0, "DELAY\x01"+none, none)
			answer := await(t, b.begin(pullRequest("g", "T", 0, at, time.Minute)))
			require.Equal(t, []string{none}, bodies(t, answer))
		}
		refused(codec.RespMessageIllegal, sendRequest("T", 0, "DELAY\x01abc", []byte("m")))
		refused(codec.RespMessageIllegal, sendRequest("T", 0, "DELAY\x0199999999999999999999", []byte("m")))
		refused(codec.RespMessageIllegal, batchRequest("T", "", append(batchEntry(t, "m", ""),
			batchEntry(t, "m", "DELAY\x013")...)))
		refused(codec.RespMessageIllegal, batchRequest("T", "DELAY\x013", batchEntry(t, "m", "")))
		refused(codec.RespMessageIllegal, sendRequest("T", 0, "TIMER_DELAY_SEC\x019223372036854775807", []byte("m")))
		for _, timer := range []string{"TIMER_DELAY_SEC\x015", "TIMER_DELAY_MS\x015", "TIMER_DELIVER_MS\x011"} {
			refused(codec.RespMessageIllegal, batchRequest("T", timer, batchEntry(t, "m", "")))
			refused(codec.RespMessageIllegal, batchRequest("T", "", batchEntry(t, "m", timer)))
		}
		hi := b.store.MaxOffset("T", 0)
		time.Sleep(3 * time.Hour)
		require.Equal(t, hi, b.store.MaxOffset("T", 0), "what was refused is never delivered")
	})
}

// What a send is refused for, in Java's order and words.
func TestSendRefusals(t *testing.T) {
	b := startBroker(t, "autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false\n")
	b.createTopic("T", 4, 6)
	f := func(code int, remark string, req *codec.Command) {
		t.Helper()
		answer := b.do(req)
		require.Equal(t, code, answer.Code, answer.Remark)
		require.Contains(t, answer.Remark, remark)
		require.Equal(t, "DefaultRegion", answer.Get("MSG_REGION"))
		require.Equal(t, "true", answer.Get("TRACE_ON"))
	}
	with := func(alter func(h *codec.SendMessageHeader)) *codec.Command {
		return sendWith("T", []byte("m"), alter)
	}
	f(codec.RespTopicNotExist, "topic[unknown] not exist, apply first please!",
		sendRequest("unknown", 0, "", []byte("m")))
	f(codec.RespInvalidParameter, "request queueId[4] is illegal, T", sendRequest("T", 4, "", []byte("m")))
	f(codec.RespMessageIllegal, "rolled back", with(func(h *codec.SendMessageHeader) {
		h.SysFlag = codec.SysFlagTransactionRollback
	}))
	f(codec.RespMessageIllegal, "inner batch",
		with(func(h *codec.SendMessageHeader) { h.SysFlag = codec.SysFlagInnerBatch }))
	f(codec.RespMessageIllegal, "INNER_NUM", sendRequest("T", 0, "INNER_NUM\x015", []byte("m")))
	f(codec.RespSubscriptionGroupNotExist, "subscription group not exist, G",
		sendRequest(codec.RetryTopic("G"), 0, "", []byte("m")))
	f(codec.RespMessageIllegal, "no body", sendRequest("T", 0, "", nil))

	b.mustSend("T", 0, "TRAN_MSG\x01false", "m")
	b.mustSend("T", 0, "TRAN_MSG\x01yes", "m")
	for range 20 {
		answer := b.mustSend("T", -1, "", "m")
		require.Contains(t, []string{"0", "1", "2", "3"}, answer.Get("queueId"), "any queue")
	}
	// A client learns from the route that it may not write; until then what it sends is taken, as with Java.
	b.createTopic("T", 4, 4)
	b.mustSend("T", 0, "", "m")
	require.Nil(t, b.topics.Get("unknown"))
	require.Nil(t, b.topics.Get(codec.RetryTopic("G")))
}

// A topic of cleanup.policy COMPACTION wants keys.
func TestCompactionTopicWantsKeys(t *testing.T) {
	b := startBroker(t, "")
	b.mustCall(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: "C", DefaultTopic: "TBW102",
		ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG",
		Attributes: "+cleanup.policy=COMPACTION"}, nil)
	answer := b.send("C", 0, "", []byte("m"))
	require.Equal(t, codec.RespMessageIllegal, answer.Code)
	require.Equal(t, "Required message key is missing", answer.Remark)
	b.mustSend("C", 0, "KEYS\x01k", "m")
}

// A broker without write permission refuses order topics only (Java); others are told by the route.
func TestSendWithoutBrokerPermission(t *testing.T) {
	b := startBroker(t, "brokerPermission=4\n")
	order := codec.CreateTopicRequestHeader{Topic: "O", DefaultTopic: "TBW102", ReadQueueNums: 1,
		WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG", Order: true}
	b.mustCall(codec.ReqUpdateAndCreateTopic, &order, nil)
	require.NoError(t, b.topics.SetOrder("O"))
	answer := b.send("O", 0, "", []byte("m"))
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Equal(t, fmt.Sprintf("the broker[%s] sending message is forbidden", b.AdvertisedAddr()),
		answer.Remark)
	b.mustSend("T", 0, "", "m")
	b.createGroup("G", nil)
	require.Equal(t, codec.RespNoPermission, b.sendBack("G", 0, 1, nil).Code)
}

// startAcceptSendRequestTimeStamp keeps producers out until then.
func TestNotBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Minute)
		b := start(t, setup{fs: vfs.NewMem(), virtual: true,
			conf: fmt.Sprintf("startAcceptSendRequestTimeStamp=%d\n", at.UnixMilli())})
		answer := b.send("T", 0, "", []byte("m"))
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, "broker unable to service, until "+at.Format("2006-01-02 15:04:05,000"), answer.Remark)
		require.Nil(t, b.topics.Get("T"))
		time.Sleep(time.Minute)
		b.mustSend("T", 0, "", "m")
	})
}

// Topics are made by their template, and by nothing else.
func TestTopicCreationDoors(t *testing.T) {
	b := startBroker(t, "defaultTopicQueueNums=8\n")
	send := func(name, template string, queues int) *codec.Command {
		t.Helper()
		return b.do(sendWith(name, []byte("m"), func(h *codec.SendMessageHeader) {
			h.DefaultTopic, h.DefaultTopicQueueNums = []byte(template), int32(queues)
		}))
	}
	made := func(name string) [3]int32 {
		c := b.topics.Get(name).Config
		return [3]int32{c.ReadQueueNums, c.WriteQueueNums, c.Perm}
	}
	require.Equal(t, codec.RespSuccess, send("A", "TBW102", 4).Code)
	require.Equal(t, [3]int32{4, 4, 6}, made("A"))
	require.Equal(t, codec.RespSuccess, send("B", "TBW102", 100).Code)
	require.Equal(t, [3]int32{8, 8, 6}, made("B"), "no more than the template has")
	require.Equal(t, codec.RespSuccess, send("C", "TBW102", 0).Code)
	require.Equal(t, int32(1), made("C")[0])
	require.Equal(t, codec.RespSuccess, send("N", "TBW102", -5).Code)
	require.Equal(t, int32(1), made("N")[0])
	require.Equal(t, codec.RespTopicNotExist, send("D", "A", 4).Code, "a topic that is no template")
	require.Equal(t, codec.RespTopicNotExist, send("D", "unknown", 4).Code)
	require.Equal(t, codec.RespTopicNotExist, send("D", "", 4).Code)
	// What will be refused makes no topic: too long, no body, a bad name, a transaction.
	for name, req := range map[string]*codec.Command{
		"E1": sendRequest("E1", 0, "", make([]byte, 4<<20+1)),
		"E2": sendRequest("E2", 0, "", nil),
	} {
		require.NotEqual(t, codec.RespSuccess, b.do(req).Code)
		require.Nil(t, b.topics.Get(name))
	}
	// Other doors: pulls, queries, heartbeats, offsets, locks, send-back of an unknown group.
	b.pull("F", 0, 0)
	b.call(codec.ReqGetMaxOffset, &codec.GetMaxOffsetRequestHeader{Topic: "F"}, nil)
	b.call(codec.ReqGetMinOffset, &codec.TopicQueueRequestHeader{Topic: "F"}, nil)
	b.call(codec.ReqSearchOffsetByTimestamp, &codec.SearchOffsetRequestHeader{Topic: "F", Timestamp: 1}, nil)
	b.call(codec.ReqGetEarliestMsgStoreTime, &codec.TopicQueueRequestHeader{Topic: "F"}, nil)
	b.call(codec.ReqQueryMessage, &codec.QueryMessageRequestHeader{Topic: "F", Key: "k", MaxNum: 32}, nil)
	b.call(codec.ReqGetTopicStatsInfo, &codec.TopicRequestHeader{Topic: "F"}, nil)
	b.call(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "g", Topic: "F"},
		nil)
	b.call(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "g",
		Topic: "F"}, nil)
	b.beat("c1", consumer(t, "g", 1, "F *"))
	b.lock("g", "c1", b.queue("F", 0))
	require.Nil(t, b.topics.Get("F"))
	require.Empty(t, b.store.Queues("F"))
	_, found := b.offsets.Query("g", "F", 0)
	require.False(t, found)
	require.NotNil(t, b.topics.Get(codec.RetryTopic("g")), "a heartbeat makes the retry topic")
}

// One-way requests are never answered, whatever becomes of them; what follows on the connection is.
func TestOnewayIsNeverAnswered(t *testing.T) {
	b := startBroker(t, "autoCreateSubscriptionGroup=false\n")
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	reqs := []*codec.Command{sendRequest("T", 0, "", []byte("one way")), sendRequest("T", 99, "", []byte("m")),
		sendRequest("", 0, "", []byte("m")), sendRequest("N", 0, "", []byte("new topic")),
		sendRequest("T", 0, "", nil),
		sendRequest(codec.RetryTopic("G"), 0, "", []byte("m")), batchRequest("T", "", []byte("rubbish")),
		pullRequest("g", "T", 0, 0, 0), pullRequest("g", "T", 0, 1, time.Minute),
		pullRequest("g", "unknown", 0, 0, 0),
		request(codec.ReqHeartBeat, nil, []byte("rubbish")), request(codec.ReqGetMaxOffset, nil, nil),
		request(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "g",
			Topic: "T"}, nil),
		request(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Group: "G"}, nil),
		request(31999, nil, nil), request(codec.ReqGetBrokerRuntimeInfo, nil, nil)}
	nc := rawConn(t, b)
	var frames []byte
	for i, req := range reqs {
		req.Opaque, req.Flag = int32(1000+i), codec.FlagOneway
		frames = req.AppendTo(frames)
	}
	_, err := nc.Write(frames)
	require.NoError(t, err)
	// Answers of pools may come in any order, so every pool is asked once afterwards.
	last := []*codec.Command{sendRequest("T", 0, "", []byte("answered")), pullRequest("g", "T", 0, 0, 0),
		request(codec.ReqGetMaxOffset, &codec.GetMaxOffsetRequestHeader{Topic: "T"}, nil),
		request(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "g",
			Topic: "T"}, nil),
		request(codec.ReqHeartBeat, nil, []byte("rubbish"))}
	frames = nil
	for i, req := range last {
		req.Opaque = int32(i)
		frames = req.AppendTo(frames)
	}
	_, err = nc.Write(frames)
	require.NoError(t, err)
	for range last {
		answer := readCommand(t, nc)
		require.Less(t, int(answer.Opaque), len(last), "%d %s", answer.Opaque, answer.Remark)
	}
	b.waitQueue("T", 0, 3)
	b.waitQueue("N", 0, 1)
	require.Zero(t, b.Parked())
}

// pipeline writes n sends at once, in both header encodings, and gives the answers by opaque, and the order
// they came in.
func pipeline(t *testing.T, b *testBroker, n int,
	topicOf func(i int) string) (answers map[int32]*codec.Command, order []int32) {
	t.Helper()
	nc := rawConn(t, b)
	var frames []byte
	for i := range n {
		req := sendRequest(topicOf(i), 0, "", []byte(fmt.Sprintf("%04d%s", i, strings.Repeat("x", 400))))
		req.Opaque = int32(i)
		if i%3 == 0 {
			req.Type = codec.SerializeROCKETMQ
		}
		frames = req.AppendTo(frames)
	}
	go func() { _, _ = nc.Write(frames) }()
	answers = map[int32]*codec.Command{}
	for range n {
		answer := readCommand(t, nc)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, answer.Opaque%3 == 0, answer.Type == codec.SerializeROCKETMQ)
		require.NotContains(t, answers, answer.Opaque)
		answers[answer.Opaque] = answer
		order = append(order, answer.Opaque)
	}
	return answers, order
}

// Sends of one connection are stored and answered in the order they came.
func TestPipelinedOrder(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 1, 6)
	const n = 500
	answers, order := pipeline(t, b, n, func(int) string { return "T" })
	for i := range n {
		require.EqualValues(t, i, order[i])
		require.Equal(t, fmt.Sprint(i), answers[int32(i)].Get("queueOffset"))
	}
}

// Among them may be some that the loop hands to the pool: they make a topic, or a log file begins. Each is
// stored once.
func TestPipelinedWithWaits(t *testing.T) {
	b := startBroker(t, "mappedFileSizeCommitLog=65536\nbrokerFastFailureEnable=false\n")
	const n = 500
	answers, _ := pipeline(t, b, n, func(i int) string {
		if i%50 == 25 {
			return fmt.Sprint("new-", i)
		}
		return "T"
	})
	require.Len(t, answers, n)
	b.waitQueue("T", 0, n-n/50)
	seen := map[string]bool{}
	for i, rec := range b.all("T", 0) {
		require.EqualValues(t, i, rec.QueueOffset)
		seen[string(rec.Body[:4])] = true
	}
	require.Len(t, seen, n-n/50)
}

// The VIP port serves everything but pulls (Java's fast server).
func TestVIPPort(t *testing.T) {
	b := startBroker(t, "")
	vip := b.dialTo(b.engine.Addrs()[1].String(), client.Options{})
	vip.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	for _, code := range []int{codec.ReqPullMessage, codec.ReqLitePullMessage} {
		req := pullRequest("g", "T", 0, 0, 0)
		req.Code = code
		answer := vip.do(req)
		require.Equal(t, codec.RespRequestCodeNotSupported, answer.Code)
		require.Equal(t, fmt.Sprintf(" request type %d not supported", code), answer.Remark)
	}
	vip.beat("c1", consumer(t, "g", 1, "T *"))
	vip.mustCall(codec.ReqGetMaxOffset, &codec.GetMaxOffsetRequestHeader{Topic: "T"}, nil)
	answer, _ := b.pull("T", 0, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
}

// Delayed messages are delivered after a stop and after a kill, at their time or at once when it has passed.
func TestDelayedMessagesSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true})
		b.createTopic("T", 1, 6)
		for i, level := range []string{"3", "4", "5"} { // 10 s, 30 s, 1 m
			b.mustSend("T", 0, "DELAY\x01"+level, fmt.Sprint(i))
		}
		synctest.Wait()
		began := time.Now()
		delivered := func() int {
			seen := map[string]bool{} // after a kill some come twice
			for _, rec := range b.all("T", 0) {
				seen[string(rec.Body)] = true
			}
			return len(seen)
		}
		b = b.restart()
		b.eventually(func() bool { return delivered() == 1 })
		require.InDelta(t, 10, time.Since(began).Seconds(), 1)
		b = b.kill()
		b.eventually(func() bool { return delivered() == 2 })
		require.InDelta(t, 30, time.Since(began).Seconds(), 1)
		b.peer.Close()
		b.stop()
		time.Sleep(time.Hour)
		b = start(t, b.s)
		b.waitQueue("T", 0, 3)
		b.eventually(func() bool { return delivered() == 3 })
		require.InDelta(t, 3630, time.Since(began).Seconds(), 2, "at once")
	})
}
