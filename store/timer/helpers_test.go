package timer

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// system is a store with the service on it, in memory and, inside a synctest bubble, in virtual time.
type system struct {
	*TimerMessageStore
	t       *testing.T
	fs      vfs.FS
	store   *store.MessageStore
	log     *testlog.Text
	sent    []Delivery // by the service's goroutine; read it after synctest.Wait
	stopped bool
}

type setup struct {
	fs     vfs.FS
	flush  store.FlushDiskType
	async  time.Duration // until everything is flushed, 0 = 50 ms
	live   Live
	window int
	slots  int64
	step   time.Duration // 0 = 1 s
	warm   bool
	clock  clock.Clock
	logMax int64 // bytes of a CommitLog file
	file   int64 // bytes of a TimerLog file
	under  func(s Store) Store
}

const (
	testFile  = 52*10 + 16 // ten units a file
	testSlots = 128 * 100  // a wheel of 3 hours and a half
	testWheel = testSlots * slotBytes
)

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSync(fsys, "/data/config"))
	return fsys
}

func open(t *testing.T, o setup) *system {
	t.Helper()
	s := prepare(t, o)
	require.NoError(t, s.Load())
	require.NoError(t, s.Start())
	return s
}

// prepare opens everything but does not load or start the service.
func prepare(t *testing.T, o setup) *system {
	t.Helper()
	s := &system{t: t, fs: o.fs, log: &testlog.Text{}}
	so := store.DefaultOptions("/data")
	so.FS, so.FlushDiskType = o.fs, o.flush
	so.MappedFileSizeCommitLog, so.MappedFileSizeConsumeQueue = 64<<10, 2000
	if o.logMax > 0 {
		so.MappedFileSizeCommitLog, so.MappedFileSizeConsumeQueue = o.logMax, 400_000
	}
	so.MaxHashSlotNum, so.MaxIndexNum = 100, 400
	so.FlushIntervalCommitLog, so.FlushIntervalConsumeQueue = 5*time.Millisecond, 5*time.Millisecond
	so.FlushCommitLogThoroughInterval = 50 * time.Millisecond
	if o.async > 0 {
		so.FlushIntervalCommitLog, so.FlushCommitLogThoroughInterval = o.async, o.async
	}
	so.FileReservedTime = 10000 * time.Hour
	so.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	so.Listener.Arrived = func(batch []store.Arrival) {
		for _, a := range batch {
			if a.Topic == codec.TimerTopic {
				s.Arrived()
			}
		}
	}
	var err error
	s.store, err = store.Open(so)
	require.NoError(t, err)
	if o.live == (Live{}) {
		o.live = DefaultLive()
	}
	if o.clock == nil {
		o.clock = clock.System
	}
	var st Store = s.store
	if o.under != nil {
		st = o.under(st)
	}
	if o.file == 0 {
		o.file = testFile
	}
	if o.slots == 0 {
		o.slots = testSlots
	}
	opts := Options{RootDir: "/data", FS: o.fs, Store: st, MappedFileSizeCommitLog: so.MappedFileSizeCommitLog,
		MappedFileSizeTimerLog: o.file, RollWindowSlot: o.window, Precision: o.step, Clock: o.clock, Warm: o.warm,
		Live: func() Live { return o.live },
		Log:  slog.New(slog.NewTextHandler(s.log, nil)), Delivered: func(d Delivery) { s.sent = append(s.sent, d) }}
	opts.private.slots = o.slots
	s.TimerMessageStore = New(opts)
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
		_ = s.Save()
	}
}

func props(pairs ...string) (out []byte) {
	for i := 0; i < len(pairs); i += 2 {
		out = codec.AppendProperty(out, pairs[i], pairs[i+1])
	}
	return out
}

// message is one for T/3 that is due after d.
func (s *system) message(name string, d time.Duration) *codec.Message {
	return &codec.Message{Topic: "T", QueueID: 3, Flag: 7, BornTimestamp: 1000, ReconsumeTimes: 2, Body: []byte(name),
		Properties: props(codec.PropUniqKey, name, codec.PropTags, "A", codec.PropTimerDeliverMs,
			strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10)), WaitStoreMsgOK: true}
}

// put stores a message as the broker does.
func (s *system) put(name string, d time.Duration) *codec.Message {
	s.t.Helper()
	m := s.message(name, d)
	s.must(m)
	return m
}

func (s *system) must(m *codec.Message) {
	s.t.Helper()
	status, err := s.Rewrite(m)
	require.Equal(s.t, store.PutOK, status, "%v", err)
	put := s.store.Put(m)
	require.Equal(s.t, store.PutOK, put.Status, "%v", put.Err)
}

// recall takes back a message that was put.
func (s *system) recall(name string, put *codec.Message) {
	s.t.Helper()
	out, ok := codec.LookupProperty(put.Properties, codec.PropTimerOutMs)
	require.True(s.t, ok)
	at, err := strconv.ParseInt(string(out), 10, 64)
	require.NoError(s.t, err)
	s.must(&codec.Message{Topic: "T", Body: []byte("0"), Properties: props(codec.PropUniqKey, name,
		codec.PropTimerDelUniqKey, RecallKey("T", name), codec.PropTimerDeliverMs, fmt.Sprint(at+1)), WaitStoreMsgOK: true})
}

// delivered are the bodies in the real queue.
func (s *system) delivered() (out []string) {
	for _, rec := range s.records("T", 3) {
		out = append(out, string(rec.Body))
	}
	return out
}

func (s *system) records(topic string, queueID int32) (out []codec.Record) {
	for at := s.store.MinOffset(topic, queueID); at < s.store.MaxOffset(topic, queueID); {
		entries := s.store.QueueEntries(topic, queueID, at, 64)
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

func (s *system) count(topic string) int64 { return s.Metrics().TimingCount[topic].Count }

// after lets virtual time pass until everything that is due then has happened.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
