package storetest

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store"
)

// OpenFunc opens a store, not yet started. Options.FS is set.
type OpenFunc func(o store.Options) (Store, error)

// Run puts a store through the contract on a file system. newFS gives an empty one and the directory to use; it is called
// for every scenario.
func Run(t *testing.T, newFS func(t *testing.T) (fs vfs.FS, rootDir string), open OpenFunc) {
	scenarios := []struct {
		name string
		run  func(h *harness)
	}{
		{"Offsets", testOffsets},
		{"Limits", testLimits},
		{"Filters", testFilters},
		{"Restart", testRestart},
		{"Batch", testBatch},
		{"Transactions", testTransactions},
		{"Times", testTimes},
		{"Keys", testKeys},
		{"KeysSurviveRestart", testKeysRestart},
		{"DeleteTopic", testDeleteTopic},
		{"CleanTopics", testCleanTopics},
		{"Retention", testRetention},
		{"RetentionUnderReader", testReaderOfDeletedFile},
		{"HoleInLog", testHoleInLog},
		{"TornRecord", testTornRecord},
		{"LostQueueFiles", testLostQueueFiles},
		{"InnerBatches", testInnerBatches},
		{"InnerRefused", testInnerRefused},
		{"InnerTags", testInnerTags},
		{"InnerTimes", testInnerTimes},
		{"InnerExpiry", testInnerExpiry},
		{"InnerDelete", testInnerDelete},
		{"Light", testLight},
		{"LightRules", testLightRules},
		{"LightOff", testLightOff},
	}
	for _, scenario := range scenarios {
		for _, mode := range Modes {
			for _, flush := range []store.FlushDiskType{store.AsyncFlush, store.SyncFlush} {
				t.Run(fmt.Sprintf("%s/%s/flush%d", scenario.name, mode.Name, flush), func(t *testing.T) {
					fs, dir := newFS(t)
					h := &harness{T: t, fs: fs, open: open, o: TinyOptions(dir)}
					h.o.FS, h.o.FlushDiskType = fs, flush
					mode.Change(&h.o)
					h.start()
					scenario.run(h)
					h.stop()
				})
			}
		}
	}
}

// harness is one scenario's store.
type harness struct {
	*testing.T
	Store
	fs   vfs.FS
	open OpenFunc
	o    store.Options

	tornBytes int // what testTornRecord left of a record
}

func (h *harness) start() {
	h.Helper()
	s, err := h.open(h.o)
	require.NoError(h, err)
	require.NoError(h, s.Start())
	h.Store = s
}

func (h *harness) stop() {
	h.Helper()
	require.NoError(h, h.Close())
}

func (h *harness) restart() {
	h.Helper()
	h.stop()
	h.start()
}

// abort leaves the file that makes the next start an abnormal one.
func (h *harness) abort() {
	f, err := h.fs.Create(path.Join(h.o.RootDir, "abort"))
	require.NoError(h, err)
	require.NoError(h, f.Close())
}

// testOffsets is case B09: where a pull goes that is outside of the queue.
func testOffsets(h *harness) {
	f := func(queueID int32, q, next store.QueueOffset, status store.GetStatus, count int) {
		h.Helper()
		res := pull(h, "T", queueID, q, 4, nil)
		require.Equal(h, status, res.Status)
		require.Equal(h, next, res.NextOffset)
		require.Equal(h, count, res.Count)
		require.Equal(h, h.MinOffset("T", queueID), res.MinOffset)
		require.Equal(h, h.MaxOffset("T", queueID), res.MaxOffset)
		res.Messages.Release()
	}
	f(0, 0, 0, store.GetNoMatchedLogicQueue, 0)
	f(0, 7, 0, store.GetNoMatchedLogicQueue, 0)
	putMany(h.T, h, "T", 0, 0, 10)
	settle(h.T, h)
	f(0, 0, 4, store.GetFound, 4)
	f(0, 8, 10, store.GetFound, 2)
	f(0, 10, 10, store.GetOffsetOverflowOne, 0)
	f(0, 11, 10, store.GetOffsetOverflowBadly, 0)
	f(0, 1_000_000, 10, store.GetOffsetOverflowBadly, 0)
	f(0, -1, 0, store.GetOffsetTooSmall, 0)
	f(1, 0, 0, store.GetNoMatchedLogicQueue, 0)
	h.restart()
	f(0, 10, 10, store.GetOffsetOverflowOne, 0)
	f(0, 3, 7, store.GetFound, 4)
	require.True(h, h.HasQueue("T", 0))
	require.False(h, h.HasQueue("T", 1))
	require.Equal(h, []int32{0}, h.Queues("T"))
	require.Equal(h, []string{"T"}, h.Topics())
}

