package store

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// extOptions keep units in files of 10 without bits.
func extOptions(fs vfs.FS) Options {
	o := testOptions(fs, "/store")
	o.Log = slog.New(slog.DiscardHandler)
	o.EnableConsumeQueueExt, o.MappedFileSizeConsumeQueueExt = true, 10*ExtHeaderBytes+extEndBytes
	return o
}

func TestExtAddressArithmetic(t *testing.T) {
	f := func(offset int64) {
		t.Helper()
		a := extAddress(offset)
		require.True(t, isExtAddress(a))
		require.Equal(t, offset, extOffset(a))
	}
	f(0)
	f(1)
	f(48 << 20)
	f(maxExtOffset)
	require.EqualValues(t, math.MinInt32-1, extAddress(maxExtOffset))
	require.False(t, isExtAddress(extAddress(maxExtOffset+1)))
}

func TestExtUnitBytes(t *testing.T) {
	f := func(u extUnit, want string) {
		t.Helper()
		b := u.appendTo(nil)
		require.Equal(t, strings.ReplaceAll(want, " ", ""), hex.EncodeToString(b))
		got, ok := decodeExtUnit(append(b, 1, 2, 3))
		require.True(t, ok)
		if u.bitMap == nil {
			u.bitMap = []byte{}
		}
		require.Equal(t, u, got)
		for n := range b {
			_, ok := decodeExtUnit(b[:n])
			require.False(t, ok, "cut at %d", n)
		}
	}
	f(extUnit{tagsCode: 5, storeTimestamp: 7}, "0014 0000000000000005 0000000000000007 0000")
	f(extUnit{tagsCode: -1, storeTimestamp: 1 << 40, bitMap: []byte{0x80, 1}},
		"0016 ffffffffffffffff 0000010000000000 0002 8001")
	for _, bad := range []string{"", "ffff", strings.Repeat("00", 30), "0014" + strings.Repeat("00", 16) + "0001",
		"7fff" + strings.Repeat("00", 16) + "7feb", "0014" + strings.Repeat("00", 16) + "ffff"} {
		b, err := hex.DecodeString(bad)
		require.NoError(t, err)
		_, ok := decodeExtUnit(b)
		require.False(t, ok, bad)
	}
}

// extPut stores a message that is n in its queue, with the tag "tag<n>".
func extPut(t *testing.T, s *MessageStore, topic string, n int) {
	t.Helper()
	m := testMessage(topic, 0, fmt.Sprint("message ", n))
	m.Properties = codec.AppendProperty(nil, codec.PropTags, fmt.Sprint("tag", n))
	require.EqualValues(t, n, mustPut(t, s, m).QueueOffset)
	awaitDispatch(t, s)
}

// requireUnits checks that every entry from q on has the unit of its record.
func requireUnits(t *testing.T, s *MessageStore, topic string, q int64) {
	t.Helper()
	cq := s.queues.find(topic, 0)
	require.NotNil(t, cq)
	seen := map[int64]bool{}
	for ; q < cq.maxOffset.Load(); q++ {
		e, ok := cq.entry(q)
		require.True(t, ok)
		require.True(t, isExtAddress(e.tagsCode), "entry %d", q)
		require.False(t, seen[e.tagsCode], "one unit for two messages")
		seen[e.tagsCode] = true
		u, ok := cq.ext.unit(extOffset(e.tagsCode))
		require.True(t, ok, "unit of %d", q)
		rec, err := readRecord(s, PhyOffset(e.phyOffset))
		require.NoError(t, err)
		require.Equal(t, rec.StoreTimestamp, u.storeTimestamp)
		require.Equal(t, codec.TagsCode(fmt.Append(nil, "tag", q)), u.tagsCode)
	}
}

func extFiles(t *testing.T, fs vfs.FS, topic string) []string {
	t.Helper()
	names, err := fs.List(path.Join("/store", extDirName, topic, "0"))
	require.NoError(t, ignoreNotExist(err))
	return names
}

// Units go to files of their own, over restarts and crashes, and end where the queue ends.
func TestExtRollsAndReopens(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, extOptions(fs))
	for n := range 35 {
		extPut(t, s, "T", n)
		switch n % 12 {
		case 5:
			closeStore(t, s)
			s = openStore(t, extOptions(fs))
		case 11:
			fs = killStore(t, fs, s)
			s = openStore(t, extOptions(fs))
		}
		requireUnits(t, s, "T", 0)
	}
	require.Equal(t, []string{offsetFileName(0), offsetFileName(204), offsetFileName(408), offsetFileName(612)},
		extFiles(t, fs, "T"))
	b, err := vfs.ReadFile(fs, path.Join("/store", extDirName, "T", "0", offsetFileName(0)))
	require.NoError(t, err)
	require.Equal(t, "ffff0000", hex.EncodeToString(b[200:]), "the end of a file that is full")
}

