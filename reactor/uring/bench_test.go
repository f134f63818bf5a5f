//go:build iouring && linux

package uring

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/gnet"
	"skylark/reactor/std"
)

// echoEnv makes a child process of the test binary serve echoes with the engine it names.
const echoEnv = "SKYLARK_URING_ECHO"

// echo answers a frame of 1 KiB as a broker answers a send: with 200 bytes.
type echo struct{ answer []byte }

func (e *echo) OnOpen(reactor.Conn) error   { return nil }
func (e *echo) OnClose(reactor.Conn, error) {}
func (e *echo) OnFrames(_ reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	for range frames {
		out.SetBuffer(append(out.Buffer(), e.answer...))
	}
}

func frameOf(n int) []byte {
	b := make([]byte, n)
	binary.BigEndian.PutUint32(b, uint32(n-4))
	return b
}

// serveEcho prints the address and ends with stdin.
func serveEcho(name string) {
	make := map[string]func(reactor.Options) reactor.Engine{"epoll": gnet.New, "io_uring": New, "std": std.New}[name]
	e := make(reactor.Options{Listen: []string{"127.0.0.1:0"}, Log: slog.New(slog.DiscardHandler)})
	if err := e.Start(&echo{answer: frameOf(200)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(e.Addrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = e.Stop(context.Background())
	os.Exit(0)
}

// BenchmarkEngines is what an engine alone costs: CPU time of a process that answers frames of 1 KiB, in clients x
// frames in flight. An op is a frame.
func BenchmarkEngines(b *testing.B) {
	for _, load := range []struct{ conns, window int }{{1, 1}, {64, 1}, {4, 32}} {
		for _, engine := range []string{"epoll", "io_uring", "std"} {
			b.Run(fmt.Sprintf("load=%dx%d/engine=%s", load.conns, load.window, engine), func(b *testing.B) {
				benchEngine(b, engine, load.conns, load.window)
			})
		}
	}
}

func benchEngine(b *testing.B, engine string, conns, window int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), echoEnv+"="+engine)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	defer func() { _ = stdin.Close(); _ = cmd.Wait() }()
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	request := bytes.Repeat(frameOf(1200), window)
	var ncs []net.Conn
	for range conns {
		nc, err := net.Dial("tcp", strings.TrimSpace(addr))
		require.NoError(b, err)
		defer nc.Close()
		ncs = append(ncs, nc)
	}
	times := make([][]time.Duration, conns)
	round := func(n int) {
		var wg sync.WaitGroup
		for i, nc := range ncs {
			wg.Go(func() {
				answer := make([]byte, window*200)
				for range n {
					began := time.Now()
					_, _ = nc.Write(request)
					if _, err := io.ReadFull(nc, answer); err != nil {
						b.Error(err)
						return
					}
					times[i] = append(times[i], time.Since(began))
				}
			})
		}
		wg.Wait()
	}
	round(20)
	clear(times)
	rounds := b.N/(conns*window) + 1
	before, switches := usage(cmd.Process.Pid)
	b.ResetTimer()
	round(rounds)
	after, switchesAfter := usage(cmd.Process.Pid)
	frames := float64(rounds * conns * window)
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64((after-before).Nanoseconds())/frames, "cpu-ns/op")
	b.ReportMetric(float64(switchesAfter-switches)/frames, "waits/op")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
}

// usage is the CPU time of a process and how often its threads gave up the CPU.
func usage(pid int) (cpu time.Duration, switches int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		if text, err := os.ReadFile(task + "/schedstat"); err == nil {
			ns, _ := strconv.Atoi(strings.Fields(string(text))[0])
			cpu += time.Duration(ns)
		}
		text, _ := os.ReadFile(task + "/status")
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(rest))
				switches += n
			}
		}
	}
	return cpu, switches
}
