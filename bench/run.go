package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Run does what the options say and reports. When ctx ends it stops early and reports what was done until
// then. With an error there may be a report too: of a run that lost messages, for instance.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if _, err := o.meter(); err != nil { // before the load, not after it
		return nil, err
	}
	before, err := o.memory()
	if err != nil {
		return nil, err
	}
	t, err := connect(ctx, &o)
	if err != nil {
		return nil, err
	}
	r := &run{o: &o, t: t, tl: newTimeline(), id: rand.Uint64(), before: before}
	r.report = newReport(&o, t, r.tl)
	switch o.Kind {
	case Produce:
		err = r.produce(ctx)
	case Consume:
		err = r.consume(ctx)
	case EndToEnd:
		err = r.endToEnd(ctx)
	case Pop:
		err = r.pop(ctx)
	default:
		err = r.idle(ctx)
	}
	return r.report, errors.Join(err, t.close())
}

// ErrLost is the error of a verification that failed; the report has the verdict.
var ErrLost = errors.New("bench: acknowledged messages are lost")

// run is one run.
type run struct {
	o      *Options
	t      *target
	tl     *timeline
	id     uint64
	before memory // of the broker, before the load
	report *Report
}

// watched does work while a watcher looks at the shards.
func (r *run) watched(main, other []*shard, work func() error) error {
	w := &watcher{o: r.o, tl: r.tl, main: main, other: other}
	ended, done := make(chan struct{}), make(chan struct{})
	r.tl.begin(r.o.Warmup)
	if r.o.Warmup == 0 {
		w.measure() // now, and not when the watcher's turn comes: the run may be over by then
	}
	go func() {
		defer close(done)
		w.watch(ended)
	}()
	err := work()
	close(ended)
	<-done
	if !w.begun { // the run ended within its warm-up
		w.measure()
	}
	r.report.fill(merge(main), r.tl, r.o.Kind == Produce && r.o.openLoop())
	r.report.Intervals = append(r.report.Intervals, w.list...)
	return errors.Join(err, w.used(r.report, r.before))
}

func (r *run) newProducer() (*producer, error) {
	var ledger *Ledger
	if r.o.Ledger != "" {
		var err error
		if ledger, err = CreateLedger(r.o.Ledger, r.id); err != nil {
			return nil, err
		}
	}
	p, err := newProducer(r.o, r.t, r.id, r.tl, ledger)
	if err != nil && ledger != nil {
		err = errors.Join(err, ledger.Close())
	}
	return p, err
}

func (r *run) produce(ctx context.Context) (err error) {
	before, err := r.storedIf(ctx, r.o.Mode == Oneway)
	if err != nil {
		return err
	}
	p, err := r.newProducer()
	if err != nil {
		return err
	}
	defer p.closeLedger(&err)
	conns, err := p.dialAll(ctx)
	if err != nil {
		return err
	}
	err = r.watched(p.shards, nil, func() error {
		p.produce(ctx, conns)
		return nil
	})
	r.addLag(p)
	if r.o.Mode != Oneway {
		return err
	}
	return errors.Join(err, r.awaitStored(ctx, before))
}

// closeLedger ends the ledger; its error becomes that of the run.
func (p *producer) closeLedger(err *error) {
	if p.ledger != nil {
		*err = errors.Join(*err, p.ledger.Close())
	}
}

func (r *run) addLag(p *producer) {
	if p.open {
		lag := latencyOf(p.lag)
		r.report.Lag = &lag
	}
}

func (r *run) storedIf(ctx context.Context, wanted bool) (int64, error) {
	if !wanted {
		return 0, nil
	}
	return r.t.stored(ctx)
}

// awaitStored asks how much of what was sent without answers has arrived, until it is all of it or comes no
// more.
func (r *run) awaitStored(ctx context.Context, before int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Drain+r.o.Timeout)
	defer cancel()
	last, since := int64(-1), time.Now()
	for {
		now, err := r.t.stored(ctx)
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if got := now - before; got >= r.report.Messages || time.Since(since) >= r.o.Drain || !wait(ctx, routePause) {
			r.report.StoredMessages = &got
			return nil
		}
	}
}

func (r *run) consume(ctx context.Context) error {
	acked := &Acked{}
	if r.o.Verify {
		var err error
		if acked, err = ReadLedger(r.o.Ledger); err != nil {
			return err
		}
	}
	c, err := newConsumer(ctx, r.o, r.t, acked.Run, r.tl)
	if err != nil {
		return err
	}
	conns, err := c.dialAll(ctx)
	if err != nil {
		return err
	}
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	if r.o.Duration > 0 {
		timer := time.AfterFunc(r.o.Warmup+r.o.Duration, stop)
		defer timer.Stop()
	}
	err = r.watched(c.shards, nil, func() error {
		if r.o.Verify {
			go func() {
				defer stop()
				r.awaitSeen(stopped, c, func() bool { return c.allSeen(acked) })
			}()
		}
		return c.consume(stopped, conns)
	})
	if err == nil && r.o.From == FromGroup {
		err = c.commit(context.WithoutCancel(ctx))
	}
	if err == nil && r.o.Verify {
		err = r.verify(c, acked)
	}
	return err
}

// awaitSeen returns when done is true, or when nothing has come for o.Drain.
func (r *run) awaitSeen(ctx context.Context, c *consumer, done func() bool) {
	const pause = 50 * time.Millisecond
	last, since := int64(-1), time.Now()
	for !done() && wait(ctx, pause) {
		if now := c.received(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) >= r.o.Drain {
			return
		}
	}
}

func (r *run) endToEnd(ctx context.Context) (err error) {
	p, err := r.newProducer()
	if err != nil {
		return err
	}
	defer p.closeLedger(&err)
	c, err := newConsumer(ctx, r.o, r.t, r.id, r.tl)
	if err != nil {
		return err
	}
	sending, err := p.dialAll(ctx)
	if err != nil {
		return err
	}
	pulling, err := c.dialAll(ctx)
	if err != nil {
		closeAll(sending)
		return err
	}
	err = r.watched(c.shards, p.shards, func() error {
		cctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		consumed := make(chan error, 1)
		go func() { consumed <- c.consume(cctx, pulling) }()
		c.ready.Wait()
		p.produce(ctx, sending)
		r.awaitSeen(cctx, c, func() bool { return c.complete(p) })
		stop()
		return <-consumed
	})
	r.addLag(p)
	m := merge(p.shards)
	r.report.Sent = &SentReport{Messages: m.total.messages, FailedMessages: m.total.failed, Failures: m.failures,
		Latency: latencyOf(m.latency), Service: latencyOf(m.service)}
	acked := &Acked{Run: r.id, sets: map[uint32]*bitmap{}}
	p.acked(func(producer uint32, b *bitmap) { acked.sets[producer] = b })
	return errors.Join(err, r.verify(c, acked))
}

// verify compares what was seen with what was acknowledged. Only with --verify a loss is an error.
func (r *run) verify(c *consumer, acked *Acked) error {
	v := &Verdict{Listed: []string{}}
	for _, check := range c.checks {
		check.Verify(acked, v)
	}
	r.report.Verify = v
	if r.o.Verify && !v.OK() {
		return fmt.Errorf("%w: %s", ErrLost, v)
	}
	return nil
}
