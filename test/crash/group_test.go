package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// tool is a client that asks and must get an answer.
type tool struct {
	*client.Conn
	t *testing.T
}

func dialTool(t *testing.T, p *process) tool {
	c, err := p.dial()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return tool{c, t}
}

func (c tool) ask(code int, header, data any) *codec.Command {
	c.t.Helper()
	req := codec.NewRequest(code)
	if header != nil {
		codec.EncodeHeader(req, header)
	}
	if data != nil {
		text, err := body.Encode(data)
		require.NoError(c.t, err)
		req.Body = text
	}
	answer, err := c.Call(context.Background(), req)
	require.NoError(c.t, err)
	return answer
}

func (c tool) must(code int, header, data any) *codec.Command {
	c.t.Helper()
	answer := c.ask(code, header, data)
	require.Equal(c.t, codec.RespSuccess, answer.Code, answer.Remark)
	return answer
}

// lock are the queues of a topic that a member gets of those it asks for.
func (c tool) lock(member string, queues ...int32) (held []int32) {
	c.t.Helper()
	q := &body.LockBatchRequestBody{ConsumerGroup: "G", ClientID: member}
	for _, id := range queues {
		q.MQSet = append(q.MQSet, body.MessageQueue{BrokerName: "b", QueueID: id, Topic: topicName})
	}
	var got body.LockBatchResponseBody
	require.NoError(c.t, body.Decode(c.must(codec.ReqLockBatchMQ, nil, q).Body, &got))
	for _, mq := range got.LockOKMQSet {
		held = append(held, mq.QueueID)
	}
	return held
}

// at is a group's offset, "" if it has none.
func (c tool) at(group, topic string) string {
	c.t.Helper()
	set := false
	answer := c.ask(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: group, Topic: topic,
		SetZeroIfNotFound: &set}, nil)
	return answer.Get("offset")
}

// owners are those of a file of locks, by queue; nil if it is not whole.
func owners(text []byte) map[int32]string {
	var file struct {
		Locks []struct {
			ClientID string `json:"clientId"`
			QueueID  int32  `json:"queueId"`
		} `json:"locks"`
	}
	if json.Unmarshal(text, &file) != nil {
		return nil
	}
	all := map[int32]string{}
	for _, l := range file.Locks {
		all[l.QueueID] = l.ClientID
	}
	return all
}

// TestKillKeepsOwnersAndOffsets: after a kill -9 the members of an ordered group find their queues again, whoever asks
// first, and what tools were told about offsets holds.
func TestKillKeepsOwnersAndOffsets(t *testing.T) {
	dir := t.TempDir()
	const conf = "flushConsumerOffsetInterval=3600000\nflushDiskType=SYNC_FLUSH\n"
	p := start(t, dir, 0, conf)
	c := dialTool(t, p)
	create := func(name string) {
		c.must(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: name, DefaultTopic: codec.AutoCreateTopicKey,
			ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
	}
	for _, name := range []string{topicName, "gone"} {
		create(name)
	}
	for _, name := range []string{"G", "H"} {
		c.must(codec.ReqUpdateAndCreateSubscriptionGroup, nil, body.NewSubscriptionGroupConfig(name))
	}
	commit := func(group, topic string, at codec.QueueOffset) {
		c.must(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: group, Topic: topic,
			CommitOffset: at}, nil)
	}
	for i := range 20 {
		answer, err := c.Call(context.Background(), message(0, 0, i))
		require.NoError(t, err)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	}
	require.Equal(t, []int32{0, 1}, c.lock("one", 0, 1))
	require.Equal(t, []int32{2, 3}, c.lock("two", 2, 3))
	commit("G", topicName, 4)
	commit("G", "gone", 7)
	c.must(codec.ReqCloneGroupOffset, &codec.CloneGroupOffsetRequestHeader{SrcGroup: "G", DestGroup: "H", Topic: topicName,
		Offline: true}, nil)
	c.must(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "gone"}, nil)
	c.must(codec.ReqInvokeBrokerToResetOffset, &codec.ResetOffsetRequestHeader{Topic: topicName, Group: "G", QueueID: -1,
		Timestamp: 0, IsForce: true}, nil)
	require.Eventually(t, func() bool { // within a second
		text, err := os.ReadFile(filepath.Join(dir, "store", "config", "queueLocks.json"))
		return err == nil && maps.Equal(map[int32]string{0: "one", 1: "one", 2: "two", 3: "two"}, owners(text))
	}, 20*time.Second, 10*time.Millisecond, "the owners are on the disk")
	p.kill()

	for life := range 2 {
		p = start(t, dir, life+1, conf)
		c = dialTool(t, p)
		require.Empty(t, c.lock("two", 0, 1), "it comes back first")
		require.Equal(t, []int32{2, 3}, c.lock("two", 2, 3))
		require.Empty(t, c.lock("three", 0, 1, 2, 3), fmt.Sprint("life ", life))
		require.Equal(t, []int32{0, 1}, dialTool(t, p).lock("one", 0, 1))
		require.Equal(t, []string{"0", "4", ""}, []string{c.at("G", topicName), c.at("H", topicName), c.at("G", "gone")})
		create("gone")
		require.Empty(t, c.at("G", "gone"))
		p.kill()
	}
	p = start(t, dir, 3, conf)
	p.stop(t)
}
