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

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const (
	innerTopic  = "crash-batch" // queue.type=BatchCQ
	lightParent = "crash-parent"
)

// lightNames are the light queues that messages go to.
var lightNames = []string{"%LMQ%a", "%LMQ%b", "%LMQ%c"}

// storedBodies are what was acknowledged by queue, in no order.
type storedBodies struct {
	mu sync.Mutex
	in map[string]map[string]bool
}

func (s *storedBodies) add(topic string, bodies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in[topic] == nil {
		s.in[topic] = map[string]bool{}
	}
	for _, b := range bodies {
		s.in[topic][b] = true
	}
}

func (s *storedBodies) count(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.in[topic])
}

// sendInner sends inner batches, sendLight messages that name light queues, until the broker is gone.
func sendInner(cl *client.Client, addr, who string, s *storedBodies) {
	for n := 0; ; n++ {
		var data []byte
		var bodies []string
		for i := range 1 + rand.IntN(5) {
			bodies = append(bodies, fmt.Sprintf("%s-%d-%d-%s", who, n, i, strings.Repeat("x", rand.IntN(50))))
			data, _ = codec.AppendBatchEntry(data, codec.BatchEntry{Body: []byte(bodies[i])})
		}
		h := codec.SendMessageHeader{ProducerGroup: []byte("p"), Topic: []byte(innerTopic), Batch: true,
			Properties: codec.Field{Value: codec.AppendProperty(nil, codec.PropUniqKey, fmt.Sprint(who, "-", n))}}
		if _, err := cl.Send(context.Background(), addr, &h, data); err != nil {
			return
		}
		s.add(innerTopic, bodies...)
	}
}

func sendLight(cl *client.Client, addr, who string, s *storedBodies) {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", who, n)
		queues := lightNames[:1+rand.IntN(len(lightNames))]
		h := codec.SendMessageHeader{ProducerGroup: []byte("p"), Topic: []byte(lightParent), QueueID: int32(n % 2),
			Properties: codec.Field{Value: codec.AppendProperty(nil, codec.PropInnerMultiDispatch, strings.Join(queues, ","))}}
		if _, err := cl.Send(context.Background(), addr, &h, []byte(name)); err != nil {
			return
		}
		for _, q := range queues {
			s.add(q, name)
		}
	}
}

// readUnwrapped reads a queue to its end as a 5.x client does. Offsets have no gaps, in the queue that is read.
func readUnwrapped(t *testing.T, cl *client.Client, addr, topic string) map[string]bool {
	t.Helper()
	end, err := cl.MaxOffset(context.Background(), addr, topic, 0)
	require.NoError(t, err)
	got := map[string]bool{}
	n := codec.QueueOffset(0)
	for n < end {
		r, err := cl.Pull(context.Background(), addr, client.PullRequest{Group: "g", Topic: topic, QueueOffset: n})
		require.NoError(t, err)
		require.Equal(t, codec.RespSuccess, r.Code, "%s at %d of %d", topic, n, end)
		require.NoError(t, client.EachRecord(r.Body, func(rec *codec.Record) error {
			require.Equal(t, n, rec.OffsetIn(topic), "%s has a gap", topic)
			if !rec.IsInnerBatch() {
				got[string(rec.Body)] = true
				n++
				return nil
			}
			return codec.EachBatchEntry(rec.Body, func(_ int, e codec.BatchEntry) error {
				require.False(t, got[string(e.Body)], "%s twice", e.Body)
				got[string(e.Body)] = true
				n++
				return nil
			})
		}))
		require.Equal(t, n, r.NextBeginOffset, topic)
	}
	return got
}

// TestKillKeepsInnerBatchesAndLightQueues: nothing that was acknowledged is missing in a batch queue or a light queue after
// kill -9, no message is there in part, and the offsets go on without a gap.
func TestKillKeepsInnerBatchesAndLightQueues(t *testing.T) {
	dir := t.TempDir()
	const conf = "enableLmq=true\nenableMultiDispatch=true\nmapperFileSizeBatchConsumeQueue=4600\n"
	s := &storedBodies{in: map[string]map[string]bool{}}
	for life := range rounds + 1 {
		p := start(t, dir, life, conf)
		cl := client.New(client.Options{CallTimeout: 20 * time.Second})
		if life == 0 {
			c := &body.TopicConfig{}
			c.SetDefaults()
			c.TopicName, c.ReadQueueNums, c.WriteQueueNums = innerTopic, 1, 1
			c.Attributes = map[string]string{"queue.type": "BatchCQ"}
			require.NoError(t, cl.CreateTopic(context.Background(), p.addr, c))
		} else {
			require.Eventually(t, func() bool {
				end, err := cl.MaxOffset(context.Background(), p.addr, innerTopic, 0)
				return err == nil && int(end) >= s.count(innerTopic)
			}, 20*time.Second, time.Millisecond)
			for topic, want := range s.in {
				got := readUnwrapped(t, cl, p.addr, topic)
				for b := range want {
					require.True(t, got[b], "life %d: %s is not in %s", life, b, topic)
				}
			}
		}
		if life == rounds {
			cl.Close()
			p.stop(t)
			break
		}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Add(2)
			who := fmt.Sprintf("%d-%d", life, i)
			go func() { defer wg.Done(); sendInner(cl, p.addr, who, s) }()
			go func() { defer wg.Done(); sendLight(cl, p.addr, who, s) }()
		}
		before := s.count(innerTopic) + s.count(lightNames[0])
		require.Eventually(t, func() bool { return s.count(innerTopic)+s.count(lightNames[0]) >= before+2000 },
			30*time.Second, time.Millisecond)
		p.kill()
		cl.Close()
		wg.Wait()
		t.Logf("life %d: %d messages in batches, %d in %s", life, s.count(innerTopic), s.count(lightNames[0]), lightNames[0])
	}
}
