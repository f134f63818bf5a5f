package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

func TestSendAndPull(t *testing.T) {
	b := startBroker(t, "")
	for i := range 10 {
		answer := b.send("T", 1, "KEYS\x01k\x02TAGS\x01A", []byte(fmt.Sprint("m", i)))
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, fmt.Sprint(i), answer.Get("queueOffset"))
		require.Equal(t, "1", answer.Get("queueId"))
		require.Len(t, answer.Get("msgId"), 32)
		require.Equal(t, "DefaultRegion", answer.Get("MSG_REGION"))
	}
	b.waitQueue("T", 1, 10)
	answer, h := b.pull("T", 1, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.EqualValues(t, 10, h.NextBeginOffset)
	recs := records(t, answer.Body)
	require.Len(t, recs, 10)
	for i, rec := range recs {
		require.Equal(t, fmt.Sprint("m", i), string(rec.Body))
		require.EqualValues(t, i, rec.QueueOffset)
		tags, _ := rec.Property("TAGS")
		require.Equal(t, "A", string(tags))
		uniq, ok := rec.Property("UNIQ_KEY")
		require.True(t, ok, "the broker gives a unique key to a message without one")
		require.Len(t, uniq, 32)
	}
}
