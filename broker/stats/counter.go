// Package stats counts what goes through the broker under Java's names (BrokerStatsManager, StatsItem; spec bodies.md
// §9, request code 315).
package stats

import "sync/atomic"

// Counter is a count that many goroutines add to. It stands alone on its cache line.
type Counter struct {
	n atomic.Int64
	_ [56]byte
}

// Add counts n more.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Load is the count since the start.
func (c *Counter) Load() int64 { return c.n.Load() }
