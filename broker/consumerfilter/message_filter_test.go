package consumerfilter

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/filter"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

var _ store.PropertyFilter = (*MessageFilter)(nil)

func encoded(text string) []byte {
	return []byte(strings.NewReplacer("=", "\x01", ";", "\x02").Replace(text))
}

func TestMatchProperties(t *testing.T) {
	m := open(t, newFS(t))
	register(t, m, "g", sql("T", "a > 5", 1), sql("%RETRY%g", "b = 1", 1))
	entry := func(f *MessageFilter) { f.ForEntry(m, m.Lookup("T", "g")) }
	expression := func(f *MessageFilter) {
		q, err := filter.Compile("a > 5")
		require.NoError(t, err)
		f.ForExpression(q)
	}
	retry := func(f *MessageFilter) { f.ForRetry(m, "g") }
	f := func(of func(f *MessageFilter), props string, want bool) {
		t.Helper()
		var mf MessageFilter
		of(&mf)
		require.True(t, mf.MatchQueueEntry(1))
		require.True(t, mf.NeedsRecord())
		require.Equal(t, want, mf.MatchProperties(encoded(props)), props)
		require.Equal(t, want, mf.MatchRecord(&codec.Record{Properties: encoded(props)}), props)
	}
	for _, of := range []func(f *MessageFilter){entry, expression} {
		f(of, "a=7;", true)
		f(of, "a=5;", false)
		f(of, "b=7;", false)
		f(of, "a=x;", false)
		f(of, "", false)
	}
	f(retry, "RETRY_TOPIC=T;a=7;", true)
	f(retry, "RETRY_TOPIC=T;a=5;b=1;", false)
	f(retry, "RETRY_TOPIC=U;a=5;", true) // nothing is known of U
	f(retry, "a=5;", true)
}

// MatchUnit says no only if the bits do, and only of messages that are younger than the entry.
func TestMatchUnit(t *testing.T) {
	m := open(t, newFS(t))
	register(t, m, "g", sql("T", "a > 5", 1))
	e := m.Lookup("T", "g")
	none, all := filter.NewBits(m.Bloom().BitCount()), filter.NewBits(m.Bloom().BitCount())
	for i := range all.Len() {
		all.Set(i)
	}
	var mf MessageFilter
	f := func(storeTimestamp int64, bits []byte, want bool) {
		t.Helper()
		require.Equal(t, want, mf.MatchUnit(storeTimestamp, bits))
	}
	mf.ForEntry(m, e)
	f(e.BornTime+1, all, true)
	f(e.BornTime+1, none, false)
	f(e.BornTime, none, true)
	f(e.BornTime+1, nil, true)
	f(e.BornTime+1, none[1:], true)
	mf.ForExpression(e.SQL)
	f(e.BornTime+1, none, true)
	mf.ForRetry(m, "g")
	f(e.BornTime+1, none, true)
}

func TestBitMaps(t *testing.T) {
	m := open(t, newFS(t))
	calc := m.BitMaps()
	require.Nil(t, calc(nil, []byte("T"), nil), "nobody is known")
	register(t, m, "g", sql("T", "a > 5", 1))
	register(t, m, "h", sql("T", "b = 'x'", 1), sql("U", "c = 1", 1))
	m.Unregister("h") // dead ones count
	f := func(topic, props string, groups ...string) {
		t.Helper()
		want := filter.NewBits(m.Bloom().BitCount())
		for _, g := range groups {
			require.NoError(t, m.Bloom().HashTo(m.Bloom().Generate(filter.BloomKey(g, topic)), want))
		}
		require.Equal(t, append([]byte("head"), want...), calc([]byte("head"), []byte(topic), encoded(props)))
	}
	f("T", "a=7;b=x;", "g", "h")
	f("T", "a=7;", "g")
	f("T", "b=x;", "h")
	f("T", "a=z;")
	f("U", "a=7;")
	f("U", "c=1;", "h")
	require.Empty(t, calc(nil, []byte("V"), encoded("a=7;")))
}

// No message that fits and counts as young enough for the bits lacks them, whenever its bit map was made; also with a clock
// that is behind the store's.
func TestBitMapsOfNewEntries(t *testing.T) {
	var stored lastTime
	m, err := New(Options{FS: vfs.NewMem(), Clock: clock.System, ErrorPercent: 20, Expected: 1000, Stored: stored.get,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	type message struct {
		time int64
		bits filter.Bits
	}
	var messages []message
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		calc, props := m.BitMaps(), encoded("a=7;")
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			at := clock.System.Millis() + int64(n%3) // ahead of the clock
			at = max(at, stored.get())
			stored.set(at)
			messages = append(messages, message{at, calc(nil, []byte("T"), props)})
		}
	}()
	for i := range 200 {
		require.NoError(t, m.Register(fmt.Sprint("g", i), []*body.SubscriptionData{sql("T", "a > 5", 1)}))
	}
	close(stop)
	<-done
	young := 0
	for _, msg := range messages {
		for _, e := range m.OfTopic("T") {
			if e.InLive(msg.time) {
				young++
			}
			require.True(t, e.MayMatch(m.Bloom(), msg.time, msg.bits), "message of %d, born %d", msg.time, e.BornTime)
		}
	}
	t.Logf("%d messages, %d times young", len(messages), young)
}

