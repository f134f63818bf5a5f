// Package reactor is the network side of Skylark: event loops behind one interface. An engine accepts
// connections, reads, splits the bytes into remoting frames and hands the frames of one read to the Handler
// together; answers leave in one write.
//
// The engines are in sub-packages: gnet (epoll, kqueue), std (net.Listener and TLS), mem (in memory, for
// tests). reactortest is the contract all of them pass.
//
// # Who owns which bytes
//
// Frames given to OnFrames alias the loop's read buffer and die when OnFrames returns: what outlives it is
// copied once, by the one who needs it (a business pool). An Outbox belongs to its user until
// Conn.SendOutbox, which writes or takes over everything and gives it back empty. References in segments move
// with it: whoever holds the outbox releases them, in the end the connection, once the bytes are in the
// socket or the connection is gone.
//
// # Loop rules
//
// OnFrames runs on an event loop and never waits: no file read that may fault, no lock held across I/O, no
// channel send without a default. Conn methods may be called from any goroutine; the write happens in the
// caller without waking a loop. Nobody waits for a write of somebody else: who finds one under way leaves its
// bytes in the queue, and the writer takes them along when its system call is done.
//
// # What a connection may cost
//
// Inbound: one partial frame, in a buffer that grows with the bytes received and never beyond twice of them
// or the frame's length, plus MaxPausedInboundBytes while the connection is paused. Outbound: above
// HighWatermarkBytes the frames of the connection are no longer served; above MaxPendingBytes, or when
// nothing moved for SlowReaderTimeout, it is closed. One turn can overshoot by the answers to MaxBatchFrames
// requests.
package reactor
