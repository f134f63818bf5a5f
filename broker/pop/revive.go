package pop

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"skylark/codec"
	"skylark/codec/fastjson"
	"skylark/store"
)

// Limits and rhythms of the revive service.
const (
	// tick is how often offsets are committed and buffered check points looked at.
	tick = 100 * time.Millisecond
	// entriesPerRead is Java's read of the revive queue, recordsPerTurn what one turn takes from each.
	entriesPerRead = 32
	recordsPerTurn = 1 << 14
	// maxReviving bounds the check points of a revive queue that wait in memory, about 300 bytes each.
	maxReviving = 1 << 17
	// ackLag is how long after the revive time ack records may come out, in ms (Java ackTimeInterval + 1 s).
	ackLag = 2000
	// sweepInterval is how often idle queues and leftovers are looked for.
	sweepInterval = time.Minute
	// catchUpWait is how long after a start the timer may have overdue records; nothing is judged until they are read.
	catchUpWait = time.Minute
	// lostAfter is how long after its time a check point may come out before its entry in the ledger is given up, in ms.
	lostAfter = 10 * 60 * 1000
)

// rePutSeconds are the pauses of a check point whose messages could not be returned (Java
// ckRewriteIntervalsInSeconds).
var rePutSeconds = [...]int64{10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200}

// ReviveService reads the revive queues and returns the messages that were not acknowledged (Java PopReviveService): one
// goroutine for all queues.
type ReviveService struct {
	s      *Service
	queues []reviveQueue
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	began  bool
	stance stance
	swept  time.Time
	turned time.Time
	since  time.Time // of begin
	// caughtUp: what was overdue at the start has been read, acks no longer come later than records that are due later.
	caughtUp bool

	mu     sync.Mutex
	behind int64 // ms, of the oldest check point that is over
}

// reviveQueue is the state of one revive queue.
type reviveQueue struct {
	id        int32
	next      codec.QueueOffset // to read
	committed codec.QueueOffset // the last that is done with, -1 none
	cks       []*reviving       // in the order of the queue
	byKey     map[brokerKey]*reviving
	endTime   int64 // ms, the latest time a record was due
}

// brokerKey names a check point among those of several brokers.
type brokerKey struct {
	key
	broker string
}

func (s *Service) brokerKey(k key, broker string) brokerKey {
	if broker == "" {
		broker = s.o.BrokerName
	}
	return brokerKey{k, broker}
}

// reviving is a check point that came out.
type reviving struct {
	ck    CheckPoint
	at    codec.QueueOffset // in the revive queue
	came  int64             // ms
	acked uint32            // by ack records, and what was returned
	done  bool
	gave  bool // messages were returned
}

func (r *ReviveService) init(s *Service) {
	r.s, r.stop, r.done = s, make(chan struct{}), make(chan struct{})
}

func (r *ReviveService) start() {
	r.begin()
	r.began = true
	go r.run()
}

// begin reads from the revive offsets on.
func (r *ReviveService) begin() {
	s := r.s
	r.queues = nil
	for id := range s.o.ReviveQueues {
		q := reviveQueue{id: int32(id), committed: -1, byKey: map[brokerKey]*reviving{}}
		if at, ok := s.o.Offsets.Query(codec.ReviveGroup, s.reviveTopic, q.id); ok {
			q.committed, q.next = at, at+1
		}
		r.queues = append(r.queues, q)
	}
	r.swept, r.turned, r.since = s.o.Clock.Now(), s.o.Clock.Now(), s.o.Clock.Now()
	r.caughtUp = false
}

func (r *ReviveService) close() {
	r.once.Do(func() {
		close(r.stop)
		if r.began {
			<-r.done
		}
	})
}

func (r *ReviveService) run() {
	defer close(r.done)
	t := r.s.o.Clock.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-t.C():
			r.turn()
		}
	}
}

// stance is what the broker is to POP.
type stance uint8

const (
	leads   stance = iota // a master
	follows               // a slave
	acts                  // a slave that acts as master
)

func (s *Service) stance() stance {
	switch {
	case !s.o.Follower():
		return leads
	case s.o.Acting != nil && s.o.Acting():
		return acts
	}
	return follows
}

