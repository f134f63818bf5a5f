package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
)

// outcome collects how a call ended, and that it ended once.
type outcome struct{ ch chan error }

func newOutcome() *outcome { return &outcome{ch: make(chan error, 4)} }

func (o *outcome) done(_ *codec.Command, err error) { o.ch <- err }

func (o *outcome) once(t *testing.T) error {
	t.Helper()
	err := <-o.ch
	require.Empty(t, o.ch, "done was called twice")
	return err
}

func answerTo(req *codec.Command, remark string) *codec.Command {
	return codec.NewResponse(req, codec.RespSuccess, remark)
}

func TestCallAndAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		c := newConn()
		got := make(chan *codec.Command, 1)
		go func() {
			a, err := s.Call(t.Context(), c, codec.NewRequest(codec.ReqNotifyConsumerIDsChanged), time.Second)
			require.NoError(t, err)
			got <- a
		}()
		synctest.Wait()
		sent, _ := c.take()
		require.Len(t, sent, 1)
		require.False(t, sent[0].IsResponse())

		other := newConn()
		turn(t, s, other, answerTo(sent[0], "of another connection"))
		stranger := answerTo(sent[0], "nobody asked")
		stranger.Opaque += 1000
		turn(t, s, c, stranger)
		turn(t, s, c, answerTo(sent[0], "mine"))
		require.Equal(t, "mine", (<-got).Remark)
		turn(t, s, c, answerTo(sent[0], "again")) // ignored
	})
}

func TestCallTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		c := newConn()
		o := newOutcome()
		start := time.Now()
		s.CallAsync(c, codec.NewRequest(codec.ReqCheckTransactionState), 3*time.Second, o.done)
		err := o.once(t)
		require.ErrorIs(t, err, ErrCallTimeout)
		require.Equal(t, 3*time.Second, time.Since(start))
		sent, _ := c.take()
		turn(t, s, c, answerTo(sent[0], "too late"))
		synctest.Wait()
		require.Empty(t, o.ch)
		require.Zero(t, s.calls.count)
		require.Empty(t, s.calls.waiting)
	})
}

func TestCallEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Call(ctx, newConn(), codec.NewRequest(codec.ReqCheckTransactionState), time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestClosedConnectionFailsItsCallsOnly(t *testing.T) {
	s := newServer()
	a, b := newConn(), newConn()
	ofA, alsoOfA, ofB := newOutcome(), newOutcome(), newOutcome()
	s.CallAsync(a, codec.NewRequest(1), time.Minute, ofA.done)
	s.CallAsync(a, codec.NewRequest(1), time.Minute, alsoOfA.done)
	s.CallAsync(b, codec.NewRequest(1), time.Minute, ofB.done)
	s.OnClose(a, nil)
	require.ErrorIs(t, ofA.once(t), reactor.ErrClosed)
	require.ErrorIs(t, alsoOfA.once(t), reactor.ErrClosed)
	require.Empty(t, ofB.ch)
	require.Equal(t, 1, s.calls.count)
	s.Close()
	require.ErrorIs(t, ofB.once(t), ErrServerClosed)
	late := newOutcome()
	s.CallAsync(b, codec.NewRequest(1), time.Minute, late.done)
	require.ErrorIs(t, late.once(t), ErrServerClosed)
	s.OnClose(b, nil)
}

func TestCallThatCannotBeSent(t *testing.T) {
	s := newServer()
	defer s.Close()
	c := newConn()
	c.broken = true
	o := newOutcome()
	s.CallAsync(c, codec.NewRequest(1), time.Minute, o.done)
	require.ErrorIs(t, o.once(t), reactor.ErrClosed)
	require.Error(t, s.Oneway(c, codec.NewRequest(1)))
	require.Zero(t, s.calls.count)
}

func TestTooManyCalls(t *testing.T) {
	s := newServer()
	c := newConn()
	n := 0
	for range MaxPendingCalls {
		s.CallAsync(c, codec.NewRequest(1), time.Hour, func(*codec.Command, error) { n++ })
	}
	c.take()
	o := newOutcome()
	s.CallAsync(c, codec.NewRequest(1), time.Hour, o.done)
	require.ErrorIs(t, o.once(t), ErrTooManyCalls)
	s.Close()
	require.Equal(t, MaxPendingCalls, n)
}

func TestOneway(t *testing.T) {
	s := newServer()
	defer s.Close()
	c := newConn()
	require.NoError(t, s.Oneway(c, codec.NewRequest(codec.ReqNotifyConsumerIDsChanged)))
	sent, _ := c.take()
	require.True(t, sent[0].IsOneway())
	require.False(t, sent[0].IsResponse())
}

func TestDeferredAnswer(t *testing.T) {
	s := newServer()
	var d, oneway Deferred
	s.Register(Route{Code: codeLoop, OnLoop: true, Processor: onLoopFunc(func(r *Request) {
		if r.Cmd.IsOneway() {
			oneway = r.Defer()
		} else {
			d = r.Defer()
		}
	})})
	c := newConn()
	req := request(codeLoop, 42)
	req.Type = codec.SerializeROCKETMQ
	silentReq := request(codeLoop, 43)
	silentReq.Flag = codec.FlagOneway
	require.Empty(t, turn(t, s, c, req, silentReq))
	require.NoError(t, d.Reply(d.Response(codec.RespPullNotFound, "nothing")))
	require.NoError(t, oneway.Reply(oneway.Response(0, "")))
	sent, writes := c.take()
	require.Equal(t, 1, writes)
	require.Equal(t, int32(42), sent[0].Opaque)
	require.Equal(t, codec.RespPullNotFound, sent[0].Code)
	require.Equal(t, codec.SerializeROCKETMQ, sent[0].Type, "in the encoding of the request")
}
