package storetest

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

// Store is what the suite calls; *store.MessageStore has it all.
type Store interface {
	Start() error
	Close() error
	Put(m *codec.Message) store.PutResult
	PutBatch(m *codec.Message) store.PutResult
	PutAll(messages []*codec.Message) []store.PutResult
	Get(req *store.GetRequest, res *store.GetResult)
	MinOffset(topic string, queueID int32) store.QueueOffset
	MaxOffset(topic string, queueID int32) store.QueueOffset
	OffsetByTime(topic string, queueID int32, timestampMillis int64, b store.Boundary) store.QueueOffset
	StoreTimeOf(topic string, queueID int32, q store.QueueOffset) int64
	EarliestStoreTime(topic string, queueID int32) int64
	ReadRecord(p store.PhyOffset, buf []byte) ([]byte, error)
	QueryByKey(topic, key string, maxNum int, beginMillis, endMillis int64) ([][]byte, int64, store.PhyOffset)
	QueueEntries(topic string, queueID int32, from store.QueueOffset, count int) []store.QueueEntry
	CheckInMemory(topic string, queueID int32, q store.QueueOffset) bool
	HasQueue(topic string, queueID int32) bool
	Queues(topic string) []int32
	Topics() []string
	DeleteTopic(topic string) error
	CleanUnusedTopics(keep func(topic string) bool) int
	CleanExpiredConsumeQueues() int
	DeleteExpiredFiles()
	DispatchBehindBytes() int64
	MinPhyOffset() store.PhyOffset
	MaxPhyOffset() store.PhyOffset
	FlushedWhere() store.PhyOffset
	RemainHowManyDataToCommit() int64
}

// Sizes of the files of a test store: a log file holds a few dozen small messages, a queue file 20, an index file 40 keys.
const (
	LogFileBytes     = 16 << 10
	EntriesPerFile   = 20
	entryBytes       = 20
	batchEntryBytes  = 46
	keysPerIndexFile = 40
)

// Waiting for what the store does in the background.
const (
	waitLimit = 10 * time.Second
	waitTick  = time.Millisecond
)

// TinyOptions are the options of a test store below rootDir. The file system is left to the caller.
func TinyOptions(rootDir string) store.Options {
	o := store.Options{
		RootDir:                    rootDir,
		MappedFileSizeCommitLog:    LogFileBytes,
		MappedFileSizeConsumeQueue: EntriesPerFile * entryBytes,

		MappedFileSizeBatchConsumeQueue: EntriesPerFile * batchEntryBytes,

		QueueType: QueueType, EnableLmq: true, EnableMultiDispatch: true,
		MaxHashSlotNum:            10,
		MaxIndexNum:               keysPerIndexFile,
		MessageIndexEnable:        true,
		CheckCRCOnRecover:         true,
		CleanFileForciblyEnable:   true,
		MaxMessageSize:            8 << 10,
		FlushIntervalCommitLog:    time.Millisecond,
		FlushIntervalConsumeQueue: time.Millisecond,
		CleanResourceInterval:     time.Hour, // DeleteExpiredFiles wakes it
		Log:                       slog.New(slog.DiscardHandler),
	}
	o.FlushConsumeQueueThoroughPeriod = 3 * time.Millisecond
	o.FlushCommitLogThoroughInterval = 3 * time.Millisecond
	o.DeleteCommitLogFilesInterval = time.Millisecond
	return o
}

// Message is a plain message with a body and, if not empty, a tag and keys.
func Message(topic string, queueID int32, body, tag, keys string) *codec.Message {
	m := &codec.Message{Topic: topic, QueueID: queueID, Body: []byte(body), BornTimestamp: 1, WaitStoreMsgOK: true}
	m.Properties = codec.AppendProperty(m.Properties, codec.PropTags, tag)
	m.Properties = codec.AppendProperty(m.Properties, codec.PropKeys, keys)
	return m
}

// mustPut stores a message.
func mustPut(t *testing.T, s Store, m *codec.Message) store.PutResult {
	t.Helper()
	r := s.Put(m)
	require.Equal(t, store.PutOK, r.Status, "%v", r.Err)
	return r
}

// putMany stores count messages "<topic>-<queueID>-<i>" for i from first on.
func putMany(t *testing.T, s Store, topic string, queueID int32, first, count int) {
	t.Helper()
	for i := first; i < first+count; i++ {
		r := mustPut(t, s, Message(topic, queueID, bodyOf(topic, queueID, i), fmt.Sprintf("tag%d", i%3), ""))
		require.EqualValues(t, i, r.QueueOffset)
	}
}

func bodyOf(topic string, queueID int32, i int) string {
	return fmt.Sprintf("%s-%d-%d", topic, queueID, i)
}

// Modes are the ways to write that every store has to have, each by what it changes of the options.
var Modes = []struct {
	Name   string
	Change func(o *store.Options)
}{
	{"mapped", func(*store.Options) {}},
	{"pool", UsePool},
	{"units", UseUnits},
}

