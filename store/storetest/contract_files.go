package storetest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// manualClock tells a set time; timers run on the real one.
type manualClock struct {
	clock.Clock
	millis atomic.Int64
}

func newManualClock() *manualClock { return &manualClock{Clock: clock.System} }

func (c *manualClock) set(millis int64) { c.millis.Store(millis) }
func (c *manualClock) Millis() int64    { return c.millis.Load() }
func (c *manualClock) Now() time.Time   { return time.UnixMilli(c.millis.Load()) }

// testRetention is case B20 (a): the front of the log is deleted.
func testRetention(h *harness) {
	const queues, perQueue = 4, 60
	topics := []string{"A", "B", "C"}
	for _, topic := range topics {
		for i := range perQueue {
			for queueID := range int32(queues) {
				putMany(h.T, h, topic, queueID, i, 1)
			}
		}
	}
	settle(h.T, h)
	files := 0 // that hold nothing but records of the first topic
	for ; ; files++ {
		b, err := h.ReadRecord(store.PhyOffset(files)*LogFileBytes, nil)
		require.NoError(h, err)
		rec, err := codec.ParseRecord(b, true)
		require.NoError(h, err)
		if string(rec.Topic) != "A" {
			break
		}
	}
	h.expire(files)
	firstB := int(h.firstRecord().QueueOffset)
	check := func() {
		h.Helper()
		for queueID := range int32(queues) {
			requireMany(h.T, h, "A", queueID, perQueue, perQueue)
			res := pull(h, "A", queueID, 0, 32, nil)
			require.Equal(h, store.GetOffsetTooSmall, res.Status)
			require.EqualValues(h, perQueue, res.NextOffset)
			require.EqualValues(h, perQueue, h.OffsetByTime("A", queueID, 1, store.BoundaryLower))
			require.EqualValues(h, perQueue, h.OffsetByTime("A", queueID, 1, store.BoundaryUpper))
			require.EqualValues(h, -1, h.EarliestStoreTime("A", queueID))
			min := h.MinOffset("B", queueID)
			require.Contains(h, []int{firstB, firstB + 1}, int(min))
			requireMany(h.T, h, "B", queueID, int(min), perQueue)
			requireMany(h.T, h, "C", queueID, 0, perQueue)
		}
	}
	check()
	h.restart()
	check()
	h.stop()
	h.abort()
	h.start()
	check()
	h.stop()
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "consumequeue")))
	h.start() // numbering goes on although neither queue nor log knows the messages
	check()
	for queueID := range int32(queues) {
		putMany(h.T, h, "A", queueID, perQueue, 1)
	}
	settle(h.T, h)
	for queueID := range int32(queues) {
		requireMany(h.T, h, "A", queueID, perQueue, perQueue+1)
	}
}

// testReaderOfDeletedFile is case B20 (c): an answer is on its way to a slow reader while its file is deleted.
func testReaderOfDeletedFile(h *harness) {
	putMany(h.T, h, "T", 0, 0, 400)
	settle(h.T, h)
	res := pull(h, "T", 0, 0, 20, nil)
	h.expire(1)
	recs := records(h.T, &res)
	require.Len(h, recs, 20)
	for i, rec := range recs {
		require.Equal(h, bodyOf("T", 0, i), string(rec.Body))
	}
}

// testHoleInLog is case B20 (b): somebody removed a log file in the middle. Everything before and after is delivered, and
// consumers get over the hole in finite steps.
func testHoleInLog(h *harness) {
	const count = 500
	putMany(h.T, h, "T", 0, 0, count)
	settle(h.T, h)
	check := func() {
		h.Helper()
		recs := readAll(h.T, h, "T", 0, 0)
		require.Less(h, len(recs), count-50)
		require.Greater(h, len(recs), count-250)
		require.EqualValues(h, 0, recs[0].QueueOffset)
		last := int64(-1)
		for _, rec := range recs {
			require.Greater(h, int64(rec.QueueOffset), last)
			last = int64(rec.QueueOffset)
			require.Equal(h, bodyOf("T", 0, int(last)), string(rec.Body))
		}
		require.EqualValues(h, count-1, last)
		for i, rec := range recs { // the search by time leads over the hole as well
			require.Equal(h, rec.StoreTimestamp, h.StoreTimeOf("T", 0, rec.QueueOffset))
			q := h.OffsetByTime("T", 0, rec.StoreTimestamp, store.BoundaryLower)
			require.LessOrEqual(h, q, rec.QueueOffset)
			if i > 0 && recs[i-1].StoreTimestamp < rec.StoreTimestamp {
				require.Greater(h, q, recs[i-1].QueueOffset)
			}
		}
	}
	h.stop()
	require.NoError(h, h.fs.Remove(h.logFiles()[1]))
	h.start()
	check()
	h.stop()
	h.abort()
	h.start()
	check()
	h.stop()
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "consumequeue")))
	h.start()
	check()
	require.EqualValues(h, count, mustPut(h.T, h, Message("T", 0, "next", "", "")).QueueOffset)
}

