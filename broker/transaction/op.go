package transaction

import (
	"time"

	"skylark/codec"
	"skylark/store"
)

// idleSleep is how long a goroutine sleeps when there is nothing to do; a wake ends it.
const idleSleep = time.Hour

// queueOp has the op message of a half offset written with the next batch; tx is set for a commit. mu is held.
func (s *TransactionalMessageService) queueOp(halfOffset int64, tx *transaction) {
	if len(s.t.queued) == 0 {
		s.t.queuedSince = s.o.Clock.Millis()
	}
	before := s.t.queuedBytes
	s.t.queued = append(s.t.queued, queuedOp{halfOffset, tx})
	s.t.queuedBytes += opBytes(halfOffset)
	if limit := s.o.Settings().OpMaxBytes; before == 0 || before < limit && s.t.queuedBytes >= limit {
		s.wakeOps()
	}
}

// opBytes is the room an offset takes in a body.
func opBytes(halfOffset int64) int {
	n := 2
	for ; halfOffset >= 10; halfOffset /= 10 {
		n++
	}
	return n
}

func (s *TransactionalMessageService) wakeOps() {
	select {
	case s.opWake <- struct{}{}:
	default:
	}
}

// runOps writes op messages, counts and progress (Java TransactionalOpBatchService, TransactionMetricsFlushService).
func (s *TransactionalMessageService) runOps() {
	defer s.tasks.Done()
	select {
	case <-s.loaded:
	case <-s.stop:
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for s.writeBatch(false) {
			continue
		}
		timer.Reset(min(s.nextBatch(), s.saveProgress(), s.saveCounts()))
		select {
		case <-s.stop:
			return
		case <-s.opWake:
		case <-timer.C:
		}
	}
}

// nextBatch is the time to the next batch that is due.
func (s *TransactionalMessageService) nextBatch() time.Duration {
	set := s.o.Settings()
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if len(s.t.queued) == 0 {
		return idleSleep
	}
	if s.t.queuedBytes >= set.OpMaxBytes { // the last one could not be written
		return time.Second
	}
	waited := time.Duration(s.o.Clock.Millis()-s.t.queuedSince) * time.Millisecond
	return max(set.OpInterval-waited, time.Millisecond)
}

// writeBatch writes one op message if it is due, or if all shall be written, and tells whether another may be.
func (s *TransactionalMessageService) writeBatch(all bool) bool {
	set := s.o.Settings()
	s.t.mu.Lock()
	waited := time.Duration(s.o.Clock.Millis()-s.t.queuedSince) * time.Millisecond
	if len(s.t.queued) == 0 || !all && s.t.queuedBytes < set.OpMaxBytes && waited < set.OpInterval {
		s.t.mu.Unlock()
		return false
	}
	n, size := 0, 0
	for n < len(s.t.queued) && (n == 0 || size < set.OpMaxBytes) {
		size += opBytes(s.t.queued[n].half)
		n++
	}
	batch := append([]queuedOp(nil), s.t.queued[:n]...)
	floor := s.floorWithout(batch)
	s.t.mu.Unlock()

	offsets, end := make([]int64, n), int64(0)
	for i, op := range batch {
		offsets[i], end = op.half, max(end, op.half+1)
	}
	put := s.putOp(appendOp(make([]byte, 0, size), offsets), end, floor)
	if put.Status != store.PutOK {
		s.complain(&put)
		return false
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	rest := copy(s.t.queued, s.t.queued[n:])
	clear(s.t.queued[rest:])
	s.t.queued = s.t.queued[:rest]
	s.t.queuedBytes -= size
	for _, op := range batch {
		if op.tx != nil {
			s.t.end(op.tx)
		}
	}
	s.t.progress()
	s.dirty.Store(true)
	return rest > 0
}

// floorWithout is the floor once a batch is written. mu is held.
func (s *TransactionalMessageService) floorWithout(batch []queuedOp) codec.PhyOffset {
	floor := s.o.Store.MaxPhyOffset()
	for _, op := range batch {
		if op.tx != nil {
			op.tx.inBatch = true // for good: should the put fail, the same ones come again
		}
	}
	for tx := s.t.openCommits.next; tx != &s.t.openCommits; tx = tx.next {
		if !tx.inBatch {
			return tx.floor
		}
	}
	return floor
}

// putOp appends one op message and enters it. end is one more than its highest half offset.
func (s *TransactionalMessageService) putOp(body []byte, end int64, floor codec.PhyOffset) store.PutResult {
	m := opMessage(body, floor, s.o.StoreHost(), s.o.Clock.Millis())
	put := s.o.Store.Append(&m)
	if put.Status == store.PutOK {
		s.t.mu.Lock()
		s.t.opWritten(put.QueueOffset, end)
		s.t.mu.Unlock()
		s.touch()
		s.o.Stored(&m, &put)
	}
	return put
}

// touch has the progress looked at.
func (s *TransactionalMessageService) touch() {
	if !s.dirty.Swap(true) {
		s.wakeOps()
	}
}

func (s *TransactionalMessageService) complain(put *store.PutResult) {
	s.o.Log.Error("op message not written, will be tried again", "status", put.Status.String(), "error", put.Err)
}

// progress is a state of the offsets on its way to consumerOffset.json.
type progress struct {
	half, op int64
	end      codec.PhyOffset // what has to be flushed before they may be written
}

// takeSnapshot reads the offsets. What they skip is before the end of the log.
func (s *TransactionalMessageService) takeSnapshot() bool {
	s.dirty.Store(false)
	s.t.mu.Lock()
	half, op := s.t.progress()
	s.t.mu.Unlock()
	if half == s.saved.half && op == s.saved.op {
		s.snapshot = nil
		return false
	}
	s.snapshot = &progress{half, op, s.o.Store.MaxPhyOffset()}
	return true
}

// saveProgress hands the offsets to the consumer offsets once what they skip is flushed, without waiting, and tells
// when to come again: a power cut must not take a half message between its two places.
func (s *TransactionalMessageService) saveProgress() time.Duration {
	if s.snapshot == nil {
		if !s.dirty.Load() || !s.takeSnapshot() {
			return idleSleep
		}
		// With SYNC_FLUSH nobody else may ask for these bytes to be flushed.
		s.o.Store.Durable(s.snapshot.end, 0, func(store.PutStatus) {})
	}
	if s.o.Store.FlushedWhere() >= s.snapshot.end {
		s.commitProgress()
		if !s.dirty.Load() {
			return idleSleep
		}
	}
	return s.o.Settings().OpInterval
}

func (s *TransactionalMessageService) commitProgress() {
	p := *s.snapshot
	s.snapshot = nil
	for topic, at := range map[string]int64{codec.HalfTopic: p.half, codec.OpHalfTopic: p.op} {
		if err := s.o.Offsets.Commit(s.o.StoreHost(), Group, topic, queue, codec.QueueOffset(at)); err != nil {
			s.o.Log.Error("progress of the transactions not kept", "topic", topic, "queueOffset", at, "error", err)
		}
	}
	s.saved = p
}

// saveCounts writes config/transactionMetrics when it is time, and tells when to come again.
func (s *TransactionalMessageService) saveCounts() time.Duration {
	wait, err := s.counts.saveSome(s.currentFloor())
	if err != nil {
		s.o.Log.Error("transaction counts not written", "file", s.o.File, "error", err)
	}
	return wait
}

// currentFloor is a place in the log before which every commit has its op message.
func (s *TransactionalMessageService) currentFloor() codec.PhyOffset {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.t.floor(s.o.Store.MaxPhyOffset())
}
