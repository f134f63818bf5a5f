package consumerfilter

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

func open(t *testing.T, fsys vfs.FS) *Manager {
	t.Helper()
	m, err := New(Options{FS: fsys, ConfigDir: "/config", Clock: clock.System, ErrorPercent: 20, Expected: 64,
		KeepDead: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	require.NoError(t, m.Load())
	return m
}

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	return fsys
}

func sql(topic, expression string, version int64) *body.SubscriptionData {
	return &body.SubscriptionData{Topic: topic, SubString: expression, SubVersion: version,
		ExpressionType: body.ExpressionSQL92}
}

func tag(topic string) *body.SubscriptionData {
	return &body.SubscriptionData{Topic: topic, SubString: "*", ExpressionType: body.ExpressionTag}
}

func register(t *testing.T, m *Manager, group string, subs ...*body.SubscriptionData) {
	t.Helper()
	require.NoError(t, m.Register(group, subs))
}

func TestNumbersThatMakeNoBloomFilter(t *testing.T) {
	_, err := New(Options{ErrorPercent: 100, Expected: 32})
	require.ErrorContains(t, err, "maxErrorRateOfBloomFilter 100")
}

func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, newFS(t))
		register(t, m, "g", tag("T"))
		require.Zero(t, m.Len(), "tags need no filter data")
		register(t, m, "g", tag("T"), sql("S", "a > 5", 10))
		e := m.Lookup("S", "g")
		require.NotNil(t, e)
		require.EqualValues(t, 10, e.ClientVersion)
		require.Equal(t, clock.System.Millis(), e.BornTime)
		require.False(t, e.Dead())
		require.True(t, m.Bloom().Valid(e.BloomFilterData))
		require.NotNil(t, e.SQL)
		require.Len(t, m.OfTopic("S"), 1)

		time.Sleep(time.Second)
		register(t, m, "g", tag("T"), sql("S", "b > 5", 9))
		require.Same(t, e, m.Lookup("S", "g"), "an older version changes nothing")
		register(t, m, "g", tag("T"), sql("S", "a > 5", 11))
		require.EqualValues(t, 11, m.Lookup("S", "g").ClientVersion)
		require.Equal(t, e.BornTime, m.Lookup("S", "g").BornTime, "the same expression keeps its bit maps")
		register(t, m, "g", tag("T"), sql("S", "b > 5", 12))
		require.Equal(t, "b > 5", m.Lookup("S", "g").Expression)
		require.Greater(t, m.Lookup("S", "g").BornTime, e.BornTime)

		register(t, m, "g", tag("T"), sql("S", "b between 0 3", 13))
		require.Nil(t, m.Lookup("S", "g"), "what does not compile is removed, so that the client is told")
		register(t, m, "g", sql("S", "b > 5", 14), &body.SubscriptionData{Topic: "X", ExpressionType: "XPATH",
			SubString: "a"})
		require.Equal(t, 1, m.Len())
	})
}

// A group that is gone keeps its entry for a day; the same version revives it.
func TestDeadAndAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, newFS(t))
		register(t, m, "g", sql("S", "a > 5", 10), sql("U", "a > 6", 10))
		register(t, m, "other", sql("S", "a > 7", 10))
		time.Sleep(time.Second)
		register(t, m, "g", sql("S", "a > 5", 10))
		require.True(t, m.Lookup("U", "g").Dead(), "the topic is not subscribed any more")
		require.False(t, m.Lookup("S", "g").Dead())
		m.Unregister("g")
		require.True(t, m.Lookup("S", "g").Dead())
		require.False(t, m.Lookup("S", "other").Dead())
		register(t, m, "g", sql("S", "a > 5", 9))
		require.True(t, m.Lookup("S", "g").Dead(), "an older version does not revive")
		register(t, m, "g", sql("S", "a > 5", 10))
		require.False(t, m.Lookup("S", "g").Dead())
		m.Unregister("g")
		register(t, m, "g", sql("S", "a > 5", 11))
		require.False(t, m.Lookup("S", "g").Dead())
		require.EqualValues(t, 11, m.Lookup("S", "g").ClientVersion)

		m.Unregister("g")
		time.Sleep(24*time.Hour - time.Minute)
		require.NoError(t, m.Persist())
		require.NotNil(t, m.Lookup("S", "g"))
		time.Sleep(2 * time.Minute)
		require.NoError(t, m.Persist())
		require.Nil(t, m.Lookup("S", "g"))
		require.NotNil(t, m.Lookup("S", "other"), "the living stay")
		require.Equal(t, len("a > 7"), m.bytes)
	})
}

func TestDeleted(t *testing.T) {
	m := open(t, newFS(t))
	for _, g := range []string{"g", "h"} {
		register(t, m, g, sql("S", "a > 5", 10), sql("U", "a > 6", 10))
	}
	m.DeleteTopic("S")
	require.Equal(t, 2, m.Len())
	m.DeleteGroup("g")
	require.Equal(t, 1, m.Len())
	require.NotNil(t, m.Lookup("U", "h"))
}

func TestPersistOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newFS(t)
		writes := 0
		fail := error(nil)
		m := open(t, errorfs.Wrap(mem, errorfs.Func(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, ".json.tmp") {
				writes++
				return fail
			}
			return nil
		})))
		require.NoError(t, m.Persist())
		require.Zero(t, writes, "an empty table is not written")
		register(t, m, "g", sql("S", "a > 5", 10))
		fail = errorfs.ErrInjected
		require.Error(t, m.Persist())
		fail = nil
		require.NoError(t, m.Persist(), "what failed is written the next time")
		require.Equal(t, 2, writes)
		for range 10 {
			register(t, m, "g", sql("S", "a > 5", 10))
			require.NoError(t, m.Persist())
		}
		require.Equal(t, 2, writes)

		again := open(t, mem)
		e := again.Lookup("S", "g")
		require.NotNil(t, e)
		require.True(t, e.Dead(), "all count as dead until they are heard from")
		require.Equal(t, m.Lookup("S", "g").BloomFilterData, e.BloomFilterData)
		register(t, again, "g", sql("S", "a > 5", 10))
		require.False(t, again.Lookup("S", "g").Dead())
		require.Equal(t, m.Lookup("S", "g").BornTime, again.Lookup("S", "g").BornTime)
	})
}

// B13 (e): an entry without bloom data, as some Java versions wrote it, is still there after a restart.
func TestEntryWithoutBloomData(t *testing.T) {
	data, err := os.ReadFile("../../filter/testdata/consumerFilter.json")
	require.NoError(t, err)
	fsys := newFS(t)
	require.NoError(t, vfs.WriteFileAtomic(fsys, "/config/consumerFilter.json", data, false))
	for range 2 {
		m := open(t, fsys)
		require.Equal(t, 2, m.Len())
		e := m.Lookup("TopicTest", "group_b")
		require.NotNil(t, e)
		require.Equal(t, "b IS NOT NULL", e.Expression)
		require.True(t, m.Bloom().Valid(e.BloomFilterData))
		a := m.Lookup("TopicTest", "group_a")
		require.EqualValues(t, 216, a.BloomFilterData.BitNum)
		require.NotNil(t, a.SQL)
		require.NoError(t, m.Persist())
	}
	saved, err := vfs.ReadFile(fsys, "/config/consumerFilter.json")
	require.NoError(t, err)
	block := func(text string) string { // of group_a, which nothing changed but its death
		at := strings.Index(text, `"group_a":{`)
		text = text[at : at+strings.Index(text[at:], `"dead"`)]
		return strings.NewReplacer("\n", "", "\t", "").Replace(text)
	}
	require.Equal(t, block(string(data)), block(string(saved)), "as Java writes it, blanks aside")
}

func TestLoadBadFiles(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		fsys := newFS(t)
		require.NoError(t, vfs.WriteFileAtomic(fsys, "/config/consumerFilter.json", []byte(text), false))
		require.Equal(t, want, open(t, fsys).Len())
	}
	f(`{}`, 0)
	f(`{"filterDataByTopic":{"T":null,"U":{"groupFilterData":{"g":null}}}}`, 0)
	f(`{"filterDataByTopic":{"U":{"groupFilterData":{"g":{"expression":"a = 1","expressionType":"SQL92"}}}}}`, 1)
	f(`{"filterDataByTopic":{"U":{"groupFilterData":{"g":{"expression":"a =","expressionType":"SQL92"}}}}}`, 1)

	fsys := newFS(t)
	require.NoError(t, vfs.WriteFileAtomic(fsys, "/config/consumerFilter.json", make([]byte, 20), false))
	m, err := New(Options{FS: fsys, ConfigDir: "/config", Clock: clock.System, ErrorPercent: 20, Expected: 32,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	require.ErrorIs(t, m.Load(), persist.ErrDamaged)
}

func TestTableIsBounded(t *testing.T) {
	m := open(t, newFS(t))
	long := "a = '" + strings.Repeat("x", 100<<10) + "'"
	for i := range MaxExpressionBytes / len(long) {
		register(t, m, fmt.Sprint("g", i), sql("S", long, 1))
	}
	require.ErrorIs(t, m.Register("one-more", []*body.SubscriptionData{sql("S", long, 1)}), ErrLimit)
	require.Nil(t, m.Lookup("S", "one-more"))
	m.DeleteGroup("g0")
	register(t, m, "one-more", sql("S", long, 1))
	require.LessOrEqual(t, m.bytes, MaxExpressionBytes)
}

func TestLookupAllocatesNothing(t *testing.T) {
	m := open(t, newFS(t))
	register(t, m, "g", sql("S", "a > 5", 10))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = m.Lookup("S", "g") }))
}
