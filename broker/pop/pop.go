package pop

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"skylark/codec"
	"skylark/store"
)

// ErrFull: more check points are open than Settings.MaxOpen.
var ErrFull = errors.New("pop: too many messages are invisible")

// Request asks for messages that become invisible to the group.
type Request struct {
	Topic, Group, AttemptID string
	QueueID                 int32 // -1: any
	MaxMsgs                 int
	Invisible               int64 // ms
	FromMax                 bool  // a new group begins with the last message
	Order                   bool
	Filter                  store.MessageFilter // nil = all
	Buf                     []byte              // memory for Response.Body
}

// Response is what was popped.
type Response struct {
	PopTime   int64 // ms
	ReviveQID int32
	Rest      int64 // messages that the queues have besides
	Count     int
	Body      []byte // records
	Taken     []Taken
	req       *Request
	// More tells that another pop would find something now.
	More  bool
	infos infos
	res   store.GetResult
	err   error // why something was not taken
}

// Taken is what came from one queue.
type Taken struct {
	Topic   string
	QueueID int32
	Count   int
	Bytes   int
}

// Info gives the three info strings of the answer.
func (r *Response) Info() (start, msgs, order string) {
	return r.infos.start.String(), r.infos.msgs.String(), r.infos.order.String()
}

// errSameName: a check point of this queue, offset and pop time is open; a message whose invisible time was changed in
// this millisecond, say, that is popped again because a crash has taken the group's offset back.
var errSameName = errors.New("the same messages were popped in this millisecond")

// maxSameName bounds how much later than now a pop is dated because of that, in ms.
const maxSameName = 100

// Pop takes messages. It may wait for the disk. The error is about the broker; finding nothing is none.
func (s *Service) Pop(req *Request) (resp *Response, err error) {
	for now, later := s.o.Clock.Millis(), int64(0); later < maxSameName; later++ {
		if resp, err = s.pop(req, now+later); !errors.Is(err, errSameName) {
			break
		}
	}
	return resp, err
}

func (s *Service) pop(req *Request, popTime int64) (*Response, error) {
	set := s.o.Settings()
	resp := &Response{PopTime: popTime, ReviveQID: codec.PopOrderReviveQueue, req: req, Body: req.Buf[:0]}
	if !req.Order {
		resp.ReviveQID = int32(s.pops.Add(1) % uint32(max(s.o.ReviveQueues, 1)))
		if s.ledger.len() >= set.MaxOpen {
			return nil, fmt.Errorf("%w: %d pops are open", ErrFull, set.MaxOpen)
		}
	}
	r := rand.IntN(100)
	retryFirst := r < set.FromRetryPercent
	if retryFirst && !req.Order {
		s.popTopic(resp, &set, s.retryTopic(req, &set, r), r)
	}
	if req.QueueID < 0 {
		s.popTopic(resp, &set, req.Topic, r)
	} else {
		s.popQueue(resp, &set, req.Topic, req.QueueID)
	}
	if !retryFirst && !req.Order && resp.Count < req.MaxMsgs {
		s.popTopic(resp, &set, s.retryTopic(req, &set, r), r)
	}
	if resp.Count == 0 && set.RetryV2 && set.ReadRetryV1 && !req.Order {
		s.popTopic(resp, &set, s.retryTopic(req, &set, r+1), r) // the other one, before anybody waits
	}
	if resp.Count == 0 && resp.err != nil {
		return nil, resp.err
	}
	return resp, nil
}

// retryTopic is the one retry topic that a pop looks at: an answer may name a queue once for normal topics and once for
// retry topics.
func (s *Service) retryTopic(req *Request, set *Settings, r int) string {
	if !set.RetryV2 || set.ReadRetryV1 && r%2 == 0 {
		return codec.PopRetryTopicV1(req.Topic, req.Group)
	}
	return codec.PopRetryTopicV2(req.Topic, req.Group)
}

