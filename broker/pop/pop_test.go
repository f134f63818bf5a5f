package pop

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/codec/fastjson"
	"skylark/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReceipt(t *testing.T) {
	r := Receipt{StartOffset: 7, PopTime: 1700000000000, Invisible: 60000, ReviveQID: 3, Flag: RetryTopicV2, Broker: "broker-a",
		QueueID: 1, Offset: 9}
	const text = "7 1700000000000 60000 3 2 broker-a 1 9"
	require.Equal(t, text, r.String())
	for _, handle := range []string{text, text + " 12345"} { // the proxy adds the log offset
		got, err := ParseReceipt(handle)
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	for _, bad := range []string{"", "7", "7 1 1 1 3 b 0 9", "9 1 1 1 0 b 0 7", "a 1 1 1 0 b 0 9", "7 1 -1 1 0 b 0 9",
		"7 1 1 99999999999 0 b 0 9"} {
		_, err := ParseReceipt(bad)
		require.ErrorIs(t, err, ErrGarbled, "%q", bad)
	}
}

// The bodies as Java writes them.
func TestRecordBodies(t *testing.T) {
	f := func(v any, want string) {
		t.Helper()
		got, err := fastjson.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	ck := CheckPoint{BrokerName: "broker-a", Group: "g", Diffs: []int32{0, 2}, Invisible: 60000, Num: 2, PopTime: 1000,
		QueueID: 1, ReviveTime: 61000, ReviveOffset: -1, StartOffset: 7, Topic: "T"}
	f(&ck, `{"bm":0,"bn":"broker-a","c":"g","d":[0,2],"it":60000,"n":2,"pt":1000,"q":1,"reviveTime":61000,"ro":-1,"so":7,"t":"T"}`)
	f(&ackRecord{Offset: 9, BrokerName: "broker-a", Group: "g", PopTime: 1000, QueueID: 1, StartOffset: 7, Topic: "T"},
		`{"ao":9,"bn":"broker-a","c":"g","pt":1000,"q":1,"so":7,"t":"T"}`)
	f(&ackRecord{Offset: -1, Offsets: []codec.QueueOffset{7, 9}, BrokerName: "broker-a", Group: "g", PopTime: 1000, QueueID: 1,
		StartOffset: 7, Topic: "T"}, `{"ao":-1,"aol":[7,9],"bn":"broker-a","c":"g","pt":1000,"q":1,"so":7,"t":"T"}`)
	require.Equal(t, 1, ck.index(9))
	require.Equal(t, -1, ck.index(8))
	old := CheckPoint{StartOffset: 7, Num: 3} // of before 4.9.4
	require.Equal(t, 2, old.index(9))
	require.Equal(t, -1, old.index(10))
	require.Equal(t, codec.QueueOffset(9), old.offset(2))
	require.EqualValues(t, 7, old.all())
	f(&orderFile{Table: map[string]map[int32]*orderInfo{"T@g": {0: {AttemptID: "a", CommitBits: 1, Invisible: 60000,
		LastConsume: 5, Offsets: []int64{7, 1}, Consumed: map[int64]int{8: 1}, PopTime: 4}}}},
		`{"table":{"T@g":{0:{"a":"a","cm":1,"i":60000,"l":5,"o":[7,1],"oc":{8:1},"popTime":4}}}}`)
}

// Who has the earliest deadline goes first; filters and limits are kept.
func TestPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPolling(clock.System, func() Settings { return Settings{PollingSize: 2, MaxPolling: 5} })
		var mu sync.Mutex // the race detector does not see how timers follow
		var got []string
		now := time.Now().UnixMilli()
		park := func(name, group string, queueID int32, after int64, tag int64) bool {
			return p.Park(&Waiter{Topic: "T", Group: group, QueueID: queueID, Deadline: now + after, Conn: uint64(after),
				Interested: func(code int64, _ []byte) bool { return tag == 0 || tag == code },
				Fire: func(expired bool) {
					if expired {
						name += "!"
					}
					mu.Lock()
					defer mu.Unlock()
					got = append(got, name)
				}})
		}
		f := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, want, got)
			got = nil
		}
		require.True(t, park("b", "g", -1, 300, 0) && park("a", "g", -1, 200, 1) && park("c", "g", -1, 400, 0))
		require.False(t, park("d", "g", -1, 100, 0), "too many for one queue")
		require.True(t, park("e", "h", 2, 500, 0))
		p.Arrived("T", 2, false, 2, nil)
		f("b", "e")
		p.Arrived("T", 2, false, 1, nil)
		f("a")
		p.Arrived(codec.PopRetryTopicV1("T", "h"), 0, false, 1, nil)
		f()
		p.Arrived(codec.PopRetryTopicV1("T", "g"), 0, false, 1, nil)
		f("c")
		require.True(t, park("x", "g", 1, 100, 1) && park("y", "g", 3, 50, 0))
		p.Arrived("T", 1, true, 2, nil)
		f("x")
		time.Sleep(45 * time.Millisecond)
		f()
		time.Sleep(30 * time.Millisecond)
		synctest.Wait()
		f("y!")
		require.True(t, park("z", "g", 3, 1000, 0))
		p.Drop(1000)
		require.Zero(t, p.Len())
		require.True(t, park("last", "g", 3, 1000, 0))
		p.Close()
		f("last!")
		require.False(t, park("late", "g", 3, 1000, 0))
		require.Empty(t, p.pairs)
		require.Empty(t, p.topics)
		synctest.Wait()
		time.Sleep(time.Second)
	})
}
