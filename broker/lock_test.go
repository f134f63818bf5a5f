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

// told waits until a client is told to rebalance.
func (p *peer) told(groupName string) {
	p.t.Helper()
	select {
	case req := <-p.requests:
		require.Equal(p.t, codec.ReqNotifyConsumerIDsChanged, req.Code)
		require.Equal(p.t, groupName, req.Get("consumerGroup"))
	case <-time.After(time.Hour): // virtual time
		require.FailNow(p.t, "nobody told")
	}
}

// A queue is handed over at once: who was refused it is told when its owner gives it up, leaves the group, or dies.
func TestQueuesAreHandedOver(t *testing.T) {
	f := func(give func(b *testBroker, owner *peer, q body.MessageQueue)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := virtual(t, "")
			owner, next := b.dial(), b.dial()
			owner.beat("c1", consumer(t, "G", 1, "T *"))
			next.beat("c2", consumer(t, "G", 1, "T *"))
			q := b.queue("T", 0)
			require.Len(t, owner.lock("G", "c1", q), 1)
			require.Empty(t, next.lock("G", "c2", q))
			synctest.Wait()
			next.notices()
			begin := time.Now()
			give(b, owner, q)
			next.told("G")
			require.Len(t, next.lock("G", "c2", q), 1)
			require.Less(t, time.Since(begin), 100*time.Millisecond)
		})
	}
	f(func(b *testBroker, owner *peer, q body.MessageQueue) { owner.unlock("G", "c1", q) })
	f(func(b *testBroker, owner *peer, q body.MessageQueue) { owner.Conn.Close() })
	f(func(b *testBroker, owner *peer, q body.MessageQueue) {
		owner.mustCall(codec.ReqUnregisterClient, &codec.UnregisterClientRequestHeader{ClientID: "c1", ConsumerGroup: "G"}, nil)
	})
}

// With queueLockReleaseOnClose=false a queue waits for its owner as with Java's broker.
func TestLocksOutliveTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "queueLockReleaseOnClose=false\n")
		owner, next := b.dial(), b.dial()
		owner.beat("c1", consumer(t, "G", 1, "T *"))
		next.beat("c2", consumer(t, "G", 1, "T *"))
		q := b.queue("T", 0)
		require.Len(t, owner.lock("G", "c1", q), 1)
		owner.Conn.Close()
		for range 3 {
			synctest.Wait()
			next.notices()
			require.Empty(t, next.lock("G", "c2", q))
			time.Sleep(19 * time.Second)
			next.beat("c2", consumer(t, "G", 1, "T *"))
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"G"}, next.notices(), "told when it expires")
		require.Len(t, next.lock("G", "c2", q), 1)
	})
}

// An owner that keeps a queue others want is reminded, so that it looks whether the queue is its own.
func TestOwnersAreReminded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		owner, next := b.dial(), b.dial()
		owner.beat("c1", consumer(t, "G", 1, "T *"))
		next.beat("c2", consumer(t, "G", 1, "T *"))
		q := b.queue("T", 0)
		require.Len(t, owner.lock("G", "c1", q), 1)
		synctest.Wait()
		owner.notices()
		require.Empty(t, next.lock("G", "c2", q))
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, []string{"G"}, owner.notices(), "after a second")
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"G"}, owner.notices(), "and after three")
		require.Equal(t, "1", b.RuntimeInfo()["queueLocksContested"])
		owner.unlock("G", "c1", q)
		require.Equal(t, "0", b.RuntimeInfo()["queueLocksContested"])
		next.told("G")
	})
}

// A client that has another connection keeps its queues when one ends.
func TestLocksOfAClientWithTwoConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		old, fresh, other := b.dial(), b.dial(), b.dial()
		q := b.queue("T", 0)
		old.beat("c1", consumer(t, "G", 1, "T *"))
		require.Len(t, old.lock("G", "c1", q), 1)
		fresh.beat("c1", consumer(t, "G", 1, "T *"))
		old.Conn.Close()
		synctest.Wait()
		require.Equal(t, "c1", b.locks.Owner("G", q))
		require.Empty(t, other.lock("G", "c2", q))
		fresh.Conn.Close()
		synctest.Wait()
		require.Empty(t, b.locks.Owner("G", q))
	})
}

// A client that has gone on to another connection leaves no ghost: the old one is dropped, though it never ended.
func TestGhosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		ghost, fresh := b.dial(), b.dial()
		ghost.beat("c1", consumer(t, "G", 1, "T *"))
		for range 3 {
			time.Sleep(30 * time.Second)
			fresh.beat("c1", consumer(t, "G", 1, "T *"))
		}
		synctest.Wait()
		members := b.consumers.Get("G").Clients()
		require.Len(t, members, 1)
		require.Equal(t, fresh.LocalAddr().String(), members[0].Conn.RemoteAddr().String())
		require.Equal(t, "1", b.RuntimeInfo()["consumerGhostsTotal"])
		require.Contains(t, b.log.String(), "member is a ghost")

		// Two that live are both kept, and named.
		twin := b.dial()
		for range 6 {
			twin.beat("c1", consumer(t, "G", 1, "T *"))
			time.Sleep(15 * time.Second)
			fresh.beat("c1", consumer(t, "G", 1, "T *"))
			time.Sleep(15 * time.Second)
		}
		require.Len(t, b.consumers.Get("G").Clients(), 2)
		require.Equal(t, "1", b.RuntimeInfo()["consumerClientIdTwiceTotal"], "said once")
	})
}