// An entry that is written again, because the first try failed, keeps its unit; a record that is dispatched twice gets no
// second one.
func TestExtUnitIsWrittenOnce(t *testing.T) {
	s := openStore(t, extOptions(vfs.NewMem()))
	extPut(t, s, "T", 0)
	cq := s.queues.find("T", 0)
	end := cq.ext.mfq.wroteEnd()
	s.queues.writeMu.Lock()
	defer s.queues.writeMu.Unlock()
	d := dispatchRecord{topic: []byte("T"), phyOffset: 0, size: 10}
	_, err := s.queues.put(&d, true)
	require.NoError(t, err)
	require.Equal(t, end, cq.ext.mfq.wroteEnd())
	first, _, err := cq.ext.put(1000, s.queues.makeUnit(&d))
	require.NoError(t, err)
	again, _, err := cq.ext.put(1000, s.queues.makeUnit(&d))
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// tagIs is a filter by tag that also wants a bit.
type tagIs struct {
	code  int64
	units *int
}

func (f tagIs) MatchQueueEntry(tagsCode int64) bool { return tagsCode == f.code }
func (f tagIs) NeedsRecord() bool                   { return false }
func (f tagIs) MatchRecord(*codec.Record) bool      { return true }
func (f tagIs) MatchProperties([]byte) bool         { return true }
func (f tagIs) MatchUnit(int64, []byte) bool        { *f.units++; return true }

func getTag(s *MessageStore, n int) (res GetResult, units int) {
	s.Get(&GetRequest{Topic: "T", MaxMsgs: 32, AllowCold: true,
		Filter: tagIs{codec.TagsCode(fmt.Append(nil, "tag", n)), &units}}, &res)
	res.Messages.Release()
	return res, units
}

// With ConsumeQueueExt off, on, off and on again, or with its files lost or damaged, filters by tag see the same, and new
// units are never those of old messages.
func TestExtIsNoMoreThanHelp(t *testing.T) {
	fs := vfs.NewMem()
	n := 0
	live := func(o Options, count int) {
		t.Helper()
		s := openStore(t, o)
		for range count {
			extPut(t, s, "T", n)
			n++
		}
		for tag := range n {
			res, _ := getTag(s, tag)
			require.Equal(t, 1, res.Count, "tag%d of %d", tag, n)
		}
		entries := s.QueueEntries("T", 0, 0, n)
		for q, e := range entries {
			require.Equal(t, codec.TagsCode(fmt.Append(nil, "tag", q)), e.TagsCode)
		}
		closeStore(t, s)
	}
	on, off := extOptions(fs), extOptions(fs)
	off.EnableConsumeQueueExt = false
	live(off, 3)
	live(on, 5)
	live(off, 3)
	require.Len(t, extFiles(t, fs, "T"), 1)
	live(on, 3)
	require.Equal(t, []string{offsetFileName(0)}, extFiles(t, fs, "T"))

	dir := path.Join("/store", extDirName, "T", "0")
	require.NoError(t, fs.Remove(path.Join(dir, offsetFileName(0))))
	live(on, 3)
	require.Equal(t, []string{offsetFileName(204)}, extFiles(t, fs, "T"), "behind the lost ones")
	require.NoError(t, fs.RemoveAll("/store/"+extDirName))
	live(on, 3)
	require.Equal(t, []string{offsetFileName(408)}, extFiles(t, fs, "T"))
	patch(t, fs, path.Join(dir, offsetFileName(408)), 0, make([]byte, 204))
	live(on, 3)
	require.Equal(t, []string{offsetFileName(408), offsetFileName(612)}, extFiles(t, fs, "T"))
	f, err := fs.OpenReadWrite(path.Join(dir, offsetFileName(408)))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(100))
	require.NoError(t, f.Close())
	live(on, 3)
}

// When none of the last entries tells where the units end, new ones go to a new file.
func TestExtAfterALongPause(t *testing.T) {
	fs := vfs.NewMem()
	on, off := extOptions(fs), extOptions(fs)
	off.EnableConsumeQueueExt = false
	s := openStore(t, on)
	extPut(t, s, "T", 0)
	closeStore(t, s)
	s = openStore(t, off)
	for range extSearchEntries {
		mustPut(t, s, testMessage("T", 0, "x"))
	}
	awaitDispatch(t, s)
	closeStore(t, s)
	for range 2 { // the second start finds no more than the first
		s = openStore(t, on)
		require.Equal(t, []string{offsetFileName(0)}, extFiles(t, fs, "T"))
		closeStore(t, s)
	}
	s = openStore(t, on)
	extPut(t, s, "T", extSearchEntries+1)
	require.Equal(t, []string{offsetFileName(0), offsetFileName(204)}, extFiles(t, fs, "T"))
	requireUnits(t, s, "T", extSearchEntries+1)
}

// A unit spares the record: messages that it rules out are not read.
func TestExtIsAskedFirst(t *testing.T) {
	s := openStore(t, extOptions(vfs.NewMem()))
	for n := range 9 {
		extPut(t, s, "T", n)
	}
	res, units := getTag(s, 4)
	require.Equal(t, 1, res.Count)
	require.Equal(t, 1, units, "behind the tag")
	require.EqualValues(t, 9, res.NextOffset)
}