func (r *ReviveService) turn() {
	s := r.s
	if now := s.stance(); now != r.stance {
		s.acting.Store(false)
		if r.stance != follows {
			s.resign()
		}
		if now != follows {
			s.takeOver()
			s.acting.Store(now == acts)
		}
		r.stance = now
	}
	switch r.stance {
	case follows:
		return
	case acts:
		r.act()
		return
	}
	s.progress.touch(s.o.Clock.Millis())
	s.flushBuffer(false)
	s.advanceAll()
	now := s.o.Clock.Now()
	if now.Sub(r.turned) >= s.o.Settings().ReviveInterval {
		r.turned = now
		behind := int64(0)
		idle, all := s.o.TimerIdle(), true // before the queues are read
		for i := range r.queues {
			b, tail := r.reviveQueue(&r.queues[i])
			behind, all = max(behind, b), all && tail
		}
		r.caughtUp = r.caughtUp || idle && all || now.Sub(r.since) >= catchUpWait
		r.mu.Lock()
		r.behind = behind
		r.mu.Unlock()
	}
	if now.Sub(r.swept) >= sweepInterval {
		r.swept = now
		s.sweep()
		s.sweepLedger()
	}
}

// sweepLedger gives up entries whose check point never came out: the timer lost it, or an operator deleted it.
func (s *Service) sweepLedger() {
	now := s.o.Clock.Millis()
	limit := now - lostAfter
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for k, u := range s.ledger.before {
		if u.until < now {
			delete(s.ledger.before, k)
		}
	}
	for k, e := range s.ledger.table {
		if e.ck.PopTime+e.ck.Invisible < limit && !e.buffered {
			delete(s.ledger.table, k)
			e.queue.visible(e.ck.all() &^ e.acked)
		}
	}
}

// Behind is how long the oldest check point has been over whose messages are not returned yet.
func (s *Service) Behind() time.Duration {
	s.revive.mu.Lock()
	defer s.revive.mu.Unlock()
	return time.Duration(s.revive.behind) * time.Millisecond
}

// reviveQueue does one round and tells how far behind it is, in ms, and whether it has read all there is.
func (r *ReviveService) reviveQueue(q *reviveQueue) (behind int64, tail bool) {
	tail = r.read(q)
	now := r.s.o.Clock.Millis()
	idle := tail && r.s.o.TimerIdle()
	first := true // all before are done with
	for _, c := range q.cks {
		if !c.done {
			r.judge(q, c, now, idle)
		}
		switch {
		case !c.done:
			first = false
			behind = max(behind, now-c.ck.PopTime-c.ck.Invisible)
		case first && c.gave: // a broker that is killed now must not give it again
			r.commitTo(q, c.at)
			c.gave = false
		}
	}
	r.commit(q)
	return behind, tail
}

// read takes what is new in a revive queue; tail tells that it has seen all of it.
func (r *ReviveService) read(q *reviveQueue) (tail bool) {
	s := r.s
	q.next = max(q.next, s.o.Store.MinOffset(s.reviveTopic, q.id), 0)
	if end := s.o.Store.MaxOffset(s.reviveTopic, q.id); q.next > end { // the log lost its end: what comes is new
		s.o.Log.Warn("revive offset is outside its queue", "queueId", q.id, "offset", int64(q.next), "corrected", int64(end))
		q.next, q.committed = end, end-1
	}
	var buf []byte
	for n := 0; n < recordsPerTurn && len(q.cks) < maxReviving; {
		entries := s.o.Store.QueueEntries(s.reviveTopic, q.id, q.next, entriesPerRead)
		if len(entries) == 0 {
			return true
		}
		for i := range entries {
			raw, err := s.o.Store.ReadRecord(entries[i].PhyOffset, buf)
			if errors.Is(err, store.ErrNotFound) { // deleted with its file
				q.next++
				continue
			}
			var rec codec.Record
			if err == nil {
				rec, err = codec.ParseRecord(raw, true)
			}
			if err == nil {
				err = r.take(q, &rec)
			}
			if err != nil {
				s.o.Log.Error("revive record passed over", "queueId", q.id, "offset", int64(q.next), "error", err)
			}
			buf = raw[:0]
			q.next++
		}
		n += len(entries)
	}
	return false
}

