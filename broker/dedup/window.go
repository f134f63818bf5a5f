package dedup

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
)

const (
	// shards spreads a window's lock, and bounds what one step of its growth moves.
	shards = 16
	// firstCap is the capacity of a shard that has one; it doubles.
	firstCap = 16
	// claimLimit is how long a claim that nobody settles keeps others waiting.
	claimLimit = 10 * time.Second
	// entryBytes is what a message takes: an entry, and its share of the index.
	entryBytes = 80
)

// Found is where a message is that was sent before.
type Found struct {
	PhyOffset   codec.PhyOffset
	End         codec.PhyOffset // the answer may leave when the log is durable up to here
	QueueOffset codec.QueueOffset
	QueueID     int32 // that the producer was told
	Deliver     int64 // ms, when a timer message is due; 0 for others
	Half        bool  // a half message
}

// State is what became of a claim.
type State uint8

// The states; see the package comment.
const (
	Fresh State = iota
	Known
	Pending
)

// Ticket is a claim that is to be settled. The zero Ticket needs no settling.
type Ticket struct {
	w      *Window
	lo, hi uint64
	seq    uint32
	// Deliver is the caller's note of Found.Deliver, until it stores that.
	Deliver int64
}

// Valid tells that the ticket has to be settled.
func (t *Ticket) Valid() bool { return t.w != nil }

// entry is a message of a window; size 0: it is being put.
type entry struct {
	lo, hi      uint64
	at          int64 // ms
	phyOffset   int64
	queueOffset int64
	deliver     int64
	seq         uint32
	size        int32
	queueID     int32
	half        bool
	dead        bool // dropped: only its place is left
}

// Window is what is remembered of one topic. Its methods may be called from any goroutine.
type Window struct {
	o     *Options
	all   *Windows
	seq   atomic.Uint32
	shard [shards]shard

	suppressed atomic.Int64
}

