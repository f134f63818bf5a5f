package store

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// TestTurn: messages that are put together lie in the log in their order, each with the offset of its queue, over the ends
// of files, as if they had been put one by one.
func TestTurn(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	one := openStore(t, testOptions(vfs.NewMem(), "/one"))
	var turn Turn
	for round := range 40 {
		turn.Reset(s)
		var want []PutResult
		for i := range 1 + round%9 {
			m := testMessage(fmt.Sprint("Topic", i%2), int32(i%3), strings.Repeat("x", round*i*3%700))
			if i == 4 {
				m.SysFlag = codec.SysFlagTransactionPrepared
			}
			require.Equal(t, PutOK, turn.Add(m).Status)
			r := mustPut(t, one, m)
			want = append(want, r)
		}
		require.Equal(t, len(want), turn.Len())
		turn.Commit()
		for i := range want {
			got := turn.Result(i)
			got.StoreTimestamp, got.Waited = want[i].StoreTimestamp, want[i].Waited
			require.Equal(t, want[i], got)
		}
		s.Dispatch()
	}
	awaitDispatch(t, s)
	awaitDispatch(t, one)
	require.Equal(t, one.MaxPhyOffset(), s.MaxPhyOffset())
	for i := range 3 {
		require.Equal(t, bodies(t, one, "Topic0", int32(i)), bodies(t, s, "Topic0", int32(i)))
		require.Equal(t, bodies(t, one, "Topic1", int32(i)), bodies(t, s, "Topic1", int32(i)))
	}
}

// TestTurnRefusals: a message that cannot be stored leaves no trace in its turn, and a store that is closed refuses all.
func TestTurnRefusals(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	var turn Turn
	turn.Reset(s)
	require.Equal(t, PutOK, turn.Add(testMessage("T", 0, "a")).Status)
	bytes := turn.Bytes()
	f := func(want PutStatus, m *codec.Message) {
		t.Helper()
		r := turn.Add(m)
		require.Equal(t, want, r.Status)
		require.Error(t, r.Err)
		require.Equal(t, bytes, turn.Bytes())
		require.Equal(t, 1, turn.Len())
	}
	f(MessageIllegal, testMessage("", 0, "x"))
	f(MessageIllegal, testMessage("..", 0, "x"))
	f(MessageIllegal, testMessage("T", -1, "x"))
	f(MessageIllegal, testMessage("T", 0, strings.Repeat("x", 9<<10)))
	long := testMessage("T", 0, "x")
	long.Properties = []byte(strings.Repeat("k\x01v\x02", codec.MaxPropertiesBytes/4+1))
	f(PropertiesSizeExceeded, long)
	require.Equal(t, PutOK, turn.Add(testMessage("T", 0, "b")).Status)
	turn.Commit()
	require.EqualValues(t, 1, turn.Result(1).QueueOffset)

	turn.Reset(s)
	require.Equal(t, PutOK, turn.Add(testMessage("T", 0, "c")).Status)
	closeStore(t, s)
	turn.Commit()
	require.Equal(t, ServiceNotAvailable, turn.Result(0).Status)
}

// TestTurnAfterDeletion: a queue that goes away between Add and Commit is found again, empty.
func TestTurnAfterDeletion(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	mustPut(t, s, testMessage("T", 0, "old"))
	mustPut(t, s, testMessage("Other", 0, "old"))
	awaitDispatch(t, s)
	var turn Turn
	turn.Reset(s)
	for _, topic := range []string{"T", "Other", "T"} {
		require.Equal(t, PutOK, turn.Add(testMessage(topic, 0, "new")).Status)
	}
	require.NoError(t, s.DeleteTopic("T"))
	turn.Commit()
	s.Dispatch()
	for i, want := range []QueueOffset{0, 1, 1} {
		r := turn.Result(i)
		require.Equal(t, PutOK, r.Status)
		require.Equal(t, want, r.QueueOffset)
	}
	awaitDispatch(t, s)
	require.Equal(t, []string{"new", "new"}, bodies(t, s, "T", 0))
	require.Equal(t, []string{"old", "new"}, bodies(t, s, "Other", 0))
}

// TestPutAll answers each message on its own.
func TestPutAll(t *testing.T) {
	f := func(flush FlushDiskType) {
		t.Helper()
		o := testOptions(vfs.NewMem(), "/store")
		o.FlushDiskType = flush
		s := openStore(t, o)
		r := s.PutAll([]*codec.Message{testMessage("T", 0, "a"), testMessage("T", -1, "x"), testMessage("T", 0, "b")})
		require.Equal(t, []PutStatus{PutOK, MessageIllegal, PutOK}, []PutStatus{r[0].Status, r[1].Status, r[2].Status})
		require.EqualValues(t, 1, r[2].QueueOffset)
		if flush == SyncFlush {
			require.GreaterOrEqual(t, s.FlushedWhere(), r[2].EndOffset)
		}
		closeStore(t, s)
		require.Equal(t, ServiceNotAvailable, s.PutAll([]*codec.Message{testMessage("T", 0, "a")})[0].Status)
	}
	f(AsyncFlush)
	f(SyncFlush)
}

// TestDispatchInTurn: once a queue is there, its messages are announced before Dispatch returns, without the service.
func TestDispatchInTurn(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.MappedFileSizeConsumeQueue = 300000 * cqEntryBytes
	var got arrivals
	o.Listener.Arrived = got.add
	s := openStore(t, o)
	mustPut(t, s, testMessage("T", 0, "first")) // makes the file
	awaitDispatch(t, s)
	var turn Turn
	inTurn := 0
	const count = 2000
	for i := range count {
		turn.Reset(s)
		require.Equal(t, PutOK, turn.Add(testMessage("T", 0, fmt.Sprint(i))).Status)
		turn.Commit()
		s.Dispatch()
		if s.DispatchBehindBytes() == 0 && len(got.get()) == i+2 {
			inTurn++
		}
		awaitDispatch(t, s)
	}
	require.Greater(t, inTurn, count*9/10, "a new page, or a new file of the log, is left to the service")
	for i, a := range got.get() {
		require.EqualValues(t, i, a.QueueOffset)
	}
}

// TestDispatchFromManyLoops: whoever finds the dispatch taken can rely on the one who has it. Nothing is left behind, lost
// or announced out of order.
func TestDispatchFromManyLoops(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.MessageIndexEnable = false
	var next [4]atomic.Int64
	var wrong atomic.Int64
	o.Listener.Arrived = func(batch []Arrival) {
		for _, a := range batch {
			if next[a.QueueID].Add(1)-1 != int64(a.QueueOffset) {
				wrong.Add(1)
			}
		}
	}
	s := openStore(t, o)
	const loops, turns, frames = 4, 200, 7
	var wg sync.WaitGroup
	for range loops {
		wg.Go(func() {
			var turn Turn
			for range turns {
				turn.Reset(s)
				for i := range frames {
					if r := turn.Add(testMessage("T", int32(i%4), "x")); r.Status != PutOK {
						t.Error(r.Err)
					}
				}
				turn.Commit()
				s.Dispatch()
			}
		})
	}
	wg.Wait()
	awaitDispatch(t, s)
	require.Eventually(t, func() bool { // the last ones are announced after their entries are written
		total := int64(0)
		for i := range next {
			total += next[i].Load()
		}
		return total == loops*turns*frames
	}, testWait, testTick)
	require.Zero(t, wrong.Load())
	for i := range next {
		require.Equal(t, next[i].Load(), int64(s.MaxOffset("T", int32(i))))
	}
}
