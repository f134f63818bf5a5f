package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// lock asks for queues and gives those it got.
func (p *peer) lock(groupName, clientID string, queues ...body.MessageQueue) []body.MessageQueue {
	p.t.Helper()
	data, err := body.Encode(&body.LockBatchRequestBody{ConsumerGroup: groupName, ClientID: clientID,
		MQSet: queues})
	require.NoError(p.t, err)
	answer := p.call(codec.ReqLockBatchMQ, nil, data)
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
	var got body.LockBatchResponseBody
	require.NoError(p.t, body.Decode(answer.Body, &got))
	return got.LockOKMQSet
}

func (p *peer) unlock(groupName, clientID string, queues ...body.MessageQueue) {
	p.t.Helper()
	data, err := body.Encode(&body.LockBatchRequestBody{ConsumerGroup: groupName, ClientID: clientID,
		MQSet: queues})
	require.NoError(p.t, err)
	require.Equal(p.t, codec.RespSuccess, p.call(codec.ReqUnlockBatchMQ, nil, data).Code)
}

// Queues are locked for one client of a group at a time, until it lets go or is silent for a minute.
func TestQueueLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true})
		q := []body.MessageQueue{b.queue("T", 0), b.queue("T", 1), b.queue("T", 2)}
		require.ElementsMatch(t, q[:2], b.lock("G", "c1", q[:2]...))
		require.ElementsMatch(t, q[2:], b.lock("G", "c2", q...))
		require.ElementsMatch(t, q, b.lock("H", "c2", q...), "another group")
		b.unlock("G", "c2", q[0])
		require.ElementsMatch(t, q[2:], b.lock("G", "c2", q...), "what is somebody else's is not unlocked")
		b.unlock("G", "c1", q[0])
		require.ElementsMatch(t, []body.MessageQueue{q[0], q[2]}, b.lock("G", "c2", q...))
		time.Sleep(50 * time.Second)
		require.ElementsMatch(t, q[1:2], b.lock("G", "c1", q...), "renewed")
		time.Sleep(30 * time.Second)
		require.ElementsMatch(t, []body.MessageQueue{q[0], q[2]}, b.lock("G", "c3", q...), "c2 was silent too long")
		require.Empty(t, b.lock("G", "c3"))
	})
}
