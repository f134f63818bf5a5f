package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"skylark/codec"
)

// SchemaVersion is Report.Schema; it grows when a member changes its meaning or goes.
const SchemaVersion = 1

// maxIntervals bounds the seconds that a report lists; a longer run lists its first hour.
const maxIntervals = 3600

// Report is what a run did and measured, and all that is needed to do it again.
type Report struct {
	Schema  int       `json:"schema"`
	Kind    Kind      `json:"kind"`
	Started time.Time `json:"started"`
	Command []string  `json:"command"`
	Note    string    `json:"note"` // flush mode, role, disk: what was told and cannot be asked

	Load      LoadReport   `json:"load"`
	Broker    BrokerReport `json:"broker"`
	Generator HostReport   `json:"generator"`

	Seconds         float64          `json:"seconds"`  // from the end of the warm-up to the last answer
	Requests        int64            `json:"requests"` // sends or pulls with messages, that succeeded
	Messages        int64            `json:"messages"`
	Bytes           int64            `json:"bytes"` // bodies that were sent, or whole records that were pulled
	MessagesPerSec  float64          `json:"messages_per_sec"`
	MegabytesPerSec float64          `json:"megabytes_per_sec"` // 1e6 bytes
	FailedMessages  int64            `json:"failed_messages"`
	Failures        map[string]int64 `json:"failures"` // requests by code, in Java's spelling, or by what happened
	StoredMessages  *int64           `json:"stored_messages,omitempty"`

	// Latency is of what the run is about: send to answer, pull to messages, or due to received. In an open
	// loop it counts from the time due, Service from the time sent, and Lag is how late the generator itself
	// was.
	Latency Latency  `json:"latency"`
	Service *Latency `json:"service,omitempty"`
	Lag     *Latency `json:"lag,omitempty"`
	// Sent is the producers' side of an end-to-end run.
	Sent *SentReport `json:"sent,omitempty"`

	Verify    *Verdict   `json:"verify,omitempty"`
	Intervals []Interval `json:"intervals"`
}

// LoadReport repeats the options that matter.
type LoadReport struct {
	Topic           string   `json:"topic"`
	Topics          int      `json:"topics"`
	Queues          int      `json:"queues"` // that were used
	Serialize       string   `json:"serialize"`
	Mode            Mode     `json:"mode"`
	SizeBytes       int      `json:"size_bytes"`
	Connections     int      `json:"connections"`
	Window          int      `json:"window"`
	RatePerSec      float64  `json:"rate_per_sec"` // 0: closed loop
	Batch           int      `json:"batch"`
	Keys            int      `json:"keys"`
	Tags            []string `json:"tags"`
	Compress        string   `json:"compress"`
	Groups          int      `json:"groups"`
	PullBatch       int      `json:"pull_batch"`
	SuspendSeconds  float64  `json:"suspend_seconds"`
	From            From     `json:"from"`
	WarmupSeconds   float64  `json:"warmup_seconds"`
	DurationSeconds float64  `json:"duration_seconds"`
	Count           int64    `json:"count"`
}

// BrokerReport is the other side. What follows the addresses is there if its process id was given.
type BrokerReport struct {
	Version       string   `json:"version"`
	Addrs         []string `json:"addrs"`
	PID           int      `json:"pid,omitempty"`
	Cores         string   `json:"cores,omitempty"` // that it may run on, "0-1"
	CPUUsPerMsg   *float64 `json:"cpu_us_per_msg,omitempty"`
	RSSAnonBytes  *int64   `json:"rss_anon_bytes,omitempty"` // at the end
	RSSTotalBytes *int64   `json:"rss_total_bytes,omitempty"`
	// CPUPercent is the share of one core it used in the measured part. Private memory, before the load and at
	// the end, counts the pages of mapped files that nobody else maps too.
	CPUPercent         *float64 `json:"cpu_percent,omitempty"`
	RSSAnonBeforeBytes *int64   `json:"rss_anon_before_bytes,omitempty"`
	PrivateBeforeBytes *int64   `json:"private_before_bytes,omitempty"`
	PrivateBytes       *int64   `json:"private_bytes,omitempty"`
}

