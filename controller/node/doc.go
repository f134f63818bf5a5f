// Package node is one member of a group of controllers without its surroundings: Raft (go.etcd.io/raft), the log on the
// disk (package wal) and the state machine (package replicas) put together. It has no clock, no network and no goroutine:
// the caller ticks it, hands it the messages of others, and does what [Node.Work] returns. So a test runs five of them on
// one goroutine with time, network and disks of its own.
//
// [Node.Work] keeps Raft's order: what has to be durable is, before the messages that promise it are returned; then
// committed events are applied, in order, and each Result tells the one who proposed it what was decided.
//
// # Membership
//
// The members stand in the configuration, as Java's controllerDLegerPeers, and not in the log. A new directory begins
// with a snapshot of an empty state at index 1, the same on every member. A list that differs by one member from the one
// before is accepted at a start: any majority of one list has a member in common with any majority of the other. So a
// group grows or shrinks one member at a time, all members restarted before the next change. A list that differs by more
// is refused.
package node
