package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skylark/bench"
)

// Better is the direction of a figure.
type Better string

// The directions. A Neutral figure has no ratio.
const (
	Higher  Better = "higher"
	Lower   Better = "lower"
	Neutral Better = ""
)

// value is a figure that one measurement gave.
type value struct {
	name   string
	unit   string
	better Better
	v      float64
}

// workload is a line of the table.
type workload struct {
	name, about string
	// prepare makes what is measured on, once for each target; nil: nothing.
	prepare func(ctx context.Context, e *env) error
	measure func(ctx context.Context, e *env) ([]value, error)
}

// Sizes at scale 1.
const (
	sendCount  = 300_000
	sendLimit  = 10 * time.Second // of a closed loop, whatever the count
	openTime   = 8 * time.Second  // of an open loop
	pullFill   = 200_000
	pullCount  = 1_000_000
	parkedTime = 20 * time.Second
	idleTime   = 10 * time.Second
	coldBytes  = 1 << 30
	coldSize   = 16 << 10
)

const (
	// shortest is how long an open loop, or what only stands there, is measured at the smallest scale.
	shortest = 100 * time.Millisecond
	// shortestLimit is the least limit of a closed loop, which ends with its count unless the machine is busy elsewhere: it
	// has to get something done even then.
	shortestLimit = 2 * time.Second
	// shortestLive is how long sends go on beside a catch-up that ends sooner: they have to begin at least.
	shortestLive = time.Second
)

const kib = 1024

// workloads is the table.
var workloads = slices.Concat(plain[:len(plain)-plainLast], kinds, plain[len(plain)-plainLast:])

// plainLast is how many of the plain workloads come after the kinds: those that make topics.
const plainLast = 3

// plain are those of plain messages, and of connections.
var plain = []*workload{
	// What only stands there comes first, while little else is in the broker's memory; most topics last, since their
	// files are there from then on.
	{name: "idle-5000", about: "5,000 connections that only send a heartbeat every 30 s", measure: idle},
	parked("parked-1000", 10, "1,000 pulls parked over 10 connections, no messages"),
	parked("parked-10000", 100, "10,000 pulls parked over 100 connections, no messages"),
	send("send-1k", kib, 4, 32, 1),
	send("send-1k-64x1", kib, 64, 1, 1),
	send("send-1k-1x1", kib, 1, 1, 1),
	send("send-1k-1000x1", kib, 1000, 1, 1),
	send("send-128", 128, 4, 32, 1),
	{name: "send-rate", about: "3,000 sends of 1 KiB a second, open loop, 4 connections", measure: sendRate},
	pull(1), pull(2), pull(4), pull(8),
	endToEnd("e2e-1", 1, 3000, "3,000 messages of 1 KiB a second to a consumer in long polls"),
	endToEnd("e2e-8", 8, 1000, "1,000 messages of 1 KiB a second to each of 8 groups in long polls"),
	endToEnd("parked-wake", 100, 100, "100 messages a second to each of 100 groups, 800 parked pulls"),
	{name: "cold-catchup", about: "1,000 sends a second while a consumer reads 1 GiB that is not in memory",
		prepare: fillCold, measure: coldCatchUp},
	send("topics-100", kib, 4, 32, 100),
	send("topics-1000", kib, 4, 32, 1000),
	send("topics-10000", kib, 4, 32, 10000),
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// count scales a number of messages.
func (e *env) count(n int) int64 { return max(int64(float64(n)*e.o.Scale), 100) }

// time scales a duration.
func (e *env) time(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*e.o.Scale), shortest)
}

// limit scales the time that a closed loop may take.
func (e *env) limit(d time.Duration) time.Duration { return max(e.time(d), shortestLimit) }

// options are those of a run against the target.
func (e *env) options(k bench.Kind, topic string) bench.Options {
	o := bench.DefaultOptions(k)
	o.Broker, o.CPUPid, o.Topic = e.t.addr, e.t.pid, "SkylarkSuite_"+topic
	o.Group = o.Topic
	o.Timeout = 10 * time.Second
	return o
}

