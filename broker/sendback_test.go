package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// sendBack returns a message to the broker; alter may be nil.
func (p *peer) sendBack(groupName string, at codec.PhyOffset, level int32,
	alter func(h *codec.ConsumerSendMsgBackRequestHeader)) *codec.Command {
	p.t.Helper()
	h := codec.ConsumerSendMsgBackRequestHeader{Offset: at, Group: groupName, DelayLevel: level,
		OriginMsgID: "m", OriginTopic: "T"}
	if alter != nil {
		alter(&h)
	}
	return p.call(codec.ReqConsumerSendMsgBack, &h, nil)
}

// createGroup makes a subscription group as tools do.
func (p *peer) createGroup(name string, alter func(g *body.SubscriptionGroupConfig)) {
	p.t.Helper()
	g := body.SubscriptionGroupConfig{GroupName: name, ConsumeEnable: true, ConsumeBroadcastEnable: true,
		RetryQueueNums: 1, RetryMaxTimes: 16, WhichBrokerWhenConsumeSlowly: 1, NotifyConsumerIDsChangedEnable: true}
	if alter != nil {
		alter(&g)
	}
	data, err := body.Encode(&g)
	require.NoError(p.t, err)
	answer := p.call(codec.ReqUpdateAndCreateSubscriptionGroup, nil, data)
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
}

func prop(t *testing.T, rec codec.Record, name string) string {
	t.Helper()
	v, ok := rec.Property(name)
	require.True(t, ok, "property %s is missing", name)
	return string(v)
}

// A message that is returned again and again comes back after 10 s, 30 s, a minute, and so on, and is dead in
// the end.
func TestRetriesAndDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: "serverChannelMaxIdleTimeSeconds=100000\n"})
		b.createGroup("G", func(g *body.SubscriptionGroupConfig) { g.RetryMaxTimes = 3 })
		first := offsetOf(t, b.mustSend("T", 2, "TAGS\x01A\x02KEYS\x01k\x02mine\x01yes", "again"))
		at, retry := first, codec.RetryTopic("G")
		for times, delay := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute} {
			began := time.Now()
			require.Equal(t, codec.RespSuccess, b.sendBack("G", at, 0, nil).Code)
			answer, h := b.pulled(awaitFor(t, b.begin(pullRequest("G", retry, 0, codec.QueueOffset(times),
				maxSuspend)), maxSuspend))
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			require.InDelta(t, delay.Seconds(), time.Since(began).Seconds(), 0.5)
			require.EqualValues(t, times+1, h.NextBeginOffset)
			rec := records(t, answer.Body)[0]
			at = rec.PhyOffset
			require.EqualValues(t, times+1, rec.ReconsumeTimes)
			require.Equal(t, "again", string(rec.Body))
			require.Equal(t, "T", prop(t, rec, codec.PropRetryTopic))
			require.Equal(t, offsetMsgID(b.storeHost, first), prop(t, rec, codec.PropOriginMessageID))
			require.Equal(t, []string{"A", "k", "yes"}, []string{prop(t, rec, "TAGS"), prop(t, rec, "KEYS"),
				prop(t, rec, "mine")})
			require.Equal(t, fmt.Sprint(3+times), prop(t, rec, codec.PropDelayTimeLevel))
		}
		require.Equal(t, codec.RespSuccess, b.sendBack("G", at, 16, nil).Code)
		dlq := codec.DLQTopic("G")
		synctest.Wait()
		require.EqualValues(t, 1, b.store.MaxOffset(dlq, 0), "dead at once, whatever level was asked for")
		rec := b.all(dlq, 0)[0]
		require.EqualValues(t, 4, rec.ReconsumeTimes)
		require.Equal(t, "T", prop(t, rec, codec.PropRetryTopic))
		_, delayed := rec.Property(codec.PropDelayTimeLevel)
		require.False(t, delayed)
		require.EqualValues(t, codec.PermRead|codec.PermWrite, b.topics.Get(dlq).Config.Perm)
		require.EqualValues(t, 4, b.stat("SNDBCK_PUT_NUMS", "T@G").StatsHour.Sum)
	})
}

