package store

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// testQueue is a queue without a log; files have 40 entries.
func testQueue(fs vfs.FS) *consumeQueue {
	o := testOptions(fs, "/store")
	return newConsumeQueue(&o, SimpleCQ, "Topic", 3)
}

func TestConsumeQueueEntryBytes(t *testing.T) {
	f := func(e cqEntry, want string) {
		t.Helper()
		var b [cqEntryBytes]byte
		e.put(b[:])
		require.Equal(t, want, hex.EncodeToString(b[:]))
		require.Equal(t, e, decodeCQEntry(b[:]))
	}
	f(cqEntry{1, 2, 3}, "000000000000000100000002"+"0000000000000003")
	f(cqEntry{0, blankEntrySize, 0}, "00000000000000007fffffff"+"0000000000000000")
	f(cqEntry{math.MaxInt64, math.MaxInt32 - 1, -1}, "7fffffffffffffff7ffffffe"+"ffffffffffffffff")
	require.True(t, isExtAddress(math.MinInt32-1))
	require.False(t, isExtAddress(math.MinInt32))
}

// Java takes phyOffset+size of the last entry for the end of the records that a queue has, and drops new ones before it
// (ConsumeQueue.recover, putMessagePositionInfo): a blank entry of 2 GiB at the end would make it lose messages.
func TestQueueThatLostItsFilesEndsAsJavaReadsIt(t *testing.T) {
	f := func(entries, q int64) {
		t.Helper()
		cq := testQueue(vfs.NewMem())
		defer cq.mfq.close()
		for at := range entries {
			require.NoError(t, cq.append(cqEntry{1000 * at, 100, 0}, at))
		}
		end := max(0, cq.maxPhy.Load())
		require.NoError(t, cq.numberOn(queueMark{maxOffset: q}))
		require.Equal(t, q, cq.maxOffset.Load())
		e, ok := cq.entry(q - 1)
		require.True(t, ok)
		require.True(t, e.isBlank())
		require.LessOrEqual(t, e.end(), end+1)
		if entries == 0 {
			require.Equal(t, q, cq.minOffset.Load())
		}
		require.NoError(t, cq.append(cqEntry{1000 * q, 100, 0}, q))
		require.Equal(t, q+1, cq.maxOffset.Load())
	}
	f(0, 1)
	f(0, 10)
	f(0, 41)
	f(0, 119)
	f(7, 8)
	f(7, 90)
}

func TestConsumeQueueAppend(t *testing.T) {
	fs := vfs.NewMem()
	cq := testQueue(fs)
	defer cq.mfq.close()
	f := func(q, phyOffset int64, wantMax int64) {
		t.Helper()
		require.NoError(t, cq.append(cqEntry{phyOffset, 100, q}, q))
		require.Equal(t, wantMax, cq.maxOffset.Load())
	}
	for q := range int64(90) { // three files
		f(q, 1000*q, q+1)
		f(q, 1000*q, q+1) // again: it is there
		f(0, 0, q+1)
	}
	for q := range int64(90) {
		e, ok := cq.entry(q)
		require.True(t, ok)
		require.Equal(t, cqEntry{1000 * q, 100, q}, e)
	}
	_, ok := cq.entry(90)
	require.False(t, ok)
	require.ErrorIs(t, cq.append(cqEntry{200_000, 100, 0}, 50), errQueueOrder)
	require.ErrorIs(t, cq.append(cqEntry{200_000, 100, 0}, -1), errQueueOrder)
	require.ErrorIs(t, cq.append(cqEntry{200_000, 100, 0}, 90+maxHoleEntries+1), errQueueOrder)
	require.ErrorIs(t, cq.append(cqEntry{200_000, 100, 0}, math.MaxInt64), errQueueOrder)
	require.EqualValues(t, 90, cq.maxOffset.Load())

	f(95, 200_000, 96) // a hole: its entries are blank and do not go back in the log
	for q := int64(90); q < 95; q++ {
		e, _ := cq.entry(q)
		require.Equal(t, cqEntry{89_100, blankEntrySize, 0}, e)
	}
	f(0, 300_000, 1) // the topic was made anew
	require.Len(t, cq.mfq.list(), 1)
	e, _ := cq.entry(0)
	require.Equal(t, cqEntry{300_000, 100, 0}, e)
}

