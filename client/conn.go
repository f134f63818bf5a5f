package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
)

// Errors of a call. Errors of the network are wrapped in ErrClosed.
var (
	ErrClosed       = errors.New("client: connection closed")
	ErrTimeout      = errors.New("client: no answer in time")
	ErrTooManyCalls = errors.New("client: too many calls wait for answers")
)

// Dialer makes connections; net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialerFunc makes a function a Dialer: TLS, or the in-memory network of tests.
type DialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls f.
func (f DialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// Handler serves requests that the peer makes on our connection (a broker's callbacks), in a goroutine of its
// own. A nil answer sends none.
type Handler func(c *Conn, req *codec.Command) *codec.Command

// Defaults of Options: Java's NettyClientConfig where it has the value.
const (
	DefaultConnectTimeout = 3 * time.Second
	DefaultCallTimeout    = 3 * time.Second
	DefaultWriteTimeout   = 30 * time.Second
	DefaultMaxPending     = 65535
	DefaultMaxHandlers    = 64
)

// ServerLinkTimeout is LinkTimeout between servers: a link that was cut is noticed before it is back, by who writes every
// second.
const ServerLinkTimeout = 3 * time.Second

// Limits of what a connection keeps.
const (
	// maxUnwritten bounds the bytes that wait behind a write under way; further callers wait.
	maxUnwritten = 32 << 20
	// maxKeptBytes is the largest buffer that is kept for the next frame: one big message does not stay for
	// ever.
	maxKeptBytes = 1 << 20
	// maxRounds is how many times a caller writes what others have appended before it leaves that to a
	// goroutine.
	maxRounds = 4
	// writePieceBytes is how much a peer has to take within WriteTimeout.
	writePieceBytes = 1 << 20
	// readBytes is the read buffer to begin with.
	readBytes = 64 << 10
)

// Options of connections. Zero values are replaced by the defaults above.
type Options struct {
	Dialer         Dialer
	ConnectTimeout time.Duration
	CallTimeout    time.Duration // for calls whose context has no deadline
	WriteTimeout   time.Duration // a peer that does not take a MiB within it is given up
	MaxPending     int           // calls that wait for answers on one connection
	// LinkTimeout ends a connection when the peer's system has not acknowledged for so long what was written (TCP_USER_TIMEOUT,
	// Linux), and one whose peer takes nothing for so long. 0: the system's, a quarter of an hour. Without Dialer only.
	LinkTimeout time.Duration
	// Silent is told that a Client has given up the connection to an address because nothing came from there while a call
	// waited. It must not wait. nil: nobody is.
	Silent        func(addr string)
	MaxHandlers   int                 // requests of the peer under way; more are answered SYSTEM_BUSY
	MaxFrameBytes int                 // codec.MaxFrameBytes, 16 MiB
	Serialize     codec.SerializeType // of our headers
	Handler       Handler             // nil: requests of the peer are passed over
	Log           *slog.Logger
}

func (o *Options) ensureDefaults() {
	if o.Dialer == nil {
		o.Dialer = NewDialer(o.LinkTimeout)
	}
	orDuration := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	orInt := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	orDuration(&o.ConnectTimeout, DefaultConnectTimeout)
	orDuration(&o.CallTimeout, DefaultCallTimeout)
	orDuration(&o.WriteTimeout, DefaultWriteTimeout)
	orInt(&o.MaxPending, DefaultMaxPending)
	orInt(&o.MaxHandlers, DefaultMaxHandlers)
	orInt(&o.MaxFrameBytes, codec.MaxFrameBytes)
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Conn is one connection to a server. Its methods may be called from any goroutine.
type Conn struct {
	o        Options
	nc       net.Conn
	opaque   atomic.Int32
	handlers atomic.Int32
	heard    atomic.Uint64 // reads that brought something

	mu      sync.Mutex
	pending map[int32]func(*codec.Command, error)
	err     error // set once, when closed
	closed  chan struct{}

	wmu     sync.Mutex
	wbuf    []byte
	wspare  []byte
	writing bool
	limited time.Time // when the write deadline was set
	room    sync.Cond // a caller with too much before it waits here
}

// Dial connects to host:port.
func Dial(ctx context.Context, addr string, o Options) (*Conn, error) {
	o.ensureDefaults()
	dctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	nc, err := o.Dialer.DialContext(dctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", addr, err)
	}
	return NewConn(nc, o), nil
}

// NewConn takes over an established connection.
func NewConn(nc net.Conn, o Options) *Conn {
	o.ensureDefaults()
	c := &Conn{o: o, nc: nc, pending: map[int32]func(*codec.Command, error){}, closed: make(chan struct{})}
	c.room.L = &c.wmu
	go c.read()
	return c
}

// RemoteAddr is the server's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// LocalAddr is our end.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// Done is closed when the connection is.
func (c *Conn) Done() <-chan struct{} { return c.closed }

// Err is why it was closed, nil while it is open. It is an ErrClosed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Call sends a request and waits for the answer, until ctx ends or, without a deadline, CallTimeout. It sets
// the request's opaque, flag and header encoding. Only a peer that reads nothing any more can hold it longer,
// for WriteTimeout, after which the connection is closed.
func (c *Conn) Call(ctx context.Context, req *codec.Command) (*codec.Command, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.o.CallTimeout)
		defer cancel()
	}
	if ctx.Err() != nil {
		return nil, c.gaveUp(ctx, req)
	}
	type result struct {
		cmd *codec.Command
		err error
	}
	ch := make(chan result, 1)
	opaque, err := c.Go(req, func(a *codec.Command, err error) { ch <- result{a, err} })
	if err != nil {
		return nil, err
	}
	select {
	case r := <-ch:
		return r.cmd, r.err
	case <-ctx.Done():
		c.Forget(opaque)
		return nil, c.gaveUp(ctx, req)
	}
}

