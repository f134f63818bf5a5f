package pop

import (
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/codec/fastjson"
	"skylark/store"
)

// A slave that acts as master (enableSlaveActingMaster) serves POP although nothing can be put into its log, which is a
// copy of the master's: what is put goes to another broker of the topic (enableRemoteEscape, Java EscapeBridge), whose
// revive service reads the messages here and returns them to its own queues of the group's retry topic.
//
//   - A check point is in memory first, as with enablePopBufferMerge, and is given away when it has stayed there for a
//     while or is nearly due. The group's offset waits for it, so that a slave that dies, or a master that comes back, pops
//     its messages again: none is lost.
//   - An ack of what is in memory stays there; others follow their check point, in the background. What is lost of them
//     makes messages come again.
//   - Check points and acks of the master that come out of the timer here, or are in the revive queues still, go to the same
//     broker and the same queue as the acks that follow them: it is chosen by the check point's name (Java: any, so that
//     acks miss their check point and messages come twice).

// Errors of a slave that acts as master, and of Options.Fetch.
var (
	// ErrElsewhere: the check point is on another broker, which cannot be asked for another time.
	ErrElsewhere = errors.New("pop: the check point is on another broker, its time cannot be changed")
	// ErrGone: there is no such message any more.
	ErrGone = errors.New("pop: no such message any more")
	// errNotHere: a check point of another broker, of a topic that this one does not have (yet).
	errNotHere = errors.New("pop: this broker does not have the topic of another broker's check point")
)

const (
	// maxAway bounds the acks that wait for their way to another broker, about 300 bytes each.
	maxAway = 1 << 16
	// strangerStay is how long a check point of another broker waits here for its acks: all come over the network, and when the
	// other one has just begun to act, long after their time.
	strangerStay = 5 * time.Second
	// strangerLimit is how often a message of another broker is returned to a group that is not known here (Java
	// SubscriptionGroupConfig.retryMaxTimes).
	strangerLimit = 16
	// awayStay is how long the ledger keeps a check point that is elsewhere after its time is over, in ms.
	awayStay = 5000
)

// RecordName is the name of the check point that a record of the revive topic belongs to.
type RecordName struct {
	Topic string // that consumers know
	Hash  uint64 // of the whole name
}

// awayAck is an ack that waits for its way to another broker.
type awayAck struct {
	name RecordName
	m    *codec.Message
}

// name is what names the check point to other brokers.
func (k key) name() RecordName {
	h := fnv.New64a()
	for _, s := range []string{k.topic, k.group, strconv.Itoa(int(k.queueID)), strconv.FormatInt(int64(k.start), 10),
		strconv.FormatInt(k.popTime, 10)} {
		_, _ = h.Write(append([]byte(s), 0)) // never fails
	}
	return RecordName{Topic: codec.NormalTopicOf(k.topic, k.group), Hash: h.Sum64()}
}

// NameOf reads the name out of the body of a record of the revive topic.
func NameOf(record []byte) (RecordName, error) {
	var a ackRecord // its fields are in both kinds
	if err := fastjson.Unmarshal(record, &a); err != nil {
		return RecordName{}, err
	}
	if a.Topic == "" || a.Group == "" {
		return RecordName{}, errors.New("pop: record without topic or group")
	}
	return a.key().name(), nil
}

// Acting tells that this slave serves POP.
func (s *Service) Acting() bool { return s.acting.Load() }

// keepFirst enters a check point that is in memory only, of a message that an older one has had: the group's offset must not
// pass before it is safe.
func (s *Service) keepFirst(e *open) {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	e.queue.wait = slices.Insert(e.queue.wait, 0, waiting{open: e})
	s.mu.Lock()
	s.active[e.queue] = struct{}{}
	s.mu.Unlock()
	s.keep(e)
}

// ackAway has an ack follow its check point to another broker.
func (s *Service) ackAway(a *ackRecord, reviveTime int64) error {
	a.Offsets = slices.Clone(a.Offsets)
	m, err := s.ackRecord(a, 0, reviveTime)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.away) >= maxAway {
		return ErrFull
	}
	s.away = append(s.away, awayAck{a.key().name(), m})
	return nil
}

// act is a turn of a slave that acts as master.
func (r *ReviveService) act() {
	s := r.s
	s.progress.touch(s.o.Clock.Millis())
	s.sendAcks()
	s.flushAway()
	s.advanceAll()
	now := s.o.Clock.Now()
	if now.Sub(r.turned) >= s.o.Settings().ReviveInterval {
		r.turned = now
		for i := range r.queues {
			r.handOn(&r.queues[i])
		}
	}
	if now.Sub(r.swept) >= sweepInterval {
		r.swept = now
		s.sweep()
		s.forgetAway()
	}
}

