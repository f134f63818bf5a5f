package skylarktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/client"
	"skylark/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSystemServesAndKeepsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	for life := range 2 {
		sys := Start(t, WithDir(dir), WithProperty("autoCreateTopicEnable", "true"), WithLog())
		c, err := client.Dial(context.Background(), sys.BrokerAddr(), client.Options{})
		require.NoError(t, err)
		req := codec.NewRequest(codec.ReqSendMessageV2)
		h := codec.SendMessageHeader{ProducerGroup: []byte("p"), Topic: []byte("T"),
			DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: 1}
		h.Encode(req)
		req.Body = []byte("hello")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		answer, err := c.Call(ctx, req)
		cancel()
		require.NoError(t, err)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, []string{"0", "1"}[life], answer.Get("queueOffset"))
		c.Close()
		sys.Stop(t)
	}
}

func BenchmarkStart(b *testing.B) {
	for range b.N {
		sys := Start(b)
		sys.Stop(b)
	}
}
