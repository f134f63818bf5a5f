package timer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
	"skylark/internal/vfs"
)

// pending is what the model knows of a message.
type pending struct {
	name     string
	due      time.Time
	stored   *codec.Message
	recalled bool
}

// model is the timer as anybody would write it: a list.
type model struct {
	t       *testing.T
	s       *system
	fs      *vfs.MemFS
	o       setup
	waiting []*pending
	all     []*pending
	down    []time.Time // when the broker was not there: from, to, from, to
}

// TestModel runs random puts, recalls, pauses, stops and kills; after each pause exactly the messages that are due have
// been delivered, once, in time, and the counts are those of the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{t: t, fs: newFS(t)}
			m.o = setup{window: rapid.IntRange(2, 200).Draw(rt, "window"),
				step:  rapid.SampledFrom([]time.Duration{100, 250, 1000}).Draw(rt, "step") * time.Millisecond,
				async: time.Duration(rapid.IntRange(1, 4000).Draw(rt, "flush")) * time.Millisecond}
			t.Logf("window %d, step %v, flush %v", m.o.window, m.o.step, m.o.async)
			m.open()
			for range rapid.IntRange(1, 20).Draw(rt, "ops") {
				switch rapid.SampledFrom([]string{"put", "put", "put", "recall", "pause", "stop", "kill"}).Draw(rt, "op") {
				case "put":
					m.put(time.Duration(rapid.IntRange(-500, 90_000).Draw(rt, "delay")) * time.Millisecond)
				case "recall":
					m.recall(rapid.IntRange(0, 1000).Draw(rt, "which"))
				case "pause":
					after(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "pause")) * time.Millisecond)
					m.check()
				case "stop":
					m.s.stop()
					m.pause(rapid.IntRange(0, 60_000).Draw(rt, "down"))
				case "kill":
					synctest.Wait()
					m.fs = m.fs.CloneAll()
					m.s.kill()
					m.pause(rapid.IntRange(0, 60_000).Draw(rt, "down"))
				}
			}
			after(3 * time.Minute)
			m.check()
			require.Empty(t, m.waiting)
			require.NotContains(t, m.s.log.String(), "level=ERROR")
			m.s.stop()
		})
	})
}

func (m *model) open() {
	m.o.fs = m.fs
	m.s = open(m.t, m.o)
	synctest.Wait()
}

func (m *model) pause(millis int) {
	from := time.Now()
	m.t.Logf("%d down", from.UnixMilli())
	time.Sleep(time.Duration(millis) * time.Millisecond)
	m.down = append(m.down, from, time.Now())
	m.open()
}

func (m *model) put(d time.Duration) {
	p := &pending{name: fmt.Sprint("m", len(m.all)), due: time.Now().Add(max(d, 0))}
	p.stored = m.s.put(p.name, d)
	m.t.Logf("%d put %s, due %d", time.Now().UnixMilli(), p.name, p.due.UnixMilli())
	synctest.Wait()
	m.all = append(m.all, p)
	m.waiting = append(m.waiting, p)
}

func (m *model) recall(which int) {
	if len(m.waiting) == 0 {
		return
	}
	p := m.waiting[which%len(m.waiting)]
	out, ok := codec.LookupProperty(p.stored.Properties, codec.PropTimerOutMs)
	if !ok || p.recalled || parseInt(string(out))+1 <= time.Now().UnixMilli() {
		return // too late, a recall is refused
	}
	m.t.Logf("%d recall %s", time.Now().UnixMilli(), p.name)
	m.s.recall(p.name, p.stored)
	synctest.Wait()
	p.recalled = true
}

// check compares with what has been delivered.
func (m *model) check() {
	t, now := m.t, time.Now()
	t.Logf("%d check", now.UnixMilli())
	at := map[string]time.Time{}
	for _, rec := range m.s.records("T", 3) {
		_, twice := at[string(rec.Body)]
		require.False(t, twice, "%s was delivered twice", rec.Body)
		at[string(rec.Body)] = time.UnixMilli(rec.StoreTimestamp)
	}
	var left []*pending
	count := int64(0)
	for _, p := range m.waiting {
		got, ok := at[p.name]
		latest := m.latest(p.due)
		switch {
		case p.recalled:
			require.False(t, ok, "%s was recalled", p.name)
			if now.Before(latest) {
				left = append(left, p)
			}
		case ok:
			require.False(t, got.Before(p.due.Truncate(time.Millisecond)) && p.due.After(now), "%s came too early", p.name)
			require.False(t, got.After(latest), "%s, due %v, came at %v", p.name, p.due, got)
		default:
			require.True(t, now.Before(latest), "%s, due %v, has not come until %v", p.name, p.due, now)
			left = append(left, p)
			count++
		}
	}
	m.waiting = left
	require.Equal(t, count, m.s.count("T"))
	require.Equal(t, count, m.s.Status().Waiting)
}

// latest is when a message has to be there: a step after its time, or when the broker is back.
func (m *model) latest(due time.Time) time.Time {
	at := due.Add(m.o.step)
	for i := 0; i < len(m.down); i += 2 {
		if !at.Before(m.down[i]) && at.Before(m.down[i+1]) {
			at = m.down[i+1]
		}
	}
	return at.Add(time.Millisecond)
}
