package store

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// testOptions are small files and quick intervals.
func testOptions(fs vfs.FS, dir string) Options {
	o := DefaultOptions(dir)
	o.FS = fs
	o.MappedFileSizeCommitLog = 16 << 10
	o.MappedFileSizeConsumeQueue = 40 * cqEntryBytes
	o.MaxHashSlotNum, o.MaxIndexNum = 100, 400
	o.FlushIntervalCommitLog = 5 * time.Millisecond
	o.FlushIntervalConsumeQueue = 5 * time.Millisecond
	o.MaxMessageSize = 8 << 10
	o.zeroRate = 1 // zeros are written ahead whenever they may be
	return o
}

// openStore opens and starts a store that the test closes.
func openStore(t *testing.T, o Options) *MessageStore {
	t.Helper()
	s, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// closeStore closes a store and waits until nothing of it is mapped any more.
func closeStore(t *testing.T, s *MessageStore) {
	t.Helper()
	require.NoError(t, s.Close())
	require.Eventually(t, func() bool {
		for _, cq := range s.queues.all() {
			if cq.mfq.live.Load() != 0 {
				return false
			}
		}
		return s.cl.files.live.Load() == 0
	}, testWait, testTick, "a mapping was not released")
}

func testMessage(topic string, queueID int32, body string) *codec.Message {
	return &codec.Message{Topic: topic, QueueID: queueID, Body: []byte(body), BornTimestamp: 1000, WaitStoreMsgOK: true}
}

func mustPut(t *testing.T, s *MessageStore, m *codec.Message) PutResult {
	t.Helper()
	r := s.Put(m)
	require.Equal(t, PutOK, r.Status, "%v", r.Err)
	return r
}

// awaitDispatch waits until every record has its queue entry.
func awaitDispatch(t testing.TB, s *MessageStore) {
	t.Helper()
	require.Eventually(t, func() bool { return s.DispatchBehindBytes() == 0 }, testWait, testTick)
}

// bodies reads all messages of a queue through its entries.
func bodies(t *testing.T, s *MessageStore, topic string, queueID int32) []string {
	t.Helper()
	cq := s.queues.find(topic, queueID)
	if cq == nil {
		return nil
	}
	var out []string
	for q := cq.minOffset.Load(); q < cq.maxOffset.Load(); q++ {
		e, ok := cq.entry(q)
		require.True(t, ok)
		b, mf, ok := s.cl.slice(PhyOffset(e.phyOffset), int(e.size))
		require.True(t, ok, "%s-%d at %d: no record at %d", topic, queueID, q, e.phyOffset)
		rec, err := codec.ParseRecord(b, true)
		require.NoError(t, err)
		require.EqualValues(t, q, rec.QueueOffset)
		require.Equal(t, topic, string(rec.Topic))
		out = append(out, string(rec.Body))
		mf.Release()
	}
	return out
}

func TestStorePutReopen(t *testing.T) {
	f := func(fs vfs.FS, dir string, flush FlushDiskType) {
		t.Helper()
		o := testOptions(fs, dir)
		o.FlushDiskType = flush
		s := openStore(t, o)
		_, err := Open(o)
		require.ErrorIs(t, err, ErrLocked)
		var want [2][]string
		for i := range 200 {
			body := fmt.Sprintf("message %d %s", i, strings.Repeat("x", i))
			r := mustPut(t, s, testMessage("Topic", int32(i%2), body))
			require.EqualValues(t, i/2, r.QueueOffset)
			want[i%2] = append(want[i%2], body)
			if i%67 == 66 {
				awaitDispatch(t, s)
				end := s.MaxPhyOffset()
				closeStore(t, s)
				_, err := fs.Stat(path.Join(dir, abortFileName))
				require.ErrorContains(t, err, "no such file", "a clean stop removes it")
				s = openStore(t, o)
				require.Equal(t, end, s.MaxPhyOffset())
			}
		}
		awaitDispatch(t, s)
		require.Equal(t, want[0], bodies(t, s, "Topic", 0))
		require.Equal(t, want[1], bodies(t, s, "Topic", 1))
	}
	f(vfs.NewMem(), "/store", AsyncFlush)
	f(vfs.NewMem(), "/store", SyncFlush)
	f(vfs.OS, t.TempDir(), AsyncFlush)
	f(vfs.OS, t.TempDir(), SyncFlush)
}

func TestStoreChecks(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	f := func(want PutStatus, text string, change func(m *codec.Message)) {
		t.Helper()
		m := testMessage("Topic", 0, "body")
		change(m)
		r := s.Append(m)
		require.Equal(t, want, r.Status, "%v", r.Err)
		if want != PutOK {
			require.ErrorContains(t, r.Err, text)
		}
	}
	f(PutOK, "", func(m *codec.Message) {})
	f(PutOK, "", func(m *codec.Message) { m.Body = []byte{} })
	f(PutOK, "", func(m *codec.Message) { m.Topic = strings.Repeat("t", 127) })
	f(PutOK, "", func(m *codec.Message) { m.Topic = "%RETRY%" + strings.Repeat("t", 200) })
	f(PutOK, "", func(m *codec.Message) { m.Body = make([]byte, 8<<10) })
	f(MessageIllegal, "topic of 128 bytes", func(m *codec.Message) { m.Topic = strings.Repeat("t", 128) })
	f(MessageIllegal, "topic of 256 bytes", func(m *codec.Message) { m.Topic = "%RETRY%" + strings.Repeat("t", 249) })
	f(MessageIllegal, "topic is empty", func(m *codec.Message) { m.Topic = "" })
	f(MessageIllegal, "directory", func(m *codec.Message) { m.Topic = "../x" })
	f(MessageIllegal, "queue id", func(m *codec.Message) { m.QueueID = -1 })
	f(MessageIllegal, "no body", func(m *codec.Message) { m.Body = nil })
	f(MessageIllegal, "maxMessageSize is 8192", func(m *codec.Message) { m.Body = make([]byte, 8<<10+1) })
	f(PropertiesSizeExceeded, "32768", func(m *codec.Message) { m.Properties = make([]byte, 32768) })
	f(MessageIllegal, "longer than a commit log file", func(m *codec.Message) { m.Properties = make([]byte, 32767) })
	closeStore(t, s)
	f(ServiceNotAvailable, "not running", func(m *codec.Message) {})
	require.Equal(t, "10", s.RuntimeInfo()["putMessageFailedTimes"])
}

func TestStoreTransactionMessagesHaveNoQueueOffset(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	mustPut(t, s, testMessage("T", 0, "a"))
	half := testMessage("T", 0, "half")
	half.SysFlag = codec.SysFlagTransactionPrepared
	require.EqualValues(t, 0, mustPut(t, s, half).QueueOffset)
	commit := testMessage("T", 0, "b")
	commit.SysFlag = codec.SysFlagTransactionCommit
	require.EqualValues(t, 1, mustPut(t, s, commit).QueueOffset)
	awaitDispatch(t, s)
	require.Equal(t, []string{"a", "b"}, bodies(t, s, "T", 0))
}

func TestStoreBatch(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	batch := func(n, size int) *codec.Message {
		m := testMessage("T", 0, "")
		m.Body = nil
		for i := range n {
			var err error
			m.Body, err = codec.AppendBatchEntry(m.Body, codec.BatchEntry{Flag: int32(i),
				Body: []byte(strings.Repeat("b", size)), Properties: []byte("K\x01v")})
			require.NoError(t, err)
		}
		m.Properties = []byte("WAIT\x01true\x02")
		return m
	}
	mustPut(t, s, testMessage("T", 0, "first"))
	for range 5 {
		m := batch(5, 1000)
		r := s.PutBatch(m)
		require.Equal(t, PutOK, r.Status, "%v", r.Err)
		require.Equal(t, 5, r.Count)
		require.Len(t, r.PhyOffsets, 5)
		require.Equal(t, r.PhyOffset, r.PhyOffsets[0])
		fileOf := func(p PhyOffset) PhyOffset { return p / (16 << 10) }
		require.Equal(t, fileOf(r.PhyOffset), fileOf(r.EndOffset-1), "a batch is in one file")
		rec, err := readRecord(s, r.PhyOffsets[4])
		require.NoError(t, err)
		require.Equal(t, r.QueueOffset+4, rec.QueueOffset)
		require.Equal(t, "K\x01v\x02WAIT\x01true\x02", string(rec.Properties))
		require.EqualValues(t, 4, rec.Flag)
	}
	awaitDispatch(t, s)
	require.Len(t, bodies(t, s, "T", 0), 26)

	before := s.MaxPhyOffset()
	bad := batch(2, 10)
	bad.Body = bad.Body[:len(bad.Body)-1]
	require.Equal(t, MessageIllegal, s.PutBatch(bad).Status)
	bad = batch(2, 10)
	bad.SysFlag = codec.SysFlagTransactionPrepared
	require.Equal(t, MessageIllegal, s.PutBatch(bad).Status)
	bad = batch(2, 10)
	bad.Properties = []byte("DELAY\x013\x02")
	require.Equal(t, MessageIllegal, s.PutBatch(bad).Status)
	bad.Body = []byte{}
	bad.Properties = nil
	require.Equal(t, MessageIllegal, s.PutBatch(bad).Status)
	require.Equal(t, before, s.MaxPhyOffset(), "all or nothing")
}

func readRecord(s *MessageStore, p PhyOffset) (codec.Record, error) {
	b, mf, ok := s.cl.slice(p, 8)
	if !ok {
		return codec.Record{}, ErrNotFound
	}
	defer mf.Release()
	size, _ := codec.RecordSize(b)
	pos := int64(p) - mf.fileFrom
	return codec.ParseRecord([]byte(string(mf.data()[pos:pos+int64(size)])), true)
}

func TestStoreDiskFullIsAnError(t *testing.T) {
	fs := vfs.NewMemWith(vfs.MemOptions{LimitBytes: 200 << 10})
	o := testOptions(fs, "/store")
	o.MessageIndexEnable = false
	s := openStore(t, o)
	var r PutResult
	for range 100 {
		if r = s.Put(testMessage("T", 0, strings.Repeat("x", 4000))); r.Status != PutOK {
			break
		}
	}
	require.Equal(t, CreateMappedFileFailed, r.Status)
	require.ErrorIs(t, r.Err, ErrDiskFull)
	fs.SetLimit(0)
	require.Eventually(t, func() bool {
		return s.Put(testMessage("T", 0, strings.Repeat("x", 4000))).Status == PutOK
	}, testWait, testTick)
}

func TestStoreRuntimeInfo(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	mustPut(t, s, testMessage("T", 0, "x"))
	info := s.RuntimeInfo()
	require.Equal(t, "1", info["putMessageTimesTotal"])
	require.Equal(t, "0", info["commitLogMinOffset"])
	require.Equal(t, fmt.Sprint(s.MaxPhyOffset()), info["commitLogMaxOffset"])
	require.Regexp(t, `^\[<=0ms\]:\d .*\[10s~\]:0 $`, info["putMessageDistributeTime"])
	require.Contains(t, info["commitLogDirCapacity"], "Total : 1.0 TiB")
	require.Contains(t, info, "commitLogDiskRatio_/store/commitlog")
	require.Len(t, strings.Fields(info["putTps"]), 3)
}