func (s *Service) popTopic(resp *Response, set *Settings, topic string, r int) {
	n := s.o.TopicQueues(topic)
	for i := range n {
		s.popQueue(resp, set, topic, (int32(r)+i)%n)
	}
}

// popQueue takes from one queue what the answer has room for.
func (s *Service) popQueue(resp *Response, set *Settings, topic string, queueID int32) {
	req := resp.req
	q := s.queue(topic, req.Group, queueID)
	q.mu.Lock()
	defer q.mu.Unlock()
	s.advance(q)
	at := s.position(q, req, set)
	end := s.o.Store.MaxOffset(topic, queueID)
	if set.InflightThreshold > 0 && q.inflight.Load() > set.InflightThreshold {
		resp.Rest += int64(max(end-at, 0))
		return
	}
	if req.Order {
		if s.order.blocked(req.AttemptID, q.queueKey, req.Invisible) {
			return // its rest wakes nobody: nobody can have it
		}
		q.inflight.Store(0)
	}
	if resp.Count >= req.MaxMsgs || len(q.wait) >= set.OffsetQueueMax {
		resp.Rest += int64(max(end-at, 0))
		resp.More = resp.More || resp.Count >= req.MaxMsgs && end > at
		return
	}
	res := &resp.res
	get := store.GetRequest{Topic: topic, QueueID: queueID, Offset: at, MaxMsgs: req.MaxMsgs - resp.Count,
		Filter: req.Filter, AllowCold: true}
	s.o.Store.Get(&get, res)
	switch res.Status {
	case store.GetOffsetTooSmall, store.GetOffsetOverflowBadly, store.GetOffsetFoundNull:
		s.o.Log.Warn("pop offset is outside its queue", "topic", topic, "group", req.Group, "queueId", queueID, "offset",
			int64(at), "corrected", int64(res.NextOffset))
		res.Messages.Release()
		at = res.NextOffset
		q.wait, q.next = q.wait[:0], -1
		s.commit(q, at)
		get.Offset = at
		s.o.Store.Get(&get, res)
	}
	defer res.Messages.Release()
	switch res.Status {
	case store.GetFound:
		if err := s.take(resp, set, q, at); err != nil {
			resp.err = err
			resp.Rest += int64(max(res.MaxOffset-at, 0)) // nobody is woken for what cannot be had
			return
		}
	case store.GetNoMatchedMessage, store.GetOffsetFoundNull, store.GetMessageWasRemoving, store.GetNoMatchedLogicQueue:
		s.skip(q, req, at, res.NextOffset)
	}
	if left := int64(res.MaxOffset - res.NextOffset); left > 0 {
		resp.Rest, resp.More = resp.Rest+left, true
	}
}

// skip moves a group over messages that its filter does not want.
func (s *Service) skip(q *queue, req *Request, at, next codec.QueueOffset) {
	switch {
	case next <= at:
	case req.Order:
		s.commit(q, next)
	default:
		s.later(q, waiting{next: next})
		s.advance(q)
	}
}

// position is where a group pops next. Called with q.mu.
func (s *Service) position(q *queue, req *Request, set *Settings) codec.QueueOffset {
	if at, ok := s.o.Offsets.TakeReset(q.topic, q.group, q.queueID); ok {
		s.order.clear(q.queueKey)
		q.wait, q.next = q.wait[:0], -1
		q.inflight.Store(0)
		s.commit(q, at)
		return at
	}
	at, ok := s.o.Offsets.Query(q.group, q.topic, q.queueID)
	if !ok {
		at = s.initial(q, req, set)
		s.commit(q, at)
	}
	return max(at, q.next)
}

// initial is where a group begins that has no offset (Java getInitOffset): a group that begins at the end gets the last
// message too, and all of a queue that is young.
func (s *Service) initial(q *queue, req *Request, set *Settings) codec.QueueOffset {
	lo := s.o.Store.MinOffset(q.topic, q.queueID)
	if !req.FromMax || codec.IsRetryTopic(q.topic) {
		return max(lo, 0)
	}
	if set.InitByMemory && lo <= 0 && s.o.Store.CheckInMemory(q.topic, q.queueID, 0) {
		return 0
	}
	return max(s.o.Store.MaxOffset(q.topic, q.queueID)-1, 0)
}

