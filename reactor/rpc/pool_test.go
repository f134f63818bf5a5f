package rpc

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/latency"
)

// gated makes a server with one pool whose workers wait at a gate.
func gated(t *testing.T, o PoolOptions) (*Server, *Pool, *gate) {
	t.Helper()
	s := newServer()
	g := newGate()
	p := s.NewPool(o)
	s.Register(Route{Code: codePool, Processor: g, Pool: p})
	return s, p, g
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, g := gated(t, PoolOptions{Name: "a", Workers: 1, Capacity: 3})
		defer s.Close()
		defer close(g.leave)
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		require.EqualValues(t, 1, <-g.enter)
		turn(t, s, c, request(codePool, 2))
		oneway := request(codePool, 9)
		oneway.Flag = codec.FlagOneway
		turn(t, s, c, request(codePool, 3), request(codePool, 4), request(codePool, 5), oneway)
		sent, _ := c.take()
		require.Equal(t, []int32{5}, opaques(sent), "what fits is queued, the rest refused, a oneway request in silence")
		require.Equal(t, codec.RespSystemBusy, sent[0].Code)
		require.Equal(t, "[OVERLOAD]system busy, start flow control for a while", sent[0].Remark)
		require.Equal(t, 3, p.Size())
		turn(t, s, c, request(codePool, 6))
		sent, _ = c.take()
		require.Equal(t, []int32{6}, opaques(sent))
	})
}

func TestOverloadInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, g := gated(t, PoolOptions{Name: "a", Workers: 1, Capacity: 100, MaxBytes: 10_000})
		defer s.Close()
		c := newConn()
		big := func(opaque int32) *codec.Command {
			r := request(codePool, opaque)
			r.Body = make([]byte, 4000)
			return r
		}
		turn(t, s, c, request(codePool, 1))
		<-g.enter
		huge := request(codePool, 2)
		huge.Body = make([]byte, 1<<20)
		turn(t, s, c, huge)
		sent, _ := c.take()
		require.Empty(t, sent, "an empty queue takes any frame")
		turn(t, s, c, big(3))
		sent, _ = c.take()
		require.Equal(t, []int32{3}, opaques(sent))
		g.leave <- struct{}{}
		require.EqualValues(t, 2, <-g.enter)
		turn(t, s, c, big(4), big(5), big(6))
		synctest.Wait()
		sent, _ = c.take()
		require.Equal(t, []int32{1, 6}, opaques(sent), "1 is served; 6 does not fit")
		close(g.leave)
		synctest.Wait()
		sent, _ = c.take()
		require.ElementsMatch(t, []int32{2, 4, 5}, opaques(sent))
		turn(t, s, c, big(7), big(8))
		synctest.Wait()
		sent, _ = c.take()
		require.Equal(t, []int32{7, 8}, opaques(sent), "the count goes down with the queue")
	})
}

func TestTimeoutInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, g := gated(t, PoolOptions{Name: "send", Workers: 2, Capacity: 10, MaxWait: 200 * time.Millisecond})
		defer s.Close()
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		turn(t, s, c, request(codePool, 2))
		<-g.enter
		<-g.enter
		turn(t, s, c, request(codePool, 3), request(codePool, 4))
		time.Sleep(150 * time.Millisecond)
		turn(t, s, c, request(codePool, 5))
		require.Equal(t, 150*time.Millisecond, p.HeadWait())
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		sent, _ := c.take()
		require.Equal(t, []int32{3, 4}, opaques(sent))
		require.Equal(t, codec.RespSystemBusy, sent[0].Code)
		require.True(t, strings.HasPrefix(sent[0].Remark, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a "+
			"while, period in queue: 200ms, size of queue: 3"), sent[0].Remark)
		require.Contains(t, sent[0].Remark, "pool send: 2 of 2 workers busy, the longest for 200ms with request 11")
		require.Equal(t, 1, p.Size())
		close(g.leave)
		synctest.Wait()
		sent, _ = c.take()
		require.ElementsMatch(t, []int32{1, 2, 5}, opaques(sent))
		for _, a := range sent {
			require.Zero(t, a.Code)
		}
	})
}

// The refusal says in which stage the workers hang.
func TestTimeoutNamesTheStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.SetLatency(latency.NewRecorder(clock.System, 0))
		p := s.NewPool(PoolOptions{Name: "pull", Workers: 1, Capacity: 10, MaxWait: 200 * time.Millisecond})
		defer s.Close()
		s.Register(Route{Code: codePool, Pool: p, Class: latency.Pull, Processor: ProcessorFunc(func(r *Request) {
			r.Turn().Span().Enter(latency.Read)
			time.Sleep(time.Second)
			r.OK()
		})})
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		synctest.Wait()
		turn(t, s, c, request(codePool, 2))
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		sent, _ := c.take()
		require.Equal(t, []int32{2}, opaques(sent))
		require.Contains(t, sent[0].Remark, "with request 11 (read)")
	})
}

