package transaction

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"skylark/broker/conn"
	"skylark/codec"
	"skylark/store"
)

// Reason says why a transaction is still open, or why it was given up.
type Reason uint8

// The reasons.
const (
	TooYoung      Reason = iota // no question before its immunity time is over
	Asked                       // asked, not answered
	Unknown                     // the producer answered that it does not know
	NoProducer                  // no producer of its group is connected
	NoGroup                     // the half message names no producer group
	Congested                   // its producers do not read fast enough
	PutFailed                   // the store does not take its next copy
	Unreadable                  // its half message cannot be read
	CheckedEnough               // given up: asked transactionCheckMax times
	TooOld                      // given up: older than fileReservedTime
)

var reasonTexts = [...]string{TooYoung: "not asked about yet", Asked: "asked, no answer",
	Unknown: "the producer does not know yet", NoProducer: "no producer of the group is connected",
	NoGroup: "the half message names no producer group", Congested: "the producers are too slow to be asked",
	PutFailed: "its next copy could not be stored", Unreadable: "its half message cannot be read",
	CheckedEnough: "asked transactionCheckMax times", TooOld: "older than fileReservedTime"}

// String says it in words.
func (r Reason) String() string { return reasonTexts[r] }

// runChecks builds the table and then asks about what is open (Java TransactionalMessageCheckService).
func (s *TransactionalMessageService) runChecks() {
	defer s.tasks.Done()
	if !s.load() {
		return
	}
	complained := int64(0)
	for s.sleep(s.o.Settings().CheckInterval) {
		r := s.newRound()
		for _, tx := range r.due() {
			if !r.goOn() {
				break
			}
			r.safely(tx)
		}
		s.counts.moveFloor(s.currentFloor())
		if now := s.o.Clock.Millis(); r.waits > 0 && now-complained >= complainInterval.Milliseconds() {
			complained = now
			s.o.Log.Warn("open transactions cannot be asked about", "transactions", r.waits, "for example", r.example)
		}
		if r.asked > 0 || r.gaveUp > 0 {
			s.o.Log.Info("transactions checked", "asked", r.asked, "givenUp", r.gaveUp, "waiting", r.waits,
				"millis", s.o.Clock.Millis()-r.now)
		}
	}
}

// round is one pass over the open transactions.
type round struct {
	s         *TransactionalMessageService
	set       Settings
	now       int64                     // ms, its begin
	producers map[string][]*conn.Client // by group, those that can be asked
	props     []byte
	body      []byte
	asked     int
	gaveUp    int
	waits     int // for somebody who can be asked
	example   string
}

func (s *TransactionalMessageService) newRound() *round {
	return &round{s: s, set: s.o.Settings(), now: s.o.Clock.Millis(), producers: map[string][]*conn.Client{}}
}

// due lists the transactions to look at, the oldest first, and those that are too far behind.
func (r *round) due() (out []*transaction) {
	t := &r.s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.halves.end() - max(int64(r.s.o.maxLag), int64(lagFactor*t.open))
	for _, tx := range t.halves.items[t.halves.head:] {
		if tx != nil && !done(tx) && (r.old(tx) || tx.queueOffset < limit) {
			out = append(out, tx)
		}
	}
	return out
}

// old tells that a transaction may be asked about: past transactionTimeOut or its own immunity time, or born in the
// future.
func (r *round) old(tx *transaction) bool {
	immunity := tx.immunity
	if immunity < 0 {
		immunity = r.set.Timeout.Milliseconds()
	}
	return r.now-tx.since > immunity || r.now < tx.since
}

// goOn tells whether there is time left.
func (r *round) goOn() bool {
	select {
	case <-r.s.stop:
		return false
	default:
		return r.s.o.Clock.Millis()-r.now < maxRound.Milliseconds()
	}
}

