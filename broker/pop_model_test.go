package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
	"skylark/internal/vfs"
)

// modelMessage is what the model knows of a message.
type modelMessage struct {
	acked   bool
	until   int64 // ms, invisible before it; 0: never popped
	returns int32
	// repeats: a kill may have taken back what the broker said of it, because it was in memory only.
	repeats bool
}

// popModel is POP as anybody would write it: a table of messages with the time when each is visible again.
type popModel struct {
	t     *testing.T
	b     *testBroker
	all   map[string]*modelMessage
	held  []popped // receipts that are good, if their time is not over
	used  []popped // receipts that are not
	since int64    // ms, when the broker started
	// merge: acks may be in memory only.
	merge bool
	// sync: what is answered is on the disk.
	sync bool
}

// TestPopModel runs random sends, pops, acks, changes, pauses, stops and kills. No message comes while it is invisible,
// none that was acknowledged comes at all, the rest does; receipts are good once and in time. Only what was merged in
// memory may come again after a kill.
func TestPopModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &popModel{t: t, all: map[string]*modelMessage{}}
			conf := rapid.SampledFrom([]string{"", "enableRetryTopicV2=true\n",
				"enablePopBufferMerge=true\npopCkStayBufferTime=1500\npopCkStayBufferTimeOut=400\n",
				"flushDiskType=SYNC_FLUSH\npopFromRetryProbability=50\n"}).Draw(rt, "conf")
			t.Logf("conf %q", conf)
			m.b, m.merge, m.sync = startPopBroker(t, conf), strings.Contains(conf, "Merge"), strings.Contains(conf, "SYNC")
			m.since = time.Now().UnixMilli()
			m.b.createTopic("T", 3, codec.PermRead|codec.PermWrite)
			most := 25
			if raceEnabled {
				most = 5
			}
			for range rapid.IntRange(1, most).Draw(rt, "ops") {
				m.step(rt)
			}
			m.settle()
			m.b.stop()
		})
	})
}

func (m *popModel) step(rt *rapid.T) {
	pick := func(list []popped) int { return rapid.IntRange(0, 1<<16).Draw(rt, "which") % len(list) }
	seconds := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(1, most*10).Draw(rt, name)) * 100 * time.Millisecond
	}
	op := rapid.SampledFrom([]string{"send", "pop", "pop", "ack", "ack", "ack", "change", "used", "pause", "stop",
		"kill", "power"}).Draw(rt, "op")
	m.t.Logf("%d %s", time.Now().UnixMilli(), op)
	switch {
	case op == "send":
		for range rapid.IntRange(1, 6).Draw(rt, "messages") {
			name := fmt.Sprint("m", len(m.all))
			m.b.mustSend("T", rapid.IntRange(0, 2).Draw(rt, "queue"), "TAGS\x01A\x02", name)
			m.all[name] = &modelMessage{}
		}
		time.Sleep(10 * time.Millisecond)
	case op == "pop":
		m.pop(rapid.IntRange(1, 8).Draw(rt, "most"), seconds("invisible", 8))
	case op == "ack" && len(m.held) > 0:
		m.ack(pick(m.held))
	case op == "change" && len(m.held) > 0:
		m.change(pick(m.held), seconds("invisible", 8))
	case op == "used" && len(m.used) > 0:
		r := m.used[pick(m.used)]
		if r.receipt.PopTime >= m.since { // those of before are judged by their time alone
			require.NotEqual(m.t, codec.RespSuccess, m.b.ack(r).Code, "%s: %s", r.body, r.receipt)
		}
	case op == "pause":
		time.Sleep(seconds("pause", 20))
	case op == "stop":
		time.Sleep(10 * time.Millisecond) // no broker starts right when another stops; pop times may be ahead by some ms
		m.b = m.b.restart()
		m.started()
	case op == "kill":
		time.Sleep(seconds("before", 6))
		m.b = m.b.kill()
		m.started()
		for _, msg := range m.all {
			msg.repeats = msg.repeats || m.merge
		}
	case op == "power" && m.sync: // check points need not be on the disk, what is sent and acknowledged is
		time.Sleep(seconds("before", 6))
		m.b = m.b.powerCut(rapid.Uint64().Draw(rt, "cut"))
		m.started()
		for _, msg := range m.all {
			msg.repeats = true
		}
	}
}

