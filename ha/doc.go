// Package ha copies the CommitLog of a master to its slaves (Java org.apache.rocketmq.store.ha).
//
// # The classic protocol
//
// A slave connects to the master's haListenPort. Integers are big-endian.
//
//	slave → master   8 bytes   offset: up to where the slave's log reaches; the first one says where to begin
//	master → slave   12 bytes  phyOffset int64, bodySize int32; then bodySize bytes of the log. bodySize 0 is a heartbeat
//
// The first offset 0 means: begin at the start of the master's last file. A frame never crosses a file of the log, because
// Java's slave cannot store one that does. Both sides speak at least every haSendHeartbeatInterval, and close a connection
// on which nothing came for haHousekeepingInterval.
//
// # Parts
//
// The rules are plain structs without goroutine, clock, socket or disk, so that a simulation can drive them; shells around
// them do the I/O:
//
//	masterLink             one slave as the master sees it           HAConnection: two goroutines and a socket
//	follower               a slave's log and what its master sends   HAClient: one goroutine and a socket
//	GroupTransferService   puts that wait for copies, by offset      HAService: the listener, and Replicas of the store
//
// # What differs from Java
//
// A report that no slave can make (negative, beyond the log, beyond what was sent) closes the connection and confirms
// nothing. A slave compares the end of its log with the master's each time it connects, by asking for bytes it has already;
// where they differ it is cut there and follows the master, where Java's slave reconnects for ever or stores the wrong
// bytes. Nothing of this needs the other side to be ours.
package ha
