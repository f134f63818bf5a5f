package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// consumer reads the topic with all groups.
type consumer struct {
	o       *Options
	t       *target
	tl      *timeline
	e2e     bool // latency is from the time due that messages carry
	run     uint64
	pullers []*puller
	shards  []*shard
	checks  []*Checker // of each group; none if nobody asks

	got   atomic.Int64 // messages of the measured part
	stop  context.CancelCauseFunc
	ready sync.WaitGroup // until every connection has its pulls at the broker
}

// errEnough ends consumers that have all they want.
var errEnough = errors.New("bench: enough")

// newConsumer finds where each group begins.
func newConsumer(ctx context.Context, o *Options, t *target, run uint64, tl *timeline) (*consumer, error) {
	c := &consumer{o: o, t: t, tl: tl, run: run, e2e: o.Kind == EndToEnd}
	for range min(o.Conns*o.Groups, maxShards) {
		c.shards = append(c.shards, newShard(false))
	}
	starts := offsets{}
	names := o.groupNames()
	if len(names) > manyGroups {
		for _, addr := range t.brokers {
			if err := t.makeGroups(ctx, addr, names); err != nil {
				return nil, err
			}
		}
	}
	if o.Share > 0 {
		return c, c.share(ctx, names, starts)
	}
	for _, name := range names {
		var check *Checker
		if o.Verify || c.e2e {
			check = NewChecker(run)
			c.checks = append(c.checks, check)
		}
		for _, addr := range t.brokers {
			if len(names) > manyGroups {
				break // made above
			}
			if err := t.ensureGroup(ctx, addr, name); err != nil {
				return nil, err
			}
		}
		if err := c.addPullers(ctx, name, check, starts); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ensureGroup makes the group if the broker does not know it and does not make groups by itself.
func (t *target) ensureGroup(ctx context.Context, addr, group string) error {
	_, err := t.c.GroupConfig(ctx, addr, group)
	if client.IsResponse(err, codec.RespSubscriptionGroupNotExist) {
		err = t.c.CreateGroup(ctx, addr, body.NewSubscriptionGroupConfig(group))
	}
	var refused *client.ResponseError
	if err == nil || errors.As(err, &refused) { // a 4.x broker: it makes groups, or the pulls say that it does not
		return nil
	}
	return fmt.Errorf("bench: group %s at %s: %w", group, addr, err)
}

// addPullers shares the queues of each broker among the group's connections.
func (c *consumer) addPullers(ctx context.Context, group string, check *Checker, starts offsets) error {
	brokers := c.t.byBroker()
	for _, queues := range brokers {
		n := min(max(c.o.Conns/len(brokers), 1), len(queues))
		first := len(c.pullers)
		for range n {
			sh := c.shards[len(c.pullers)%len(c.shards)]
			c.pullers = append(c.pullers, newPuller(c, []string{group}, queues[0].Addr, check, sh))
		}
		for i, q := range queues {
			if err := c.pullers[first+i%n].add(ctx, group, q, starts); err != nil {
				return err
			}
		}
	}
	return nil
}

// share gives each connection to a broker its share of the groups, with all their queues.
func (c *consumer) share(ctx context.Context, groups []string, starts offsets) error {
	brokers := c.t.byBroker()
	for _, queues := range brokers {
		n := min(max(c.o.Share/len(brokers), 1), len(groups))
		parts := make([][]string, n)
		for i, group := range groups {
			parts[i%n] = append(parts[i%n], group)
		}
		for _, part := range parts {
			p := newPuller(c, part, queues[0].Addr, nil, c.shards[len(c.pullers)%len(c.shards)])
			c.pullers = append(c.pullers, p)
			for _, group := range part {
				for _, q := range queues {
					if err := p.add(ctx, group, q, starts); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// add gives the puller a queue to read for a group.
func (p *puller) add(ctx context.Context, group string, q client.Queue, starts offsets) error {
	pq, err := p.c.begin(ctx, group, q, starts)
	if err != nil {
		return fmt.Errorf("bench: where to begin in queue %d at %s: %w", q.ID, q.Addr, err)
	}
	pq.group = []byte(group)
	p.queues = append(p.queues, pq)
	return nil
}

// groupNames are those of all groups.
func (o *Options) groupNames() (names []string) {
	if o.Groups == 1 {
		return []string{o.Group}
	}
	for g := range o.Groups {
		names = append(names, fmt.Sprintf("%s_%d", o.Group, g))
	}
	return names
}

// manyGroups is from where on groups are made with one request for many: a broker writes its file for each request.
const manyGroups = 100

// makeGroups makes all groups, or leaves it to a broker that has no request for that.
func (t *target) makeGroups(ctx context.Context, addr string, names []string) error {
	for from := 0; from < len(names); from += createBatch {
		var list body.SubscriptionGroupList
		for _, name := range names[from:min(from+createBatch, len(names))] {
			list.GroupConfigList = append(list.GroupConfigList, body.NewSubscriptionGroupConfig(name))
		}
		text, err := body.Encode(&list)
		if err != nil {
			return err
		}
		req := codec.NewRequest(codec.ReqUpdateAndCreateSubscriptionGroupList)
		req.Body = text
		long, cancel := context.WithTimeout(ctx, max(t.o.Timeout, routeWait))
		_, err = t.c.Do(long, addr, req)
		cancel()
		if client.IsResponse(err, codec.RespRequestCodeNotSupported) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("bench: %d groups at %s: %w", len(list.GroupConfigList), addr, err)
		}
	}
	return nil
}

// span is a queue's first offset and the one behind its last message.
type span struct{ first, end codec.QueueOffset }

type offsets map[client.Queue]span

// begin finds the place to begin, and to end when everything is read.
func (c *consumer) begin(ctx context.Context, group string, q client.Queue, starts offsets) (*pullQueue, error) {
	s, ok := starts[q]
	if !ok {
		var err error
		if s.first, err = c.t.c.MinOffset(ctx, q.Addr, c.o.Topic, q.ID); err != nil {
			return nil, err
		}
		if s.end, err = c.t.c.MaxOffset(ctx, q.Addr, c.o.Topic, q.ID); err != nil {
			return nil, err
		}
		starts[q] = s
	}
	pq := &pullQueue{id: q.ID, first: s.first, next: s.first, end: s.end}
	from := c.o.From
	if c.e2e {
		from = FromLast
	}
	switch from {
	case FromLast:
		pq.next = s.end
	case FromGroup:
		stopped, err := c.t.c.ConsumerOffset(ctx, q.Addr, group, c.o.Topic, q.ID)
		if err == nil {
			pq.next = stopped
		} else if !client.IsResponse(err, codec.RespQueryNotFound) {
			return nil, err
		}
	}
	pq.start = pq.next
	pq.drain = !c.e2e && !c.o.Loop && c.o.Count == 0 && c.o.Duration == 0 && !c.o.Verify
	return pq, nil
}

// dialAll makes the first connection of every puller.
func (c *consumer) dialAll(ctx context.Context) (conns []net.Conn, err error) {
	for _, p := range c.pullers {
		nc, err := dial(ctx, c.o, p.addr)
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		conns = append(conns, nc)
	}
	return conns, nil
}

// consume pulls until all queues are read, the count is reached, or ctx ends.
func (c *consumer) consume(ctx context.Context, conns []net.Conn) error {
	ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	var wg sync.WaitGroup
	errs := make([]error, len(c.pullers))
	for i, p := range c.pullers {
		wg.Go(func() {
			if errs[i] = p.run(ctx, conns[i]); errs[i] != nil {
				c.stop(errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// count adds messages of the measured part and ends the run when there are enough.
func (c *consumer) count(now, messages int64) {
	if now < c.tl.measureFrom.Load() {
		return
	}
	if got := c.got.Add(messages); c.o.Kind == Consume && c.o.Count > 0 && got >= c.o.Count {
		c.stop(errEnough)
	}
}

// complete tells whether every group has seen all that the producers got acknowledged so far.
func (c *consumer) complete(p *producer) bool {
	all := true
	p.acked(func(producer uint32, b *bitmap) {
		for _, check := range c.checks {
			all = all && check.complete(producer, b)
		}
	})
	return all
}

// commit stores the groups' progress, so that --from group goes on there.
func (c *consumer) commit(ctx context.Context) error {
	for _, p := range c.pullers {
		for _, q := range p.queues {
			if q.next == q.start {
				continue
			}
			if err := c.t.c.CommitOffset(ctx, p.addr, string(q.group), c.o.Topic, q.id, q.next); err != nil {
				return fmt.Errorf("bench: progress of %s in queue %d: %w", q.group, q.id, err)
			}
		}
	}
	return nil
}

// allSeen tells whether every group has seen all of what a ledger says.
func (c *consumer) allSeen(a *Acked) bool {
	for _, check := range c.checks {
		if !check.Complete(a) {
			return false
		}
	}
	return true
}

// received is how many messages have come.
func (c *consumer) received() (n int64) {
	for _, s := range c.shards {
		s.mu.Lock()
		n += s.total.messages
		s.mu.Unlock()
	}
	return n
}
