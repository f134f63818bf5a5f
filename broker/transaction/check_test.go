package transaction

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

// A producer that never answers is asked transactionCheckMax times, then the transaction is given up, listed, and can be
// brought back once.
func TestGiveUpAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		s.prepare("m")
		after(time.Second)
		require.Empty(t, s.took(), "too young")
		require.Equal(t, TooYoung, s.OpenTransactions(9)[0].Reason)
		after(3 * time.Second)
		asked := s.took()
		require.Len(t, asked, 3)
		for i, q := range asked {
			times, _ := q.rec.Property(codec.PropTransactionCheckTimes)
			require.Equal(t, fmt.Sprint(i+1), string(times))
			require.Equal(t, "T", string(q.rec.Topic))
			require.EqualValues(t, 3, q.rec.QueueID)
			require.Equal(t, codec.HalfTopic, q.header.Topic)
			require.Equal(t, "id-m", q.header.MsgID)
			require.Equal(t, "id-m", q.header.TransactionID)
			require.Equal(t, "broker-a", q.header.BrokerName)
			require.Equal(t, q.rec.QueueOffset, q.header.TranStateTableOffset)
			require.Equal(t, q.rec.PhyOffset, q.header.CommitLogOffset)
			require.Equal(t, string(codec.AppendOffsetMsgID(nil, host, q.rec.PhyOffset)), q.header.OffsetMsgID)
		}
		list := s.OpenTransactions(9)
		require.Len(t, list, 1)
		require.Equal(t, Asked, list[0].Reason)
		require.Equal(t, 3, list[0].Checks)
		require.Equal(t, "id-m", list[0].UniqKey)
		require.EqualValues(t, 4000, list[0].AgeMillis)
		s.Unknown(list[0].QueueOffset)
		require.Equal(t, Unknown, s.OpenTransactions(9)[0].Reason)
		after(time.Second)
		require.Empty(t, s.took())
		require.Zero(t, s.Stats().Open)
		gave := s.GivenUp()
		require.Len(t, gave, 1)
		require.Equal(t, CheckedEnough, gave[0].Reason)
		require.Equal(t, "G", gave[0].Group)
		require.False(t, gave[0].Resumed)
		rec := s.records(codec.TransCheckMaxTimeTopic, 0)[0]
		require.Equal(t, "m", string(rec.Body))
		require.Contains(t, s.log.String(), "transaction given up")
		require.ErrorIs(t, s.answer(asked[2], true), ErrSettled)

		s = s.restart()
		after(time.Millisecond)
		gave = s.GivenUp()
		require.Len(t, gave, 1)
		require.Equal(t, CheckedEnough, gave[0].Reason)
		_, at, err := codec.ParseOffsetMsgID(gave[0].MsgID())
		require.NoError(t, err)
		_, err = s.Resume(asked[0].rec.PhyOffset)
		require.ErrorIs(t, err, ErrNotGivenUp)
		put, err := s.Resume(at)
		require.NoError(t, err)
		require.NotZero(t, put.EndOffset)
		_, err = s.Resume(at)
		require.ErrorIs(t, err, ErrResumed)
		s = s.restart()
		after(time.Millisecond)
		require.True(t, s.GivenUp()[0].Resumed)
		require.Equal(t, map[string]int64{"T": 1}, s.counts.counts())
		after(3100 * time.Millisecond)
		asked = s.took()
		require.GreaterOrEqual(t, len(asked), 2, "from the beginning")
		require.NoError(t, s.answer(asked[0], true))
		s = s.killed()
		after(time.Millisecond)
		_, err = s.Resume(at)
		require.ErrorIs(t, err, ErrResumed, "also after it was committed")
		after(5 * time.Second)
		require.Equal(t, []string{"m"}, s.visible())
		require.Empty(t, s.took())
		s.stop()
	})
}