// testLimits checks what bounds an answer.
func testLimits(h *harness) {
	body := strings.Repeat("x", 900)
	for range 60 {
		mustPut(h.T, h, Message("T", 0, body, "", ""))
	}
	settle(h.T, h)
	f := func(q store.QueueOffset, maxMsgs, maxBytes, want int) {
		h.Helper()
		var res store.GetResult
		h.Get(&store.GetRequest{Topic: "T", Offset: q, MaxMsgs: maxMsgs, MaxBytes: maxBytes, AllowCold: true}, &res)
		require.Equal(h, store.GetFound, res.Status)
		require.Equal(h, want, res.Count)
		require.Equal(h, q+store.QueueOffset(want), res.NextOffset)
		// The records follow each other in the log: one segment for each log file.
		require.LessOrEqual(h, len(res.Messages.Parts()), 3)
		require.Len(h, records(h.T, &res), want)
	}
	f(0, 10, 0, 10)
	f(0, 100, 0, EntriesPerFile)            // one ConsumeQueue file a call
	f(5, 100, 0, EntriesPerFile-5)          // the rest of it
	f(0, 10, 1, 1)                          // the first one always
	f(0, 10, 2100, 2)                       // whole records only
	f(0, 0, 0, 1)                           // Java answers one as well
	f(3*EntriesPerFile-1, 100, 0, 1)        // the last one
	h.o.MaxTransferCountInMemory = 7        // by count
	h.o.MaxTransferBytesInMemory = 1 << 20  //
	h.restart()                             //
	f(0, 100, 0, 7)                         //
	h.o.MaxTransferBytesInMemory = 3 * 1024 // by bytes
	h.restart()                             //
	f(0, 100, 0, 3)                         //
	h.o.MemoryBytes = 1                     // nothing counts as in memory
	h.o.MaxTransferCountOnDisk = 5          //
	h.restart()                             //
	f(0, 100, 0, 5)                         //
	res := pull(h, "T", 0, 0, 1, nil)       //
	require.True(h, res.SuggestSlave, "the slave may have it in memory")
	res.Messages.Release()
}

// tagFilter passes one tag, and records whose body has a suffix.
type tagFilter struct {
	code   int64
	suffix string
}

func (f tagFilter) MatchQueueEntry(tagsCode int64) bool { return tagsCode == f.code }
func (f tagFilter) NeedsRecord() bool                   { return f.suffix != "" }
func (f tagFilter) MatchRecord(rec *codec.Record) bool {
	return strings.HasSuffix(string(rec.Body), f.suffix)
}

func testFilters(h *harness) {
	putMany(h.T, h, "T", 0, 0, 30) // tags tag0, tag1, tag2 in turn
	settle(h.T, h)
	f := func(q store.QueueOffset, filter tagFilter, status store.GetStatus, next store.QueueOffset, bodies ...string) {
		h.Helper()
		res := pull(h, "T", 0, q, 4, filter)
		require.Equal(h, status, res.Status)
		require.Equal(h, next, res.NextOffset)
		var got []string
		for _, rec := range records(h.T, &res) {
			got = append(got, string(rec.Body))
		}
		require.Equal(h, bodies, got)
	}
	tag1 := tagFilter{code: codec.TagsCode([]byte("tag1"))}
	f(0, tag1, store.GetFound, 11, "T-0-1", "T-0-4", "T-0-7", "T-0-10")
	f(11, tag1, store.GetFound, EntriesPerFile, "T-0-13", "T-0-16", "T-0-19")
	f(0, tagFilter{code: 1}, store.GetNoMatchedMessage, EntriesPerFile)
	tag1.suffix = "7"
	f(0, tag1, store.GetFound, EntriesPerFile, "T-0-7")
	f(8, tag1, store.GetNoMatchedMessage, EntriesPerFile)
	h.o.MaxFilterMessageSize = 5 * entryBytes
	h.restart()
	f(0, tagFilter{code: 1}, store.GetNoMatchedMessage, 5)
}

