package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// Pauses of a puller.
const (
	heartbeatEvery = 30 * time.Second
	emptyPause     = 10 * time.Millisecond  // after an answer without messages that the broker did not hold
	refusedPause   = 100 * time.Millisecond // after a failed pull
)

// pullReadBytes is a puller's read buffer to begin with; it grows to the longest answer.
const pullReadBytes = 256 << 10

// heartbeatOpaque is that of heartbeats; pulls have the index of their queue.
const heartbeatOpaque = 1 << 30

// pullQueue is the progress in one queue.
type pullQueue struct {
	id    int32
	group []byte
	first codec.QueueOffset // of the queue
	start codec.QueueOffset // where the run began
	next  codec.QueueOffset
	end   codec.QueueOffset // behind the last message when the run began
	drain bool              // end there

	waiting bool  // a pull is under way
	sentAt  int64 // when it was sent
	retryAt int64 // not before
	done    bool
}

// puller is one connection of a consumer group, or of several: it has one pull under way for each of its queues, as a
// push consumer has.
type puller struct {
	c      *consumer
	groups []string
	addr   string
	check  *Checker // nil: nobody asks
	sh     *shard
	queues []*pullQueue

	frames    client.PullFrames
	header    codec.PullMessageHeader
	heartbeat []byte
	beatAt    int64 // when the next one is due
	armed     int64 // the connection's read deadline
	out       []byte
	samples   []sample
	started   sync.Once
}

func newPuller(c *consumer, groups []string, addr string, check *Checker, sh *shard) *puller {
	p := &puller{c: c, groups: groups, addr: addr, check: check, sh: sh}
	p.header = codec.PullMessageHeader{Topic: []byte(c.o.Topic),
		MaxMsgNums: int32(c.o.PullBatch), SuspendTimeoutMillis: c.o.Suspend.Milliseconds(), SubVersion: time.Now().UnixMilli()}
	if c.o.SQL == "" { // as for clients, an expression is told in heartbeats alone
		p.header.Subscription, p.header.ExpressionType = []byte(c.o.tagExpression()), []byte(body.ExpressionTag)
	}
	req := codec.NewRequest(codec.ReqHeartBeat)
	req.Type, req.Opaque, req.Body = c.o.Serialize, heartbeatOpaque, p.heartbeatBody(len(c.pullers))
	p.heartbeat = req.AppendTo(nil)
	c.ready.Add(1)
	return p
}

// tagExpression is what consumers of tags subscribe to.
func (o *Options) tagExpression() string {
	if len(o.Tags) == 0 {
		return body.SubscribeAll
	}
	return strings.Join(o.Tags, " || ")
}

func (p *puller) heartbeatBody(id int) []byte {
	expression, typ := p.c.o.tagExpression(), body.ExpressionTag
	if p.c.o.SQL != "" {
		expression, typ = p.c.o.SQL, body.ExpressionSQL92
	}
	sub, err := body.NewSubscription(p.c.o.Topic, expression, typ)
	if err != nil {
		panic("BUG: bench: " + err.Error()) // tags were checked
	}
	sub.SubVersion = p.header.SubVersion
	h := &body.HeartbeatData{ClientID: fmt.Sprintf("bench@%d#%d", os.Getpid(), id)}
	for _, group := range p.groups {
		h.ConsumerDataSet = append(h.ConsumerDataSet, &body.ConsumerData{GroupName: group, ConsumeType: body.ConsumePassively,
			MessageModel: body.Clustering, ConsumeFromWhere: body.FromFirstOffset,
			SubscriptionDataSet: []*body.SubscriptionData{sub}})
	}
	text, err := body.Encode(h)
	if err != nil {
		panic("BUG: bench: " + err.Error())
	}
	return text
}

