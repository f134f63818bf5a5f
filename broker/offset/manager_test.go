package offset

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

var from = netip.MustParseAddrPort("10.0.0.1:4711")

const file = "/config/consumerOffset.json"

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	require.NoError(t, fsys.SyncDir("/"))
	return fsys
}

func newManager(fsys vfs.FS, log io.Writer) *Manager {
	return New(Options{FS: fsys, ConfigDir: "/config", Clock: clock.System, VersionStep: 10,
		Log: slog.New(slog.NewTextHandler(log, nil))})
}

func open(t *testing.T, fsys vfs.FS) *Manager {
	t.Helper()
	m := newManager(fsys, io.Discard)
	require.NoError(t, m.Load())
	return m
}

func (m *Manager) commit(t *testing.T, group, topic string, queueID int32, at codec.QueueOffset) {
	t.Helper()
	require.NoError(t, m.Commit(from, group, topic, queueID, at))
}

func TestCommitAndQuery(t *testing.T) {
	var log bytes.Buffer
	m := newManager(newFS(t), &log)
	_, ok := m.Query("g", "T", 0)
	require.False(t, ok)
	m.commit(t, "g", "T", 3, 0)
	at, ok := m.Query("g", "T", 3)
	require.True(t, ok, "0 is an offset")
	require.Zero(t, at)
	_, ok = m.Query("g", "T", 2)
	require.False(t, ok, "a queue between is not known")
	_, ok = m.Query("g", "T", -1)
	require.False(t, ok)
	m.commit(t, "g", "T", 3, 10)
	require.Empty(t, log.String())
	m.commit(t, "g", "T", 3, 5)
	at, _ = m.Query("g", "T", 3)
	require.EqualValues(t, 5, at, "an offset that goes back is taken, as in Java")
	for _, part := range []string{"goes back", "group=g", "topic=T", "queueId=3", "from=10", "to=5",
		"10.0.0.1"} {
		require.Contains(t, log.String(), part)
	}
	m.commit(t, "g", "T", 0, math.MaxInt64)
	require.Equal(t, map[int32]codec.QueueOffset{0: math.MaxInt64, 3: 5}, m.Offsets("g", "T"))
}

// B22 (c): what cannot be an offset changes nothing and makes no entry.
func TestInvalidCommits(t *testing.T) {
	m := open(t, newFS(t))
	m.commit(t, "g", "T", 0, 7)
	f := func(queueID int32, at codec.QueueOffset) {
		t.Helper()
		require.ErrorIs(t, m.Commit(from, "g", "T", queueID, at), ErrInvalid)
		require.ErrorIs(t, m.Commit(from, "new", "U", queueID, at), ErrInvalid)
		require.ErrorIs(t, m.AssignReset("U", "new", queueID, at), ErrInvalid)
	}
	f(0, -1)
	f(0, math.MinInt64)
	f(-1, 5)
	f(MaxQueueID, 5)
	require.Equal(t, map[int32]codec.QueueOffset{0: 7}, m.Offsets("g", "T"))
	require.Equal(t, 1, m.pairs)
	require.Empty(t, m.TopicsOf("new"))
}

func TestPairsAreBounded(t *testing.T) {
	m := open(t, newFS(t))
	m.commit(t, "g", "T", 0, 7)
	m.pairs = MaxPairs
	require.ErrorIs(t, m.Commit(from, "g", "U", 0, 1), ErrLimit)
	require.ErrorIs(t, m.AssignReset("U", "g", 0, 1), ErrLimit)
	m.CommitPull("g", "U", 0, 1)
	m.Clone("g", "h", "T")
	m.commit(t, "g", "T", 1, 8) // what is known goes on
	require.Equal(t, []string{"T"}, m.TopicsOf("g"))
	require.Empty(t, m.TopicsOf("h"))
}

func TestPullOffsetsAreForStatisticsOnly(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	m.CommitPull("g", "T", 0, 12)
	at, ok := m.QueryPull("g", "T", 0)
	require.True(t, ok)
	require.EqualValues(t, 12, at)
	_, ok = m.Query("g", "T", 0)
	require.False(t, ok)
	require.Empty(t, m.TopicsOf("g"), "a group that only pulls has no offsets")
	require.Empty(t, m.GroupsOf("T"))
	require.NoError(t, m.Persist())
	_, err := fsys.Stat(file)
	require.Error(t, err, "pulls alone write no file")
}