// testTornRecord is case B14: the last record reached the disk in part.
func testTornRecord(h *harness) {
	variants := []struct {
		name  string
		tear  func(rec []byte)
		clean bool
	}{
		{"second half zero", func(rec []byte) { clear(rec[len(rec)/2:]) }, false},
		{"one bit of the body", func(rec []byte) { rec[90] ^= 4 }, false},
		{"length and magic only", func(rec []byte) { clear(rec[8:]) }, false},
		{"end of the properties zero", func(rec []byte) { clear(rec[len(rec)-5:]) }, false},
		{"length beyond the file", func(rec []byte) { rec[1] = 0x7F }, false},
		{"length negative", func(rec []byte) { rec[0] = 0xFF }, false},
		{"nothing", func(rec []byte) { clear(rec) }, false},
		{"second half zero, clean stop", func(rec []byte) { clear(rec[len(rec)/2:]) }, true},
		{"nothing, clean stop", func(rec []byte) { clear(rec) }, true},
	}
	h.stop()
	for _, v := range variants {
		h.tornRecord(v.name, v.tear, v.clean)
	}
	h.start()
}

func (h *harness) tornRecord(name string, tear func(rec []byte), clean bool) {
	const queues, count = 4, 100
	require.NoError(h, h.fs.RemoveAll(h.o.RootDir))
	var cuts []string
	h.o.Listener.Truncated = func(file string, pos, bytes int64, reason string) {
		cuts = append(cuts, fmt.Sprintf("%s %d %d", path.Base(file), pos, bytes))
	}
	h.start()
	var last store.PutResult
	for i := range count {
		last = mustPut(h.T, h, Message("T", int32(i%queues), bodyOf("T", int32(i%queues), i/queues), "", "key"))
	}
	settle(h.T, h)
	size := int(last.EndOffset - last.PhyOffset)
	h.stop()
	file, pos := h.logFiles()[last.PhyOffset/LogFileBytes], int64(last.PhyOffset%LogFileBytes)
	h.edit(file, pos, size, func(rec []byte) {
		tear(rec)
		h.tornBytes = len(strings.TrimRight(string(rec), "\x00"))
	})
	crash := func() {
		if !clean {
			h.abort()
		}
	}
	check := func(counts ...int) {
		h.Helper()
		settle(h.T, h)
		total := 0
		for queueID, n := range counts {
			requireMany(h.T, h, "T", int32(queueID), 0, n)
			total += n
			for _, e := range h.QueueEntries("T", int32(queueID), 0, n) {
				require.LessOrEqual(h, e.PhyOffset+store.PhyOffset(e.Size), h.MaxPhyOffset(), name)
			}
		}
		walked := 0
		walkLog(h.T, h, func(*codec.Record) { walked++ })
		require.Equal(h, total, walked, name)
	}
	crash()
	h.start()
	require.Equal(h, last.PhyOffset, h.MaxPhyOffset(), name)
	check(25, 25, 25, 24)
	if left := h.tornBytes; left > 0 {
		require.Equal(h, []string{fmt.Sprintf("%s %d %d", path.Base(file), pos, left)}, cuts, name)
	}
	for i := count - 1; i < count+9; i++ { // the place of the lost one is taken first
		putMany(h.T, h, "T", int32(i%queues), i/queues, 1)
	}
	check(28, 27, 27, 27)
	h.stop()
	crash()
	h.start()
	check(28, 27, 27, 27)
	h.stop()
}

// edit changes bytes of a closed file.
func (h *harness) edit(name string, pos int64, n int, change func(b []byte)) {
	f, err := h.fs.OpenReadWrite(name)
	require.NoError(h, err)
	b := make([]byte, n)
	_, err = f.ReadAt(b, pos)
	require.NoError(h, err)
	change(b)
	_, err = f.WriteAt(b, pos)
	require.NoError(h, err)
	require.NoError(h, f.Close())
}