func testRestart(h *harness) {
	total := 0
	for round := range 4 {
		for queueID := range int32(3) {
			putMany(h.T, h, "T", queueID, total, 25+round)
		}
		total += 25 + round
		if round%2 == 1 {
			settle(h.T, h)
		}
		commit(h.T, h)
		end := h.MaxPhyOffset()
		h.restart()
		require.Equal(h, end, h.MaxPhyOffset())
		settle(h.T, h)
		for queueID := range int32(3) {
			requireMany(h.T, h, "T", queueID, 0, total)
		}
	}
}

func testBatch(h *harness) {
	mustPut(h.T, h, Message("T", 0, "T-0-0", "", ""))
	var body []byte
	for i := 1; i <= 5; i++ {
		var err error
		entry := codec.BatchEntry{Body: []byte(bodyOf("T", 0, i)),
			Properties: codec.AppendProperty(nil, codec.PropKeys, fmt.Sprint("k", i))}
		body, err = codec.AppendBatchEntry(body, entry)
		require.NoError(h, err)
	}
	r := h.PutBatch(&codec.Message{Topic: "T", Body: body, WaitStoreMsgOK: true,
		Properties: codec.AppendProperty(nil, codec.PropTags, "all")})
	require.Equal(h, store.PutOK, r.Status, "%v", r.Err)
	require.EqualValues(h, 1, r.QueueOffset)
	require.Equal(h, 5, r.Count)
	require.Len(h, r.PhyOffsets, 5)
	mustPut(h.T, h, Message("T", 0, "T-0-6", "", ""))
	settle(h.T, h)
	requireMany(h.T, h, "T", 0, 0, 7)
	require.Equal(h, []string{"T-0-3"}, keyed(h.T, h, "T", "k3", 1))
	e := h.QueueEntries("T", 0, 1, 5)
	require.Len(h, e, 5)
	for i := range e {
		require.Equal(h, r.PhyOffsets[i], e[i].PhyOffset)
		require.Equal(h, codec.TagsCode([]byte("all")), e[i].TagsCode)
	}
}

func testTransactions(h *harness) {
	f := func(body string, sysFlag int32) store.PutResult {
		h.Helper()
		m := Message("T", 0, body, "", body)
		m.SysFlag = sysFlag
		return mustPut(h.T, h, m)
	}
	require.EqualValues(h, 0, f("T-0-0", codec.SysFlagTransactionNone).QueueOffset)
	require.EqualValues(h, 0, f("half", codec.SysFlagTransactionPrepared).QueueOffset)
	require.EqualValues(h, 1, f("T-0-1", codec.SysFlagTransactionCommit).QueueOffset)
	require.EqualValues(h, 0, f("rollback", codec.SysFlagTransactionRollback).QueueOffset)
	require.EqualValues(h, 2, f("T-0-2", codec.SysFlagTransactionNone).QueueOffset)
	settle(h.T, h)
	h.restart()
	requireMany(h.T, h, "T", 0, 0, 3)
	require.Equal(h, []string{"half"}, keyed(h.T, h, "T", "half", 1))
	require.Equal(h, []string{"T-0-2"}, keyed(h.T, h, "T", "T-0-2", 1))
	recs, _, _ := h.QueryByKey("T", "rollback", 10, 0, 1<<60)
	require.Empty(h, recs)
}

