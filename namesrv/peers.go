package namesrv

import (
	"sync"
	"sync/atomic"

	"skylark/reactor"
)

// peer is the context of a connection. A registration sets registered before it enters the tables and looks
// at closed after that; the end of the connection sets closed and looks at registered. So one of the two sees
// the other, whatever the order, and an entry of a dead connection is removed. Java lets it wait for its
// expiry.
type peer struct {
	registered atomic.Bool
	closed     atomic.Bool
}

// peers are the connections that registered a broker, and the goroutine that removes what closed ones left
// behind. It runs only while there is something to do: connections close on event loops, which must not wait
// for the tables.
type peers struct {
	remove func(conn uint64)

	mu      sync.Mutex
	conns   map[uint64]reactor.Conn
	closing []uint64 // bounded by the connections that registered a broker
	running bool
	wg      sync.WaitGroup
}

func (ps *peers) opened(c reactor.Conn) error {
	c.SetContext(&peer{})
	return nil
}

// closed is called by the event loop.
func (ps *peers) closed(c reactor.Conn, _ error) {
	if p, ok := c.Context().(*peer); ok {
		p.closed.Store(true)
		if p.registered.Load() {
			ps.clean(c.ID())
		}
	}
}

// registering runs enter, which registers something that came on c.
func (ps *peers) registering(c reactor.Conn, enter func()) {
	p, ok := c.Context().(*peer)
	if !ok {
		enter()
		return
	}
	if !p.registered.Swap(true) {
		ps.mu.Lock()
		ps.conns[c.ID()] = c
		ps.mu.Unlock()
	}
	enter()
	if p.closed.Load() {
		ps.clean(c.ID())
	}
}

// clean has what conn registered removed soon.
func (ps *peers) clean(conn uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.closing = append(ps.closing, conn)
	if !ps.running {
		ps.running = true
		ps.wg.Go(ps.run)
	}
}

func (ps *peers) run() {
	for {
		ps.mu.Lock()
		closing := ps.closing
		ps.closing = nil
		if len(closing) == 0 {
			ps.running = false
			ps.mu.Unlock()
			return
		}
		for _, conn := range closing {
			delete(ps.conns, conn)
		}
		ps.mu.Unlock()
		for _, conn := range closing {
			ps.remove(conn)
		}
	}
}

// get gives a connection that registered a broker, nil if it is gone.
func (ps *peers) get(conn uint64) reactor.Conn {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.conns[conn]
}
