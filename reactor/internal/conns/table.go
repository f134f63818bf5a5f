package conns

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"skylark/reactor"
)

// Bounds of the sweeper's period.
const (
	minSweepPeriod = 10 * time.Millisecond
	maxSweepPeriod = time.Second
	sweepsPerLimit = 8
)

// Member is a connection as the table sees it. None of the methods may call the table.
type Member interface {
	ID() uint64
	// LastTraffic is the tick of the last byte in either direction.
	LastTraffic() uint32
	// Stalled is the tick of the last byte that left and what waits behind it; pending 0 means that nothing
	// waits.
	Stalled() (since uint32, pending int)
	// Close ends the connection soon.
	Close(reason error)
}

// Table holds the open connections of one engine.
type Table struct {
	tick      atomic.Uint32
	idleTicks uint32 // 0 = never
	slowTicks uint32
	period    time.Duration
	stop      chan struct{}
	done      chan struct{}

	mu      sync.Mutex
	members map[uint64]Member
	empty   chan struct{} // closed when the table becomes empty while somebody waits for it
}

// NewTable makes a table and starts its sweeper.
func NewTable(o *reactor.Options) *Table {
	t := &Table{
		period:  sweepPeriod(o.IdleTimeout, o.SlowReaderTimeout),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		members: map[uint64]Member{},
	}
	t.idleTicks, t.slowTicks = t.ticks(o.IdleTimeout), t.ticks(o.SlowReaderTimeout)
	go t.run()
	return t
}

func sweepPeriod(limits ...time.Duration) time.Duration {
	p := maxSweepPeriod
	for _, d := range limits {
		if d > 0 {
			p = min(p, d/sweepsPerLimit)
		}
	}
	return max(p, minSweepPeriod)
}

// ticks is how many ticks must have passed for d to have passed for certain.
func (t *Table) ticks(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32((d+t.period-1)/t.period) + 1
}

// Now is the current tick.
func (t *Table) Now() uint32 { return t.tick.Load() }

// Add enters a connection.
func (t *Table) Add(m Member) {
	t.mu.Lock()
	t.members[m.ID()] = m
	t.mu.Unlock()
}

// Remove forgets a connection; its OnClose has returned.
func (t *Table) Remove(id uint64) {
	t.mu.Lock()
	delete(t.members, id)
	if len(t.members) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	t.mu.Unlock()
}

// Get finds a connection, nil when it is gone.
func (t *Table) Get(id uint64) Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members[id]
}

// CloseAll closes every connection that is in the table now.
func (t *Table) CloseAll(reason error) {
	for _, m := range t.snapshot(nil) {
		m.Close(reason)
	}
}

// WaitEmpty returns when no connection is left, or with ctx's error.
func (t *Table) WaitEmpty(ctx context.Context) error {
	t.mu.Lock()
	if len(t.members) == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	empty := t.empty
	t.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the sweeper and waits for it.
func (t *Table) Close() {
	close(t.stop)
	<-t.done
}

func (t *Table) snapshot(all []Member) []Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.members {
		all = append(all, m)
	}
	return all
}

func (t *Table) run() {
	defer close(t.done)
	ticker := time.NewTicker(t.period)
	defer ticker.Stop()
	var scratch []Member
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
			scratch = t.snapshot(scratch[:0])
			t.sweep(scratch, t.tick.Add(1))
			clear(scratch)
		}
	}
}

// sweep closes what is overdue. The members are asked outside the lock: one may be busy.
func (t *Table) sweep(members []Member, now uint32) {
	for _, m := range members {
		if t.slowTicks > 0 {
			if since, pending := m.Stalled(); pending > 0 && now-since >= t.slowTicks {
				m.Close(reactor.ErrSlowReader)
				continue
			}
		}
		if t.idleTicks > 0 && now-m.LastTraffic() >= t.idleTicks {
			m.Close(reactor.ErrIdle)
		}
	}
}