// introduce tells the broker of the subscription before the first pull, which carries none.
func (p *puller) introduce(ctx context.Context, nc net.Conn) error {
	if p.c.o.SQL == "" {
		return nil
	}
	_ = nc.SetDeadline(time.Now().Add(p.c.o.Timeout))
	if _, err := nc.Write(p.heartbeat); err != nil {
		return err
	}
	r := reader{nc: nc, buf: make([]byte, 0, 4<<10)}
	for answered := false; !answered; {
		if err := r.fill(); err != nil {
			return err
		}
		if err := r.each(func(f codec.Frame) error {
			a, err := client.PeekAnswer(f, &r.cmd)
			answered = answered || err == nil && a.IsResponse() && a.Opaque == heartbeatOpaque
			if err == nil && answered && a.Code != codec.RespSuccess {
				err = fmt.Errorf("bench: the broker refuses the subscription: %s", codec.ResponseCodeName(a.Code))
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nc.SetDeadline(time.Time{})
}

// isReady tells once that the first pulls are on their way, or that they never will be.
func (p *puller) isReady() { p.started.Do(p.c.ready.Done) }

// run pulls on one connection after the other until all queues are read or ctx ends.
func (p *puller) run(ctx context.Context, nc net.Conn) error {
	defer p.isReady()
	for pause := firstRedial; ; {
		if nc != nil {
			finished, err := p.serve(ctx, nc)
			if finished || err != nil {
				return err
			}
			nc, pause = nil, firstRedial
		}
		if ctx.Err() != nil {
			return nil
		}
		var err error
		if nc, err = dial(ctx, p.c.o, p.addr); err != nil {
			wait(ctx, pause)
			pause = min(2*pause, lastRedial)
		}
	}
}

// serve uses one connection until it is lost or there is nothing more to do. An error is one of the messages.
func (p *puller) serve(ctx context.Context, nc net.Conn) (finished bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	defer nc.Close()
	if err := p.introduce(ctx, nc); err != nil {
		p.lost(ctx)
		return ctx.Err() != nil, nil
	}
	r := reader{nc: nc, buf: make([]byte, 0, pullReadBytes)}
	p.beatAt, p.armed = 0, 0
	for _, q := range p.queues {
		q.waiting = false
	}
	for {
		now := p.c.tl.now()
		if finished = p.send(now); finished || ctx.Err() != nil {
			return true, nil
		}
		if len(p.out) > 0 {
			_ = nc.SetWriteDeadline(p.c.tl.base.Add(time.Duration(now) + p.c.o.Timeout))
			if _, err := nc.Write(p.out); err != nil {
				p.lost(ctx)
				return ctx.Err() != nil, nil
			}
			p.isReady()
		}
		p.arm(nc, now)
		switch err := r.fill(); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if p.expired(p.c.tl.now()) {
				return false, nil
			}
		case err != nil:
			p.lost(ctx)
			return ctx.Err() != nil, nil
		default:
			if err := p.take(&r, p.c.tl.now()); err != nil {
				return false, err
			}
		}
	}
}

// send appends the pulls and the heartbeat that are due to out. finished: all queues are read.
func (p *puller) send(now int64) (finished bool) {
	p.out = p.out[:0]
	finished = true
	for i, q := range p.queues {
		if q.drain && q.next >= q.end {
			q.done = true
		}
		if q.done {
			continue
		}
		finished = false
		if q.waiting || q.retryAt > now {
			continue
		}
		h := &p.header
		h.ConsumerGroup, h.QueueID, h.QueueOffset, h.SysFlag = q.group, q.id, q.next, 0
		if h.Subscription != nil {
			h.SysFlag = codec.PullFlagSubscription
		}
		if p.c.o.Suspend > 0 && !p.c.o.Loop && !q.drain {
			h.SysFlag |= codec.PullFlagSuspend
		}
		if h.CommitOffset = q.next; q.next > q.start {
			h.SysFlag |= codec.PullFlagCommitOffset
		}
		p.out = p.frames.Append(p.out, p.c.o.Serialize, int32(i), h)
		q.waiting, q.sentAt = true, now
	}
	if now >= p.beatAt && !finished {
		p.out = append(p.out, p.heartbeat...)
		p.beatAt = now + int64(heartbeatEvery)
	}
	return finished
}

// limit is how long a pull may take.
func (p *puller) limit() int64 { return int64(p.c.o.Suspend + p.c.o.Timeout) }

// arm sets the read deadline to when something is to be done without an answer. One that is set and earlier
// stays: it only wakes us for nothing, now and then.
func (p *puller) arm(nc net.Conn, now int64) {
	at := p.beatAt
	for _, q := range p.queues {
		switch {
		case q.done:
		case q.waiting:
			at = min(at, q.sentAt+p.limit())
		default:
			at = min(at, q.retryAt)
		}
	}
	if p.armed <= now || at < p.armed {
		p.armed = at
		_ = nc.SetReadDeadline(p.c.tl.base.Add(time.Duration(at))) // fails only if closed, and then Read does too
	}
}

// expired counts the pulls that were not answered in time; then the connection is given up.
func (p *puller) expired(now int64) (any bool) {
	for _, q := range p.queues {
		if q.waiting && now >= q.sentAt+p.limit() {
			p.sh.fail(failTimeout, 1, 0)
			any = true
		}
	}
	return any
}

// lost counts a connection that ended by itself.
func (p *puller) lost(ctx context.Context) {
	if ctx.Err() == nil {
		p.sh.fail(failLost, 1, 0)
	}
}

// take reads the answers that have come.
func (p *puller) take(r *reader, now int64) error {
	return r.each(func(f codec.Frame) error {
		if err := r.cmd.Decode(f); err != nil {
			return err
		}
		if !r.cmd.IsResponse() || r.cmd.Opaque < 0 || int(r.cmd.Opaque) >= len(p.queues) {
			return nil // requests of the broker, answers to heartbeats
		}
		q := p.queues[r.cmd.Opaque]
		if !q.waiting {
			return nil
		}
		q.waiting = false
		return p.answer(q, &r.cmd, now)
	})
}

func (p *puller) answer(q *pullQueue, cmd *codec.Command, now int64) error {
	next, ok := nextOffset(cmd)
	switch {
	case cmd.Code == codec.RespSuccess && ok:
		if err := p.messages(q, cmd.Body, now); err != nil {
			return err
		}
		q.next = next
	case cmd.Code == codec.RespPullRetryImmediately && ok: // none of those that were looked at fits
		q.next = next
	case cmd.Code == codec.RespPullNotFound && ok:
		switch q.next = next; {
		case p.c.o.Loop && next > q.first:
			q.next = q.first
		case now-q.sentAt < int64(emptyPause):
			q.retryAt = now + int64(emptyPause)
		}
	case cmd.Code == codec.RespPullOffsetMoved && ok:
		p.sh.fail(failCode(cmd.Code), 1, 0)
		q.first, q.next, q.retryAt = max(q.first, next), next, now+int64(emptyPause)
	default:
		p.sh.fail(failCode(cmd.Code), 1, 0)
		q.retryAt = now + int64(refusedPause)
	}
	return nil
}

// nextOffset is where to go on, of any answer to a pull.
func nextOffset(cmd *codec.Command) (codec.QueueOffset, bool) {
	f := cmd.Lookup("nextBeginOffset")
	if f == nil || f.Escaped {
		return 0, false
	}
	v := int64(0)
	for _, c := range f.Value {
		if c-'0' > 9 {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return codec.QueueOffset(v), len(f.Value) > 0
}

// messages counts what a pull brought. Without stamps to read only the lengths are looked at.
func (p *puller) messages(q *pullQueue, b []byte, now int64) error {
	n := sums{requests: 1, bytes: int64(len(b))}
	p.samples = p.samples[:0]
	if p.check == nil && !p.c.o.CheckCRC {
		for len(b) > 0 {
			if len(b) < 4 {
				return p.corrupt(q, codec.ErrCorrupt)
			}
			size := int(binary.BigEndian.Uint32(b))
			if size < codec.MinRecordBytes || size > len(b) {
				return p.corrupt(q, fmt.Errorf("%w: size %d in %d", codec.ErrCorrupt, size, len(b)))
			}
			b = b[size:]
			n.messages++
		}
	} else {
		var err error
		if n.messages, err = p.records(b); err != nil {
			return p.corrupt(q, err)
		}
	}
	if !p.c.e2e {
		p.samples = append(p.samples[:0], sample{q.sentAt, q.sentAt})
	}
	p.sh.answered(now, p.samples, n)
	p.c.count(now, n.messages)
	return nil
}

// records reads the stamps of messages.
func (p *puller) records(b []byte) (n int64, err error) {
	for len(b) > 0 {
		r, err := codec.ParseRecord(b, p.c.o.CheckCRC)
		if err == nil && r.IsBlank() {
			err = codec.ErrCorrupt
		}
		if err != nil {
			return n, err
		}
		b = b[r.TotalSize:]
		n++
		if p.check == nil {
			continue
		}
		s, ok := StampOf(&r)
		if !ok {
			p.check.SawOther()
			continue
		}
		p.check.Saw(s)
		if due := s.Due - p.c.tl.base.UnixNano(); p.c.e2e && s.Run == p.c.run && due >= p.c.tl.measureFrom.Load() {
			p.samples = append(p.samples, sample{due, due})
		}
	}
	return n, nil
}

func (p *puller) corrupt(q *pullQueue, err error) error {
	return fmt.Errorf("bench: messages of queue %d at %s from offset %d on: %w", q.id, p.addr, q.next, err)
}