// Requests behind a slow one of their own turn are judged by the same limit.
func TestTimeoutBehindASlowRequestOfTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, g := gated(t, PoolOptions{Name: "send", Workers: 1, Capacity: 10, MaxWait: 200 * time.Millisecond})
		defer s.Close()
		c := newConn()
		turn(t, s, c, request(codePool, 1), request(codePool, 2), request(codePool, 3))
		<-g.enter
		time.Sleep(time.Second)
		g.leave <- struct{}{}
		synctest.Wait()
		sent, _ := c.take()
		require.ElementsMatch(t, []int32{1, 2, 3}, opaques(sent))
		for _, a := range sent {
			if a.Opaque == 1 {
				require.Zero(t, a.Code)
				continue
			}
			require.Equal(t, codec.RespSystemBusy, a.Code)
			require.Contains(t, a.Remark, "period in queue: 1000ms")
		}
	})
}

func TestNoLimitMeansForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, g := gated(t, PoolOptions{Name: "a", Workers: 1, Capacity: 10})
		defer s.Close()
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		turn(t, s, c, request(codePool, 2))
		time.Sleep(time.Hour)
		close(g.leave)
		synctest.Wait()
		sent, _ := c.take()
		require.Equal(t, []int32{1, 2}, opaques(sent))
	})
}

// Workers are started one by one as work waits, up to the limit, and idle ones are woken before new ones start.
func TestWorkersWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, g := gated(t, PoolOptions{Name: "a", Workers: 3, Capacity: 100})
		defer s.Close()
		c := newConn()
		for round := range 50 {
			for i := range 3 {
				turn(t, s, c, request(codePool, int32(i)))
			}
			got := []int32{<-g.enter, <-g.enter, <-g.enter} // hangs when a wake-up is lost
			require.ElementsMatch(t, []int32{0, 1, 2}, got)
			turn(t, s, c, request(codePool, 3)) // waits for one of them
			for range 3 {
				g.leave <- struct{}{}
			}
			require.EqualValues(t, 3, <-g.enter)
			g.leave <- struct{}{}
			if round%2 == 0 {
				synctest.Wait() // all idle
			}
		}
		p.mu.Lock()
		require.Equal(t, 3, p.started)
		p.mu.Unlock()
	})
}

func TestEagerPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, g := gated(t, PoolOptions{Name: "a", Workers: 2, Capacity: 1, Eager: true})
		defer s.Close()
		defer close(g.leave)
		synctest.Wait()
		p.mu.Lock()
		require.Equal(t, 2, p.idle)
		p.mu.Unlock()
		turn(t, s, newConn(), request(codePool, 1))
		require.EqualValues(t, 1, <-g.enter)
	})
}

func TestRefuseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, g := gated(t, PoolOptions{Name: "a", Workers: 1, Capacity: 10})
		defer s.Close()
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		<-g.enter
		turn(t, s, c, request(codePool, 2))
		time.Sleep(time.Second)
		turn(t, s, c, request(codePool, 3), request(codePool, 4))
		p.RefuseAll(func(waited time.Duration, size int) string {
			return fmt.Sprintf("[PCBUSY_CLEAN_QUEUE] %v of %d", waited, size)
		})
		sent, _ := c.take()
		require.Equal(t, []int32{2, 3, 4}, opaques(sent))
		require.Equal(t, codec.RespSystemBusy, sent[0].Code)
		require.Equal(t, "[PCBUSY_CLEAN_QUEUE] 1s of 3", sent[0].Remark)
		require.Equal(t, "[PCBUSY_CLEAN_QUEUE] 0s of 3", sent[1].Remark)
		require.Zero(t, p.Size())
		close(g.leave)
		synctest.Wait()
		sent, _ = c.take()
		require.Equal(t, []int32{1}, opaques(sent), "what is being served is not refused")
	})
}

func TestCloseServesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, g := gated(t, PoolOptions{Name: "a", Workers: 1, Capacity: 10})
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		turn(t, s, c, request(codePool, 2))
		<-g.enter
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		turn(t, s, c, request(codePool, 3))
		sent, _ := c.take()
		require.Equal(t, []int32{3}, opaques(sent), "a closed pool takes nothing")
		require.Contains(t, sent[0].Remark, "[OVERLOAD]")
		close(g.leave)
		<-closed
		sent, _ = c.take()
		require.Equal(t, []int32{1, 2}, opaques(sent))
	})
}

// No request is lost or answered twice, however turns, workers and limits meet.
func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	s := newServer()
	var served atomic.Int32
	s.Register(Route{Code: codePool, Processor: ProcessorFunc(func(r *Request) { served.Add(1); r.OK() }),
		Pool: s.NewPool(PoolOptions{Name: "a", Workers: 3, Capacity: 16, MaxWait: time.Second})})
	const conns, turns, perTurn = 8, 200, 5
	var wg sync.WaitGroup
	answers := make([][]int32, conns)
	for i := range conns {
		c := newConn()
		wg.Go(func() {
			for n := range turns {
				var cmds []*codec.Command
				for k := range perTurn {
					cmds = append(cmds, request(codePool, int32(n*perTurn+k)))
				}
				turn(t, s, c, cmds...)
			}
			for len(answers[i]) < turns*perTurn {
				runtime.Gosched()
				sent, _ := c.take()
				answers[i] = append(answers[i], opaques(sent)...)
			}
		})
	}
	wg.Wait()
	s.Close()
	for i := range conns {
		seen := map[int32]bool{}
		for _, o := range answers[i] {
			require.False(t, seen[o])
			seen[o] = true
		}
		require.Len(t, seen, turns*perTurn)
	}
	require.Positive(t, served.Load())
}
