package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/broker/stats"
	"skylark/broker/topic"
	"skylark/internal/clock"
)

// TestSendTally: counted together or one by one is the same.
func TestSendTally(t *testing.T) {
	one, many := stats.New(stats.Options{Clock: clock.System, Cluster: "c"}), stats.New(stats.Options{Clock: clock.System,
		Cluster: "c"})
	topics := func(m *stats.Manager) (list []*topic.Topic) {
		for i := range 3 {
			name := fmt.Sprint("T", i)
			list = append(list, &topic.Topic{Name: name, System: i == 2, Put: m.TopicPut(name)})
		}
		return list
	}
	a, b := topics(one), topics(many)
	var y sendTally
	for i := range 1000 {
		which, queueID, size, latency := i/7%3, int32(i%40), i%90, int64(i%3)
		a[which].Put.Count(queueID, 1, size, latency)
		one.CountPut(1, a[which].System)
		y.count(many, b[which], queueID, size, latency)
		if i%64 == 0 {
			y.flush(many)
		}
	}
	y.flush(many)
	y.flush(many)
	f := func(name, key string) {
		t.Helper()
		want := one.Counter(name, key).Load()
		require.NotZero(t, want)
		require.Equal(t, want, many.Counter(name, key).Load())
	}
	for i := range 3 {
		f(stats.TopicPutNums, fmt.Sprint("T", i))
		f(stats.TopicPutSize, fmt.Sprint("T", i))
		f(stats.TopicPutLatency, fmt.Sprintf("%d@T%d", 2, i))
	}
	f(stats.BrokerPutNums, "c")
	f(stats.BrokerPutOwn, "c")
}
