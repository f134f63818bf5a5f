package goruntime

import (
	"fmt"
	"log/slog"
	"math"
	"runtime/metrics"
	"slices"
	"strconv"
	"time"
)

// names of the metrics of a Report, in the order of its fields.
var names = []string{
	"/sched/pauses/total/gc:seconds",
	"/sched/pauses/total/other:seconds",
	"/sched/latencies:seconds",
	"/gc/cycles/total:gc-cycles",
	"/gc/heap/live:bytes",
	"/gc/heap/goal:bytes",
	"/gc/heap/allocs:bytes",
	"/gc/heap/allocs:objects",
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
	"/sched/goroutines:goroutines",
	"/cpu/classes/gc/total:cpu-seconds",
	"/cpu/classes/total:cpu-seconds",
}

// Report is what the runtime has done, from the start of the process or between two reports.
type Report struct {
	// GCPauses are the times all goroutines stood still for the collector, OtherPauses for anything else (profiles, a
	// change of GOGC); from the decision to stop to the last one running again.
	GCPauses, OtherPauses Distribution
	// SchedLatency is how long goroutines that could run waited for a thread.
	SchedLatency Distribution
	Cycles       uint64
	// LiveBytes is what the last collection left, GoalBytes where the next one ends.
	LiveBytes, GoalBytes uint64
	AllocBytes           uint64
	AllocObjects         uint64
	// HeldBytes is all memory of the runtime, less what was given back to the system. Mappings are not in it.
	HeldBytes  uint64
	Goroutines uint64
	// GCSeconds and CPUSeconds are CPU time of the collector and in all (idle time included), as of the last collection.
	GCSeconds, CPUSeconds float64
}

// Read asks the runtime. It stops nothing and costs some 10 µs.
func Read() *Report {
	s := make([]metrics.Sample, len(names))
	for i := range s {
		s[i].Name = names[i]
	}
	metrics.Read(s)
	return &Report{GCPauses: distribution(s[0].Value.Float64Histogram()),
		OtherPauses: distribution(s[1].Value.Float64Histogram()), SchedLatency: distribution(s[2].Value.Float64Histogram()),
		Cycles: s[3].Value.Uint64(), LiveBytes: s[4].Value.Uint64(), GoalBytes: s[5].Value.Uint64(),
		AllocBytes: s[6].Value.Uint64(), AllocObjects: s[7].Value.Uint64(),
		HeldBytes: s[8].Value.Uint64() - s[9].Value.Uint64(), Goroutines: s[10].Value.Uint64(),
		GCSeconds: s[11].Value.Float64(), CPUSeconds: s[12].Value.Float64()}
}

// Sub makes r what happened since an earlier report. What is a state (LiveBytes, Goroutines, ...) stays.
func (r *Report) Sub(earlier *Report) {
	r.GCPauses.sub(&earlier.GCPauses)
	r.OtherPauses.sub(&earlier.OtherPauses)
	r.SchedLatency.sub(&earlier.SchedLatency)
	r.Cycles -= earlier.Cycles
	r.AllocBytes -= earlier.AllocBytes
	r.AllocObjects -= earlier.AllocObjects
	r.GCSeconds -= earlier.GCSeconds
	r.CPUSeconds -= earlier.CPUSeconds
}

// Attrs are the report as log attributes.
func (r *Report) Attrs() []slog.Attr {
	return []slog.Attr{
		slog.Uint64("gcCycles", r.Cycles),
		slog.Duration("gcPauseMax", r.GCPauses.Quantile(1)),
		slog.Duration("otherPauseMax", r.OtherPauses.Quantile(1)),
		slog.Duration("schedLatencyP99", r.SchedLatency.Quantile(0.99)),
		slog.Duration("schedLatencyMax", r.SchedLatency.Quantile(1)),
		slog.Uint64("liveHeapKiB", r.LiveBytes>>10),
		slog.Uint64("allocKiB", r.AllocBytes>>10),
		slog.Uint64("goHeldKiB", r.HeldBytes>>10),
		slog.Uint64("goroutines", r.Goroutines),
	}
}

// RuntimeInfo adds the report to GET_BROKER_RUNTIME_INFO under keys of our own.
func (r *Report) RuntimeInfo(into map[string]string) {
	u := func(n uint64) string { return strconv.FormatUint(n, 10) }
	into["goGcCycles"] = u(r.Cycles)
	into["goGcPauses"] = r.GCPauses.String()
	into["goSchedLatency"] = r.SchedLatency.String()
	into["goLiveHeapBytes"] = u(r.LiveBytes)
	into["goHeldBytes"] = u(r.HeldBytes)
	into["goAllocBytes"] = u(r.AllocBytes)
	into["goroutines"] = u(r.Goroutines)
}

// Distribution is a histogram of the runtime: Counts[i] durations are below Bounds[i], in seconds.
type Distribution struct {
	Counts []uint64
	Bounds []float64
}

func distribution(h *metrics.Float64Histogram) Distribution {
	return Distribution{Counts: slices.Clone(h.Counts), Bounds: h.Buckets[1:]}
}

func (d *Distribution) sub(earlier *Distribution) {
	d.Counts = slices.Clone(d.Counts)
	for i := range d.Counts {
		d.Counts[i] -= earlier.Counts[i]
	}
}

// Count is the number of durations.
func (d *Distribution) Count() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Quantile is the upper bound of the bucket that the share p of all stays below; 0 of nothing.
func (d *Distribution) Quantile(p float64) time.Duration {
	total := d.Count()
	if total == 0 {
		return 0
	}
	rank := min(uint64(p*float64(total)), total-1)
	seen := uint64(0)
	for i, c := range d.Counts {
		if seen += c; seen > rank {
			return seconds(d.Bounds[i])
		}
	}
	return 0
}

// Above is the number of durations that may have been longer than limit.
func (d *Distribution) Above(limit time.Duration) (n uint64) {
	for i, c := range d.Counts {
		if seconds(d.Bounds[i]) > limit {
			n += c
		}
	}
	return n
}

// String is "n=.. p50=.. p99=.. max=..".
func (d *Distribution) String() string {
	return fmt.Sprintf("n=%d p50=%v p99=%v max=%v", d.Count(), d.Quantile(0.5), d.Quantile(0.99), d.Quantile(1))
}

func seconds(s float64) time.Duration {
	if math.IsInf(s, 1) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second)).Round(100)
}
