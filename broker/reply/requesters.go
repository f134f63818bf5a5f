package reply

import (
	"sync"

	"skylark/reactor"
)

// Limits of what is remembered; a request beyond them is remembered by heartbeats alone.
const (
	// MaxRequesters bounds the table, about 200 bytes each.
	MaxRequesters = 1 << 18
	// MaxPerConn bounds the client ids of one connection: clients have one.
	MaxPerConn = 16
	// MaxClientID bounds the bytes of a client id.
	MaxClientID = 1024
)

// Requesters are the connections that requests came in on, by the client id the requests name. The last one counts.
type Requesters struct {
	mu    sync.Mutex
	byID  map[string]reactor.Conn
	conns map[uint64][]string // connection → its client ids
}

// NewRequesters makes an empty table.
func NewRequesters() *Requesters {
	return &Requesters{byID: map[string]reactor.Conn{}, conns: map[uint64][]string{}}
}

// Note remembers that a request of clientID came in on c. It allocates nothing when that is known.
func (t *Requesters) Note(clientID []byte, c reactor.Conn) {
	if len(clientID) > MaxClientID {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.byID[string(clientID)]
	switch {
	case old != nil && old.ID() == c.ID():
		return
	case len(t.conns[c.ID()]) >= MaxPerConn, old == nil && len(t.byID) >= MaxRequesters:
		return
	}
	id := string(clientID)
	if old != nil {
		t.unlink(old.ID(), id)
	}
	t.byID[id] = c
	t.conns[c.ID()] = append(t.conns[c.ID()], id)
}

// unlink takes a client id off a connection; mu is held.
func (t *Requesters) unlink(connID uint64, id string) {
	ids := t.conns[connID]
	for i := range ids {
		if ids[i] == id {
			ids[i] = ids[len(ids)-1]
			ids = ids[:len(ids)-1]
			break
		}
	}
	if t.conns[connID] = ids; len(ids) == 0 {
		delete(t.conns, connID)
	}
}

// Find gives the connection of a client id, nil when there is none.
func (t *Requesters) Find(clientID string) reactor.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[clientID]
}

// Drop forgets a connection that has ended.
func (t *Requesters) Drop(connID uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range t.conns[connID] {
		delete(t.byID, id)
	}
	delete(t.conns, connID)
}

// Len is how many client ids are known.
func (t *Requesters) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
