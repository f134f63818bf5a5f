package storetest

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

// BatchTopicPrefix begins the topics of a test store whose queues are of the kind BatchCQ.
const BatchTopicPrefix = "batch-"

// QueueType is Options.QueueType of test stores.
func QueueType(topic string) store.CQType {
	if strings.HasPrefix(topic, BatchTopicPrefix) {
		return store.BatchCQ
	}
	return store.SimpleCQ
}

// InnerBatch is an inner batch with one message for each body. tag, if not empty, is the batch's own, and tags are those of
// the messages.
func InnerBatch(topic string, queueID int32, tag string, bodies, tags []string) *codec.Message {
	var body []byte
	for i, b := range bodies {
		e := codec.BatchEntry{Body: []byte(b)}
		if i < len(tags) {
			e.Properties = codec.AppendProperty(nil, codec.PropTags, tags[i])
		}
		body, _ = codec.AppendBatchEntry(body, e) // these are short
	}
	m := Message(topic, queueID, string(body), tag, "")
	m.SysFlag |= codec.SysFlagInnerBatch | codec.SysFlagNeedUnwrap
	m.Properties = codec.AppendProperty(m.Properties, codec.PropInnerNum, strconv.Itoa(len(bodies)))
	return m
}

// messages are the bodies in a run of records, those of inner batches one by one, and the queue offset of each.
func (h *harness) messages(recs []codec.Record) (bodies []string, offsets []store.QueueOffset) {
	h.Helper()
	for i := range recs {
		rec := &recs[i]
		if !rec.IsInnerBatch() {
			bodies, offsets = append(bodies, string(rec.Body)), append(offsets, rec.QueueOffset)
			continue
		}
		base, _ := rec.Property(codec.PropInnerBase)
		require.Equal(h, fmt.Sprint(rec.QueueOffset), string(base))
		require.NoError(h, codec.EachBatchEntry(rec.Body, func(i int, e codec.BatchEntry) error {
			bodies, offsets = append(bodies, string(e.Body)), append(offsets, rec.QueueOffset+store.QueueOffset(i))
			return nil
		}))
	}
	return bodies, offsets
}

// parsed is the records of an answer, which counts messages.
func (h *harness) parsed(res *store.GetResult) (recs []codec.Record) {
	h.Helper()
	b := res.Messages.AppendTo(nil)
	res.Messages.Release()
	for len(b) > 0 {
		rec, err := codec.ParseRecord(b, true)
		require.NoError(h, err)
		recs, b = append(recs, rec), b[rec.TotalSize:]
	}
	return recs
}

const batchTopic = BatchTopicPrefix + "T"

// putInner puts inner batches and single messages in turns: n of them, of 1 to 5 messages. It returns all bodies.
func putInner(h *harness, queueID int32, n int) (bodies []string) {
	h.Helper()
	for i := range n {
		var batch []string
		for range 1 + i%5 {
			batch = append(batch, fmt.Sprint("m", len(bodies)+len(batch)))
		}
		m := InnerBatch(batchTopic, queueID, "", batch, nil)
		if len(batch) == 1 {
			m = Message(batchTopic, queueID, batch[0], "", "")
		}
		r := mustPut(h.T, h, m)
		require.EqualValues(h, len(bodies), r.QueueOffset)
		require.Equal(h, len(batch), r.Count)
		bodies = append(bodies, batch...)
	}
	settle(h.T, h)
	return bodies
}

// requireInner reads a queue of the kind BatchCQ to its end.
func requireInner(h *harness, queueID int32, from store.QueueOffset, want []string) {
	h.Helper()
	require.EqualValues(h, len(want), h.MaxOffset(batchTopic, queueID))
	var got []string
	for q := from; q < h.MaxOffset(batchTopic, queueID); {
		res := pull(h, batchTopic, queueID, q, 7, nil)
		require.Equal(h, store.GetFound, res.Status)
		recs := h.parsed(&res)
		bodies, offsets := h.messages(recs)
		require.Len(h, bodies, res.Count)
		require.True(h, len(recs) == 1 || res.Count <= 7)
		require.EqualValues(h, q, offsets[0])
		require.Equal(h, q+store.QueueOffset(res.Count), res.NextOffset)
		got, q = append(got, bodies...), res.NextOffset
	}
	require.Equal(h, want[from:], got)
}