// Has tells whether a group would find something in a queue, or in any.
func (s *Service) Has(topic, group string, queueID int32, order bool, attemptID string) bool {
	has := func(name string, id int32) bool {
		k := queueKey{name, group, id}
		if order && s.order.blocked(attemptID, k, 0) {
			return false
		}
		at, _ := s.Position(name, group, id)
		return s.o.Store.MaxOffset(name, id) > at
	}
	if queueID >= 0 {
		if has(topic, queueID) {
			return true
		}
	} else {
		for id := range s.o.TopicQueues(topic) {
			if has(topic, id) {
				return true
			}
		}
	}
	if order {
		return false
	}
	for _, name := range s.RetryTopics(topic, group) {
		for id := range s.o.TopicQueues(name) {
			if has(name, id) {
				return true
			}
		}
	}
	return false
}

// Ends sums up the ends of all queues that a group's pop looks at: it changes when a message arrives.
func (s *Service) Ends(topic, group string, queueID int32) (sum int64) {
	names := append(s.RetryTopics(topic, group), topic)
	for _, name := range names {
		for id := range s.o.TopicQueues(name) {
			if name != topic || queueID < 0 || id == queueID {
				sum += int64(s.o.Store.MaxOffset(name, id))
			}
		}
	}
	return sum
}

// RetryTopics are those that a group's pops of a topic read.
func (s *Service) RetryTopics(topic, group string) []string {
	set := s.o.Settings()
	v1 := codec.PopRetryTopicV1(topic, group)
	switch {
	case !set.RetryV2:
		return []string{v1}
	case set.ReadRetryV1:
		return []string{codec.PopRetryTopicV2(topic, group), v1}
	}
	return []string{codec.PopRetryTopicV2(topic, group)}
}

// Position is where a group stands in a queue: behind what was popped. ok is false when it has never popped there; then
// it is the begin of the queue.
func (s *Service) Position(topic, group string, queueID int32) (at codec.QueueOffset, ok bool) {
	at, ok = s.o.Offsets.Query(group, topic, queueID)
	if !ok {
		at = max(s.o.Store.MinOffset(topic, queueID), 0)
	}
	if q := s.peekQueue(topic, group, queueID); q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		at, ok = max(at, q.next), ok || q.next >= 0
	}
	return at, ok
}

// take makes what was read invisible and adds it to the answer. Called with q.mu.
func (s *Service) take(resp *Response, set *Settings, q *queue, at codec.QueueOffset) (err error) {
	req, before := resp.req, len(resp.Body)
	resp.Body = resp.res.Messages.AppendTo(resp.Body)
	defer func() {
		if err != nil {
			resp.Body = resp.Body[:before]
			err = fmt.Errorf("pop: topic %s queue %d: %w", q.topic, q.queueID, err)
		}
	}()
	flag := FlagOf(q.topic)
	recode := flag != NormalTopic && !set.ReturnRetryTopic
	var recs []codec.Record
	offsets := make([]codec.QueueOffset, 0, req.MaxMsgs-resp.Count)
	for rest := resp.Body[before:]; len(rest) > 0; {
		rec, err := codec.ParseRecord(rest, false)
		if err != nil {
			return err
		}
		if recode {
			recs = append(recs, rec)
		}
		offsets, rest = append(offsets, rec.OffsetIn(q.topic)), rest[rec.TotalSize:]
	}
	if req.Order {
		s.order.popped(&resp.infos, flag, req, q.queueKey, resp.PopTime, offsets)
		s.commit(q, at)
	} else if err := s.checkPoint(resp, set, q, at, offsets); err != nil {
		return err
	}
	resp.infos.add(flag, q.queueID, at, offsets)
	if recode {
		var body []byte
		for i := range recs {
			receipt := Receipt{StartOffset: at, PopTime: resp.PopTime, Invisible: req.Invisible,
				ReviveQID: resp.ReviveQID, Flag: flag, Broker: s.o.BrokerName, QueueID: q.queueID, Offset: offsets[i]}
			body = s.recode(body, &recs[i], req.Topic, receipt)
		}
		resp.Body = append(resp.Body[:before], body...)
	}
	q.inflight.Add(int64(len(offsets)))
	resp.Count += len(offsets)
	resp.Taken = append(resp.Taken, Taken{q.topic, q.queueID, len(offsets), len(resp.Body) - before})
	if set.Log {
		s.trace("popped", q.queueKey, "offset", int64(at), "messages", len(offsets), "popTime", resp.PopTime, "invisible",
			req.Invisible, "reviveQueue", resp.ReviveQID)
	}
	return nil
}