func send(name string, size, conns, window, topics int) *workload {
	about := fmt.Sprintf("sends of %d bytes, %s × %d under way", size, plural(conns, "connection"), window)
	if topics > 1 {
		about += fmt.Sprintf(", %d topics", topics)
	}
	return &workload{name: name, about: about, measure: func(ctx context.Context, e *env) ([]value, error) {
		o := e.options(bench.Produce, "send")
		if topics > 1 {
			o.Topic, o.Queues = fmt.Sprintf("SkylarkSuite_t%d", topics), 1
		}
		o.Size, o.Conns, o.Window, o.Topics = size, conns, window, topics
		o.Count, o.Duration = e.count(sendCount), e.limit(sendLimit)
		before, _ := e.t.replicaCPU()
		r, err := e.run(ctx, o)
		if err != nil {
			return nil, err
		}
		values := throughput(r)
		if after, ok := e.t.replicaCPU(); ok && r.Messages > 0 {
			spent := float64((after - before).Microseconds())
			values = append(values, value{"slaves' CPU", "µs/msg", Lower, spent / float64(r.Messages)})
		}
		return append(values, latency(&r.Latency)...), nil
	}}
}

func throughput(r *bench.Report) []value {
	out := []value{{"throughput", "msg/s", Higher, r.MessagesPerSec}}
	if c := r.Broker.CPUUsPerMsg; c != nil && r.Messages > 0 {
		out = append(out, value{"broker CPU", "µs/msg", Lower, *c})
	}
	return append(out, value{"failed", "msg", Neutral, float64(r.FailedMessages)})
}

func latency(l *bench.Latency) []value {
	if l.Count == 0 {
		return nil
	}
	return []value{{"p50", "µs", Lower, l.P50}, {"p99", "µs", Lower, l.P99}, {"p99.9", "µs", Lower, l.P999}}
}

func sendRate(ctx context.Context, e *env) ([]value, error) {
	o := e.options(bench.Produce, "send")
	o.Rate, o.Duration = 3000, e.time(openTime)
	r, err := e.run(ctx, o)
	if err != nil {
		return nil, err
	}
	return append(throughput(r)[1:], latency(&r.Latency)...), nil // its throughput is the rate
}

// pull is a group of n consumers that reads what is in memory, 32 messages a request, again and again.
func pull(n int) *workload {
	return &workload{name: fmt.Sprintf("pull-%d", n),
		about: fmt.Sprintf("pulls of 32 messages of 1 KiB from 8 queues, %s", plural(n, "consumer")),
		prepare: func(ctx context.Context, e *env) error {
			return e.fill(ctx, "pull", kib, e.count(pullFill))
		},
		measure: func(ctx context.Context, e *env) ([]value, error) {
			o := e.options(bench.Consume, "pull")
			o.Conns, o.Loop, o.Count, o.Duration = n, true, e.count(pullCount), e.limit(sendLimit)
			r, err := e.run(ctx, o)
			if err != nil {
				return nil, err
			}
			return append(throughput(r), latency(&r.Latency)...), nil
		}}
}

func endToEnd(name string, groups, rate int, about string) *workload {
	return &workload{name: name, about: about, measure: func(ctx context.Context, e *env) ([]value, error) {
		o := e.options(bench.EndToEnd, "e2e")
		o.Rate, o.Groups, o.Conns, o.Duration = float64(rate), groups, 1, e.time(openTime)
		r, err := e.run(ctx, o)
		if err != nil {
			return nil, err
		}
		if v := r.Verify; v != nil && !v.OK() {
			return nil, fmt.Errorf("%s: %s", name, v)
		}
		return append(throughput(r)[1:], latency(&r.Latency)...), nil
	}}
}

// parkedQueues is how many pulls each connection of a parked workload has.
const parkedQueues = 100

func parked(name string, conns int, about string) *workload {
	return &workload{name: name, about: about,
		prepare: func(ctx context.Context, e *env) error {
			o := e.options(bench.Produce, "parked")
			o.Queues, o.Conns, o.Count = parkedQueues, 1, 1
			_, err := e.run(ctx, o)
			return err
		},
		measure: func(ctx context.Context, e *env) ([]value, error) {
			o := e.options(bench.Consume, "parked")
			o.Groups, o.Conns, o.From = conns, 1, bench.FromLast
			o.Warmup, o.Duration = e.time(time.Second), e.time(parkedTime)
			r, err := e.run(ctx, o)
			if err != nil {
				return nil, err
			}
			return append(standing(r, conns*parkedQueues, "pull"), failed(r)), nil
		}}
}

func failed(r *bench.Report) value {
	return value{"failed", "requests", Neutral, float64(sumOf(r.Failures))}
}

