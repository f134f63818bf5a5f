package dedup

import (
	"errors"
	"strconv"

	"skylark/codec"
	"skylark/store"
)

// maxRebuildBytes bounds how much of the log's end is read at a start.
const maxRebuildBytes = 4 << 30

// Rebuilt tells what a Rebuild did.
type Rebuilt struct {
	From, End codec.PhyOffset // what was read of the log
	Messages  int             // remembered
	Cut       bool            // the window goes further back than maxRebuildBytes
}

// Rebuild fills the windows from the end of the log: with what was stored within Keep before now, in ms. It is called
// before the first send; logFileSize is the length of a log file. Messages that wait for their time, and half messages,
// count for their real topic.
//
// Where to begin says the queues, by store time. The error is one of reading; what was read until then is remembered.
func (ws *Windows) Rebuild(s *store.MessageStore, logFileSize, now int64) (r Rebuilt, err error) {
	since := now - ws.o.Keep.Milliseconds()
	r.End = s.MaxPhyOffset()
	r.From = ws.begin(s, since, r.End)
	if r.End-r.From > maxRebuildBytes {
		size := codec.PhyOffset(logFileSize)
		if start := (r.End - maxRebuildBytes + size - 1) / size * size; start < r.End { // a record begins there
			r.From, r.Cut = start, true
		}
	}
	var buf []byte
	for at := r.From; at < r.End; {
		if buf, err = s.ReadRecord(at, buf); errors.Is(err, store.ErrNotFound) {
			size := codec.PhyOffset(logFileSize)
			at, err = (at/size+1)*size, nil // a blank ends the file
			continue
		}
		if err != nil {
			return r, err
		}
		rec, err := codec.ParseRecord(buf, false)
		if err != nil {
			return r, err
		}
		if ws.remember(&rec, since) {
			r.Messages++
		}
		at += codec.PhyOffset(rec.TotalSize)
	}
	return r, nil
}

// waitingTopics are where messages wait for their time or their commit.
var waitingTopics = []string{codec.ScheduleTopic, codec.TimerTopic, codec.HalfTopic}

// begin is the first place in the log of a message that was stored at or after a time, in ms, and may have a window.
func (ws *Windows) begin(s *store.MessageStore, since int64, end codec.PhyOffset) codec.PhyOffset {
	from := end
	for _, topic := range append(s.Topics(), waitingTopics...) {
		if !ws.wanted(topic) && !isWaiting(topic) {
			continue
		}
		for _, q := range s.Queues(topic) {
			at := s.OffsetByTime(topic, q, since, store.BoundaryLower)
			if entries := s.QueueEntries(topic, q, at, 1); len(entries) > 0 {
				from = min(from, entries[0].PhyOffset)
			}
		}
	}
	return max(from, s.MinPhyOffset())
}

func isWaiting(topic string) bool {
	for _, t := range waitingTopics {
		if topic == t {
			return true
		}
	}
	return false
}

// remember enters a record of the log.
func (ws *Windows) remember(rec *codec.Record, since int64) bool {
	if rec.StoreTimestamp < since {
		return false
	}
	topic := string(rec.Topic)
	f := Found{PhyOffset: rec.PhyOffset, End: rec.PhyOffset + codec.PhyOffset(rec.TotalSize), QueueOffset: rec.QueueOffset,
		QueueID: rec.QueueID, Half: topic == codec.HalfTopic}
	if isWaiting(topic) {
		real, _ := rec.Property(codec.PropRealTopic)
		id, _ := rec.Property(codec.PropRealQueueID)
		n, err := strconv.ParseInt(string(id), 10, 32)
		if _, recall := rec.Property(codec.PropTimerDelUniqKey); recall || len(real) == 0 || err != nil {
			return false
		}
		if out, ok := rec.Property(codec.PropTimerOutMs); ok && topic == codec.TimerTopic {
			f.Deliver, _ = strconv.ParseInt(string(out), 10, 64)
		}
		topic, f.QueueID = string(real), int32(n)
	}
	id, ok := rec.Property(codec.PropUniqKey)
	if !ok || len(id) == 0 || !ws.wanted(topic) {
		return false
	}
	w := ws.Of(topic)
	if w == nil {
		return false
	}
	w.Remember(id, f, rec.StoreTimestamp)
	return true
}
