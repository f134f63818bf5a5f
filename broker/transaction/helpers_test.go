package transaction

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/broker/conn"
	"skylark/broker/offset"
	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var host = netip.MustParseAddrPort("10.0.0.1:10911")

// system is a store with the service on it, in memory and, inside a synctest bubble, in virtual time.
type system struct {
	*TransactionalMessageService
	t       *testing.T
	set     setup
	store   *store.MessageStore
	offsets *offset.Manager
	log     testlog.Text
	stopped bool

	mu        sync.Mutex
	producers map[string][]*conn.Client
	questions []question
}

// question is a CHECK_TRANSACTION_STATE that was sent.
type question struct {
	client *fakeConn
	at     time.Time
	header codec.CheckTransactionStateRequestHeader
	rec    codec.Record
}

// fakeConn is a producer's connection.
type fakeConn struct {
	reactor.Conn
	name    string
	pending atomic.Int64
	broken  bool // with system.mu
}

func (c *fakeConn) PendingBytes() int { return int(c.pending.Load()) }

type setup struct {
	fs       *vfs.MemFS
	dir      string
	flush    store.FlushDiskType
	settings Settings
	maxLag   int
	async    time.Duration // until everything is flushed
	// opened is called between the store's Open and the service's Start.
	opened func(s *system)
}

// quick are the settings of case B23.
var quick = Settings{Timeout: time.Second, CheckMax: 3, CheckInterval: time.Second, OpMaxBytes: 4096,
	OpInterval: 3 * time.Second, ReservedTime: 72 * time.Hour, MetricsInterval: 3 * time.Second}

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSync(fsys, "/data/config"))
	return fsys
}

func open(t *testing.T, set setup) *system {
	t.Helper()
	if set.dir == "" {
		set.dir = "/data"
	}
	if set.settings == (Settings{}) {
		set.settings = quick
	}
	s := &system{t: t, set: set, producers: map[string][]*conn.Client{}}
	log := slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	so := store.DefaultOptions(set.dir)
	so.FS, so.FlushDiskType = set.fs, set.flush
	so.MappedFileSizeCommitLog, so.MappedFileSizeConsumeQueue = 1<<20, 6000
	so.MaxHashSlotNum, so.MaxIndexNum = 100, 400
	so.FlushIntervalCommitLog, so.FlushIntervalConsumeQueue = 5*time.Millisecond, 5*time.Millisecond
	so.FlushCommitLogThoroughInterval = 50 * time.Millisecond
	if set.async > 0 {
		so.FlushIntervalCommitLog, so.FlushCommitLogThoroughInterval = set.async, set.async
	}
	so.Log = log
	var err error
	s.store, err = store.Open(so)
	require.NoError(t, err)
	config := path.Join(set.dir, "config")
	s.offsets = offset.New(offset.Options{FS: set.fs, ConfigDir: config, Clock: clock.System, Log: log, VersionStep: 1})
	require.NoError(t, s.offsets.Load())
	s.TransactionalMessageService = New(Options{Store: s.store, Offsets: s.offsets, LogFileSize: so.MappedFileSizeCommitLog,
		FS: set.fs, File: path.Join(config, "transactionMetrics"), BrokerName: "broker-a",
		StoreHost: func() netip.AddrPort { return host }, Settings: func() Settings { return s.set.settings },
		Producers: s.live, Ask: s.asked, GiveUpTopic: func() error { return nil },
		Delay: func(m *codec.Message, level int) {
			m.Topic, m.QueueID = codec.ScheduleTopic, int32(level-1)
		},
		Timed: func(m *codec.Message) (store.PutStatus, error) {
			if v, _ := m.Property(codec.PropTimerDelaySec); string(v) == "bad" {
				return store.MessageIllegal, errors.New("bad")
			}
			m.Topic, m.QueueID = codec.TimerTopic, 0
			return store.PutOK, nil
		},
		Stored: func(*codec.Message, *store.PutResult) {}, Clock: clock.System, Log: log, maxLag: set.maxLag})
	require.NoError(t, s.Load())
	require.NoError(t, s.store.Start())
	if set.opened != nil {
		set.opened(s)
	}
	s.Start()
	t.Cleanup(s.kill)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// stop is a clean stop in the broker's order.
func (s *system) stop() {
	s.t.Helper()
	s.stopped = true
	s.Close()
	require.NoError(s.t, s.store.Close())
	require.NoError(s.t, s.Save())
	require.NoError(s.t, s.offsets.Persist())
}

// kill ends the goroutines; copies of the files were taken before.
func (s *system) kill() {
	if !s.stopped {
		s.stopped = true
		s.Close()
		_ = s.store.Close()
	}
}

func (s *system) restart() *system {
	s.t.Helper()
	s.stop()
	return s.again(s.set.fs)
}

// killed opens what is in the files, as after a kill -9.
func (s *system) killed() *system {
	s.t.Helper()
	fs := s.set.fs.CloneAll()
	s.kill()
	return s.again(fs)
}

func (s *system) again(fs *vfs.MemFS) *system {
	set := s.set
	set.fs, set.opened = fs, nil
	n := open(s.t, set)
	n.alter(func() { n.producers = s.producers })
	return n
}

// producer connects a producer of a group.
func (s *system) producer(group, name string) *fakeConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &fakeConn{name: name}
	s.producers[group] = append(slices.Clone(s.producers[group]), &conn.Client{Conn: c, ID: name})
	return c
}

