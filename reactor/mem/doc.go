// Package mem is the network in memory: listeners, buffered connections with deadlines, and an engine upon
// them, for tests and simulation. Nothing in it waits outside of channels, conditions and timers, so it runs
// under the virtual time of testing/synctest.
//
// A Hook sees every write and decides whether its bytes arrive at once, later, never, or whether the
// connection is torn.
package mem