// take enters one record.
func (r *ReviveService) take(q *reviveQueue, rec *codec.Record) error {
	if due, ok := rec.Property(codec.PropTimerDeliverMs); ok {
		if t, err := strconv.ParseInt(string(due), 10, 64); err == nil {
			q.endTime = max(q.endTime, t)
		}
	}
	tag, _ := rec.Property(codec.PropTags)
	switch string(tag) {
	case tagCheckPoint:
		c := &reviving{at: q.next, came: r.s.o.Clock.Millis()}
		if err := fastjson.Unmarshal(rec.Body, &c.ck); err != nil {
			return err
		}
		if c.ck.Topic == "" || c.ck.Group == "" || c.ck.Num < 0 || c.ck.Num > 32 {
			return fmt.Errorf("pop: check point without topic or group, or with %d messages", c.ck.Num)
		}
		if len(c.ck.Diffs) > 0 && len(c.ck.Diffs) < int(c.ck.Num) {
			return fmt.Errorf("pop: check point of %d messages has %d offsets", c.ck.Num, len(c.ck.Diffs))
		}
		c.acked = (uint32(c.ck.BitMap) | r.s.returnedBefore[checkPointAt{q.id, c.at}]) & c.ck.all()
		q.cks = append(q.cks, c)
		q.byKey[r.s.brokerKey(c.ck.key(), c.ck.BrokerName)] = c
	case tagAck, tagBatchAck:
		var a ackRecord
		if err := fastjson.Unmarshal(rec.Body, &a); err != nil {
			return err
		}
		c := q.byKey[r.s.brokerKey(a.key(), a.BrokerName)]
		if c == nil {
			return nil // its check point is done with
		}
		if string(tag) == tagAck {
			a.Offsets = []codec.QueueOffset{a.Offset}
		}
		for _, at := range a.Offsets {
			if i := c.ck.index(at); i >= 0 {
				c.acked |= 1 << i
			}
		}
	}
	return nil
}

// judge returns the messages of a check point that is over.
func (r *ReviveService) judge(q *reviveQueue, c *reviving, now int64, idle bool) {
	s := r.s
	var e *open
	var bits uint32
	ok, own := true, s.own(&c.ck)
	if own {
		e, bits, ok = s.ledger.due(c.ck.key(), now)
	}
	if e != nil {
		if !ok {
			return
		}
		c.acked |= bits
	} else if c.acked != c.ck.all() {
		reviveTime := c.ck.PopTime + c.ck.Invisible
		if !r.caughtUp || q.endTime-reviveTime <= ackLag && !(idle && now-reviveTime > ackLag+checkPointAhead) {
			return // more acks may come
		}
		if !own && now-c.came < strangerStay.Milliseconds() {
			return
		}
	}
	if !r.revive(q, c) {
		return
	}
	c.done = true
	if e != nil {
		s.ledger.remove(e)
		e.queue.visible(e.ck.all() &^ bits)
	}
}

// revive returns what is not acknowledged. false: it has to be tried again; what was returned is marked.
func (r *ReviveService) revive(q *reviveQueue, c *reviving) bool {
	s, ck := r.s, &c.ck
	if c.acked == ck.all() {
		return true
	}
	limit, group := s.o.RetryLimit(ck.Group)
	topic := s.o.TopicQueues(codec.NormalTopicOf(ck.Topic, ck.Group)) > 0
	own := s.own(ck)
	if own && !(topic && group) {
		s.o.Log.Warn("check point passed over, its topic or group is gone", "topic", ck.Topic, "group", ck.Group)
		return true
	}
	if !group {
		limit = strangerLimit
	}
	for i := range int(ck.Num) {
		if c.acked&(1<<i) != 0 {
			continue
		}
		err := errNotHere
		if own || topic {
			err = r.giveBack(ck, ck.offset(i), limit)
		}
		if err != nil {
			s.o.Log.Warn("message not returned", "topic", ck.Topic, "group", ck.Group, "queueId", ck.QueueID, "offset",
				int64(ck.offset(i)), "error", err)
			if err = r.rePut(ck, ck.offset(i), q.id); err != nil {
				return false
			}
		}
		c.acked |= 1 << i
		c.gave = true
		s.progress.returned(checkPointAt{q.id, c.at}, i, s.lastPut.Load())
	}
	return true
}

