package pop

import (
	"io"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/offset"
	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// emptyStore has no messages and takes those that are put.
type emptyStore struct{ end codec.PhyOffset }

func (*emptyStore) Get(_ *store.GetRequest, res *store.GetResult) { *res = store.GetResult{} }

func (s *emptyStore) Append(*codec.Message) store.PutResult {
	s.end += 100
	return store.PutResult{Status: store.PutOK, EndOffset: s.end}
}

func (*emptyStore) QueueEntries(string, int32, codec.QueueOffset, int) []store.QueueEntry { return nil }

func (*emptyStore) ReadRecord(codec.PhyOffset, []byte) ([]byte, error) { return nil, store.ErrNotFound }

func (*emptyStore) MinOffset(string, int32) codec.QueueOffset { return 0 }

func (*emptyStore) MaxOffset(string, int32) codec.QueueOffset { return 10 }

func (*emptyStore) CheckInMemory(string, int32, codec.QueueOffset) bool { return false }

func (s *emptyStore) MaxPhyOffset() codec.PhyOffset { return s.end }

// emptyService has no messages and is not started.
func emptyService(t *testing.T, follower func() bool) *Service {
	fsys, log := vfs.NewMem(), slog.New(slog.NewTextHandler(io.Discard, nil))
	require.NoError(t, fsys.MkdirAll("/config"))
	s := New(Options{Store: &emptyStore{}, FS: fsys, OrderFile: "/config/order", ProgressFile: progressPath,
		OffsetFile: offsetsPath, Clock: clock.System, Log: log, ReviveQueues: 2, BrokerName: "b", Cluster: "c",
		Offsets:   offset.New(offset.Options{FS: fsys, ConfigDir: "/config", Clock: clock.System, Log: log}),
		StoreHost: func() netip.AddrPort { return netip.AddrPort{} },
		Settings: func() Settings {
			return Settings{ReviveInterval: time.Second, MaxOpen: 100, PollingSize: 10, MaxPolling: 10}
		},
		Timed:       func(*codec.Message) (store.PutStatus, error) { return store.PutOK, nil },
		TimerIdle:   func() bool { return true },
		Follower:    follower,
		TopicQueues: func(string) int32 { return 1 },
		RetryLimit:  func(string) (int32, bool) { return 16, true },
		MakeTopic:   func(string) error { return nil },
		Stored:      func(*codec.Message, *store.PutResult) {}})
	require.NoError(t, s.Load())
	return s
}

// After a start the timer gives out what is overdue: a check point of the run before is not judged before its acks can
// have come.
func TestNothingIsJudgedBeforeTheTimerHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := emptyService(t, func() bool { return false })
		r := &s.revive
		r.begin()
		q, now := &r.queues[0], time.Now().UnixMilli()
		c := &reviving{ck: CheckPoint{Topic: "T", Group: "g", Num: 1, PopTime: now - 20_000, Invisible: 12_000}}
		q.endTime = now // of a record that is due much later
		r.judge(q, c, now, true)
		require.False(t, c.done)
		r.caughtUp = true
		r.judge(q, c, now, true)
		require.True(t, c.done)
		require.EqualValues(t, 1, c.acked, "returned")
		s.Close()
	})
}

// A broker that becomes a slave forgets what is open and sends away who waits; when it is the master again it takes the
// receipts of the master between, each once.
func TestRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var follows atomic.Bool
		s := emptyService(t, follows.Load)
		s.Start(false)
		receipt := func() *Receipt {
			return &Receipt{PopTime: time.Now().UnixMilli(), Invisible: 60_000, Broker: "b", Offset: 1}
		}
		ack := func(r *Receipt) error {
			_, err := s.Ack(r, "T", "g", 0, r.Offset)
			return err
		}
		require.ErrorIs(t, ack(receipt()), ErrSettled, "it was never given")
		q := s.queue("T", "g", 0)
		require.True(t, s.ledger.add(&open{queue: q, ck: CheckPoint{Topic: "T", Group: "g", Num: 1, Invisible: 1000}}))
		fired := make(chan bool, 1)
		require.True(t, s.polling.Park(&Waiter{Topic: "T", Group: "g", Deadline: time.Now().Add(time.Hour).UnixMilli(),
			Fire: func(expired bool) { fired <- expired }}))
		follows.Store(true)
		require.False(t, <-fired)
		require.Zero(t, s.Open())
		between := receipt()
		time.Sleep(time.Second)
		follows.Store(false)
		time.Sleep(time.Second)
		require.NoError(t, ack(between))
		require.ErrorIs(t, ack(between), ErrSettled)
		require.ErrorIs(t, ack(receipt()), ErrSettled)
		s.Close()
		require.NoError(t, s.Save())
		require.NoError(t, s.EndProgress(true))
	})
}
