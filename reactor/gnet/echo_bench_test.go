//go:build linux

package gnet

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	gn "github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"skylark/reactor"
)

// plainEcho is what gnet alone does with the same frames: its own reading, its own writing, one write a turn.
type plainEcho struct {
	gn.BuiltinEventEngine
	booted chan gn.Engine
}

func (p *plainEcho) OnBoot(e gn.Engine) gn.Action {
	p.booted <- e
	return gn.None
}

func (p *plainEcho) OnTraffic(c gn.Conn) gn.Action {
	b, _ := c.Peek(-1)
	n := 0
	for len(b)-n >= 4 {
		frame := 4 + int(binary.BigEndian.Uint32(b[n:]))
		if len(b)-n < frame {
			break
		}
		n += frame
	}
	if n > 0 {
		_, _ = c.Write(b[:n])
		_, _ = c.Discard(n)
	}
	return gn.None
}

func startPlain(b *testing.B) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	addr := ln.Addr().String()
	require.NoError(b, ln.Close())
	p := &plainEcho{booted: make(chan gn.Engine, 1)}
	go func() {
		_ = gn.Run(p, "tcp://"+addr, gn.WithNumEventLoop(2), gn.WithReadBufferCap(256<<10),
			gn.WithLogger(quiet{}))
	}()
	e := <-p.booted
	b.Cleanup(func() { _ = e.Stop(b.Context()) })
	return addr
}

type quiet struct{}

func (quiet) Debugf(string, ...any) {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// BenchmarkEcho sends 1 KiB frames over 4 connections, a window of them at a time on each. An op is one
// frame; cpu-ns is the process's CPU time for it, client included.
func BenchmarkEcho(b *testing.B) {
	f := func(name string, window int, addr func(*testing.B) string) {
		b.Run(name, func(b *testing.B) { benchEcho(b, addr(b), window) })
	}
	ours := func(b *testing.B) string { return startQuiet(b, &answerer{}, 2).Addrs()[0].String() }
	f("window=32/engine=skylark", 32, ours)
	f("window=32/engine=plain", 32, startPlain)
	f("window=1/engine=skylark", 1, ours)
	f("window=1/engine=plain", 1, startPlain)
}

// BenchmarkMapped answers 1 KiB requests with 32 KiB ranges of a mapping.
func BenchmarkMapped(b *testing.B) {
	h := &answerer{mapped: make([]byte, 32<<10), head: make([]byte, 200)}
	addr := startQuiet(b, h, 2).Addrs()[0].String()
	nc, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer nc.Close()
	request := appendEcho(nil, []byte("some header"), nil)
	answer := make([]byte, len(h.mapped)+len(h.head))
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = nc.Write(request)
		_, err = io.ReadFull(nc, answer)
	}
	require.NoError(b, err)
}

func benchEcho(b *testing.B, addr string, window int) {
	const clients = 4
	request := bytes.Repeat(appendEcho(nil, []byte("some header"), make([]byte, 1024)), window)
	var ncs []net.Conn
	for range clients {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err, os.Getpid())
		}
		defer nc.Close()
		ncs = append(ncs, nc)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuNanos()
	var wg sync.WaitGroup
	rounds := b.N/(clients*window) + 1
	for _, nc := range ncs {
		wg.Go(func() {
			answer := make([]byte, len(request))
			for range rounds {
				if _, err := nc.Write(request); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(nc, answer); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(cpuNanos()-before)/float64(rounds*clients*window), "cpu-ns/op")
}

func cpuNanos() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

var _ reactor.Handler = (*answerer)(nil)