// testInnerBatches is about queues of the kind BatchCQ.
func testInnerBatches(h *harness) {
	want := putInner(h, 1, 100) // five files of entries
	requireInner(h, 1, 0, want)
	f := func(q, next store.QueueOffset, maxMsgs int, status store.GetStatus, bodies ...string) {
		h.Helper()
		res := pull(h, batchTopic, 1, q, maxMsgs, nil)
		got, _ := h.messages(h.parsed(&res))
		require.Equal(h, status, res.Status)
		require.Equal(h, next, res.NextOffset)
		require.Equal(h, bodies, got)
	}
	// 0 | 1 2 | 3 4 5 | 6 7 8 9 | 10 11 12 13 14 | 15 | 16 17 | …
	f(0, 1, 2, store.GetFound, "m0")
	f(0, 3, 3, store.GetFound, "m0", "m1", "m2")
	f(1, 3, 1, store.GetFound, "m1", "m2")            // the first one whole, whatever the limit
	f(12, 16, 6, store.GetFound, want[10:16]...)      // in the middle: the whole batch
	f(299, 300, 32, store.GetFound, want[295:300]...) // the last message
	f(300, 300, 32, store.GetOffsetOverflowOne, []string(nil)...)
	f(301, 300, 32, store.GetOffsetOverflowBadly, []string(nil)...)
	f(-1, 0, 32, store.GetOffsetTooSmall, []string(nil)...)
	entries := h.QueueEntries(batchTopic, 1, 4, 3)
	require.Len(h, entries, 3)
	require.Equal(h, entries[0], entries[1])
	require.NotEqual(h, entries[1], entries[2])
	require.True(h, h.CheckInMemory(batchTopic, 1, 299))
	require.False(h, h.CheckInMemory(batchTopic, 1, 300))
	for range 2 {
		h.restart()
		requireInner(h, 1, 0, want)
	}
	r := mustPut(h.T, h, InnerBatch(batchTopic, 1, "", []string{"x", "y"}, nil))
	require.EqualValues(h, len(want), r.QueueOffset)
	settle(h.T, h)
	want = append(want, "x", "y")
	h.stop()
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "batchconsumequeue")))
	h.start()
	requireInner(h, 1, 0, want)
}

// testInnerRefused is what no store may take.
func testInnerRefused(h *harness) {
	f := func(m *codec.Message) {
		h.Helper()
		r := h.Put(m)
		require.Equal(h, store.MessageIllegal, r.Status, "%v", r.Err)
	}
	f(InnerBatch("T", 0, "", []string{"a", "b"}, nil)) // not BatchCQ
	m := InnerBatch(batchTopic, 0, "", []string{"a"}, nil)
	m.Properties = nil
	f(m)
	for _, n := range []int{0, -1, math.MaxInt16 + 1} {
		m.Properties = codec.AppendProperty(nil, codec.PropInnerNum, strconv.Itoa(n))
		f(m)
	}
	settle(h.T, h)
	require.EqualValues(h, 0, h.MaxOffset(batchTopic, 0))
}

// tagIs takes messages with one tag.
type tagIs int64

func (f tagIs) MatchQueueEntry(tagsCode int64) bool { return tagsCode == int64(f) }
func (f tagIs) NeedsRecord() bool                   { return false }
func (f tagIs) MatchRecord(rec *codec.Record) bool  { return true }

// testInnerTags: a batch with a tag counts by that, one without by those of its messages.
func testInnerTags(h *harness) {
	mustPut(h.T, h, InnerBatch(batchTopic, 0, "A", []string{"1", "2"}, nil))
	mustPut(h.T, h, InnerBatch(batchTopic, 0, "", []string{"3", "4"}, []string{"A", "B"}))
	mustPut(h.T, h, InnerBatch(batchTopic, 0, "", []string{"5", "6"}, []string{"B", "C"}))
	mustPut(h.T, h, InnerBatch(batchTopic, 0, "C", []string{"7", "8"}, []string{"A", "A"}))
	settle(h.T, h)
	f := func(tag string, want ...string) {
		h.Helper()
		res := pull(h, batchTopic, 0, 0, 32, tagIs(codec.TagsCode([]byte(tag))))
		got, _ := h.messages(h.parsed(&res))
		require.Equal(h, want, got)
		require.EqualValues(h, 8, res.NextOffset)
	}
	f("A", "1", "2", "3", "4")
	f("B", "3", "4", "5", "6")
	f("C", "5", "6", "7", "8")
	f("D", []string(nil)...)
}

// testInnerTimes searches by time.
func testInnerTimes(h *harness) {
	var bases []store.QueueOffset
	var times []int64
	next := store.QueueOffset(0)
	for i := range 50 {
		r := mustPut(h.T, h, InnerBatch(batchTopic, 0, "", []string{"a", "b", "c"}[:1+i%3], nil))
		bases, times = append(bases, next), append(times, r.StoreTimestamp)
		next += store.QueueOffset(r.Count)
		if i%7 == 0 {
			h.passMillis()
		}
	}
	settle(h.T, h)
	for i, at := range times {
		lower, upper := i, i
		for lower > 0 && times[lower-1] == at {
			lower--
		}
		for upper < len(times)-1 && times[upper+1] == at {
			upper++
		}
		require.Equal(h, bases[lower], h.OffsetByTime(batchTopic, 0, at, store.BoundaryLower))
		require.Equal(h, bases[upper], h.OffsetByTime(batchTopic, 0, at, store.BoundaryUpper))
		require.Equal(h, at, h.StoreTimeOf(batchTopic, 0, bases[i]))
	}
	last := times[len(times)-1]
	require.Equal(h, next, h.OffsetByTime(batchTopic, 0, last+1, store.BoundaryLower))
	require.Equal(h, bases[len(bases)-1], h.OffsetByTime(batchTopic, 0, last+1, store.BoundaryUpper))
	require.EqualValues(h, 0, h.OffsetByTime(batchTopic, 0, times[0]-1, store.BoundaryLower))
	require.EqualValues(h, 0, h.OffsetByTime(batchTopic, 0, times[0]-1, store.BoundaryUpper))
	require.Equal(h, times[0], h.EarliestStoreTime(batchTopic, 0))
	require.EqualValues(h, -1, h.StoreTimeOf(batchTopic, 0, next))
}