// TestConsumeQueueStartsInTheMiddle as a slave's or a rebuilt one does: Java's pre-blank entries.
func TestConsumeQueueStartsInTheMiddle(t *testing.T) {
	fs := vfs.NewMem()
	cq := testQueue(fs)
	defer cq.mfq.close()
	require.NoError(t, cq.append(cqEntry{5000, 100, 7}, 45))
	require.EqualValues(t, 45, cq.minOffset.Load())
	require.EqualValues(t, 46, cq.maxOffset.Load())
	names, err := fs.List("/store/consumequeue/Topic/3")
	require.NoError(t, err)
	require.Equal(t, []string{"00000000000000000800"}, names)
	data, err := vfs.ReadFile(fs, path.Join("/store/consumequeue/Topic/3", names[0]))
	require.NoError(t, err)
	blank, err := hex.DecodeString("00000000000000007fffffff0000000000000000")
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat(blank, 5), data[:5*cqEntryBytes])
	cq.correctMin(0) // blank entries are not messages, whatever the log begins with
	require.EqualValues(t, 45, cq.minOffset.Load())
}

func TestConsumeQueueCorrectMin(t *testing.T) {
	fs := vfs.NewMem()
	cq := testQueue(fs)
	defer cq.mfq.close()
	for q := range int64(100) {
		require.NoError(t, cq.append(cqEntry{1000 * q, 100, 0}, q))
	}
	f := func(minPhy, want int64) {
		t.Helper()
		cq.correctMin(minPhy)
		require.Equal(t, want, cq.minOffset.Load())
		require.EqualValues(t, 100, cq.maxOffset.Load())
	}
	f(0, 0)
	f(1, 1)
	f(1000, 1)
	f(1001, 2)
	f(50_000, 50)
	f(50_000, 50)
	f(98_001, 99)
	f(99_000, 99)
	f(99_001, 100)
	f(1_000_000, 100)
	f(50_000, 100) // the log's start never goes back
	deleted, err := cq.deleteExpired(1_000_000, 10)
	require.NoError(t, err)
	require.Len(t, deleted, 2, "never the last file")
	require.EqualValues(t, 100, cq.minOffset.Load())
	require.EqualValues(t, 100, cq.maxOffset.Load())
	require.NoError(t, cq.append(cqEntry{2_000_000, 100, 0}, 100))
	cq.correctMin(1_000_000)
	require.EqualValues(t, 100, cq.minOffset.Load())
	require.EqualValues(t, 101, cq.maxOffset.Load())
}

// TestConsumeQueueFullDisk: an append fails and can be repeated; nothing is half there.
func TestConsumeQueueFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, "/store")
	o.MappedFileSizeConsumeQueue = 400 * 20 // two pages
	cq := newConsumeQueue(&o, SimpleCQ, "Topic", 3)
	defer cq.mfq.close()
	fs.SetLimit(3 * vfs.PageSize)
	q := int64(0)
	var err error
	for ; err == nil; q++ {
		err = cq.append(cqEntry{100 * q, 100, 0}, q)
	}
	q--
	require.True(t, diskFull(err), "%v", err)
	require.Equal(t, q, cq.maxOffset.Load())
	require.Error(t, cq.append(cqEntry{100 * q, 100, 0}, q))
	fs.SetLimit(0)
	require.NoError(t, cq.append(cqEntry{100 * q, 100, 0}, q))
	for i := range q + 1 {
		e, ok := cq.entry(i)
		require.True(t, ok)
		require.Equal(t, cqEntry{100 * i, 100, 0}, e)
	}
}

func TestConsumeQueueAppendAllocatesNothing(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.MappedFileSizeConsumeQueue = 20 << 20
	cq := newConsumeQueue(&o, SimpleCQ, "Topic", 3)
	defer cq.mfq.close()
	q := int64(0)
	put := func() {
		if err := cq.append(cqEntry{100 * q, 100, 0}, q); err != nil {
			t.Error(err)
		}
		q++
	}
	put()
	require.Zero(t, testing.AllocsPerRun(1000, put))
}

