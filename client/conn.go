package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
)

// Errors of a call. Errors of the network are wrapped in ErrClosed.
var (
	ErrClosed      = errors.New("client: connection closed")
	ErrTimeout     = errors.New("client: no answer in time")
	ErrTooManyCall = errors.New("client: too many calls wait for answers")
)

// Dialer makes connections; net.Dialer is one, the in-memory engine has another.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Handler serves requests that the peer makes on our connection (a broker's callbacks). A nil answer sends none.
type Handler func(c *Conn, req *codec.Command) *codec.Command

// Options of connections. Zero values are Java's NettyClientConfig.
type Options struct {
	Dialer         Dialer
	ConnectTimeout time.Duration       // 3 s
	CallTimeout    time.Duration       // 3 s, for calls whose context has no deadline
	WriteTimeout   time.Duration       // 30 s; a peer that does not take a write for so long is given up
	MaxPending     int                 // calls that wait for answers on one connection, 65535
	MaxFrameBytes  int                 // 16 MiB
	Serialize      codec.SerializeType // of our headers
	Handler        Handler
	Log            *slog.Logger
}

func (o *Options) ensureDefaults() {
	if o.Dialer == nil {
		o.Dialer = &net.Dialer{}
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 3 * time.Second
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 3 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 65535
	}
	if o.MaxFrameBytes <= 0 {
		o.MaxFrameBytes = codec.MaxFrameBytes
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Conn is one connection to a server.
type Conn struct {
	o      Options
	nc     net.Conn
	opaque atomic.Int32

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

// maxUnwritten bounds the bytes that wait behind a write under way; further callers wait.
const maxUnwritten = 32 << 20

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

// Err is why it was closed, nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Call sends a request and waits for the answer, until ctx ends or, without a deadline, CallTimeout.
func (c *Conn) Call(ctx context.Context, req *codec.Command) (*codec.Command, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.o.CallTimeout)
		defer cancel()
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
		return nil, fmt.Errorf("%w: request %d to %v: %w", ErrTimeout, req.Code, c.nc.RemoteAddr(), ctx.Err())
	}
}

// Go sends a request; done is called once, by the reading goroutine or by the one who closes, with the answer or the
// connection's end. The answer is done's own. Forget takes the call back. With an error done is not called.
func (c *Conn) Go(req *codec.Command, done func(*codec.Command, error)) (opaque int32, err error) {
	req.Opaque, req.Flag, req.Type = c.opaque.Add(1), 0, c.serializeFor(req)
	c.mu.Lock()
	switch {
	case c.err != nil:
		c.mu.Unlock()
		return 0, c.err
	case len(c.pending) >= c.o.MaxPending:
		c.mu.Unlock()
		return 0, fmt.Errorf("%w: %d", ErrTooManyCall, c.o.MaxPending)
	}
	c.pending[req.Opaque] = done
	c.mu.Unlock()
	opaque = req.Opaque
	if err := c.Send(req); err != nil && c.forget(opaque) {
		return 0, err
	}
	return opaque, nil
}

// serializeFor is the configured header encoding, JSON for codes that do not fit the binary one.
func (c *Conn) serializeFor(req *codec.Command) codec.SerializeType {
	if req.Code > 32767 {
		return codec.SerializeJSON
	}
	return c.o.Serialize
}

// Forget drops a call: its done will not be called any more, if it was not yet.
func (c *Conn) Forget(opaque int32) { c.forget(opaque) }

// forget tells whether the call was still there: if not, its done was called.
func (c *Conn) forget(opaque int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, was := c.pending[opaque]
	delete(c.pending, opaque)
	return was
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

// SendWith writes what appendFrame appends: whole frames.
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
	var err error
	for len(c.wbuf) > 0 && err == nil {
		buf := c.wbuf
		c.wbuf = c.wspare[:0]
		c.wmu.Unlock()
		c.limitWrite()
		_, err = c.nc.Write(buf)
		c.wmu.Lock()
		c.wspare = buf
		c.room.Broadcast()
	}
	c.writing = false
	if err != nil {
		c.wbuf = nil
	}
	c.wmu.Unlock()
	if err != nil {
		c.close(fmt.Errorf("%w: write to %v: %w", ErrClosed, c.nc.RemoteAddr(), err))
		return c.Err()
	}
	return nil
}

// limitWrite moves the write deadline on, not at every write: that would cost a timer each. Only the one who writes
// calls it.
func (c *Conn) limitWrite() {
	if now := time.Now(); now.Sub(c.limited) > c.o.WriteTimeout/4 {
		c.limited = now
		_ = c.nc.SetWriteDeadline(now.Add(c.o.WriteTimeout))
	}
}

// read splits what comes into frames and hands them out until the connection ends.
func (c *Conn) read() {
	buf := make([]byte, 0, 64<<10)
	var cmd codec.Command
	for {
		used := 0
		for {
			f, n, need, err := codec.SplitFrame(buf[used:], c.o.MaxFrameBytes)
			if err != nil {
				c.close(fmt.Errorf("%w: %w", ErrClosed, err))
				return
			}
			if n == 0 {
				buf = makeRoom(buf, used, need)
				break
			}
			used += n
			if err := cmd.Decode(f); err != nil {
				c.close(fmt.Errorf("%w: %w", ErrClosed, err))
				return
			}
			c.deliver(&cmd)
		}
		n, err := c.nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.EOF
			}
			c.close(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
	}
}

// makeRoom moves what is left of buf to its front and has it hold need bytes, growing with what has come rather than
// with what a length field claims.
func makeRoom(buf []byte, used, need int) []byte {
	rest := buf[used:]
	if len(rest) == 0 {
		return buf[:0]
	}
	if want := min(need, 2*len(rest)+64<<10); want > cap(buf) {
		return append(make([]byte, 0, want), rest...)
	}
	return buf[:copy(buf[:cap(buf)], rest)]
}

func (c *Conn) deliver(cmd *codec.Command) {
	if !cmd.IsResponse() {
		if c.o.Handler == nil {
			return
		}
		req := cmd.Clone()
		go func() {
			if answer := c.o.Handler(c, req); answer != nil && !req.IsOneway() {
				answer.Opaque, answer.Flag, answer.Type = req.Opaque, codec.FlagResponse, req.Type
				_ = c.Send(answer) // a closed connection needs no answer
			}
		}()
		return
	}
	c.mu.Lock()
	done := c.pending[cmd.Opaque]
	delete(c.pending, cmd.Opaque)
	c.mu.Unlock()
	if done != nil {
		done(cmd.Clone(), nil)
	}
}

// Close ends the connection; calls that wait fail with ErrClosed.
func (c *Conn) Close() error {
	c.close(ErrClosed)
	return nil
}

func (c *Conn) close(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	close(c.closed)
	_ = c.nc.Close()
	for _, done := range pending {
		done(nil, why)
	}
}
