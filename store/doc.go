// Package store keeps messages in the files of Java's RocketMQ broker: a directory that a Java 5.3 broker wrote can be
// opened, used, and given back.
//
// # Files
//
//	lock                                 locked while a broker runs; content "LOCK", of Java's "lock"
//	abort                                exists while a broker runs; process id in decimal
//	checkpoint                           4096 bytes: store times up to which files are flushed (storeCheckpoint)
//	commitlog/<20 digits>                records one behind the other (codec.ParseRecord), a blank record at the end of
//	                                     each file; the name is the offset of the first byte
//	consumequeue/<topic>/<id>/<20 digits>  20 bytes for each message of a queue (consumeQueue)
//	batchconsumequeue/<topic>/<id>/<20 digits>  46 bytes for each record of a queue of the kind BatchCQ (batchEntry)
//	consumequeue_ext/<topic>/<id>/<20 digits>  20 bytes and filter bits for each entry (extUnit); EnableConsumeQueueExt
//	index/<17 digits>                    hash chains from keys to records (indexFile); the name is a local time
//	queueCheckpoint                      ours: what queues and index hold for sure (queueMarks); Java ignores it
//	timerwheel, timerlog/                timer messages, see package timer
//	consumequeue_deleted/                ours: queues on their way out
//	recovery/<20 digits>.cut             ours: what recovery removed from the log, at most maxKeptFiles pieces
//
// # Durability
//
// A record is stored when it is in the mapping of its file: a crash of the process cannot take it. With a transient store
// pool (TransientStorePoolEnable) it is in a write buffer first, and readers see it after its commit. It survives a power
// cut once it is flushed: with SYNC_FLUSH that is before Durable says so (and before consumers see it), with ASYNC_FLUSH
// within FlushCommitLogThoroughInterval. A flush that fails makes the store read-only and is never repeated. Queues and
// index are built from the log, behind it, and rebuilt from it when they are lost.
//
// # Goroutines
//
//	AllocateMappedFileService  makes the next log file
//	populateAheadService       faults pages in ahead of the writer
//	CommitRealTimeService      write buffers → log files, with a pool and ASYNC_FLUSH
//	GroupCommitService or FlushRealTimeService   flush the log; the first commits as well
//	ReputMessageService        log → ConsumeQueues, then Listener.Arrived
//	indexService               log → IndexFiles, behind the queues
//	FlushConsumeQueueService, checkpointService   flush the queues and the checkpoint
//	cleanService               retention and disk watch, every 10 s
//
// All but the last sleep while nothing is written.
//
// # Locks, in the order in which they are taken
//
//	MessageStore.stateMu → MessageStore.appendMu → consumeQueueTable.writeMu → commitLog.putLock → consumeQueueTable.createMu
//	→ mappedFileQueue.mu; putLock → mappedFile.aheadMu, by a writer who is ahead of the populated pages only;
//	mappedFileQueue.commitMu and flushMu, groupCommitService.mu and storeCheckpoint.mu stand alone.
//
// Every byte goes through internal/vfs, and every wait for time through internal/clock.
package store
