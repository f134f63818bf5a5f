// Package uring is the engine on io_uring, by github.com/pawelgaczynski/giouring. It is compiled with the tag iouring on
// Linux; the linker needs -checklinkname=0. Probe tells whether this kernel (6.1 or newer) and container let it run.
// Figures, and what was tried and left out, stand in docs/performance.md "Event loops".
//
// # A turn
//
// A loop is a goroutine locked to its thread, with a ring that takes requests of that thread only and does its work when
// that thread enters the kernel (SINGLE_ISSUER, DEFER_TASKRUN). One io_uring_enter a turn submits what the last turn
// produced and waits; then all completions are served:
//
//	receive   one multishot receive for each connection, into buffers that the kernel picks from a ring of them. Frames
//	          that lie in one buffer alias it; only a frame cut by its end is copied (reactor.Inbound). Buffers go back
//	          after the batch, before the next submission, so a kernel that ran out of them (ENOBUFS) finds new ones.
//	answer    the outbox of a turn leaves as a send in the ring with MSG_DONTWAIT: its completion is there when the
//	          submission returns, whatever the socket took, so the loop waits for one completion more than it has sent
//	          answers. What does not suit (mapped ranges, which may go by sendfile, and answers beyond 64 KiB) is written
//	          at once.
//	queue     what a full socket does not take is sent by SENDMSG requests of at most 256 KiB, one in flight for each
//	          connection, which complete when the socket has taken some of it. Mapped ranges among it are sent by a
//	          worker thread of the kernel: their pages may be cold by now, and the loop must not wait for the disk.
//	mail      accepted connections, ends, and queues that others have left behind. Who posts wakes the loop by an
//	          eventfd, but only while it waits.
//
// The methods of a Conn write directly in the caller, as in package gnet: one goroutine at a time holds the pen of a
// connection, or a request in the ring does. Bytes that come meanwhile are queued; the holder takes them along.
//
// # Who keeps memory alive
//
// The kernel holds addresses, and the collector does not know. Rings, receive buffers, headers and vectors lie in
// mappings of their own. What is sent is kept by the connection's queue or by the outbox in the send, and dropped by the
// completion alone: a peer that vanishes, or a Close, cancels the request and then waits for it. A descriptor is closed
// when no request names it and nobody has the pen, so no number is used again too early. Bounds of a loop: receiveBuffers,
// sendOps (who finds none free waits in line), and one queue for each connection with the limits of package reactor.
//
// A paused connection has its receive cancelled, so the peer's socket fills up; what came before that is held.
//
// # Accepting
//
// A boss of package accept takes connections from the listener and gives each to the loop with the fewest. A multishot
// accept in each ring, on sockets with SO_REUSEPORT, would spare its hand-over and spread connections by a hash: four of
// them are on one of two loops once in eight times. Clients of a broker stay connected for hours, so the balance counts
// and the hand-over does not. It also had to learn what the boss knows of EMFILE and of connections beyond the limit.
package uring
