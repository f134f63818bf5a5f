package topic

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/broker/stats"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

const file = "/config/topics.json"

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	return fsys
}

func options(fsys vfs.FS) Options {
	return Options{FS: fsys, ConfigDir: "/config", Clock: clock.System, ClusterName: "C", BrokerName: "b",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), AutoCreateTopicEnable: true, DefaultTopicQueueNums: 8,
		ClusterTopicEnable: true, BrokerTopicEnable: true, TimerWheelEnable: true, ReviveQueueNum: 8,
		MsgTraceTopicName: codec.TraceTopic, ValidateSystemTopic: true, ScheduleQueues: 18,
		Stats: stats.New(stats.Options{Clock: clock.System, Cluster: "C"})}
}

// open makes a manager with Java's defaults, changed by with.
func open(t *testing.T, fsys vfs.FS, with ...func(*Options)) *Manager {
	t.Helper()
	o := options(fsys)
	for _, f := range with {
		f(&o)
	}
	m := New(o)
	require.NoError(t, m.Load())
	return m
}

func config(name string, queues int32) body.TopicConfig {
	return body.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6,
		TopicFilterType: body.SingleTag}
}

func TestSystemTopics(t *testing.T) {
	m := open(t, newFS(t))
	f := func(name string, queues, perm int32) {
		t.Helper()
		topic := m.Get(name)
		require.NotNil(t, topic, name)
		require.Equal(t, []int32{queues, queues, perm},
			[]int32{topic.Config.ReadQueueNums, topic.Config.WriteQueueNums, topic.Config.Perm}, name)
		require.True(t, topic.System, name)
		require.True(t, m.IsSystem(name), name)
	}
	f("SELF_TEST_TOPIC", 1, 6)
	f("TBW102", 8, 7)
	f("BenchmarkTest", 1024, 6)
	f("C", 16, 7)
	f("b", 1, 7)
	f("OFFSET_MOVED_EVENT", 1, 6)
	f("SCHEDULE_TOPIC_XXXX", 18, 6)
	f("C_REPLY_TOPIC", 1, 6)
	f("rmq_sys_REVIVE_LOG_C", 8, 6)
	f("rmq_sys_SYNC_BROKER_MEMBER_b", 1, 1)
	f("RMQ_SYS_TRANS_HALF_TOPIC", 1, 6)
	f("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 6)
	f("rmq_sys_wheel_timer", 1, 6)
	require.Equal(t, 13, m.Len())
	require.Nil(t, m.Get(codec.TraceTopic))
	require.True(t, m.Get(codec.ScheduleTopic).SendForbidden)

	m = open(t, newFS(t), func(o *Options) {
		o.AutoCreateTopicEnable, o.ClusterTopicEnable, o.BrokerTopicEnable, o.TimerWheelEnable = false, false, false, false
		o.TraceTopicEnable, o.ScheduleQueues = true, 30
	})
	require.Nil(t, m.Get("TBW102"))
	require.Nil(t, m.Get(codec.TimerTopic))
	f(codec.TraceTopic, 1, 6)
	f("C", 16, 1)
	f("b", 1, 1)
	f("SCHEDULE_TOPIC_XXXX", 30, 6)
}

func TestCreateInSend(t *testing.T) {
	m := open(t, newFS(t))
	var changed []string
	m.OnChange(func(list []*Topic) {
		for _, x := range list {
			changed = append(changed, x.Name)
		}
	})
	f := func(name string, asked int, unit bool, queues, sysFlag int32) {
		t.Helper()
		made, err := m.CreateInSend(CreateRequest{Topic: name, DefaultTopic: "TBW102", QueueNums: asked,
			UnitMode: unit})
		require.NoError(t, err)
		require.Same(t, made, m.Get(name))
		want := config(name, queues)
		want.TopicSysFlag = sysFlag
		require.Equal(t, want, made.Config)
	}
	f("A", 4, false, 4, 0)
	f("B", 16, true, 8, codec.TopicFlagUnit) // the template's, not more
	f("D", 0, false, 1, 0)
	f("E", -5, false, 1, 0)
	f("A", 9, true, 4, 0) // it exists
	require.Equal(t, []string{"A", "B", "D", "E"}, changed, "told once each")
	require.EqualValues(t, 4, m.DataVersion().Counter)
}

// The doors through which a topic must not come: case B07 and their kind. Nothing is made, nothing told.
func TestCreateInSendRefuses(t *testing.T) {
	m := open(t, newFS(t))
	m.OnChange(func([]*Topic) { t.Error("nothing has changed") })
	require.NoError(t, m.Persist())
	before := m.Len()
	f := func(r CreateRequest, want error) {
		t.Helper()
		r.QueueNums = 4
		_, err := m.CreateInSend(r)
		var ne *codec.NameError
		if want == nil {
			require.ErrorAs(t, err, &ne)
		} else {
			require.ErrorIs(t, err, want)
		}
		require.Equal(t, before, m.Len())
		require.Zero(t, m.DataVersion().Counter)
	}
	for _, name := range []string{"", " ", "\t\n", "a.b", "../../x", "a/b", "名", "a\x00b", "a b", "a@b", "a+b",
		strings.Repeat("x", 128), "%RETRY%" + strings.Repeat("x", 249)} {
		f(CreateRequest{Topic: name, DefaultTopic: "TBW102"}, nil)
	}
	f(CreateRequest{Topic: codec.TransCheckMaxTimeTopic, DefaultTopic: "TBW102"}, ErrSystem)
	f(CreateRequest{Topic: "A", DefaultTopic: "NO_SUCH"}, ErrNotExist)
	f(CreateRequest{Topic: "A", DefaultTopic: ""}, ErrNotExist)
	f(CreateRequest{Topic: "A", DefaultTopic: "BenchmarkTest"}, ErrNotExist) // no inherit bit

	off := open(t, newFS(t), func(o *Options) { o.AutoCreateTopicEnable = false })
	_, err := off.CreateInSend(CreateRequest{Topic: "A", DefaultTopic: "TBW102", QueueNums: 4})
	require.ErrorIs(t, err, ErrNotExist)
	require.ErrorContains(t, err, "autoCreateTopicEnable")
}

func TestLongestNames(t *testing.T) {
	m := open(t, newFS(t))
	_, err := m.CreateInSend(CreateRequest{Topic: strings.Repeat("x", 127), DefaultTopic: "TBW102",
		QueueNums: 4})
	require.NoError(t, err)
	require.NoError(t, m.Update(config(strings.Repeat("y", 127), 4)))
	_, err = m.CreateInSendBack("%RETRY%"+strings.Repeat("g", 248), 1, 6, false, false)
	require.NoError(t, err)
}

func TestAutomaticTopicsAreBounded(t *testing.T) {
	m := open(t, newFS(t))
	table := *m.table.Load()
	for i := len(table); i < MaxAutoTopics; i++ {
		table[fmt.Sprint("t", i)] = nil
	}
	_, err := m.CreateInSend(CreateRequest{Topic: "A", DefaultTopic: "TBW102", QueueNums: 4})
	require.ErrorIs(t, err, ErrTooMany)
	_, err = m.CreateInSendBack("%RETRY%g", 1, 6, false, false)
	require.ErrorIs(t, err, ErrTooMany)
}

func TestRetryTopics(t *testing.T) {
	m := open(t, newFS(t))
	made, err := m.CreateInSendBack("%RETRY%g", 3, 6, true, true)
	require.NoError(t, err)
	require.True(t, made.Order)
	require.EqualValues(t, 3, made.Config.ReadQueueNums)
	require.EqualValues(t, codec.TopicFlagUnitSub, made.Config.TopicSysFlag)
	again, err := m.CreateInSendBack("%RETRY%g", 9, 6, false, false)
	require.NoError(t, err)
	require.Same(t, made, again)
	_, err = m.CreateInSendBack("%RETRY%a/b", 1, 6, false, false)
	require.Error(t, err)
}

// Many retry topics are one change; those that exist are left as they are.
func TestCreateAllInSendBack(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	_, err := m.CreateInSendBack("%RETRY%a", 1, 6, false, true)
	require.NoError(t, err)
	version, changes := m.version.Counter, 0
	m.OnChange(func(changed []*Topic) {
		require.Len(t, changed, 2)
		changes++
	})
	list := []SendBack{{"%RETRY%a", 3, 6, false, false}, {"%RETRY%b", 2, 6, true, false}, {"%DLQ%c", 1, 4, false, false}}
	require.NoError(t, m.CreateAllInSendBack(list))
	require.NoError(t, m.CreateAllInSendBack(list))
	require.NoError(t, m.CreateAllInSendBack(nil))
	require.Equal(t, 1, changes)
	require.Equal(t, version+1, m.version.Counter)
	m = open(t, fsys)
	require.True(t, m.Get("%RETRY%a").Order)
	require.EqualValues(t, 2, m.Get("%RETRY%b").Config.ReadQueueNums)
	require.EqualValues(t, codec.TopicFlagUnitSub, m.Get("%RETRY%b").Config.TopicSysFlag)
	require.EqualValues(t, 4, m.Get("%DLQ%c").Config.Perm)
	require.Error(t, m.CreateAllInSendBack([]SendBack{{"%RETRY%d", 1, 6, false, false}, {"a b", 1, 6, false, false}}))
	require.Nil(t, m.Get("%RETRY%d"))
}

func TestUpdate(t *testing.T) {
	m := open(t, newFS(t))
	told := 0
	m.OnChange(func([]*Topic) { told++ })
	require.NoError(t, m.Update(config("A", 4)))
	first := m.Get("A")
	require.NoError(t, m.Update(config("A", 4)))
	require.Same(t, first, m.Get("A"), "an equal configuration changes nothing")
	require.Equal(t, 1, told)
	c := config("A", 6)
	c.Order, c.Perm = true, 4
	require.NoError(t, m.Update(c, config("B", 1)))
	require.True(t, m.Get("A").Order)
	require.False(t, first.Order, "what was handed out is never modified")
	require.Equal(t, 2, told)
}

// B36: names, ranges and permissions; a list is taken whole or not at all.
func TestUpdateRefuses(t *testing.T) {
	m := open(t, newFS(t))
	before := m.Len()
	f := func(want error, change func(*body.TopicConfig)) {
		t.Helper()
		c := config("A", 4)
		change(&c)
		err := m.Update(config("GOOD", 4), c)
		var ne *codec.NameError
		if want == nil {
			require.ErrorAs(t, err, &ne)
		} else {
			require.ErrorIs(t, err, want)
		}
		require.Equal(t, before, m.Len())
	}
	for _, n := range []int32{0, -1, 2_000_000, MaxQueueNums + 1} {
		f(ErrInvalid, func(c *body.TopicConfig) { c.ReadQueueNums = n })
		f(ErrInvalid, func(c *body.TopicConfig) { c.WriteQueueNums = n })
	}
	for _, perm := range []int32{-1, 8, 100} {
		f(ErrInvalid, func(c *body.TopicConfig) { c.Perm = perm })
	}
	for _, name := range []string{"", " ", "a.b", "../x", "名", strings.Repeat("x", 128)} {
		f(nil, func(c *body.TopicConfig) { c.TopicName = name })
	}
	for _, name := range []string{"TBW102", "SCHEDULE_TOPIC_XXXX", "C", "b", "C_REPLY_TOPIC",
		"rmq_sys_anything"} {
		f(ErrSystem, func(c *body.TopicConfig) { c.TopicName = name })
	}
	open := open(t, newFS(t), func(o *Options) { o.ValidateSystemTopic = false })
	require.NoError(t, open.Update(config("SELF_TEST_TOPIC", 2)))
}

func TestAttributes(t *testing.T) {
	m := open(t, newFS(t))
	f := func(of *Topic, change string, want map[string]string) {
		t.Helper()
		got, err := m.AlterAttributes(of, change)
		if want == nil {
			require.ErrorIs(t, err, ErrInvalid, change)
			return
		}
		require.NoError(t, err, change)
		require.Equal(t, want, got)
	}
	f(nil, "+message.type=FIFO,+queue.type=BatchCQ", map[string]string{"message.type": "FIFO",
		"queue.type": "BatchCQ"})
	f(nil, " +message.type=FIFO , ", map[string]string{"message.type": "FIFO"})
	f(nil, "-message.type", nil) // only add when made
	f(nil, "+message.type=fifo", nil)
	f(nil, "+message.type=MIXED", nil)
	f(nil, "+no.such=1", nil)
	f(nil, "+reserve.time=5", nil)
	f(nil, "message.type=FIFO", nil)
	f(nil, "+message.type", nil)
	f(nil, "-message.type=FIFO", nil)
	f(nil, "+message.type=FIFO,+message.type=NORMAL", nil)
	f(nil, "+message.type=FIFO,-message.type", nil)
	f(nil, "+", nil)

	c := config("A", 1)
	c.Attributes = map[string]string{"message.type": "FIFO", "queue.type": "SimpleCQ"}
	require.NoError(t, m.Update(c))
	a := m.Get("A")
	f(a, "", c.Attributes)
	f(a, "+message.type=DELAY", map[string]string{"message.type": "DELAY", "queue.type": "SimpleCQ"})
	f(a, "-message.type", map[string]string{"queue.type": "SimpleCQ"})
	f(a, "+queue.type=SimpleCQ", c.Attributes) // as it is
	f(a, "+queue.type=BatchCQ", nil)
	f(a, "-queue.type", nil)
	f(a, "+cleanup.policy=COMPACTION", nil) // cannot be changed later
	require.Equal(t, "FIFO", a.Config.Attributes["message.type"], "the topic itself is not touched")
	require.NoError(t, m.Update(config("P", 1)))
	f(m.Get("P"), "-message.type", nil)

	mixed := open(t, newFS(t), func(o *Options) { o.MixedMessageType = true })
	_, err := mixed.AlterAttributes(nil, "+message.type=MIXED")
	require.NoError(t, err)
	c.Attributes = map[string]string{"cleanup.policy": "COMPACTION", "queue.type": "BatchCQ"}
	c.TopicName = "K"
	require.NoError(t, m.Update(c))
	require.True(t, m.Get("K").Compaction)
	require.True(t, m.Get("K").BatchCQ)
}

func TestOrderConfigOnlySets(t *testing.T) {
	m := open(t, newFS(t))
	c := config("BY_TOOL", 1)
	c.Order = true
	require.NoError(t, m.Update(c, config("A", 1)))
	version := m.DataVersion().Counter
	require.NoError(t, m.UpdateOrderConfig(map[string]string{"A": "b:1", "NO_SUCH": "b:1"}))
	require.True(t, m.Get("A").Order)
	require.True(t, m.Get("BY_TOOL").Order, "what a tool set on this broker stays")
	require.Equal(t, version+1, m.DataVersion().Counter)
	require.NoError(t, m.UpdateOrderConfig(map[string]string{"A": "b:1"}))
	require.Equal(t, version+1, m.DataVersion().Counter)
}

func TestDelete(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	require.NoError(t, m.Update(config("A", 1), config("B", 1)))
	gone, err := m.Delete("A", "NO_SUCH")
	require.NoError(t, err)
	require.True(t, gone)
	require.Nil(t, m.Get("A"))
	gone, err = m.Delete("A")
	require.NoError(t, err)
	require.False(t, gone)
	again := open(t, fsys)
	require.Nil(t, again.Get("A"))
	require.NotNil(t, again.Get("B"))
	require.Equal(t, m.DataVersion(), again.DataVersion())
}

// A change that cannot be written is no change.
func TestFailedWriteChangesNothing(t *testing.T) {
	mem := newFS(t)
	var fail error
	m := open(t, errorfs.Wrap(mem, errorfs.Func(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRename {
			return fail
		}
		return nil
	})))
	require.NoError(t, m.Update(config("A", 1)))
	fail = errors.New("no space")
	version := m.DataVersion()
	_, err := m.CreateInSend(CreateRequest{Topic: "B", DefaultTopic: "TBW102", QueueNums: 4})
	require.ErrorIs(t, err, fail)
	require.Error(t, m.Update(config("A", 9)))
	_, err = m.Delete("A")
	require.Error(t, err)
	require.Nil(t, m.Get("B"))
	require.EqualValues(t, 1, m.Get("A").Config.ReadQueueNums)
	require.Equal(t, version, m.DataVersion())
	fail = nil
	_, err = m.CreateInSend(CreateRequest{Topic: "B", DefaultTopic: "TBW102", QueueNums: 4})
	require.NoError(t, err)
	require.NotNil(t, open(t, mem).Get("B"))
}

