package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// otherHour is a DeleteWhen that is never now.
func otherHour() string { return fmt.Sprint((time.Now().Hour() + 12) % 24) }

// deletions gathers Listener.FileDeleted.
type deletions struct {
	mu    sync.Mutex
	files []string
}

func (d *deletions) add(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(d.files, name)
}

func (d *deletions) count(part string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range d.files {
		if strings.Contains(name, part) {
			n++
		}
	}
	return n
}

// cleanStore is a store whose clean-up runs when a test asks for it.
func cleanStore(t *testing.T, fs vfs.FS, change func(o *Options)) (*MessageStore, *deletions) {
	t.Helper()
	d := &deletions{}
	o := testOptions(fs, "/store")
	o.DeleteWhen = otherHour()
	o.DeleteCommitLogFilesInterval = time.Millisecond
	o.CleanResourceInterval = time.Hour
	o.Listener.FileDeleted = d.add
	if change != nil {
		change(&o)
	}
	return openStore(t, o), d
}

// age sets the times of the first n log files back by 100 hours.
func age(t *testing.T, s *MessageStore, n int) {
	t.Helper()
	require.NoError(t, s.cl.files.flush(0)) // a flush later would make the files new
	for _, mf := range s.cl.files.list()[:n] {
		require.NoError(t, s.fs.Chtimes(mf.path, time.Now().Add(-100*time.Hour)))
	}
}

// TestDeleteExpired is case B20 a and c.
func TestDeleteExpired(t *testing.T) {
	fs := vfs.NewMem()
	s, d := cleanStore(t, fs, nil)
	for _, topic := range []string{"first", "second", "third"} {
		for i := range 400 {
			mustPut(t, s, testMessage(topic, int32(i%4), strings.Repeat("x", 200)))
		}
	}
	awaitDispatch(t, s)
	rec, err := readRecord(s, 0)
	require.NoError(t, err)
	inFirst := int64(16<<10/rec.TotalSize) + 1
	old := int(400/inFirst) + 2 // every file with records of the first topic
	age(t, s, old)
	s.clean.round()
	require.Zero(t, s.MinPhyOffset(), "not the hour, the disk has room")

	b, reader, ok := s.cl.slice(0, rec.TotalSize)
	require.True(t, ok)
	held := string(b)
	s.DeleteExpiredFiles()
	require.Eventually(t, func() bool { return d.count("commitlog") == min(old, 10) }, testWait, testTick)
	require.Equal(t, held, string(b), "a reader keeps the bytes of a deleted file")
	reader.Release()
	s.DeleteExpiredFiles()
	require.Eventually(t, func() bool { return d.count("commitlog") == old }, testWait, testTick)
	require.EqualValues(t, old*16<<10, s.MinPhyOffset())
	check := func() {
		for q := range int32(4) {
			require.Eventually(t, func() bool { return s.queues.find("first", q).minOffset.Load() == 100 }, testWait, testTick)
			require.EqualValues(t, 100, s.queues.find("first", q).maxOffset.Load())
			require.Empty(t, bodies(t, s, "first", q))
			require.Len(t, bodies(t, s, "third", q), 100)
		}
	}
	check()
	closeStore(t, s)
	s, _ = cleanStore(t, fs, nil)
	check()
	require.EqualValues(t, 100, mustPut(t, s, testMessage("first", 0, "x")).QueueOffset)
	require.EqualValues(t, old*16<<10, s.MinPhyOffset())
}

func TestDeleteAtTheHourInBatches(t *testing.T) {
	s, d := cleanStore(t, vfs.NewMem(), func(o *Options) {
		o.DeleteWhen = fmt.Sprintf("%s;%d", otherHour(), time.Now().Hour())
		o.DeleteFileBatchMax = 3
	})
	for range 100 {
		mustPut(t, s, testMessage("T", 0, strings.Repeat("x", 2000)))
	}
	files := len(s.cl.files.list())
	age(t, s, files)
	s.clean.round()
	require.Equal(t, 3, d.count("commitlog"))
	for range files {
		s.clean.round()
	}
	require.Equal(t, files-1, d.count("commitlog"), "never the last one")
	awaitDispatch(t, s)
	bodies(t, s, "T", 0)
	mustPut(t, s, testMessage("T", 0, "x"))
}

func TestDiskWatermarks(t *testing.T) {
	fs := vfs.NewMem()
	var refuse []bool
	s, d := cleanStore(t, fs, func(o *Options) {
		o.DeleteFileBatchMax = 1
		o.Listener.DiskFull = func(_ string, _ float64, r bool) { refuse = append(refuse, r) }
	})
	for range 100 {
		mustPut(t, s, testMessage("T", 0, strings.Repeat("x", 2000)))
	}
	awaitDispatch(t, s)
	f := func(percent int, wantDeleted int, wantWritable bool) {
		t.Helper()
		fs.SetUsage(&vfs.DiskUsage{TotalBytes: 100, FreeBytes: uint64(100 - percent), UsedRatio: float64(percent) / 100})
		s.clean.round()
		require.Equal(t, wantDeleted, d.count("commitlog"))
		ok, why := s.Writable()
		require.Equal(t, wantWritable, ok)
		if !ok {
			require.ErrorIs(t, why, ErrDiskFull)
			require.ErrorContains(t, why, "is used by 91 %, the limit is 90 %")
		}
	}
	f(70, 0, true)
	f(80, 0, true) // nothing has expired
	age(t, s, 1)
	f(80, 1, true)
	f(86, 2, true) // regardless of age
	f(91, 3, false)
	r := s.Put(testMessage("T", 0, "x"))
	require.Equal(t, ServiceNotAvailable, r.Status)
	f(50, 3, true)
	require.Equal(t, []bool{true, true, false, false}, refuse, "the log's disk and the queues'")
	mustPut(t, s, testMessage("T", 0, "x"))
	require.InDelta(t, 0.5, s.CommitLogDiskRatio(), 0.001)
}

func TestForcedDeletionCanBeForbidden(t *testing.T) {
	fs := vfs.NewMem()
	s, d := cleanStore(t, fs, func(o *Options) { o.CleanFileForciblyEnable = false })
	for range 100 {
		mustPut(t, s, testMessage("T", 0, strings.Repeat("x", 2000)))
	}
	fs.SetUsage(&vfs.DiskUsage{UsedRatio: 0.95})
	s.clean.round()
	require.Zero(t, d.count("commitlog"))
}

func TestHourMatches(t *testing.T) {
	at := time.Date(2026, 1, 2, 4, 30, 0, 0, time.Local)
	f := func(list string, want bool) {
		t.Helper()
		require.Equal(t, want, hourMatches(list, at))
	}
	f("04", true)
	f("4", true)
	f("03;04;05", true)
	f(" 04 ", true)
	f("03;05", false)
	f("", false)
	f("x;04", true)
}
