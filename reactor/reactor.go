package reactor

import (
	"context"
	"errors"
	"net/netip"

	"skylark/codec"
)

// Errors that Send returns and OnClose gets as reasons. A malformed frame's reason is codec.ErrMalformed.
var (
	// ErrClosed: the connection is closed or about to be.
	ErrClosed = errors.New("reactor: connection closed")
	// ErrSlowReader: too much waits for the peer, for too long, or it keeps sending without reading.
	ErrSlowReader = errors.New("reactor: the peer does not read its answers")
	// ErrIdle: no traffic in either direction for Options.IdleTimeout.
	ErrIdle = errors.New("reactor: connection idle")
	// ErrStopped: the engine was stopped.
	ErrStopped = errors.New("reactor: engine stopped")
	// ErrTLSDisabled: the peer began a TLS handshake and Options.TLS is nil.
	ErrTLSDisabled = errors.New("reactor: TLS handshake, but TLS is disabled")
	// ErrTLSRequired: the peer began without a TLS handshake and Options.RequireTLS is set.
	ErrTLSRequired = errors.New("reactor: no TLS handshake, but TLS is required")
	// ErrPanic: a handler panicked while it served this connection.
	ErrPanic = errors.New("reactor: panic in a handler")
)

// MaxBatchFrames is the most frames one call of OnFrames gets; a read with more is served in several calls.
// It bounds what one turn can put into the outbox before the watermarks are looked at.
const MaxBatchFrames = 128

// Conn is one connection of a peer. All methods may be called from any goroutine and never wait for the peer.
type Conn interface {
	// ID is unique in the process and never reused.
	ID() uint64
	// RemoteAddr is the peer's address, IPv4 never in its IPv6-mapped form.
	RemoteAddr() netip.AddrPort
	LocalAddr() netip.AddrPort
	// Send writes whole frames. p may be reused when it returns. The error is ErrClosed or ErrSlowReader.
	Send(p []byte) error
	// SendOutbox writes what the outbox holds in one system call if the socket takes it, keeps the rest, and
	// resets the outbox in every case. The error is ErrClosed or ErrSlowReader.
	SendOutbox(o *Outbox) error
	// PendingBytes is what waits for the socket.
	PendingBytes() int
	// Close ends the connection soon; reason goes to OnClose and the log. The first reason counts. What waits
	// for the socket gets one more chance, but nobody waits for a peer that does not read.
	Close(reason error)
	// Context is the handler's own; SetContext is called from OnOpen or OnFrames.
	Context() any
	SetContext(v any)
}

// Handler is called by the engine. OnOpen, OnFrames and OnClose of one connection never run at the same time.
// A panic in one of them is logged with its stack and closes that connection with ErrPanic.
type Handler interface {
	// OnOpen is called once it is known what the connection speaks, that is with its first bytes and before
	// the first OnFrames; for TLS after the handshake. A connection that never sends is not seen by the
	// handler, but counts and is closed as idle. OnOpen may refuse the connection.
	OnOpen(c Conn) error
	// OnFrames gets the complete frames of one read in order, at least one and at most MaxBatchFrames. What
	// is put into out leaves when it returns, even if the handler called c.Close.
	OnFrames(c Conn, frames []codec.Frame, out *Outbox)
	// OnClose is called exactly once for every connection whose OnOpen succeeded. reason is nil when the peer
	// closed.
	OnClose(c Conn, reason error)
}

// Engine serves connections on its listeners.
type Engine interface {
	// Start binds all listeners and begins to serve. An address in use is an error that names it. An engine
	// is started once.
	Start(h Handler) error
	// Addrs are the bound addresses in the order of Options.Listen.
	Addrs() []netip.AddrPort
	// StopAccepting closes the listeners and keeps the connections.
	StopAccepting()
	// Stop closes everything with ErrStopped and returns when every OnClose has returned, or with ctx's
	// error.
	Stop(ctx context.Context) error
	// Connections is the number of accepted connections that are not closed yet.
	Connections() int
	// Name is "epoll", "io_uring", "std" or "mem", for the start line.
	Name() string
}