// Without a producer no attempt is used up; one that comes is asked soon (case B23 b, c).
func TestNoProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.prepare("m")
		after(time.Minute)
		list := s.OpenTransactions(9)
		require.Equal(t, NoProducer, list[0].Reason)
		require.Zero(t, list[0].Checks)
		require.Equal(t, 1, s.Stats().NoProducer)
		require.Len(t, s.records(codec.HalfTopic, 0), 1, "nothing is written meanwhile")
		require.Contains(t, s.log.String(), "no producer of the group is connected")
		p := s.producer("G", "p")
		s.alter(func() { p.broken = true })
		after(time.Second)
		require.Equal(t, NoProducer, s.OpenTransactions(9)[0].Reason, "it could not be sent")
		s.alter(func() { p.broken = false })
		after(time.Second)
		asked := s.took()
		require.Len(t, asked, 1)
		require.NoError(t, s.answer(asked[0], true))
		after(10 * time.Millisecond)
		require.Equal(t, []string{"m"}, s.visible())
		s.stop()
	})
}

// The questions go to all producers of the group in turn, but not to those that do not read.
func TestSpreadOverProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		a, b, c := s.producer("G", "a"), s.producer("G", "b"), s.producer("G", "c")
		c.pending.Store(maxPendingBytes)
		for i := range 20 {
			s.prepare(fmt.Sprint(i))
		}
		after(2500 * time.Millisecond)
		seen := map[*fakeConn]int{}
		for _, q := range s.took() {
			seen[q.client]++
		}
		require.Equal(t, 20, seen[a]+seen[b])
		require.GreaterOrEqual(t, min(seen[a], seen[b]), 6)
		require.Zero(t, seen[c])
		a.pending.Store(maxPendingBytes)
		b.pending.Store(maxPendingBytes)
		after(time.Second)
		require.Empty(t, s.took())
		require.Equal(t, Congested, s.OpenTransactions(1)[0].Reason)
		require.Equal(t, 1, s.OpenTransactions(1)[0].Checks)
		s.stop()
	})
}

// CHECK_IMMUNITY_TIME_IN_SECONDS: no question before, all of them after (case B23 d); no commit after it that is not an
// answer.
func TestImmunity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		began := time.Now()
		p := s.prepare("slow", codec.PropCheckImmunityTimeSeconds, "20")
		s.prepare("odd", codec.PropCheckImmunityTimeSeconds, "x")
		after(19 * time.Second)
		for _, q := range s.took() {
			require.Equal(t, "odd", string(q.rec.Body), "an unreadable one counts as none")
		}
		s = s.restart()
		after(30 * time.Second)
		asked := s.took()
		require.Equal(t, []string{"slow", "slow", "slow"}, names(asked))
		require.Greater(t, asked[0].at.Sub(began), 20*time.Second)
		require.Len(t, s.GivenUp(), 2)
		late := s.prepare("late", codec.PropCheckImmunityTimeSeconds, "1")
		early := s.prepare("early", codec.PropCheckImmunityTimeSeconds, "5")
		after(1500 * time.Millisecond)
		require.ErrorIs(t, s.end(late, true), ErrTooLate)
		require.ErrorIs(t, s.end(p, true), ErrTooLate)
		require.NoError(t, s.end(early, true))
		after(2 * time.Second)
		asked = s.took()
		require.Contains(t, names(asked), "late")
		require.NoError(t, s.answer(asked[0], true))
		after(10 * time.Millisecond)
		require.Equal(t, []string{"early", "late"}, s.visible())
		s.stop()
	})
}