func sumOf(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// standing is what n things that only stand there cost the broker.
func standing(r *bench.Report, n int, what string) []value {
	b := &r.Broker
	if b.CPUPercent == nil {
		return nil
	}
	const mib = 1 << 20
	grown := max(*b.RSSAnonBytes-*b.RSSAnonBeforeBytes, 0)
	return []value{
		{"broker CPU", "% of a core", Lower, *b.CPUPercent},
		{"anonymous memory", "MiB", Lower, float64(*b.RSSAnonBytes) / mib},
		{"private memory", "MiB", Lower, float64(*b.PrivateBytes) / mib},
		{"grown for each " + what, "bytes", Neutral, float64(grown) / float64(n)},
	}
}

func idle(ctx context.Context, e *env) ([]value, error) {
	const conns = 5000
	o := e.options(bench.Idle, "send")
	o.Conns, o.Warmup, o.Duration = conns, e.time(time.Second), e.time(idleTime)
	r, err := e.run(ctx, o)
	if err != nil {
		return nil, err
	}
	return append(standing(r, conns, "connection"), failed(r)), nil
}

// fill sends n messages to a topic unless an earlier workload has.
func (e *env) fill(ctx context.Context, topic string, size int, n int64) error {
	if e.t.filled[topic] {
		return nil
	}
	o := e.options(bench.Produce, topic)
	o.Size, o.Count = size, n
	if size > kib {
		o.Window = 4
	}
	return e.fillWith(ctx, topic, o)
}

// fillTries is how often the rest is sent again of what a broker refused because it was busy.
const fillTries = 5

// fillWith sends the messages of o, all of them.
func (e *env) fillWith(ctx context.Context, topic string, o bench.Options) error {
	wanted, refused := o.Count, map[string]int64{}
	for range fillTries {
		r, err := e.run(ctx, o)
		if err != nil {
			return err
		}
		if o.Count, refused = o.Count-r.Messages, r.Failures; o.Count <= 0 {
			e.t.filled[topic] = true
			return nil
		}
	}
	return fmt.Errorf("only %d of %d messages were stored: %v", wanted-o.Count, wanted, refused)
}

func fillCold(ctx context.Context, e *env) error {
	return e.fill(ctx, "cold", coldSize, max(e.count(coldBytes/coldSize), 64))
}

// coldCatchUp measures sends alone, then while a consumer reads what was pushed out of memory before.
func coldCatchUp(ctx context.Context, e *env) ([]value, error) {
	live := e.options(bench.Produce, "send")
	live.Rate, live.Duration = 1000, e.time(openTime/2)
	alone, err := e.run(ctx, live)
	if err != nil {
		return nil, err
	}
	out, err := e.t.evict()
	if err != nil {
		e.warn("%s: what the catch-up reads may be in memory: %v", e.t.name, err)
	}
	during, stop := context.WithCancel(ctx)
	defer stop()
	type result struct {
		r   *bench.Report
		err error
	}
	sending := make(chan result, 1)
	live.Duration, live.Warmup = time.Hour, 0 // until the catch-up ends
	go func() {
		r, err := e.run(during, live)
		sending <- result{r, err}
	}()
	catchUp := e.options(bench.Consume, "cold")
	catchUp.Conns, catchUp.CPUPid = 1, 0
	least := time.NewTimer(max(e.time(openTime/8), shortestLive)) // a small catch-up is over before the first send
	defer least.Stop()
	r, err := e.run(ctx, catchUp)
	select {
	case <-least.C:
	case <-ctx.Done():
	}
	stop()
	beside := <-sending
	if err = errors.Join(err, beside.err); err != nil {
		return nil, err
	}
	values := []value{
		{"p99 alone", "µs", Lower, alone.Latency.P99},
		{"p99 beside the catch-up", "µs", Lower, beside.r.Latency.P99},
		{"catch-up", "MB/s", Higher, r.MegabytesPerSec},
		{"failed", "msg", Neutral, float64(beside.r.FailedMessages)},
	}
	if alone.Latency.P99 > 0 {
		values = append(values, value{"p99 grows by", "×", Lower, beside.r.Latency.P99 / alone.Latency.P99})
	}
	if out != nil {
		values = append(values, value{"out of memory before", "%", Neutral, out.percent()})
	}
	return values, nil
}
