//go:build interop && linux

package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skylark/client"
	"skylark/codec"
)

const (
	goGroup, javaGroup = "G-go", "G-java"

	lanes        = 4
	laneInterval = 10 * time.Millisecond
	callPatience = 3 * time.Second // as the timeout of a Java producer
	retryPause   = 20 * time.Millisecond
	routeTick    = 50 * time.Millisecond
	commitEvery  = 200 * time.Millisecond
)

// load is our producers and consumers. They look at the route all the time, and give up a call when the master is another
// one; so what they see is how long the group could not be used, not how long a client did not know.
type load struct {
	r      *record
	client *client.Client
	ns     *client.NameServers
	cancel context.CancelFunc
	wg     sync.WaitGroup
	master atomic.Pointer[target]
	gate   sync.RWMutex // producers hold it for reading while a message is under way
	paused bool
}

// target is a master and how long it is one.
type target struct {
	addr string
	ctx  context.Context // ends when clients are told of another one
	end  context.CancelFunc
}

// startLoad begins to send and to consume.
func startLoad(c *cluster, r *record) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{r: r, cancel: cancel}
	l.client = client.New(client.Options{Dialer: client.DialerFunc(c.net.dialFrom(c.load)), CallTimeout: callPatience,
		ConnectTimeout: time.Second})
	l.ns = client.NewNameServers(l.client, []string{c.namesrv.addr()})
	first, end := context.WithCancel(ctx)
	l.master.Store(&target{addr: c.master().addr(), ctx: first, end: end})
	l.wg.Go(func() { l.watchRoute(ctx) })
	for i := range lanes {
		l.wg.Go(func() { l.produce(ctx, i) })
	}
	for q := range int32(queues) {
		l.wg.Go(func() { l.consume(ctx, q) })
	}
	return l
}

func (l *load) stop() {
	if l.paused { // the test failed meanwhile
		l.resume()
	}
	l.cancel()
	l.wg.Wait()
	_ = l.client.Close()
}

// pause returns when no message is under way, and resume goes on.
func (l *load) pause() {
	l.gate.Lock()
	l.paused = true
}

func (l *load) resume() {
	l.paused = false
	l.gate.Unlock()
}

func (l *load) watchRoute(ctx context.Context) {
	for wait(ctx, routeTick) {
		call, cancel := context.WithTimeout(ctx, time.Second)
		info, err := l.ns.ClusterInfo(call)
		cancel()
		if err != nil {
			continue
		}
		addr := client.Masters(info)[brokerName]
		if old := l.master.Load(); addr != "" && addr != old.addr {
			next, end := context.WithCancel(ctx)
			l.master.Store(&target{addr: addr, ctx: next, end: end})
			old.end()
		}
	}
}

// wait pauses, and tells whether to go on.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// produce sends one message after the other, each until it is acknowledged.
func (l *load) produce(ctx context.Context, lane int) {
	padding := strings.Repeat("x", 300+200*lane)
	for seq := 0; wait(ctx, laneInterval); seq++ {
		key := fmt.Sprintf("go-%d-%d", lane, seq)
		l.gate.RLock()
		for !l.send(key, int32(seq%queues), []byte(key+" "+padding)) && wait(ctx, retryPause) {
		}
		l.gate.RUnlock()
	}
}

func (l *load) send(key string, queue int32, data []byte) bool {
	m := l.master.Load()
	ctx, cancel := context.WithTimeout(m.ctx, callPatience)
	defer cancel()
	start := time.Now()
	res, err := l.client.Send(ctx, m.addr, &codec.SendMessageHeader{ProducerGroup: []byte("P-go"), Topic: []byte(topic),
		QueueID: queue}, data)
	if err != nil {
		l.drop(m, err)
		return false
	}
	if res.Code != codec.RespSuccess {
		l.r.doubt()
		return false
	}
	l.r.ack(ours, acked(key, res, start))
	return true
}

