package group

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

const file = "/config/subscriptionGroup.json"

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	return fsys
}

func newManager(fsys vfs.FS, autoCreate bool) *Manager {
	return New(Options{FS: fsys, ConfigDir: "/config", Clock: clock.System,
		AutoCreateSubscriptionGroup: autoCreate, EnableCreateSysGroup: true,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func open(t *testing.T, fsys vfs.FS, autoCreate bool) *Manager {
	t.Helper()
	m := newManager(fsys, autoCreate)
	require.NoError(t, m.Load())
	return m
}

func config(name string) *body.SubscriptionGroupConfig { return body.NewSubscriptionGroupConfig(name) }

func TestSystemGroups(t *testing.T) {
	m := open(t, newFS(t), false)
	for _, name := range []string{"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP",
		"CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"} {
		g := m.Get(name)
		require.NotNil(t, g, name)
		require.True(t, g.Config.ConsumeEnable && g.Config.ConsumeBroadcastEnable)
	}
	require.Len(t, m.All(), 8)
}

func TestFind(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys, true)
	g, err := m.Find("g")
	require.NoError(t, err)
	require.Equal(t, *config("g"), g.Config)
	again, err := m.Find("g")
	require.NoError(t, err)
	require.Same(t, g, again)
	require.Same(t, g, m.Lookup([]byte("g")))
	require.NotNil(t, open(t, fsys, false).Get("g"), "it is in the file")
	for _, name := range []string{"", " ", "a.b", "名", strings.Repeat("x", 121)} {
		_, err := m.Find(name)
		require.ErrorIs(t, err, ErrNotExist, name)
	}
	_, err = m.Find(strings.Repeat("x", 120))
	require.NoError(t, err)

	off := open(t, newFS(t), false)
	_, err = off.Find("g")
	require.ErrorIs(t, err, ErrNotExist)
	require.ErrorContains(t, err, "autoCreateSubscriptionGroup")
	_, err = off.Find("CID_RMQ_SYS_ANY")
	require.NoError(t, err, "groups of the system's kind are made all the same")
	off.o.EnableCreateSysGroup = false
	_, err = off.Find("CID_RMQ_SYS_OTHER")
	require.ErrorIs(t, err, ErrNotExist)
}

func TestAutomaticGroupsAreBounded(t *testing.T) {
	m := open(t, newFS(t), true)
	groups := m.state.Load().groups
	for i := len(groups); i < MaxAutoGroups; i++ {
		groups[fmt.Sprint("g", i)] = nil
	}
	_, err := m.Find("one-more")
	require.ErrorIs(t, err, ErrTooMany)
}

func TestUpdate(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys, false)
	c := config("g")
	c.ConsumeEnable, c.RetryMaxTimes, c.RetryQueueNums = false, 3, 0
	require.NoError(t, m.Update(c, config("h")))
	first := m.Get("g")
	require.False(t, first.Config.ConsumeEnable)
	require.NoError(t, m.Update(config("g")))
	require.True(t, m.Get("g").Config.ConsumeEnable)
	require.False(t, first.Config.ConsumeEnable, "what was handed out is never modified")
	require.EqualValues(t, 2, m.DataVersion().Counter)

	before := m.Get("g")
	f := func(change func(*body.SubscriptionGroupConfig)) error {
		bad := config("bad")
		change(bad)
		err := m.Update(config("g"), bad)
		require.Error(t, err)
		require.Same(t, before, m.Get("g"), "all or none")
		return err
	}
	var ne *codec.NameError
	require.ErrorAs(t, f(func(c *body.SubscriptionGroupConfig) { c.GroupName = "a/b" }), &ne)
	require.ErrorAs(t, f(func(c *body.SubscriptionGroupConfig) { c.GroupName = strings.Repeat("x", 121) }), &ne)
	require.ErrorIs(t, f(func(c *body.SubscriptionGroupConfig) { c.RetryQueueNums = 2_000_000 }), ErrInvalid)
	err := f(func(c *body.SubscriptionGroupConfig) { c.Attributes = map[string]string{"+x": "1"} })
	require.ErrorContains(t, err, "unsupported key: x")

	require.NoError(t, m.Disable("g"))
	require.False(t, m.Get("g").Config.ConsumeEnable)
	version := m.DataVersion()
	require.NoError(t, m.Disable("g"))
	require.NoError(t, m.Disable("nobody"))
	require.Equal(t, version, m.DataVersion())
	require.False(t, open(t, fsys, false).Get("g").Config.ConsumeEnable)
}

func TestForbidden(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys, false)
	require.NoError(t, m.Update(config("g"), config("h")))
	require.False(t, m.Forbidden("g", "T"))
	require.NoError(t, m.SetForbidden("g", "T", true))
	require.NoError(t, m.SetForbidden("g", "U", true))
	require.True(t, m.Forbidden("g", "T"))
	require.False(t, m.Forbidden("h", "T"))
	again := open(t, fsys, false)
	require.True(t, again.Forbidden("g", "T"), "it outlives a restart")
	require.NoError(t, again.SetForbidden("g", "T", false))
	require.False(t, again.Forbidden("g", "T"))
	require.True(t, again.Forbidden("g", "U"), "of one topic only")
	require.True(t, m.Forbidden("g", "T"), "what was handed out is never modified")
	version := again.DataVersion()
	require.NoError(t, again.SetForbidden("g", "T", false))
	require.Equal(t, version, again.DataVersion())
	require.ErrorIs(t, again.SetForbidden("nobody", "T", true), ErrNotExist)

	gone, err := again.Delete("g")
	require.NoError(t, err)
	require.True(t, gone)
	require.False(t, again.Forbidden("g", "U"))
	gone, err = again.Delete("g")
	require.NoError(t, err)
	require.False(t, gone)
	require.Nil(t, open(t, fsys, false).Get("g"))
}

