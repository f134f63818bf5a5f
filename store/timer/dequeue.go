package timer

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"skylark/codec"
	"skylark/store"
)

// slotRun is a slot on its way out.
type slotRun struct {
	time  int64
	last  int64 // the newest unit it has taken
	items []item
	next  int
	// recalled are the keys (topic+uniqKey) of messages that are not to be delivered; true once one was met.
	recalled map[string]bool
	topics   map[string]string // key → real topic
}

// item is one message of a slot, in the order of arrival.
type item struct {
	phy     codec.PhyOffset
	enqueue int64
	rolls   bool
}

// dequeue delivers a batch of what is due: late ones first, then slots in the order of time, each as it was filled.
// busy tells that there is more. An error leaves the rest for later.
func (s *TimerMessageStore) dequeue(live *Live, due int64) (busy bool, err error) {
	s.mu.Lock()
	s.writeTime = due
	s.mu.Unlock()
	if live.StopDequeue {
		return false, nil
	}
	defer s.hurry()
	left := dequeueBatch
	for ; left > 0 && len(s.late) > 0; left-- {
		if err := s.deliverLate(live); err != nil {
			return false, err
		}
	}
	for left > 0 {
		if s.cur == nil {
			if ok, err := s.open(); !ok || err != nil {
				return false, err
			}
		}
		for ; left > 0 && s.cur.next < len(s.cur.items); left-- {
			it := &s.cur.items[s.cur.next]
			if err := s.deliver(live, it.phy, it.enqueue, it.rolls, s.cur.time+s.precision, s.cur); err != nil {
				return false, err
			}
			s.cur.next++
		}
		if s.cur.next == len(s.cur.items) {
			if err := s.finish(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// hurry has what was delivered flushed, so that consumers see it also with SYNC_FLUSH.
func (s *TimerMessageStore) hurry() {
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	if end > s.o.Store.FlushedWhere() {
		s.o.Store.Durable(end, 0, func(store.PutStatus) {})
	}
}

func (s *TimerMessageStore) deliverLate(live *Live) error {
	l := s.late[0]
	if err := s.deliver(live, l.phy, math.MaxInt64, false, l.due, nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = s.late[1:]
	s.settled()
	s.setDirty()
	return nil
}

// open takes the next slot that is due; false when there is none.
func (s *TimerMessageStore) open() (bool, error) {
	s.mu.Lock()
	t := s.wheel.next(s.readTime, s.writeTime)
	if t > s.readTime {
		s.readTime = t
	}
	sl, ok := s.wheel.get(t)
	due := t < s.writeTime
	if !due || !ok {
		s.mu.Unlock()
		return false, nil
	}
	s.units.use(s.log)
	s.slotOpen = true
	s.opened()
	s.mu.Unlock()
	r := &slotRun{time: t, last: none}
	if err := s.collect(r, sl.last); err != nil {
		return false, err
	}
	s.cur = r
	return true, nil
}

// collect walks the units of a slot from the last one down to the one that was the last before, and reads the recalls
// among them.
func (s *TimerMessageStore) collect(r *slotRun, last int64) error {
	from := len(r.items)
	var recalls []codec.PhyOffset
	for pos := last; pos != none && pos > r.last; {
		u, err := s.units.back(pos)
		wrong := err == nil && (s.floor(u.due) != r.time || u.prev >= pos)
		if wrong || errors.Is(err, store.ErrNotFound) || store.IsCorrupt(err) {
			s.o.Log.Error("timer log is damaged, messages of a slot may be lost", "slot", r.time, "position", pos,
				"error", err)
			break
		}
		if err != nil {
			return err
		}
		if u.deletes() && !u.rolls() {
			recalls = append(recalls, u.phy)
		} else {
			r.items = append(r.items, item{u.phy, u.enqueue, u.rolls()})
		}
		pos = u.prev
	}
	for i, j := from, len(r.items)-1; i < j; i, j = i+1, j-1 {
		r.items[i], r.items[j] = r.items[j], r.items[i]
	}
	for _, p := range recalls {
		rec, err := s.record(p)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return err
		}
		if key, ok := rec.Property(codec.PropTimerDelUniqKey); ok {
			if r.recalled == nil {
				r.recalled, r.topics = map[string]bool{}, map[string]string{}
			}
			topic, _ := rec.Property(codec.PropRealTopic)
			r.recalled[string(key)], r.topics[string(key)] = false, string(topic)
		}
	}
	r.last = last
	return nil
}

// finish empties the slot, unless something came to it meanwhile: that is delivered too.
func (s *TimerMessageStore) finish() error {
	r := s.cur
	s.mu.Lock()
	sl, ok := s.wheel.get(r.time)
	if ok && sl.last != r.last {
		s.units.use(s.log)
		s.mu.Unlock()
		return s.collect(r, sl.last)
	}
	defer s.mu.Unlock()
	now := s.o.Clock.Millis()
	for key, met := range r.recalled {
		if met {
			continue
		}
		s.metrics.add(r.topics[key], 1, now) // its unit was counted as one message less
		if r.time+s.precision < s.writeTime {
			s.noteOverdue(key)
		}
	}
	s.wheel.clear(r.time)
	s.readTime = r.time + s.precision
	if s.done != nil && s.readTime > s.doneUntil {
		s.done = nil
	}
	s.cur, s.slotOpen = nil, false
	s.settled()
	s.setDirty()
	return nil
}

// RecallKey names a message that is to be recalled: the value of TIMER_DEL_UNIQKEY (Java buildDeleteKey).
func RecallKey(topic, uniqKey string) string { return topic + "+" + uniqKey }

// deliver puts the message at p to its real topic, or if it rolls to the timer topic again. A record that is gone,
// damaged or has no place to go is skipped; whatever may get better is an error.
func (s *TimerMessageStore) deliver(live *Live, p codec.PhyOffset, enqueue int64, rolls bool, due int64, r *slotRun) error {
	skip := func(why string, err error) error {
		s.o.Log.Error("timer message skipped: "+why, "phyOffset", int64(p), "slot", due-s.precision, "error", err)
		return nil
	}
	rec, err := s.record(p)
	switch {
	case errors.Is(err, errGone):
		return skip("its record is gone", err)
	case err != nil && live.SkipUnknownError:
		return skip("timerSkipUnknownError", err)
	case err != nil:
		return err
	}
	value, hasTopic := rec.Property(codec.PropRealTopic)
	topic := s.name(value)
	uniqKey, _ := rec.Property(codec.PropUniqKey)
	_, isRecall := rec.Property(codec.PropTimerDelUniqKey)
	change := int64(-1)
	switch {
	case enqueue == math.MaxInt64: // it never was in the wheel
		change = 0
	case isRecall:
		change = 1
	}
	switch {
	case isRecall && rolls:
		if value, _ := rec.Property(codec.PropTimerOutMs); s.isOver(value) {
			s.noteRecall(&rec)
		}
	case isRecall:
		if s.readTime < s.writeTime { // what it recalls may roll out of a slot that comes yet
			s.noteRecall(&rec)
		}
		return nil
	case !rolls && s.isRecalled(topic, uniqKey, change, r):
		return nil
	}
	if !hasTopic {
		return skip("it has no place to go", errors.New("REAL_TOPIC is missing"))
	}
	m, times, err := s.original(&rec, topic, enqueue, rolls)
	if err != nil {
		return skip("it has no place to go", err)
	}
	if s.wasDone(m, uniqKey, times) {
		s.left(topic, change, 0)
		return nil
	}
	return s.put(live, m, &rec, topic, change, due)
}

// isRecalled tells that a message is not to be delivered, and counts that it has left the wheel. With a recall in its own
// slot it has been counted: the unit of a recall is one message less.
func (s *TimerMessageStore) isRecalled(topic string, uniqKey []byte, change int64, r *slotRun) bool {
	recalled := s.lateRecalls
	if r != nil {
		recalled = r.recalled
	}
	if len(recalled)+len(s.overdue) == 0 {
		return false
	}
	key := RecallKey(topic, string(uniqKey))
	if _, ok := recalled[key]; ok {
		recalled[key] = true
		return true
	}
	if _, ok := s.overdue[key]; ok {
		s.left(topic, change, 0)
		return true
	}
	return false
}

// isOver tells that the slot of a message, by its TIMER_OUT_MS, is over.
func (s *TimerMessageStore) isOver(out []byte) bool {
	at, err := strconv.ParseInt(string(out), 10, 64)
	return err == nil && at < s.writeTime
}

func (s *TimerMessageStore) noteRecall(rec *codec.Record) {
	key, _ := rec.Property(codec.PropTimerDelUniqKey)
	s.noteOverdue(string(key))
}

// noteOverdue remembers a recall that may meet its message later. After a stop slots are delivered in the order of time,
// all at once: a message or a recall that rolls out of one of them comes back when the slot of both is over.
func (s *TimerMessageStore) noteOverdue(key string) {
	if s.overdue == nil {
		s.overdue = map[string]int64{}
	}
	s.overdue[key] = s.o.Clock.Millis()
}

// forgetOverdue drops what was noted long ago.
func (s *TimerMessageStore) forgetOverdue(now int64) {
	for key, at := range s.overdue {
		if now-at > keepOverdue.Milliseconds() || now < at {
			delete(s.overdue, key)
		}
	}
}

// put appends the message to the log.
func (s *TimerMessageStore) put(live *Live, m *codec.Message, rec *codec.Record, topic string, change, due int64) error {
	s.begin()
	put := s.o.Store.Append(m)
	if put.Status == store.PropertiesSizeExceeded { // a record of Java's: its way is told no one
		m.Properties = rec.Properties
		put = s.o.Store.Append(m)
	}
	switch put.Status {
	case store.PutOK:
	case store.MessageIllegal, store.PropertiesSizeExceeded:
		s.o.Log.Error("timer message skipped: the store refuses it", "phyOffset", int64(rec.PhyOffset), "error", put.Err)
		s.left(topic, change, 0)
		return nil
	case store.UnknownError:
		if live.SkipUnknownError {
			s.o.Log.Error("timer message skipped: timerSkipUnknownError", "phyOffset", int64(rec.PhyOffset), "error", put.Err)
			s.left(topic, change, 0)
			return nil
		}
		fallthrough
	default:
		return fmt.Errorf("timer: message at %d: %v: %w", rec.PhyOffset, put.Status, put.Err)
	}
	d := Delivery{Topic: m.Topic, QueueID: m.QueueID, SizeBytes: int(put.EndOffset - put.PhyOffset),
		Rolled: m.Topic == codec.TimerTopic}
	if !d.Rolled {
		d.LateMillis = max(s.o.Clock.Millis()-due, 0)
		s.lateMillis.Store(d.LateMillis)
		if d.LateMillis > s.worstLate.Load() {
			s.worstLate.Store(d.LateMillis)
		}
	}
	s.left(topic, change, put.EndOffset)
	s.o.Delivered(d)
	return nil
}

// left counts a message that left the wheel.
func (s *TimerMessageStore) left(topic string, change int64, end codec.PhyOffset) {
	now := s.o.Clock.Millis()
	s.mu.Lock()
	defer s.mu.Unlock()
	if change != 0 {
		s.metrics.add(topic, change, now)
	}
	s.end = max(s.end, end)
	s.dequeued.add(1, now)
	s.setDirty()
}

// original makes the message that leaves the wheel, valid until the next call, with the times of its way. REAL_TOPIC and
// REAL_QID stay among the properties: Java's consumers see them too. times is how often it has rolled.
func (s *TimerMessageStore) original(rec *codec.Record, topic string, enqueue int64, rolls bool) (m *codec.Message,
	times int, err error) {
	queue, _ := rec.Property(codec.PropRealQueueID)
	queueID, parseErr := strconv.ParseInt(string(queue), 10, 32)
	if parseErr != nil || queueID < 0 {
		return nil, 0, fmt.Errorf("%s is %q, %s is %q", codec.PropRealTopic, topic, codec.PropRealQueueID, queue)
	}
	if topic == codec.HalfTopic {
		return nil, 0, errors.New("half messages have no delay")
	}
	times = rollTimes(rec)
	props := codec.RemoveProperty(s.props[:0], rec.Properties, codec.PropTimerEnqueueMs, codec.PropTimerDequeueMs,
		codec.PropTimerRollTimes)
	props = codec.AppendProperty(props, codec.PropTimerEnqueueMs, strconv.FormatInt(enqueue, 10))
	m = &s.out
	*m = codec.Message{Topic: topic, QueueID: int32(queueID), Flag: rec.Flag, SysFlag: rec.SysFlag,
		BornTimestamp: rec.BornTimestamp, BornHost: rec.BornHost, StoreHost: rec.StoreHost,
		ReconsumeTimes: rec.ReconsumeTimes, Body: rec.Body}
	if rolls {
		times++
		m.Topic, m.QueueID = codec.TimerTopic, 0
	}
	if times > 0 {
		props = codec.AppendProperty(props, codec.PropTimerRollTimes, strconv.Itoa(times))
	}
	m.Properties = codec.AppendProperty(props, codec.PropTimerDequeueMs, strconv.FormatInt(s.o.Clock.Millis(), 10))
	s.props = m.Properties[:0]
	if tags, ok := rec.Property(codec.PropTags); ok {
		m.TagsCode = codec.TagsCode(tags)
	}
	return m, times, nil
}

// doneKey identifies a message that left the wheel. The id alone would not do: a producer that sends again after a lost
// answer uses it twice, so the keys are counted.
func doneKey(topic string, uniqKey []byte, times int) string {
	return fmt.Sprintf("%s\x00%s\x00%d", topic, uniqKey, times)
}

// wasDone tells that the message left the wheel before the crash, after the checkpoint.
func (s *TimerMessageStore) wasDone(m *codec.Message, uniqKey []byte, times int) bool {
	if s.done == nil {
		return false
	}
	key := doneKey(m.Topic, uniqKey, times)
	if s.done[key] == 0 {
		return false
	}
	s.done[key]--
	return true
}

// rollTimes is how often the message has rolled.
func rollTimes(rec *codec.Record) int {
	value, _ := rec.Property(codec.PropTimerRollTimes)
	times, _ := strconv.Atoi(string(value))
	return times
}