// UsePool makes the store write through a transient store pool that is often empty, and commit late.
func UsePool(o *store.Options) {
	o.TransientStorePoolEnable, o.TransientStorePoolSize, o.WakeCommitWhenPutMessage = true, 2, true
	o.CommitCommitLogLeastPages, o.CommitCommitLogThoroughInterval = 1, 2*time.Millisecond
}

// commit waits until nothing is in write buffers only.
func commit(t *testing.T, s Store) {
	t.Helper()
	require.Eventually(t, func() bool { return s.RemainHowManyDataToCommit() == 0 }, waitLimit, waitTick)
}

// settle waits until every record has its queue entry.
func settle(t *testing.T, s Store) {
	t.Helper()
	commit(t, s)
	require.Eventually(t, func() bool { return s.DispatchBehindBytes() == 0 }, waitLimit, waitTick)
}

// pull reads once; cold data may be waited for.
func pull(s Store, topic string, queueID int32, q store.QueueOffset, maxMsgs int, f store.MessageFilter) store.GetResult {
	var res store.GetResult
	s.Get(&store.GetRequest{Topic: topic, QueueID: queueID, Offset: q, MaxMsgs: maxMsgs, Filter: f, AllowCold: true}, &res)
	return res
}

// records parses the messages of an answer and releases them; bodies and properties are copies.
func records(t *testing.T, res *store.GetResult) []codec.Record {
	t.Helper()
	b := res.Messages.AppendTo(nil)
	res.Messages.Release()
	var recs []codec.Record
	for len(b) > 0 {
		rec, err := codec.ParseRecord(b, true)
		require.NoError(t, err)
		recs = append(recs, rec)
		b = b[rec.TotalSize:]
	}
	require.Len(t, recs, res.Count)
	return recs
}

// readAll consumes a queue from an offset to its end the way a client does, and returns the records. Every step must
// lead forward.
func readAll(t *testing.T, s Store, topic string, queueID int32, from store.QueueOffset) []codec.Record {
	t.Helper()
	var recs []codec.Record
	for q := from; q < s.MaxOffset(topic, queueID); {
		res := pull(s, topic, queueID, q, 32, nil)
		require.Greater(t, res.NextOffset, q, "%s-%d at %d: %v", topic, queueID, q, res.Status)
		for _, rec := range records(t, &res) {
			require.Equal(t, topic, string(rec.Topic))
			require.Equal(t, queueID, rec.QueueID)
			require.GreaterOrEqual(t, rec.QueueOffset, q)
			recs = append(recs, rec)
		}
		q = res.NextOffset
	}
	return recs
}

// requireMany checks that the queue holds exactly the messages of putMany with numbers [min, count).
func requireMany(t *testing.T, s Store, topic string, queueID int32, min, count int) {
	t.Helper()
	require.EqualValues(t, min, s.MinOffset(topic, queueID), "min of %s-%d", topic, queueID)
	require.EqualValues(t, count, s.MaxOffset(topic, queueID), "max of %s-%d", topic, queueID)
	recs := readAll(t, s, topic, queueID, store.QueueOffset(min))
	require.Len(t, recs, count-min)
	for i, rec := range recs {
		require.EqualValues(t, min+i, rec.QueueOffset)
		require.Equal(t, bodyOf(topic, queueID, min+i), string(rec.Body))
	}
}

// keyed waits until a query by key gives count records and returns their bodies.
func keyed(t *testing.T, s Store, topic, key string, count int) []string {
	t.Helper()
	var bodies []string
	require.Eventually(t, func() bool {
		recs, _, _ := s.QueryByKey(topic, key, 64, 0, 1<<60)
		bodies = bodies[:0]
		for _, b := range recs {
			rec, err := codec.ParseRecord(b, true)
			require.NoError(t, err)
			bodies = append(bodies, string(rec.Body))
		}
		return len(bodies) == count
	}, waitLimit, waitTick, "key %s of %s", key, topic)
	return bodies
}

// walkLog calls f for every record of the log, in order, and checks that nothing but blank ends of files lies between.
func walkLog(t *testing.T, s Store, f func(rec *codec.Record)) {
	t.Helper()
	var buf []byte
	for p := s.MinPhyOffset(); p < s.MaxPhyOffset(); {
		var err error
		buf, err = s.ReadRecord(p, buf)
		if err != nil {
			require.ErrorIs(t, err, store.ErrNotFound)
			next := (p/LogFileBytes + 1) * LogFileBytes
			require.LessOrEqual(t, next, s.MaxPhyOffset(), "no record at %d, before the end", p)
			p = next
			continue
		}
		rec, err := codec.ParseRecord(buf, true)
		require.NoError(t, err, "at %d", p)
		require.Equal(t, p, rec.PhyOffset)
		f(&rec)
		p += store.PhyOffset(rec.TotalSize)
	}
}
