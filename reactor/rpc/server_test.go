package rpc

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/reactor"
)

// loopProc serves on the loop unless the body says "wait".
type loopProc struct{ onLoop, inPool atomic.Int32 }

func (p *loopProc) ProcessOnLoop(r *Request) bool {
	if string(r.Cmd.Body) == "wait" {
		return false
	}
	p.onLoop.Add(1)
	r.OK()
	return true
}

func (p *loopProc) Process(r *Request) {
	p.inPool.Add(1)
	r.ReplyBody(r.Cmd.Body)
}

func TestTurnServesOnLoopAndQueuesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		p := &loopProc{}
		s.Register(Route{Code: codeLoop, Processor: p, OnLoop: true, Pool: s.NewPool(PoolOptions{Name: "a", Capacity: 10})})
		c := newConn()
		waiting := request(codeLoop, 2)
		waiting.Body = []byte("wait")
		out := turn(t, s, c, request(codeLoop, 1), waiting, request(codeLoop, 3))
		require.Equal(t, []int32{1, 3}, opaques(out), "answers of the loop leave with the turn")
		synctest.Wait()
		sent, _ := c.take()
		require.Equal(t, []int32{2}, opaques(sent))
		require.Equal(t, "wait", string(sent[0].Body), "the pool has a copy of the frame")
		require.EqualValues(t, 2, p.onLoop.Load())
		require.EqualValues(t, 1, p.inPool.Load())
	})
}

// What came in one read for one pool is served by one worker, and the answers leave in one write.
func TestTurnIsOneUnitPerPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		var finished atomic.Int32
		proc := ProcessorFunc(func(r *Request) {
			if r.Turn().State == nil {
				r.Turn().State = &finished
				r.Turn().AddFinisher(finisherFunc(func(*Turn) { finished.Add(1) }))
			}
			require.False(t, r.OnLoop())
			r.OK()
		})
		s.Register(Route{Code: codePool, Processor: proc, Pool: s.NewPool(PoolOptions{Name: "a", Workers: 4, Capacity: 10})})
		s.Register(Route{Code: codeOther, Processor: echo, Pool: s.NewPool(PoolOptions{Name: "b", Workers: 4, Capacity: 10})})
		c := newConn()
		out := turn(t, s, c, request(codePool, 1), request(codeOther, 2), request(codePool, 3), request(codePool, 4))
		require.Empty(t, out)
		synctest.Wait()
		sent, writes := c.take()
		require.ElementsMatch(t, []int32{1, 2, 3, 4}, opaques(sent))
		require.Equal(t, 2, writes, "one write a pool")
		require.EqualValues(t, 1, finished.Load(), "one turn in the pool")
	})
}

type finisherFunc func(*Turn)

func (f finisherFunc) FinishTurn(t *Turn) { f(t) }

func TestUnknownCode(t *testing.T) {
	s := newServer()
	out := turn(t, s, newConn(), request(4711, 7))
	require.Len(t, out, 1)
	require.Equal(t, codec.RespRequestCodeNotSupported, out[0].Code)
	require.Equal(t, " request type 4711 not supported", out[0].Remark)

	oneway := request(4711, 8)
	oneway.Flag = codec.FlagOneway
	require.Empty(t, turn(t, s, newConn(), oneway), "a oneway request gets no answer, not even this")
}

func TestDefaultProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		s.RegisterDefault(echo, s.NewPool(PoolOptions{Name: "admin", Capacity: 10}))
		c := newConn()
		require.Empty(t, turn(t, s, c, request(4711, 7)))
		synctest.Wait()
		sent, _ := c.take()
		require.Equal(t, []int32{7}, opaques(sent))
		require.Zero(t, sent[0].Code)
	})
}

func TestMalformedHeaderClosesAfterWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		s.Register(Route{Code: codePool, Processor: echo, Pool: s.NewPool(PoolOptions{Name: "a", Capacity: 10})})
		c := newConn()
		var buf []byte
		buf = request(codePool, 1).AppendTo(buf)
		f, _, _, err := codec.SplitFrame(buf, codec.MaxFrameBytes)
		require.NoError(t, err)
		bad := codec.Frame{Header: []byte(`{"code":`)}
		var out reactor.Outbox
		s.OnFrames(c, []codec.Frame{f, bad, f}, &out)
		require.ErrorIs(t, c.closedWith(), codec.ErrMalformed)
		synctest.Wait()
		sent, _ := c.take()
		require.Equal(t, []int32{1}, opaques(sent), "nothing that follows a bad header is served")
	})
}

func TestAuthenticatorAndReject(t *testing.T) {
	s := newServer()
	p := &loopProc{}
	s.Register(Route{Code: codeLoop, Processor: p, OnLoop: true,
		Reject: func(r *Request) string {
			if r.Cmd.Opaque == 2 {
				return RejectRequestRemark
			}
			return ""
		}})
	s.SetAuthenticator(func(r *Request) *codec.Command {
		if r.Cmd.Opaque == 1 {
			return codec.NewResponse(r.Cmd, codec.RespNoPermission, "who are you?")
		}
		return nil
	})
	out := turn(t, s, newConn(), request(codeLoop, 1), request(codeLoop, 2), request(codeLoop, 3))
	require.Equal(t, codec.RespNoPermission, out[0].Code)
	require.Equal(t, codec.RespSystemBusy, out[1].Code)
	require.Equal(t, RejectRequestRemark, out[1].Remark)
	require.Zero(t, out[2].Code)
	require.EqualValues(t, 1, p.onLoop.Load())

	waiting := request(codeLoop, 4)
	waiting.Body = []byte("wait")
	out = turn(t, s, newConn(), waiting)
	require.Equal(t, codec.RespSystemBusy, out[0].Code, "not servable on the loop and there is no pool")
}

func TestPanicIsAnsweredAndDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		faulty := &faultyProc{}
		s.Register(Route{Code: codeLoop, Processor: faulty, OnLoop: true})
		s.Register(Route{Code: codePool, Processor: faulty, Pool: s.NewPool(PoolOptions{Name: "a", Capacity: 10})})
		c := newConn()
		out := turn(t, s, c, request(codeLoop, 1), request(codeLoop, 2), request(codeLoop, 3),
			request(codePool, 1), request(codePool, 2), request(codePool, 3))
		synctest.Wait()
		sent, _ := c.take()
		for _, got := range [][]*codec.Command{out, sent} {
			require.Equal(t, []int32{1, 2, 3}, opaques(got), "one answer each")
			require.Zero(t, got[0].Code)
			require.Equal(t, codec.RespSystemError, got[1].Code)
			require.Contains(t, got[1].Remark, "on purpose")
			require.Zero(t, got[2].Code, "had answered before it failed")
		}
		require.NoError(t, c.closedWith())
	})
}

// faultyProc fails at opaque 2, and at 3 after its answer.
type faultyProc struct{}

func (faultyProc) ProcessOnLoop(r *Request) bool { faultyProc{}.Process(r); return true }

func (faultyProc) Process(r *Request) {
	if r.Cmd.Opaque == 2 {
		panic("on purpose")
	}
	r.OK()
	if r.Cmd.Opaque == 3 {
		panic("after its answer")
	}
}

func TestPanicOfAuthenticator(t *testing.T) {
	s := newServer()
	s.Register(Route{Code: codeLoop, Processor: &loopProc{}, OnLoop: true})
	s.SetAuthenticator(func(r *Request) *codec.Command { panic("no such user table") })
	out := turn(t, s, newConn(), request(codeLoop, 1))
	require.Equal(t, codec.RespSystemError, out[0].Code, "a request that could not be judged is not served")
}

func TestPanicOfFinisherClosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		second := false
		s.Register(Route{Code: codePool, Pool: s.NewPool(PoolOptions{Name: "a", Capacity: 10}),
			Processor: ProcessorFunc(func(r *Request) {
				r.Turn().AddFinisher(finisherFunc(func(*Turn) { panic("on purpose") }))
				r.Turn().AddFinisher(finisherFunc(func(*Turn) { second = true }))
				r.OK()
			})})
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		synctest.Wait()
		require.ErrorIs(t, c.closedWith(), reactor.ErrPanic)
		require.True(t, second, "the other finishers are called all the same")
		sent, _ := c.take()
		require.Len(t, sent, 1, "what was answered leaves")

		good := newConn()
		turn(t, s, good, request(codePool, 1))
		synctest.Wait()
		sent, _ = good.take()
		require.Len(t, sent, 1, "the worker lives on")
	})
}

func TestDrainSendsNewClientsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		g := newGate()
		s.Register(Route{Code: codePool, Processor: g, Pool: s.NewPool(PoolOptions{Name: "a", Capacity: 10})})
		c := newConn()
		turn(t, s, c, request(codePool, 1))
		done := make(chan bool)
		go func() { done <- s.Drain(time.Minute) }()
		<-g.enter
		synctest.Wait()
		out := turn(t, s, c, request(codePool, 2))
		require.Equal(t, codec.RespGoAway, out[0].Code)
		old := request(codePool, 3)
		old.Version = codec.Version531
		require.Empty(t, turn(t, s, c, old), "clients that do not know GO_AWAY are served")
		close(g.leave)
		require.True(t, <-done)
	})
}

func TestDrainGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		g := newGate()
		s.Register(Route{Code: codePool, Processor: g, Pool: s.NewPool(PoolOptions{Name: "a", Capacity: 10})})
		turn(t, s, newConn(), request(codePool, 1))
		start := time.Now()
		require.False(t, s.Drain(3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(start))
		close(g.leave)
		s.Close()
		require.True(t, s.Drain(0), "nothing is left")
	})
}

func TestListener(t *testing.T) {
	s := newServer()
	refusal := errors.New("go")
	var closed error
	s.SetListener(ConnListener{
		Opened: func(c reactor.Conn) error { return refusal },
		Closed: func(c reactor.Conn, reason error) { closed = reason },
	})
	c := newConn()
	require.ErrorIs(t, s.OnOpen(c), refusal)
	s.OnClose(c, reactor.ErrIdle)
	require.ErrorIs(t, closed, reactor.ErrIdle)
}

func TestRegisterTwiceIsABug(t *testing.T) {
	s := NewServer(clock.System, silent)
	s.Register(Route{Code: codeLoop, Processor: &loopProc{}, OnLoop: true})
	require.Panics(t, func() { s.Register(Route{Code: codeLoop, Processor: &loopProc{}, OnLoop: true}) })
	require.Panics(t, func() { s.Register(Route{Code: codePool, Processor: echo}) }, "neither pool nor loop")
	require.Equal(t, []int{codeLoop}, s.Codes())
}

func TestDecodeNamesTheField(t *testing.T) {
	s := newServer()
	s.Register(Route{Code: codeLoop, OnLoop: true, Processor: onLoopFunc(func(r *Request) {
		var h codec.UnregisterBrokerRequestHeader
		if r.Decode(&h, codec.RespInvalidParameter) {
			r.OK()
		}
	})})
	req := request(codeLoop, 1)
	codec.EncodeHeader(req, &codec.UnregisterBrokerRequestHeader{BrokerName: "b", BrokerAddr: "a", ClusterName: "c"})
	bad := request(codeLoop, 2)
	codec.EncodeHeader(bad, &codec.UnregisterBrokerRequestHeader{BrokerName: "b", BrokerAddr: "a", ClusterName: "c"})
	bad.Set("brokerId", "12x")
	out := turn(t, s, newConn(), req, bad, request(codeLoop, 3))
	require.Zero(t, out[0].Code)
	require.Equal(t, codec.RespInvalidParameter, out[1].Code)
	require.Contains(t, out[1].Remark, `"brokerId"`)
	require.Contains(t, out[2].Remark, `"brokerName"`)
}

type onLoopFunc func(r *Request)

func (f onLoopFunc) ProcessOnLoop(r *Request) bool { f(r); return true }
func (f onLoopFunc) Process(r *Request)            { f(r) }
