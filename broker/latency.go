package broker

import (
	"log/slog"
	"sync/atomic"
	"time"

	"skylark/internal/goruntime"
	"skylark/internal/latency"
	"skylark/store"
)

// makeLatency makes the histograms of all requests and the trace of the slow ones.
func (b *Broker) makeLatency() {
	b.latency = latency.NewRecorder(b.clock, 0)
	b.setSlowAfter()
	b.slow = latency.NewSlowRequestService(b.latency, b.log,
		latency.Context{Line: goruntime.Pressure, Minute: sinceLast()})
	b.server.SetLatency(b.latency)
}

// sinceLast tells what collector and scheduler did since it was asked last.
func sinceLast() func() []slog.Attr {
	last := goruntime.Read()
	return func() []slog.Attr {
		now := goruntime.Read()
		since := *now
		since.Sub(last)
		last = now
		return append(since.Attrs(), goruntime.Pressure()...)
	}
}

// setSlowAfter takes the key slowRequestMillis, now and at every round of the housekeeping.
func (b *Broker) setSlowAfter() { b.latency.SetSlowAfter(millis(b.o.Config.Own().SlowRequestMillis)) }

// Latency is the histograms of all requests since the start, for metrics.
func (b *Broker) Latency() *latency.Snapshot { return b.latency.Snapshot() }

// dispatchProbe follows one message of a sampled turn at a time from its put to its ConsumeQueue entry: a clock read for
// each of those, an atomic load for all others.
type dispatchProbe struct{ at, end atomic.Int64 }

// put begins to follow a message that was stored at now (Recorder.Now), unless another one is under way. now = 0: its turn
// is not sampled.
func (p *dispatchProbe) put(now int64, put *store.PutResult) {
	if now == 0 || put.Status != store.PutOK || p.at.Load() != 0 {
		return
	}
	p.end.Store(int64(put.EndOffset))
	p.at.Store(now)
}

// arrived is called after a run of messages got their entries.
func (p *dispatchProbe) arrived(b *Broker) {
	at := p.at.Load()
	if at == 0 || int64(b.store.DispatchedWhere()) < p.end.Load() {
		return
	}
	p.at.Store(0)
	b.latency.Observe(latency.Send, latency.Dispatch, time.Duration(b.latency.Now()-at), 1)
}
