package transaction

import (
	"errors"
	"fmt"
	"time"

	"skylark/codec"
	"skylark/store"
)

// entriesPerRead is how many queue entries are read at once.
const entriesPerRead = 64

// loadPoll is how often a start looks whether the queues have caught up with the log.
const loadPoll = time.Millisecond

// opBackSteps is how many op messages a start looks back for a floor that Java did not write.
const opBackSteps = 1000

// opBackMillis is how much older than the last op message of a Java broker the commits without one can be: its batch
// interval, several times.
const opBackMillis = 15000

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
	removed, floor := s.loadOps(opAt)
	s.loadHalves(halfAt, removed)
	s.merge()
	found := s.recoverSettled(floor)
	s.loadGivenUp()

	counts := map[string]int64{}
	s.t.mu.Lock()
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if tx != nil && !done(tx) {
			counts[tx.topic]++
		}
	}
	s.counts.correct(counts)
	open, window := s.t.open, len(s.t.halves.items)
	for _, tx := range s.early { // what came during the rest
		s.t.enter(tx)
	}
	s.early = nil
	close(s.loaded)
	s.t.mu.Unlock()
	if window > 0 || open > 0 {
		s.o.Log.Info("open transactions read", "open", open, "halfMessages", window, "opMessages", len(s.t.ops.items),
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

// loadOps reads the op messages: which half messages are done, and from where on the log has to be searched for
// commits that have none.
func (s *TransactionalMessageService) loadOps(from int64) (removed map[int64]struct{}, floor codec.PhyOffset) {
	removed = map[int64]struct{}{}
	s.eachRecord(codec.OpHalfTopic, from, func(at int64, rec *codec.Record) {
		end := int64(0)
		if rec != nil {
			if tag, _ := rec.Property(codec.PropTags); string(tag) != opTag {
				s.o.Log.Warn("op message with another tag", "queueOffset", at, "tag", string(tag))
			} else if bad := parseOp(rec.Body, func(half int64) {
				removed[half] = struct{}{}
				end = max(end, half+1)
			}); bad > 0 {
				s.o.Log.Warn("op message with parts that are no offsets", "queueOffset", at, "parts", bad)
			}
		}
		s.t.mu.Lock()
		s.t.opWritten(codec.QueueOffset(at), end)
		s.t.mu.Unlock()
	})
	return removed, s.lastFloor()
}

// lastFloor is the floor that the last op message tells. Java's tell none: there it is that of an op message so much
// older that all before it must have been written.
func (s *TransactionalMessageService) lastFloor() codec.PhyOffset {
	at := int64(s.o.Store.MaxOffset(codec.OpHalfTopic, queue)) - 1
	last := int64(0)
	for n := 0; at >= int64(s.o.Store.MinOffset(codec.OpHalfTopic, queue)) && n < opBackSteps; n++ {
		entries := s.o.Store.QueueEntries(codec.OpHalfTopic, queue, codec.QueueOffset(at), 1)
		if len(entries) == 0 {
			return 0
		}
		rec, err := s.read(entries[0].PhyOffset)
		switch {
		case err != nil:
			return 0
		case rec.PreparedTransactionOffset > 0 && rec.PreparedTransactionOffset <= rec.PhyOffset:
			return rec.PreparedTransactionOffset
		case last == 0:
			last = rec.StoreTimestamp
		case rec.StoreTimestamp < last-opBackMillis:
			return rec.PhyOffset
		}
		at--
	}
	return 0
}

// loadHalves enters the half messages that no op message names. Of several copies of one the last counts, also when an
// op message names the last alone: that of the others may have been lost.
func (s *TransactionalMessageService) loadHalves(from int64, removed map[int64]struct{}) {
	s.eachRecord(codec.HalfTopic, from, func(at int64, rec *codec.Record) {
		s.t.mu.Lock()
		defer s.t.mu.Unlock()
		_, isDone := removed[at]
		var tx *transaction
		if rec != nil {
			h := parseHalf(rec.Properties)
			if was, _ := s.t.find(-1, h.origin(-1)); was != nil && h.copied { // the put back was not completed
				s.t.leave(was, over)
				s.queueOp(was.queueOffset, nil)
			}
			if !isDone {
				tx = s.loadHalf(rec, &h, removed)
			}
		}
		if tx == nil {
			*s.t.halves.grow(at) = over
		} else {
			s.t.enter(tx)
		}
	})
}

// loadHalf makes the entry of a half message, nil when there is nothing to end. mu is held.
func (s *TransactionalMessageService) loadHalf(rec *codec.Record, h *half, removed map[int64]struct{}) *transaction {
	topic, _, err := h.target()
	if err != nil {
		s.o.Log.Error("half message without a target", "queueOffset", rec.QueueOffset, "phyOffset", int64(rec.PhyOffset),
			"error", err)
		return nil
	}
	tx := s.t.newTransaction(h, topic, rec.QueueOffset, rec.PhyOffset, rec.BornTimestamp, rec.StoreTimestamp)
	if _, ok := removed[tx.origin]; ok && tx.origin != tx.queueOffset && rec.PreparedTransactionOffset == 0 {
		return nil // Java ended the copy that was put back for its immunity time
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
func (s *TransactionalMessageService) recoverSettled(floor codec.PhyOffset) (found int) {
	end := s.o.Store.MaxPhyOffset()
	if saved := s.counts.floor(); saved <= end { // else a power cut took what it was about
		floor = max(floor, saved)
	}
	s.t.mu.Lock()
	first, open := end, s.t.open
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if tx != nil && !done(tx) {
			first = min(first, tx.phyOffset)
		}
	}
	s.t.mu.Unlock()
	if open == 0 {
		return 0
	}
	at := max(first, floor, s.o.Store.MinPhyOffset())
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
		givenUp := string(rec.Topic) == codec.TransCheckMaxTimeTopic && ours(rec)
		if givenUp || rec.TransactionState() == codec.SysFlagTransactionCommit {
			if s.settledBy(rec.PhyOffset, rec.PreparedTransactionOffset) {
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

// settledBy takes the transaction whose half message is at from out of the table: the record at by ended it. A copy
// behind that record is one that was brought back later.
func (s *TransactionalMessageService) settledBy(by, from codec.PhyOffset) bool {
	rec, err := s.read(from)
	if err != nil || string(rec.Topic) != codec.HalfTopic {
		return false
	}
	h := parseHalf(rec.Properties)
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	tx, _ := s.t.find(int64(rec.QueueOffset), h.origin(rec.QueueOffset))
	if tx == nil || tx.phyOffset > by {
		return false
	}
	s.t.begin(tx, by)
	s.t.leave(tx, over)
	s.queueOp(tx.queueOffset, tx)
	return true
}

// String is for log lines.
func (p progress) String() string { return fmt.Sprintf("%d,%d up to %d", p.half, p.op, p.end) }
