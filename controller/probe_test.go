package controller

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A broker whose port is closed is dead at once, one that listens has its grace, and one that was heard of again lives.
func TestProbe(t *testing.T) {
	now := time.Unix(1000, 0)
	k := brokerKey{"b", 1}
	f := func(addr string, again, dead bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &Controller{ctx: ctx, beats: newHeartbeats(now)}
		c.beats.hear(now, k, beat{conn: 7, addr: addr})
		require.Equal(t, map[brokerKey]string{k: addr}, c.beats.connClosed(now, 7))
		if again {
			c.beats.hear(now, k, beat{conn: 8, addr: addr})
		}
		time.AfterFunc(200*time.Millisecond, cancel) // a live one says nothing
		c.probe(k, addr, 7)
		require.Equal(t, dead, len(c.beats.expire(now)) == 1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f(l.Addr().String(), false, false)
	require.NoError(t, l.Close())
	f(l.Addr().String(), false, true)
	f(l.Addr().String(), true, false)
}

// A process that is just ending takes a connection before its port is closed.
func TestProbeOfAnEndingProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		nc, err := l.Accept()
		_ = l.Close()
		if err == nil {
			_ = nc.Close()
		}
	}()
	now := time.Unix(1000, 0)
	k := brokerKey{"b", 1}
	c := &Controller{ctx: t.Context(), beats: newHeartbeats(now)}
	c.beats.hear(now, k, beat{conn: 7, addr: l.Addr().String()})
	c.beats.connClosed(now, 7)
	c.probe(k, l.Addr().String(), 7)
	require.Len(t, c.beats.expire(now), 1)
}
