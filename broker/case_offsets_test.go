package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// Case B22 over a kill: what an answer promised about offsets is on the disk.
func TestOffsetPromisesSurviveKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "flushConsumerOffsetInterval=3600000\nflushDiskType=SYNC_FLUSH\n")
		fill := func(from, to int) {
			for i := from; i < to; i++ {
				b.mustSend("T", 0, "", fmt.Sprint(i))
			}
			b.waitQueue("T", 0, to)
		}
		b.createGroup("G", nil)
		fill(0, 20)
		b.commit("G", "T", 0, 20)
		require.NoError(t, b.offsets.Persist())
		b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
		b = b.kill()
		b.createTopic("T", 4, 6)
		require.EqualValues(t, -1, b.offsetOfGroup("G", "T", 0))
		fill(0, 10)
		answer, h := b.pull("T", 0, 0)
		require.Len(t, bodies(t, answer), 10)
		require.EqualValues(t, 10, h.MaxOffset)

		b.commit("G", "T", 0, 9)
		require.Equal(t, codec.RespSuccess, b.resetOffset(func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = 0 }).Code)
		b = b.kill()
		require.EqualValues(t, 0, b.offsetOfGroup("G", "T", 0))

		b.commit("G", "T", 0, 5)
		require.NoError(t, b.offsets.Persist())
		clean := &codec.DeleteSubscriptionGroupRequestHeader{GroupName: "G", CleanOffset: true}
		b.mustCall(codec.ReqDeleteSubscriptionGroup, clean, nil)
		b = b.kill()
		b.createGroup("G", nil)
		require.EqualValues(t, -1, b.offsetOfGroup("G", "T", 0))
	})
}

// Case B22: offsets that are left over from a topic that is gone, as Java's broker keeps them, are not inherited by
// one that is made anew; those of a topic with messages are not touched, whatever happens to its configuration.
func TestLeftOverOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		b.createGroup("G", nil)
		b.createTopic("keep", 1, 6)
		b.mustSend("keep", 0, "", "m")
		b.waitQueue("keep", 0, 1)
		b.commit("G", "keep", 0, 1)
		require.NoError(t, b.offsets.Commit(b.Addr(), "G", "T", 0, 1000)) // no such topic
		b = b.restart()
		require.EqualValues(t, 1000, b.offsetOfGroup("G", "T", 0))
		b.mustSend("T", 0, "", "makes it")
		require.EqualValues(t, -1, b.offsetOfGroup("G", "T", 0))
		require.NoError(t, b.offsets.Commit(b.Addr(), "G", "U", 0, 1000))
		b.createTopic("U", 1, 6)
		require.EqualValues(t, -1, b.offsetOfGroup("G", "U", 0))
		b.createTopic("keep", 4, 6)
		require.EqualValues(t, 1, b.offsetOfGroup("G", "keep", 0))
	})
}

// No parked pull is left behind, whatever happens to its topic, its queue and its offsets: when all is quiet everyone
// who still waits does so at the end of a queue that his topic has, and without a reset that waits for him.
func TestParkedPullsFollowTheirQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 1))
		defer func() {
			if t.Failed() {
				t.Log("seed", seed)
			}
		}()
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: "serverChannelMaxIdleTimeSeconds=1000000\n"})
		b.createGroup("G", nil)
		type waiting struct {
			queueID int
			at      codec.QueueOffset
			answer  <-chan *codec.Command
		}
		var parked []waiting
		pull := func() (begin func()) {
			q, c := rnd.IntN(4), b.dial()
			at := b.store.MaxOffset("T", int32(q))
			req, answer := pullRequest("G", "T", q, at, maxSuspend), make(chan *codec.Command, 1)
			parked = append(parked, waiting{q, at, answer})
			return func() {
				if _, err := c.Go(req, func(a *codec.Command, _ error) { answer <- a }); err != nil {
					answer <- nil
				}
			}
		}
		changes := []func(){
			func() { b.send("T", rnd.IntN(4), "", []byte("m")) }, // may make the topic
			func() { b.send("T", rnd.IntN(4), "", []byte("m")) },
			func() { b.call(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil) },
			func() { b.createTopic("T", int32(1+rnd.IntN(4)), 6) },
			func() {
				b.resetOffset(func(h *codec.ResetOffsetRequestHeader) { h.Timestamp = int64(rnd.IntN(2)) - 1 })
			},
		}
		for range 300 {
			switch rnd.IntN(3) {
			case 0:
				changes[rnd.IntN(len(changes))]()
			case 1:
				pull()()
			default: // at the same time
				go pull()()
				changes[rnd.IntN(len(changes))]()
			}
			synctest.Wait()
			left := parked[:0]
			for _, w := range parked {
				select {
				case answer := <-w.answer:
					require.NotNil(t, answer)
					continue
				default:
				}
				left = append(left, w)
				top := b.topics.Get("T")
				require.NotNil(t, top, "waits on a topic that is gone")
				require.Less(t, int32(w.queueID), top.Config.ReadQueueNums)
				require.Equal(t, b.store.MaxOffset("T", int32(w.queueID)), w.at)
				require.False(t, b.offsets.HasReset("T", "G", int32(w.queueID)))
			}
			parked = left
			require.Equal(t, len(parked), b.Parked())
			time.Sleep(time.Second)
		}
	})
}

// Messages that an ordered group gives up on go to the dead letters: a retry topic would bring them back out of order.
// Suspending a queue is the client's own business: the message is not acknowledged and not sent back.
func TestSuspendedQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		b.createTopic("T", 1, 6)
		b.createGroup("G", func(g *body.SubscriptionGroupConfig) { g.ConsumeMessageOrderly, g.RetryMaxTimes = true, 3 })
		for i := range 3 {
			b.mustSend("T", 0, "", fmt.Sprint(i))
		}
		b.waitQueue("T", 0, 3)
		c := b.dial()
		c.beat("c1", consumer(t, "G", 1, "T *"))
		q := b.queue("T", 0)
		require.Len(t, c.lock("G", "c1", q), 1)
		// Suspended for minutes: the lock is renewed, the offset stays, nobody else gets the queue.
		other := b.dial()
		other.beat("c2", consumer(t, "G", 1, "T *"))
		for range 10 {
			time.Sleep(20 * time.Second)
			c.beat("c1", consumer(t, "G", 1, "T *"))
			other.beat("c2", consumer(t, "G", 1, "T *"))
			require.Len(t, c.lock("G", "c1", q), 1)
			require.Empty(t, other.lock("G", "c2", q))
		}
		// It gives up, as Java's client does: by a message to the retry topic with its counts.
		req := sendWith(codec.RetryTopic("G"), []byte("0"), func(h *codec.SendMessageHeader) {
			h.ReconsumeTimes, h.MaxReconsumeTimes, h.HasMax = 1, 3, true
			h.Properties = codec.Field{Value: []byte("DELAY\x014\x02RETRY_TOPIC\x01T")}
		})
		require.Equal(t, codec.RespSuccess, c.do(req).Code)
		c.commit("G", "T", 0, 1)
		synctest.Wait()
		dead := b.all(codec.DLQTopic("G"), 0)
		require.Len(t, dead, 1)
		require.Equal(t, "0", string(dead[0].Body))
		require.Zero(t, b.store.MaxOffset(codec.RetryTopic("G"), 0))
		answer, _ := b.pulled(c.do(pullRequest("G", "T", 0, 1, 0)))
		require.Equal(t, []string{"1", "2"}, bodies(t, answer), "in order behind it")
	})
}
