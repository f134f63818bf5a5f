package broker

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// createTopic makes a topic as tools do.
func (p *peer) createTopic(name string, queues, perm int32) {
	p.t.Helper()
	p.mustCall(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: name,
		DefaultTopic: codec.AutoCreateTopicKey, ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm,
		TopicFilterType: "SINGLE_TAG"}, nil)
}

// Case B09: a pull outside of the queue is told where to go on, never back to 0.
func TestOffsetsOutsideTheQueue(t *testing.T) {
	b := startBroker(t, "")
	for i := range 10 {
		b.mustSend("T", 0, "", fmt.Sprint("m", i))
	}
	b.waitQueue("T", 0, 10)
	b.createTopic("dark", 1, 2)
	f := func(topicName string, queueID int, at codec.QueueOffset, code int, next, lo, hi int64) {
		t.Helper()
		for _, ask := range []int{codec.ReqPullMessage, codec.ReqLitePullMessage} {
			req := pullRequest("g", topicName, queueID, at, 0)
			req.Code = ask
			answer, h := b.pulled(b.do(req))
			require.Equal(t, code, answer.Code, "%s %d %d: %s", topicName, queueID, at, answer.Remark)
			require.EqualValues(t, next, h.NextBeginOffset)
			require.EqualValues(t, lo, h.MinOffset)
			require.EqualValues(t, hi, h.MaxOffset)
			for _, field := range []string{"nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId"} {
				require.NotEmpty(t, answer.Get(field), "Java clients want all four in every answer")
			}
			require.NotEmpty(t, answer.Remark)
		}
	}
	f("T", 0, 10, codec.RespPullNotFound, 10, 0, 10)
	f("T", 0, 11, codec.RespPullOffsetMoved, 10, 0, 10)
	f("T", 0, 1000000, codec.RespPullOffsetMoved, 10, 0, 10)
	f("T", 0, 1<<62, codec.RespPullOffsetMoved, 10, 0, 10)
	f("T", 0, -1, codec.RespPullOffsetMoved, 0, 0, 10)
	f("T", 0, -1<<63, codec.RespPullOffsetMoved, 0, 0, 10)
	f("T", 1, 0, codec.RespPullNotFound, 0, 0, 0)
	f("T", 1, 7, codec.RespPullOffsetMoved, 0, 0, 0)
	f("T", 4, 0, codec.RespInvalidParameter, 0, 0, 0)
	f("T", -1, 0, codec.RespInvalidParameter, 0, 0, 0)
	f("unknown", 0, 0, codec.RespTopicNotExist, 0, 0, 0)
	f("dark", 0, 0, codec.RespNoPermission, 0, 0, 0)
	require.Zero(t, b.Parked())
	require.Nil(t, b.topics.Get("unknown"), "a pull makes no topic")
}

// Case B09 after a clean-up: below the minimum a pull is told the minimum.
func TestOffsetBelowTheMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true,
			conf: "fileReservedTime=1\ndeleteWhen=00;01;02;03;04;05;06;" +
				"07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23\nmappedFileSizeConsumeQueue=2000\n" +
				"serverChannelMaxIdleTimeSeconds=1000000\n"})
		send := func(n int) {
			for range n {
				b.mustSend("T", 0, "", strings.Repeat("x", 10<<10))
			}
		}
		send(300) // three files
		time.Sleep(3 * time.Hour)
		send(10)
		time.Sleep(3 * time.Hour)
		lo := b.store.MinOffset("T", 0)
		require.Positive(t, lo)
		answer, h := b.pull("T", 0, lo-2)
		require.Equal(t, codec.RespPullOffsetMoved, answer.Code)
		require.Equal(t, lo, h.NextBeginOffset)
		require.Equal(t, lo, h.MinOffset)
		require.EqualValues(t, 310, h.MaxOffset)
		b.mustCall(codec.ReqGetMinOffset, &codec.TopicQueueRequestHeader{Topic: "T"}, nil)
		answer, _ = b.pull("T", 0, lo)
		require.Equal(t, codec.RespSuccess, answer.Code)
		// B22 (e): a group that is new to a queue whose beginning is gone.
		answer = b.call(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "new",
			Topic: "T"}, nil)
		require.Equal(t, codec.RespQueryNotFound, answer.Code)
	})
}

// maxSuspend is so long that nobody waits for its end: a test that overlooks an arrival fails.
const maxSuspend = time.Hour