// B18 (a) to (d) for topics.json.
func TestDamagedFiles(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	require.NoError(t, m.Update(config("A", 1)))
	require.NoError(t, m.Update(config("B", 1)))
	data, err := vfs.ReadFile(fsys, file)
	require.NoError(t, err)
	for _, damaged := range [][]byte{make([]byte, len(data)), append(data[:len(data):len(data)], "rubbish"...),
		{}} {
		clone := fsys.CloneAll()
		require.NoError(t, vfs.WriteFileAtomic(clone, file, damaged, false))
		again := open(t, clone)
		require.NotNil(t, again.Get("A"))
		require.Nil(t, again.Get("B"), "the backup is in force")
	}
	require.NoError(t, vfs.WriteFileAtomic(fsys, file, make([]byte, 9), false))
	require.NoError(t, vfs.WriteFileAtomic(fsys, file+".bak", []byte("{"), false))
	m = New(options(fsys))
	require.ErrorIs(t, m.Load(), persist.ErrDamaged)
	require.NotNil(t, m.Get("TBW102"), "the system topics are there")
}

// What the options say about system topics counts, not what an earlier configuration left in the file.
func TestOptionsBeforeFile(t *testing.T) {
	fsys := newFS(t)
	require.NoError(t, open(t, fsys).Persist())
	m := open(t, fsys, func(o *Options) { o.DefaultTopicQueueNums = 3; o.ScheduleQueues = 20 })
	require.EqualValues(t, 3, m.Get("TBW102").Config.WriteQueueNums)
	require.EqualValues(t, 20, m.Get(codec.ScheduleTopic).Config.ReadQueueNums)
	m = open(t, fsys, func(o *Options) { o.AutoCreateTopicEnable = false })
	require.Nil(t, m.Get("TBW102"))

	unguarded := func(o *Options) { o.ValidateSystemTopic = false }
	m = open(t, fsys, unguarded)
	require.NoError(t, m.Update(config("SELF_TEST_TOPIC", 5)))
	require.EqualValues(t, 5, open(t, fsys, unguarded).Get("SELF_TEST_TOPIC").Config.ReadQueueNums,
		"where tools may change them the file counts")
}

func TestLookupAllocatesNothing(t *testing.T) {
	m := open(t, newFS(t))
	name := []byte("BenchmarkTest")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = m.Lookup(name) }))
}

func TestConcurrentCreation(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	var told sync.Map
	m.OnChange(func(list []*Topic) {
		for _, x := range list {
			if _, twice := told.LoadOrStore(x.Name, true); twice {
				t.Error(x.Name, "told twice")
			}
		}
	})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 20 {
				made, err := m.CreateInSend(CreateRequest{Topic: fmt.Sprint("T", i), DefaultTopic: "TBW102",
					QueueNums: 4})
				if err != nil || made != m.Lookup(fmt.Append(nil, "T", i)) {
					t.Error(made, err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, m.DataVersion().Counter)
	json := func(m *Manager) string {
		data, err := body.Encode(m.Wrapper())
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, json(m), json(open(t, fsys)))
}
