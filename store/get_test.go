package store

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// coldFS is a MemFS that can say that files of the log or of the queues are not in memory, and counts how often it is
// asked.
type coldFS struct {
	*vfs.MemFS
	coldLog, coldQueues atomic.Bool
	asked               atomic.Int64
}

func newColdFS() *coldFS {
	c := &coldFS{}
	c.MemFS = vfs.NewMemWith(vfs.MemOptions{Resident: func(name string, _, _ int64) (bool, error) {
		c.asked.Add(1)
		cold := &c.coldQueues
		if strings.Contains(name, "/commitlog/") {
			cold = &c.coldLog
		}
		return !cold.Load(), nil
	}})
	return c
}

// matchAll is a filter that has to see every record.
type matchAll struct{ seen *int }

func (matchAll) MatchQueueEntry(int64) bool { return true }
func (matchAll) NeedsRecord() bool          { return true }
func (m matchAll) MatchRecord(rec *codec.Record) bool {
	*m.seen++
	return len(rec.Body) > 0
}

// TestGetColdTouchesNothing: an event loop is told to come back with a goroutine that may wait.
func TestGetColdTouchesNothing(t *testing.T) {
	fs := newColdFS()
	o := testOptions(fs, "/store")
	clk := newTestClock()
	o.Clock = clk
	s := openStore(t, o)
	for i := range 10 {
		mustPut(t, s, testMessage("Topic", 0, fmt.Sprint(i)))
	}
	awaitDispatch(t, s)
	closeStore(t, s)
	s = openStore(t, o) // what this process did not write may be anywhere
	res := &GetResult{}
	seen := 0
	get := func(allowCold bool) (GetStatus, int) {
		s.Get(&GetRequest{Topic: "Topic", Offset: 2, MaxMsgs: 5, AllowCold: allowCold, Filter: matchAll{&seen}}, res)
		defer res.Messages.Release()
		if res.Status == GetFound {
			require.EqualValues(t, 7, res.NextOffset)
		}
		return res.Status, res.Count
	}
	f := func(coldLog, coldQueues, allowCold bool, status GetStatus, count int) {
		t.Helper()
		clk.advance(2000) // what was found resident is asked again
		fs.coldLog.Store(coldLog)
		fs.coldQueues.Store(coldQueues)
		seen = 0
		gotStatus, gotCount := get(allowCold)
		require.Equal(t, status, gotStatus)
		require.Equal(t, count, gotCount)
		require.Equal(t, count, seen, "the filter sees nothing cold")
		if status == GetCold {
			require.EqualValues(t, 2, res.NextOffset)
		}
	}
	f(false, false, false, GetFound, 5)
	f(true, false, false, GetCold, 0)
	f(false, true, false, GetCold, 0)
	f(true, true, true, GetFound, 5)
	status, _ := get(false)
	require.Equal(t, GetFound, status, "just read in")
	f(true, true, false, GetCold, 0)
	mustPut(t, s, testMessage("Topic", 1, "new"))
	awaitDispatch(t, s)
	fs.coldLog.Store(true)
	fs.coldQueues.Store(false)
	s.Get(&GetRequest{Topic: "Topic", QueueID: 1, MaxMsgs: 5}, res)
	require.Equal(t, GetFound, res.Status, "just written")
	res.Messages.Release()
}

// TestGetAsksOnceASecond: residency is one question a second for each piece of a file.
func TestGetAsksOnceASecond(t *testing.T) {
	fs := newColdFS()
	o := testOptions(fs, "/store")
	clk := newTestClock()
	o.Clock = clk
	s := openStore(t, o)
	for i := range 10 {
		mustPut(t, s, testMessage("Topic", 0, fmt.Sprint(i)))
	}
	awaitDispatch(t, s)
	closeStore(t, s)
	s = openStore(t, o)
	res := &GetResult{}
	for range 3 {
		clk.advance(1000)
		before := fs.asked.Load()
		for range 100 {
			s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 32}, res)
			require.Equal(t, 10, res.Count)
			res.Messages.Release()
		}
		require.EqualValues(t, before+2, fs.asked.Load(), "the log once, the queue once")
	}
}

// TestGetMergesRecords: records that follow each other in the log are one segment with one reference.
func TestGetMergesRecords(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	// References are counted: index and flusher, which take some as they come along, stay away.
	o.MessageIndexEnable, o.FlushIntervalCommitLog = false, time.Hour
	s := openStore(t, o)
	for i := range 20 {
		mustPut(t, s, testMessage("Topic", int32(i/15), fmt.Sprint(i))) // 15 of queue 0, 5 of queue 1
	}
	mustPut(t, s, testMessage("Topic", 0, "last"))
	awaitDispatch(t, s)
	mf := s.cl.files.last()
	refs := mf.refs.Load()
	res := &GetResult{}
	f := func(queueID int32, segments, count int) {
		t.Helper()
		s.Get(&GetRequest{Topic: "Topic", QueueID: queueID, MaxMsgs: 32}, res)
		require.Equal(t, count, res.Count)
		require.Len(t, res.Messages.Parts(), segments)
		require.Equal(t, refs+int64(segments), mf.refs.Load())
		res.Messages.Release()
		require.Equal(t, refs, mf.refs.Load())
	}
	f(0, 2, 16)
	f(1, 1, 5)
	held := mf.refs.Load()
	s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 32}, res)
	s.Get(&GetRequest{Topic: "Topic", QueueID: 9, MaxMsgs: 32}, res) // gives back what the caller left
	require.Equal(t, GetNoMatchedLogicQueue, res.Status)
	require.Equal(t, held, mf.refs.Load())
}

// TestExtAddresses: where a tagsCode is an address of Java's ConsumeQueueExt, the record says what it stands for: a
// filter gets that, and a delayed message is not due at once.
func TestExtAddresses(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	var code atomic.Int64
	o.DelayTagsCode = func(int, int64) int64 { return code.Load() }
	code.Store(-1 << 40)
	s := openStore(t, o)
	m := testMessage(codec.ScheduleTopic, 0, "x")
	m.Properties = codec.AppendProperty(m.Properties, codec.PropDelayTimeLevel, "1")
	mustPut(t, s, m)
	awaitDispatch(t, s)
	e, ok := s.queues.find(codec.ScheduleTopic, 0).entry(0)
	require.True(t, ok)
	require.True(t, isExtAddress(e.tagsCode))
	code.Store(77)
	require.EqualValues(t, 77, s.QueueEntries(codec.ScheduleTopic, 0, 0, 1)[0].TagsCode)
	res := &GetResult{}
	f := func(wanted int64, want GetStatus) {
		t.Helper()
		s.Get(&GetRequest{Topic: codec.ScheduleTopic, MaxMsgs: 1, Filter: oneTag(wanted)}, res)
		require.Equal(t, want, res.Status)
		res.Messages.Release()
	}
	f(77, GetFound)
	f(78, GetNoMatchedMessage)
}

type oneTag int64

func (tag oneTag) MatchQueueEntry(tagsCode int64) bool { return int64(tag) == tagsCode }
func (oneTag) NeedsRecord() bool                       { return false }
func (oneTag) MatchRecord(*codec.Record) bool          { return false }
