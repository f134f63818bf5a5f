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

// bitsConf keeps filter bits, in small files.
const bitsConf = "enablePropertyFilter=true\nenableCalcFilterBitMap=true\nenableConsumeQueueExt=true\n" +
	"mappedFileSizeConsumeQueueExt=4096\n"

// pullGroup pulls by the subscription of the group's heartbeat.
func (p *peer) pullGroup(groupName, topicName string, at codec.QueueOffset, version int64) *codec.Command {
	p.t.Helper()
	return p.do(pullWith(groupName, topicName, 0, at, func(h *codec.PullMessageHeader) {
		h.SysFlag, h.SubVersion = 0, version
	}))
}

// allOfGroup is what the heartbeat's subscription lets through, to the end of the queue.
func (b *testBroker) allOfGroup(groupName, topicName string, version int64) (out []string) {
	b.t.Helper()
	for at := codec.QueueOffset(0); ; {
		answer, h := b.pulled(b.pullGroup(groupName, topicName, at, version))
		if answer.Code == codec.RespPullNotFound || answer.Code == codec.RespPullOffsetMoved {
			return out
		}
		require.Contains(b.t, []int{codec.RespSuccess, codec.RespPullRetryImmediately}, answer.Code, answer.Remark)
		out = append(out, bodies(b.t, answer)...)
		at = h.NextBeginOffset
	}
}

// bitsLive is one life: what was stored before is seen by both groups, and what this life adds.
func bitsLive(t *testing.T, b *testBroker, from, count int) {
	t.Helper()
	b.beat("c1", consumer(t, "g", 1, "T a > 6"), consumer(t, "h", 1, "T a < 2"))
	check := func(n int) {
		t.Helper()
		var g, h []string
		for i := range n {
			switch a := i % 10; {
			case a > 6:
				g = append(g, fmt.Sprint(i))
			case a < 2:
				h = append(h, fmt.Sprint(i))
			}
		}
		require.Equal(t, g, b.allOfGroup("g", "T", 1))
		require.Equal(t, h, b.allOfGroup("h", "T", 1))
	}
	check(from)
	for i := from; i < from+count; i++ {
		b.mustSend("T", 0, fmt.Sprintf("a\x01%d\x02other\x01a\x01", i%10), fmt.Sprint(i))
	}
	b.waitQueue("T", 0, from+count)
	check(from + count)
}

// Filter bits change nothing of what groups get, over restarts and kill -9, with bits of other lengths and without.
func TestFilterBits(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), conf: bitsConf})
	b.createTopic("T", 1, codec.PermRead|codec.PermWrite)
	bitsLive(t, b, 0, 300)
	b = b.restart()
	bitsLive(t, b, 300, 100)
	b = b.kill()
	bitsLive(t, b, 400, 100)
	b.s.conf += "expectConsumerNumUseFilter=1000\n"
	b = b.restart()
	require.Greater(t, b.cfg.store.BitMapLengthConsumeQueueExt, 1000)
	bitsLive(t, b, 500, 100)
	b.s.conf = "enablePropertyFilter=true\n"
	b = b.kill()
	bitsLive(t, b, 600, 50)
	b.s.conf = bitsConf
	b = b.restart()
	bitsLive(t, b, 650, 50)
	info, err := vfs.ReadFile(b.s.fs, "/data/config/consumerFilter.json")
	require.NoError(t, err)
	require.Contains(t, string(info), `"expression":"a > 6"`)
}

// A message that the bits rule out is not looked at: bits that say so wrongly show it.
func TestFilterBitsSpareTheRecord(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), conf: bitsConf})
	b.beat("c1", consumer(t, "g", 1, "T a > 6"))
	born := b.filters.Lookup("T", "g").BornTime
	b.eventually(func() bool { return b.clock.Millis() > born })
	for i := range 10 {
		b.mustSend("T", 0, fmt.Sprintf("a\x01%d", i), fmt.Sprint(i))
	}
	b.waitQueue("T", 0, 10)
	require.Equal(t, []string{"7", "8", "9"}, b.allOfGroup("g", "T", 1))
	const name = "/data/consumequeue_ext/T/0/00000000000000000000"
	b.peer.Close()
	b.stop()
	f, err := b.s.fs.OpenReadWrite(name)
	require.NoError(t, err)
	unit := int64(20 + b.filters.Bloom().BitCount()/8)
	_, err = f.WriteAt(make([]byte, unit-20), 8*unit+20) // of message 8
	require.NoError(t, err)
	require.NoError(t, f.Close())
	b = start(t, b.s)
	b.beat("c1", consumer(t, "g", 1, "T a > 6"))
	require.Equal(t, []string{"7", "9"}, b.allOfGroup("g", "T", 1))
	b.beat("c1", consumer(t, "g", 2, "T a > 5"))
	require.Equal(t, []string{"6", "7", "8", "9"}, b.allOfGroup("g", "T", 2), "a new condition does not look at old bits")
}

// A retry topic is judged by the condition of the topic that its messages come from, with filterSupportRetry; else by its
// own.
func TestFilterSupportRetry(t *testing.T) {
	f := func(conf string, want ...string) {
		t.Helper()
		b := startBroker(t, "enablePropertyFilter=true\n"+conf)
		retry := codec.RetryTopic("g")
		b.createTopic(retry, 1, codec.PermRead|codec.PermWrite)
		b.createTopic("T", 1, codec.PermRead|codec.PermWrite)
		b.beat("c1", consumer(t, "g", 1, "T a > 5", retry+" a = 3"))
		for _, text := range []string{"T 3", "T 7", "U 3", "U 7"} {
			b.mustSend(retry, 0, fmt.Sprintf("RETRY_TOPIC\x01%c\x02a\x01%c", text[0], text[2]), text)
		}
		b.waitQueue(retry, 0, 4)
		require.Equal(t, want, b.allOfGroup("g", retry, 1))
		b.beat("c1", consumer(t, "g", 2, "T a > 5", retry+" *"))
		require.Equal(t, []string{"T 3", "T 7", "U 3", "U 7"}, b.allOfGroup("g", retry, 2), "tags are not concerned")
	}
	f("", "T 3", "U 3")
	f("filterSupportRetry=true\n", "T 7", "U 3", "U 7") // nothing is known of U
}

