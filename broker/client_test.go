package broker

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// members asks for the client ids of a group, as clients do before they divide the queues.
func (p *peer) members(groupName string) []string {
	p.t.Helper()
	answer := p.call(codec.ReqGetConsumerListByGroup,
		&codec.ConsumerGroupRequestHeader{ConsumerGroup: groupName}, nil)
	if answer.Code != codec.RespSuccess {
		require.Equal(p.t, codec.RespSystemError, answer.Code)
		require.Equal(p.t, "no consumer for this group, "+groupName, answer.Remark)
		return nil
	}
	var list body.GetConsumerListByGroupResponseBody
	require.NoError(p.t, body.Decode(answer.Body, &list))
	return list.ConsumerIDList
}

// notices are the groups whose change a client was told of since it was last asked. It must be quiet when it
// is asked.
func (p *peer) notices() (out []string) {
	p.t.Helper()
	for {
		select {
		case req := <-p.requests:
			require.Equal(p.t, codec.ReqNotifyConsumerIDsChanged, req.Code)
			require.True(p.t, req.IsOneway())
			out = append(out, req.Get("consumerGroup"))
		default:
			return out
		}
	}
}

func virtual(t *testing.T, conf string) *testBroker {
	return start(t, setup{fs: vfs.NewMem(), virtual: true, conf: "serverChannelMaxIdleTimeSeconds=1000000\n" +
		conf})
}

// Members come and go: by heartbeat, by word, by the end of their connection. The others are told each time.
func TestMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		one, two, three := b.dial(), b.dial(), b.dial()
		require.Nil(t, b.members("G"))
		answer := one.beat("c1", consumer(t, "G", 1, "T *"))
		require.Equal(t, "true", answer.Get(codec.ExtSupportHeartbeatV2))
		require.Equal(t, "true", answer.Get(codec.ExtSubscriptionChanged), "V1 clients always send all")
		synctest.Wait()
		require.Equal(t, []string{"G"}, one.notices())
		two.beat("c2", consumer(t, "G", 1, "T *"), consumer(t, "H", 1, "T *"))
		synctest.Wait()
		require.Equal(t, []string{"G"}, one.notices())
		require.ElementsMatch(t, []string{"G", "H"}, two.notices())
		require.ElementsMatch(t, []string{"c1", "c2"}, b.members("G"))
		two.beat("c2", consumer(t, "G", 1, "T *"), consumer(t, "H", 1, "T *"))
		synctest.Wait()
		require.Empty(t, one.notices(), "nothing has changed")
		one.beat("c1", consumer(t, "G", 2, "T A"))
		synctest.Wait()
		require.Empty(t, two.notices(), "nor has the membership")
		one.beat("c1", consumer(t, "G", 3, "T A", "T2 *"))
		synctest.Wait()
		require.Equal(t, []string{"G"}, two.notices(), "a new topic to divide")
		one.notices()
		three.beat("c3", consumer(t, "G", 3, "T A", "T2 *"))
		synctest.Wait()
		one.notices()
		two.notices()
		three.notices()

		one.mustCall(codec.ReqUnregisterClient, &codec.UnregisterClientRequestHeader{ClientID: "c1",
			ConsumerGroup: "G"}, nil)
		synctest.Wait()
		require.ElementsMatch(t, []string{"c2", "c3"}, b.members("G"))
		require.Equal(t, []string{"G"}, two.notices())
		require.Equal(t, []string{"G"}, three.notices())
		require.Empty(t, one.notices())
		two.Conn.Close()
		synctest.Wait()
		require.Equal(t, []string{"c3"}, b.members("G"))
		require.Nil(t, b.members("H"))
		require.Equal(t, []string{"G"}, three.notices())
		three.Conn.Close()
		synctest.Wait()
		require.Nil(t, b.members("G"))
		require.NotNil(t, b.groups.Get("G"), "the group itself stays")
	})
}

// A client that sends no heartbeat for channelExpiredTimeout is taken out, its connection closed, and the
// others told.
func TestSilentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		silent, alive, producer := b.dial(), b.dial(), b.dial()
		silent.beat("c1", consumer(t, "G", 1, "T *"))
		require.Equal(t, codec.RespSuccess, producer.tryBeat(&body.HeartbeatData{ClientID: "p1",
			ProducerDataSet: []*body.ProducerData{{GroupName: "P"}}}).Code)
		for range 4 {
			alive.beat("c2", consumer(t, "G", 1, "T *"))
			time.Sleep(29 * time.Second)
		}
		require.ElementsMatch(t, []string{"c1", "c2"}, b.members("G"))
		require.Len(t, b.producers.Clients("P"), 1)
		alive.notices()
		alive.beat("c2", consumer(t, "G", 1, "T *"))
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"c2"}, b.members("G"))
		require.Empty(t, b.producers.Clients("P"))
		require.Equal(t, []string{"G"}, alive.notices())
		for _, p := range []*peer{silent, producer} {
			select {
			case <-p.Done():
				require.ErrorIs(t, p.Err(), io.EOF)
			default:
				require.Fail(t, "the connection is still open")
			}
		}
	})
}