// shard is a ring of entries in the order in which they came, and an index of it.
type shard struct {
	mu      sync.Mutex
	ring    []entry
	head, n int
	index   []uint32      // slot + 1; open addressing, at most half full
	settled chan struct{} // closed when a claim is settled; nil while nobody waits
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hash(id []byte) (lo, hi uint64) {
	return maphash.Bytes(seeds[0], id), maphash.Bytes(seeds[1], id)
}

func (w *Window) of(lo uint64) *shard { return &w.shard[lo>>60] }

// Claim asks for an id at a time in ms. Only a Fresh claim has a ticket, and not even that when there is no memory.
func (w *Window) Claim(id []byte, now int64) (Ticket, Found, State) {
	lo, hi := hash(id)
	return w.claim(lo, hi, now, false)
}

// ClaimAnew is Claim for an id that is known to a message which no longer counts: a half message that was rolled back.
func (w *Window) ClaimAnew(id []byte, now int64) (Ticket, Found, State) {
	lo, hi := hash(id)
	return w.claim(lo, hi, now, true)
}

func (w *Window) claim(lo, hi uint64, now int64, anew bool) (Ticket, Found, State) {
	sh := w.of(lo)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w.expire(sh, now)
	if at := sh.find(lo, hi); at >= 0 {
		e := &sh.ring[sh.index[at]-1]
		switch {
		case e.size == 0 && now-e.at < claimLimit.Milliseconds():
			return Ticket{}, Found{}, Pending
		case e.size > 0 && !anew:
			return Ticket{}, e.found(), Known
		}
		e.at, e.size, e.seq = now, 0, w.seq.Add(1) // the place in the ring stays: it goes at the latest when it would have
		return Ticket{w: w, lo: lo, hi: hi, seq: e.seq}, Found{}, Fresh
	}
	e := w.append(sh, lo, hi, now)
	if e == nil {
		w.all.missed.Add(1)
		return Ticket{}, Found{}, Fresh
	}
	return Ticket{w: w, lo: lo, hi: hi, seq: e.seq}, Found{}, Fresh
}

func (e *entry) found() Found {
	return Found{PhyOffset: codec.PhyOffset(e.phyOffset), End: codec.PhyOffset(e.phyOffset + int64(e.size)),
		QueueOffset: codec.QueueOffset(e.queueOffset), QueueID: e.queueID, Deliver: e.deliver, Half: e.half}
}

// Answered counts messages whose sends were answered with what was known.
func (w *Window) Answered(messages int) {
	w.suppressed.Add(int64(messages))
	w.all.suppressed.Add(int64(messages))
}

// append makes an entry that is pending; nil when there is no memory for any.
func (w *Window) append(sh *shard, lo, hi uint64, now int64) *entry {
	if sh.n == len(sh.ring) && !w.grow(sh) {
		if sh.n == 0 {
			return nil
		}
		w.all.early.Add(1)
		sh.drop()
	}
	slot := (sh.head + sh.n) & (len(sh.ring) - 1)
	sh.n++
	sh.ring[slot] = entry{lo: lo, hi: hi, at: now, seq: w.seq.Add(1)}
	sh.link(slot)
	return &sh.ring[slot]
}

// Store settles the ticket: the message was put at a time in ms.
func (t *Ticket) Store(f Found, now int64) {
	if t.w == nil {
		return
	}
	sh := t.w.of(t.lo)
	sh.mu.Lock()
	if e := t.entry(sh); e != nil {
		e.set(f, now)
	}
	sh.wake()
	sh.mu.Unlock()
	t.w = nil
}

func (e *entry) set(f Found, now int64) {
	e.at, e.phyOffset, e.queueOffset = now, int64(f.PhyOffset), int64(f.QueueOffset)
	e.size, e.queueID, e.deliver, e.half = int32(max(f.End-f.PhyOffset, 1)), f.QueueID, f.Deliver, f.Half
}

// Drop settles the ticket: the message was not put.
func (t *Ticket) Drop() {
	if t.w == nil {
		return
	}
	sh := t.w.of(t.lo)
	sh.mu.Lock()
	if e := t.entry(sh); e != nil {
		sh.unlink(e)
		e.dead = true
	}
	sh.wake()
	sh.mu.Unlock()
	t.w = nil
}

// entry is that of the ticket, nil when it has had to go.
func (t *Ticket) entry(sh *shard) *entry {
	if at := sh.find(t.lo, t.hi); at >= 0 {
		if e := &sh.ring[sh.index[at]-1]; e.seq == t.seq && e.size == 0 {
			return e
		}
	}
	return nil
}

// Wait returns when a claim of the id was settled, or after d: false.
func (w *Window) Wait(id []byte, d time.Duration, ck clock.Clock) bool {
	lo, hi := hash(id)
	sh := w.of(lo)
	end := ck.Now().Add(d)
	for {
		sh.mu.Lock()
		at := sh.find(lo, hi)
		if at < 0 || sh.ring[sh.index[at]-1].size > 0 {
			sh.mu.Unlock()
			return true
		}
		if sh.settled == nil {
			sh.settled = make(chan struct{})
		}
		settled := sh.settled
		sh.mu.Unlock()
		late := make(chan struct{})
		timer := ck.AfterFunc(max(end.Sub(ck.Now()), 0), func() { close(late) })
		select {
		case <-settled:
			timer.Stop()
		case <-late:
			return false
		}
	}
}

// wake tells those who wait; mu is held.
func (sh *shard) wake() {
	if sh.settled != nil {
		close(sh.settled)
		sh.settled = nil
	}
}

// Remember enters a message that is in the log already, stored at a time in ms, unless its id is known: the first counts.
func (w *Window) Remember(id []byte, f Found, at int64) {
	lo, hi := hash(id)
	sh := w.of(lo)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w.expire(sh, at)
	if sh.find(lo, hi) >= 0 {
		return
	}
	if e := w.append(sh, lo, hi, at); e != nil {
		e.set(f, at)
	}
}

// expire forgets what is out of the window; mu is held.
func (w *Window) expire(sh *shard, now int64) {
	last := w.seq.Load()
	for sh.n > 0 {
		e := &sh.ring[sh.head]
		if !e.dead && now-e.at <= w.o.Keep.Milliseconds() && last-e.seq < uint32(w.o.Count) {
			return
		}
		sh.drop()
	}
}

// drop forgets the oldest entry; mu is held.
func (sh *shard) drop() {
	e := &sh.ring[sh.head]
	if !e.dead {
		sh.unlink(e)
	}
	sh.head = (sh.head + 1) & (len(sh.ring) - 1)
	sh.n--
}

// grow doubles the shard if there is memory; mu is held.
func (w *Window) grow(sh *shard) bool {
	to := max(firstCap, 2*len(sh.ring))
	if to > firstCap && to*shards > 4*w.o.Count {
		return false // twice of what the window holds is there; ids do not spread evenly
	}
	if !w.all.take(to - len(sh.ring)) {
		return false
	}
	sh.resize(to)
	return true
}

// resize moves the entries, of which there are at most to; mu is held.
func (sh *shard) resize(to int) {
	old, head, n := sh.ring, sh.head, sh.n
	sh.ring, sh.index, sh.head = nil, nil, 0
	if to == 0 {
		return
	}
	sh.ring, sh.index = make([]entry, to), make([]uint32, 2*to)
	for i := range n {
		sh.ring[i] = old[(head+i)&(len(old)-1)]
		if !sh.ring[i].dead {
			sh.link(i)
		}
	}
}

// The index: linear probing from the low bits of lo; a removal closes the gap it makes.

func (sh *shard) home(lo uint64) int { return int(lo) & (len(sh.index) - 1) }

// find is the place in the index of an id, -1 without.
func (sh *shard) find(lo, hi uint64) int {
	if sh.n == 0 {
		return -1
	}
	for at := sh.home(lo); ; at = (at + 1) & (len(sh.index) - 1) {
		s := sh.index[at]
		if s == 0 {
			return -1
		}
		if e := &sh.ring[s-1]; e.lo == lo && e.hi == hi {
			return at
		}
	}
}

func (sh *shard) link(slot int) {
	at := sh.home(sh.ring[slot].lo)
	for sh.index[at] != 0 {
		at = (at + 1) & (len(sh.index) - 1)
	}
	sh.index[at] = uint32(slot) + 1
}

func (sh *shard) unlink(e *entry) {
	at := sh.find(e.lo, e.hi)
	mask := len(sh.index) - 1
	for next := at; ; {
		next = (next + 1) & mask
		s := sh.index[next]
		if s == 0 {
			break
		}
		if home := sh.home(sh.ring[s-1].lo); (next-home)&mask >= (next-at)&mask {
			sh.index[at], at = s, next
		}
	}
	sh.index[at] = 0
}
