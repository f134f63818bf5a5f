package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"skylark/codec"
)

// Turn gathers the messages that came together, the frames of one read of a connection, and puts them with one lock, one
// clock read and one wake-up. The zero value needs a Reset. One goroutine at a time uses it.
//
//	t.Reset(s)
//	t.Add(m) …            checks and encodes, no lock
//	t.Commit()            places all in order
//	t.Result(i)           where the i-th went
//
// Memory: the encoded records; the user commits when Bytes has become too much.
type Turn struct {
	s     *MessageStore
	buf   []byte // records one behind the other
	items []turnItem
	done  int    // items that are placed already
	epoch uint64 // in which the queues were looked up

	waited time.Duration // for the lock or a file

	topic  string // of the last queue looked up
	queues *topicQueues
}

// turnItem is one record of a Turn.
type turnItem struct {
	start, end     int // in buf
	queueID        int32
	topic          string
	next           *atomic.Int64 // of the queue; nil: it gets no place in one
	phyOffset      PhyOffset
	queueOffset    QueueOffset
	storeTimestamp int64
	err            error
	alone          PutResult // of one that was put by itself
	wasAlone       bool
}

// maxKeptTurnBytes bounds the scratch that an empty Turn keeps.
const maxKeptTurnBytes = 256 << 10

// Reset forgets everything; what follows goes to s.
func (t *Turn) Reset(s *MessageStore) {
	t.s, t.buf = s, t.buf[:0]
	if cap(t.buf) > maxKeptTurnBytes {
		t.buf = nil
	}
	clear(t.items)
	t.items, t.done = t.items[:0], 0
	t.topic, t.queues, t.waited = "", nil, 0
}

// Len is the number of messages added since the last Reset.
func (t *Turn) Len() int { return len(t.items) }

// Bytes is the size of their records.
func (t *Turn) Bytes() int { return len(t.buf) }

// Waited is what Commit has waited for the put lock or a file.
func (t *Turn) Waited() time.Duration { return t.waited }

// Add checks a message and encodes its record. The answer is PutOK when it will be put by Commit; its offsets are not known
// before. What is refused leaves no trace. The bytes of m are copied; its Topic must not change.
//
// A prepared or rolled back transaction message gets queue offset 0 and no place in its queue, as in Java.
func (t *Turn) Add(m *codec.Message) PutResult {
	s := t.s
	if r := s.checkMessage(m); r.Status != PutOK {
		return s.stats.failed(r)
	}
	if s.isNumbered(m) {
		return t.addAlone(m)
	}
	start := len(t.buf)
	buf, err := codec.AppendRecord(t.buf, m)
	if err != nil {
		return s.stats.failed(encodeFailure(err))
	}
	if n := len(buf) - start; n > s.o.MaxMessageSize+recordOverhead {
		return s.stats.failed(illegal("record of %d bytes, at most %d", n, s.o.MaxMessageSize+recordOverhead))
	}
	if int64(len(buf)-start)+codec.BlankRecordBytes > s.cl.files.fileSize {
		return s.stats.failed(s.putFailure(errTooLongForFile))
	}
	if len(t.items) == t.done {
		t.epoch = s.cl.epoch.Load()
	}
	it := turnItem{start: start, end: len(buf), topic: m.Topic, queueID: m.QueueID}
	state := m.TransactionState()
	if consumable := state == codec.SysFlagTransactionNone || state == codec.SysFlagTransactionCommit; consumable {
		if it.next = t.find(m.Topic, m.QueueID); it.next == nil {
			return s.stats.failed(s.putFailure(fmt.Errorf("%w: %q", errTopicName, m.Topic)))
		}
	}
	t.buf = buf
	t.items = append(t.items, it)
	return PutResult{Status: PutOK}
}

// find is the next offset of a queue, which is made if there is none; nil when the topic cannot have queues.
func (t *Turn) find(topic string, queueID int32) *atomic.Int64 {
	table := t.s.queues
	if t.queues == nil || t.topic != topic {
		t.topic, t.queues = topic, table.topic(topic)
	}
	if t.queues != nil {
		if cq := t.queues.find(queueID); cq != nil {
			return &cq.next
		}
	}
	if !isTopicDirName(topic) {
		return nil
	}
	cq := table.findOrCreate(topic, queueID)
	t.queues = nil // it may be another one now
	return &cq.next
}

// Commit puts all messages, in their order. It does not wait for the disk unless CanAppend said so of their Bytes together.
// They are not durable yet (Durable), and consumers see them after Dispatch, which must follow.
func (t *Turn) Commit() {
	if len(t.items) == t.done {
		return
	}
	s := t.s
	for first := t.done; first < len(t.items); {
		at, n, err := s.cl.putTurn(t, first)
		first += n
		switch {
		case errors.Is(err, errStaleQueue):
			t.findAgain(first)
		case err != nil:
			t.fail(first, err)
			first = len(t.items)
		}
		if n > 0 {
			size := t.items[first-1].end - t.items[first-n].start
			s.countPut(n, n, size, at)
			t.waited += at.lockWait()
		}
	}
	t.done = len(t.items)
	s.cl.flusher.appended()
	s.grew()
}

// addAlone is Add of a message that cannot be gathered (see appendNumbered): it is put at once, behind those added before.
func (t *Turn) addAlone(m *codec.Message) PutResult {
	t.Commit()
	r := t.s.Append(m)
	if r.Status == PutOK {
		t.items = append(t.items, turnItem{start: len(t.buf), end: len(t.buf), alone: r, wasAlone: true})
		t.done = len(t.items)
	}
	return r
}

