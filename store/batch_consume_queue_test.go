package store

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

func TestBatchEntryBytes(t *testing.T) {
	f := func(e batchEntry, want string) {
		t.Helper()
		var b [batchEntryBytes]byte
		e.put(b[:])
		require.Equal(t, want, hex.EncodeToString(b[:]))
		require.Equal(t, e, decodeBatchEntry(b[:]))
	}
	f(batchEntry{cqEntry{1, 2, 3}, 4, 5, 6}, "0000000000000001"+"00000002"+"0000000000000003"+"0000000000000004"+
		"0000000000000005"+"0006"+"ffffffff"+"00000000")
	f(batchEntry{cqEntry{1 << 40, 4 << 20, -1}, 1795999290773, math.MaxInt64, MaxInnerMessages},
		"0000010000000000"+"00400000"+"ffffffffffffffff"+"000001a229e65595"+"7fffffffffffffff"+"7fff"+"ffffffff"+"00000000")
}

func testBatchQueue(fs vfs.FS) *consumeQueue {
	o := DefaultOptions("/store")
	o.FS, o.MappedFileSizeBatchConsumeQueue = fs, 10*batchEntryBytes
	return newConsumeQueue(&o, BatchCQ, "Topic", 3)
}

func appendTestBatch(t *testing.T, cq *consumeQueue, phyOffset, base int64, count int16) {
	t.Helper()
	e := batchEntry{cqEntry: cqEntry{phyOffset, 100, 7}, storeTimestamp: phyOffset, base: base, count: count}
	require.NoError(t, cq.appendBatch(&e))
}

func TestBatchQueueFindsWhatHoldsAnOffset(t *testing.T) {
	cq := testBatchQueue(vfs.NewMem())
	defer cq.mfq.close()
	for i := range int64(25) { // bases 0, 3, 6, … 36, and 50, 53, …
		base := 3 * i
		if i > 12 {
			base += 11
		}
		appendTestBatch(t, cq, 100*i, base, 3)
	}
	f := func(q, index int64, holds bool) {
		t.Helper()
		require.Equal(t, index, cq.position(q))
		_, ok := cq.entryOf(q)
		require.Equal(t, holds, ok)
	}
	f(0, 0, true)
	f(2, 0, true)
	f(3, 1, true)
	f(38, 12, true)
	f(39, 13, false) // no message was ever there
	f(49, 13, false)
	f(50, 13, true)
	f(85, 24, true)
	f(86, 25, false)
	require.EqualValues(t, 50, cq.offsetAt(13))
	require.EqualValues(t, 86, cq.offsetAt(25))
	start, end := cq.bounds()
	require.EqualValues(t, 0, start)
	require.EqualValues(t, 86, end)
	cq.correctMin(1250)
	start, end = cq.bounds()
	require.EqualValues(t, 50, start)
	require.EqualValues(t, 86, end)
	cq.correctMin(5000)
	start, end = cq.bounds()
	require.Equal(t, end, start)
	require.EqualValues(t, 86, end)
}

func TestBatchQueueTakesWhatFits(t *testing.T) {
	cq := testBatchQueue(vfs.NewMem())
	defer cq.mfq.close()
	appendTestBatch(t, cq, 0, 0, 3)
	appendTestBatch(t, cq, 100, 3, 2)
	appendTestBatch(t, cq, 100, 3, 2) // again
	appendTestBatch(t, cq, 0, 0, 3)
	require.EqualValues(t, 2, cq.maxOffset.Load())
	e := batchEntry{cqEntry: cqEntry{200, 100, 0}, base: 4, count: 1}
	require.ErrorIs(t, cq.appendBatch(&e), errQueueOrder)
	appendTestBatch(t, cq, 200, 9, 1)
	_, end := cq.bounds()
	require.EqualValues(t, 10, end)
	appendTestBatch(t, cq, 300, 0, 2) // the topic was made anew
	start, end := cq.bounds()
	require.EqualValues(t, 0, start)
	require.EqualValues(t, 2, end)
}

