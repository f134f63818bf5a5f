package handover

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

func (s *scene) handOver(to int64) (*codec.HandoverResponseHeader, error) {
	return s.service.HandOver(&codec.HandoverRequestHeader{To: to, WaitMillis: 5000})
}

// Producers that send all the time notice nothing: every send is answered with success, within the time that holds it up,
// and in the order of each.
func TestNoSendFails(t *testing.T) {
	run(t, func(s *scene) {
		s.electDelay = 120 * time.Millisecond
		s.copyLater(3 * time.Millisecond)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		var longest time.Duration
		seen := map[string]int{}
		for i := range 5 {
			c := s.newClient()
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					began := time.Now()
					answer, err := s.send(c, fmt.Sprintf("%d-%d", i, n))
					require.NoError(t, err)
					require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
					mu.Lock()
					longest = max(longest, time.Since(began))
					var who, what string
					_, err = fmt.Sscan(string(answer.Body), &who, &what)
					require.NoError(t, err)
					require.Equal(t, fmt.Sprintf("%d-%d", i, n), what)
					seen[who]++
					mu.Unlock()
				}
			})
		}
		pass(50 * time.Millisecond)
		answer, err := s.handOver(-1)
		require.NoError(t, err)
		require.EqualValues(t, 2, answer.MasterBrokerID)
		require.Equal(t, replicaAddr, answer.MasterAddress)
		require.EqualValues(t, 6, answer.MasterEpoch)
		require.EqualValues(t, 5, answer.HeldRequests, "each producer waits with one")
		require.EqualValues(t, 2, s.prepared.Load(), "before and while requests are held")
		pass(50 * time.Millisecond)
		close(stop)
		wg.Wait()
		require.Less(t, longest, 200*time.Millisecond)
		require.Positive(t, seen["master"])
		require.Greater(t, seen["replica"], 100)
		require.False(t, s.paused.Load(), "the log takes the new master's bytes")
		require.Zero(t, s.gate.Stats().Refused)
	})
}

// What goes wrong before the controllers have decided leaves everything as it was.
func TestTakenBack(t *testing.T) {
	f := func(want error, to int64, prepare func(s *scene)) {
		t.Helper()
		run(t, func(s *scene) {
			c := s.newClient()
			prepare(s)
			ch := make(chan *codec.Command, 1)
			go func() {
				pass(100 * time.Millisecond) // while the hand-over is under way
				answer, err := s.send(c, "x")
				require.NoError(t, err)
				ch <- answer
			}()
			_, err := s.handOver(to)
			require.ErrorIs(t, err, want)
			answer := <-ch
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			require.Equal(t, "master x", string(answer.Body))
			require.False(t, s.paused.Load())
			require.False(t, s.gate.On())
		})
	}
	f(ErrReplica, -1, func(s *scene) { s.end.Store(100) })           // stays 100 bytes behind
	f(ErrReplica, -1, func(s *scene) { s.end.Store(nearBytes + 1) }) // far behind
	f(ErrReplica, -1, func(s *scene) { s.inSync = []int64{1} })      // nobody there
	f(ErrReplica, 7, func(s *scene) {})                              // not the wanted one
	f(ErrNotMaster, -1, func(s *scene) { s.elected = 2 })            // not by the controllers
	f(ErrController, -1, func(s *scene) { s.elect = func(int64) int { return codec.RespControllerElectMasterFailed } })
	f(ErrController, -1, func(s *scene) { s.lose = 1 }) // the question got lost: it asks again, for itself
	f(ErrController, -1, func(s *scene) { s.lose = 2 })
}

// The controllers have elected the replica, and their answer got lost: the role moves all the same.
func TestAnswerLost(t *testing.T) {
	run(t, func(s *scene) {
		c := s.newClient()
		s.drop = 1
		_, err := s.send(c, "before")
		require.NoError(t, err)
		s.copied.Store(1)
		answer, err := s.handOver(2)
		require.NoError(t, err)
		require.EqualValues(t, 2, answer.MasterBrokerID)
		got, err := s.send(c, "after")
		require.NoError(t, err)
		require.Equal(t, "replica after", string(got.Body))
	})
}

func TestNothingToHandOver(t *testing.T) {
	run(t, func(s *scene) {
		s.master.Store(false)
		_, err := s.handOver(-1)
		require.ErrorIs(t, err, ErrNotMaster)
		s.service.o.Controllers = func() []string { return nil }
		_, err = s.handOver(-1)
		require.ErrorIs(t, err, ErrNoController)
		require.True(t, s.service.mu.TryLock())
		_, err = s.handOver(-1)
		require.ErrorIs(t, err, ErrBusy)
		s.service.mu.Unlock()
	})
}

// The new master takes long: what is held too long is refused, so that clients try again before they give up.
func TestHeldTooLong(t *testing.T) {
	run(t, func(s *scene) {
		s.electDelay = 2500 * time.Millisecond
		c := s.newClient()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := s.handOver(-1)
			require.NoError(t, err)
		}()
		pass(100 * time.Millisecond)
		synctest.Wait()
		began := time.Now()
		answer, err := s.send(c, "x")
		require.NoError(t, err)
		require.Equal(t, codec.RespSystemBusy, answer.Code)
		require.Contains(t, answer.Remark, "[HANDOVER]")
		require.InDelta(t, 2000, time.Since(began).Milliseconds(), 60)
		answer, err = s.send(c, "again")
		require.NoError(t, err)
		require.Equal(t, "replica again", string(answer.Body))
		<-done
	})
}

// Forwarding ends with its time, and at once when the role comes back; what nobody has to forward stays here.
func TestForwarding(t *testing.T) {
	run(t, func(s *scene) {
		c := s.newClient()
		call := func(code int) string {
			req := codec.NewRequest(code)
			answer, err := c.Call(context.Background(), masterAddr, req)
			require.NoError(t, err)
			return string(answer.Body) + answer.Remark
		}
		_, err := s.handOver(-1)
		require.NoError(t, err)
		require.Equal(t, "replica ", call(codec.ReqPullMessage))
		require.Equal(t, "master ", call(codec.ReqHeartBeat))
		require.NoError(t, c.Oneway(context.Background(), masterAddr, codec.NewRequest(codec.ReqEndTransaction)))
		pass(time.Minute)
		require.Equal(t, "slave", call(codec.ReqSendMessage), "the time is over")
		require.Equal(t, replicaAddr, func() string { s.gate.Forward(replicaAddr, time.Minute); return s.gate.Target() }())
		require.Equal(t, "replica ", call(codec.ReqSendMessage))
		s.master.Store(true)
		require.Equal(t, "master ", call(codec.ReqSendMessage), "the role is back")
		require.Empty(t, s.gate.Target())
	})
}

// A new master that dies answers nothing: clients are told to try again.
func TestNewMasterDies(t *testing.T) {
	run(t, func(s *scene) {
		c := s.newClient()
		_, err := s.handOver(-1)
		require.NoError(t, err)
		answer, err := s.send(c, "x")
		require.NoError(t, err)
		require.Equal(t, "replica x", string(answer.Body))
		s.ends[1]()
		s.ends[1] = func() {}
		answer, err = s.send(c, "y")
		require.NoError(t, err)
		require.Equal(t, codec.RespSystemBusy, answer.Code)
	})
}
