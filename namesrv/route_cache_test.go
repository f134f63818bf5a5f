package namesrv

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
	"skylark/reactor"
)

// loneConn is a connection that nothing is written to.
type loneConn struct{ context any }

func (c *loneConn) ID() uint64                       { return 1 << 40 }
func (c *loneConn) RemoteAddr() netip.AddrPort       { return netip.AddrPort{} }
func (c *loneConn) LocalAddr() netip.AddrPort        { return netip.AddrPort{} }
func (c *loneConn) Send([]byte) error                { return nil }
func (c *loneConn) SendOutbox(*reactor.Outbox) error { return nil }
func (c *loneConn) PendingBytes() int                { return 0 }
func (c *loneConn) Close(error)                      {}
func (c *loneConn) Context() any                     { return c.context }
func (c *loneConn) SetContext(v any)                 { c.context = v }

// registered makes tables with these topics on some brokers.
func registered(brokers, topics int) *script {
	s := newScript()
	for b := range brokers {
		name, addr := fmt.Sprintf("broker-%d", b), fmt.Sprintf("10.0.0.%d:10911", b)
		r := &Registration{BrokerIdentity: identity("C", name, addr, 0), Topics: map[string]*body.TopicConfig{},
			Conn: uint64(b)}
		for i := range topics {
			c := &body.TopicConfig{TopicName: fmt.Sprintf("topic-%d", i)}
			c.SetDefaults()
			r.Topics[c.TopicName] = c
		}
		s.m.Register(r, s.now)
	}
	return s
}

// routeTurn makes a name server that is not started, and one turn with a query of a topic that is cached.
func routeTurn(t testing.TB, typ codec.SerializeType) func() *reactor.Outbox {
	t.Helper()
	ns, err := New(Options{Config: defaultSet(), FS: vfs.NewMem(), Log: silent})
	require.NoError(t, err)
	ns.routes = registered(2, 10).m
	req := routeRequest("topic-3")
	req.Type = typ
	frame, _, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
	require.NoError(t, err)
	frames := []codec.Frame{frame}
	c, out := &loneConn{}, &reactor.Outbox{}
	return func() *reactor.Outbox {
		out.Forget()
		ns.server.OnFrames(c, frames, out)
		return out
	}
}

func TestCachedRouteAllocatesNothing(t *testing.T) {
	for _, typ := range []codec.SerializeType{codec.SerializeJSON, codec.SerializeROCKETMQ} {
		turn := routeTurn(t, typ)
		require.Contains(t, string(turn().Buffer()), "10.0.0.1:10911")
		if raceEnabled {
			continue // sync.Pool drops at random
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { turn() }), typ)
	}
}

func TestOnewayRouteQuery(t *testing.T) {
	ns, err := New(Options{Config: defaultSet(), FS: vfs.NewMem(), Log: silent})
	require.NoError(t, err)
	ns.routes = registered(1, 2).m
	for _, topic := range []string{"topic-0", "none"} {
		req := routeRequest(topic)
		req.Flag = codec.FlagOneway
		frame, _, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
		require.NoError(t, err)
		var out reactor.Outbox
		ns.server.OnFrames(&loneConn{}, []codec.Frame{frame}, &out)
		require.True(t, out.Empty())
	}
}

func TestRouteCacheForms(t *testing.T) {
	s := registered(1, 2)
	form := func(standard, acting bool, order string) routeForm {
		return routeForm{standard: standard, acting: acting, order: order}
	}
	get := func(f routeForm) string {
		t.Helper()
		require.Nil(t, s.m.CachedRoute([]byte("topic-0"), f))
		text, ok, err := s.m.EncodedRoute("topic-0", f, true)
		require.True(t, ok)
		require.NoError(t, err)
		require.Equal(t, string(text), string(s.m.CachedRoute([]byte("topic-0"), f)))
		return string(text)
	}
	legacy, standard := get(form(false, false, "")), get(form(true, false, ""))
	require.NotEqual(t, legacy, standard)
	require.NotNil(t, s.m.CachedRoute([]byte("topic-0"), form(false, false, "")), "both forms stay")
	require.Contains(t, get(form(true, false, "a:1")), `"orderTopicConf":"a:1"`)
	require.Contains(t, get(form(true, false, "a:2")), `"orderTopicConf":"a:2"`)
	s.settings.SupportActingMaster = true
	get(form(true, true, ""))
	_, ok, err := s.m.EncodedRoute("topic-0", form(true, false, ""), true)
	require.True(t, ok)
	require.NoError(t, err)
	require.NotNil(t, s.m.CachedRoute([]byte("topic-0"), form(true, true, "")),
		"a form of yesterday is not kept")
	checkCache(t, s.m)
}

func TestRouteCacheIsBounded(t *testing.T) {
	var c routeCache
	c.init()
	text := make([]byte, 100<<10)
	for i := range 2000 {
		c.put(fmt.Sprint(i), routeForm{}, text)
	}
	total := 0
	for i := range c.shards {
		s := &c.shards[i]
		require.Equal(t, len(s.byKey)*len(text), s.bytes)
		total += s.bytes
	}
	require.LessOrEqual(t, total, maxCachedRouteBytes)
	require.Greater(t, total, maxCachedRouteBytes/4)
	c.put("giant", routeForm{}, make([]byte, maxCachedRouteBytes/cacheShards+1))
	require.Nil(t, c.get([]byte("giant"), routeForm{}))
	c.put("x", routeForm{}, text)
	c.put("x", routeForm{}, text[:10])
	c.drop("x")
	require.Nil(t, c.get([]byte("x"), routeForm{}))
	c.clear()
	for i := range c.shards {
		require.Zero(t, c.shards[i].bytes)
	}
}

// A registration that changes nothing keeps what is cached.
func TestSteadyRegistrationKeepsTheCache(t *testing.T) {
	s := registered(1, 3)
	_, _, err := s.m.EncodedRoute("topic-1", routeForm{}, true)
	require.NoError(t, err)
	r := &Registration{BrokerIdentity: identity("C", "broker-0", "10.0.0.0:10911", 0), Conn: 7}
	s.m.Register(r, s.now.Add(time.Second))
	require.NotNil(t, s.m.CachedRoute([]byte("topic-1"), routeForm{}))
}
