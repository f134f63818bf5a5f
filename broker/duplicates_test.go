package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

const suppress = "duplicateSuppressionEnable=true\n"

func uniq(id string) string { return "UNIQ_KEY\x01" + id }

// sameResult compares what a producer is told.
func sameResult(t testing.TB, first, again *codec.Command) {
	t.Helper()
	require.Equal(t, codec.RespSuccess, again.Code, again.Remark)
	for _, field := range []string{"queueId", "queueOffset", "transactionId", "recallHandle"} {
		require.Equal(t, first.Get(field), again.Get(field), field)
	}
	ids, idsAgain := strings.Split(first.Get("msgId"), ","), strings.Split(again.Get("msgId"), ",")
	require.Len(t, idsAgain, len(ids))
	for i := range ids { // a broker of a test has another port after a restart
		require.Equal(t, ids[i][16:], idsAgain[i][16:])
	}
}

// A retried send of each kind is answered with the first result, from the other queue too, and is there once; also after a
// restart and after a kill.
func TestDuplicatesOfEachKind(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), conf: suppress})
	b.createTopic("T", 4, 6)
	kinds := map[string]string{"plain": "", "delayed": "\x02DELAY\x0118", "timer": "\x02TIMER_DELAY_SEC\x013600",
		"half": "\x02TRAN_MSG\x01true\x02PGROUP\x01pg"}
	first := map[string]*codec.Command{}
	for kind, props := range kinds {
		first[kind] = b.mustSend("T", 1, uniq(kind)+props, kind)
	}
	batch := func() *codec.Command {
		return batchRequest("T", "", append(batchEntry(t, "a", uniq("a")), batchEntry(t, "b", uniq("b"))...))
	}
	first["batch"] = b.do(batch())
	require.Equal(t, 1, strings.Count(first["batch"].Get("msgId"), ","))
	require.NotEmpty(t, first["timer"].Get("recallHandle"))
	again := func() {
		t.Helper()
		for kind, props := range kinds {
			sameResult(t, first[kind], b.mustSend("T", 2, uniq(kind)+props, kind))
		}
		sameResult(t, first["batch"], b.do(batch()))
	}
	again()
	require.Equal(t, "6", b.RuntimeInfo()["duplicatesSuppressed"])
	require.Equal(t, "6", b.RuntimeInfo()["duplicatesSuppressed_T"])
	b = b.restart()
	again()
	b = b.kill()
	again()
	for q := range 4 {
		want := 0
		switch q {
		case 1:
			want = 1
		case 0:
			want = 2 // the batch
		}
		b.waitQueue("T", q, want)
		require.Len(t, b.all("T", q), want, q)
	}
	b.waitQueue(codec.HalfTopic, 0, 1)
	require.Len(t, b.all(codec.HalfTopic, 0), 1)

	// Another id, no id, or a batch with a message that is new: stored.
	require.NotEqual(t, first["plain"].Get("msgId"), b.mustSend("T", 1, uniq("other"), "x").Get("msgId"))
	require.NotEqual(t, b.mustSend("T", 1, "", "x").Get("msgId"), b.mustSend("T", 1, "", "x").Get("msgId"))
	mixed := b.do(batchRequest("T", "", append(batchEntry(t, "a", uniq("a")), batchEntry(t, "c", uniq("c"))...)))
	require.NotEqual(t, first["batch"].Get("queueOffset"), mixed.Get("queueOffset"))
	other := b.mustSend("U", 0, uniq("plain"), "plain")
	require.NotEqual(t, first["plain"].Get("msgId"), other.Get("msgId"), "another topic")
}

// Without the key nothing is remembered.
func TestDuplicatesAreStoredWithoutSuppression(t *testing.T) {
	b := startBroker(t, "")
	require.NotEqual(t, b.mustSend("T", 0, uniq("id"), "x").Get("msgId"), b.mustSend("T", 0, uniq("id"), "x").Get("msgId"))
	require.NotContains(t, b.RuntimeInfo(), "duplicatesSuppressed")
	require.Nil(t, b.Duplicates())
}

// Only the topics that are named, and no retries.
func TestDuplicatesByTopic(t *testing.T) {
	b := startBroker(t, suppress+"duplicateSuppressionTopics=A,B\n")
	b.createGroup("G", nil)
	differ := func(topicName string, want bool) {
		t.Helper()
		one, two := b.mustSend(topicName, 0, uniq("id"), "x"), b.mustSend(topicName, 0, uniq("id"), "x")
		require.Equal(t, want, one.Get("msgId") != two.Get("msgId"), topicName)
	}
	differ("A", false)
	differ("B", false)
	differ("C", true)
	differ("%RETRY%G", true)
}

// The retries that come in the turn of the first are answered with it, in their order.
func TestDuplicatesOfOneTurn(t *testing.T) {
	b := startBroker(t, suppress)
	b.createTopic("T", 4, 6)
	p := newLoop(t, b, repeat(6, func(i int) *codec.Command {
		return sendRequest("T", i%4, uniq(fmt.Sprint("id", i/3)), []byte("x"))
	})...)
	b.eventually(func() bool { return b.store.CanAppend(64 << 10) }) // else the send pool would serve it
	answers := p.answers(t)
	require.Len(t, answers, 6)
	byOpaque := map[int32]*codec.Command{}
	for _, a := range answers {
		byOpaque[a.Opaque] = a
	}
	for i := range int32(6) {
		sameResult(t, byOpaque[i/3*3], byOpaque[i])
	}
	require.NotEqual(t, byOpaque[0].Get("msgId"), byOpaque[3].Get("msgId"))
}

