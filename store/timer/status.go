package timer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/store"
)

// Status is how far the service has come.
type Status struct {
	Waiting          int64 // messages in the wheel, less the ones that were recalled
	ReadBehindMillis int64 // how long ago the slot was over that is delivered next; 0 = nothing is due
	OffsetBehind     int64 // messages of the timer topic that are not in the wheel yet
	QueueOffset      codec.QueueOffset
	ReadTimeMillis   int64
	EnqueueTps       float64 // messages a second over ten seconds
	DequeueTps       float64
	LateMillis       int64 // of the last delivery, behind the end of its slot
	WorstLateMillis  int64 // since the start
}

// Status tells how far the service has come.
func (s *TimerMessageStore) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock.Millis()
	st := Status{Waiting: max(s.wheel.waiting, 0), OffsetBehind: s.behind(), QueueOffset: s.queueOffset,
		ReadTimeMillis: s.readTime, EnqueueTps: s.enqueued.perSecond(now), DequeueTps: s.dequeued.perSecond(now),
		LateMillis: s.lateMillis.Load(), WorstLateMillis: s.worstLate.Load()}
	if due := s.wheel.next(s.readTime, s.floor(now)); due < s.floor(now) {
		st.ReadBehindMillis = now - due - s.precision
	}
	return st
}

// RuntimeInfo gives Java's keys of GET_BROKER_RUNTIME_INFO, and ours for the lateness.
func (s *TimerMessageStore) RuntimeInfo(into map[string]string) {
	st := s.Status()
	into["timerReadBehind"] = strconv.FormatInt(st.ReadBehindMillis/1000, 10)
	into["timerOffsetBehind"] = strconv.FormatInt(st.OffsetBehind, 10)
	into["timerCongestNum"] = strconv.FormatInt(st.Waiting, 10)
	into["timerEnqueueTps"] = strconv.FormatFloat(st.EnqueueTps, 'f', 1, 64)
	into["timerDequeueTps"] = strconv.FormatFloat(st.DequeueTps, 'f', 1, 64)
	into["timerLateMillis"] = fmt.Sprintf("%d,%d", st.LateMillis, st.WorstLateMillis)
}

// Congestion is how many messages wait in the slot of a time (ms).
func (s *TimerMessageStore) Congestion(t int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl, _ := s.wheel.get(t)
	return int64(sl.num)
}

// Metrics are the waiting messages by topic.
func (s *TimerMessageStore) Metrics() Metrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.metrics.clone()
}

// ForgetTopic drops the count of a topic that was deleted (Java removeTimingCount).
func (s *TimerMessageStore) ForgetTopic(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.metrics.TimingCount[topic]; ok {
		delete(s.metrics.TimingCount, topic)
		s.setDirty()
	}
}

// Checkpoint is the answer to GET_TIMER_CHECK_POINT: what the file says, with the offset as it is now.
func (s *TimerMessageStore) Checkpoint() Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// DistributionSeconds are the bounds of Distribution (Java TimerMetrics.timerDist).
var DistributionSeconds = []int64{5, 60, 300, 900, 3600, 14400, 28800, 86400}

// Distribution counts waiting messages by how far ahead they are: out[i] up to DistributionSeconds[i] and beyond the bound
// before it; the last one is the rest.
func (s *TimerMessageStore) Distribution() (out []int64) {
	out = make([]int64, len(DistributionSeconds)+1)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock.Millis()
	s.wheel.each(func(t int64, sl slot) {
		i, _ := slices.BinarySearch(DistributionSeconds, (t+s.precision-now+999)/1000)
		out[i] += int64(sl.num)
	})
	return out
}

// Waiting is a message in the wheel.
type Waiting struct {
	Topic     string
	QueueID   int32
	UniqKey   string
	DueMillis int64 // end of its slot, also of one that rolls before
	PhyOffset codec.PhyOffset
	Rolls     bool // it rolls at least once more
	Recall    bool // it is not a message but the recall of UniqKey
}

// List gives up to limit messages that wait, by their slots from the time on; topic "" = all topics. The times of
// messages that roll come from the messages, so those may be out of order. It reads files and may wait for the disk.
func (s *TimerMessageStore) List(topic string, from time.Time, limit int) (out []Waiting, err error) {
	s.mu.Lock()
	slots := map[int64]int64{}
	s.wheel.each(func(t int64, sl slot) {
		if t+s.precision >= from.UnixMilli() {
			slots[t] = sl.last
		}
	})
	var r reader
	r.use(s.log)
	s.mu.Unlock()
	times := make([]int64, 0, len(slots))
	for t := range slots {
		times = append(times, t)
	}
	slices.Sort(times)
	var buf []byte
	for _, t := range times {
		for pos := slots[t]; pos != none; {
			if len(out) >= limit {
				return out, nil
			}
			u, err := r.back(pos)
			if err != nil || u.prev >= pos {
				break // its slot is being delivered, or the log is damaged, which dequeue says
			}
			pos = u.prev
			raw, err := s.o.Store.ReadRecord(u.phy, buf)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return out, fail("record", u.phy, err)
			}
			buf = raw
			rec, err := codec.ParseRecord(raw, false)
			if err != nil {
				continue
			}
			if w := s.waiting(&rec, &u); topic == "" || w.Topic == topic {
				out = append(out, w)
			}
		}
	}
	return out, nil
}

func (s *TimerMessageStore) waiting(rec *codec.Record, u *unit) Waiting {
	topic, _ := rec.Property(codec.PropRealTopic)
	queue, _ := rec.Property(codec.PropRealQueueID)
	key, _ := rec.Property(codec.PropUniqKey)
	value, _ := rec.Property(codec.PropTimerOutMs)
	queueID, _ := strconv.ParseInt(string(queue), 10, 32)
	due, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		due = u.due
	}
	return Waiting{Topic: string(topic), QueueID: int32(queueID), UniqKey: string(key), DueMillis: due + s.precision,
		PhyOffset: u.phy, Rolls: u.rolls(), Recall: u.deletes()}
}
