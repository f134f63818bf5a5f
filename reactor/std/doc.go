// Package std is the engine on net.Conn: a goroutine reads and serves each connection, another one writes
// while something waits. It runs wherever Go does, carries TLS for all engines, and serves the in-memory
// connections of package mem under virtual time.
//
// # A connection's goroutines
//
// The reader owns the connection: it calls the handler, and it alone closes the socket, at its end, after the
// writer has left. Close from elsewhere only notes the reason and sets a read deadline in the past, which
// brings the reader home. Send never writes itself, since a net.Conn cannot refuse to wait: it queues and
// starts a writer if none runs. The writer leaves when the queue is empty, so a silent connection costs one
// goroutine.
//
// Backpressure needs no limit on held input here: a paused connection is not read from, and the peer's own
// socket fills up.
package std