// Case B10: a message that arrives between the miss and the parking of a pull is not overlooked. There is no
// rule that looks again after a while which could hide that.
func TestArrivalWhileParking(t *testing.T) {
	b := startBroker(t, "")
	rounds := 3000
	if testing.Short() || raceEnabled {
		rounds = 300
	}
	producer := b.dial()
	b.mustSend("T", 0, "TAGS\x01none", "first")
	b.waitQueue("T", 0, 1)
	f := func(expression, tags string) {
		t.Helper()
		at := b.store.MaxOffset("T", 0)
		for i := range rounds {
			req := pullWith("g", "T", 0, at, func(h *codec.PullMessageHeader) {
				h.SysFlag |= codec.PullFlagSuspend
				h.SuspendTimeoutMillis, h.Subscription = maxSuspend.Milliseconds(), []byte(expression)
			})
			pulled := b.begin(req)
			for range rand.IntN(4) * 50 { // now and then the pull has the time to park
				runtime.Gosched()
			}
			sent := producer.mustSend("T", 0, "TAGS\x01"+tags, fmt.Sprint(i))
			answer, h := b.pulled(await(t, pulled))
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			require.Equal(t, []string{fmt.Sprint(i)}, bodies(t, answer))
			require.Equal(t, sent.Get("queueOffset"), fmt.Sprint(h.NextBeginOffset-1))
			at = h.NextBeginOffset
		}
		require.Zero(t, b.Parked())
	}
	f("*", "A")
	f("A || B", "B")
}

// Case B10, with a filter that few messages pass.
func TestArrivalOfFilteredMessages(t *testing.T) {
	b := startBroker(t, "")
	b.mustSend("T", 0, "", "first")
	b.waitQueue("T", 0, 1)
	at := codec.QueueOffset(1)
	pull := func() <-chan *codec.Command {
		return b.begin(pullWith("g", "T", 0, at, func(h *codec.PullMessageHeader) {
			h.SysFlag |= codec.PullFlagSuspend
			h.SuspendTimeoutMillis, h.Subscription = maxSuspend.Milliseconds(), []byte("rare")
		}))
	}
	for round := range 5 {
		pulled := pull()
		for i := range 1000 {
			tag := "common"
			if i == 999 {
				tag = "rare"
			}
			b.mustSend("T", 0, "TAGS\x01"+tag, fmt.Sprint(round))
		}
		for { // a client pulls again until it has something
			answer, h := b.pulled(await(t, pulled))
			require.GreaterOrEqual(t, h.NextBeginOffset, at)
			at = h.NextBeginOffset
			if answer.Code == codec.RespSuccess {
				require.Equal(t, []string{fmt.Sprint(round)}, bodies(t, answer))
				break
			}
			require.Equal(t, codec.RespPullRetryImmediately, answer.Code)
			pulled = pull()
		}
	}
	require.Zero(t, b.Parked())
}

// Case B10, last: a parked pull ends with its connection, or after the time it asked for.
func TestParkedPullsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true})
		b.createTopic("T", 4, 6)
		c := b.dial()
		for i := range 100 {
			c.begin(pullRequest("g", "T", i%4, 0, 20*time.Second))
		}
		began := time.Now()
		pulled := b.begin(pullRequest("g", "T", 0, 0, 7*time.Second))
		synctest.Wait()
		require.Equal(t, 101, b.Parked())
		c.Conn.Close()
		synctest.Wait()
		require.Equal(t, 1, b.Parked(), "those of the lost connection are forgotten")
		answer, h := b.pulled(await(t, pulled))
		require.Equal(t, codec.RespPullNotFound, answer.Code)
		require.Zero(t, h.NextBeginOffset)
		require.InDelta(t, 7, time.Since(began).Seconds(), 1)
		require.Zero(t, b.Parked())

		// The broker's end answers what is parked.
		pulled = b.begin(pullRequest("g", "T", 0, 0, 20*time.Second))
		synctest.Wait()
		b.stop()
		require.Equal(t, codec.RespPullNotFound, await(t, pulled).Code)
	})
}