// acked notes an answer. The broker that stored the message stands in its id: a broker that hands over its role passes on
// what it is sent.
func acked(key string, res *client.SendResult, start time.Time) ack {
	a := ack{key: key, at: place{res.QueueID, int64(res.QueueOffset)}, start: start, end: time.Now()}
	if host, _, err := codec.ParseOffsetMsgID(res.MsgIDs[0]); err == nil {
		a.addr = host.String()
	}
	return a
}

// drop gives up a connection that says nothing: after a partition it would wait for the next try of TCP.
func (l *load) drop(m *target, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		l.client.Drop(m.addr)
	}
}

// consume reads a queue and commits its progress. It asks a new master how far its group is, as a consumer does that was
// just given the queue, but goes on where it was.
func (l *load) consume(ctx context.Context, queue int32) {
	var next, told int64
	var asked string
	last := time.Now()
	for ctx.Err() == nil {
		m := l.master.Load()
		if asked != m.addr {
			if err := l.askProgress(m, queue); err != nil {
				if !wait(ctx, retryPause) {
					return
				}
				continue
			}
			asked, told = m.addr, -1
		}
		at := l.pull(m, queue, next)
		if at < 0 && !wait(ctx, retryPause) {
			return
		}
		next = max(next, at)
		if next != told && time.Since(last) >= commitEvery {
			last = time.Now()
			call, cancel := context.WithTimeout(m.ctx, callPatience)
			if l.client.CommitOffset(call, m.addr, goGroup, topic, queue, codec.QueueOffset(next)) == nil {
				told = next
				l.r.committed(queue, next)
			}
			cancel()
		}
	}
}

func (l *load) askProgress(m *target, queue int32) error {
	ctx, cancel := context.WithTimeout(m.ctx, callPatience)
	defer cancel()
	got, err := l.client.ConsumerOffset(ctx, m.addr, goGroup, topic, queue)
	if client.IsResponse(err, codec.RespQueryNotFound) {
		got, err = 0, nil
	}
	if err == nil {
		l.r.found(queue, int64(got))
	} else {
		l.drop(m, err)
	}
	return err
}

// pull reads once and tells where to go on, less than 0 if it failed.
func (l *load) pull(m *target, queue int32, from int64) int64 {
	res, err := l.client.Pull(m.ctx, m.addr, client.PullRequest{Group: goGroup, Topic: topic, QueueID: queue,
		QueueOffset: codec.QueueOffset(from), Suspend: commitEvery})
	if err != nil {
		l.drop(m, err)
		return -1
	}
	if res.Code != codec.RespSuccess {
		return from
	}
	err = client.EachRecord(res.Body, func(rec *codec.Record) error {
		l.r.deliver(goGroup, keyOf(rec.Body), place{queue, int64(rec.QueueOffset)})
		return nil
	})
	if err != nil {
		return -1
	}
	return int64(res.NextBeginOffset)
}

// keyOf is the first word of a body.
func keyOf(data []byte) string {
	key, _, _ := strings.Cut(string(data), " ")
	return key
}

// scan reads a queue from its start, at a broker.
func scan(ctx context.Context, c *client.Client, addr string, queue int32) (keys map[int64]string, err error) {
	keys = map[int64]string{}
	for at := codec.QueueOffset(0); ; {
		res, err := c.Pull(ctx, addr, client.PullRequest{Group: goGroup, Topic: topic, QueueID: queue, QueueOffset: at,
			MaxMsgNums: 512})
		if err != nil {
			return nil, err
		}
		if res.Code != codec.RespSuccess {
			if res.NextBeginOffset <= at {
				return keys, nil
			}
			at = res.NextBeginOffset
			continue
		}
		err = client.EachRecord(res.Body, func(rec *codec.Record) error {
			keys[int64(rec.QueueOffset)] = keyOf(rec.Body)
			return nil
		})
		if err != nil {
			return nil, err
		}
		at = res.NextBeginOffset
	}
}