func TestListsCloneAndDelete(t *testing.T) {
	m := open(t, newFS(t))
	for _, g := range []string{"g", "h"} {
		for _, topic := range []string{"T", "U"} {
			m.commit(t, g, topic, 1, 9)
		}
	}
	require.Equal(t, []string{"T", "U"}, m.TopicsOf("g"))
	require.Equal(t, []string{"g", "h"}, m.GroupsOf("T"))
	m.Clone("g", "copy", "T")
	require.Equal(t, m.Offsets("g", "T"), m.Offsets("copy", "T"))
	m.Clone("nobody", "copy", "U")
	require.Equal(t, []string{"T"}, m.TopicsOf("copy"))
	require.NoError(t, m.AssignReset("T", "g", 1, 3))
	m.DeleteTopic("T")
	require.Empty(t, m.GroupsOf("T"))
	require.Zero(t, m.resets.Load(), "a reset of a deleted topic does not wait for ever")
	_, ok := m.Query("g", "T", 1)
	require.False(t, ok, "a topic that is made anew starts afresh (B22 a)")
	require.Equal(t, 2, m.pairs)
	m.DeleteGroup("g")
	require.Equal(t, []string{"h"}, m.GroupsOf("U"))
	require.Equal(t, 1, m.pairs)
}

// A reset is answered once, moves the committed offset at once, and holds back late commits.
func TestResets(t *testing.T) {
	m := open(t, newFS(t))
	m.commit(t, "g", "T", 0, 100)
	require.False(t, m.HasReset("T", "g", 0))
	require.NoError(t, m.AssignReset("T", "g", 0, 40))
	require.NoError(t, m.AssignReset("T", "g", 0, 50))
	require.EqualValues(t, 1, m.resets.Load())
	require.True(t, m.HasReset("T", "g", 0))
	require.False(t, m.HasReset("T", "g", 1))
	require.False(t, m.HasReset("U", "g", 0))
	at, _ := m.Query("g", "T", 0)
	require.EqualValues(t, 50, at)
	at, ok := m.TakeReset("T", "g", 0)
	require.True(t, ok)
	require.EqualValues(t, 50, at)
	_, ok = m.TakeReset("T", "g", 0)
	require.False(t, ok)
	require.Zero(t, m.resets.Load())
	require.NoError(t, m.AssignReset("T", "g", 0, 0))
	at, ok = m.TakeReset("T", "g", 0)
	require.True(t, ok, "0 is an offset")
	require.Zero(t, at)
}

func TestPersistOnlyWhatChanged(t *testing.T) {
	mem := newFS(t)
	writes, fail := 0, error(nil)
	m := open(t, errorfs.Wrap(mem, errorfs.Func(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, ".json.tmp") {
			writes++
			return fail
		}
		return nil
	})))
	require.NoError(t, m.Persist())
	require.Zero(t, writes)
	m.commit(t, "g", "T", 0, 1)
	fail = errorfs.ErrInjected
	require.Error(t, m.Persist())
	fail = nil
	require.NoError(t, m.Persist(), "what failed is written the next time")
	for range 5 {
		m.commit(t, "g", "T", 0, 1)
		require.NoError(t, m.Persist())
	}
	require.Equal(t, 2, writes, "an idle broker writes nothing")
}

func TestVersionOfTheTable(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	counter := func() int64 { return m.Wrapper().DataVersion.Counter }
	for i := range 9 {
		m.commit(t, "g", "T", 0, codec.QueueOffset(i))
	}
	require.NoError(t, m.Persist())
	require.Zero(t, counter())
	m.commit(t, "g", "T", 0, 10)
	require.NoError(t, m.Persist())
	require.EqualValues(t, 1, counter(), "every VersionStep commits")
	require.Equal(t, m.Wrapper(), open(t, fsys).Wrapper(), "nothing is lost on the way through the file")
}

// The file as Java 5.3.3 and 4.9.8 write it, with keys that mean nothing.
func TestLoadJavaFiles(t *testing.T) {
	f := func(text string, version int64, want map[string]map[int32]codec.QueueOffset) {
		t.Helper()
		fsys := newFS(t)
		require.NoError(t, vfs.WriteFileAtomic(fsys, file, []byte(text), false))
		w := open(t, fsys).Wrapper()
		require.Equal(t, want, w.OffsetTable)
		require.Equal(t, version, w.DataVersion.Counter)
	}
	f("{\n\t\"dataVersion\":{\n\t\t\"counter\":7,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1700000000000\n\t},\n"+
		"\t\"groupTopicMap\":{\"g\":[\"T\"]},\n\t\"offsetTable\":{\n\t\t\"T@g\":{0:5,1:7\n\t\t}\n\t}\n}",
		7, map[string]map[int32]codec.QueueOffset{"T@g": {0: 5, 1: 7}})
	f(`{"offsetTable":{"T@g":{0:5},"%RETRY%g@g":{0:0}}}`, 0,
		map[string]map[int32]codec.QueueOffset{"T@g": {0: 5}, "%RETRY%g@g": {0: 0}})
	f(`{"offsetTable":{"T":{0:5},"@g":{0:5},"T@":{0:5},"a@b@c":{0:1},"T@g":{0:-1,-4:1,99999999:2,3:8},"U@g":null}}`, 0,
		map[string]map[int32]codec.QueueOffset{"T@g": {3: 8}})
	f(`{}`, 0, map[string]map[int32]codec.QueueOffset{})
}

