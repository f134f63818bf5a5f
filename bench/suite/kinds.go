package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"skylark/bench"
)

// Sizes of the kinds of messages, at scale 1.
const (
	kindCount   = 100_000
	filterFill  = 200_000
	filterCount = 600_000 // that match
	popCount    = 100_000
	groupCount  = 10_000
	groupQueues = 10 // so many pulls each
	groupConns  = 50 // of all groups together
	groupTime   = 45 * time.Second
	groupWarmup = 20 * time.Second // longer than a pull is held: those that were sent at once are spread by then
)

// delayLevel of the delayed messages: two hours by default, so that none is due while others are measured.
const delayLevel = 18

// kinds are the workloads of what is more than a plain message.
var kinds = []*workload{
	kindOf("transaction", "half messages of 1 KiB, each committed when it is acknowledged", func(o *bench.Options) {
		o.Transaction = true
	}),
	kindOf("delay-put", "sends of 1 KiB with a delay level of two hours", func(o *bench.Options) {
		o.DelayLevel = delayLevel
	}),
	kindOf("timer-put", "sends of 1 KiB with a timer of an hour", func(o *bench.Options) {
		o.Delay = time.Hour
	}),
	{name: "sql-10", about: "pulls with an SQL92 expression that every 10th message of 1 KiB fits, 4 consumers of 8 queues; " +
		"figures for each message that fits", prepare: fillFilter, measure: filtered},
	{name: "pop-ack", about: "messages of 1 KiB popped by 32 from 8 queues and acknowledged one by one, 4 consumers",
		prepare: func(ctx context.Context, e *env) error { return e.fill(ctx, "pop", kib, e.count(popCount)) },
		measure: popAck(false)},
	{name: "pop-batch-ack", about: "the same, the messages of a pop acknowledged in one request",
		prepare: func(ctx context.Context, e *env) error { return e.fill(ctx, "pop", kib, e.count(popCount)) },
		measure: popAck(true)},
	{name: "groups-10000", about: fmt.Sprintf("10,000 groups of consumers with %d parked pulls each over %d connections, "+
		"no messages", groupQueues, groupConns), prepare: prepareGroups, measure: manyGroups},
}

// kindOf is a workload of sends, 4 connections with 32 under way each.
func kindOf(name, about string, set func(o *bench.Options)) *workload {
	return &workload{name: name, about: about + ", 4 connections × 32 under way",
		measure: func(ctx context.Context, e *env) ([]value, error) {
			o := e.options(bench.Produce, name)
			o.Count, o.Duration, o.Window = e.count(kindCount), e.limit(3*sendLimit), 32
			set(&o)
			r, err := e.run(ctx, o)
			if err != nil {
				return nil, err
			}
			if err := refused(r); err != nil {
				return nil, err
			}
			return append(throughput(r), latency(&r.Latency)...), nil
		}}
}

// refused is an error if most of a run was.
func refused(r *bench.Report) error {
	if r.FailedMessages > r.Messages {
		return fmt.Errorf("%d of %d messages were refused: %v", r.FailedMessages, r.FailedMessages+r.Messages, r.Failures)
	}
	return nil
}

// fillFilter stores messages of which every tenth fits.
func fillFilter(ctx context.Context, e *env) error {
	const topic = "filter"
	if e.t.filled[topic] {
		return nil
	}
	o := e.options(bench.Produce, topic)
	o.Count, o.Property = e.count(filterFill), "price"
	for v := range 10 {
		o.Values = append(o.Values, strconv.Itoa(v*10))
	}
	return e.fillWith(ctx, topic, o)
}

func filtered(ctx context.Context, e *env) ([]value, error) {
	o := e.options(bench.Consume, "filter")
	o.Conns, o.Loop, o.Count, o.Duration = 4, true, e.count(filterCount), e.limit(3*sendLimit)
	o.SQL = "price BETWEEN 85 AND 95 AND price IS NOT NULL"
	r, err := e.run(ctx, o)
	if err != nil {
		return nil, err
	}
	return append(throughput(r), latency(&r.Latency)...), nil
}

// popAck takes all messages with a group of its own.
func popAck(batch bool) func(ctx context.Context, e *env) ([]value, error) {
	return func(ctx context.Context, e *env) ([]value, error) {
		o := e.options(bench.Pop, "pop")
		o.Group += "_" + strconv.FormatInt(time.Now().UnixNano(), 36)
		o.BatchAck, o.Duration, o.Count = batch, e.limit(3*sendLimit), e.count(popCount)
		r, err := e.run(ctx, o)
		if err != nil {
			return nil, err
		}
		return append(throughput(r), latency(&r.Latency)...), nil
	}
}

// prepareGroups makes the topic, with a message.
func prepareGroups(ctx context.Context, e *env) error {
	o := e.options(bench.Produce, "groups")
	o.Queues, o.Conns, o.Count = groupQueues, 1, 1
	_, err := e.run(ctx, o)
	return err
}

func manyGroups(ctx context.Context, e *env) ([]value, error) {
	o := e.options(bench.Consume, "groups")
	o.Groups = max(int(e.count(groupCount)), groupConns)
	o.Conns, o.Share, o.From = 1, groupConns, bench.FromLast
	o.Timeout = 30 * time.Second // all pulls begin at once
	o.Warmup, o.Duration = e.time(groupWarmup), e.time(groupTime)
	r, err := e.run(ctx, o)
	if err != nil {
		return nil, err
	}
	return slices.Concat(standing(r, o.Groups*groupQueues, "pull"), []value{failed(r)}), nil
}