// testLostQueueFiles is case B15: queue files are missing, empty, cut or zero, after a clean stop and after a crash.
func testLostQueueFiles(h *harness) {
	const queues, count = 4, 25
	topics := []string{"A", "B"}
	for i := range count {
		for _, topic := range topics {
			for queueID := range int32(queues) {
				putMany(h.T, h, topic, queueID, i, 1)
			}
		}
	}
	settle(h.T, h)
	h.stop()
	root := h.o.RootDir
	dir := path.Join(root, "consumequeue")
	queueDir := path.Join(dir, "A", "2")
	lastFile := path.Join(queueDir, fmt.Sprintf("%020d", EntriesPerFile*entryBytes))
	variants := []struct {
		name   string
		damage func() error
	}{
		{"tree deleted", func() error { return h.fs.RemoveAll(dir) }},
		{"one topic deleted", func() error { return h.fs.RemoveAll(path.Join(dir, "B")) }},
		{"one queue deleted", func() error { return h.fs.RemoveAll(queueDir) }},
		{"last file deleted", func() error { return h.fs.Remove(lastFile) }},
		{"first file deleted", func() error { return h.fs.Remove(path.Join(queueDir, fmt.Sprintf("%020d", 0))) }},
		{"last file cut to 0", func() error { return h.resize(lastFile, 0) }},
		{"last file cut to 7", func() error { return h.resize(lastFile, 7) }},
		{"last file cut to 40", func() error { return h.resize(lastFile, 40) }},
		{"first file cut to 7", func() error { return h.resize(path.Join(queueDir, fmt.Sprintf("%020d", 0)), 7) }},
		{"last file zero", func() error { return h.zero(lastFile) }},
		{"first file zero", func() error { return h.zero(path.Join(queueDir, fmt.Sprintf("%020d", 0))) }},
		{"empty next file", func() error {
			return h.resize(path.Join(queueDir, fmt.Sprintf("%020d", 2*EntriesPerFile*entryBytes)), 0)
		}},
		{"empty next log file", func() error {
			return h.resize(path.Join(root, "commitlog", fmt.Sprintf("%020d", len(h.logFiles())*LogFileBytes)), 0)
		}},
		{"queue checkpoint deleted", func() error { return h.fs.Remove(path.Join(root, "queueCheckpoint")) }},
		{"queue checkpoint damaged", func() error { return h.zero(path.Join(root, "queueCheckpoint")) }},
	}
	for _, i := range []int{0, 3, 4, 5, 7, 9} { // the same in a directory of Java's, which has no marks
		v := variants[i]
		damage := v.damage
		v.name += ", no queue checkpoint"
		v.damage = func() error {
			return errors.Join(damage(), h.fs.Remove(path.Join(root, "queueCheckpoint")))
		}
		variants = append(variants, v)
	}
	saved := h.readTree(root)
	for _, v := range variants {
		for _, crashed := range []bool{false, true} {
			h.writeTree(root, saved)
			h.lostQueueFiles(v.damage, crashed, func() {
				h.Logf("%s, crashed %v", v.name, crashed)
				require.Equal(h, h.below(saved, dir), h.readTree(dir))
			})
			h.Logf("%s, crashed %v: passed", v.name, crashed)
		}
	}
	h.start()
}

// lostQueueFiles starts a damaged store; same compares the rebuilt files with the original ones.
func (h *harness) lostQueueFiles(damage func() error, crashed bool, same func()) {
	const queues, count = 4, 25
	require.NoError(h, damage())
	if crashed {
		h.abort()
	}
	each := func(f func(topic string, queueID int32)) {
		for _, topic := range []string{"A", "B"} {
			for queueID := range int32(queues) {
				f(topic, queueID)
			}
		}
	}
	h.start()
	settle(h.T, h)
	each(func(topic string, queueID int32) { requireMany(h.T, h, topic, queueID, 0, count) })
	h.stop()
	same()
	h.start()
	each(func(topic string, queueID int32) { putMany(h.T, h, topic, queueID, count, 1) })
	h.stop()
}

// resize cuts or makes a file.
func (h *harness) resize(name string, size int64) error {
	f, err := h.fs.OpenReadWrite(name)
	require.NoError(h, err)
	require.NoError(h, f.Truncate(size))
	return f.Close()
}

// zero overwrites a file.
func (h *harness) zero(name string) error {
	data, err := vfs.ReadFile(h.fs, name)
	require.NoError(h, err)
	h.edit(name, 0, len(data), func(b []byte) { clear(b) })
	return nil
}

// readTree reads all files below a directory.
func (h *harness) readTree(dir string) map[string]string {
	files := map[string]string{}
	var walk func(name string)
	walk = func(name string) {
		info, err := h.fs.Stat(name)
		require.NoError(h, err)
		if !info.IsDir() {
			data, err := vfs.ReadFile(h.fs, name)
			require.NoError(h, err)
			files[name] = string(data)
			return
		}
		names, err := h.fs.List(name)
		require.NoError(h, err)
		for _, n := range names {
			walk(path.Join(name, n))
		}
	}
	walk(dir)
	return files
}

func (h *harness) below(files map[string]string, dir string) map[string]string {
	below := map[string]string{}
	for name, data := range files {
		if len(name) > len(dir) && name[:len(dir)+1] == dir+"/" {
			below[name] = data
		}
	}
	return below
}

// writeTree makes a directory hold just these files.
func (h *harness) writeTree(dir string, files map[string]string) {
	require.NoError(h, h.fs.RemoveAll(dir))
	for name, data := range files {
		require.NoError(h, h.fs.MkdirAll(path.Dir(name)))
		f, err := h.fs.Create(name)
		require.NoError(h, err)
		_, err = f.WriteAt([]byte(data), 0)
		require.NoError(h, err)
		require.NoError(h, f.Close())
	}
}
