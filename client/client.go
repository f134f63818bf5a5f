package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skylark/codec"
)

// Client keeps one connection for each address it has talked to.
type Client struct {
	o      Options
	mu     sync.Mutex
	conns  map[string]*slot
	closed bool
}

// slot is the connection of one address. Its own lock makes concurrent callers wait for one dial.
type slot struct {
	mu       sync.Mutex
	conn     *Conn
	failed   error
	failedAt time.Time
}

// redialPause keeps callers from hammering an address that just refused.
const redialPause = 100 * time.Millisecond

// New makes a client without connections.
func New(o Options) *Client {
	o.ensureDefaults()
	return &Client{o: o, conns: map[string]*slot{}}
}

// Conn gives the connection to addr (host:port), made if there is none.
func (c *Client) Conn(ctx context.Context, addr string) (*Conn, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	s := c.conns[addr]
	if s == nil {
		s = &slot{}
		c.conns[addr] = s
	}
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.Err() == nil {
		return s.conn, nil
	}
	if s.failed != nil && time.Since(s.failedAt) < redialPause {
		return nil, s.failed
	}
	conn, err := Dial(ctx, addr, c.o)
	s.conn, s.failed = conn, err
	if err != nil {
		s.failedAt = time.Now()
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, ErrClosed
	}
	return conn, nil
}

// Call sends a request to addr and waits for the answer.
func (c *Client) Call(ctx context.Context, addr string, req *codec.Command) (*codec.Command, error) {
	conn, err := c.Conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return conn.Call(ctx, req)
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
	s := c.conns[addr]
	delete(c.conns, addr)
	c.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}
}

// Close closes all connections.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for _, s := range conns {
		s.mu.Lock()
		if s.conn != nil {
			_ = s.conn.Close()
		}
		s.mu.Unlock()
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
	return fmt.Sprintf("%s answered %s (%d): %s", codec.RequestCodeName(e.Request), codec.ResponseCodeName(e.Code), e.Code,
		e.Remark)
}

// Check makes an answer other than SUCCESS an error.
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