func (s *system) live(group string) []*conn.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.producers[group]
}

func (s *system) asked(c reactor.Conn, req *codec.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.(*fakeConn).broken {
		return fmt.Errorf("broken")
	}
	q := question{client: c.(*fakeConn), at: time.Now()}
	if err := codec.DecodeHeader(req, &q.header); err != nil {
		return err
	}
	var err error
	q.rec, err = codec.ParseRecord(slices.Clone(req.Body), true)
	s.questions = append(s.questions, q)
	return err
}

func (s *system) alter(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// took are the questions since the last call.
func (s *system) took() []question {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.questions
	s.questions = nil
	return out
}

// names are the bodies of the half messages that were asked about.
func names(list []question) (out []string) {
	for _, q := range list {
		out = append(out, string(q.rec.Body))
	}
	slices.Sort(out)
	return out
}

// prepared is a half message as its producer knows it.
type prepared struct {
	name, group string
	put         store.PutResult
}

// prepare stores a half message of topic T, queue 3, group G as the broker does.
func (s *system) prepare(name string, props ...string) prepared {
	s.t.Helper()
	p, put := s.tryPrepare(name, props...)
	require.Equal(s.t, store.PutOK, put.Status, "%v", put.Err)
	return p
}

func (s *system) tryPrepare(name string, props ...string) (prepared, store.PutResult) {
	list := append([]string{codec.PropUniqKey, "id-" + name, codec.PropTags, "A", codec.PropProducerGroup, "G",
		codec.PropTransactionPrepared, "true"}, props...)
	table := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		table[list[i]] = list[i+1]
	}
	m := &codec.Message{Topic: "T", QueueID: 3, Flag: 7, SysFlag: codec.SysFlagCompressed,
		BornTimestamp: time.Now().UnixMilli(), BornHost: netip.MustParseAddrPort("1.2.3.4:5"), StoreHost: host,
		Body: []byte(name), Properties: codec.EncodeProperties(table), WaitStoreMsgOK: true}
	Rewrite(m)
	put := s.store.Append(m)
	if put.Status == store.PutOK {
		s.Prepared(m, "T", &put)
	}
	return prepared{name: name, group: table[codec.PropProducerGroup], put: put}, put
}

// end ends a transaction as its producer does.
func (s *system) end(p prepared, commit bool) error {
	put, served, err := s.End(&End{Group: []byte(p.group), QueueOffset: p.put.QueueOffset, PhyOffset: p.put.PhyOffset,
		Commit: commit})
	require.True(s.t, served)
	if err == nil && put.Status != store.PutOK {
		return fmt.Errorf("%v: %w", put.Status, put.Err)
	}
	return err
}

// answer ends a transaction as asked by a question.
func (s *system) answer(q question, commit bool) error {
	_, served, err := s.End(&End{Group: []byte("G"), QueueOffset: q.header.TranStateTableOffset,
		PhyOffset: q.header.CommitLogOffset, Commit: commit, FromCheck: true})
	require.True(s.t, served)
	return err
}

// records are those of a queue.
func (s *system) records(topic string, queueID int32) (out []codec.Record) {
	s.t.Helper()
	for at := s.store.MinOffset(topic, queueID); at < s.store.MaxOffset(topic, queueID); at++ {
		entries := s.store.QueueEntries(topic, queueID, at, 1)
		require.Len(s.t, entries, 1)
		raw, err := s.store.ReadRecord(entries[0].PhyOffset, nil)
		require.NoError(s.t, err)
		rec, err := codec.ParseRecord(raw, true)
		require.NoError(s.t, err)
		out = append(out, rec)
	}
	return out
}

func texts(recs []codec.Record) []string {
	out := []string{}
	for _, rec := range recs {
		out = append(out, string(rec.Body))
	}
	return out
}

// visible are the bodies that consumers of T see.
func (s *system) visible() []string { return texts(s.records("T", 3)) }

// ops are the bodies of the op messages.
func (s *system) ops() []string { return texts(s.records(codec.OpHalfTopic, 0)) }

// progress is what consumerOffset.json has, -1 for nothing.
func (s *system) at() (half, op int64) {
	one := func(topic string) int64 {
		if at, ok := s.offsets.Query(Group, topic, 0); ok {
			return int64(at)
		}
		return -1
	}
	return one(codec.HalfTopic), one(codec.OpHalfTopic)
}

// after lets virtual time pass until everything that is due then has happened.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
