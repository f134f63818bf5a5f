// Package reactor is the network side of Skylark: event loops behind one interface. An engine accepts connections,
// reads, splits the bytes into remoting frames and hands all frames of one read to the Handler at once; answers leave
// in one write.
//
// # Who owns which bytes
//
// Frames given to OnFrames alias the loop's read buffer and die when OnFrames returns: what outlives it is copied
// once, by the one who needs it (a business pool). An Outbox belongs to its user until Conn.SendOutbox, which writes
// or takes over everything and gives it back empty. References in segments move with it: whoever holds the outbox
// releases them, in the end the connection, once the bytes are in the socket or the connection is gone.
//
// # Loop rules
//
// OnFrames runs on an event loop and never waits: no file read that may fault, no lock held across I/O, no channel
// send without a default. Conn methods may be called from any goroutine; the write happens in the caller, under the
// connection's own lock, without waking a loop.
package reactor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"skylark/codec"
	"skylark/zerocopy"
)

// Errors of a connection that can no longer take a frame.
var (
	ErrClosed     = errors.New("reactor: connection closed")
	ErrSlowReader = errors.New("reactor: the peer does not read its answers")
)

// Conn is one connection of a peer.
type Conn interface {
	// ID is unique in the process and never reused.
	ID() uint64
	RemoteAddr() netip.AddrPort
	LocalAddr() netip.AddrPort
	// Send writes whole frames. p may be reused when it returns. The error is ErrClosed or ErrSlowReader.
	Send(p []byte) error
	// SendOutbox writes what the outbox holds in one system call if the socket takes it, keeps the rest, and resets
	// the outbox in every case.
	SendOutbox(o *Outbox) error
	// PendingBytes is what waits for the socket.
	PendingBytes() int
	// Close ends the connection; reason goes to OnClose and the log. It may be called more than once.
	Close(reason error)
	// Context is the handler's own; SetContext is called from OnOpen or OnFrames.
	Context() any
	SetContext(v any)
}

// Handler is called by the engine. OnOpen, OnFrames and OnClose of one connection never run at the same time.
type Handler interface {
	// OnOpen may refuse the connection.
	OnOpen(c Conn) error
	// OnFrames gets all complete frames of one read, at least one. What is put into out leaves when it returns.
	OnFrames(c Conn, frames []codec.Frame, out *Outbox)
	// OnClose is called exactly once for every connection whose OnOpen succeeded. reason is nil when the peer closed.
	OnClose(c Conn, reason error)
}

// Engine serves connections on its listeners.
type Engine interface {
	// Start binds all listeners and begins to serve. An address in use is an error that names it.
	Start(h Handler) error
	// Addrs are the bound addresses in the order of Options.Listen.
	Addrs() []netip.AddrPort
	// StopAccepting closes the listeners and keeps the connections.
	StopAccepting()
	// Stop closes everything and returns when every OnClose has returned, or with ctx's error.
	Stop(ctx context.Context) error
	// Connections is the number of open connections.
	Connections() int
	// Name is "epoll", "io_uring", "std" or "mem", for the start line.
	Name() string
}

// Options of every engine. Zero values are replaced by EnsureDefaults.
type Options struct {
	// Listen are host:port addresses; port 0 picks a free one.
	Listen []string
	// Listeners are used instead of Listen by the std and mem engines when given.
	Listeners []net.Listener
	// Loops is the number of worker event loops; 0 = number of CPUs, at most 16.
	Loops int
	// MaxConnections refuses what is beyond it (accepted and closed at once, logged at most once a second).
	MaxConnections int
	// IdleTimeout closes a connection without traffic in either direction (Java serverChannelMaxIdleTimeSeconds).
	IdleTimeout time.Duration
	// MaxFrameBytes includes the length field.
	MaxFrameBytes int
	// ReadBufferBytes is the loop's read buffer, one per loop.
	ReadBufferBytes int
	// HighWatermarkBytes: above it the connection's frames are no longer served; below LowWatermarkBytes they are
	// again. Both bound what one connection can hold of answers.
	HighWatermarkBytes int
	LowWatermarkBytes  int
	// MaxPausedInboundBytes closes a connection that keeps sending while it does not read.
	MaxPausedInboundBytes int
	// SlowReaderTimeout closes a connection whose pending bytes did not shrink for so long.
	SlowReaderTimeout time.Duration
	// SocketSndBuf and SocketRcvBuf set the kernel buffers when > 0. Backlog is the accept queue.
	SocketSndBuf, SocketRcvBuf, Backlog int
	// TLS takes over connections whose first byte is 0x16 (a TLS handshake); nil closes them with a reason.
	TLS func(net.Conn) net.Conn
	Log *slog.Logger
}

// Outbox collects the answers of one turn: bytes and mapped ranges in order.
type Outbox struct {
	buf   []byte
	marks []mark // segments that come after buf[:at]
	segs  []zerocopy.Segment
	size  int
}

// mark tells that segs[from:to] follow the first at bytes of buf.
type mark struct{ at, from, to int }

// Buffer is the byte part, to be appended to and given back with SetBuffer.
func (o *Outbox) Buffer() []byte { return o.buf }

// SetBuffer gives back what Buffer returned, grown.
func (o *Outbox) SetBuffer(b []byte) { o.buf = b }

// AddSegments appends the runs of s behind what Buffer holds now and takes over their references; s is left empty.
func (o *Outbox) AddSegments(s *zerocopy.Segments) {
	if s.Empty() {
		return
	}
	from := len(o.segs)
	o.segs = append(o.segs, s.Parts()...)
	o.size += s.Size()
	o.marks = append(o.marks, mark{at: len(o.buf), from: from, to: len(o.segs)})
	s.Forget()
}

// Empty tells that nothing waits in it.
func (o *Outbox) Empty() bool { return len(o.buf) == 0 && len(o.segs) == 0 }

// Size is the number of bytes to write.
func (o *Outbox) Size() int { return len(o.buf) + o.size }

// HasSegments tells whether mapped ranges are among it; without them Bytes is all.
func (o *Outbox) HasSegments() bool { return len(o.segs) > 0 }

// Each calls f for every run in order: heap bytes with a nil owner, mapped ranges with theirs.
func (o *Outbox) Each(f func(b []byte, owner zerocopy.Owner)) {
	at := 0
	for _, m := range o.marks {
		if m.at > at {
			f(o.buf[at:m.at], nil)
			at = m.at
		}
		for _, s := range o.segs[m.from:m.to] {
			f(s.Bytes, s.Owner)
		}
	}
	if at < len(o.buf) {
		f(o.buf[at:], nil)
	}
}

// Forget empties o without releasing references: they have moved to the connection.
func (o *Outbox) Forget() {
	clear(o.segs)
	o.buf, o.marks, o.segs, o.size = o.buf[:0], o.marks[:0], o.segs[:0], 0
}

// Release drops all references and empties o.
func (o *Outbox) Release() {
	for i := range o.segs {
		if w := o.segs[i].Owner; w != nil {
			w.Release()
		}
	}
	o.Forget()
}