// HostReport is the machine and process that made the load.
type HostReport struct {
	OS          string  `json:"os"`
	Arch        string  `json:"arch"`
	Go          string  `json:"go"`
	CPUs        int     `json:"cpus"`
	Processors  int     `json:"processors"` // GOMAXPROCS
	Cores       string  `json:"cores"`      // that it may run on
	CPUUsPerMsg float64 `json:"cpu_us_per_msg"`
}

// SentReport is the producers' side of an end-to-end run.
type SentReport struct {
	Messages       int64            `json:"messages"`
	FailedMessages int64            `json:"failed_messages"`
	Failures       map[string]int64 `json:"failures"`
	Latency        Latency          `json:"latency"`
	Service        Latency          `json:"service"`
}

// Latency is the distribution of a time, in microseconds.
type Latency struct {
	Count  int64   `json:"count"`
	Mean   float64 `json:"mean_us"`
	P50    float64 `json:"p50_us"`
	P90    float64 `json:"p90_us"`
	P99    float64 `json:"p99_us"`
	P999   float64 `json:"p99_9_us"`
	P9999  float64 `json:"p99_99_us"`
	Max    float64 `json:"max_us"`
	StdDev float64 `json:"stddev_us"`
}

// Interval is one second of the measured part.
type Interval struct {
	Second   int     `json:"second"` // since the load began
	Messages int64   `json:"messages"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
	Failed   int64   `json:"failed"`
}

func latencyOf(h *hdr.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return Latency{
		Count: h.TotalCount(), Mean: h.Mean() / 1e3, StdDev: h.StdDev() / 1e3, Max: us(h.Max()),
		P50: us(h.ValueAtQuantile(50)), P90: us(h.ValueAtQuantile(90)), P99: us(h.ValueAtQuantile(99)),
		P999: us(h.ValueAtQuantile(99.9)), P9999: us(h.ValueAtQuantile(99.99)),
	}
}

// merged is what the shards of one side have measured together.
type merged struct {
	total    sums
	latency  *hdr.Histogram
	service  *hdr.Histogram
	failures map[string]int64
	last     int64
}

func merge(shards []*shard) merged {
	m := merged{latency: newHistogram(), service: newHistogram(), failures: map[string]int64{}}
	for _, s := range shards {
		s.mu.Lock()
		m.total.add(s.total)
		m.latency.Merge(s.latency)
		if s.service != nil {
			m.service.Merge(s.service)
		}
		for why, n := range s.failures {
			m.failures[why] += n
		}
		m.last = max(m.last, s.last)
		s.mu.Unlock()
	}
	return m
}

// newReport fills in what is known before the run.
func newReport(o *Options, t *target, tl *timeline) *Report {
	return &Report{
		Schema: SchemaVersion, Kind: o.Kind, Started: tl.base, Command: slices.Concat([]string{}, o.Args), Note: o.Note,
		Load: LoadReport{Topic: o.Topic, Topics: o.Topics, Queues: len(t.queues), Serialize: o.Serialize.String(), Mode: o.Mode,
			SizeBytes: o.Size, Connections: o.Conns, Window: o.window(), RatePerSec: o.Rate, Batch: o.Batch,
			Keys: o.Keys, Tags: slices.Concat([]string{}, o.Tags), Compress: compressName(o.Compress),
			Groups: o.Groups, PullBatch: o.PullBatch, SuspendSeconds: o.Suspend.Seconds(), From: o.From,
			WarmupSeconds: o.Warmup.Seconds(), DurationSeconds: o.Duration.Seconds(), Count: o.Count},
		Broker:    BrokerReport{Version: t.version, Addrs: t.brokers, PID: o.CPUPid},
		Generator: hostReport(),
		Failures:  map[string]int64{},
		Intervals: []Interval{},
	}
}

// compressions are the names of --compress.
var compressions = map[string]int32{"none": 0, "zlib": codec.SysFlagCompressionZlib, "lz4": codec.SysFlagCompressionLZ4,
	"zstd": codec.SysFlagCompressionZSTD}

func compressName(c int32) string {
	for name, v := range compressions {
		if v == c {
			return name
		}
	}
	return fmt.Sprint(c)
}

// fill takes over what was measured.
func (r *Report) fill(m merged, tl *timeline, open bool) {
	from := tl.measureFrom.Load()
	r.Seconds = max(float64(m.last-from)/1e9, 0)
	r.Requests, r.Messages, r.Bytes, r.FailedMessages = m.total.requests, m.total.messages, m.total.bytes, m.total.failed
	if r.Seconds > 0 {
		r.MessagesPerSec = float64(r.Messages) / r.Seconds
		r.MegabytesPerSec = float64(r.Bytes) / 1e6 / r.Seconds
	}
	r.Failures = m.failures
	r.Latency = latencyOf(m.latency)
	if open {
		service := latencyOf(m.service)
		r.Service = &service
	}
}

// JSON is the report as indented JSON, with a newline.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// Text is the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	l := r.Load
	topic := "topic " + l.Topic
	if l.Topics > 1 {
		topic = fmt.Sprintf("%d topics %s_…", l.Topics, l.Topic)
	}
	line("run", "%s to %s at %s, %s, %d queues", r.Kind, r.Broker.Version, strings.Join(r.Broker.Addrs, " "), topic,
		l.Queues)
	if r.Kind == Produce || r.Kind == EndToEnd {
		pace := fmt.Sprintf("closed loop, window %d", l.Window)
		if l.RatePerSec > 0 {
			pace = fmt.Sprintf("open loop, %g messages/s", l.RatePerSec)
		}
		line("load", "%s, %d bytes, %d connections, %s, batch %d, %s headers", l.Mode, l.SizeBytes,
			l.Connections, pace, l.Batch, l.Serialize)
	}
	if r.Note != "" {
		line("note", "%s", r.Note)
	}
	line("messages", "%d in %.2f s: %.0f/s, %.1f MB/s", r.Messages, r.Seconds, r.MessagesPerSec, r.MegabytesPerSec)
	if r.StoredMessages != nil {
		line("stored", "%d", *r.StoredMessages)
	}
	line("failed", "%s", failures(r.FailedMessages, r.Failures))
	line("latency", "%s", r.Latency)
	if r.Service != nil {
		line("  from sending", "%s", *r.Service)
	}
	if r.Lag != nil {
		line("  own lag", "%s", *r.Lag)
	}
	if s := r.Sent; s != nil {
		line("sent", "%d messages, failed %s", s.Messages, failures(s.FailedMessages, s.Failures))
		line("  latency", "%s", s.Latency)
		line("  from sending", "%s", s.Service)
	}
	if b := &r.Broker; b.CPUUsPerMsg != nil {
		line("broker", "%.2f µs CPU a message, %.2f %% of a core, memory anonymous %s, private %s, cores %s",
			*b.CPUUsPerMsg, *b.CPUPercent, mib(b.RSSAnonBeforeBytes, b.RSSAnonBytes),
			mib(b.PrivateBeforeBytes, b.PrivateBytes), b.Cores)
	}
	line("generator", "%.2f µs CPU a message, %d processors, cores %s", r.Generator.CPUUsPerMsg,
		r.Generator.Processors, r.Generator.Cores)
	if v := r.Verify; v != nil {
		line("verify", "%s", v)
	}
	return b.String()
}

// String is one line.
func (l Latency) String() string {
	if l.Count == 0 {
		return "none measured"
	}
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  p99.99 %s  max %s", ms(l.P50), ms(l.P90), ms(l.P99),
		ms(l.P999), ms(l.P9999), ms(l.Max))
}

// mib writes a change of memory.
func mib(before, after *int64) string {
	if before == nil || after == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f → %.1f MiB", float64(*before)/(1<<20), float64(*after)/(1<<20))
}

// ms writes microseconds as milliseconds.
func ms(us float64) string { return fmt.Sprintf("%.3f ms", us/1e3) }

func failures(messages int64, by map[string]int64) string {
	text := fmt.Sprintf("%d messages", messages)
	for _, why := range slices.Sorted(maps.Keys(by)) {
		text += fmt.Sprintf(", %s %d requests", why, by[why])
	}
	return text
}

// String is one line, with the first of the missing messages.
func (v *Verdict) String() string {
	text := fmt.Sprintf("all %d acknowledged messages were seen", v.Acked)
	if !v.OK() {
		text = fmt.Sprintf("%d of %d acknowledged messages are LOST (producer/number: %s)", v.Missing, v.Acked,
			strings.Join(v.Listed, " "))
	}
	return text + fmt.Sprintf("; %d seen again, %d not acknowledged, %d of other runs", v.Duplicates, v.Unacked,
		v.Foreign)
}
