package transaction

import (
	"errors"
	"fmt"
	"math"
	"time"

	"skylark/codec"
	"skylark/store"
)

// entriesPerRead is how many queue entries are read at once.
const entriesPerRead = 64

// loadPoll is how often a start looks whether the queues have caught up with the log.
const loadPoll = time.Millisecond

// maxJavaSearch bounds how much of a Java broker's log is searched for commits without an op message, in bytes.
const maxJavaSearch = 4 << 30

// loading is what a start knows for its own time.
type loading struct {
	s       *TransactionalMessageService
	removed map[int64]struct{} // half offsets with an op message
	floor   codec.PhyOffset    // every commit before it has its op message
	// java tells that a Java broker wrote the last op message. It puts back, and asks about, what it has committed as long
	// as the op message waits for its batch.
	java bool
	// copies finds the copies that Java made of a half message, and the commits that came before them.
	copies map[copyKey]*transaction
}

// copyKey is what all copies of a half message have in common, and other half messages have not.
type copyKey struct {
	uniqKey string
	born    int64
}

// load builds the table from the half and op queues. It returns false when the service stops first.
func (s *TransactionalMessageService) load() bool {
	start := s.o.Clock.Millis()
	for s.o.Store.DispatchBehindBytes() > 0 {
		if !s.sleep(loadPoll) {
			return false
		}
	}
	halfAt, opAt := s.start(codec.HalfTopic), s.start(codec.OpHalfTopic)
	s.t.mu.Lock()
	s.t.halves.reset(halfAt)
	s.t.ops.reset(opAt)
	s.saved = progress{half: halfAt, op: opAt}
	s.t.mu.Unlock()
	l := loading{s: s, removed: map[int64]struct{}{}, copies: map[copyKey]*transaction{}}
	l.loadOps(opAt)
	l.lastFloor()
	l.loadHalves(halfAt)
	s.merge()
	found := l.recoverSettled()
	s.loadGivenUp()

	counts := map[string]int64{}
	s.t.mu.Lock()
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if tx != nil && !done(tx) {
			counts[tx.topic]++
		}
	}
	s.counts.correct(counts)
	open, window, ops := s.t.open, len(s.t.halves.items), len(s.t.ops.items)
	for _, tx := range s.early { // what came during the rest
		s.t.enter(tx)
	}
	s.early = nil
	close(s.loaded)
	s.t.mu.Unlock()
	if window > 0 || open > 0 {
		s.o.Log.Info("open transactions read", "open", open, "halfMessages", window, "opMessages", ops,
			"settledWithoutOpMessage", found, "millis", s.o.Clock.Millis()-start)
	}
	return true
}

// start is where CID_RMQ_SYS_TRANS is in a queue, corrected to its ends.
func (s *TransactionalMessageService) start(topic string) int64 {
	lo, hi := s.o.Store.MinOffset(topic, queue), s.o.Store.MaxOffset(topic, queue)
	at, ok := s.o.Offsets.Query(Group, topic, queue)
	switch {
	case !ok:
		return int64(lo)
	case at < lo || at > hi:
		s.o.Log.Warn("progress of the transactions is outside its queue", "topic", topic, "queueOffset", int64(at), "min",
			int64(lo), "max", int64(hi))
	}
	return int64(min(max(at, lo), hi))
}

// eachRecord reads a queue from an offset to its end. f gets nil for a record that is gone.
func (s *TransactionalMessageService) eachRecord(topic string, from int64, f func(at int64, rec *codec.Record)) {
	end := int64(s.o.Store.MaxOffset(topic, queue))
	for at := from; at < end; {
		entries := s.o.Store.QueueEntries(topic, queue, codec.QueueOffset(at), entriesPerRead)
		if len(entries) == 0 {
			f(at, nil)
			at++
			continue
		}
		for _, e := range entries {
			rec, err := s.read(e.PhyOffset)
			if err != nil {
				s.o.Log.Warn("record of a transaction is gone", "topic", topic, "queueOffset", at, "phyOffset",
					int64(e.PhyOffset), "error", err)
			}
			f(at, rec)
			at++
		}
	}
}