// Half messages that cannot be asked about do not hold up the others (case B23 e, B24).
func TestTroubleStaysWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		s.prepare("no group", codec.PropProducerGroup, "")
		s.prepare("another group", codec.PropProducerGroup, "nobody")
		m := &codec.Message{Topic: codec.HalfTopic, Body: []byte("no target"), Properties: codec.EncodeProperties(
			map[string]string{codec.PropProducerGroup: "G", codec.PropTransactionPrepared: "true"})}
		put := s.store.Append(m)
		s.Prepared(m, "", &put)
		for i := range 10 {
			s.prepare(fmt.Sprint("good", i))
		}
		after(2500 * time.Millisecond)
		require.Len(t, s.took(), 10)
		after(10 * time.Second)
		reasons := map[string]Reason{}
		for _, g := range s.GivenUp() {
			reasons[g.UniqKey] = g.Reason
		}
		require.Equal(t, NoGroup, reasons["id-no group"])
		require.Equal(t, Unreadable, reasons[""])
		require.Len(t, reasons, 12)
		list := s.OpenTransactions(9)
		require.Len(t, list, 1)
		require.Equal(t, "nobody", list[0].Group)
		s = s.restart()
		after(time.Second)
		require.Len(t, s.OpenTransactions(9), 1)
		s.stop()
	})
}

// A half message whose time is over is given up, whoever is connected.
func TestTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick
		set.ReservedTime = time.Minute
		s := open(t, setup{fs: newFS(t), settings: set})
		after(time.Millisecond)
		s.prepare("m")
		after(59 * time.Second)
		require.Empty(t, s.GivenUp())
		after(3 * time.Second)
		require.Equal(t, TooOld, s.GivenUp()[0].Reason)
		require.Zero(t, s.Stats().Open)
		s = s.killed()
		after(time.Minute)
		require.Equal(t, 1, len(s.records(codec.TransCheckMaxTimeTopic, 0)), "once")
		require.Equal(t, TooOld, s.GivenUp()[0].Reason)
		s.stop()
	})
}

// The half offset is not held back by one that nobody can be asked about: it goes to the end of the queue, uncounted.
func TestTooFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t), maxLag: 50})
		after(time.Millisecond)
		stuck := s.prepare("stuck")
		immune := s.prepare("immune", codec.PropCheckImmunityTimeSeconds, "100000")
		for i := range 200 {
			require.NoError(t, s.end(s.prepare(fmt.Sprint(i)), true))
		}
		after(10 * time.Second)
		half, op := s.at()
		require.GreaterOrEqual(t, half, int64(202))
		require.GreaterOrEqual(t, op, int64(1))
		for _, o := range s.OpenTransactions(9) {
			require.Zero(t, o.Checks)
			require.GreaterOrEqual(t, o.QueueOffset, codec.QueueOffset(202))
		}
		require.Len(t, s.records(codec.HalfTopic, 0), 204, "once")
		for _, body := range s.ops() {
			parseOp([]byte(body), func(at int64) { require.NotEqual(t, int64(1), at, "Java would take it for the producer's") })
		}
		s = s.killed()
		after(time.Millisecond)
		require.Equal(t, 2, s.Stats().Open)
		require.NoError(t, s.end(stuck, true))
		require.NoError(t, s.end(immune, true))
		after(10 * time.Millisecond)
		require.Len(t, s.visible(), 202)
		s = s.killed()
		after(time.Millisecond)
		require.Zero(t, s.Stats().Open)
		s.stop()
	})
}

// Properties that have no room for the count are asked about where they are.
func TestNoRoomForTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		n := codec.MaxPropertiesBytes
		for put := (store.PutResult{Status: store.UnknownError}); put.Status != store.PutOK; n-- {
			_, put = s.tryPrepare("m", "k", strings.Repeat("x", n))
		}
		after(6 * time.Second)
		require.Len(t, s.took(), 3)
		require.Equal(t, 1, len(s.records(codec.HalfTopic, 0)))
		require.Len(t, s.GivenUp(), 1)
		s.stop()
	})
}

// A half message that retention took is reported, and forgotten.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		s.producer("G", "p")
		p := s.prepare("m")
		table := &s.TransactionalMessageService.t
		table.mu.Lock()
		tx, _ := table.find(int64(p.put.QueueOffset), 0)
		tx.phyOffset = 1 << 40
		table.mu.Unlock()
		after(3 * time.Second)
		require.Zero(t, s.Stats().Open)
		require.Contains(t, s.log.String(), "open transaction lost")
		require.Equal(t, map[string]int64{"T": 0}, s.counts.counts())
		s.stop()
	})
}
