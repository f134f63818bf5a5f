package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a server on an in-memory network; f answers a request, nil lets it wait for ever.
type peer struct {
	net *mem.Network
	eng *mem.Engine
	f   func(c *codec.Command) *codec.Command
}

func startPeer(t *testing.T, f func(c *codec.Command) *codec.Command) *peer {
	t.Helper()
	p := &peer{net: mem.NewNetwork(), f: f}
	p.eng = mem.NewOn(p.net, reactor.Options{Listen: []string{"127.0.0.1:0"}, Loops: 1})
	require.NoError(t, p.eng.Start(p))
	t.Cleanup(func() { _ = p.eng.Stop(context.Background()) })
	return p
}

func (p *peer) addr() string                    { return p.eng.Addrs()[0].String() }
func (p *peer) OnOpen(reactor.Conn) error       { return nil }
func (p *peer) OnClose(_ reactor.Conn, _ error) {}

func (p *peer) OnFrames(_ reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	for _, f := range frames {
		var c codec.Command
		if c.Decode(f) != nil {
			return
		}
		if answer := p.f(&c); answer != nil && !c.IsOneway() {
			out.SetBuffer(answer.AppendTo(out.Buffer()))
		}
	}
}

func ok(c *codec.Command) *codec.Command { return codec.NewResponse(c, codec.RespSuccess, "") }

// countingDialer counts dials and waits for gate, if there is one.
type countingDialer struct {
	net   *mem.Network
	gate  chan struct{}
	dials atomic.Int32
}

func (d *countingDialer) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	d.dials.Add(1)
	if d.gate != nil {
		select {
		case <-d.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return d.net.Dial(ctx, addr)
}

func TestCallsShareOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, func(c *codec.Command) *codec.Command {
			return codec.NewResponse(c, codec.RespSuccess, fmt.Sprint(c.Code))
		})
		d := &countingDialer{net: p.net, gate: make(chan struct{})}
		c := New(Options{Dialer: d})
		defer func() { require.NoError(t, c.Close()) }()
		var wg sync.WaitGroup
		for code := range 50 {
			wg.Go(func() {
				a, err := c.Do(t.Context(), p.addr(), codec.NewRequest(code))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(code), a.Remark)
			})
		}
		synctest.Wait()
		close(d.gate)
		wg.Wait()
		require.EqualValues(t, 1, d.dials.Load())
	})
}

// A caller in a hurry gives up alone: neither the dial nor the address suffers for it.
func TestDialGoesOnForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, ok)
		d := &countingDialer{net: p.net, gate: make(chan struct{})}
		c := New(Options{Dialer: d})
		defer func() { require.NoError(t, c.Close()) }()
		patient := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), p.addr(), codec.NewRequest(1))
			patient <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := c.Oneway(ctx, p.addr(), codec.NewRequest(2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 300*time.Millisecond, time.Since(start))
		close(d.gate)
		require.NoError(t, <-patient)
		require.NoError(t, c.Oneway(t.Context(), p.addr(), codec.NewRequest(2)))
		require.EqualValues(t, 1, d.dials.Load())
	})
}

// A connection on which nothing came while a call waited for its answer is given up: its link may be dead without a sign.
// The next call dials. One that brought anything is kept, and so is one whose caller was in a hurry or went away.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, func(c *codec.Command) *codec.Command {
			if c.Code == 1 { // not answered
				return nil
			}
			return ok(c)
		})
		var silent []string
		d := &countingDialer{net: p.net}
		c := New(Options{Dialer: d, CallTimeout: time.Second, Silent: func(addr string) { silent = append(silent, addr) }})
		defer func() { require.NoError(t, c.Close()) }()
		call := func(code int, limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := c.Do(ctx, p.addr(), codec.NewRequest(code))
			return err
		}
		require.ErrorIs(t, call(1, 50*time.Millisecond), ErrTimeout)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, p.addr(), codec.NewRequest(1))
			gone <- err
		}()
		time.Sleep(900 * time.Millisecond)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		go func() { gone <- call(1, time.Second) }()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, call(2, time.Second))
		require.ErrorIs(t, <-gone, ErrTimeout)
		require.EqualValues(t, 1, d.dials.Load(), "something came")
		require.Empty(t, silent)

		p.net.SetHook(func(netip.AddrPort, netip.AddrPort, int) mem.Fate { return mem.Fate{Lost: true} })
		go func() { gone <- call(2, time.Hour) }()
		require.ErrorIs(t, call(2, time.Second), ErrTimeout)
		require.ErrorIs(t, <-gone, ErrClosed, "who waits on the same connection")
		require.Equal(t, []string{p.addr()}, silent)
		p.net.SetHook(nil)
		require.NoError(t, call(2, time.Second))
		require.EqualValues(t, 2, d.dials.Load())
	})
}

func TestCloseEndsDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &countingDialer{net: mem.NewNetwork(), gate: make(chan struct{})}
		c := New(Options{Dialer: d, ConnectTimeout: time.Hour})
		failed := make(chan error, 1)
		go func() {
			_, err := c.Conn(t.Context(), "127.0.0.1:1")
			failed <- err
		}()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-failed, ErrClosed)
		require.Zero(t, time.Since(start))
		_, err := c.Conn(t.Context(), "127.0.0.1:1")
		require.ErrorIs(t, err, ErrClosed)
		c.Drop("127.0.0.1:1")
		require.NoError(t, c.Close(), "again")
	})
}

func TestRedialPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &countingDialer{net: mem.NewNetwork()}
		c := New(Options{Dialer: d})
		defer func() { require.NoError(t, c.Close()) }()
		for range 10 {
			_, err := c.Conn(t.Context(), "127.0.0.1:1")
			require.ErrorContains(t, err, "127.0.0.1:1")
		}
		require.EqualValues(t, 1, d.dials.Load())
		time.Sleep(redialPause)
		_, err := c.Conn(t.Context(), "127.0.0.1:1")
		require.Error(t, err)
		require.EqualValues(t, 2, d.dials.Load())
	})
}

func TestReconnectsAndDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, ok)
		d := &countingDialer{net: p.net}
		c := New(Options{Dialer: d})
		defer func() { require.NoError(t, c.Close()) }()
		first, err := c.Conn(t.Context(), p.addr())
		require.NoError(t, err)
		require.NoError(t, first.Close())
		second, err := c.Conn(t.Context(), p.addr())
		require.NoError(t, err)
		require.NotSame(t, first, second)
		c.Drop(p.addr())
		require.ErrorIs(t, second.Err(), ErrClosed)
		_, err = c.Conn(t.Context(), p.addr())
		require.NoError(t, err)
		require.EqualValues(t, 3, d.dials.Load())
	})
}

func TestDropWhileDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, ok)
		d := &countingDialer{net: p.net, gate: make(chan struct{})}
		c := New(Options{Dialer: d})
		got := make(chan *Conn, 1)
		go func() {
			conn, err := c.Conn(t.Context(), p.addr())
			require.NoError(t, err)
			got <- conn
		}()
		synctest.Wait()
		c.Drop(p.addr())
		close(d.gate)
		require.NoError(t, (<-got).Err(), "who waited gets a connection made after the drop")
		require.EqualValues(t, 2, d.dials.Load())
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Zero(t, p.eng.Connections(), "the one nobody wanted is closed")
	})
}

func TestForgetsAddressesWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, ok)
		c := New(Options{Dialer: &countingDialer{net: p.net}})
		defer func() { require.NoError(t, c.Close()) }()
		live, err := c.Conn(t.Context(), p.addr())
		require.NoError(t, err)
		for i := range 3 * maxIdleSlots {
			_, err := c.Conn(t.Context(), fmt.Sprintf("127.0.0.9:%d", i+1))
			require.Error(t, err)
		}
		require.LessOrEqual(t, len(c.slots), maxIdleSlots+1)
		again, err := c.Conn(t.Context(), p.addr())
		require.NoError(t, err)
		require.Same(t, live, again)
	})
}

func TestCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, func(*codec.Command) *codec.Command { return nil })
		conn, err := Dial(t.Context(), p.addr(), Options{Dialer: &countingDialer{net: p.net}})
		require.NoError(t, err)
		defer conn.Close()
		start := time.Now()
		_, err = conn.Call(t.Context(), codec.NewRequest(1))
		require.ErrorIs(t, err, ErrTimeout)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Zero(t, conn.Pending())
	})
}

// A peer that does not read cannot hold a caller for ever.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := mem.NewNetwork()
		ln, err := n.Listen("127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		conn, err := Dial(t.Context(), ln.Addr().String(), Options{Dialer: &countingDialer{net: n},
			WriteTimeout: 4 * time.Second})
		require.NoError(t, err)
		defer conn.Close()
		server, err := ln.Accept()
		require.NoError(t, err)
		defer server.Close()
		big := codec.NewRequest(1)
		big.Body = make([]byte, 8<<20)
		start := time.Now()
		err = conn.Oneway(big)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, 4*time.Second, time.Since(start))
		<-conn.Done()
	})
}

// done is called once or the error is returned, never both.
func TestGoOnADyingConnection(t *testing.T) {
	for range 200 {
		n := mem.NewNetwork()
		ln, err := n.Listen("127.0.0.1:0")
		require.NoError(t, err)
		conn, err := Dial(t.Context(), ln.Addr().String(), Options{Dialer: &countingDialer{net: n}})
		require.NoError(t, err)
		var wg sync.WaitGroup
		var outcomes atomic.Int32
		wg.Go(func() { _ = ln.Close() })
		for range 4 {
			wg.Add(1)
			go func() {
				_, err := conn.Go(codec.NewRequest(1), func(*codec.Command, error) { outcomes.Add(1); wg.Done() })
				if err != nil {
					outcomes.Add(1)
					wg.Done()
				}
			}()
		}
		wg.Go(func() { _ = conn.Close() })
		wg.Wait()
		require.EqualValues(t, 4, outcomes.Load())
	}
}

func TestHandlerServesThePeersRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := mem.NewNetwork()
		ln, err := n.Listen("127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		conn, err := Dial(t.Context(), ln.Addr().String(), Options{Dialer: &countingDialer{net: n},
			Handler: func(_ *Conn, req *codec.Command) *codec.Command {
				return codec.NewResponse(req, codec.RespSuccess, "served")
			}})
		require.NoError(t, err)
		defer conn.Close()
		server, err := ln.Accept()
		require.NoError(t, err)
		caller := NewConn(server, Options{})
		defer caller.Close()
		a, err := caller.Call(t.Context(), codec.NewRequest(codec.ReqNotifyConsumerIDsChanged))
		require.NoError(t, err)
		require.Equal(t, "served", a.Remark)
	})
}

func TestCheck(t *testing.T) {
	req := codec.NewRequest(codec.ReqGetRouteInfoByTopic)
	err := Check(req, codec.NewResponse(req, codec.RespTopicNotExist, "none"))
	var re *ResponseError
	require.True(t, errors.As(err, &re))
	require.Equal(t, codec.RespTopicNotExist, re.Code)
	require.ErrorContains(t, err, "GET_ROUTEINFO_BY_TOPIC")
	require.NoError(t, Check(req, ok(req)))
}