// B18 (a) to (d).
func TestDamagedFiles(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	m.commit(t, "g", "T", 0, 41)
	require.NoError(t, m.Persist())
	m.commit(t, "g", "T", 0, 42)
	require.NoError(t, m.Persist())
	data, err := vfs.ReadFile(fsys, file)
	require.NoError(t, err)
	for _, damaged := range [][]byte{make([]byte, len(data)), append(data[:len(data):len(data)], "}}"...), {}} {
		clone := fsys.CloneAll()
		require.NoError(t, vfs.WriteFileAtomic(clone, file, damaged, false))
		at, ok := open(t, clone).Query("g", "T", 0)
		require.True(t, ok)
		require.EqualValues(t, 41, at, "the backup is in force")
	}
	require.NoError(t, vfs.WriteFileAtomic(fsys, file, make([]byte, 9), false))
	require.NoError(t, vfs.WriteFileAtomic(fsys, file+".bak", []byte("{"), false))
	m = newManager(fsys, io.Discard)
	err = m.Load()
	require.ErrorIs(t, err, persist.ErrDamaged)
	require.ErrorContains(t, err, file)
	m.commit(t, "g", "T", 0, 1)
	require.NoError(t, m.Persist(), "the broker goes on with an empty table")
}

// A power cut takes at most what was committed since the last Persist.
func TestCrashKeepsThePersisted(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	for i := range codec.QueueOffset(50) {
		m.commit(t, "g", "T", 0, i)
		require.NoError(t, m.Persist())
		m.commit(t, "g", "T", 0, i+1000)
		at, ok := open(t, fsys.CrashClone(uint64(i))).Query("g", "T", 0)
		require.True(t, ok)
		require.Equal(t, i, at)
		m.commit(t, "g", "T", 0, i)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	m := open(t, newFS(t))
	m.commit(t, "g", "T", 7, 1)
	at := codec.QueueOffset(1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		at++
		_ = m.Commit(from, "g", "T", 7, at)
		m.CommitPull("g", "T", 7, at)
		m.Query("g", "T", 7)
		m.TakeReset("T", "g", 7)
		m.HasReset("T", "g", 7)
	}))
}

// Commits of many groups go on while topics are deleted and the file is written; the race detector looks on.
func TestConcurrentCommits(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			group := fmt.Sprint("g", w)
			for i := range 500 {
				if err := m.Commit(from, group, fmt.Sprint("T", i%10), int32(i%3), codec.QueueOffset(i)); err != nil {
					panic(err)
				}
				m.CommitPull(group, "P", 0, 1)
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := m.Persist(); err != nil {
				panic(err)
			}
			m.DeleteTopic("T3")
		}
	})
	wg.Wait()
	m.DeleteTopic("T3")
	require.Equal(t, 4*10, m.pairs) // nine topics and P each
	require.NoError(t, m.Persist())
	require.Equal(t, m.Wrapper(), open(t, fsys).Wrapper())
}

// A group that is new after a restart finds its part of the table, whichever it is.
func TestNewGroupsAfterRestart(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	o := Options{FS: fsys, ConfigDir: "/config", Clock: clock.System, Log: slog.New(slog.DiscardHandler), VersionStep: 500}
	m := New(o)
	from := netip.AddrPort{}
	require.NoError(t, m.Load())
	require.NoError(t, m.Commit(from, "first", "T", 0, 7))
	require.NoError(t, m.Persist())
	m = New(o)
	require.NoError(t, m.Load())
	for i := range 2000 {
		require.NoError(t, m.Commit(from, fmt.Sprint("g", i), "T", 0, codec.QueueOffset(i)))
	}
	for i := range 2000 {
		at, ok := m.Query(fmt.Sprint("g", i), "T", 0)
		require.True(t, ok)
		require.EqualValues(t, i, at)
	}
	require.Len(t, m.GroupsOf("T"), 2001)
	at, _ := m.Query("first", "T", 0)
	require.EqualValues(t, 7, at)
}