// Case B11 (a) to (d) and (f): the codes of subscriptions that are missing, old or broken.
func TestSubscriptionVersions(t *testing.T) {
	b := startBroker(t, "")
	b.mustSend("T", 0, "TAGS\x01A", "a")
	b.mustSend("T", 0, "TAGS\x01B", "b")
	b.waitQueue("T", 0, 2)
	pull := func(version int64) *codec.Command {
		t.Helper()
		answer, _ := b.pulled(b.do(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
			h.SysFlag, h.Subscription, h.ExpressionType, h.SubVersion = 0, nil, nil, version
		})))
		return answer
	}
	require.Equal(t, codec.RespSubscriptionNotExist, pull(1).Code, "no heartbeat")
	b.beat("c1", consumer(t, "g", 100, "other *"))
	require.Equal(t, codec.RespSubscriptionNotExist, pull(1).Code, "not subscribed")
	b.beat("c1", consumer(t, "g", 100, "T A"))
	require.Equal(t, codec.RespSubscriptionNotLatest, pull(101).Code)
	b.beat("c1", consumer(t, "g", 101, "T B"))
	answer := pull(101)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.Equal(t, []string{"b"}, bodies(t, answer))
	b.beat("c1", consumer(t, "g", 100, "T A"))
	require.Equal(t, []string{"b"}, bodies(t, pull(101)), "an older heartbeat changes nothing")
	require.Equal(t, []string{"b"}, bodies(t, pull(100)))

	// (f), each expression by the pull's own flag.
	f := func(typ, expression string, code int) {
		t.Helper()
		answer := b.do(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
			h.Subscription, h.ExpressionType = []byte(expression), []byte(typ)
		}))
		require.Equal(t, code, answer.Code, "%s %q: %s", typ, expression, answer.Remark)
		require.NotEmpty(t, answer.Remark)
	}
	f("TAG", "||", codec.RespSubscriptionParseFailed)
	f("SQL92", "a between 0 3", codec.RespSubscriptionParseFailed)
	f("SQL92", "", codec.RespSubscriptionParseFailed)
	f("XPATH", "a", codec.RespSubscriptionParseFailed)
	f("", "B", codec.RespSuccess)
	f("TAG", "", codec.RespSuccess)
}

// Case B11 (e): members of one group that subscribe to different topics take the subscription from each
// other, as with a Java broker; the broker says so once per change and names both.
func TestUnequalSubscriptions(t *testing.T) {
	b := startBroker(t, "")
	for _, name := range []string{"A", "B"} {
		b.mustSend(name, 0, "", "in "+name)
		b.waitQueue(name, 0, 1)
	}
	other := b.dial()
	pull := func(p *peer, topicName string, version int64) *codec.Command {
		return p.do(pullWith("g", topicName, 0, 0, func(h *codec.PullMessageHeader) {
			h.SysFlag, h.SubVersion = 0, version
		}))
	}
	const rounds = 20
	for version := range int64(rounds) {
		b.beat("c1", consumer(t, "g", version, "A *"))
		require.Equal(t, []string{"in A"}, bodies(t, pull(b.peer, "A", version)))
		require.Equal(t, codec.RespSubscriptionNotExist, pull(other, "B", version).Code)
		other.beat("c2", consumer(t, "g", version, "B *"))
		require.Equal(t, []string{"in B"}, bodies(t, pull(other, "B", version)))
		require.Equal(t, codec.RespSubscriptionNotExist, pull(b.peer, "A", version).Code)
	}
	var said []string
	for line := range strings.Lines(b.log.String()) {
		if strings.Contains(line, "c1") && strings.Contains(line, "c2") {
			said = append(said, line)
		}
	}
	require.NotEmpty(t, said)
	require.LessOrEqual(t, len(said), 2, "once per change, not per heartbeat")
	var table body.ConsumerConnection
	b.mustCall(codec.ReqGetConsumerConnectionList, &codec.ConsumerGroupRequestHeader{ConsumerGroup: "g"}, &table)
	require.Len(t, table.ConnectionSet, 2)
	require.Len(t, table.SubscriptionTable, 1)
	conflict := "clients c1 [A TAG *] and c2 [B TAG *]"
	require.Equal(t, conflict, table.SubscriptionConflict)
	require.Equal(t, "*  (MEMBERS SUBSCRIBE DIFFERENTLY: "+conflict+")", table.SubscriptionTable["B"].SubString,
		"seen by who looks with mqadmin")
	info := b.RuntimeInfo()
	require.Equal(t, []string{conflict, "1", "1"}, []string{info["subscriptionConflict_g"], info["subscriptionConflicts"],
		info["subscriptionConflictsTotal"]})
	other.Conn.Close()
	b.eventually(func() bool { return b.consumers.Get("g").Conflict() == "" })
	b.beat("c1", consumer(t, "g", rounds, "A *"))
	require.Contains(t, b.log.String(), "members of a group subscribe the same again")
	table = body.ConsumerConnection{}
	b.mustCall(codec.ReqGetConsumerConnectionList, &codec.ConsumerGroupRequestHeader{ConsumerGroup: "g"}, &table)
	require.Equal(t, "*", table.SubscriptionTable["A"].SubString)
}