// A V2 client sends its subscriptions once; it is asked for them again by a broker that does not know them.
func TestHeartbeatV2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		full := func(version int64) *body.HeartbeatData {
			hb := heartbeat("c1", consumer(t, "G", version, "T A"))
			hb.HeartbeatFingerprint = 42
			return hb
		}
		short := func() *body.HeartbeatData {
			return &body.HeartbeatData{ClientID: "c1", HeartbeatFingerprint: 42, WithoutSub: true,
				ConsumerDataSet: []*body.ConsumerData{{GroupName: "G", ConsumeType: body.ConsumePassively,
					MessageModel: body.Clustering, ConsumeFromWhere: body.FromLastOffset}}}
		}
		f := func(p *peer, hb *body.HeartbeatData, resend string) {
			t.Helper()
			answer := p.tryBeat(hb)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			require.Equal(t, resend, answer.Get(codec.ExtSubscriptionChanged))
			require.Equal(t, "true", answer.Get(codec.ExtSupportHeartbeatV2))
		}
		f(b.peer, short(), "true")
		require.Equal(t, []string{"c1"}, b.members("G"), "a member all the same")
		f(b.peer, full(1), "false")
		for range 10 {
			time.Sleep(30 * time.Second)
			f(b.peer, short(), "false")
		}
		require.Equal(t, []string{"c1"}, b.members("G"))
		require.Equal(t, "A", b.consumers.Get("G").Subscription([]byte("T")).Data.SubString)
		b = b.restart()
		f(b.peer, short(), "true")
		f(b.peer, full(2), "false")
		f(b.peer, short(), "false")
		require.NotNil(t, b.consumers.Get("G").Subscription([]byte("T")))
	})
}

// notifyConsumerIdsChangedEnable of broker and group, realTimeNotifyConsumerChange, and broadcasting groups.
func TestWhoIsToldOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		b.createGroup("quiet", func(g *body.SubscriptionGroupConfig) { g.NotifyConsumerIDsChangedEnable = false })
		one, two := b.dial(), b.dial()
		broadcast := consumer(t, "B", 1, "T *")
		broadcast.MessageModel = body.Broadcasting
		one.beat("c1", consumer(t, "quiet", 1, "T *"), broadcast)
		two.beat("c2", consumer(t, "quiet", 1, "T *"), broadcast)
		synctest.Wait()
		require.Empty(t, one.notices())
		two.Conn.Close()
		synctest.Wait()
		require.Empty(t, one.notices())
	})
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "realTimeNotifyConsumerChange=false\n")
		one, two := b.dial(), b.dial()
		one.beat("c1", consumer(t, "G", 1, "T *"))
		two.beat("c2", consumer(t, "G", 1, "T *"))
		time.Sleep(5 * time.Second)
		two.Conn.Close()
		synctest.Wait()
		require.Empty(t, one.notices(), "later")
		time.Sleep(15 * time.Second)
		require.Equal(t, []string{"G"}, one.notices(), "all changes in one")
		time.Sleep(time.Minute)
		require.Empty(t, one.notices())
	})
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "notifyConsumerIdsChangedEnable=false\n")
		one := b.dial()
		one.beat("c1", consumer(t, "G", 1, "T *"))
		synctest.Wait()
		require.Empty(t, one.notices())
	})
}

