package sim

import (
	"bytes"
	"fmt"
	"slices"

	"skylark/store"
)

// forEverFrom is behind every log.
const forEverFrom store.PhyOffset = 1 << 62

// message is one that a client has sent.
type message struct {
	id    uint64
	queue int
	// What the answer said, or the log that was looked at.
	at     store.PhyOffset
	end    store.PhyOffset
	offset store.QueueOffset
	acked  bool
	shown  bool // a consumer got it
	// excused: a machine that had it has lost its power before its disk had it; another one that fails as well may take it.
	excused bool
}

// place is where a message may be.
type place struct {
	queue  int
	offset store.QueueOffset
}

// Checker watches that what was promised is kept. Its rules, by the words of a failure:
//
//	lost           a message that was acknowledged is not in the log of a new master, or not there in the end
//	other message  what a consumer saw, or a client was told, at a queue offset or a place in the log is another one later
//	two masters    in one epoch; two leaders in one term of the controllers; two states after one entry of their log
//	differ         two logs that both call themselves confirmed up to some place are not equal there
//	linearizable   sends and reads of a queue are not those of one queue that only grows (porcupine)
//	available      when the faults are over, the group does not work again within a bound
type Checker struct {
	w *World
	c *Cluster

	messages map[uint64]*message
	places   map[place]*message // of what was acknowledged or shown
	masters  map[[2]int64]int64 // group (0: controllers' words, 1: brokers') and epoch: master
	leaders  map[uint64]string  // of terms
	states   map[uint64]string  // of indexes
	history  history
	// excusedFrom is the place of the first excused message: what is behind may differ, until all have the newest master's.
	excusedFrom store.PhyOffset
	// counts of what has happened, by name.
	Counts map[string]int
}

func newChecker(w *World) *Checker {
	return &Checker{w: w, messages: map[uint64]*message{}, places: map[place]*message{}, masters: map[[2]int64]int64{},
		excusedFrom: forEverFrom, leaders: map[uint64]string{}, states: map[uint64]string{}, Counts: map[string]int{}}
}

// sent is told of a message before it is sent.
func (k *Checker) sent(id uint64, queue int) {
	k.messages[id] = &message{id: id, queue: queue}
}

// acked is told of an answer that promises something.
func (k *Checker) acked(id uint64, offset store.QueueOffset, at, end store.PhyOffset) {
	m := k.messages[id]
	k.Counts["acked"]++
	k.claim(m, offset, at, end)
	m.acked = true
}

// shown is told of what a consumer got.
func (k *Checker) shown(broker string, id uint64, queue int, offset store.QueueOffset, e entry) {
	m := k.messages[id]
	if m == nil || m.queue != queue {
		k.w.Fail("%s shows message %d in queue %d: nobody has sent it there", broker, id, queue)
		return
	}
	k.Counts["shown"]++
	k.claim(m, offset, e.at, e.End())
	m.shown = true
}

// claim gives a place to a message.
func (k *Checker) claim(m *message, offset store.QueueOffset, at, end store.PhyOffset) {
	p := place{m.queue, offset}
	if !k.c.Config.Ack.durable() { // the next master may give it to another one
		m.offset, m.at, m.end = offset, at, end
		return
	}
	if other := k.places[p]; other != nil && other != m && !other.excused {
		k.w.Fail("other message: queue %d offset %d holds %d, it was %d", m.queue, offset, m.id, other.id)
		return
	}
	if (m.acked || m.shown) && !m.excused && (m.offset != offset || m.at != at) {
		k.w.Fail("other message: %d is at queue %d offset %d place %d, it was at offset %d place %d", m.id, m.queue, offset, at,
			m.offset, m.at)
		return
	}
	m.offset, m.at, m.end = offset, at, end
	k.places[p] = m
}

// promised tells whether a message must not be lost.
func (k *Checker) promised(m *message) bool {
	return k.c.Config.Ack.durable() && (m.acked || m.shown) && !m.excused
}

// powerLost excuses what a disk did not have yet: promises are for one machine at a time.
func (k *Checker) powerLost(was Process) {
	b, ok := was.(*brokerProc)
	if !ok || b.log == nil || k.c.Config.NoExcuse {
		return
	}
	k.Counts["power lost"]++
	for _, q := range b.log.queues { // also what is not acknowledged: the answer may be on its way
		for _, e := range q {
			if m := k.messages[e.id]; m != nil && e.End() > b.log.synced && !m.excused {
				m.excused = true
				k.excusedFrom = min(k.excusedFrom, e.at)
				k.Counts["excused"]++
			}
		}
	}
}

// becameMaster looks at the log of a new master.
func (k *Checker) becameMaster(b *brokerProc, epoch int32) {
	k.Counts["masters"]++
	k.master(1, epoch, b.id())
	k.complete(b, "is master now")
}

