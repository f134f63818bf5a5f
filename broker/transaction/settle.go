package transaction

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"skylark/codec"
	"skylark/store"
)

// Errors of End; nothing has changed then. The texts of the first ones are Java's.
var (
	ErrNotFound = errors.New("Find prepared transaction message failed") // Java's text
	ErrGroup    = errors.New("The producer group wrong")
	ErrTable    = errors.New("The transaction state table offset wrong")
	ErrPhy      = errors.New("The commit log offset wrong")
	// ErrTooLate: the immunity time is over, the producer will be asked.
	ErrTooLate = errors.New("the transaction is older than its CHECK_IMMUNITY_TIME_IN_SECONDS, the producer will be asked")
	// ErrSettled: there is nothing to end.
	ErrSettled = errors.New("the transaction is not open: it was ended otherwise, or given up")
	// ErrLoading: the tables are not ready.
	ErrLoading = errors.New("the transactions are still being read")
)

// End is an END_TRANSACTION that commits or rolls back.
type End struct {
	Group       []byte // producer group
	QueueOffset codec.QueueOffset
	PhyOffset   codec.PhyOffset
	Commit      bool
	FromCheck   bool // answers a question of this broker
	OnLoop      bool // nothing may wait
}

// scratch are the buffers of one End.
type scratch struct {
	rec, props []byte
	msg        codec.Message
	put        store.PutResult
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

func (b *scratch) release() {
	b.msg, b.put = codec.Message{}, store.PutResult{}
	if cap(b.rec)+cap(b.props) <= maxKeptBuffer {
		scratches.Put(b)
	}
}

// End settles a transaction. put is what was written: a commit's message, a rollback's op message; the zero put (and no
// error) means that it was settled the same way before. served is false only with OnLoop: it could not be done without
// waiting, and nothing has been done. The error is one of the above; a put that was refused is no error.
func (s *TransactionalMessageService) End(e *End) (put store.PutResult, served bool, err error) {
	if !s.ready(e.OnLoop) {
		return put, !e.OnLoop, ErrLoading
	}
	b := scratches.Get().(*scratch)
	defer b.release()
	if e.OnLoop {
		var ok bool
		if b.rec, ok = s.o.Store.PeekRecord(e.PhyOffset, b.rec); !ok {
			return put, false, nil
		}
	} else if b.rec, err = s.o.Store.ReadRecord(e.PhyOffset, b.rec); err != nil {
		return put, true, fmt.Errorf("%w (%v)", ErrNotFound, err)
	}
	rec, err := codec.ParseRecord(b.rec, false)
	if err != nil || string(rec.Topic) != codec.HalfTopic {
		return put, true, ErrNotFound
	}
	h := parseHalf(rec.Properties)
	if err := s.judge(e, &rec, &h); err != nil {
		return put, true, err
	}
	if e.OnLoop && !s.o.Store.CanAppend(len(b.rec)+512) {
		return put, false, nil
	}
	tx, settled, ok := s.take(e, &rec, &h)
	switch {
	case !ok:
		return put, false, nil
	case tx == nil && settled != nil && settled == outcome(e.Commit):
		return put, true, nil
	case tx == nil:
		return put, true, ErrSettled
	}
	if e.Commit {
		put = s.commit(tx, &rec, &h, b)
	} else {
		put = s.rollBack(tx, b)
	}
	return put, true, nil
}

func outcome(commit bool) *transaction {
	if commit {
		return committed
	}
	return rolledBack
}

// Stands tells whether the half message that was put with a queue offset is open or was committed. false: it was rolled
// back, given up, or is so long ago that nobody knows. served is false only on a loop, before the table is complete.
func (s *TransactionalMessageService) Stands(queueOffset codec.QueueOffset, onLoop bool) (stands, served bool) {
	if !s.ready(onLoop) {
		return false, !onLoop
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	tx, settled := s.t.find(int64(queueOffset), int64(queueOffset))
	return tx != nil || settled == committed, true
}

// ready waits for the table, not on a loop.
func (s *TransactionalMessageService) ready(onLoop bool) bool {
	if onLoop || s.isLoaded() {
		return s.isLoaded()
	}
	timer := time.NewTimer(loadTimeout)
	defer timer.Stop()
	select {
	case <-s.loaded:
		return true
	case <-s.stop:
	case <-timer.C:
	}
	return false
}

// judge are the checks of Java's EndTransactionProcessor, in its order.
func (s *TransactionalMessageService) judge(e *End, rec *codec.Record, h *half) error {
	if !e.FromCheck && len(h.immunity) > 0 {
		limit := s.o.Settings().Timeout.Milliseconds()
		limit = max(h.immunityMillis(limit), limit)
		if s.o.Clock.Millis()-rec.BornTimestamp > limit {
			return ErrTooLate
		}
	}
	switch {
	case len(h.group) == 0:
		return fmt.Errorf("%w: the half message names none", ErrGroup)
	case string(h.group) != string(e.Group):
		return ErrGroup
	case rec.QueueOffset != e.QueueOffset:
		return ErrTable
	case rec.PhyOffset != e.PhyOffset:
		return ErrPhy
	}
	return nil
}

// take marks the transaction of a half message busy. ok is false on a loop when it is busy otherwise.
func (s *TransactionalMessageService) take(e *End, rec *codec.Record, h *half) (tx, settled *transaction, ok bool) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for {
		tx, settled = s.t.find(int64(rec.QueueOffset), h.origin(rec.QueueOffset))
		if tx == nil || !tx.busy {
			break
		}
		if e.OnLoop {
			return nil, nil, false
		}
		s.t.idle.Wait()
	}
	if tx == nil {
		return nil, settled, true
	}
	tx.busy = true
	if e.Commit {
		s.t.begin(tx, s.o.Store.MaxPhyOffset())
	}
	return tx, nil, true
}

// release makes a transaction available again. mu is held.
func (s *TransactionalMessageService) release(tx *transaction) {
	tx.busy = false
	s.t.idle.Broadcast()
}

// commit puts the message that consumers see. The op message follows in a batch.
func (s *TransactionalMessageService) commit(tx *transaction, rec *codec.Record, h *half, b *scratch) store.PutResult {
	put := &b.put
	put.Status, put.Err = final(&b.msg, tx.topic, rec, h, b, &s.o)
	if put.Status == store.PutOK {
		*put = s.o.Store.Append(&b.msg)
	}
	ok := put.Status == store.PutOK
	s.t.mu.Lock()
	if ok {
		s.t.leave(tx, committed)
		s.queueOp(tx.queueOffset, tx)
	} else {
		s.t.end(tx)
	}
	s.release(tx)
	s.t.mu.Unlock()
	if ok {
		s.stats.committed.Add(1)
		s.counts.add(tx.topic, -1)
		s.o.Stored(&b.msg, put)
	}
	return *put
}

// rollBack writes the op message at once: it is all that tells of a rollback.
func (s *TransactionalMessageService) rollBack(tx *transaction, b *scratch) store.PutResult {
	b.props = strconv.AppendInt(b.props[:0], tx.queueOffset, 10)
	put := s.putOp(b.props, tx.queueOffset+1, s.currentFloor())
	s.t.mu.Lock()
	if put.Status == store.PutOK {
		s.t.leave(tx, rolledBack)
	}
	s.release(tx)
	s.t.mu.Unlock()
	if put.Status == store.PutOK {
		s.stats.rolledBack.Add(1)
		s.counts.add(tx.topic, -1)
	}
	return put
}

// Unknown notes that a producer does not know yet how a transaction ends.
func (s *TransactionalMessageService) Unknown(queueOffset codec.QueueOffset) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if at := s.t.halves.at(int64(queueOffset)); at != nil && *at != nil && !done(*at) {
		(*at).unknown = true
	}
}