// read reads a record; it is valid until the next read of the same goroutine.
func (s *TransactionalMessageService) read(p codec.PhyOffset) (*codec.Record, error) {
	raw, err := s.o.Store.ReadRecord(p, s.buf)
	if err != nil {
		return nil, err
	}
	if s.buf = raw; cap(raw) > maxKeptBuffer {
		s.buf = nil
	}
	rec, err := codec.ParseRecord(raw, false)
	if err != nil {
		return nil, err
	}
	return &rec, nil
}

// loadOps reads the op messages: which half messages are done.
func (l *loading) loadOps(from int64) {
	s := l.s
	s.eachRecord(codec.OpHalfTopic, from, func(at int64, rec *codec.Record) {
		end := int64(0)
		if rec != nil {
			if tag, _ := rec.Property(codec.PropTags); string(tag) != opTag {
				s.o.Log.Warn("op message with another tag", "queueOffset", at, "tag", string(tag))
			} else if bad := parseOp(rec.Body, func(half int64) {
				l.removed[half] = struct{}{}
				end = max(end, half+1)
			}); bad > 0 {
				s.o.Log.Warn("op message with parts that are no offsets", "queueOffset", at, "parts", bad)
			}
		}
		s.t.mu.Lock()
		s.t.opWritten(codec.QueueOffset(at), end)
		s.t.mu.Unlock()
	})
}

// lastFloor finds the floor that the last op message tells. Java's tell none.
func (l *loading) lastFloor() {
	at := l.s.o.Store.MaxOffset(codec.OpHalfTopic, queue) - 1
	if at < l.s.o.Store.MinOffset(codec.OpHalfTopic, queue) {
		return
	}
	entries := l.s.o.Store.QueueEntries(codec.OpHalfTopic, queue, at, 1)
	if len(entries) == 0 {
		return
	}
	rec, err := l.s.read(entries[0].PhyOffset)
	if err != nil {
		return
	}
	if floor := rec.PreparedTransactionOffset; floor > 0 && floor <= rec.PhyOffset {
		l.floor = floor
	} else {
		l.java = true
	}
}

// searchFrom is where the search for commits without an op message begins: not before the floor, and not before the
// first open half message. Java's copies may come behind the commit, so there it is the birth of the oldest one.
func (l *loading) searchFrom(end codec.PhyOffset) codec.PhyOffset {
	s := l.s
	if saved := s.counts.floor(); saved <= end { // else a power cut took what it was about
		l.floor = max(l.floor, saved)
	}
	first, born, open := end, int64(math.MaxInt64), false
	s.t.mu.Lock()
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if tx != nil && !done(tx) {
			first, born, open = min(first, tx.phyOffset), min(born, tx.since), true
		}
	}
	s.t.mu.Unlock()
	switch {
	case !open:
		return end
	case !l.java:
		return max(first, l.floor, s.o.Store.MinPhyOffset())
	}
	at := s.o.Store.OffsetByTime(codec.HalfTopic, queue, born, store.BoundaryLower)
	if entries := s.o.Store.QueueEntries(codec.HalfTopic, queue, at, 1); len(entries) > 0 {
		first = min(first, entries[0].PhyOffset)
	}
	return max(first, end-maxJavaSearch, s.o.Store.MinPhyOffset())
}

// loadHalves enters the half messages that no op message names. Of several copies of one the last counts, also when an
// op message names the last alone: that of the others may have been lost.
func (l *loading) loadHalves(from int64) {
	s := l.s
	s.eachRecord(codec.HalfTopic, from, func(at int64, rec *codec.Record) {
		s.t.mu.Lock()
		defer s.t.mu.Unlock()
		_, isDone := l.removed[at]
		var tx *transaction
		if rec != nil {
			h := parseHalf(rec.Properties)
			if was := l.former(rec, &h); was != nil {
				s.t.leave(was, over)
				s.queueOp(was.queueOffset, nil)
			}
			if !isDone {
				tx = l.loadHalf(rec, &h)
			}
		}
		if tx == nil {
			*s.t.halves.grow(at) = over
		} else {
			s.t.enter(tx)
		}
	})
}