// rejectPullConsumerEnable wants every consumer to be a member, or its group to push.
func TestRejectPullConsumer(t *testing.T) {
	b := startBroker(t, "rejectPullConsumerEnable=true\n")
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	answer, _ := b.pull("T", 0, 0)
	require.Equal(t, codec.RespSubscriptionNotExist, answer.Code)
	require.Contains(t, answer.Remark, "the pull consumer is rejected by server.")
	pulls := consumer(t, "g", 1, "T *")
	pulls.ConsumeType = body.ConsumeActively
	b.beat("c1", pulls)
	answer, _ = b.pull("T", 0, 0)
	require.Equal(t, codec.RespSubscriptionNotExist, answer.Code,
		"heartbeats of consumers that pull do not count")
	b.beat("c1", consumer(t, "g", 1, "T *"))
	answer, _ = b.pull("T", 0, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
	answer, _ = b.pulled(b.dial().do(pullRequest("g", "T", 0, 0, 0)))
	require.Equal(t, codec.RespSuccess, answer.Code, "a member that has only just connected")
}

// A heartbeat may name groups that do not exist: the others are registered all the same, as in Java.
func TestHeartbeatOfUnknownGroup(t *testing.T) {
	b := startBroker(t, "autoCreateSubscriptionGroup=false\n")
	b.createGroup("G", nil)
	b.beat("c1", consumer(t, "unknown", 1, "T *"), consumer(t, "G", 1, "T *"))
	require.Nil(t, b.members("unknown"))
	require.Equal(t, []string{"c1"}, b.members("G"))
	require.Nil(t, b.topics.Get(codec.RetryTopic("unknown")))
	require.Contains(t, b.log.String(), "unknown")
	answer := b.do(pullRequest("unknown", "T", 0, 0, 0))
	require.Equal(t, codec.RespSubscriptionGroupNotExist, answer.Code)
}

// A connection that ends while its heartbeat is served leaves no ghost behind.
func TestNoGhostMembers(t *testing.T) {
	b := startBroker(t, "")
	rounds := 300
	if raceEnabled {
		rounds = 100
	}
	for i := range rounds {
		c, err := client.Dial(t.Context(), b.Addr().String(), client.Options{})
		require.NoError(t, err)
		data, err := body.Encode(heartbeat(fmt.Sprint("c", i), consumer(t, "G", 1, "T *")))
		require.NoError(t, err)
		req := request(codec.ReqHeartBeat, nil, data)
		require.NoError(t, c.Oneway(req))
		pull := pullRequest("G", "T", 0, 0, time.Hour)
		require.NoError(t, c.Send(pull))
		c.Close()
	}
	b.eventually(func() bool { return b.consumers.Get("G") == nil && b.Parked() == 0 })
	b.createTopic("T", 1, 6)
	b.eventually(func() bool { return b.consumers.Get("G") == nil && b.Parked() == 0 })
}

// The tables that tools see of clients.
func TestConnectionTables(t *testing.T) {
	b := startBroker(t, "")
	c := b.dial()
	hb := heartbeat("c1", consumer(t, "G", 7, "T A || B"))
	hb.ProducerDataSet = []*body.ProducerData{{GroupName: "P"}}
	require.Equal(t, codec.RespSuccess, c.tryBeat(hb).Code)

	var consumers body.ConsumerConnection
	b.mustCall(codec.ReqGetConsumerConnectionList, &codec.ConsumerGroupRequestHeader{ConsumerGroup: "G"},
		&consumers)
	require.Equal(t, body.ConsumePassively, consumers.ConsumeType)
	require.Equal(t, body.Clustering, consumers.MessageModel)
	require.Equal(t, body.FromLastOffset, consumers.ConsumeFromWhere)
	require.Len(t, consumers.ConnectionSet, 1)
	require.Equal(t, "c1", consumers.ConnectionSet[0].ClientID)
	require.Equal(t, c.LocalAddr().String(), consumers.ConnectionSet[0].ClientAddr)
	require.EqualValues(t, codec.AnnouncedVersion, consumers.ConnectionSet[0].Version)
	sub := consumers.SubscriptionTable["T"]
	require.NotNil(t, sub)
	require.Equal(t, "A || B", sub.SubString)
	require.ElementsMatch(t, []string{"A", "B"}, sub.TagsSet)
	require.EqualValues(t, 7, sub.SubVersion)
	answer := b.call(codec.ReqGetConsumerConnectionList, &codec.ConsumerGroupRequestHeader{ConsumerGroup: "no"},
		nil)
	require.Equal(t, codec.RespConsumerNotOnline, answer.Code)
	require.Equal(t, "the consumer group[no] not online", answer.Remark)

	var producers body.ProducerConnection
	b.mustCall(codec.ReqGetProducerConnectionList, &codec.ProducerGroupRequestHeader{ProducerGroup: "P"},
		&producers)
	require.Len(t, producers.ConnectionSet, 1)
	answer = b.call(codec.ReqGetProducerConnectionList, &codec.ProducerGroupRequestHeader{ProducerGroup: "no"},
		nil)
	require.Equal(t, codec.RespSystemError, answer.Code)
	require.Equal(t, "the producer group[no] not exist", answer.Remark)

	var all body.ProducerTableInfo
	b.mustCall(codec.ReqGetAllProducerInfo, nil, &all)
	require.Len(t, all.Data["P"], 1)
	require.Equal(t, "c1", all.Data["P"][0].ClientID)

	var groups body.GroupList
	b.mustCall(codec.ReqQueryTopicConsumeByWho, &codec.TopicRequestHeader{Topic: "T"}, &groups)
	require.Equal(t, []string{"G"}, groups.GroupList)

	c.mustCall(codec.ReqUnregisterClient, &codec.UnregisterClientRequestHeader{ClientID: "c1",
		ProducerGroup: "P", ConsumerGroup: "G"}, nil)
	require.Empty(t, b.producers.Clients("P"))
	require.Nil(t, b.members("G"))
}

// What tools ask of a client goes through the broker: 307 and 309.
func TestForwardedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		sent := b.mustSend("T", 2, "", "run me")
		b.waitQueue("T", 2, 1)
		c := b.dial()
		mode := "answer"
		c.serve = func(req *codec.Command) *codec.Command {
			switch mode {
			case "silent":
				return nil
			case "refuse":
				return codec.NewResponse(req, codec.RespSystemError, "no")
			}
			answer := codec.NewResponse(req, codec.RespSuccess, "done")
			answer.Body = append([]byte("echo "), req.Body...)
			answer.Set("x", "y")
			return answer
		}
		c.beat("c1", consumer(t, "G", 1, "T *"))
		synctest.Wait()
		c.notices()
		info := func(clientID string) *codec.Command {
			return b.call(codec.ReqGetConsumerRunningInfo,
				&codec.GetConsumerRunningInfoRequestHeader{ConsumerGroup: "G", ClientID: clientID, JstackEnable: true},
				nil)
		}
		answer := info("c1")
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, []string{"done", "echo ", "y"}, []string{answer.Remark, string(answer.Body),
			answer.Get("x")})
		req := <-c.requests
		require.Equal(t, codec.ReqGetConsumerRunningInfo, req.Code)
		require.Equal(t, []string{"G", "c1", "true"}, []string{req.Get("consumerGroup"), req.Get("clientId"),
			req.Get("jstackEnable")})

		directly := func(id string) *codec.Command {
			return b.call(codec.ReqConsumeMessageDirectly,
				&codec.ConsumeMessageDirectlyRequestHeader{ConsumerGroup: "G", ClientID: "c1", MsgID: id}, nil)
		}
		answer = directly(sent.Get("msgId"))
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		rec := records(t, answer.Body[len("echo "):])[0]
		require.Equal(t, "run me", string(rec.Body))
		req = <-c.requests
		require.Equal(t, []string{"broker-a", "0", "0"}, []string{req.Get("brokerName"), req.Get("topicSysFlag"),
			req.Get("groupSysFlag")})
		withMessage := request(codec.ReqConsumeMessageDirectly, &codec.ConsumeMessageDirectlyRequestHeader{ConsumerGroup: "G",
			ClientID: "c1"}, answer.Body[len("echo "):])
		answer = b.do(withMessage)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, "run me", string(records(t, answer.Body[len("echo "):])[0].Body), "the message of the request")
		req = <-c.requests
		require.Equal(t, "0", req.Get("topicSysFlag"))
		withMessage.Body = []byte("no message")
		require.Equal(t, codec.RespSystemError, b.do(withMessage).Code)
		answer = directly("")
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "\"msgId\"")
		require.Equal(t, codec.RespSystemError, directly("no id").Code)
		require.Equal(t, codec.RespSystemError, directly(offsetMsgID(b.storeHost, 1<<40)).Code)

		mode = "refuse"
		answer = info("c1")
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, "no", answer.Remark)
		mode = "silent"
		began := time.Now()
		answer = info("c1")
		require.Equal(t, codec.RespConsumeMsgTimeout, answer.Code)
		require.Contains(t, answer.Remark, "consumer <G> <c1> Timeout:")
		require.InDelta(t, 10, time.Since(began).Seconds(), 0.5)
		answer = info("c2")
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, "The Consumer <G> <c2> not online", answer.Remark)

		pending := b.begin(request(codec.ReqGetConsumerRunningInfo, &codec.GetConsumerRunningInfoRequestHeader{
			ConsumerGroup: "G", ClientID: "c1"}, nil))
		synctest.Wait()
		c.Conn.Close()
		require.Equal(t, codec.RespSystemError, await(t, pending).Code, "the client is gone")

		old := b.dial()
		data, err := body.Encode(heartbeat("old", consumer(t, "G", 1, "T *")))
		require.NoError(t, err)
		hb := request(codec.ReqHeartBeat, nil, data)
		hb.Version = codec.Version318Snapshot - 1
		require.Equal(t, codec.RespSuccess, old.do(hb).Code)
		answer = info("old")
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "too low to finish")
	})
}
