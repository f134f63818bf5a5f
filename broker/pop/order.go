package pop

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/persist"
)

// orderInfo is what an orderly pop took from a queue (Java ConsumerOrderInfoManager.OrderInfo).
type orderInfo struct {
	AttemptID   string          `json:"a,omitnull"`
	CommitBits  uint64          `json:"cm"`
	Invisible   int64           `json:"i"`
	LastConsume int64           `json:"l"`
	Offsets     []int64         `json:"o"` // the first, then distances to it
	Consumed    map[int64]int   `json:"oc,omitnull"`
	NextVisible map[int64]int64 `json:"ot,omitnull"`
	PopTime     int64           `json:"popTime"`
}

// maxOrderly is how many messages an orderly pop can take: the bits of orderInfo.
const maxOrderly = 64

func (o *orderInfo) offset(i int) int64 {
	if i == 0 {
		return o.Offsets[0]
	}
	return o.Offsets[0] + o.Offsets[i]
}

func (o *orderInfo) index(at int64) int {
	for i := range o.Offsets {
		if o.offset(i) == at {
			return i
		}
	}
	return -1
}

// next is the first offset that is not acknowledged, or the one behind the last.
func (o *orderInfo) next() codec.QueueOffset {
	for i := range o.Offsets {
		if o.CommitBits&(1<<i) == 0 {
			return codec.QueueOffset(o.offset(i))
		}
	}
	return codec.QueueOffset(o.offset(len(o.Offsets)-1) + 1)
}

// visible is when message i may be popped again.
func (o *orderInfo) visible(i int) int64 {
	if t, ok := o.NextVisible[o.offset(i)]; ok {
		return t
	}
	return o.PopTime + o.Invisible
}

// blockedUntil is the time until which the queue is blocked, 0 when it is not.
func (o *orderInfo) blockedUntil(now int64) (until int64) {
	for i := range o.Offsets {
		if o.CommitBits&(1<<i) == 0 && o.visible(i) > now {
			until = max(until, o.visible(i))
		}
	}
	return until
}

// orderFile is config/consumerOrderInfo.json.
type orderFile struct {
	Table map[string]map[int32]*orderInfo `json:"table"`
}

// orderTable keeps what orderly pops took (Java ConsumerOrderInfoManager).
type orderTable struct {
	s  *Service
	mu sync.Mutex
	// table is by topic@group and queue; an info is never shared with what save writes.
	table  map[string]map[int32]*orderInfo
	timers map[queueKey]clock.Timer
	dirty  bool
	closed bool
	saving sync.Mutex
}

func (t *orderTable) init(s *Service) {
	t.s, t.table, t.timers = s, map[string]map[int32]*orderInfo{}, map[queueKey]clock.Timer{}
}

func tableKey(k queueKey) string { return k.topic + codec.TopicGroupSeparator + k.group }

// load reads the file.
func (t *orderTable) load() error {
	var f orderFile
	if _, err := persist.Load(t.s.o.FS, t.s.o.OrderFile, &f, t.s.o.Log); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, queues := range f.Table {
		for id, o := range queues {
			if o == nil || len(o.Offsets) == 0 || len(o.Offsets) > maxOrderly {
				delete(queues, id)
			}
		}
		if len(queues) > 0 {
			t.table[name] = queues
		}
	}
	return nil
}

// start has waiters look again when what was read is free.
func (t *orderTable) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, queues := range t.table {
		topic, group, _ := strings.Cut(name, codec.TopicGroupSeparator)
		for id, o := range queues {
			t.wakeLater(queueKey{topic, group, id}, o)
		}
	}
}

func (t *orderTable) get(k queueKey) *orderInfo { return t.table[tableKey(k)][k.queueID] }

// blocked tells whether messages of a queue are being consumed in order, by another attempt.
func (t *orderTable) blocked(attemptID string, k queueKey, invisible int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.get(k)
	if o == nil || attemptID != "" && o.AttemptID == attemptID {
		return false
	}
	if o.Invisible <= 0 {
		o.Invisible = invisible
	}
	return o.blockedUntil(t.s.o.Clock.Millis()) > 0
}

func (t *orderTable) clear(k queueKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.get(k) != nil {
		delete(t.table[tableKey(k)], k.queueID)
		t.dirty = true
	}
}

// popped notes what an orderly pop took and tells how often it was taken before.
func (t *orderTable) popped(in *infos, flag int, req *Request, k queueKey, popTime int64, offsets []codec.QueueOffset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &orderInfo{AttemptID: req.AttemptID, Invisible: req.Invisible, LastConsume: popTime, PopTime: popTime}
	for i, at := range offsets {
		if i > 0 {
			at -= offsets[0]
		}
		o.Offsets = append(o.Offsets, int64(at))
	}
	if old := t.get(k); old != nil {
		if req.AttemptID != "" && old.AttemptID == req.AttemptID {
			o.Consumed = old.Consumed
		} else {
			o.Consumed = map[int64]int{}
			for _, at := range offsets {
				if old.index(int64(at)) >= 0 {
					o.Consumed[int64(at)] = old.Consumed[int64(at)] + 1
				}
			}
		}
	}
	if t.table[tableKey(k)] == nil {
		t.table[tableKey(k)] = map[int32]*orderInfo{}
	}
	t.table[tableKey(k)][k.queueID] = o
	t.dirty = true
	least, known := 0, 0
	for _, at := range offsets {
		n := o.Consumed[int64(at)]
		if n == 0 {
			continue
		}
		if known++; known == 1 || n < least {
			least = n
		}
		in.addCount(flag, k.queueID, at, n)
	}
	if known != len(offsets) {
		least = 0
	}
	in.addQueueCount(flag, k.queueID, least)
	t.wakeLater(k, o)
}

