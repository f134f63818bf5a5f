// Package controller is the controller: it hands out broker ids, knows who of a broker name is alive, which replicas have
// everything (SyncStateSet), and elects a new master when one dies (Java module rocketmq-controller; spec ha.md §6). One
// to five of them form a group on Raft, alone (skylark controller) or beside a name server (enableControllerInNamesrv).
// Java's brokers of 5.x in controller mode and its mqadmin speak with it as with Java's.
//
// # Parts
//
//	replicas  what the group agrees on: events in, decisions out; pure
//	wal       log and snapshots on the disk
//	node      Raft, wal and replicas put together; still without clock, network and goroutine
//	this one  the shell: heartbeats, sockets, timers, and one goroutine (loop) that owns the node
//
// # From a request to its answer
//
// A processor reads the header in a pool and posts a function to the loop. The loop adds what is known of living brokers,
// proposes the event, and when a majority has it on the disk and it is applied, builds the answer and sends it; no worker
// waits meanwhile. Requests that come while this node does not lead, or loses the leadership before the majority has
// confirmed, are answered CONTROLLER_NOT_LEADER, and the broker asks around for the leader. Reads are answered from the
// leader's state; with isProcessReadEvent after a majority has confirmed that it still leads (Java writes an empty entry
// for that).
//
// # Who is alive
//
// Brokers send a heartbeat every second to every controller, so each has a table of its own, and a new leader knows who
// is alive. A broker is dead when it was silent for the time it named itself (controllerHeartBeatTimeoutMills, 10 s), or
// when its connection ended and it did not come back within [closeGrace]: a broker's client also closes a connection
// on which one call was slow, and Java then elects at once. For [startGrace] after its start a controller says of
// brokers it has never heard of that it does not know: they are neither elected nor replaced.
//
// # Messages between controllers
//
// Request SKYLARK_CONTROLLER_RAFT on the same port, with an answer: header group, from, to (member ids); body: messages,
// each with its length in four bytes before it, as Raft encodes them (protobuf). A message to somebody else, of another
// group or of a stranger is refused. One request to each member is under way at a time; what comes up meanwhile goes with
// the next. Messages that find no room are dropped: Raft sends what matters again.
//
// # Bounds
//
// Requests: the pool's queue, then [maxPosted], then node.MaxPending, each refusing what is beyond it with SYSTEM_BUSY.
// Messages of members: [maxSteps] requests; to a member: [maxPeerMessages] and [maxPeerBytes]. Brokers:
// replicas.MaxReplicas registered, [maxBeats] heard of. Notifications: one for each broker address, at most [maxNotices].
package controller
