package bench

import (
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"skylark/client"
)

// producer sends on all connections.
type producer struct {
	o         *Options
	tl        *timeline
	run       uint64
	open      bool
	keepAcked bool
	ledger    *Ledger
	lanes     []*lane
	shards    []*shard

	stopAt  atomic.Int64 // no message is due or claimed from then on
	claimed atomic.Int64 // messages, of the measured part
	allDue  atomic.Bool  // open loop: no more will be due
	giveUp  atomic.Int64 // open loop: what is due and unsent then is not sent any more
	writers sync.WaitGroup

	lagMu sync.Mutex
	lag   *hdr.Histogram // open loop: how late the generator itself was
}

func newProducer(o *Options, t *target, run uint64, tl *timeline, ledger *Ledger) (*producer, error) {
	p := &producer{o: o, tl: tl, run: run, open: o.openLoop(), ledger: ledger,
		keepAcked: o.Kind == EndToEnd || ledger != nil, lag: newHistogram()}
	p.stopAt.Store(math.MaxInt64)
	for range min(o.Conns, maxShards) {
		p.shards = append(p.shards, newShard(p.open))
	}
	brokers := t.byBroker()
	for i := range o.Conns {
		queues := brokers[i%len(brokers)]
		b, err := newBuilder(o, o.topicsOf(i), queues, uint32(i), run, tl.base)
		if err != nil {
			return nil, err
		}
		p.lanes = append(p.lanes, newLane(p, b, p.shards[i%len(p.shards)], queues[0].Addr))
	}
	return p, nil
}

// claim takes one request of the budget of a closed loop.
func (p *producer) claim(now int64) bool {
	if now >= p.stopAt.Load() {
		return false
	}
	if p.o.Count == 0 || now < p.tl.measureFrom.Load() {
		return true
	}
	batch := int64(p.o.Batch)
	return p.claimed.Add(batch)-batch < p.o.Count
}

// stopped tells that claim will not be true any more.
func (p *producer) stopped(now int64) bool {
	return now >= p.stopAt.Load() || p.o.Count > 0 && p.claimed.Load() >= p.o.Count
}

func (p *producer) dial(ctx context.Context, addr string) (net.Conn, error) {
	return dial(ctx, p.o, addr)
}

// dialAll makes the first connection of every lane: an address that is wrong is told before the run begins.
func (p *producer) dialAll(ctx context.Context) (conns []net.Conn, err error) {
	for _, l := range p.lanes {
		nc, err := p.dial(ctx, l.addr)
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		conns = append(conns, nc)
	}
	return conns, nil
}

func closeAll(conns []net.Conn) {
	for _, nc := range conns {
		_ = nc.Close()
	}
}

// produce sends until the time is over, the count reached or ctx ends, and all answers are in.
func (p *producer) produce(ctx context.Context, conns []net.Conn) {
	defer p.writers.Wait()
	from := p.tl.begin(p.o.Warmup)
	if p.o.Duration > 0 {
		p.stopAt.Store(from + int64(p.o.Duration))
	}
	stop := context.AfterFunc(ctx, func() { p.stopAt.Store(0) })
	defer stop()
	if p.o.Mode == Oneway && !p.open {
		p.produceOneway(ctx, conns)
		return
	}
	var wg sync.WaitGroup
	for i, l := range p.lanes {
		wg.Go(func() { l.run(ctx, conns[i]) })
	}
	ended := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { p.expireAll(ended) })
	if p.open {
		helpers.Go(func() { p.pace(ctx, from-int64(p.o.Warmup)) })
	}
	wg.Wait()
	close(ended)
	helpers.Wait()
}

// expireAll fails what is not answered in time, until ended is closed.
func (p *producer) expireAll(ended <-chan struct{}) {
	tick := time.NewTicker(max(min(100*time.Millisecond, p.o.Timeout/4), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, l := range p.lanes {
				now := p.tl.now()
				l.expire(now, now-int64(p.o.Timeout))
			}
			if p.ledger != nil {
				p.ledger.Flush() // its error is kept
			}
		case <-ended:
			return
		}
	}
}

// Limits of one turn of the clock.
const (
	paceTurn  = 256                    // messages that are due between two looks at the clock
	paceSpin  = 2 * time.Microsecond   // closer ones are sent at once
	paceCheck = 100 * time.Millisecond // the longest sleep, so that the end of ctx is seen
)

// pace is the clock of an open loop: message i is due i/rate after start, on the connections in turn.
func (p *producer) pace(ctx context.Context, start int64) {
	sleep, done := p.o.sleeper()
	defer done()
	interval := float64(time.Second) * float64(p.o.Batch) / p.o.Rate
	counted := int64(0)
	var lags []int64
	dirty := make([]bool, len(p.lanes))
	for i := int64(0); ctx.Err() == nil; {
		now := p.tl.now()
		lags = lags[:0]
		due := start + int64(float64(i)*interval)
		for range paceTurn {
			if due > now+int64(paceSpin) || !p.isDue(due, counted) {
				break
			}
			at := int(i % int64(len(p.lanes)))
			p.lanes[at].arrive(due, now)
			dirty[at] = true
			lags = append(lags, now-due)
			if due >= p.tl.measureFrom.Load() {
				counted += int64(p.o.Batch)
			}
			i++
			due = start + int64(float64(i)*interval)
		}
		for at, d := range dirty {
			if d {
				p.lanes[at].push()
				dirty[at] = false
			}
		}
		p.recordLag(lags, now)
		if !p.isDue(due, counted) {
			break
		}
		if d := time.Duration(due - p.tl.now()); d > paceSpin {
			sleep(min(d, paceCheck))
		}
	}
	now := p.tl.now()
	p.giveUp.Store(now + int64(p.o.Timeout))
	p.allDue.Store(true)
	for _, l := range p.lanes {
		l.mu.Lock()
		l.poke(now)
		l.mu.Unlock()
	}
}

// isDue tells whether a message of that time belongs to the run; counted are those before it.
func (p *producer) isDue(due, counted int64) bool {
	return due < p.stopAt.Load() && (p.o.Count == 0 || due < p.tl.measureFrom.Load() || counted < p.o.Count)
}

func (p *producer) recordLag(lags []int64, now int64) {
	if len(lags) == 0 || now < p.tl.measureFrom.Load() {
		return
	}
	p.lagMu.Lock()
	defer p.lagMu.Unlock()
	for _, v := range lags {
		record(p.lag, v)
	}
}

// acked calls f with the acknowledged messages of each producer.
func (p *producer) acked(f func(producer uint32, b *bitmap)) {
	for _, l := range p.lanes {
		l.mu.Lock()
		f(l.b.producer, &l.acked)
		l.mu.Unlock()
	}
}

// byBroker is the queues of one broker: connections are to one broker each.
func (t *target) byBroker() [][]client.Queue {
	at := map[string]int{}
	var out [][]client.Queue
	for _, q := range t.queues {
		i, ok := at[q.Addr]
		if !ok {
			i = len(out)
			at[q.Addr] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], q)
	}
	return out
}
