package pop

import (
	"fmt"
	"slices"
	"sync"

	"skylark/codec"
)

// key names a check point.
type key struct {
	topic, group string
	queueID      int32
	start        codec.QueueOffset
	popTime      int64
}

// open is a check point of this run whose messages are invisible.
type open struct {
	ck        CheckPoint
	reviveQID int32
	acked     uint32 // bits of the messages that are acknowledged
	pending   uint32 // … whose ack record is being written
	over      bool   // the revive service returns the rest: nothing is acknowledged any more
	buffered  bool   // in memory only, see Service.buffer
	at        int64  // ms, when it was made
	queue     *queue
}

func (e *open) done() bool { return e.acked == e.ck.all() }

// ledger is the table of open check points. About 300 bytes each, at most Settings.MaxOpen.
type ledger struct {
	mu    sync.Mutex
	table map[key]*open
	// before are check points of the run before, of which a receipt has been used in this one: at most maxBefore.
	before map[key]*used
}

// used are the messages of a check point whose receipts were used.
type used struct {
	until   int64 // ms
	offsets []codec.QueueOffset
}

// maxBefore bounds the check points of the run before that are remembered, about 200 bytes each; the receipts of others
// are judged by their time alone.
const maxBefore = 1 << 18

// claimBefore notes that the receipt of a message of the run before is used; false: it was before.
func (l *ledger) claimBefore(k key, until int64, at codec.QueueOffset) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.before[k]
	switch {
	case u == nil && len(l.before) >= maxBefore:
		return true
	case u == nil:
		if u = (&used{until: until}); l.before == nil {
			l.before = map[key]*used{}
		}
		l.before[k] = u
	case slices.Contains(u.offsets, at):
		return false
	}
	u.offsets = append(u.offsets, at)
	return true
}

// unclaimBefore takes back what claimBefore noted.
func (l *ledger) unclaimBefore(k key, at codec.QueueOffset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.before[k]; u != nil {
		u.offsets = slices.DeleteFunc(u.offsets, func(o codec.QueueOffset) bool { return o == at })
	}
}

// add enters a check point; false when there is one of the same name.
func (l *ledger) add(e *open) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := e.ck.key()
	if l.table[k] != nil {
		return false
	}
	l.table[k] = e
	return true
}

func (l *ledger) remove(e *open) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := e.ck.key(); l.table[k] == e {
		delete(l.table, k)
	}
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.table)
}

// claim reserves the acks of some messages of a check point, all or none; settle follows. nil without an error: the
// ledger does not know the check point.
func (l *ledger) claim(k key, r *Receipt, offsets []codec.QueueOffset, now func() int64) (e *open, bits uint32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e = l.table[k]; e == nil {
		return nil, 0, nil
	}
	if e.ck.Invisible != r.Invisible || e.reviveQID != r.ReviveQID {
		return nil, 0, fmt.Errorf("%w: it was given for %d ms in revive queue %d", ErrMismatch, e.ck.Invisible, e.reviveQID)
	}
	for _, at := range offsets {
		i := e.ck.index(at)
		if i < 0 {
			return nil, 0, fmt.Errorf("%w: offset %d was not popped with it", ErrMismatch, at)
		}
		bits |= 1 << i
	}
	switch {
	case e.over, now() >= e.ck.PopTime+e.ck.Invisible: // the clock is read under the lock: the revive service does so too
		return nil, 0, ErrLate
	case (e.acked|e.pending)&bits != 0:
		return nil, 0, ErrSettled
	}
	if e.buffered {
		e.acked |= bits
		return e, bits, nil
	}
	e.pending |= bits
	return e, bits, nil
}

// settle ends what claim began; with ok the messages are acknowledged. A check point without any left is forgotten.
func (l *ledger) settle(e *open, bits uint32, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.pending &^= bits
	if ok {
		e.acked |= bits
	}
	if e.done() {
		if k := e.ck.key(); l.table[k] == e {
			delete(l.table, k)
		}
	}
}

// due takes a check point whose time is over out of the reach of acks: bits are those of the messages that are settled.
// ok is false while acks are being written.
func (l *ledger) due(k key, now int64) (e *open, bits uint32, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e = l.table[k]
	if e == nil {
		return nil, 0, true
	}
	if now < e.ck.PopTime+e.ck.Invisible {
		return e, 0, false
	}
	e.over = true
	return e, e.acked, e.pending == 0
}
