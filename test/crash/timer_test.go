package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// timerLoad sends timer messages that are due within seconds until the broker is killed; those before have become due
// meanwhile: some are delivered, some wait, some are on their way.
func timerLoad(t *testing.T, p *process, life int, a *acked) {
	t.Helper()
	before := delivered(p)
	a.loadWith(t, p, func(producer, i int) *codec.Command {
		name := fmt.Sprintf("%d/%d/%d", life, producer, i)
		return sendRequest("pg", int32(i%queues),
			fmt.Sprintf("UNIQ_KEY\x01%s\x02TIMER_DELAY_MS\x01%d\x02", name, 100+rand.IntN(6000)), []byte(name))
	}, func() bool { return delivered(p) >= before+minAcked })
}

// TestKillLosesNoTimer: a broker that is killed while timer messages come in, wait, roll and are delivered has each that
// was acknowledged in its topic in the end, once.
func TestKillLosesNoTimer(t *testing.T) {
	dir := t.TempDir()
	const conf = "timerRollWindowSlot=3\nmappedFileSizeTimerLog=4096\n"
	a := newAcked()
	for life := range rounds {
		timerLoad(t, start(t, dir, life, conf), life, a)
	}
	p := start(t, dir, rounds, conf)
	idle := 0                           // looks in a row: a message that rolls is nowhere for a moment
	require.Eventually(t, func() bool { // those whose acknowledgement was lost come too
		if idle++; !timerIdle(p) {
			idle = 0
		}
		return idle > 5
	}, time.Minute, 50*time.Millisecond, "all that waits becomes due")
	require.Eventually(t, func() bool { return delivered(p) >= int64(len(a.at)) }, time.Minute, 50*time.Millisecond,
		"%d acknowledged, not all of them come", len(a.at))
	found := readAll(t, p)
	for text := range a.at {
		_, ok := found[text]
		require.True(t, ok, "acknowledged and lost: %s", text)
	}
	require.EqualValues(t, len(found), delivered(p), "delivered twice")
	t.Logf("%d acknowledged, %d delivered", len(a.at), len(found))
	p.stop(t)
}

// timerIdle tells that no message waits for its time.
func timerIdle(p *process) bool {
	c, err := p.dial()
	if err != nil {
		return false
	}
	defer c.Close()
	answer, err := c.Call(context.Background(), codec.NewRequest(codec.ReqGetBrokerRuntimeInfo))
	var info body.KVTable
	if err != nil || body.Decode(answer.Body, &info) != nil {
		return false
	}
	return info.Table["timerCongestNum"] == "0" && info.Table["timerOffsetBehind"] == "0"
}

// delivered is how many messages the topic's queues have.
func delivered(p *process) (n int64) {
	c, err := p.dial()
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