func TestTableFinds(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	table := newConsumeQueueTable(&o, &commitLog{}, newQueueCheckpoint(o.FS, "/store"))
	require.Nil(t, table.find("none", 0))
	ids := []int32{0, 1, 7, denseQueueIDs - 1, denseQueueIDs, math.MaxInt32}
	want := map[queueKey]*consumeQueue{}
	for i := range 300 {
		for _, id := range ids {
			k := queueKey{fmt.Sprint("Topic", i), id}
			want[k] = table.findOrCreate(k.topic, id)
			require.Equal(t, k, queueKey{want[k].topic, want[k].queueID})
		}
	}
	for k, cq := range want {
		require.Same(t, cq, table.find(k.topic, k.queueID))
		require.Same(t, cq, table.findBytes([]byte(k.topic), k.queueID))
		require.Same(t, cq, table.findOrCreate(k.topic, k.queueID))
		require.Nil(t, table.find(k.topic, 2))
		require.Nil(t, table.find(k.topic, -1))
	}
	require.Len(t, table.all(), len(want))
	require.Len(t, table.topics(), 300)
	list := table.topic("Topic5").list()
	for i, id := range ids {
		require.Equal(t, id, list[i].queueID)
	}
	topic := []byte("Topic123")
	require.Zero(t, testing.AllocsPerRun(100, func() { table.findBytes(topic, 7) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { table.find("Topic9", 7) }))
}

func TestTopicDirNames(t *testing.T) {
	f := func(topic string, want bool) {
		t.Helper()
		require.Equal(t, want, isTopicDirName(topic))
	}
	f("Topic", true)
	f("%RETRY%group", true)
	f("a.b", true)
	f("", false)
	f(".", false)
	f("..", false)
	f("../x", false)
	f("a/b", false)
	f("a\x00", false)
	f(string(make([]byte, 256)), false)
}

// TestDeleteTopicWhilePutting: topics are deleted while messages go into them. Whatever is in a queue afterwards is
// numbered from 0 without gaps and is what its record says, also after a restart and after a crash.
func TestDeleteTopicWhilePutting(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, testOptions(fs, "/store"))
	var stop atomic.Bool
	var puts atomic.Int64
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				m := testMessage("Topic", int32(i%2), fmt.Sprintf("%d-%d", w, i))
				m.WaitStoreMsgOK = false
				if r := s.Put(m); r.Status != PutOK {
					t.Errorf("%v %v", r.Status, r.Err)
					return
				}
				puts.Add(1)
			}
		})
	}
	for i := range 30 {
		require.Eventually(t, func() bool { return puts.Load() > int64(i*30) }, testWait, testTick)
		require.NoError(t, s.DeleteTopic("Topic"))
	}
	stop.Store(true)
	wg.Wait()
	for i := range 5 {
		mustPut(t, s, testMessage("Topic", int32(i%2), "last"))
	}
	awaitDispatch(t, s)
	want := [2][]string{bodies(t, s, "Topic", 0), bodies(t, s, "Topic", 1)}
	check := func(s *MessageStore) {
		t.Helper()
		for queueID := range int32(2) {
			require.Zero(t, s.MinOffset("Topic", queueID))
			require.EqualValues(t, len(want[queueID]), s.MaxOffset("Topic", queueID))
			require.Equal(t, want[queueID], bodies(t, s, "Topic", queueID))
		}
	}
	crashed := fs.CloneAll()
	closeStore(t, s)
	check(openStore(t, testOptions(fs, "/store")))
	check(openStore(t, testOptions(crashed, "/store")))
}

// TestDispatchTagsCode: what an entry says of its message.
func TestDispatchTagsCode(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.DelayTagsCode = func(level int, storeTimestamp int64) int64 { return storeTimestamp + int64(level)*1000 }
	f := func(topic, tags, delay string, sysFlag int32, want int64) {
		t.Helper()
		m := testMessage(topic, 0, "x")
		m.SysFlag = sysFlag
		m.Properties = codec.AppendProperty(m.Properties, codec.PropTags, tags)
		m.Properties = codec.AppendProperty(m.Properties, codec.PropDelayTimeLevel, delay)
		b, err := codec.AppendRecord(nil, m)
		require.NoError(t, err)
		codec.PatchRecord(b, 4, 5, 6000)
		rec, err := codec.ParseRecord(b, true)
		require.NoError(t, err)
		var d dispatchRecord
		d.fill(&rec, 5, &o)
		require.Equal(t, want, d.tagsCode)
	}
	f("T", "", "", 0, 0)
	f("T", "TagA", "", 0, int64(codec.JavaHash("TagA")))
	f("T", "TagA", "3", 0, int64(codec.JavaHash("TagA")))
	f(codec.ScheduleTopic, "TagA", "3", 0, 9000)
	f(codec.ScheduleTopic, "TagA", "0", 0, int64(codec.JavaHash("TagA")))
	f(codec.ScheduleTopic, "TagA", "x", 0, int64(codec.JavaHash("TagA")))
	f(codec.ScheduleTopic, "", "", 0, 0)
	f("T", "TagA", "", codec.SysFlagTransactionPrepared, 0)
}

func TestPropertyValue(t *testing.T) {
	f := func(props, want string) {
		t.Helper()
		require.Equal(t, want, string(propertyValue([]byte(props), tagsPattern)))
		lookup, _ := codec.LookupProperty([]byte(props), codec.PropTags)
		require.Equal(t, want, string(lookup), "LookupProperty agrees")
	}
	f("", "")
	f("TAGS\x01a\x02", "a")
	f("TAGS\x01a", "a")
	f("K\x01v\x02TAGS\x01a\x02L\x01w", "a")
	f("MYTAGS\x01b\x02", "")
	f("K\x01TAGS\x01b\x02", "")
	f("K\x01TAGS\x01b\x02TAGS\x01a\x02", "a")
	f("TAGS\x01a\x02TAGS\x01b\x02", "b")
	f("TAGS\x01a\x02TAGS\x01\x02", "a")
	f("TAGS\x01\x02", "")
	f("TAGS", "")
	f("TAGS\x01a\x01b\x02", "a\x01b")
}