// passMillis waits until the next message has another store time.
func (h *harness) passMillis() {
	now := time.Now().UnixMilli()
	require.Eventually(h, func() bool { return time.Now().UnixMilli() > now+1 }, waitLimit, waitTick)
}

// testInnerExpiry deletes the oldest log files and then all.
func testInnerExpiry(h *harness) {
	want := putInner(h, 0, 600)
	h.restart() // the queues are on the disk
	h.expireFiles(3)
	first := h.MinOffset(batchTopic, 0)
	require.Positive(h, first)
	requireInner(h, 0, first, want)
	require.EqualValues(h, first, h.OffsetByTime(batchTopic, 0, 0, store.BoundaryLower))
	h.restart()
	require.Equal(h, first, h.MinOffset(batchTopic, 0))
	requireInner(h, 0, first, want)
	res := pull(h, batchTopic, 0, first-1, 32, nil)
	require.Equal(h, store.GetOffsetTooSmall, res.Status)
	require.Equal(h, first, res.NextOffset)

	for i := range 100 { // of another topic, so that all of the first go
		mustPut(h.T, h, Message("other", 0, strings.Repeat("o", 1000), "", strconv.Itoa(i)))
	}
	h.restart()
	h.expireFiles(100)
	require.EqualValues(h, len(want), h.MinOffset(batchTopic, 0))
	require.EqualValues(h, len(want), h.MaxOffset(batchTopic, 0))
	h.stop()
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "batchconsumequeue", batchTopic)))
	for range 2 { // the numbering goes on
		h.start()
		require.EqualValues(h, len(want), h.MaxOffset(batchTopic, 0))
		h.stop()
	}
	h.start()
	r := mustPut(h.T, h, InnerBatch(batchTopic, 0, "", []string{"a", "b"}, nil))
	require.EqualValues(h, len(want), r.QueueOffset)
	settle(h.T, h)
	require.EqualValues(h, len(want), h.MinOffset(batchTopic, 0))
	require.EqualValues(h, len(want)+2, h.MaxOffset(batchTopic, 0))
}

// expireFiles makes so many of the oldest log files old and has them deleted; the last one stays.
func (h *harness) expireFiles(n int) {
	h.Helper()
	commit(h.T, h)
	first, end := h.MinPhyOffset(), h.MaxPhyOffset()
	goal := first
	for ; n > 0 && goal+LogFileBytes < end/LogFileBytes*LogFileBytes; n-- {
		name := path.Join(h.o.RootDir, "commitlog", fmt.Sprintf("%020d", goal))
		require.NoError(h, h.fs.Chtimes(name, time.Now().Add(-1000*time.Hour)))
		goal += LogFileBytes
	}
	for h.MinPhyOffset() < goal { // a round deletes ten
		h.DeleteExpiredFiles()
		was := h.MinPhyOffset()
		require.Eventually(h, func() bool { return h.MinPhyOffset() > was }, waitLimit, waitTick)
	}
	h.restart() // the least offsets follow in the background
}

// testInnerDelete makes a topic anew, of either kind.
func testInnerDelete(h *harness) {
	putInner(h, 0, 10)
	require.NoError(h, h.DeleteTopic(batchTopic))
	require.False(h, h.HasQueue(batchTopic, 0))
	names, err := h.fs.List(path.Join(h.o.RootDir, "batchconsumequeue"))
	require.NoError(h, err)
	require.Empty(h, names)
	h.restart()
	require.False(h, h.HasQueue(batchTopic, 0))
	requireInner(h, 0, 0, putInner(h, 0, 10))
	require.NoError(h, h.DeleteTopic(batchTopic))

	h.stop()
	h.o.QueueType = func(string) store.CQType { return store.SimpleCQ }
	h.start()
	putMany(h.T, h, batchTopic, 0, 0, 10)
	settle(h.T, h)
	requireMany(h.T, h, batchTopic, 0, 0, 10)
	h.restart()
	requireMany(h.T, h, batchTopic, 0, 0, 10)

	h.stop()
	h.o.QueueType = QueueType // queues of the other kind belong to a topic that was not deleted
	_, err = h.open(h.o)
	require.ErrorContains(h, err, "queue type of the topic is BatchCQ")
	h.o.QueueType = func(string) store.CQType { return store.CQUnknown }
	h.start()
	requireMany(h.T, h, batchTopic, 0, 0, 10)
}
