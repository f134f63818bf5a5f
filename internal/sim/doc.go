// Package sim runs a whole broker group in controller mode, with its controllers and clients, on one goroutine: time,
// network, disks and faults come from one seed, and the same seed is the same run, event for event.
//
//	make sim                 2,000 seeds; SEEDS=n for another number
//	make sim SEED=n          one seed, with a line for everything that happens
//
// # What is the product's and what is not
//
//	controllers   package controller by its Stepper: processors, heartbeats, elections, Raft, log and snapshots on a
//	              simulated disk; requests travel as frames
//	brokers       broker/replicas.Manager, the cores of package ha for automatic switching, their frames and the file of
//	              epochs; files of identity. The shells around them, which have goroutines and sockets, are written anew here
//	the store     CommitLog: real records, cut and checked by package codec; what package store does besides has tests there
//	clients       of this package
//
// # Faults
//
// Processes are killed, stopped in order, or hang; machines lose their power, also in the middle of a file operation, and
// with it any part of what was not synced; hosts are cut off, or hear and are not heard; connections are slow, end late or
// never; datagrams of Raft are lost, doubled and overtaken; wall clocks jump, and no two clocks are even. What a connection
// of TCP promises is kept: order, and nothing lost in between.
//
// With losses of power they begin when every log has something: a replica with confirmed messages waits for an operator when
// its master has lost its whole log.
//
// # What is checked
//
// See Checker. Every message that a client was told of, or shown, stays where it is, whoever becomes master. The promise is
// for the death of machines one at a time: a message that was in the memory of a machine which lost its power is excused
// (half of the seeds have no such faults, and no excuses).
//
// # Whether the checkers see anything
//
// Rules broken on purpose, and the first seed, or world of a scenario, that fails:
//
//	elect outside of the SyncStateSet                      seed 5     lost
//	confirm before the slaves have it                      seed 2     lost
//	a slave confirms 200 bytes more than it has            seed 1     available
//	a slave neither cuts its log nor compares it           seed 1     other message
//	the controllers' log is not synced                     seed 1     Raft stops
//	a restarted replica shows what was not confirmed       seed 46    lost
//	a slave counts when the answer comes (#5663)           world 1 of TestScenarioAnswerToSetLost
//	the liveness of the master inverted (#10875, #8380)    world 3 of TestScenarioMasterLosesPower
//	a master found dead at its registration stays          world 12 of TestScenarioMasterLosesPower
//	a slave comes into the set without its barrier         seed 206 of an earlier version
//
// Not shown to be found, as other rules still hold: no cut by epochs (the comparison of bytes cuts); requests without an
// answer forgotten, but candidates still counted; no fences of epochs in ALTER_SYNC_STATE_SET.
package sim
