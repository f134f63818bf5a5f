package schedule

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// system is a store with the service on it, in memory and, inside a synctest bubble, in virtual time.
type system struct {
	*ScheduleMessageService
	t          *testing.T
	fs         vfs.FS
	store      *store.MessageStore
	log        strings.Builder
	deliveries []Delivery // by the service's goroutine; read it after synctest.Wait
	stopped    bool
}

type setup struct {
	fs     vfs.FS
	levels string
	flush  store.FlushDiskType
	async  time.Duration // until everything is flushed, 0 = 50 ms
	big    bool          // files for many messages
}

const file = "/data/config/delayOffset.json"

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSync(fsys, "/data/config"))
	return fsys
}

func open(t *testing.T, o setup) *system {
	t.Helper()
	s := prepare(t, o)
	require.NoError(t, s.Load())
	s.Start()
	return s
}

// prepare opens everything but does not load or start the service.
func prepare(t *testing.T, o setup) *system {
	t.Helper()
	if o.levels == "" {
		o.levels = "1s 5s 10s"
	}
	levels, err := ParseLevels(o.levels)
	require.NoError(t, err)
	s := &system{t: t, fs: o.fs}
	so := store.DefaultOptions("/data")
	so.FS, so.FlushDiskType, so.DelayTagsCode = o.fs, o.flush, levels.DueMillis
	so.MappedFileSizeCommitLog, so.MappedFileSizeConsumeQueue = 64<<10, 2000
	if o.big {
		so.MappedFileSizeCommitLog, so.MappedFileSizeConsumeQueue = 64<<20, 6_000_000
	}
	so.MaxHashSlotNum, so.MaxIndexNum = 100, 400
	so.FlushIntervalCommitLog, so.FlushIntervalConsumeQueue = 5*time.Millisecond, 5*time.Millisecond
	so.FlushCommitLogThoroughInterval = 50 * time.Millisecond
	if o.async > 0 {
		so.FlushIntervalCommitLog, so.FlushCommitLogThoroughInterval = o.async, o.async
	}
	so.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	so.Listener.Arrived = func(batch []store.Arrival) {
		for _, a := range batch {
			if a.Topic == codec.ScheduleTopic {
				s.Arrived(a.QueueID)
			}
		}
	}
	s.store, err = store.Open(so)
	require.NoError(t, err)
	s.ScheduleMessageService = New(Options{Levels: levels, Store: s.store, FS: o.fs, File: file,
		FlushInterval: time.Second, Clock: clock.System, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Delivered: func(d Delivery) { s.deliveries = append(s.deliveries, d) }})
	require.NoError(t, s.store.Start())
	t.Cleanup(s.kill)
	return s
}

// stop is a clean stop in the broker's order.
func (s *system) stop() {
	s.t.Helper()
	s.stopped = true
	s.Close()
	require.NoError(s.t, s.store.Close())
	require.NoError(s.t, s.Save())
}

// kill ends the goroutines; nothing that matters is written to files of which a copy was taken before.
func (s *system) kill() {
	if !s.stopped {
		s.stopped = true
		s.Close()
		_ = s.store.Close()
	}
}

// put stores a delayed message as the broker does.
func (s *system) put(level int, body, props string) {
	s.t.Helper()
	m := &codec.Message{Topic: "T", QueueID: 3, Flag: 7, SysFlag: codec.SysFlagCompressed, BornTimestamp: 1000,
		ReconsumeTimes: 2, Body: []byte(body), Properties: []byte(props), WaitStoreMsgOK: true}
	s.Rewrite(m, level)
	put := s.store.Put(m)
	require.Equal(s.t, store.PutOK, put.Status, "%v", put.Err)
}

// delivered are the bodies in the real queue.
func (s *system) delivered() (out []string) {
	for _, rec := range s.records() {
		out = append(out, string(rec.Body))
	}
	return out
}

func (s *system) records() (out []codec.Record) {
	for at := s.store.MinOffset("T", 3); at < s.store.MaxOffset("T", 3); {
		entries := s.store.QueueEntries("T", 3, at, 64)
		require.NotEmpty(s.t, entries)
		for _, e := range entries {
			raw, err := s.store.ReadRecord(e.PhyOffset, nil)
			require.NoError(s.t, err)
			rec, err := codec.ParseRecord(raw, true)
			require.NoError(s.t, err)
			out = append(out, rec)
		}
		at += codec.QueueOffset(len(entries))
	}
	return out
}

// after lets virtual time pass until everything that is due then has happened.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// dueOfLast is when the last of n messages of level 1 is due, ms.
func (s *system) dueOfLast(n int) int64 {
	e := s.store.QueueEntries(codec.ScheduleTopic, 0, codec.QueueOffset(n-1), 1)
	require.Len(s.t, e, 1)
	return e[0].TagsCode
}