// No duplicate is answered before the first is on the disk, and the answer is not a success when the disk fails.
func TestDuplicatesWaitForTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: suppress + "flushDiskType=SYNC_FLUSH\n"})
		b.createTopic("T", 4, 6)
		release := d.stall(t)
		first := b.begin(sendRequest("T", 0, uniq("id"), []byte("x")))
		synctest.Wait()
		other := b.dial()
		again := other.begin(sendRequest("T", 1, uniq("id"), []byte("x")))
		time.Sleep(4 * time.Second)
		require.Empty(t, first)
		require.Empty(t, again, "answered before the flush")
		release()
		sameResult(t, await(t, first), await(t, again))
		d.fails.Store(true)
		first = b.begin(sendRequest("T", 0, uniq("lost"), []byte("x")))
		again = other.begin(sendRequest("T", 0, uniq("lost"), []byte("x")))
		require.NotEqual(t, codec.RespSuccess, await(t, first).Code)
		require.NotEqual(t, codec.RespSuccess, await(t, again).Code)
		require.NotEqual(t, codec.RespSuccess, other.send("T", 0, uniq("lost"), []byte("x")).Code)
	})
}

// A send that another one of the same id holds up waits for it in a pool, gets its result, or SYSTEM_BUSY in the end.
func TestDuplicateWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: suppress})
		b.createTopic("T", 4, 6)
		w := b.Duplicates().Of("T")
		ticket, _, _ := w.Claim([]byte("id"), b.clock.Millis())
		again := b.begin(sendRequest("T", 0, uniq("id"), []byte("x")))
		time.Sleep(time.Second)
		require.Empty(t, again)
		ticket.Drop() // the first failed: the second is stored
		answer := await(t, again)
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		sameResult(t, answer, b.mustSend("T", 3, uniq("id"), "x"))

		_, _, _ = w.Claim([]byte("stuck"), b.clock.Millis())
		again = b.begin(sendRequest("T", 0, uniq("stuck"), []byte("x")))
		answer = await(t, again)
		require.Equal(t, codec.RespSystemBusy, answer.Code)
		require.Contains(t, answer.Remark, "stuck")
	})
}

// A half message whose transaction was rolled back does not stand in the way of the next one; a committed one does.
func TestDuplicateHalfMessages(t *testing.T) {
	b := startBroker(t, suppress)
	b.createTopic("T", 4, 6)
	first := b.sendHalf("T", "pg", "x", "UNIQ_KEY", "id")
	again := b.sendHalf("T", "pg", "x", "UNIQ_KEY", "id")
	require.Equal(t, first, again)
	b.mustEnd(first, codec.SysFlagTransactionCommit)
	b.mustEnd(again, codec.SysFlagTransactionCommit) // both producers' threads say so
	require.Equal(t, first, b.sendHalf("T", "pg", "x", "UNIQ_KEY", "id"))
	b.waitQueue("T", 1, 1)
	require.Len(t, b.all("T", 1), 1)

	first = b.sendHalf("T", "pg", "x", "UNIQ_KEY", "undone")
	b.mustEnd(first, codec.SysFlagTransactionRollback)
	again = b.sendHalf("T", "pg", "x", "UNIQ_KEY", "undone")
	require.NotEqual(t, first.CommitLogOffset, again.CommitLogOffset)
	require.Equal(t, again, b.sendHalf("T", "pg", "x", "UNIQ_KEY", "undone"))
	b.mustEnd(again, codec.SysFlagTransactionCommit)
	b.waitQueue("T", 1, 2)
}

// A window that a restart rebuilds knows no more than its time.
func TestDuplicatesAreForgottenAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: suppress + "duplicateWindowMillis=10000\n"})
		old := b.mustSend("T", 0, uniq("old"), "x")
		time.Sleep(8 * time.Second)
		young := b.mustSend("T", 0, uniq("young"), "x")
		time.Sleep(4 * time.Second)
		b = b.kill()
		sameResult(t, young, b.mustSend("T", 0, uniq("young"), "x"))
		require.NotEqual(t, old.Get("msgId"), b.mustSend("T", 0, uniq("old"), "x").Get("msgId"))
	})
}

// BenchmarkSendRemembered is a send with suppression on; compare with BenchmarkSend.
func BenchmarkSendRemembered(b *testing.B) {
	for _, conf := range []string{"", suppress + "duplicateWindowCount=4096\n"} {
		name := "off"
		if conf != "" {
			name = "on"
		}
		b.Run(name, func(b *testing.B) {
			br := startBroker(b, benchConf+conf)
			br.createTopic("T", 4, 6)
			p := newLoop(b, br, repeat(1<<15, func(i int) *codec.Command {
				return sendRequest("T", i%4, fmt.Sprintf("TAGS\x01A\x02UNIQ_KEY\x017F0000010007251438A3%012X", i), make([]byte, 1024))
			})...)
			all := p.frames
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += 32 {
				at := i % len(all)
				p.frames = all[at : at+32]
				p.turn()
			}
		})
	}
}