// recode gives a message of a retry topic as one of the topic that was asked for, with its receipt.
func (s *Service) recode(dst []byte, rec *codec.Record, topic string, receipt Receipt) []byte {
	m := rec.Message()
	m.Topic = topic
	if _, ok := codec.LookupProperty(m.Properties, codec.PropPopCK); !ok {
		if n := len(m.Properties); n > 0 && m.Properties[n-1] != codec.PropValueSeparator {
			m.Properties = append(m.Properties, codec.PropValueSeparator)
		}
		m.Properties = codec.AppendProperty(m.Properties, codec.PropPopCK, receipt.String())
	}
	out, err := codec.AppendRecordV1(dst, m)
	if err != nil { // the receipt has no room: the client makes it of the header
		s.o.Log.Error("retried message not recoded", "topic", topic, "error", err)
		return dst
	}
	return out
}

// checkPoint writes down that messages are invisible. Called with q.mu.
func (s *Service) checkPoint(resp *Response, set *Settings, q *queue, at codec.QueueOffset,
	offsets []codec.QueueOffset) error {
	e := &open{reviveQID: resp.ReviveQID, at: resp.PopTime, queue: q, ck: CheckPoint{BrokerName: s.o.BrokerName,
		Group: q.group, Invisible: resp.req.Invisible, Num: int8(len(offsets)), PopTime: resp.PopTime, QueueID: q.queueID,
		StartOffset: at, Topic: q.topic}}
	for _, o := range offsets {
		e.ck.Diffs = append(e.ck.Diffs, int32(o-at))
	}
	e.buffered = s.acting.Load() || set.Buffer && s.buffered.Load() < int64(set.BufferMax) &&
		resp.req.Invisible > 2*set.BufferHead.Milliseconds()
	if !s.ledger.add(e) {
		return errSameName
	}
	w := waiting{next: resp.res.NextOffset}
	if e.buffered {
		w.open = e
		s.keep(e)
	} else {
		if _, err := s.putCheckPoint(&e.ck, e.reviveQID); err != nil {
			s.ledger.remove(e)
			return err
		}
	}
	s.later(q, w)
	s.advance(q)
	return nil
}

func (s *Service) putCheckPoint(ck *CheckPoint, reviveQID int32) (store.PutResult, error) {
	m, err := s.checkPointRecord(ck, reviveQID)
	if err != nil {
		return store.PutResult{}, err
	}
	return s.put(m)
}

// put stores a message.
func (s *Service) put(m *codec.Message) (store.PutResult, error) {
	put := s.o.Store.Append(m)
	if put.Status != store.PutOK {
		return put, fmt.Errorf("pop: message of topic %s not stored: %v: %w", m.Topic, put.Status, errors.Join(put.Err))
	}
	for end := int64(put.EndOffset); ; { // before any offset passes over it
		last := s.lastPut.Load()
		if last >= end || s.lastPut.CompareAndSwap(last, end) {
			break
		}
	}
	s.o.Stored(m, &put)
	return put, nil
}
