package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/reactor"
)

// Errors of a call to a peer.
var (
	ErrCallTimeout  = errors.New("rpc: the peer did not answer in time")
	ErrTooManyCalls = errors.New("rpc: too many calls wait for this server's peers")
	ErrServerClosed = errors.New("rpc: server closed")
)

// MaxPendingCalls bounds the calls that wait for answers, in all (Java's semaphores: 64 async, 256 oneway).
const MaxPendingCalls = 65535

type callKey struct {
	conn   uint64
	opaque int32
}

// calls are the requests of ours that wait for an answer of a connected peer. They are kept by connection, so that its
// end costs what it has and not what all have.
type calls struct {
	clock   clock.Clock
	opaque  atomic.Int32
	mu      sync.Mutex
	waiting map[uint64]map[int32]*call // connection, opaque
	count   int
	stopped bool
}

type call struct {
	done  func(*codec.Command, error)
	timer clock.Timer
}

func (cs *calls) init(ck clock.Clock) {
	cs.clock = ck
	cs.waiting = map[uint64]map[int32]*call{}
}

// Oneway sends a request that gets no answer.
func (s *Server) Oneway(c reactor.Conn, cmd *codec.Command) error {
	cmd.Opaque, cmd.Flag = s.calls.opaque.Add(1), codec.FlagOneway
	return c.Send(cmd.AppendTo(nil))
}

// CallAsync sends a request and calls done exactly once with the answer (a copy) or an error.
func (s *Server) CallAsync(c reactor.Conn, cmd *codec.Command, timeout time.Duration,
	done func(*codec.Command, error)) {
	cs := &s.calls
	cmd.Opaque, cmd.Flag = cs.opaque.Add(1), 0
	key := callKey{c.ID(), cmd.Opaque}
	cl := &call{done: done}
	cs.mu.Lock()
	if cs.stopped || cs.count >= MaxPendingCalls {
		stopped := cs.stopped
		cs.mu.Unlock()
		if stopped {
			done(nil, ErrServerClosed)
		} else {
			done(nil, ErrTooManyCalls)
		}
		return
	}
	cs.add(key, cl)
	cl.timer = cs.clock.AfterFunc(timeout, func() {
		cs.finish(key, nil, fmt.Errorf("%w: request %d to %v after %v", ErrCallTimeout, cmd.Code, c.RemoteAddr(), timeout))
	})
	cs.mu.Unlock()
	if err := c.Send(cmd.AppendTo(nil)); err != nil {
		cs.finish(key, nil, err)
	}
}

// Call sends a request and waits for the answer.
func (s *Server) Call(ctx context.Context, c reactor.Conn, cmd *codec.Command, timeout time.Duration) (
	*codec.Command, error) {
	type result struct {
		cmd *codec.Command
		err error
	}
	ch := make(chan result, 1)
	s.CallAsync(c, cmd, timeout, func(a *codec.Command, err error) { ch <- result{a, err} })
	select {
	case r := <-ch:
		return r.cmd, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// add and take are called with mu held.
func (cs *calls) add(key callKey, cl *call) {
	of := cs.waiting[key.conn]
	if of == nil {
		of = map[int32]*call{}
		cs.waiting[key.conn] = of
	}
	of[key.opaque] = cl
	cs.count++
}

func (cs *calls) take(key callKey) *call {
	of := cs.waiting[key.conn]
	cl := of[key.opaque]
	if cl == nil {
		return nil
	}
	cs.count--
	if delete(of, key.opaque); len(of) == 0 {
		delete(cs.waiting, key.conn)
	}
	return cl
}

func (cs *calls) finish(key callKey, answer *codec.Command, err error) {
	cs.mu.Lock()
	cl := cs.take(key)
	cs.mu.Unlock()
	if cl == nil {
		return
	}
	cl.timer.Stop()
	cl.done(answer, err)
}

// complete hands a response to its call; one that nobody waits for is ignored.
func (cs *calls) complete(c reactor.Conn, answer *codec.Command) {
	key := callKey{c.ID(), answer.Opaque}
	cs.mu.Lock()
	waits := cs.waiting[key.conn][key.opaque] != nil
	cs.mu.Unlock()
	if waits {
		cs.finish(key, answer.Clone(), nil)
	}
}

// closed fails the calls of a connection.
func (cs *calls) closed(c reactor.Conn) {
	cs.mu.Lock()
	of := cs.waiting[c.ID()]
	delete(cs.waiting, c.ID())
	cs.count -= len(of)
	cs.mu.Unlock()
	failAll(of, reactor.ErrClosed)
}

func (cs *calls) close() {
	cs.mu.Lock()
	cs.stopped = true
	waiting := cs.waiting
	cs.waiting, cs.count = nil, 0 // stopped: nothing is added
	cs.mu.Unlock()
	for _, of := range waiting {
		failAll(of, ErrServerClosed)
	}
}

func failAll(of map[int32]*call, err error) {
	for _, cl := range of {
		cl.timer.Stop()
		cl.done(nil, err)
	}
}
