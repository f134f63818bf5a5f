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
// # Automatic switching
//
// Where a controller decides who is master, master and slave speak another protocol on the same port (Java
// org.apache.rocketmq.store.ha.autoswitch). An epoch is the time of one master.
//
//	slave → master   16 bytes  1 int32, syncFromLastFile int16, asyncLearner int16, broker id int64
//	master → slave   20 bytes  1 int32, bodySize int32, end of its log int64, last epoch int32; then 12 bytes for each epoch:
//	                           epoch int32, where it starts int64
//	slave → master   12 bytes  2 int32, offset int64: up to where the slave's log reaches; the first one says where to begin,
//	                           0 is the start of the master's log, or of its last file
//	master → slave   36 bytes  2 int32, bodySize int32, phyOffset int64, epoch int32, where it starts int64, confirm offset
//	                           int64; then bodySize bytes of the log. bodySize 0 is a heartbeat
//
// A frame has bytes of one epoch and of one file. By the epochs the slave finds up to where both logs are the same, and
// cuts its own there. They are kept in epochFileCheckpoint, a text:
//
//	2            how many epochs
//	773307083    CRC32 of the lines that follow, without the highest bit; 0 = not checked
//	7-7000       epoch and where it starts
//	8-8000
//
// The file of before is kept as .bak. Without epochs there is no file.
//
// # Parts
//
// The rules are plain structs without goroutine, clock, socket or disk, so that a simulation can drive them; shells around
// them do the I/O:
//
//	masterLink             one slave as the master sees it           HAConnection: two goroutines and a socket
//	follower               a slave's log and what its master sends   HAClient: one goroutine and a socket
//	GroupTransferService   puts that wait for copies, by offset      HAService: the listener, and Replicas of the store
//	SwitchLink             masterLink with automatic switching       switchConnection
//	SwitchFollower         follower with automatic switching         switchClient
//	SyncSet, Epochs        who counts; who wrote what                AutoSwitchHAService: both roles, and Replicas
//
// Both protocols share what goes with a socket: masterShell (a reader, a sender), slaveShell (dial, read, report, again) and
// connections (who is there).
//
// # What differs from Java
//
// A report that no slave can make (negative, beyond the log, beyond what was sent) closes the connection and confirms
// nothing. A slave compares the end of its log with the master's each time it connects, by asking for bytes it has already;
// where they differ it is cut there and follows the master, where Java's slave reconnects for ever or stores the wrong
// bytes. Nothing of this needs the other side to be ours.
package ha
