package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// filterConf keeps filter bits in small files.
const filterConf = "enablePropertyFilter=true\nenableCalcFilterBitMap=true\nenableConsumeQueueExt=true\n" +
	"mappedFileSizeConsumeQueueExt=16384\n"

// filterLoad subscribes a group by condition and sends messages, one in ten of which it wants, until the broker dies.
func filterLoad(t *testing.T, p *process, life int, a *acked) {
	subscribe(t, p)
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
				text := fmt.Sprintf("%d/%d/%d a=%d", life, n, i, i%10)
				req := codec.NewRequest(codec.ReqSendMessageV2)
				h := codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte(topicName),
					DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: queues, QueueID: int32(i % queues),
					BornTimestamp: time.Now().UnixMilli(), Properties: codec.Field{Value: fmt.Appendf(nil, "a\x01%d\x02", i%10)}}
				h.Encode(req)
				req.Body = []byte(text)
				answer, err := c.Call(context.Background(), req)
				if err != nil {
					return
				}
				if answer.Code != codec.RespSuccess {
					t.Errorf("send: %v", answer)
					return
				}
				a.mu.Lock()
				a.at[text] = place{}
				a.cond.Broadcast()
				a.mu.Unlock()
			}
		}()
	}
	a.mu.Lock()
	for before := len(a.at); len(a.at) < before+minAcked; {
		a.cond.Wait()
	}
	a.mu.Unlock()
	p.kill()
	wg.Wait()
}

// subscribe sends the heartbeat of the group "sql".
func subscribe(t *testing.T, p *process) {
	t.Helper()
	c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() }) // at the end: the group stays
	data, err := body.Encode(&body.HeartbeatData{ClientID: "sql", ConsumerDataSet: []*body.ConsumerData{{GroupName: "sql",
		ConsumeType: body.ConsumePassively, MessageModel: body.Clustering, ConsumeFromWhere: body.FromFirstOffset,
		SubscriptionDataSet: []*body.SubscriptionData{{Topic: topicName, SubString: "a = 7", SubVersion: 1,
			ExpressionType: body.ExpressionSQL92}}}}})
	require.NoError(t, err)
	req := codec.NewRequest(codec.ReqHeartBeat)
	req.Body = data
	answer, err := c.Call(context.Background(), req)
	require.NoError(t, err)
	require.Equal(t, codec.RespSuccess, answer.Code, "%v", answer)
}

// readFiltered is what the group "sql" gets of every queue.
func readFiltered(t *testing.T, p *process) map[string]bool {
	t.Helper()
	c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	out := map[string]bool{}
	for q := range int32(queues) {
		for at := codec.QueueOffset(0); ; {
			req := codec.NewRequest(codec.ReqPullMessage)
			h := codec.PullMessageHeader{ConsumerGroup: []byte("sql"), Topic: []byte(topicName), QueueID: q, QueueOffset: at,
				MaxMsgNums: 32, SubVersion: 1, RequestSource: codec.RequestSourceSDK}
			h.Encode(req)
			answer, err := c.Call(context.Background(), req)
			require.NoError(t, err)
			if answer.Code == codec.RespPullNotFound {
				break
			}
			require.Contains(t, []int{codec.RespSuccess, codec.RespPullRetryImmediately}, answer.Code, "%v", answer)
			require.NoError(t, client.EachRecord(answer.Body, func(rec *codec.Record) error {
				require.False(t, out[string(rec.Body)], "twice: %s", rec.Body)
				out[string(rec.Body)] = true
				return nil
			}))
			var resp codec.PullMessageResponseHeader
			require.NoError(t, codec.DecodeHeader(answer, &resp))
			at = resp.NextBeginOffset
		}
	}
	return out
}

// TestKillLosesNoFilteredMessage: filter bits of a broker that is killed, and of those after it, hide nothing that a group
// wants and give it nothing else.
func TestKillLosesNoFilteredMessage(t *testing.T) {
	dir := t.TempDir()
	a := &acked{at: map[string]place{}}
	a.cond = sync.NewCond(&a.mu)
	check := func(p *process) {
		t.Helper()
		subscribe(t, p)
		stored, got := readAll(t, p), readFiltered(t, p)
		wanted := 0
		for text := range stored {
			want := strings.HasSuffix(text, " a=7")
			require.Equal(t, want, got[text], "%s", text)
			if want {
				wanted++
			}
		}
		require.Len(t, got, wanted)
		for text := range a.at {
			require.Contains(t, stored, text, "acknowledged and lost")
		}
	}
	for life := range rounds {
		p := start(t, dir, life, filterConf)
		if life > 0 {
			check(p)
		}
		filterLoad(t, p, life, a)
	}
	p := start(t, dir, rounds, filterConf)
	check(p)
	p.stop(t)
	p = start(t, dir, rounds+1, filterConf)
	check(p)
	p.stop(t)
}
