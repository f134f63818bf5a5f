package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// pop takes messages with POP_MESSAGE and acknowledges each, over all connections, until a pop finds nothing, the count
// is reached or the time over. What counts are the messages whose ack was answered; latency is from their pop to that.
func (r *run) pop(ctx context.Context) error {
	p := &popper{o: r.o, tl: r.tl, stopAt: math.MaxInt64}
	for range min(r.o.Conns, maxShards) {
		p.shards = append(p.shards, newShard(false))
	}
	var conns []*popConn
	for i := range r.o.Conns {
		queues := r.t.byBroker()[i%len(r.t.brokers)]
		if err := r.t.ensureGroup(ctx, queues[0].Addr, r.o.Group); err != nil {
			return err
		}
		broker, err := r.t.brokerName(ctx, queues[0])
		if err != nil {
			return err
		}
		nc, err := dial(ctx, r.o, queues[0].Addr)
		if err != nil {
			return err
		}
		defer nc.Close()
		conns = append(conns, &popConn{p: p, nc: nc, broker: broker, sh: p.shards[i%len(p.shards)],
			group: []byte(r.o.Group), topic: []byte(r.o.Topic)})
	}
	if r.o.Duration > 0 {
		p.stopAt = r.tl.begin(r.o.Warmup) + int64(r.o.Duration)
	}
	return r.watched(p.shards, nil, func() error {
		var wg sync.WaitGroup
		errs := make([]error, len(conns))
		for i, c := range conns {
			wg.Go(func() { errs[i] = c.run(ctx) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// brokerName is the name in the receipts of a broker that was given by its address.
func (t *target) brokerName(ctx context.Context, q client.Queue) (string, error) {
	if q.BrokerName != "" {
		return q.BrokerName, nil
	}
	answer, err := t.c.Call(ctx, q.Addr, codec.NewRequest(codec.ReqGetBrokerConfig))
	if err == nil && answer.Code == codec.RespSuccess {
		for line := range strings.Lines(string(answer.Body)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "brokerName="); ok {
				return name, nil
			}
		}
	}
	info, ierr := t.c.RuntimeInfo(ctx, q.Addr)
	if name := info["brokerName"]; ierr == nil && name != "" {
		return name, nil
	}
	return "", fmt.Errorf("bench: %s does not tell its name, which acks need: name its name server with -n: %w", q.Addr,
		cmp.Or(err, ierr, ErrUsage))
}

// popper is what the connections share.
type popper struct {
	o       *Options
	tl      *timeline
	shards  []*shard
	stopAt  int64
	claimed atomic.Int64 // messages that were popped in the measured part
}

// popConn is one connection: it has one pop under way, and the acks of those before.
type popConn struct {
	p       *popper
	nc      net.Conn
	broker  string
	sh      *shard
	out     []byte
	text    []byte // of the values in request
	group   []byte
	topic   []byte
	request codec.Command    // an ack
	acks    map[int32]popAck // under way, by opaque
	samples []sample         // of the acks of one read
	done    sums
	next    int32
	popAt   int64
	popped  bool // a pop is under way
	ended   bool
}

// popAck is an ack under way.
type popAck struct {
	popAt    int64
	messages int64
	bytes    int64
}

// firstAck is the opaque of the first ack; pops have 0.
const firstAck = 1

// maxAcks bounds the acks under way on a connection: no pop before there are less.
const maxAcks = 4096

// run pops until there is nothing more to do, or ctx ends.
func (c *popConn) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	defer stop()
	c.acks, c.next = map[int32]popAck{}, firstAck
	r := reader{nc: c.nc, buf: make([]byte, 0, pullReadBytes)}
	for {
		c.pop()
		if len(c.out) > 0 {
			_ = c.nc.SetDeadline(time.Now().Add(c.p.o.Timeout)) // fails only if closed, and then Write does too
			if _, err := c.nc.Write(c.out); err != nil {
				return c.lost(ctx, err)
			}
			c.out = c.out[:0]
		}
		if c.ended && len(c.acks) == 0 {
			return nil
		}
		if err := r.fill(); err != nil {
			return c.lost(ctx, err)
		}
		now := c.p.tl.now()
		if err := r.each(func(f codec.Frame) error {
			a, err := client.PeekAnswer(f, &r.cmd)
			switch {
			case err != nil || !a.IsResponse():
				return err
			case a.Opaque != 0:
				c.acked(a, now)
				return nil
			}
			if err := r.cmd.Decode(f); err != nil {
				return err
			}
			c.popped = false
			return c.messages(&r.cmd, now)
		}); err != nil {
			return err
		}
		c.count(now)
	}
}

func (c *popConn) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("bench: pop: %w", err)
}

// over tells that no more messages are wanted.
func (c *popConn) over(now int64) bool {
	return now >= c.p.stopAt || c.p.o.Count > 0 && c.p.claimed.Load() >= c.p.o.Count
}

// pop appends the next pop if there is room for its acks.
func (c *popConn) pop() {
	now := c.p.tl.now()
	if c.ended = c.ended || !c.popped && c.over(now); c.ended || c.popped || len(c.acks) >= maxAcks {
		return
	}
	o := c.p.o
	req := codec.NewRequest(codec.ReqPopMessage)
	req.Type, req.Opaque = o.Serialize, 0
	codec.EncodeHeader(req, &codec.PopMessageRequestHeader{ConsumerGroup: o.Group, Topic: o.Topic, QueueID: -1,
		MaxMsgNums: int32(o.PullBatch), InvisibleTime: o.Invisible.Milliseconds(), BornTime: time.Now().UnixMilli(),
		InitMode: codec.ConsumeInitModeMin, ExpType: body.ExpressionTag, Exp: body.SubscribeAll})
	c.out = req.AppendTo(c.out)
	c.popped, c.popAt = true, now
}

// acked takes the answer to an ack.
func (c *popConn) acked(a client.Answer, now int64) {
	ack, ok := c.acks[a.Opaque]
	if !ok {
		return
	}
	delete(c.acks, a.Opaque)
	if a.Code != codec.RespSuccess {
		c.sh.fail(failCode(a.Code), 1, ack.messages)
		return
	}
	c.samples = append(c.samples, sample{ack.popAt, ack.popAt})
	c.done.add(sums{requests: 1, messages: ack.messages, bytes: ack.bytes})
}

// count records the acks of one read.
func (c *popConn) count(now int64) {
	if len(c.samples) > 0 {
		c.sh.answered(now, c.samples, c.done)
		c.samples, c.done = c.samples[:0], sums{}
	}
}

// messages acknowledges what a pop brought, as clients do: what a receipt takes stands in the answer's header.
func (c *popConn) messages(cmd *codec.Command, now int64) error {
	switch cmd.Code {
	case codec.RespSuccess:
	case codec.RespPullNotFound, codec.RespPollingTimeout, codec.RespPollingFull:
		c.ended = true
		return nil
	default:
		c.ended = true
		c.sh.fail(failCode(cmd.Code), 1, 0)
		return nil
	}
	var h codec.PopMessageResponseHeader
	if err := codec.DecodeHeader(cmd, &h); err != nil {
		return err
	}
	starts := startOffsets(h.StartOffsetInfo)
	batches := map[int32]*body.BatchAck{}
	n := sums{}
	err := client.EachRecord(cmd.Body, func(r *codec.Record) error {
		start, ok := starts[r.QueueID]
		if !ok || string(r.Topic) != c.p.o.Topic {
			return fmt.Errorf("bench: pop: queue %d of %s is not in startOffsetInfo %q", r.QueueID, r.Topic, h.StartOffsetInfo)
		}
		n.messages++
		n.bytes += int64(r.TotalSize)
		if c.p.o.BatchAck {
			b := batches[r.QueueID]
			if b == nil {
				b = &body.BatchAck{ConsumerGroup: c.p.o.Group, Topic: c.p.o.Topic, Retry: "0", StartOffset: start,
					QueueID: r.QueueID, ReviveQueueID: h.ReviveQID, PopTime: h.PopTime, InvisibleTime: h.InvisibleTime}
				batches[r.QueueID] = b
			}
			b.BitSet.Set(int(int64(r.QueueOffset) - start))
			return nil
		}
		c.ack(r, &h, start)
		return nil
	})
	if err != nil {
		return err
	}
	if c.p.o.BatchAck {
		if err := c.ackAll(batches, n); err != nil {
			return err
		}
	}
	if now >= c.p.tl.measureFrom.Load() {
		c.p.claimed.Add(n.messages)
	}
	return nil
}

// startOffsets reads startOffsetInfo, "flag queue offset;…", of the normal topic.
func startOffsets(info string) map[int32]int64 {
	out := map[int32]int64{}
	for entry := range strings.SplitSeq(info, ";") {
		f := strings.Split(entry, " ")
		if len(f) != 3 || f[0] != "0" {
			continue
		}
		q, err := strconv.ParseInt(f[1], 10, 32)
		at, err2 := strconv.ParseInt(f[2], 10, 64)
		if err == nil && err2 == nil {
			out[int32(q)] = at
		}
	}
	return out
}

// under notes an ack under way and gives its opaque.
func (c *popConn) under(n sums) int32 {
	opaque := c.next
	if c.next++; c.next == math.MaxInt32 {
		c.next = firstAck
	}
	c.acks[opaque] = popAck{popAt: c.popAt, messages: n.messages, bytes: n.bytes}
	return opaque
}

// The names of an ack's fields, in the order of popConn.ack.
var ackKeys = [...][]byte{[]byte("consumerGroup"), []byte("topic"), []byte("queueId"), []byte("extraInfo"), []byte("offset")}

// ack appends the ack of one message. It allocates nothing: there is one for each message.
func (c *popConn) ack(r *codec.Record, h *codec.PopMessageResponseHeader, start int64) {
	b := slices.Grow(c.text[:0], 256+len(c.broker)) // does not move while values point into it
	number := func(v int64) []byte {
		at := len(b)
		b = strconv.AppendInt(b, v, 10)
		return b[at:]
	}
	queueID, offset := number(int64(r.QueueID)), number(int64(r.QueueOffset))
	at := len(b)
	for _, v := range [...]int64{start, h.PopTime, h.InvisibleTime, int64(h.ReviveQID), 0} {
		b = append(strconv.AppendInt(b, v, 10), ' ')
	}
	b = append(append(b, c.broker...), ' ')
	b = append(append(b, queueID...), ' ')
	b = append(b, offset...)
	cmd := &c.request
	cmd.Code, cmd.Language, cmd.Version = codec.ReqAckMessage, codec.LanguageGo, codec.AnnouncedVersion
	cmd.Type = c.p.o.Serialize
	cmd.Opaque, cmd.Fields = c.under(sums{messages: 1, bytes: int64(r.TotalSize)}), cmd.Fields[:0]
	for i, v := range [...][]byte{c.group, c.topic, queueID, b[at:], offset} {
		cmd.Fields = append(cmd.Fields, codec.Field{Key: ackKeys[i], Value: v})
	}
	c.out = cmd.AppendTo(c.out)
	c.text = b
}

// ackAll appends one ack of all messages of a pop.
func (c *popConn) ackAll(batches map[int32]*body.BatchAck, n sums) error {
	list := body.BatchAckMessageRequestBody{BrokerName: c.broker}
	for _, b := range batches {
		list.Acks = append(list.Acks, b)
	}
	text, err := body.Encode(&list)
	if err != nil {
		return err
	}
	req := codec.NewRequest(codec.ReqBatchAckMessage)
	req.Type, req.Opaque, req.Body = c.p.o.Serialize, c.under(n), text
	c.out = req.AppendTo(c.out)
	return nil
}
