// Package lock is the table of queue locks of orderly consumers (Java RebalanceLockManager, spec
// request-codes.md §4, codes 41 and 42): group → queue → the client that may consume it, for a minute after
// its last renewal. Clients renew every 20 s and stop consuming by themselves 30 s after their last renewal.
//
// # Hand-over
//
// Java's broker says no more than yes or no, so a queue that changes hands stands still: a refused client asks
// again at its next rebalance (20 s with 4.x, 1 s with 5.x), a lock of a client that has died lasts the whole
// minute, and an owner that could not let go at once, since a message was being consumed, tries again 20 s
// later. Here the table remembers who was refused, and its methods return Notices: clients that have reason to
// rebalance now. The broker sends each a NOTIFY_CONSUMER_IDS_CHANGED, on which every client lets go of what is
// not its own any more and asks for what is.
//
//   - Unlock, ReleaseClient, ReleaseConn: those who were refused what became free.
//   - Step: those who wait for a lock that has expired, and owners of queues that others have been refused for a
//     second: an owner that knows by now that the queue is not its own any more gives it up. It is told again
//     after 2, 4, 8 and 16 s, then every 20 s, as often as it would look by itself.
//
// # Restart
//
// Java's locks do not survive a restart, so the first client that comes back is alone in its group, takes all
// queues, and consumes them beside their owners until these come back and ask for their locks. Here the owners
// are kept in queueLocks.json, written within a second of a change and when the broker stops. After a start they
// own their queues for half a minute more, which is when a client that cannot renew stops consuming.
package lock