// complete looks whether everything that was promised is in a log.
func (k *Checker) complete(b *brokerProc, what string) {
	for _, id := range k.sorted() {
		if m := k.messages[id]; k.promised(m) && !b.log.has(m) {
			k.w.Fail("lost: %s %s, and message %d of queue %d offset %d place %d is not in its log [%d,%d)", b.h.Name, what, m.id,
				m.queue, m.offset, m.at, b.log.min, b.log.MaxPhyOffset())
			return
		}
	}
}

func (k *Checker) sorted() []uint64 {
	ids := make([]uint64, 0, len(k.messages))
	for id := uint64(1); id <= k.c.lastMessage; id++ {
		if k.messages[id] != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// cut is told before a log is cut at p.
func (k *Checker) cut(l *CommitLog, p store.PhyOffset) {
	k.Counts["cuts"]++
}

// master notes who is master in an epoch.
func (k *Checker) master(source int64, epoch int32, id int64) {
	key := [2]int64{source, int64(epoch)}
	if other, ok := k.masters[key]; ok && other != id && id != 0 && other != 0 {
		k.w.Fail("two masters in epoch %d: %d and %d", epoch, other, id)
	}
	if id != 0 {
		k.masters[key] = id
	}
}

// controller looks at a controller that has done something.
func (k *Checker) controller(p *controllerProc) {
	n := p.s.Node()
	if role := n.Role(); role.Ready {
		if other, ok := k.leaders[role.Term]; ok && other != p.h.Name {
			k.w.Fail("two leaders of the controllers in term %d: %s and %s", role.Term, other, p.h.Name)
		} else if !ok {
			k.w.Tracef("%s leads in term %d", p.h.Name, role.Term)
			k.Counts["leaders"]++
		}
		k.leaders[role.Term] = p.h.Name
	}
	if p.applied == n.Applied() {
		return
	}
	p.applied = n.Applied()
	state := string(n.State().Snapshot())
	if other, ok := k.states[n.Applied()]; ok && other != state {
		k.w.Fail("two states of the controllers after entry %d", n.Applied())
	} else if !ok {
		k.w.Tracef("%s entry %d %s", p.h.Name, n.Applied(), state)
	}
	k.states[n.Applied()] = state
	if g := n.State().Group(groupName); g != nil && g.Master != 0 {
		k.master(0, g.MasterEpoch, g.Master)
		if id, ok := k.masters[[2]int64{1, int64(g.MasterEpoch)}]; ok && id != g.Master {
			k.w.Fail("two masters in epoch %d: the controllers say %d, %d is", g.MasterEpoch, g.Master, id)
		}
	}
}

// logs compares all logs up to where both are confirmed.
func (k *Checker) logs() {
	if !k.c.Config.Ack.durable() {
		return // a master confirms what it has alone
	}
	var all []*brokerProc
	for _, h := range k.c.Brokers {
		if b, ok := h.proc.(*brokerProc); ok && b.confirmedKnown() {
			all = append(all, b)
		}
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			k.equal(a, b, min(a.confirmedRecords(), b.confirmedRecords()))
		}
	}
}

func (k *Checker) equal(a, b *brokerProc, to store.PhyOffset) {
	from := max(a.log.min, b.log.min)
	to = min(to, a.log.MaxPhyOffset(), b.log.MaxPhyOffset(), k.excusedFrom)
	if from >= to {
		return
	}
	x, y := a.log.bytes[from-a.log.min:to-a.log.min], b.log.bytes[from-b.log.min:to-b.log.min]
	if !bytes.Equal(x, y) {
		at := from
		for i := range x {
			if x[i] != y[i] {
				at += store.PhyOffset(i)
				break
			}
		}
		k.w.Fail("the logs of %s and %s differ at %d, both are confirmed up to %d", a.h.Name, b.h.Name, at, to)
	}
}

// finish looks at everything when the group is at rest: all logs are equal.
func (k *Checker) finish() {
	var all []*brokerProc
	for _, h := range k.c.Brokers {
		all = append(all, h.proc.(*brokerProc))
	}
	for _, b := range all {
		k.complete(b, "is at rest")
		k.excusedFrom = forEverFrom
		k.equal(all[0], b, forEverFrom)
	}
	for _, b := range all {
		k.shownAgain(b)
	}
	if err := k.history.check(k, all[0].log); err != nil && !k.w.Failed() {
		k.w.Fail("%w", err)
	}
}

// shownAgain reads all queues once more.
func (k *Checker) shownAgain(b *brokerProc) {
	for q := range b.log.queues {
		for i, e := range b.log.queues[q] {
			if m := k.places[place{q, store.QueueOffset(i)}]; m != nil && m.id != e.id && !m.excused {
				k.w.Fail("other message: %s has %d in queue %d offset %d, it was %d", b.h.Name, e.id, q, i, m.id)
			}
		}
	}
}

// Summary is one line of what has happened.
func (k *Checker) Summary() string {
	var names []string
	for n := range k.Counts {
		names = append(names, n)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&b, "%s %d, ", n, k.Counts[n])
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte(", ")))
}
