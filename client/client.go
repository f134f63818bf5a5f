package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skylark/codec"
)

// Client keeps one connection for each address it has talked to.
type Client struct {
	o      Options
	ctx    context.Context // of all dials
	cancel context.CancelFunc
	dials  sync.WaitGroup
	mu     sync.Mutex
	slots  map[string]*slot
	closed bool
}

// slot is the connection of one address; Client.mu guards it.
type slot struct {
	conn     *Conn
	dialing  chan struct{} // closed when the dial under way ends; nil when there is none
	dropped  bool
	failed   error
	failedAt time.Time
}

// redialPause keeps callers from hammering an address that just refused.
const redialPause = 100 * time.Millisecond

// minSilence is how long a call must have waited in vain before its connection is given up: one in a hurry says nothing
// about the peer.
const minSilence = 200 * time.Millisecond

// maxIdleSlots bounds the addresses that are remembered without a connection.
const maxIdleSlots = 1024

// New makes a client without connections.
func New(o Options) *Client {
	o.ensureDefaults()
	c := &Client{o: o, slots: map[string]*slot{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Conn gives the connection to addr (host:port), made if there is none. All who ask meanwhile wait for one
// dial, each as long as its own ctx allows: the dial goes on for the others, at most for ConnectTimeout.
func (c *Client) Conn(ctx context.Context, addr string) (*Conn, error) {
	for {
		conn, dialing, err := c.connOrDial(addr)
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, fmt.Errorf("client: connect to %s: %w", addr, ctx.Err())
		}
	}
}

// connOrDial gives the connection, or the end of the dial to wait for.
func (c *Client) connOrDial(addr string) (*Conn, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	s := c.slots[addr]
	if s == nil {
		c.forgetIdle()
		s = &slot{}
		c.slots[addr] = s
	}
	switch {
	case s.conn != nil && s.conn.Err() == nil:
		return s.conn, nil, nil
	case s.dialing != nil:
		return nil, s.dialing, nil
	case s.failed != nil && time.Since(s.failedAt) < redialPause:
		return nil, nil, s.failed
	}
	s.conn, s.dialing = nil, make(chan struct{})
	c.dials.Go(func() { c.dial(s, addr) })
	return nil, s.dialing, nil
}

// forgetIdle makes room among addresses that have no connection; mu is held.
func (c *Client) forgetIdle() {
	if len(c.slots) < maxIdleSlots {
		return
	}
	for addr, s := range c.slots {
		if s.dialing == nil && (s.conn == nil || s.conn.Err() != nil) {
			delete(c.slots, addr)
		}
	}
}

func (c *Client) dial(s *slot, addr string) {
	conn, err := Dial(c.ctx, addr, c.o)
	c.mu.Lock()
	close(s.dialing)
	s.dialing = nil
	unwanted := c.closed || s.dropped
	if unwanted {
		s.failed, s.failedAt = ErrClosed, time.Now()
	} else {
		s.conn, s.failed, s.failedAt = conn, err, time.Now()
	}
	c.mu.Unlock()
	if unwanted && conn != nil {
		_ = conn.Close()
	}
}

// Call sends a request to addr and waits for the answer. If time runs out and nothing at all came from the peer meanwhile,
// the connection is closed (Java clientCloseSocketIfTimeout): its link may be dead without a sign, and the system would
// repeat what was written at ever longer intervals. Other calls that wait on it fail with ErrClosed, the next one dials.
func (c *Client) Call(ctx context.Context, addr string, req *codec.Command) (*codec.Command, error) {
	conn, err := c.Conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	heard, began := conn.heard.Load(), time.Now()
	answer, err := conn.Call(ctx, req)
	if err != nil && errors.Is(err, ErrTimeout) {
		if silence := time.Since(began); silence >= minSilence && conn.heard.Load() == heard {
			c.silent(conn, addr, silence)
		}
	}
	return answer, err
}

// silent gives a connection up.
func (c *Client) silent(conn *Conn, addr string, silence time.Duration) {
	if !conn.close(fmt.Errorf("%w: nothing came from %s for %v", ErrClosed, addr, silence)) {
		return
	}
	c.o.Log.Info("client: connection given up, nothing came from the peer while a call waited", "remote", addr,
		"silence", silence)
	if c.o.Silent != nil {
		c.o.Silent(addr)
	}
}

// Oneway sends a request to addr.
func (c *Client) Oneway(ctx context.Context, addr string, req *codec.Command) error {
	conn, err := c.Conn(ctx, addr)
	if err != nil {
		return err
	}
	return conn.Oneway(req)
}

// Drop closes the connection to addr and forgets the address.
func (c *Client) Drop(addr string) {
	c.mu.Lock()
	s := c.slots[addr]
	var conn *Conn
	if s != nil {
		delete(c.slots, addr)
		s.dropped, conn = true, s.conn
	}
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// Close closes all connections and ends the dials under way.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	slots := c.slots
	c.slots = nil
	c.mu.Unlock()
	c.cancel()
	c.dials.Wait()
	for _, s := range slots { // nobody else touches them any more
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}
	return nil
}

// ResponseError is an answer with a code other than 0.
type ResponseError struct {
	Request int
	Code    int
	Remark  string
}

// Error gives Java's names of both codes.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s answered %s (%d): %s", codec.RequestCodeName(e.Request), codec.ResponseCodeName(e.Code),
		e.Code, e.Remark)
}

// IsResponse tells whether err is an answer with that code.
func IsResponse(err error, code int) bool {
	var re *ResponseError
	return errors.As(err, &re) && re.Code == code
}

// Check makes an answer other than SUCCESS a *ResponseError.
func Check(req, answer *codec.Command) error {
	if answer.Code == codec.RespSuccess {
		return nil
	}
	return &ResponseError{Request: req.Code, Code: answer.Code, Remark: answer.Remark}
}

// Do is Call and Check.
func (c *Client) Do(ctx context.Context, addr string, req *codec.Command) (*codec.Command, error) {
	answer, err := c.Call(ctx, addr, req)
	if err != nil {
		return nil, err
	}
	return answer, Check(req, answer)
}
