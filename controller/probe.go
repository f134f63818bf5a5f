package controller

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"skylark/client"
)

// probeTimeout bounds the look at a broker whose connection has ended.
const probeTimeout = time.Second

// probePause is between two tries.
const probePause = 10 * time.Millisecond

// connClosed looks after the brokers that were last heard of on a connection. A process that was killed leaves a machine
// that refuses connections to its port: then nobody has to wait for closeGrace. Java's controllers do not wait at all, and
// replace a master that only lost its connection.
func (c *Controller) connClosed(conn uint64) {
	for k, addr := range c.beats.connClosed(c.o.Clock.Now(), conn) {
		if addr != "" && c.probing.Load() {
			c.probes.Go(func() { c.probe(k, addr, conn) })
		}
	}
}

// probe connects with a broker and takes it for dead if its port is closed. The port of a process that is just ending may
// still take connections, which end with it: then it is tried again.
func (c *Controller) probe(k brokerKey, addr string, conn uint64) {
	dialer := c.o.Dialer
	if dialer == nil {
		dialer = client.Dialer(&net.Dialer{})
	}
	ctx, cancel := context.WithTimeout(c.ctx, probeTimeout)
	defer cancel()
	for ctx.Err() == nil {
		nc, err := dialer.DialContext(ctx, "tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			c.beats.gone(k, conn)
			return
		}
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // a broker that lives says nothing
			_, _ = nc.Read(make([]byte, 1))
			stop()
			_ = nc.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(probePause):
		}
	}
}