// sendAcks gives away the acks that wait, in their order.
func (s *Service) sendAcks() {
	s.mu.Lock()
	list := s.away
	s.away = nil
	s.mu.Unlock()
	for i := range list {
		if err := s.o.Elsewhere(list[i].name, list[i].m); err != nil {
			s.o.Log.Warn("acks wait, no other broker takes them", "acks", len(list)-i, "error", err)
			s.mu.Lock()
			s.away = append(list[i:], s.away...)
			s.mu.Unlock()
			return
		}
	}
}

// flushAway gives away the check points whose time has come.
func (s *Service) flushAway() {
	set := s.o.Settings()
	due := s.dueOfBuffer(&set, false)
	for i, e := range due {
		if err := s.giveAway(e); err != nil {
			s.o.Log.Warn("check points wait, no other broker takes them", "checkPoints", len(due)-i, "topic", e.ck.Topic, "group",
				e.ck.Group, "error", err)
			s.mu.Lock()
			s.buffer = append(s.buffer, due[i:]...)
			s.mu.Unlock()
			return
		}
		s.buffered.Add(-1)
	}
}

// giveAway puts a check point on another broker, with the acks that it has by then.
func (s *Service) giveAway(e *open) error {
	s.ledger.mu.Lock()
	acked, done := e.acked, e.done()
	s.ledger.mu.Unlock()
	if done {
		return nil
	}
	ck := e.ck
	ck.BitMap = int32(acked)
	if err := s.putElsewhere(&ck); err != nil {
		return err
	}
	s.ledger.mu.Lock()
	e.buffered = false
	acked = e.acked &^ acked // while it was under way
	s.ledger.mu.Unlock()
	for i := range int(ck.Num) {
		if acked&(1<<i) == 0 {
			continue
		}
		a := ackRecord{Offset: ck.offset(i), BrokerName: ck.BrokerName, Group: ck.Group, PopTime: ck.PopTime,
			QueueID: ck.QueueID, StartOffset: ck.StartOffset, Topic: ck.Topic}
		if err := s.ackAway(&a, ck.PopTime+ck.Invisible); err != nil {
			s.o.Log.Warn("ack does not follow its check point, the message comes again", "topic", ck.Topic, "group", ck.Group,
				"error", err)
		}
	}
	return nil
}

func (s *Service) putElsewhere(ck *CheckPoint) error {
	m, err := s.checkPointRecord(ck, 0)
	if err != nil {
		return err
	}
	return s.o.Elsewhere(ck.key().name(), m)
}

// handOn gives away what the master has left in a revive queue: check points that are over, with their acks as far as those
// are here too. What has not come out of the timer goes there from the timer itself.
func (r *ReviveService) handOn(q *reviveQueue) {
	s := r.s
	if !r.read(q) {
		return // the acks may be in the rest
	}
	for _, c := range q.cks {
		if c.done || c.acked == c.ck.all() {
			c.done = true
			continue
		}
		ck := c.ck
		ck.BitMap = int32(c.acked)
		if err := s.putElsewhere(&ck); err != nil {
			s.o.Log.Warn("check points of the master wait, no other broker takes them", "topic", ck.Topic, "group", ck.Group,
				"error", err)
			break
		}
		c.done = true
	}
	r.commit(q)
}

// forgetAway drops what other brokers take care of.
func (s *Service) forgetAway() {
	limit := s.o.Clock.Millis() - awayStay
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for k, e := range s.ledger.table {
		if e.ck.PopTime+e.ck.Invisible < limit && !e.buffered {
			delete(s.ledger.table, k)
			e.queue.visible(e.ck.all() &^ e.acked)
		}
	}
	for k, u := range s.ledger.before {
		if u.until < limit {
			delete(s.ledger.before, k)
		}
	}
}

// own tells that a check point is of this broker.
func (s *Service) own(ck *CheckPoint) bool {
	return ck.BrokerName == "" || ck.BrokerName == s.o.BrokerName
}

// original reads a message of a check point; nil: it was deleted by age.
func (s *Service) original(ck *CheckPoint, at codec.QueueOffset) ([]byte, error) {
	if !s.own(ck) {
		if s.o.Fetch == nil {
			return nil, errNotHere
		}
		raw, err := s.o.Fetch(ck.BrokerName, ck.Topic, ck.QueueID, at)
		if errors.Is(err, ErrGone) {
			return nil, nil
		}
		return raw, err
	}
	entries := s.o.Store.QueueEntries(ck.Topic, ck.QueueID, at, 1)
	if len(entries) == 0 {
		return nil, nil
	}
	raw, err := s.o.Store.ReadRecord(entries[0].PhyOffset, nil)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return raw, err
}
