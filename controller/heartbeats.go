package controller

import (
	"slices"
	"sync"
	"time"

	"skylark/controller/replicas"
)

const (
	// closeGrace is how long a broker whose connection ended may take to be heard of again.
	closeGrace = 1500 * time.Millisecond
	// startGrace is how long after the start silence says nothing about a broker that was not heard of yet: Java's brokers
	// look every 3 s which controllers are there.
	startGrace = 10 * time.Second
	// defaultBeatTimeout is for brokers that do not name one (Java DEFAULT_BROKER_CHANNEL_EXPIRED_TIME).
	defaultBeatTimeout = 10 * time.Second
	minBeatTimeout     = 100 * time.Millisecond
	maxBeatTimeout     = time.Hour
	// maxBeats bounds the brokers that are heard of; beats of further ones are dropped.
	maxBeats = 4 * replicas.MaxReplicas
)

// brokerKey names a broker.
type brokerKey struct {
	name string
	id   int64
}

// beat is the last that was heard of a broker.
type beat struct {
	live    replicas.Live
	addr    string // of the broker, as it says
	timeout time.Duration
	last    time.Time
	conn    uint64
	closed  time.Time // of conn; zero: open
}

func (b *beat) alive(now time.Time) bool {
	return now.Sub(b.last) <= b.timeout && (b.closed.IsZero() || now.Sub(b.closed) <= closeGrace)
}

// heartbeats is who is alive (Java DefaultBrokerHeartbeatManager). Its methods may be called from any goroutine; the
// time is the caller's.
type heartbeats struct {
	mu      sync.Mutex
	started time.Time
	beats   map[brokerKey]*beat
	byConn  map[uint64][]brokerKey
	died    map[brokerKey]bool // within startGrace: those that were heard of and are dead
}

func newHeartbeats(now time.Time) *heartbeats {
	return &heartbeats{started: now, beats: map[brokerKey]*beat{}, byConn: map[uint64][]brokerKey{}, died: map[brokerKey]bool{}}
}

// hear takes a heartbeat; fresh tells that the broker was not alive before. ok is false if there are too many.
func (h *heartbeats) hear(now time.Time, k brokerKey, b beat) (fresh, ok bool) {
	b.last = now
	if b.timeout <= 0 {
		b.timeout = defaultBeatTimeout
	}
	b.timeout = min(max(b.timeout, minBeatTimeout), maxBeatTimeout)
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.beats[k]
	switch {
	case old == nil && len(h.beats) >= maxBeats:
		return false, false
	case old == nil || old.conn != b.conn:
		h.forgetConn(k, old)
		h.byConn[b.conn] = append(h.byConn[b.conn], k)
	}
	delete(h.died, k)
	h.beats[k] = &b
	return old == nil || !old.alive(now), true
}

func (h *heartbeats) forgetConn(k brokerKey, old *beat) {
	if old == nil {
		return
	}
	keys := slices.DeleteFunc(h.byConn[old.conn], func(o brokerKey) bool { return o == k })
	if len(keys) == 0 {
		delete(h.byConn, old.conn)
	} else {
		h.byConn[old.conn] = keys
	}
}

// connClosed starts the grace of those that were last heard of on the connection, and gives their addresses.
func (h *heartbeats) connClosed(now time.Time, conn uint64) map[brokerKey]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	addrs := map[brokerKey]string{}
	for _, k := range h.byConn[conn] {
		h.beats[k].closed = now
		addrs[k] = h.beats[k].addr
	}
	delete(h.byConn, conn)
	return addrs
}

// gone ends the grace of a broker, unless it was heard of since the end of conn.
func (h *heartbeats) gone(k brokerKey, conn uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.beats[k]; b != nil && b.conn == conn && !b.closed.IsZero() {
		b.closed = b.closed.Add(-2 * closeGrace)
	}
}

// expire removes the dead and tells who they are, in order.
func (h *heartbeats) expire(now time.Time) (dead []brokerKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	inGrace := h.inGrace(now)
	if !inGrace && len(h.died) > 0 {
		clear(h.died)
	}
	for k, b := range h.beats {
		if b.alive(now) {
			continue
		}
		h.forgetConn(k, b)
		delete(h.beats, k)
		if inGrace {
			h.died[k] = true
		}
		dead = append(dead, k)
	}
	slices.SortFunc(dead, func(a, b brokerKey) int {
		switch {
		case a.name < b.name || a.name == b.name && a.id < b.id:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	return dead
}

func (h *heartbeats) inGrace(now time.Time) bool { return now.Sub(h.started) < startGrace }

// look tells which of a broker name's replicas live and of which nothing is known yet, in the order of ids.
func (h *heartbeats) look(now time.Time, name string, ids []int64) (live []replicas.Live, unknown []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	inGrace := h.inGrace(now)
	for _, id := range ids {
		k := brokerKey{name, id}
		switch b := h.beats[k]; {
		case b != nil && b.alive(now):
			live = append(live, b.live)
		case b == nil && inGrace && !h.died[k]:
			unknown = append(unknown, id)
		}
	}
	return live, unknown
}
