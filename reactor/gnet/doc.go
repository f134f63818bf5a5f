// Package gnet is the engine on the event loops of github.com/panjf2000/gnet: epoll on Linux, kqueue
// elsewhere. gnet reads; accepting and writing are our own.
//
// # Why gnet does not accept
//
// Its acceptor ends the whole engine at the first EMFILE. A boss of package accept takes connections from a
// net.Listener instead and enrols them into the worker loops of a gnet.Client (Engine.Register wants a gnet
// listener). Enrolling duplicates the descriptor and closes the original; the boss waits for the loop, so a
// storm of connections is throttled by the loops themselves.
//
// # Why gnet does not write
//
// Its outbound list has no limit and copies what the socket did not take, mapped message bytes too; it has no
// writable callback, and a write from another goroutine costs a wake-up of the loop. So nothing is ever put
// into that list. Writes go straight to the non-blocking descriptor, in the goroutine that has the bytes:
//
//	bytes copied   none when the socket takes all; else the heap part once, mapped ranges never
//	allocations    none (iovecs, chunks and run lists are reused)
//	system calls   one write or writev a turn
//	locks          the connection's, twice, for some ten nanoseconds each; never held in a system call
//
// One goroutine at a time holds the pen of a connection (conn.writing). Who comes meanwhile leaves his bytes
// in the queue; the holder takes them along after his system call. A lock around the call was the simpler
// design: on a loopback socket a write takes about 10 µs, and an event loop would have waited for it behind
// every business goroutine that answers on the same connection.
//
// What the socket does not take is written by the drainer, one goroutine with an epoll of its own that sees
// the descriptor as EPOLLONESHOT for output. It is started by the first slow reader.
//
// # Why no write can hit a descriptor of somebody else
//
// gnet calls OnClose before it closes the descriptor. OnClose marks the connection closed, after which nobody
// takes the pen, waits for him who has it (a non-blocking write), and takes the descriptor out of the
// drainer's epoll, which knows connections by their number, not by their descriptor. A duplicate of the
// descriptor would do no more, so there is none. Likewise nothing calls gnet for a closed connection: its
// poller may be gone with the engine, and a wake-up would write 8 bytes into whatever has that descriptor
// then.
package gnet
