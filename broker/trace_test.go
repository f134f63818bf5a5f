package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// The broker's part of message traces: it tells producers whether traces are wanted, notes it in every message, has a
// topic for them, and finds them by the ids of the messages they are about.
func TestTrace(t *testing.T) {
	f := func(t *testing.T, conf, topicName, on string, exists bool) {
		b := startBroker(t, conf)
		tp := b.topics.Get(topicName)
		require.Equal(t, exists, tp != nil)
		if exists {
			require.True(t, tp.System)
			require.EqualValues(t, 1, tp.Config.ReadQueueNums)
			require.True(t, b.topics.IsSystem(topicName))
			require.Contains(t, b.topics.SystemNames(), topicName)
		}
		answer := b.mustSend("T", 0, "TRACE_ON\x01maybe\x02MSG_REGION\x01elsewhere\x02", "m")
		require.Equal(t, on, answer.Get(codec.PropTraceSwitch))
		require.Equal(t, "R1", answer.Get(codec.PropMsgRegion))
		b.waitQueue("T", 0, 1)
		rec := b.all("T", 0)[0]
		value, _ := rec.Property(codec.PropTraceSwitch)
		require.Equal(t, on, string(value), "the broker's word counts")
		value, _ = rec.Property(codec.PropMsgRegion)
		require.Equal(t, "R1", string(value))

		// As TraceDataEncoder writes it; KEYS are the ids and keys of the messages.
		id, key := "7F0000010000000000000001", "order-1"
		b.mustSend(topicName, 0, "KEYS\x01"+id+" "+key+"\x02", "Pub\x01170\x01R1\x01pg\x01T\x01"+id+"\x01\x01"+key+"\x02")
		b.waitQueue(topicName, 0, 1)
		for _, k := range []string{id, key} {
			h := &codec.QueryMessageRequestHeader{Topic: topicName, Key: k, MaxNum: 64, EndTimestamp: 1<<63 - 1}
			b.eventually(func() bool { return b.call(codec.ReqQueryMessage, h, nil).Code == codec.RespSuccess })
			require.Len(t, bodies(t, b.call(codec.ReqQueryMessage, h, nil)), 1)
		}
	}
	f(t, "regionId=R1\ntraceTopicEnable=true\n", codec.TraceTopic, "true", true)
	f(t, "regionId=R1\ntraceTopicEnable=true\nmsgTraceTopicName=traces\ntraceOn=false\n", "traces", "false", true)
	f(t, "regionId=R1\n", codec.TraceTopic, "true", false)
}
