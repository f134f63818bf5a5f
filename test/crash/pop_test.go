package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/pop"
	"skylark/client"
	"skylark/codec"
)

// popOnce pops and acknowledges a share of what it gets; got is told of all, settled of those whose ack was answered.
func popOnce(c *client.Conn, share int, got, settled func(body string)) error {
	req := codec.NewRequest(codec.ReqPopMessage)
	codec.EncodeHeader(req, &codec.PopMessageRequestHeader{ConsumerGroup: "poppers", Topic: topicName, QueueID: -1,
		MaxMsgNums: 32, InvisibleTime: 2000, PollTime: 100, BornTime: time.Now().UnixMilli()})
	answer, err := c.Call(context.Background(), req)
	if err != nil || answer.Code != codec.RespSuccess {
		return err
	}
	var h codec.PopMessageResponseHeader
	if err := codec.DecodeHeader(answer, &h); err != nil {
		return err
	}
	starts := map[string]codec.QueueOffset{}
	for e := range strings.SplitSeq(h.StartOffsetInfo, ";") {
		var flag, queue string
		var at codec.QueueOffset
		_, _ = fmt.Sscan(e, &flag, &queue, &at)
		starts[flag+" "+queue] = at
	}
	for data := answer.Body; len(data) > 0; {
		rec, err := codec.ParseRecord(data, true)
		if err != nil {
			return err
		}
		data = data[rec.TotalSize:]
		got(string(rec.Body))
		if rand.IntN(100) >= share {
			continue
		}
		r := pop.Receipt{StartOffset: starts[fmt.Sprintf("0 %d", rec.QueueID)], PopTime: h.PopTime, Invisible: h.InvisibleTime,
			ReviveQID: h.ReviveQID, Broker: "b", QueueID: rec.QueueID, Offset: rec.QueueOffset}
		topic := topicName
		if text, ok := rec.Property(codec.PropPopCK); ok {
			if r, err = pop.ParseReceipt(string(text)); err != nil {
				return err
			}
			topic = codec.PopRetryTopicV1(topicName, "poppers")
		}
		ack := codec.NewRequest(codec.ReqAckMessage)
		codec.EncodeHeader(ack, &codec.AckMessageRequestHeader{ConsumerGroup: "poppers", Topic: topic, QueueID: r.QueueID,
			ExtraInfo: r.String(), Offset: r.Offset})
		if answer, err = c.Call(context.Background(), ack); err != nil {
			return err
		}
		switch answer.Code {
		case codec.RespSuccess:
			settled(string(rec.Body))
		case codec.RespNoMessage: // late
		default:
			return fmt.Errorf("ack %s: %v", r, answer)
		}
	}
	return nil
}

// TestKillLosesNoPoppedMessage: a broker that is killed while messages are popped and some of them acknowledged gives all
// others again, and those never.
func TestKillLosesNoPoppedMessage(t *testing.T) {
	dir := t.TempDir()
	const conf = "mappedFileSizeTimerLog=4096\nreviveInterval=100\n"
	a := newAcked()
	var mu sync.Mutex
	done := map[string]bool{}
	settled := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		done[body] = true
	}
	popped, again := map[string]bool{}, map[string]bool{} // again: in this life
	got := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		if done[body] {
			t.Errorf("%s was acknowledged and comes again", body)
		}
		if popped[body] {
			again[body] = true
		}
		popped[body] = true
	}
	come := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(again) > 0
	}
	for life := range rounds {
		p := start(t, dir, life, conf)
		clear(again)
		var wg sync.WaitGroup
		for range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c, err := p.dial()
				if err != nil {
					return
				}
				defer c.Close()
				for popOnce(c, 60, got, settled) == nil {
				}
			}()
		}
		if life > 0 {
			require.Eventually(t, come, time.Minute, 10*time.Millisecond, "messages of the lives before come back")
		}
		a.load(t, p, life) // kills it
		wg.Wait()
		t.Logf("life %d: %d sent, %d popped and acknowledged", life, len(a.at), len(done))
	}
	p := start(t, dir, rounds, conf)
	c, err := p.dial()
	require.NoError(t, err)
	defer c.Close()
	left := func() (n int) {
		for body := range a.at {
			if !done[body] {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(2 * time.Minute); left() > 0 && time.Now().Before(end); {
		require.NoError(t, popOnce(c, 100, got, settled))
	}
	require.Zero(t, left(), "of %d acknowledged sends, %d popped and acknowledged", len(a.at), len(done))
	t.Logf("%d sent, %d popped and acknowledged", len(a.at), len(done))
	p.stop(t)
}
