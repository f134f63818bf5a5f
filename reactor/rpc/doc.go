// Package rpc turns frames into requests and answers: processors by request code, on the event loop or in bounded
// business pools, and calls of our own to connected peers. Name server and broker are both built on it.
//
// # One turn
//
// All frames of one read form a turn. A request whose processor can serve it without waiting is served at once, on
// the loop, and its answer goes into the turn's outbox; the others are copied once and queued as one unit a pool, so
// that frames that came together are served together and their answers leave in one write. Java queues a task for
// every frame (NettyRemotingAbstract.processRequestCommand); the batching is ours and cannot be seen from outside.
//
// # Overload
//
// A pool's queue counts requests. A full queue answers SYSTEM_BUSY [OVERLOAD]; a request that waited longer than its
// class allows is answered [TIMEOUT_CLEAN_QUEUE] with the reason: how long, how many wait, which workers are busy with
// what (Java BrokerFastFailure says only the first two).
package rpc