// Topics that are deleted take their units along, also those that a crash left behind.
func TestExtOfDeletedTopics(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, extOptions(fs))
	extPut(t, s, "T", 0)
	extPut(t, s, "U", 0)
	require.NoError(t, s.DeleteTopic("T"))
	require.Empty(t, extFiles(t, fs, "T"))
	extPut(t, s, "T", 0)
	requireUnits(t, s, "T", 0)
	closeStore(t, s)
	require.NoError(t, fs.RemoveAll("/store/consumequeue/U"))
	require.NoError(t, fs.MkdirAll("/store/"+extDirName+"/gone/3"))
	s = openStore(t, extOptions(fs))
	requireUnits(t, s, "U", 0) // rebuilt from the log
	names, err := fs.List("/store/" + extDirName + "/gone")
	require.NoError(t, err)
	require.Empty(t, names)
}

// Files whose units belong to messages that have expired go with them.
func TestExtExpires(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, extOptions(fs))
	for n := range 45 {
		extPut(t, s, "T", n)
	}
	cq := s.queues.find("T", 0)
	e, ok := cq.entry(25)
	require.True(t, ok)
	_, err := cq.deleteExpired(e.phyOffset, 10)
	require.NoError(t, err)
	require.EqualValues(t, 25, cq.minOffset.Load())
	require.Equal(t, []string{offsetFileName(408), offsetFileName(612), offsetFileName(816)}, extFiles(t, fs, "T"))
	requireUnits(t, s, "T", 25)
}

// What the bits are made of does not have to fit: too many bits leave the unit without.
func TestExtUnitOfTooManyBits(t *testing.T) {
	f := func(bits int, stored bool) {
		t.Helper()
		o := extOptions(vfs.NewMem())
		o.MappedFileSizeConsumeQueueExt = 1 << 20
		o.CalcFilterBitMap = func(dst, _, _ []byte) []byte { return append(dst, make([]byte, bits/8)...) }
		s := openStore(t, o)
		extPut(t, s, "T", 0)
		requireUnits(t, s, "T", 0)
		want := int64(ExtHeaderBytes)
		if stored {
			want += int64(bits / 8)
		}
		require.Equal(t, want, s.queues.find("T", 0).ext.mfq.wroteEnd())
	}
	f(8, true)
	f(8*(maxExtUnitBytes-ExtHeaderBytes), true)
	f(8*(maxExtUnitBytes-ExtHeaderBytes+1), false)
}

// A unit that no file has room for leaves the entry with its plain tags code.
func TestExtUnitWithoutRoom(t *testing.T) {
	o := extOptions(vfs.NewMem())
	o.CalcFilterBitMap = func(dst, _, _ []byte) []byte { return append(dst, make([]byte, 1000)...) }
	s := openStore(t, o)
	extPut(t, s, "T", 0)
	e, ok := s.queues.find("T", 0).entry(0)
	require.True(t, ok)
	require.Equal(t, codec.TagsCode([]byte("tag0")), e.tagsCode)
}

func TestExtFilesOfAnotherLengthAreNamed(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, extOptions(fs))
	extPut(t, s, "T", 0)
	closeStore(t, s)
	o := extOptions(fs)
	o.MappedFileSizeConsumeQueueExt = 100
	_, err := Open(o)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "/store/consumequeue_ext/T/0/00000000000000000000")
	o.MappedFileSizeConsumeQueueExt = 10
	_, err = Open(o)
	require.ErrorContains(t, err, "mappedFileSizeConsumeQueueExt 10 not in [64, 2147483647]")
}

// A queue that is cut while it is read leaves the units behind its end alone: a record that comes to the same place of the
// log later gets one of its own.
func TestExtOfATruncatedQueue(t *testing.T) {
	s := openStore(t, extOptions(vfs.NewMem()))
	for n := range 9 {
		extPut(t, s, "T", n)
	}
	cq := s.queues.find("T", 0)
	held := cq.ext.mfq.last()
	require.True(t, held.Acquire())
	defer held.Release()
	s.queues.writeMu.Lock()
	defer s.queues.writeMu.Unlock()
	last, ok := cq.entry(8)
	require.True(t, ok)
	require.NoError(t, cq.truncateLive(last.phyOffset))
	require.EqualValues(t, 8, cq.maxOffset.Load())
	d := dispatchRecord{topic: []byte("T"), queueOffset: 8, phyOffset: PhyOffset(last.phyOffset), size: int(last.size),
		tagsCode: 77, storeTimestamp: 78}
	_, err := s.queues.put(&d, true)
	require.NoError(t, err)
	e, ok := cq.entry(8)
	require.True(t, ok)
	require.NotEqual(t, last.tagsCode, e.tagsCode)
	u, ok := cq.ext.unit(extOffset(e.tagsCode))
	require.True(t, ok)
	require.Equal(t, extUnit{tagsCode: 77, storeTimestamp: 78}, u)
}