// putTurn places the records of a turn from the first-th on: n of them, all that fit in one file unless n says less, with
// one store timestamp. Errors are those of put; what was placed before one stays.
func (cl *commitLog) putTurn(t *Turn, first int) (at placed, n int, err error) {
	since := int64(0)
	for {
		if !cl.putLock.TryLock() {
			if cl.busy() {
				return placed{}, 0, errLogBusy
			}
			if since == 0 {
				since = cl.o.Clock.Millis()
			}
			cl.putLock.Lock()
		}
		at, n, roll, err := cl.placeTurn(t, first)
		cl.putLock.Unlock()
		if roll == nil {
			if since != 0 {
				at.sinceMillis, at.waited = since, true
			}
			return at, n, err
		}
		if since == 0 {
			since = cl.o.Clock.Millis()
		}
		if err := cl.alloc.wait(roll.from); err != nil {
			return placed{}, 0, fmt.Errorf("%w: %w", errNoFile, err)
		}
	}
}

// placeTurn is putTurn under the lock.
func (cl *commitLog) placeTurn(t *Turn, first int) (at placed, n int, roll *rollNeeded, err error) {
	now := cl.o.Clock.Millis()
	cl.lockedAt.Store(now)
	defer cl.lockedAt.Store(0)
	if err := cl.flags.refusal(flagsUnderLock); err != nil {
		return placed{}, 0, nil, err
	}
	if t.epoch != cl.epoch.Load() {
		return placed{}, 0, nil, errStaleQueue
	}
	items := t.items[first:]
	start := items[0].start
	mf, roll, err := cl.room(int64(items[0].end - start))
	if mf == nil {
		return placed{}, 0, roll, err
	}
	cl.lastTimestamp = max(now, cl.lastTimestamp)
	pos := mf.wrotePosition.Load()
	base := PhyOffset(mf.fileFrom+pos) - PhyOffset(start) // phyOffset of buf[0]
	at = placed{phyOffset: base + PhyOffset(start), storeTimestamp: cl.lastTimestamp, sinceMillis: now}
	rest := mf.size - pos - codec.BlankRecordBytes + int64(start) // where in buf the file ends
	for n = 0; n < len(items) && int64(items[n].end) <= rest; n++ {
		it := &items[n]
		it.phyOffset, it.storeTimestamp = base+PhyOffset(it.start), at.storeTimestamp
		if it.next != nil {
			it.queueOffset = QueueOffset(it.next.Load())
			it.next.Store(int64(it.queueOffset) + 1)
		}
		codec.PatchRecord(t.buf[it.start:it.end], it.queueOffset, it.phyOffset, it.storeTimestamp)
	}
	cl.write(mf, pos, t.buf[start:items[n-1].end], at.storeTimestamp)
	return at, n, nil, nil
}

// findAgain looks the queues up that were found before some were taken away.
func (t *Turn) findAgain(first int) {
	t.epoch = t.s.cl.epoch.Load()
	t.queues = nil
	for i := range t.items[first:] {
		if it := &t.items[first+i]; it.next != nil {
			it.next = t.find(it.topic, it.queueID)
		}
	}
}

// fail answers all from first on.
func (t *Turn) fail(first int, err error) {
	for i := range t.items[first:] {
		t.items[first+i].err = err
	}
}

// Result tells what became of the i-th message, after Commit.
func (t *Turn) Result(i int) PutResult {
	it := &t.items[i]
	if it.wasAlone {
		return it.alone
	}
	if it.err != nil {
		return t.s.stats.failed(t.s.putFailure(it.err))
	}
	return PutResult{Status: PutOK, PhyOffset: it.phyOffset, EndOffset: it.phyOffset + PhyOffset(it.end-it.start),
		QueueOffset: it.queueOffset, StoreTimestamp: it.storeTimestamp, Count: 1}
}

// Dispatch gives what was put its ConsumeQueue entries and tells Listener.Arrived, as far as that takes no waiting; the
// rest is left to the ReputMessageService. An event loop calls it when its turn is over. It must not be called with a
// lock that Arrived wants.
func (s *MessageStore) Dispatch() { s.reput.assist() }

// PutAll puts messages in one Turn, dispatches what it can, and waits until those with WaitStoreMsgOK are durable. The
// results are in the order of the messages; those that were refused do not keep the others out.
func (s *MessageStore) PutAll(messages []*codec.Message) []PutResult {
	var t Turn
	t.Reset(s)
	results := make([]PutResult, len(messages))
	place := make([]int, 0, len(messages)) // of the taken ones in results
	for i, m := range messages {
		if results[i] = t.Add(m); results[i].Status == PutOK {
			place = append(place, i)
		}
	}
	t.Commit()
	wait := false
	var last PutResult
	for n, i := range place {
		results[i] = t.Result(n)
		if results[i].Status == PutOK && messages[i].WaitStoreMsgOK {
			wait, last = true, results[i]
		}
	}
	s.Dispatch()
	if last = s.await(last, wait); last.Status != PutOK {
		for _, i := range place {
			if results[i].Status == PutOK && messages[i].WaitStoreMsgOK {
				results[i].Status, results[i].Err = last.Status, last.Err
			}
		}
	}
	return results
}