// former is the copy that rec has replaced, if it is still open: the put back was not completed. mu is held.
func (l *loading) former(rec *codec.Record, h *half) *transaction {
	if h.copied {
		if was, _ := l.s.t.find(-1, h.origin(-1)); was != nil {
			return was
		}
	} else if h.checks == nil {
		return nil // a first one
	}
	was := l.copies[copyKey{string(h.uniqKey), rec.BornTimestamp}] // Java's copies may name no first one
	if was == nil {
		return nil
	}
	if at := l.s.t.halves.at(was.queueOffset); at == nil || *at != was {
		return nil
	}
	return was
}

// loadHalf makes the entry of a half message, nil when there is nothing to end. mu is held.
func (l *loading) loadHalf(rec *codec.Record, h *half) *transaction {
	s := l.s
	topic, _, err := h.target()
	if err != nil {
		s.o.Log.Error("half message without a target", "queueOffset", rec.QueueOffset, "phyOffset", int64(rec.PhyOffset),
			"error", err)
		return nil
	}
	tx := s.t.newTransaction(h, topic, rec.QueueOffset, rec.PhyOffset, rec.BornTimestamp, rec.StoreTimestamp)
	if _, ok := l.removed[tx.origin]; ok && tx.origin != tx.queueOffset && tx.immunity >= 0 &&
		rec.PreparedTransactionOffset == 0 {
		return nil // Java ended the copy that was put back for its immunity time
	}
	if len(h.uniqKey) > 0 {
		l.copies[copyKey{string(h.uniqKey), rec.BornTimestamp}] = tx
	}
	return tx
}

// merge enters the half messages that were put while the queue was read.
func (s *TransactionalMessageService) merge() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, tx := range s.early {
		s.t.enter(tx)
	}
	s.early = nil
}

// recoverSettled searches the end of the log for commits and given-up messages whose op message was lost in a crash, and
// returns how many there were. Without open transactions there is nothing to search for.
func (l *loading) recoverSettled() (found int) {
	s := l.s
	end := s.o.Store.MaxPhyOffset()
	at := l.searchFrom(end)
	for at < end {
		rec, err := s.read(at)
		if err != nil {
			if !errors.Is(err, store.ErrNotFound) {
				s.o.Log.Error("search for settled transactions stopped", "phyOffset", int64(at), "error", err)
				break
			}
			size := codec.PhyOffset(s.o.LogFileSize)
			at = (at/size + 1) * size // a blank ends the file
			continue
		}
		at += codec.PhyOffset(rec.TotalSize)
		givenUp := string(rec.Topic) == codec.TransCheckMaxTimeTopic && ours(rec) &&
			!s.counts.isResumed(rec.PhyOffset)
		if givenUp || rec.TransactionState() == codec.SysFlagTransactionCommit {
			if l.settledBy(rec.PhyOffset, rec.PreparedTransactionOffset) {
				found++
			}
		}
		select {
		case <-s.stop:
			return found
		default:
		}
	}
	return found
}

// ours tells that a given-up message says which half message it was; Java's do not.
func ours(rec *codec.Record) bool {
	_, copied := rec.Property(codec.PropTransPreparedQueueOffset)
	return copied || rec.PreparedTransactionOffset > 0
}

// settledBy takes the transaction whose half message is at from out of the table: the record at by ended it.
func (l *loading) settledBy(by, from codec.PhyOffset) bool {
	s := l.s
	rec, err := s.read(from)
	if err != nil || string(rec.Topic) != codec.HalfTopic {
		return false
	}
	h := parseHalf(rec.Properties)
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	tx, _ := s.t.find(int64(rec.QueueOffset), h.origin(rec.QueueOffset))
	if tx == nil {
		tx = l.copies[copyKey{string(h.uniqKey), rec.BornTimestamp}]
	}
	if tx == nil || tx.resumed && tx.phyOffset > by || tx.next != nil {
		return false
	}
	if at := s.t.halves.at(tx.queueOffset); at == nil || *at != tx {
		return false // found before
	}
	s.t.begin(tx, by)
	s.t.leave(tx, over)
	s.queueOp(tx.queueOffset, tx)
	return true
}

// String is for log lines.
func (p progress) String() string { return fmt.Sprintf("%d,%d up to %d", p.half, p.op, p.end) }
