package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"skylark/bench"
)

// env is what a workload gets: one target and the suite's options.
type env struct {
	o    *Options
	t    *target
	warn func(format string, args ...any)
}

// run is one run of package bench.
func (e *env) run(ctx context.Context, o bench.Options) (*bench.Report, error) {
	r, err := bench.Run(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.t.name, err)
	}
	if ctx.Err() != nil || r.Messages > 0 {
		return r, nil
	}
	switch { // a run without messages has no figures
	case o.Kind == bench.Produce:
		return nil, fmt.Errorf("%s: no message was taken: %v", e.t.name, r.Failures)
	case o.Kind == bench.Pop:
		return nil, fmt.Errorf("%s: no message was acknowledged: %v", e.t.name, r.Failures)
	case o.Kind == bench.EndToEnd, o.Loop:
		return nil, fmt.Errorf("%s: no message came: %v", e.t.name, r.Failures)
	}
	return r, nil
}

// warmShare is the part of a workload that each target gets before the first round, uncounted.
const warmShare = 0.25

// Run measures every chosen workload on every target. A workload that fails on a target is left out for it and told in
// Result.Problems; the error is for what ends the whole: wrong options, a broker that cannot be reached, ctx.
func Run(ctx context.Context, o Options) (res *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	micro, err := readMicro(o.Micro)
	if err != nil {
		return nil, err
	}
	targets, err := findTargets(ctx, &o)
	defer func() { err = errors.Join(err, closeTargets(targets)) }()
	if err != nil {
		return nil, err
	}
	res = newResult(&o, targets, micro)
	for _, w := range chosen {
		if err := res.measure(ctx, &o, w, targets); err != nil {
			return res, err
		}
	}
	return res, nil
}

// measure runs one workload: prepared and warmed up on each target, then in rounds.
func (res *Result) measure(ctx context.Context, o *Options, w *workload, targets []*target) error {
	row := &Workload{Name: w.name, About: w.about}
	res.Workloads = append(res.Workloads, row)
	out := map[*target]bool{}
	problem := func(t *target, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		out[t] = true
		res.problem("%s on %s: %s", w.name, t.name, strings.TrimPrefix(err.Error(), t.name+": "))
		o.progress("%-16s %-12s FAILED: %v", w.name, t.name, err)
		return nil
	}
	small := *o
	small.Scale = max(o.Scale*warmShare, minScale)
	for _, t := range targets {
		var err error
		if w.prepare != nil {
			err = w.prepare(ctx, &env{o: o, t: t, warn: res.problem})
		}
		if err == nil {
			_, err = w.measure(ctx, &env{o: &small, t: t, warn: func(string, ...any) {}})
		}
		if err != nil {
			if err := problem(t, err); err != nil {
				return err
			}
		}
	}
	for round := range o.Rounds {
		for i := range targets {
			t := targets[(i+round)%len(targets)]
			if out[t] {
				continue
			}
			awaitQuiet(ctx, targets, t)
			begun := time.Now()
			values, err := w.measure(ctx, &env{o: o, t: t, warn: res.problem})
			if err != nil || ctx.Err() != nil {
				if err := problem(t, err); err != nil {
					return err
				}
				continue
			}
			row.add(t.name, values)
			o.progress("%-16s %-12s round %d of %d, %.1f s: %s", w.name, t.name, round+1, o.Rounds,
				time.Since(begun).Seconds(), brief(values))
		}
	}
	row.settle(res.names())
	return nil
}

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// brief is the first figures in a line.
func brief(values []value) string {
	var parts []string
	for _, v := range values {
		if v.better != Neutral && len(parts) < 4 {
			parts = append(parts, fmt.Sprintf("%s %s %s", v.name, number(v.v), v.unit))
		}
	}
	return strings.Join(parts, ", ")
}

// Before a target is measured the others have time to end what the last workload has left them to do (a collection, writes
// to the disk): until they use less than quietShare of a core (an idle Java broker takes 14 %), but not for ever.
const (
	quietShare = 0.25
	quietLook  = 250 * time.Millisecond
	quietLimit = 10 * time.Second
)

func awaitQuiet(ctx context.Context, targets []*target, next *target) {
	used := func() (sum time.Duration) {
		for _, t := range targets {
			if t == next || t.pid == 0 {
				continue
			}
			if cpu, err := bench.ProcessCPU(t.pid); err == nil { // else it does not tell, or is gone
				sum += cpu
			}
		}
		return sum
	}
	if len(targets) < 2 {
		return
	}
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	for end, before := time.Now().Add(quietLimit), used(); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := used()
		if float64(now-before) < quietShare*float64(quietLook) {
			return
		}
		before = now
	}
}