type lastTime struct {
	mu sync.Mutex
	at int64
}

func (l *lastTime) get() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

func (l *lastTime) set(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
}

// After a run that was killed the file may miss what happened to the table while bit maps were made: entries start anew.
func TestUncleanEntriesAreBornAgain(t *testing.T) {
	fsys := newFS(t)
	m := open(t, fsys)
	register(t, m, "g", sql("T", "a > 5", 1))
	old := m.Lookup("T", "g").BornTime
	require.NoError(t, m.Persist())
	require.Equal(t, old, open(t, fsys).Lookup("T", "g").BornTime)
	o := m.o
	o.Unclean = true
	o.Clock = laterClock{clock.System}
	again, err := New(o)
	require.NoError(t, err)
	require.NoError(t, again.Load())
	require.Equal(t, o.Clock.Millis(), again.Lookup("T", "g").BornTime)
	require.True(t, again.Lookup("T", "g").Dead())
	require.NoError(t, again.Persist())
	require.Greater(t, open(t, fsys).Lookup("T", "g").BornTime, old)
}

type laterClock struct{ clock.Clock }

func (laterClock) Millis() int64 { return 1 << 42 }

func TestFiltersAllocateNothing(t *testing.T) {
	m := open(t, newFS(t))
	register(t, m, "g", sql("T", "a > 5 AND b IS NULL", 1))
	e, props, topic := m.Lookup("T", "g"), encoded("x=1;RETRY_TOPIC=T;a=7;"), []byte("T")
	bits := filter.NewBits(m.Bloom().BitCount())
	mf, calc, dst := new(MessageFilter), m.BitMaps(), make([]byte, 0, 100)
	f := func(run func()) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(100, run))
	}
	f(func() {
		mf.ForEntry(m, e)
		_ = mf.MatchUnit(e.BornTime+1, bits)
		_ = mf.MatchProperties(props)
	})
	f(func() {
		mf.ForRetry(m, "g")
		_ = mf.MatchProperties(props)
	})
	f(func() { _ = calc(dst, topic, props) })
}

// FuzzLookup: a property is the one that codec.LookupProperty finds.
func FuzzLookup(f *testing.F) {
	f.Add("a\x017\x02", "a")
	f.Add("aa\x017\x02a\x01\x02a\x01x", "a")
	f.Add("b\x01a\x01c\x02a\x015\x02a\x016\x02\x02", "a")
	f.Add("\x02a\x01\x01", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		if name == "" || strings.ContainsAny(name, "\x01\x02") {
			return
		}
		p := properties(text)
		got, ok := p.Lookup(name)
		want, wantOK := codec.LookupProperty([]byte(text), name)
		require.Equal(t, wantOK, ok, "%q %q", text, name)
		require.Equal(t, string(want), string(got), "%q %q", text, name)
	})
}

func BenchmarkMatch(b *testing.B) {
	m, err := New(Options{FS: vfs.NewMem(), Clock: clock.System, ErrorPercent: 20, Expected: 32,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Register("g", []*body.SubscriptionData{sql("T", "price BETWEEN 85 AND 95", 1)}); err != nil {
		b.Fatal(err)
	}
	props := encoded("MSG_REGION=DefaultRegion;UNIQ_KEY=0123456789ABCDEF0123456789ABCDEF;CLUSTER=DefaultCluster;WAIT=true;" +
		"KEYS=order-123456;TAGS=TagA;TRACE_ON=true;price=90;")
	bits := filter.NewBits(m.Bloom().BitCount())
	b.Run("properties", func(b *testing.B) {
		var mf MessageFilter
		mf.ForEntry(m, m.Lookup("T", "g"))
		b.ReportAllocs()
		for b.Loop() {
			if !mf.MatchProperties(props) {
				b.Fatal("no match")
			}
		}
	})
	b.Run("bits", func(b *testing.B) {
		var mf MessageFilter
		e := m.Lookup("T", "g")
		mf.ForEntry(m, e)
		b.ReportAllocs()
		for b.Loop() {
			if mf.MatchUnit(e.BornTime+1, bits) {
				b.Fatal("a hit")
			}
		}
	})
	b.Run("calc", func(b *testing.B) {
		calc, dst, topic := m.BitMaps(), make([]byte, 0, 100), []byte("T")
		b.ReportAllocs()
		for b.Loop() {
			_ = calc(dst, topic, props)
		}
	})
}