func TestFailedWriteChangesNothing(t *testing.T) {
	mem := newFS(t)
	var fail error
	m := open(t, errorfs.Wrap(mem, errorfs.Func(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRename {
			return fail
		}
		return nil
	})), true)
	require.NoError(t, m.Update(config("g")))
	fail = errors.New("no space")
	version := m.DataVersion()
	require.Error(t, m.SetForbidden("g", "T", true))
	_, err := m.Delete("g")
	require.Error(t, err)
	require.Error(t, m.Update(config("new")))
	require.Nil(t, m.Get("new"))
	require.NotNil(t, m.Get("g"))
	require.False(t, m.Forbidden("g", "T"))
	require.Equal(t, version, m.DataVersion())
	// But nobody is kept from consuming: the next write has it.
	_, err = m.Find("auto")
	require.NoError(t, err)
	require.NotNil(t, m.Get("auto"))
	fail = nil
	require.NoError(t, m.Update(config("h")))
	require.NotNil(t, open(t, mem, false).Get("auto"))
}

// B18 (a) to (d) for subscriptionGroup.json, and the file of 4.9, which lacks half the fields.
func TestFiles(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys, false)
	require.NoError(t, m.Update(config("g")))
	require.NoError(t, m.Update(config("h")))
	data, err := vfs.ReadFile(fsys, file)
	require.NoError(t, err)
	for _, damaged := range [][]byte{make([]byte, len(data)), append(data[:len(data):len(data)], "rubbish"...),
		{}} {
		clone := fsys.CloneAll()
		require.NoError(t, vfs.WriteFileAtomic(clone, file, damaged, false))
		again := open(t, clone, false)
		require.NotNil(t, again.Get("g"))
		require.Nil(t, again.Get("h"), "the backup is in force")
	}
	require.NoError(t, vfs.WriteFileAtomic(fsys, file, make([]byte, 9), false))
	require.NoError(t, vfs.WriteFileAtomic(fsys, file+".bak", []byte("{"), false))
	require.ErrorIs(t, newManager(fsys, false).Load(), persist.ErrDamaged)

	fsys = newFS(t)
	require.NoError(t, vfs.WriteFileAtomic(fsys, file, []byte(`{"dataVersion":{"counter":7,"timestamp":1},`+
		`"subscriptionGroupTable":{"g":{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,`+
		`"consumeFromMinEnable":true,"groupName":"g","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":5,`+
		`"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1},"n":null}}`), false))
	old := open(t, fsys, false)
	require.False(t, old.Get("g").Config.ConsumeEnable)
	require.EqualValues(t, 15, old.Get("g").Config.ConsumeTimeoutMinute)
	require.EqualValues(t, 7, old.DataVersion().Counter)
	require.Nil(t, old.Get("n"))
}

func TestLookupAllocatesNothing(t *testing.T) {
	m := open(t, newFS(t), true)
	require.NoError(t, m.Update(config("g")))
	require.NoError(t, m.SetForbidden("g", "T", true))
	name := []byte("g")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = m.Lookup(name)
		_ = m.Forbidden("g", "T")
	}))
}

func TestConcurrentFind(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys, true)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 20 {
				g, err := m.Find(fmt.Sprint("g", i))
				if err != nil || g != m.Get(g.Name) {
					t.Error(g, err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, m.DataVersion().Counter)
	require.Len(t, open(t, fsys, false).All(), 28)
}

// FindAll makes what Find would make, in one change.
func TestFindAll(t *testing.T) {
	m := open(t, newFS(t), true)
	before := m.version.Counter
	m.FindAll([]string{"a", "b", "no group", "a"})
	m.FindAll([]string{"a", "b"})
	require.Equal(t, before+1, m.version.Counter)
	require.NotNil(t, m.Get("a"))
	require.NotNil(t, m.Get("b"))
	require.Nil(t, m.Get("no group"))
	m.o.AutoCreateSubscriptionGroup = false
	m.FindAll([]string{"c"})
	require.Nil(t, m.Get("c"))
}