// testTimes is the search by time (request 29) with runs of equal times.
func testTimes(h *harness) {
	h.stop()
	clk := newManualClock()
	h.o.Clock = clk
	h.start()
	times := []int64{1000, 1000, 1000, 2000, 3000, 3000, 5000}
	for i, at := range times {
		clk.set(at)
		require.Equal(h, at, mustPut(h.T, h, Message("T", 0, bodyOf("T", 0, i), "", "")).StoreTimestamp)
	}
	require.Eventually(h, func() bool { // write buffers are committed by this clock
		clk.set(clk.Millis() + 1)
		return h.RemainHowManyDataToCommit() == 0
	}, waitLimit, waitTick)
	settle(h.T, h)
	f := func(at int64, lower, upper store.QueueOffset) {
		h.Helper()
		require.Equal(h, lower, h.OffsetByTime("T", 0, at, store.BoundaryLower))
		require.Equal(h, upper, h.OffsetByTime("T", 0, at, store.BoundaryUpper))
	}
	f(0, 0, 0)
	f(999, 0, 0)
	f(1000, 0, 2)
	f(1500, 3, 2)
	f(2000, 3, 3)
	f(3000, 4, 5)
	f(4000, 6, 5)
	f(5000, 6, 6)
	f(6000, 7, 6)
	require.EqualValues(h, 0, h.OffsetByTime("T", 1, 1000, store.BoundaryLower))
	require.EqualValues(h, 1000, h.EarliestStoreTime("T", 0))
	require.EqualValues(h, -1, h.EarliestStoreTime("T", 1))
	require.EqualValues(h, 3000, h.StoreTimeOf("T", 0, 5))
	require.EqualValues(h, -1, h.StoreTimeOf("T", 0, 7))
	require.True(h, h.CheckInMemory("T", 0, 0))
	require.False(h, h.CheckInMemory("T", 0, 7))
}

func testKeys(h *harness) {
	const perKey = 5
	for i := range 3 * keysPerIndexFile { // several index files, long chains
		m := Message("T", 0, fmt.Sprint("body", i), "", fmt.Sprintf("a%d  b%d", i/perKey, i))
		m.Properties = codec.AppendProperty(m.Properties, codec.PropUniqKey, fmt.Sprint("u", i))
		mustPut(h.T, h, m)
	}
	for i := range 3 * keysPerIndexFile {
		f := func(key string, want ...string) {
			h.Helper()
			require.Equal(h, want, keyed(h.T, h, "T", key, len(want)))
		}
		f(fmt.Sprint("b", i), fmt.Sprint("body", i))
		f(fmt.Sprint("u", i), fmt.Sprint("body", i))
		if i%perKey == 0 {
			f(fmt.Sprint("a", i/perKey), fmt.Sprint("body", i), fmt.Sprint("body", i+1), fmt.Sprint("body", i+2),
				fmt.Sprint("body", i+3), fmt.Sprint("body", i+4))
		}
	}
	f := func(topic, key string, maxNum, want int) {
		h.Helper()
		recs, _, lastPhy := h.QueryByKey(topic, key, maxNum, 0, 1<<60)
		require.Len(h, recs, want)
		require.Positive(h, lastPhy)
	}
	f("T", "a1", 3, 3)
	f("T", "none", 3, 0)
	f("Other", "a1", 3, 0)
	recs, _, _ := h.QueryByKey("T", "a1", 10, 1, 2) // long ago
	require.Empty(h, recs)
}

func testKeysRestart(h *harness) {
	for i := range keysPerIndexFile + 10 {
		mustPut(h.T, h, Message("T", 0, fmt.Sprint("body", i), "", fmt.Sprint("key", i)))
		if i == 10 {
			h.restart()
		}
	}
	h.stop()
	h.abort()
	h.start()
	mustPut(h.T, h, Message("T", 0, "last", "", "last"))
	require.Equal(h, []string{"last"}, keyed(h.T, h, "T", "last", 1))
	for i := range keysPerIndexFile + 10 {
		require.Equal(h, []string{fmt.Sprint("body", i)}, keyed(h.T, h, "T", fmt.Sprint("key", i), 1))
	}
}

