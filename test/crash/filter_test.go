package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// filterConf keeps filter bits in small files.
const filterConf = "enablePropertyFilter=true\nenableCalcFilterBitMap=true\nenableConsumeQueueExt=true\n" +
	"mappedFileSizeConsumeQueueExt=16384\n"

// filterLoad subscribes a group by condition and sends messages, one in ten of which it wants, until the broker is killed.
func filterLoad(t *testing.T, p *process, life int, a *acked) {
	t.Helper()
	subscribe(t, p)
	a.loadWith(t, p, func(producer, i int) *codec.Command {
		return sendRequest("pg", int32(i%queues), fmt.Sprintf("a\x01%d\x02", i%10),
			fmt.Appendf(nil, "%d/%d/%d a=%d", life, producer, i, i%10))
	}, a.more())
}

// subscribe sends the heartbeat of the group "sql".
func subscribe(t *testing.T, p *process) {
	t.Helper()
	c, err := p.dial()
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
	c, err := p.dial()
	require.NoError(t, err)
	defer c.Close()
	out := map[string]bool{}
	for q := range int32(queues) {
		h := codec.PullMessageHeader{ConsumerGroup: []byte("sql"), QueueID: q, SubVersion: 1}
		eachPulled(t, c, h, func(rec *codec.Record) {
			require.False(t, out[string(rec.Body)], "twice: %s", rec.Body)
			out[string(rec.Body)] = true
		})
	}
	return out
}

// TestKillLosesNoFilteredMessage: filter bits of a broker that is killed, and of those after it, hide nothing that a group
// wants and give it nothing else.
func TestKillLosesNoFilteredMessage(t *testing.T) {
	dir := t.TempDir()
	a := newAcked()
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