// safely looks at one transaction; one that fails must not hold up the others.
func (r *round) safely(tx *transaction) {
	s := r.s
	s.t.mu.Lock()
	at := s.t.halves.at(tx.queueOffset)
	if tx.busy || at == nil || *at != tx { // just being settled, or settled
		s.t.mu.Unlock()
		return
	}
	tx.busy = true
	s.t.mu.Unlock()
	why := tx.waiting
	defer func() {
		if p := recover(); p != nil {
			why = Unreadable
			s.o.Log.Error("BUG: check of a transaction failed", "queueOffset", tx.queueOffset,
				"phyOffset", int64(tx.phyOffset), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		s.t.mu.Lock()
		tx.waiting = why
		s.release(tx)
		s.t.mu.Unlock()
		switch why {
		case NoProducer, Congested, PutFailed, Unreadable:
			r.waits++
			r.example = fmt.Sprintf("topic %s group %s: %v", tx.topic, tx.group, why)
		}
	}()
	why = r.look(tx)
}

// look decides about one transaction that is marked busy, and returns why it is open from now on.
func (r *round) look(tx *transaction) Reason {
	s := r.s
	switch {
	case !r.old(tx): // only too far behind
		return r.putBack(tx, tx.checks, TooYoung)
	case r.now-tx.since > r.set.ReservedTime.Milliseconds() && r.set.ReservedTime > 0:
		return r.giveUp(tx, TooOld)
	case tx.checks >= r.set.CheckMax:
		return r.giveUp(tx, CheckedEnough)
	case tx.group == "":
		if tx.attempts++; tx.attempts > r.set.CheckMax {
			return r.giveUp(tx, NoGroup)
		}
		return NoGroup
	}
	client, why := r.producer(tx.group)
	if client == nil {
		if s.behind(tx) {
			return r.putBack(tx, tx.checks, why)
		}
		return why
	}
	return r.ask(tx, client)
}

// behind tells that a transaction is too far behind the newest.
func (s *TransactionalMessageService) behind(tx *transaction) bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return tx.queueOffset < s.t.halves.end()-max(int64(s.o.maxLag), int64(lagFactor*s.t.open))
}

// producer is the next live member of a group in turn, nil with the reason when none can be asked.
func (r *round) producer(group string) (*conn.Client, Reason) {
	clients, ok := r.producers[group]
	if !ok {
		clients = r.s.o.Producers(group)
		r.producers[group] = clients
	}
	if len(clients) == 0 {
		return nil, NoProducer
	}
	for range clients {
		c := clients[r.s.turns.Add(1)%uint64(len(clients))]
		if c.Conn.PendingBytes() < maxPendingBytes {
			return c, Asked
		}
	}
	return nil, Congested
}

// gone takes a transaction out whose half message is not there any more.
func (r *round) gone(tx *transaction, err error) Reason {
	s := r.s
	s.t.mu.Lock()
	s.t.leave(tx, over)
	s.queueOp(tx.queueOffset, nil)
	s.t.mu.Unlock()
	s.counts.add(tx.topic, -1)
	s.stats.givenUp.Add(1)
	r.gaveUp++
	s.o.Log.Error("open transaction lost: its half message is gone", "topic", tx.topic, "group", tx.group,
		"queueOffset", tx.queueOffset, "phyOffset", int64(tx.phyOffset), "error", err)
	return Unreadable
}

// next puts the next copy of a half message and enters it. rec is what was read, changed to what was put.
func (r *round) next(tx *transaction, rec *codec.Record, checks int) error {
	s := r.s
	m := putBack(rec, checks, tx.origin, r.props)
	r.props = m.Properties
	put := s.o.Store.Append(&m)
	switch put.Status {
	case store.PutOK:
	case store.PropertiesSizeExceeded: // no room for the count: it stays where it is, and is counted in memory
		s.t.mu.Lock()
		tx.checks = checks
		s.t.mu.Unlock()
		return nil
	default:
		return fmt.Errorf("%v: %w", put.Status, put.Err)
	}
	immune := tx.immunity >= 0 // has CHECK_IMMUNITY_TIME_IN_SECONDS
	s.t.mu.Lock()
	old := tx.queueOffset
	s.t.moved(tx, put.QueueOffset, put.PhyOffset)
	if !immune { // else Java would take the op message of the first copy for the producer's
		s.queueOp(old, nil)
	}
	tx.checks = checks
	s.t.mu.Unlock()
	s.o.Stored(&m, &put)
	rec.Properties, rec.SysFlag = m.Properties, m.SysFlag
	rec.QueueOffset, rec.PhyOffset = put.QueueOffset, put.PhyOffset
	s.touch()
	return nil
}

// putBack moves a half message to the end of its queue without a question.
func (r *round) putBack(tx *transaction, checks int, why Reason) Reason {
	rec, err := r.s.read(tx.phyOffset)
	if err != nil {
		return r.gone(tx, err)
	}
	if err := r.next(tx, rec, checks); err != nil {
		return PutFailed
	}
	return why
}

// ask puts a half message back with one check more and asks a producer about it.
func (r *round) ask(tx *transaction, client *conn.Client) Reason {
	s := r.s
	rec, err := s.read(tx.phyOffset)
	if err != nil {
		return r.gone(tx, err)
	}
	req, err := r.question(tx, rec)
	if err != nil {
		s.o.Log.Error("half message that no producer can be asked about", "queueOffset", tx.queueOffset,
			"phyOffset", int64(tx.phyOffset), "error", err)
		return r.giveUp(tx, Unreadable)
	}
	s.t.mu.Lock()
	tx.unknown = false
	s.t.mu.Unlock()
	if err := s.o.Ask(client.Conn, req); err != nil {
		s.o.Log.Debug("producer not asked", "group", tx.group, "clientId", client.ID, "error", err)
		s.t.mu.Lock()
		tx.checks-- // the copy says one more; it counts after a restart
		s.t.mu.Unlock()
		delete(r.producers, tx.group)
		return NoProducer
	}
	s.stats.asked.Add(1)
	r.asked++
	s.o.Log.Debug("producer asked", "topic", tx.topic, "group", tx.group, "clientId", client.ID,
		"queueOffset", tx.queueOffset, "phyOffset", int64(tx.phyOffset), "checks", tx.checks)
	return Asked
}

// question makes CHECK_TRANSACTION_STATE (39) for the next copy: the half message with its real topic and queue.
func (r *round) question(tx *transaction, rec *codec.Record) (*codec.Command, error) {
	h := parseHalf(rec.Properties)
	topic, queueID, err := h.target()
	if err != nil {
		return nil, err
	}
	uniqKey := string(h.uniqKey)
	storeHost := rec.StoreHost
	if err := r.next(tx, rec, tx.checks+1); err != nil {
		return nil, err
	}
	m := message(rec)
	m.Topic, m.QueueID = topic, queueID
	m.QueueOffset, m.PhyOffset, m.StoreTimestamp = rec.QueueOffset, rec.PhyOffset, rec.StoreTimestamp
	if r.body, err = codec.AppendRecordV1(r.body[:0], &m); err != nil {
		return nil, err
	}
	req := codec.NewRequest(codec.ReqCheckTransactionState)
	codec.EncodeHeader(req, &codec.CheckTransactionStateRequestHeader{
		RPCHeader: codec.RPCHeader{BrokerName: r.s.o.BrokerName}, Topic: codec.HalfTopic,
		TranStateTableOffset: rec.QueueOffset, CommitLogOffset: rec.PhyOffset, MsgID: uniqKey, TransactionID: uniqKey,
		OffsetMsgID: string(codec.AppendOffsetMsgID(nil, storeHost, rec.PhyOffset))})
	req.Body = r.body
	return req, nil
}

// giveUp moves a half message to TRANS_CHECK_MAX_TIME_TOPIC.
func (r *round) giveUp(tx *transaction, why Reason) Reason {
	s := r.s
	rec, err := s.read(tx.phyOffset)
	if err != nil {
		return r.gone(tx, err)
	}
	if err := s.o.GiveUpTopic(); err != nil {
		s.o.Log.Error("topic for given-up transactions not made", "topic", codec.TransCheckMaxTimeTopic, "error", err)
		return PutFailed
	}
	m := givenUp(rec, tx.origin, r.props)
	s.t.mu.Lock()
	s.t.begin(tx, s.o.Store.MaxPhyOffset())
	s.t.mu.Unlock()
	put := s.o.Store.Append(&m)
	if put.Status == store.PropertiesSizeExceeded {
		m.Properties = rec.Properties
		put = s.o.Store.Append(&m)
	}
	if put.Status != store.PutOK {
		s.t.mu.Lock()
		s.t.end(tx)
		s.t.mu.Unlock()
		return PutFailed
	}
	h := parseHalf(rec.Properties)
	s.givenUp.add(GivenUp{Open: tx.describe(string(h.uniqKey), r.now), PhyOffset: put.PhyOffset, StoreHost: rec.StoreHost,
		SinceMillis: put.StoreTimestamp, Reason: why})
	s.t.mu.Lock()
	s.t.leave(tx, over)
	s.queueOp(tx.queueOffset, tx)
	s.t.mu.Unlock()
	s.counts.add(tx.topic, -1)
	s.stats.givenUp.Add(1)
	r.gaveUp++
	s.o.Stored(&m, &put)
	s.o.Log.Warn("transaction given up", "reason", why.String(), "topic", tx.topic, "group", tx.group,
		"uniqKey", string(h.uniqKey), "checks", tx.checks, "age", time.Duration(r.now-tx.since)*time.Millisecond,
		"queueOffset", strconv.FormatInt(tx.queueOffset, 10), "phyOffset", int64(put.PhyOffset))
	return why
}