// gaveUp is ErrTimeout only if time ran out; a caller that was told to stop gets that back.
func (c *Conn) gaveUp(ctx context.Context, req *codec.Command) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return fmt.Errorf("client: %s to %v: %w", codec.RequestCodeName(req.Code), c.nc.RemoteAddr(), err)
	}
	return fmt.Errorf("%w: %s to %v: %w", ErrTimeout, codec.RequestCodeName(req.Code), c.nc.RemoteAddr(), ctx.Err())
}

// Go sends a request and returns at once. If it returns no error, done is called exactly once unless Forget
// comes before it: with the answer, which is done's own, or with the connection's end. It runs on the reading
// goroutine and does not wait. After an error it is not called.
func (c *Conn) Go(req *codec.Command, done func(*codec.Command, error)) (opaque int32, err error) {
	req.Opaque, req.Flag, req.Type = c.opaque.Add(1), 0, c.serializeFor(req)
	opaque = req.Opaque
	c.mu.Lock()
	switch {
	case c.err != nil:
		c.mu.Unlock()
		return 0, c.err
	case len(c.pending) >= c.o.MaxPending:
		c.mu.Unlock()
		return 0, fmt.Errorf("%w: %d", ErrTooManyCalls, c.o.MaxPending)
	}
	c.pending[opaque] = done
	c.mu.Unlock()
	if err := c.Send(req); err != nil && c.Forget(opaque) {
		return 0, err
	}
	return opaque, nil // after a failed write done has the error
}

// serializeFor is the configured header encoding, JSON for codes that do not fit the binary one.
func (c *Conn) serializeFor(req *codec.Command) codec.SerializeType {
	if req.Code > 32767 {
		return codec.SerializeJSON
	}
	return c.o.Serialize
}

// Forget drops a call: its done will not be called any more. It is false if done was called, or is being
// called.
func (c *Conn) Forget(opaque int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.pending[opaque]
	delete(c.pending, opaque)
	return ok
}

// Pending is the number of calls that wait.
func (c *Conn) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

// Oneway sends a request that gets no answer.
func (c *Conn) Oneway(req *codec.Command) error {
	req.Opaque, req.Flag, req.Type = c.opaque.Add(1), codec.FlagOneway, c.serializeFor(req)
	return c.Send(req)
}

// Send writes a command as it is.
func (c *Conn) Send(cmd *codec.Command) error {
	return c.SendWith(func(dst []byte) []byte { return cmd.AppendTo(dst) })
}

// SendWith writes what appendFrame appends: whole frames. The write is the caller's if nobody else writes;
// what others append meanwhile it writes too, a few times, and then leaves the rest to a goroutine. A nil
// error does not say that the bytes have left.
func (c *Conn) SendWith(appendFrame func(dst []byte) []byte) error {
	c.wmu.Lock()
	for len(c.wbuf) > maxUnwritten && c.writing {
		c.room.Wait()
	}
	c.wbuf = appendFrame(c.wbuf)
	if c.writing {
		c.wmu.Unlock()
		return c.Err()
	}
	c.writing = true
	err := c.writeLocked(maxRounds)
	if err == nil && len(c.wbuf) > 0 {
		go c.writeRest()
	} else {
		c.writing = false
	}
	c.wmu.Unlock()
	return c.ended(err)
}

func (c *Conn) writeRest() {
	c.wmu.Lock()
	var err error
	for len(c.wbuf) > 0 && err == nil {
		err = c.writeLocked(maxRounds)
	}
	c.writing = false
	c.wmu.Unlock()
	_ = c.ended(err)
}

// writeLocked writes what is there, up to rounds times. It is called, and returns, with wmu held by the one
// who has set writing; nothing is left in wbuf after an error.
func (c *Conn) writeLocked(rounds int) (err error) {
	for ; rounds > 0 && len(c.wbuf) > 0 && err == nil; rounds-- {
		buf := c.wbuf
		c.wbuf = c.wspare[:0]
		c.wmu.Unlock()
		err = c.write(buf)
		c.wmu.Lock()
		if c.wspare = buf; cap(buf) > maxKeptBytes {
			c.wspare = nil
		}
		c.room.Broadcast()
	}
	if err != nil {
		c.wbuf, c.wspare = nil, nil
	}
	return err
}

// write takes WriteTimeout for each piece that the peer accepts. The deadline is not moved on at every write:
// that would cost a timer each. Only the one who has set writing calls it.
func (c *Conn) write(buf []byte) error {
	for len(buf) > 0 {
		if now := time.Now(); now.Sub(c.limited) > c.o.WriteTimeout/4 {
			c.limited = now
			_ = c.nc.SetWriteDeadline(now.Add(c.o.WriteTimeout)) // fails only if closed, and then Write does too
		}
		n, err := c.nc.Write(buf[:min(len(buf), writePieceBytes)])
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// ended closes the connection after a failed write.
func (c *Conn) ended(err error) error {
	if err == nil {
		return nil
	}
	c.close(fmt.Errorf("%w: write to %v: %w", ErrClosed, c.nc.RemoteAddr(), err))
	return c.Err()
}
