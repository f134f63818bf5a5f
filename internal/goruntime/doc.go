// Package goruntime sets the collector of a server process and reports what collector and scheduler do to it.
//
// # The rule
//
// Message bytes live in mappings and pooled buffers, so the live heap is a few MiB. With Go's GOGC=100 the collector runs
// whenever another few MiB were allocated, each time with two stops of all threads; the heap that this saves is nothing
// beside the rest of the process. So the heap may grow by a fixed Headroom before a collection: GOGC is Headroom over the
// live heap, between 100 and MaxPercent, and follows the live heap from minute to minute. In a container, GOMEMLIMIT is
// MemoryShare of its memory limit less what the process takes outside of the heap: the collector works harder before the
// kernel ends the process. GOGC and GOMEMLIMIT of the environment are left alone.
//
// GOMAXPROCS needs no rule: since Go 1.25 the runtime takes the CPU limit of the container and follows its changes.
//
// Figures and what else was tried: docs/performance.md, "Latency and GC".
package goruntime
