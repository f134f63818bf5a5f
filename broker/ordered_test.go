package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// journal is what all consumers of a group have consumed, in the order they did, with the queue they say is theirs.
type journal struct {
	mu    sync.Mutex
	queue [4][]string
	owner [4]string // who consumes the queue now
	wrong []string
}

func (j *journal) enter(queueID int32, owner string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was := j.owner[queueID]; was != "" && was != owner {
		j.wrong = append(j.wrong, fmt.Sprintf("%s and %s consume queue %d at a time", was, owner, queueID))
	}
	j.owner[queueID] = owner
}

func (j *journal) leave(queueID int32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owner[queueID] = ""
}

func (j *journal) add(queueID int32, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue[queueID] = append(j.queue[queueID], text)
}

// ordered is a consumer as Java's: it renews its locks every 20 s and consumes a queue as long as its lock is younger
// than 30 s, over the end of its connection; it rebalances every 20 s, when it is told, and every second while a queue
// is refused.
type ordered struct {
	id      string
	net     func() (*client.Conn, error)
	j       *journal
	told    chan struct{}
	quit    chan struct{}
	conn    *client.Conn
	next    map[int32]codec.QueueOffset // of the queues it holds
	renewed map[int32]time.Time
	t       *testing.T
}

const (
	lockRenewal = 20 * time.Second
	lockBelief  = 30 * time.Second
)

func (o *ordered) call(req *codec.Command) *codec.Command {
	if o.conn == nil {
		c, err := o.net()
		if err != nil {
			return nil
		}
		o.conn = c
		if !o.beat() {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	answer, err := o.conn.Call(ctx, req)
	if err != nil {
		o.conn.Close()
		o.conn = nil
		return nil
	}
	return answer
}

func (o *ordered) beat() bool {
	data, _ := body.Encode(heartbeat(o.id, consumer(o.t, "G", 1, "T *")))
	answer := o.call(request(codec.ReqHeartBeat, nil, data))
	return answer != nil && answer.Code == codec.RespSuccess
}

func (o *ordered) lock(code int, queues ...int32) (held []int32) {
	var set []body.MessageQueue
	for _, id := range queues {
		set = append(set, body.MessageQueue{BrokerName: "broker-a", QueueID: id, Topic: "T"})
	}
	data, _ := body.Encode(&body.LockBatchRequestBody{ConsumerGroup: "G", ClientID: o.id, MQSet: set})
	answer := o.call(request(code, nil, data))
	if answer == nil || answer.Code != codec.RespSuccess || code == codec.ReqUnlockBatchMQ {
		return nil
	}
	var got body.LockBatchResponseBody
	require.NoError(o.t, body.Decode(answer.Body, &got))
	for _, q := range got.LockOKMQSet {
		held = append(held, q.QueueID)
	}
	return held
}

// rebalance gives up what others shall have and asks for what is its own; false when something was refused.
func (o *ordered) rebalance() bool {
	answer := o.call(request(codec.ReqGetConsumerListByGroup, &codec.ConsumerGroupRequestHeader{ConsumerGroup: "G"}, nil))
	if answer == nil || answer.Code != codec.RespSuccess {
		return false
	}
	var list body.GetConsumerListByGroupResponseBody
	require.NoError(o.t, body.Decode(answer.Body, &list))
	slices.Sort(list.ConsumerIDList)
	ok := true
	for id := range int32(4) {
		own := list.ConsumerIDList[int(id)%len(list.ConsumerIDList)] == o.id
		_, has := o.next[id]
		switch {
		case has && !own:
			o.drop(id)
			o.lock(codec.ReqUnlockBatchMQ, id)
		case own && !has:
			if len(o.lock(codec.ReqLockBatchMQ, id)) == 0 || !o.take(id) {
				ok = false
			}
		}
	}
	return ok
}

// take begins to consume a queue where the group has come to.
func (o *ordered) take(id int32) bool {
	answer := o.call(request(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "G",
		Topic: "T", QueueID: id}, nil))
	if answer == nil {
		return false
	}
	var h codec.OffsetResponseHeader
	if answer.Code == codec.RespSuccess {
		require.NoError(o.t, codec.DecodeHeader(answer, &h))
	}
	o.next[id], o.renewed[id] = h.Offset, time.Now()
	o.j.enter(id, o.id)
	return true
}

func (o *ordered) drop(id int32) {
	delete(o.next, id)
	delete(o.renewed, id)
	o.j.leave(id)
}

// consume takes some messages of every queue it believes to hold, and commits them.
func (o *ordered) consume() {
	for id, at := range o.next {
		if time.Since(o.renewed[id]) >= lockBelief {
			o.drop(id)
			continue
		}
		answer := o.call(pullWith("G", "T", int(id), at, func(h *codec.PullMessageHeader) { h.MaxMsgNums = 3 }))
		if answer == nil || answer.Code != codec.RespSuccess {
			continue
		}
		for _, text := range bodies(o.t, answer) {
			o.j.add(id, text)
			at++
		}
		o.next[id] = at
		o.call(request(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "G", Topic: "T",
			QueueID: id, CommitOffset: at}, nil))
	}
}