// wakeLater has waiters look again when the queue is free. Called with mu.
func (t *orderTable) wakeLater(k queueKey, o *orderInfo) {
	if tm := t.timers[k]; tm != nil {
		tm.Stop()
		delete(t.timers, k)
	}
	now := t.s.o.Clock.Millis()
	until := o.blockedUntil(now)
	if until == 0 || t.closed {
		return
	}
	t.timers[k] = t.s.o.Clock.AfterFunc(time.Duration(until-now)*time.Millisecond, func() { t.s.wakeQueue(k) })
}

// wakeQueue has one waiter of each kind look at a queue.
func (s *Service) wakeQueue(k queueKey) {
	s.polling.Notify(k.topic, k.group, -1)
	s.polling.Notify(k.topic, k.group, k.queueID)
}

// find gives the information that a receipt belongs to. Called with mu.
func (t *orderTable) find(r *Receipt, k queueKey, at codec.QueueOffset) (o *orderInfo, i int, err error) {
	o = t.get(k)
	if o == nil || o.PopTime != r.PopTime {
		return nil, 0, fmt.Errorf("%w: the queue was popped again since", ErrSettled)
	}
	if i = o.index(int64(at)); i < 0 {
		return nil, 0, fmt.Errorf("%w: offset %d was not popped with it", ErrMismatch, at)
	}
	if o.CommitBits&(1<<i) != 0 {
		return nil, 0, ErrSettled
	}
	return o, i, nil
}

// ackOrderly acknowledges a message of an orderly pop: the group's offset moves to the first that is not.
func (s *Service) ackOrderly(r *Receipt, topic, group string, queueID int32, at codec.QueueOffset) error {
	k := queueKey{topic, group, queueID}
	q := s.queue(topic, group, queueID)
	q.mu.Lock()
	free, err := s.commitOrderly(r, q, at)
	q.mu.Unlock()
	if free {
		s.wakeQueue(k)
	}
	return err
}

func (s *Service) commitOrderly(r *Receipt, q *queue, at codec.QueueOffset) (free bool, err error) {
	if done, ok := s.o.Offsets.Query(q.group, q.topic, q.queueID); ok && at < done {
		return false, ErrSettled
	}
	t := &s.order
	t.mu.Lock()
	defer t.mu.Unlock()
	o, i, err := t.find(r, q.queueKey, at)
	if err != nil {
		return false, err
	}
	o.CommitBits |= 1 << i
	t.dirty = true
	if !s.o.Offsets.HasReset(q.topic, q.group, q.queueID) {
		s.commit(q, o.next())
	}
	q.visible(1)
	t.wakeLater(q.queueKey, o)
	return o.blockedUntil(s.o.Clock.Millis()) == 0, nil
}

// changeOrderly has a message of an orderly pop come again at another time.
func (s *Service) changeOrderly(r *Receipt, topic, group string, queueID int32, at codec.QueueOffset,
	invisible int64) (popTime, newInvisible int64, err error) {
	q := s.queue(topic, group, queueID)
	q.mu.Lock()
	defer q.mu.Unlock()
	if done, ok := s.o.Offsets.Query(group, topic, queueID); ok && at < done {
		return 0, 0, ErrSettled
	}
	t := &s.order
	t.mu.Lock()
	defer t.mu.Unlock()
	o, _, err := t.find(r, q.queueKey, at)
	if err != nil {
		return 0, 0, err
	}
	visible := s.o.Clock.Millis() + invisible
	if o.NextVisible == nil {
		o.NextVisible = map[int64]int64{}
	}
	o.NextVisible[int64(at)] = visible
	t.dirty = true
	t.wakeLater(q.queueKey, o)
	return r.PopTime, visible - r.PopTime, nil
}

// SaveOrder writes consumerOrderInfo.json if something changed.
func (s *Service) SaveOrder() error { return s.order.save() }

// orderKept is how long the information of a queue that nobody consumes stays, in ms (Java: one day).
const orderKept = 24 * 60 * 60 * 1000

func (t *orderTable) save() error {
	t.saving.Lock()
	defer t.saving.Unlock()
	t.mu.Lock()
	if !t.dirty {
		t.mu.Unlock()
		return nil
	}
	limit := t.s.o.Clock.Millis() - orderKept
	f := orderFile{Table: map[string]map[int32]*orderInfo{}}
	for name, queues := range t.table {
		out := map[int32]*orderInfo{}
		for id, o := range queues {
			if o.LastConsume < limit {
				delete(queues, id)
				continue
			}
			out[id] = o.clone()
		}
		if len(out) == 0 {
			delete(t.table, name)
			continue
		}
		f.Table[name] = out
	}
	t.dirty = false
	t.mu.Unlock()
	err := persist.Save(t.s.o.FS, t.s.o.OrderFile, &f)
	if err != nil {
		t.mu.Lock()
		t.dirty = true
		t.mu.Unlock()
	}
	return err
}

func (o *orderInfo) clone() *orderInfo {
	c := *o
	c.NextVisible = map[int64]int64{}
	for k, v := range o.NextVisible {
		c.NextVisible[k] = v
	}
	if len(c.NextVisible) == 0 {
		c.NextVisible = nil
	}
	return &c
}

func (t *orderTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, tm := range t.timers {
		tm.Stop()
	}
	clear(t.timers)
}