// What decides over a returned message: the request, the group, the queues of its retry topic.
func TestSendBackRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: "autoCreateSubscriptionGroup=false\n"})
		at := offsetOf(t, b.mustSend("T", 0, "", "m"))
		dead := func(g string) codec.QueueOffset { return b.store.MaxOffset(codec.DLQTopic(g), 0) }
		retried := func(g string) codec.QueueOffset { return b.store.MaxOffset(codec.RetryTopic(g), 0) }

		require.Equal(t, codec.RespSubscriptionGroupNotExist, b.sendBack("unknown", at, 0, nil).Code)
		require.Nil(t, b.topics.Get(codec.RetryTopic("unknown")))

		b.createGroup("G", nil)
		for _, bad := range []codec.PhyOffset{-1, 1 << 40, at + 1} {
			answer := b.sendBack("G", bad, 0, nil)
			require.Equal(t, codec.RespSystemError, answer.Code)
			require.Contains(t, answer.Remark, fmt.Sprintf("look message by offset failed, %d", bad))
		}
		require.Equal(t, codec.RespSuccess, b.sendBack("G", at, -1, nil).Code)
		synctest.Wait()
		require.EqualValues(t, 1, dead("G"), "a negative level is the dead letter queue")
		zero, many := int32(0), int32(1<<31-1)
		limit := func(n *int32) func(h *codec.ConsumerSendMsgBackRequestHeader) {
			return func(h *codec.ConsumerSendMsgBackRequestHeader) { h.MaxReconsumeTimes = n }
		}
		require.Equal(t, codec.RespSuccess, b.sendBack("G", at, 1, limit(&zero)).Code)
		synctest.Wait()
		require.EqualValues(t, 2, dead("G"), "the client's limit counts")
		old := request(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Offset: at, Group: "G",
			DelayLevel: 1, MaxReconsumeTimes: &zero}, nil)
		old.Version = codec.Version349 - 1
		require.Equal(t, codec.RespSuccess, b.do(old).Code)
		require.Equal(t, codec.RespSuccess, b.sendBack("G", at, 99, limit(&many)).Code,
			"the highest level is meant")
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, dead("G"), "not the limit of an old client")
		require.EqualValues(t, 1, retried("G"))
		time.Sleep(2*time.Hour + time.Second)
		require.EqualValues(t, 2, retried("G"))

		b = b.restart()
		b.createGroup("none", func(g *body.SubscriptionGroupConfig) { g.RetryQueueNums = 0 })
		require.Equal(t, codec.RespSuccess, b.sendBack("none", at, 1, nil).Code)
		require.Nil(t, b.topics.Get(codec.RetryTopic("none")), "a group without retries")
		b.createGroup("wide", func(g *body.SubscriptionGroupConfig) { g.RetryQueueNums = 5 })
		require.Equal(t, codec.RespSuccess, b.sendBack("wide", at, 1, nil).Code)
		require.EqualValues(t, 5, b.topics.Get(codec.RetryTopic("wide")).Config.ReadQueueNums)
		b.createTopic(codec.RetryTopic("G"), 1, codec.PermRead)
		require.Equal(t, codec.RespNoPermission, b.sendBack("G", at, 1, nil).Code)
	})
}

// A consumer whose send-back failed sends to the retry topic itself, with its counts in the header.
func TestSendToRetryTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true})
		b.createGroup("G", func(g *body.SubscriptionGroupConfig) { g.RetryMaxTimes = 2 })
		retry, dlq := codec.RetryTopic("G"), codec.DLQTopic("G")
		send := func(times int32, limit int32, version int) *codec.Command {
			t.Helper()
			req := sendWith(retry, []byte("m"), func(h *codec.SendMessageHeader) {
				h.ReconsumeTimes, h.MaxReconsumeTimes, h.HasMax = times, limit, true
				h.Properties = codec.Field{Value: []byte("DELAY\x011\x02RETRY_TOPIC\x01T")}
			})
			req.Version = version
			answer := b.do(req)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			return answer
		}
		send(3, 3, codec.AnnouncedVersion)
		time.Sleep(1100 * time.Millisecond)
		require.EqualValues(t, 1, b.store.MaxOffset(retry, 0))
		require.Zero(t, b.store.MaxOffset(dlq, 0))
		send(4, 3, codec.AnnouncedVersion)
		synctest.Wait()
		require.EqualValues(t, 1, b.store.MaxOffset(dlq, 0))
		send(2, 0, codec.Version349-1)
		send(3, 9, codec.Version349-1)
		synctest.Wait()
		require.EqualValues(t, 2, b.store.MaxOffset(dlq, 0), "the group's limit for old clients")
		// A group that holds locks consumes in order: its retries go to the dead letters.
		b.lock("G", "c1", b.queue("T", 0))
		send(1, 16, codec.AnnouncedVersion)
		synctest.Wait()
		require.EqualValues(t, 3, b.store.MaxOffset(dlq, 0))
		for _, rec := range b.all(dlq, 0) {
			_, delayed := rec.Property(codec.PropDelayTimeLevel)
			require.False(t, delayed)
			require.EqualValues(t, 0, rec.QueueID)
		}
		answer := b.do(batchRequest(retry, "", batchEntry(t, "m", "")))
		require.Equal(t, codec.RespMessageIllegal, answer.Code)
	})
}
