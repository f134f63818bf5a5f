package reactor

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"skylark/codec"
)

// Defaults of Options.
const (
	DefaultMaxLoops              = 16
	DefaultMaxConnections        = 65536
	DefaultIdleTimeout           = 120 * time.Second
	DefaultReadBufferBytes       = 256 << 10
	DefaultHighWatermarkBytes    = 4 << 20
	DefaultMaxPendingBytes       = 64 << 20
	DefaultMaxPausedInboundBytes = 8 << 20
	DefaultSlowReaderTimeout     = 30 * time.Second
	DefaultBacklog               = 1024
)

// Options of every engine. Zero values are replaced by EnsureDefaults.
type Options struct {
	// Listen are host:port addresses; port 0 picks a free one.
	Listen []string
	// Listeners are used instead of Listen by the std and mem engines when given. The engine closes them.
	Listeners []net.Listener
	// Loops is the number of worker event loops; 0 = number of CPUs, at most 16.
	Loops int
	// MaxConnections refuses what is beyond it (accepted and closed at once, logged at most once a second).
	MaxConnections int
	// IdleTimeout closes a connection without traffic in either direction (Java
	// serverChannelMaxIdleTimeSeconds), up to an eighth later. Negative: never.
	IdleTimeout time.Duration
	// MaxFrameBytes includes the length field.
	MaxFrameBytes int
	// ReadBufferBytes is the loop's read buffer, one per loop.
	ReadBufferBytes int
	// HighWatermarkBytes: above it the connection's frames are no longer served; below LowWatermarkBytes they
	// are again. Both bound what one connection can hold of answers.
	HighWatermarkBytes int
	LowWatermarkBytes  int
	// MaxPendingBytes closes a connection for which more than that waits: answers to requests that were under
	// way when the high watermark was reached, and requests of ours. Mapped ranges count, though they cost no
	// heap.
	MaxPendingBytes int
	// MaxPausedInboundBytes closes a connection that keeps sending while it does not read. An engine that can
	// stop reading (std, mem) does so instead.
	MaxPausedInboundBytes int
	// SlowReaderTimeout closes a connection whose pending bytes did not shrink for so long. Negative: never.
	SlowReaderTimeout time.Duration
	// SocketSndBuf and SocketRcvBuf set the kernel buffers when > 0. Backlog is the accept queue.
	SocketSndBuf, SocketRcvBuf, Backlog int
	// TLS takes over connections whose first byte is 0x16 (a TLS handshake); nil closes them with a reason.
	TLS func(net.Conn) net.Conn
	// RequireTLS closes connections that begin without a TLS handshake (Java's tls.server.mode=enforcing).
	RequireTLS bool
	// Log gets one line for every connection that is not ended by its peer, at most ten a second of each
	// kind.
	Log *slog.Logger
}

// EnsureDefaults replaces zero values and returns o.
func (o *Options) EnsureDefaults() *Options {
	if o.Loops <= 0 {
		o.Loops = min(runtime.GOMAXPROCS(0), DefaultMaxLoops)
	}
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.MaxConnections, DefaultMaxConnections)
	set(&o.MaxFrameBytes, codec.MaxFrameBytes)
	set(&o.ReadBufferBytes, DefaultReadBufferBytes)
	set(&o.HighWatermarkBytes, DefaultHighWatermarkBytes)
	set(&o.LowWatermarkBytes, o.HighWatermarkBytes/4)
	set(&o.MaxPendingBytes, max(DefaultMaxPendingBytes, 4*o.HighWatermarkBytes))
	set(&o.MaxPausedInboundBytes, DefaultMaxPausedInboundBytes)
	set(&o.Backlog, DefaultBacklog)
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.SlowReaderTimeout == 0 {
		o.SlowReaderTimeout = DefaultSlowReaderTimeout
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Validate names the first field with a value no engine can work with. It is called after EnsureDefaults.
func (o *Options) Validate() error {
	type limit struct {
		name          string
		value, lo, hi int
	}
	for _, l := range []limit{
		{"Loops", o.Loops, 1, 256},
		{"MaxConnections", o.MaxConnections, 1, 1 << 24},
		{"MaxFrameBytes", o.MaxFrameBytes, 16, 1 << 30},
		{"ReadBufferBytes", o.ReadBufferBytes, 1 << 10, 64 << 20},
		{"HighWatermarkBytes", o.HighWatermarkBytes, 1, 1 << 40},
		{"LowWatermarkBytes", o.LowWatermarkBytes, 0, o.HighWatermarkBytes},
		{"MaxPendingBytes", o.MaxPendingBytes, o.HighWatermarkBytes, 1 << 40},
		{"MaxPausedInboundBytes", o.MaxPausedInboundBytes, 1, 1 << 40},
		{"SocketSndBuf", o.SocketSndBuf, 0, 1 << 30},
		{"SocketRcvBuf", o.SocketRcvBuf, 0, 1 << 30},
		{"Backlog", o.Backlog, 1, 1 << 16},
	} {
		if l.value < l.lo || l.value > l.hi {
			return fmt.Errorf("reactor: Options.%s is %d, not in [%d, %d]", l.name, l.value, l.lo, l.hi)
		}
	}
	return nil
}