// giveBack puts a message into the group's retry topic, or to the dead letters.
func (r *ReviveService) giveBack(ck *CheckPoint, at codec.QueueOffset, limit int32) error {
	s := r.s
	raw, err := s.original(ck, at)
	if err != nil || raw == nil {
		return err
	}
	rec, err := codec.ParseRecord(raw, true)
	if err != nil {
		return err
	}
	old := rec.Message()
	m := &codec.Message{Topic: ck.Topic, Flag: old.Flag, SysFlag: old.SysFlag, BornTimestamp: old.BornTimestamp,
		BornHost: s.o.StoreHost(), StoreHost: s.o.StoreHost(), ReconsumeTimes: old.ReconsumeTimes + 1, Body: old.Body,
		Properties: old.Properties, WaitStoreMsgOK: true}
	if rec.IsInnerBatch() { // as its consumers saw it: clients that pop do not take batches apart
		m.SysFlag &^= codec.SysFlagInnerBatch | codec.SysFlagNeedUnwrap
		m.Properties = codec.RemoveProperty(nil, m.Properties, codec.PropInnerNum, codec.PropInnerBase)
	}
	normal := codec.NormalTopicOf(ck.Topic, ck.Group)
	if !codec.IsRetryTopic(ck.Topic) {
		m.Topic = codec.PopRetryTopicV1(ck.Topic, ck.Group)
		if s.o.Settings().RetryV2 {
			m.Topic = codec.PopRetryTopicV2(ck.Topic, ck.Group)
		}
	}
	if n := len(m.Properties); n > 0 && m.Properties[n-1] != codec.PropValueSeparator {
		m.Properties = append(m.Properties, codec.PropValueSeparator)
	}
	if _, ok := codec.LookupProperty(m.Properties, codec.PropFirstPopTime); !ok || old.ReconsumeTimes == 0 {
		m.Properties = codec.RemoveProperty(nil, m.Properties, codec.PropFirstPopTime)
		m.Properties = codec.AppendProperty(m.Properties, codec.PropFirstPopTime, strconv.FormatInt(ck.PopTime, 10))
	}
	if dead := old.ReconsumeTimes >= limit; dead {
		m.Topic = codec.DLQTopic(ck.Group)
		if _, ok := codec.LookupProperty(m.Properties, codec.PropRetryTopic); !ok {
			m.Properties = codec.AppendProperty(m.Properties, codec.PropRetryTopic, normal)
		}
	}
	if tags, ok := codec.LookupProperty(m.Properties, codec.PropTags); ok {
		m.TagsCode = codec.TagsCode(tags)
	}
	if err := s.o.MakeTopic(m.Topic); err != nil {
		return err
	}
	_, err = s.put(m)
	s.trace("returned", queueKey{ck.Topic, ck.Group, ck.QueueID}, "offset", int64(at), "popTime", ck.PopTime, "to", m.Topic,
		"times", m.ReconsumeTimes, "error", err)
	return err
}

// rePut writes a check point for a message that could not be returned.
func (r *ReviveService) rePut(ck *CheckPoint, at codec.QueueOffset, reviveQID int32) error {
	s, n := r.s, ck.rePuts()
	if n >= len(rePutSeconds) && s.o.Settings().SkipRePutMax {
		s.o.Log.Error("message given up, it could not be returned", "topic", ck.Topic, "group", ck.Group, "queueId",
			ck.QueueID, "offset", int64(at), "times", n)
		return nil
	}
	again := CheckPoint{BrokerName: ck.BrokerName, Group: ck.Group, Diffs: []int32{0}, Num: 1, PopTime: ck.PopTime,
		Invisible: ck.Invisible, QueueID: ck.QueueID, RePut: strconv.Itoa(n + 1), StartOffset: at, Topic: ck.Topic}
	if ck.PopTime+ck.Invisible <= s.o.Clock.Millis() {
		again.Invisible += rePutSeconds[min(n, len(rePutSeconds)-1)] * 1000
	}
	_, err := s.putCheckPoint(&again, reviveQID)
	return err
}

// commit moves the revive offset over what is done.
func (r *ReviveService) commit(q *reviveQueue) {
	n := 0
	for ; n < len(q.cks) && q.cks[n].done; n++ {
		ck := &q.cks[n].ck
		if k := r.s.brokerKey(ck.key(), ck.BrokerName); q.byKey[k] == q.cks[n] {
			delete(q.byKey, k)
		}
	}
	rest := copy(q.cks, q.cks[n:])
	clear(q.cks[rest:])
	q.cks = q.cks[:rest]
	at := q.next - 1
	if rest > 0 {
		at = q.cks[0].at - 1
	}
	r.commitTo(q, at)
}

func (r *ReviveService) commitTo(q *reviveQueue, at codec.QueueOffset) {
	if at <= q.committed || at < 0 {
		return
	}
	q.committed = at
	r.s.commit(&queue{queueKey: queueKey{r.s.reviveTopic, codec.ReviveGroup, q.id}}, at)
}