// powerCut opens what a power cut leaves.
func (b *testBroker) powerCut(seed uint64) *testBroker {
	b.t.Helper()
	s := b.s
	s.fs = s.fs.(*vfs.MemFS).CrashClone(seed)
	b.peer.Close()
	b.stop()
	return start(b.t, s)
}

func (m *popModel) started() {
	m.since = time.Now().UnixMilli()
	time.Sleep(100 * time.Millisecond)
}

func (m *popModel) pop(most int, invisible time.Duration) (n int) {
	m.t.Helper()
	now := time.Now().UnixMilli()
	list := m.b.popN("T", most, invisible)
	require.LessOrEqual(m.t, len(list), most)
	for _, r := range list {
		m.t.Logf("%d pop %s %s", now, r.body, r.receipt)
		msg := m.all[r.body]
		require.NotNil(m.t, msg, "nobody sent %q", r.body)
		if !msg.repeats {
			require.False(m.t, msg.acked, "%s was acknowledged and comes again", r.body)
			require.LessOrEqual(m.t, msg.until, now, "%s comes while it is invisible", r.body)
			require.Equal(m.t, msg.returns, r.reconsume, "%s", r.body)
		}
		msg.until, msg.returns, msg.acked = r.receipt.PopTime+r.receipt.Invisible, r.reconsume+1, false
		m.held = append(m.held, r)
	}
	return len(list)
}

// take takes a receipt out of those that are held.
func (m *popModel) take(i int) popped {
	r := m.held[i]
	m.held = append(m.held[:i], m.held[i+1:]...)
	m.used = append(m.used, r)
	return r
}

func (m *popModel) good(r popped) bool {
	return time.Now().UnixMilli() < r.receipt.PopTime+r.receipt.Invisible
}

func (m *popModel) ack(i int) {
	m.t.Helper()
	r := m.take(i)
	answer := m.b.ack(r)
	m.t.Logf("%d ack %s %s: %d", time.Now().UnixMilli(), r.body, r.receipt, answer.Code)
	if !m.good(r) {
		require.Equal(m.t, codec.RespNoMessage, answer.Code, "%s: %s is late: %s", r.body, r.receipt, answer.Remark)
		return
	}
	require.Equal(m.t, codec.RespSuccess, answer.Code, "%s: %s: %s", r.body, r.receipt, answer.Remark)
	m.all[r.body].acked = true
}

func (m *popModel) change(i int, invisible time.Duration) {
	m.t.Helper()
	r := m.take(i)
	next, answer := m.b.change(r, invisible)
	m.t.Logf("%d change %s %s: %s", time.Now().UnixMilli(), r.body, r.receipt, next.receipt)
	if !m.good(r) {
		require.Equal(m.t, codec.RespNoMessage, answer.Code, "%s: %s is late: %s", r.body, r.receipt, answer.Remark)
		return
	}
	require.Equal(m.t, codec.RespSuccess, answer.Code, "%s: %s: %s", r.body, r.receipt, answer.Remark)
	m.held = append(m.held, next)
	m.all[r.body].until = next.receipt.PopTime + next.receipt.Invisible
}

// settle acknowledges all that comes, until nothing does any more; then every message has been acknowledged.
func (m *popModel) settle() {
	m.t.Helper()
	for quiet := 0; quiet < 12; quiet++ {
		time.Sleep(time.Second)
		for m.pop(32, time.Minute) > 0 {
			quiet = 0
			for len(m.held) > 0 {
				m.ack(0)
			}
		}
	}
	for name, msg := range m.all {
		require.True(m.t, msg.acked, "%s is lost", name)
	}
	require.Zero(m.t, m.b.Pop().Open())
	own, retry := m.b.Pop().GroupLag("T", "g")
	require.Zero(m.t, own.Inflight+own.Ready+retry.Inflight+retry.Ready, "%+v %+v", own, retry)
}
