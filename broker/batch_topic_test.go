package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// Java refuses to start on a directory whose BatchCQ topic has plain queues: nothing is stored in such a
// topic.
func TestSendsToABatchTopicAreRefused(t *testing.T) {
	b := startBroker(t, "")
	answer := b.call(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: "B",
		DefaultTopic: "TBW102", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG",
		Attributes: "+queue.type=BatchCQ"}, nil)
	require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	answer = b.send("B", 0, "", []byte("x"))
	require.Equal(t, codec.RespMessageIllegal, answer.Code)
	require.Contains(t, answer.Remark, "queue.type=BatchCQ")
	require.False(t, b.store.HasQueue("B", 0))
}