func TestBatchQueueRecoversUpToWhatIsNoEntry(t *testing.T) {
	f := func(spoil func(unit []byte)) {
		t.Helper()
		fs := vfs.NewMem()
		cq := testBatchQueue(fs)
		for i := range int64(25) {
			appendTestBatch(t, cq, 100*i, 3*i, 3)
		}
		spoil(cq.mfq.last().data()[2*batchEntryBytes : 3*batchEntryBytes])
		require.NoError(t, cq.flush(true))
		cq.mfq.close()
		cq = testBatchQueue(fs)
		defer cq.mfq.close()
		require.NoError(t, cq.load())
		require.NoError(t, cq.recover(queueMark{minPhy: -1, maxPhy: -1}, false))
		_, end := cq.bounds()
		require.EqualValues(t, 66, end)
		require.EqualValues(t, 2200, cq.maxPhy.Load())
		require.True(t, decodeCQEntry(cq.mfq.last().data()[2*batchEntryBytes:]).isZero())
	}
	f(func(unit []byte) { clear(unit) })
	f(func(unit []byte) { clear(unit[30:]) })                           // torn in the base
	f(func(unit []byte) { clear(unit[:36]) })                           // the front did not come
	f(func(unit []byte) { unit[37] = 0 })                               // no messages
	f(func(unit []byte) { unit[36] = 0x80 })                            // less than none
	f(func(unit []byte) { copy(unit[28:36], make([]byte, 8)) })         // before the entry before
	f(func(unit []byte) { copy(unit, []byte{0, 0, 0, 0, 0, 0, 0, 1}) }) // a record before that of the entry before
}

func TestInnerCount(t *testing.T) {
	f := func(props string, want int16) {
		t.Helper()
		require.Equal(t, want, innerCount([]byte(props)))
	}
	f("", 1)
	f("A\x011\x02", 1)
	f("INNER_NUM\x0117\x02", 17)
	f("A\x011\x02INNER_NUM\x0132767", 32767)
	f("INNER_NUM\x0132768\x02", 1)
	f("INNER_NUM\x010\x02", 1)
	f("INNER_NUM\x01-1\x02", 1)
	f("INNER_NUM\x01x\x02", 1)
	f("XINNER_NUM\x0117\x02", 1)
}

// An offset gets another digit between its look-up and the put lock: the put begins anew.
func TestNumberingStartsAnewWithAnotherDigit(t *testing.T) {
	o := DefaultOptions("/store")
	o.FS, o.MappedFileSizeCommitLog, o.MaxHashSlotNum, o.MaxIndexNum = vfs.NewMem(), 1<<20, 100, 400
	o.EnableLmq, o.EnableMultiDispatch = true, true
	s := openStore(t, o)
	defer func() { require.NoError(t, s.Close()) }()
	m := testMessage("T", 0, "m")
	m.Properties = codec.AppendProperty(nil, codec.PropInnerMultiDispatch, "%LMQ%a,%LMQ%b")
	x, r := s.number(m)
	require.Equal(t, PutOK, r.Status)
	require.Equal(t, "INNER_MULTI_QUEUE_OFFSET\x010,0\x02", string(x.suffix))
	s.queues.find("%LMQ%b", 0).next.Store(9)
	require.True(t, x.fits())
	s.queues.find("%LMQ%b", 0).next.Store(10)
	require.False(t, x.fits())
	_, err := s.cl.putRun(make([]byte, 100), &x.cq.next, s.cl.epoch.Load(), x)
	require.ErrorIs(t, err, errOffsetWidth)
	put := mustPut(t, s, m)
	rec, err := readRecord(s, put.PhyOffset)
	require.NoError(t, err)
	offsets, _ := rec.Property(codec.PropInnerMultiQueueOffset)
	require.Equal(t, "0,10", string(offsets))
}