// run consumes until quit is closed.
func (o *ordered) run() {
	var rebalanced, renewed time.Time
	balanced := false
	for {
		if since := time.Since(rebalanced); since >= lockRenewal || !balanced && since >= time.Second {
			o.beat()
			balanced, rebalanced = o.rebalance(), time.Now()
		}
		if time.Since(renewed) >= lockRenewal {
			renewed = time.Now()
			all := []int32{}
			for id := range o.next {
				all = append(all, id)
			}
			for _, id := range o.lock(codec.ReqLockBatchMQ, all...) {
				o.renewed[id] = renewed
			}
		}
		o.consume()
		select {
		case <-o.quit:
			if o.conn != nil {
				o.conn.Close()
			}
			for id := range o.next {
				o.drop(id)
			}
			return
		case <-o.told:
			balanced = false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// The master restarts, cleanly and by kill -9, while producers send and three members consume in order: nothing is
// lost, every queue is in order but for what is consumed again from the last commit on disk, and no two members
// consume a queue at a time. Java forgets the locks: whoever comes back first takes all queues.
func TestRestartUnderOrderedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := "serverChannelMaxIdleTimeSeconds=1000000\nflushDiskType=SYNC_FLUSH\nuseServerSideResetOffset=true\n"
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: conf})
		b.createTopic("T", 4, 6)
		b.createGroup("G", nil)
		var mu sync.Mutex // of b
		now := func() *testBroker {
			mu.Lock()
			defer mu.Unlock()
			return b
		}
		j, quit := &journal{}, make(chan struct{})
		var wg sync.WaitGroup
		for i := range 3 {
			o := &ordered{id: fmt.Sprint("c", i), j: j, told: make(chan struct{}, 1), quit: quit, t: t,
				next: map[int32]codec.QueueOffset{}, renewed: map[int32]time.Time{}}
			// Each finds the broker again at its own time, as real ones do.
			o.net = func() (*client.Conn, error) {
				at := now()
				if at == nil {
					return nil, context.Canceled
				}
				nc, err := at.net.Dial(context.Background(), at.Addr().String())
				if err != nil {
					return nil, err
				}
				return client.NewConn(nc, client.Options{Handler: func(*client.Conn, *codec.Command) *codec.Command {
					select {
					case o.told <- struct{}{}:
					default:
					}
					return nil
				}}), nil
			}
			wg.Go(o.run)
		}
		sent := [4]int{}
		send := func(n int) {
			for range n {
				q := rand.IntN(4)
				answer := b.send("T", q, "", []byte(fmt.Sprintf("%d", sent[q])))
				require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
				sent[q]++
				time.Sleep(50 * time.Millisecond)
			}
		}
		for round := range 4 {
			send(100)
			mu.Lock()
			old := b
			b = nil
			mu.Unlock()
			var next *testBroker
			if round%2 == 0 {
				next = old.restart()
			} else {
				next = old.kill()
			}
			time.Sleep(2 * time.Second)
			mu.Lock()
			b = next
			mu.Unlock()
			send(100)
		}
		time.Sleep(2 * time.Minute)
		close(quit)
		wg.Wait()
		require.Empty(t, j.wrong)
		for id, got := range j.queue {
			require.NotEmpty(t, got)
			high := -1
			for _, text := range got {
				var n int
				_, err := fmt.Sscan(text, &n)
				require.NoError(t, err)
				require.LessOrEqual(t, n, high+1, "queue %d skips: %s", id, strings.Join(got, " "))
				high = max(high, n)
			}
			require.Equal(t, sent[id]-1, high, "queue %d", id)
		}
	})
}
