package broker

import (
	"skylark/internal/latency"
)

// makeLatency makes the histograms of all requests and the trace of the slow ones.
func (b *Broker) makeLatency() {
	b.latency = latency.NewRecorder(b.clock, 0)
	b.setSlowAfter()
	b.slow = latency.NewSlowRequestService(b.latency, b.log, nil)
	b.server.SetLatency(b.latency)
}

// setSlowAfter takes the key slowRequestMillis, now and at every round of the housekeeping.
func (b *Broker) setSlowAfter() { b.latency.SetSlowAfter(millis(b.o.Config.Own().SlowRequestMillis)) }

// Latency is the histograms of all requests, for metrics.
func (b *Broker) Latency() *latency.Snapshot { return b.latency.Snapshot() }