func testDeleteTopic(h *harness) {
	for queueID := range int32(3) {
		putMany(h.T, h, "T", queueID, 0, 30)
		putMany(h.T, h, "Kept", queueID, 0, 5)
	}
	settle(h.T, h)
	held := pull(h, "T", 0, 0, 5, nil)
	require.NoError(h, h.DeleteTopic("T"))
	require.NoError(h, h.DeleteTopic("never seen"))
	require.False(h, h.HasQueue("T", 0))
	require.Equal(h, []string{"Kept"}, h.Topics())
	_, err := h.fs.Stat(path.Join(h.o.RootDir, "consumequeue", "T"))
	require.Error(h, err)
	require.Len(h, records(h.T, &held), 5, "a reader keeps what it has")
	putMany(h.T, h, "T", 1, 0, 7) // numbered from 0 again
	settle(h.T, h)
	requireMany(h.T, h, "T", 1, 0, 7)
	f := func() {
		h.Helper()
		h.start()
		settle(h.T, h)
		require.Equal(h, []int32{1}, h.Queues("T"))
		requireMany(h.T, h, "T", 1, 0, 7)
		for queueID := range int32(3) {
			requireMany(h.T, h, "Kept", queueID, 0, 5)
		}
		h.stop()
	}
	h.stop()
	f()
	h.abort()
	f() // everything is dispatched again
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "consumequeue")))
	f() // built anew
	h.start()
}

func testCleanTopics(h *harness) {
	for _, topic := range []string{"A", "B", codec.ScheduleTopic} {
		putMany(h.T, h, topic, 0, 0, 3)
	}
	settle(h.T, h)
	require.Equal(h, 1, h.CleanUnusedTopics(func(topic string) bool { return topic == "A" }))
	require.Equal(h, []string{"A", codec.ScheduleTopic}, h.Topics())
	require.Zero(h, h.CleanExpiredConsumeQueues())
	putMany(h.T, h, "New", 0, 0, 200)
	settle(h.T, h)
	h.expire(1)
	require.Equal(h, 1, h.CleanExpiredConsumeQueues())
	require.Equal(h, []string{"New", codec.ScheduleTopic}, h.Topics())
	putMany(h.T, h, "A", 0, 0, 4)
	settle(h.T, h)
	h.restart()
	requireMany(h.T, h, "A", 0, 0, 4)
}

// expire makes the first count log files old and has them deleted.
func (h *harness) expire(count int) {
	h.Helper()
	commit(h.T, h)
	require.Eventually(h, func() bool { return h.FlushedWhere() == h.MaxPhyOffset() }, waitLimit, waitTick,
		"a flush later would make the files new")
	names := h.logFiles()
	for _, name := range names[:count] {
		require.NoError(h, h.fs.Chtimes(name, time.Now().Add(-1000*time.Hour)))
	}
	min := h.MinPhyOffset()
	h.DeleteExpiredFiles()
	want := min + store.PhyOffset(count)*LogFileBytes
	require.Eventually(h, func() bool { return h.MinPhyOffset() == want }, waitLimit, waitTick)
	require.Eventually(h, func() bool { // the queues follow
		for _, topic := range h.Topics() {
			for _, queueID := range h.Queues(topic) {
				first := h.MinOffset(topic, queueID)
				if first == h.MaxOffset(topic, queueID) {
					continue
				}
				e := h.QueueEntries(topic, queueID, first, 1)
				if len(e) == 0 || e[0].PhyOffset < want { // none: its file has gone, its beginning has not moved yet
					return false
				}
			}
		}
		return true
	}, waitLimit, waitTick)
}

func (h *harness) firstRecord() codec.Record {
	b, err := h.ReadRecord(h.MinPhyOffset(), nil)
	require.NoError(h, err)
	rec, err := codec.ParseRecord(b, true)
	require.NoError(h, err)
	return rec
}

func (h *harness) logFiles() []string {
	dir := path.Join(h.o.RootDir, "commitlog")
	names, err := h.fs.List(dir)
	require.NoError(h, err)
	for i := range names {
		names[i] = path.Join(dir, names[i])
	}
	return names
}