// What parks under filterSupportRetry wakes for what the original topic's condition wants.
func TestFilterSupportRetryWakes(t *testing.T) {
	b := startBroker(t, "enablePropertyFilter=true\nfilterSupportRetry=true\n")
	retry := codec.RetryTopic("g")
	b.createTopic(retry, 1, codec.PermRead|codec.PermWrite)
	b.createTopic("T", 1, codec.PermRead|codec.PermWrite)
	b.beat("c1", consumer(t, "g", 1, "T a > 5", retry+" a = 3"))
	pulled := b.begin(pullWith("g", retry, 0, 0, func(h *codec.PullMessageHeader) {
		h.SysFlag, h.SubVersion = codec.PullFlagSuspend, 1
		h.SuspendTimeoutMillis = maxSuspend.Milliseconds()
	}))
	b.eventually(func() bool { return b.Parked() == 1 })
	b.mustSend(retry, 0, "RETRY_TOPIC\x01T\x02a\x017", "wanted")
	require.Equal(t, []string{"wanted"}, bodies(t, await(t, pulled)))
}

// A message that matched and is sent back comes again: the retry topic is subscribed by "*".
func TestRetryUnderFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: bitsConf + "serverChannelMaxIdleTimeSeconds=100000\n"})
		b.createGroup("g", nil)
		retry := codec.RetryTopic("g")
		at := offsetOf(t, b.mustSend("T", 0, "a\x017", "again"))
		synctest.Wait()
		b.beat("c1", consumer(t, "g", 1, "T a > 5", retry+" *"))
		require.Equal(t, []string{"again"}, b.allOfGroup("g", "T", 1))
		require.Equal(t, codec.RespSuccess, b.sendBack("g", at, 1, nil).Code)
		time.Sleep(3 * time.Second)
		require.Equal(t, []string{"again"}, b.allOfGroup("g", retry, 1))
	})
}

// A pop under SQL92 gets what matches, and gets it again when it is not acknowledged.
func TestPopUnderFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, bitsConf)
		b.createTopic("T", 1, codec.PermRead|codec.PermWrite)
		for i := range 10 {
			b.mustSend("T", 0, fmt.Sprintf("a\x01%d", i), fmt.Sprint(i))
		}
		time.Sleep(10 * time.Millisecond)
		popSQL := func() []string {
			out, _ := popAnswer(t, b.do(popRequest("T", -1, 8, 10*time.Second, 0, func(h *codec.PopMessageRequestHeader) {
				h.Exp, h.ExpType = "a > 7", body.ExpressionSQL92
			})))
			return popTexts(out)
		}
		require.Equal(t, []string{"8", "9"}, popSQL())
		require.Empty(t, popSQL())
		time.Sleep(12 * time.Second)
		require.Equal(t, []string{"8", "9"}, popSQL())
	})
}

// Tags of equal hash are told apart by the consumer, who has to get both, with their tags: as in Java the broker looks at
// hashes alone, with or without units.
func TestTagsOfEqualHash(t *testing.T) {
	require.Equal(t, codec.TagsCode([]byte("Aa")), codec.TagsCode([]byte("BB")))
	f := func(conf string) {
		t.Helper()
		b := startBroker(t, conf)
		for _, tag := range []string{"Aa", "BB", "C", "Aa"} {
			b.mustSend("T", 0, "TAGS\x01"+tag, tag)
		}
		b.waitQueue("T", 0, 4)
		b.beat("c1", consumer(t, "g", 1, "T Aa"))
		answer := b.pullGroup("g", "T", 0, 1)
		require.Equal(t, []string{"Aa", "BB", "Aa"}, bodies(t, answer))
		wanted := 0
		for _, rec := range records(t, answer.Body) {
			if prop(t, rec, codec.PropTags) == "Aa" {
				wanted++
			}
		}
		require.Equal(t, 2, wanted)
	}
	f("")
	f(bitsConf)
}

// Versions of subscription and filter data: 24, 25, 27, 28.
func TestFilterVersions(t *testing.T) {
	b := startBroker(t, "enablePropertyFilter=true\n")
	b.mustSend("T", 0, "a\x017", "m")
	b.waitQueue("T", 0, 1)
	f := func(version int64, want int) {
		t.Helper()
		require.Equal(t, want, b.pullGroup("g", "T", 0, version).Code)
	}
	f(1, codec.RespSubscriptionNotExist)
	b.beat("c1", consumer(t, "g", 5, "T a > 5"))
	f(5, codec.RespSuccess)
	f(4, codec.RespSuccess)
	f(6, codec.RespSubscriptionNotLatest)
	older := []*body.SubscriptionData{{Topic: "T", SubString: "a > 5", SubVersion: 3, ExpressionType: body.ExpressionSQL92}}
	b.filters.DeleteTopic("T")
	f(5, codec.RespFilterDataNotExist)
	require.NoError(t, b.filters.Register("g", older))
	f(5, codec.RespFilterDataNotLatest)
	f(3, codec.RespSuccess)
}
