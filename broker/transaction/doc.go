// Package transaction keeps half messages until their producer commits or rolls them back, and asks for what it forgot
// to say (Java TransactionalMessageServiceImpl, TransactionalMessageBridge, TransactionalMessageCheckService,
// TransactionalOpBatchService, DefaultTransactionalMessageCheckListener; spec features.md §4, messages.md §13).
//
// # On disk, as Java has it
//
//	RMQ_SYS_TRANS_HALF_TOPIC, queue 0     half messages: their real topic and queue in properties, transaction bits clear
//	RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0  tag "d", body: queue offsets of half messages that are done, "12,13," (one alone
//	                                      without the comma, so that 4.9 can read it)
//	TRANS_CHECK_MAX_TIME_TOPIC, queue 0   half messages that were given up
//	consumerOffset.json                   progress of CID_RMQ_SYS_TRANS in the first two: half messages before the one and
//	                                      named by op messages behind the other are done, all others are open
//	config/transactionMetrics             open half messages by topic
//
// What is ours is in the field preparedTransactionOffset, which Java sets in committed messages alone: an op record has
// there a place in the log before which every commit has its op message (see openCommits), a given-up message and a half
// message that was put back the copy it came from. transactionMetrics has the former as a field opFloor too. A half
// message that is put back says with TRAN_PREPARED_QUEUE_OFFSET, as Java's immunity copies do, which one it was first.
//
// # Once
//
// Java keeps nothing of a half message in memory, so a commit that comes twice, or for a copy that a check has replaced,
// is delivered twice; what was committed within the last 3 s before a crash is asked about, and delivered, again. Here a
// table holds every open transaction (transactions), by the queue offset of its present copy and of its first: only what
// is in the table can be settled, and settling takes it out. After a crash the table is rebuilt from the two queues, and
// the end of the log is searched for commits whose op message was lost (recoverSettled). A rollback is settled by its op
// message, written before the answer; a commit by the message itself, its op message follows in a batch: either costs
// one append.
//
// # Checks
//
// Every transactionCheckInterval the transactions that are old enough are put back with one check more on their count
// and asked about, each producer of the group in turn. A check is counted only when somebody could be asked: without a
// producer a transaction waits (Java burns its attempts). One that cannot be asked does not hold up those behind it.
//
// The progress in the half queue must follow all the same, or a restart would read everything again: a transaction that
// is too far behind the newest one is put back without a question (maxLag).
//
// # Locks
//
// mu covers the tables and is never held across an append. A transaction that is being settled or put back is marked
// busy; whoever else wants it waits for idle, or, on an event loop, leaves the request to a pool.
package transaction
