package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
)

// timerLoad sends timer messages that are due within seconds until the broker dies; those before have become due
// meanwhile.
func timerLoad(t *testing.T, p *process, life int, a *acked) {
	var wg sync.WaitGroup
	for n := range producers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
			if err != nil {
				return
			}
			defer c.Close()
			for i := 0; ; i++ {
				body := fmt.Sprintf("%d/%d/%d", life, n, i)
				req := codec.NewRequest(codec.ReqSendMessageV2)
				h := codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte(topicName),
					DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: queues, QueueID: int32(i % queues),
					BornTimestamp: time.Now().UnixMilli(), Properties: codec.Field{Value: fmt.Appendf(nil,
						"UNIQ_KEY\x01%s\x02TIMER_DELAY_MS\x01%d\x02", body, 100+rand.IntN(6000))}}
				h.Encode(req)
				req.Body = []byte(body)
				answer, err := c.Call(context.Background(), req)
				if err != nil {
					return
				}
				if answer.Code != codec.RespSuccess {
					t.Errorf("send: %v", answer)
					return
				}
				a.mu.Lock()
				a.at[body] = place{}
				a.mu.Unlock()
			}
		}()
	}
	before := delivered(p)
	require.Eventually(t, func() bool { // some are delivered, some wait, some are on their way
		return delivered(p) >= before+minAcked
	}, time.Minute, 20*time.Millisecond)
	p.kill()
	wg.Wait()
}

// TestKillLosesNoTimer: a broker that is killed while timer messages come in, wait, roll and are delivered has each that
// was acknowledged in its topic in the end, once.
func TestKillLosesNoTimer(t *testing.T) {
	dir := t.TempDir()
	const conf = "timerRollWindowSlot=3\nmappedFileSizeTimerLog=4096\n"
	a := &acked{at: map[string]place{}}
	for life := range rounds {
		timerLoad(t, start(t, dir, life, conf), life, a)
	}
	p := start(t, dir, rounds, conf)
	require.Eventually(t, func() bool { return delivered(p) >= int64(len(a.at)) }, time.Minute, 100*time.Millisecond,
		"%d acknowledged, not all of them come", len(a.at))
	require.Eventually(t, func() bool { // those whose acknowledgement was lost come too
		was := delivered(p)
		return !later(7*time.Second, func() bool { return delivered(p) != was })
	}, time.Minute, time.Millisecond)
	found := readAll(t, p)
	for body := range a.at {
		_, ok := found[body]
		require.True(t, ok, "acknowledged and lost: %s", body)
	}
	require.EqualValues(t, len(found), delivered(p), "delivered twice")
	t.Logf("%d acknowledged, %d delivered", len(a.at), len(found))
	p.stop(t)
}

// later tells whether something happens within d.
func later(d time.Duration, happens func() bool) bool {
	tick := time.NewTicker(d / 20)
	defer tick.Stop()
	for range 20 {
		<-tick.C
		if happens() {
			return true
		}
	}
	return false
}

// delivered is how many messages the topic's queues have.
func delivered(p *process) (n int64) {
	c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
	if err != nil {
		return 0
	}
	defer c.Close()
	for q := range int64(queues) {
		req := codec.NewRequest(codec.ReqGetMaxOffset)
		req.Set("topic", topicName)
		req.SetInt("queueId", q)
		if answer, err := c.Call(context.Background(), req); err == nil && answer.Code == codec.RespSuccess {
			at := int64(0)
			_, _ = fmt.Sscan(answer.Get("offset"), &at)
			n += at
		}
	}
	return n
}
