//go:build unix

package reactortest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"skylark/reactor"
)

// childEnv names what a child process of the test binary is to do.
const childEnv = "SKYLARK_REACTORTEST_CHILD"

// child runs a child process.
func child(mode string, h Harness) int {
	if mode != "descriptors" {
		fmt.Fprintln(os.Stderr, "unknown mode", mode)
		return 2
	}
	if err := serveWithFewDescriptors(h); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fewDescriptors is how many the child may still open after its engine has started.
const fewDescriptors = 20

// serveWithFewDescriptors prints the engine's address, and then the CPU time used so far, in microseconds,
// for every line on stdin.
func serveWithFewDescriptors(h Harness) error {
	e := h.New(reactor.Options{Listen: []string{"127.0.0.1:0"}, Loops: 1})
	if err := e.Start(newServer()); err != nil {
		return err
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	lim.Cur = uint64(len(names) + fewDescriptors)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	fmt.Println(e.Addrs()[0])
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(cpuTime().Microseconds(), e.Connections())
	}
	return e.Stop(context.Background())
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// testNoDescriptors: a process out of descriptors neither ends nor spins, sends new peers away, serves the
// old ones, and takes new ones as soon as it can.
func testNoDescriptors(t *testing.T, h Harness) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc to count descriptors with")
	}
	addr, usage, wait := startStarving(t)
	dial := func() *client {
		nc, err := net.DialTimeout("tcp", addr, patience)
		require.NoError(t, err)
		t.Cleanup(func() { _ = nc.Close() })
		return &client{t: t, nc: nc}
	}

	var in []*client
	for range 2 * fewDescriptors {
		c := dial()
		c.send("echo", nil)
		if _, _, err := c.tryReceive(patience); err != nil {
			break // sent away
		}
		in = append(in, c)
	}
	require.NotEmpty(t, in)
	require.Less(t, len(in), 2*fewDescriptors)
	cpuBefore, open := usage()
	for end := time.Now().Add(patience); open != len(in); cpuBefore, open = usage() {
		require.True(t, time.Now().Before(end), "%d connections are open, %d were served", open, len(in))
		runtime.Gosched() // the one that was sent away is counted until its close is through
	}
	began := time.Now()
	for range 30 {
		dial().expectEnd() // within patience
	}
	for time.Since(began) < 2*time.Second {
		dial().expectEnd()
		in[0].call("echo", nil)
	}
	cpuAfter, _ := usage()
	took := time.Since(began)
	t.Logf("%d connections open, starved for %v, CPU %v", len(in), took, cpuAfter-cpuBefore)
	require.Less(t, cpuAfter-cpuBefore, took/5, "it spins")
	for _, c := range in[1:] {
		c.call("echo", nil)
		_ = c.nc.Close()
	}
	eventually(t, func() bool { _, open := usage(); return open == 1 }, "they are gone")
	eventually(t, func() bool {
		c := dial()
		defer c.nc.Close()
		_, _ = c.nc.Write(appendFrame(nil, "echo", nil))
		_, _, err := c.tryReceive(patience)
		return err == nil
	}, "it accepts again")
	require.NoError(t, wait())
}

// startStarving starts the child process; usage asks it for its CPU time and open connections, wait ends it.
func startStarving(t *testing.T) (addr string, usage func() (cpu time.Duration, open int), wait func() error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=descriptors")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	addr = lines.Text()
	usage = func() (cpu time.Duration, open int) {
		_, err := fmt.Fprintln(stdin)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		_, err = fmt.Sscan(lines.Text(), (*int64)(&cpu), &open)
		require.NoError(t, err)
		return cpu * time.Microsecond, open
	}
	return addr, usage, func() error {
		_ = stdin.Close()
		return cmd.Wait()
	}
}

// testConnectCycles: thousands of connections that come and go in all ways leave nothing behind.
func testConnectCycles(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	n := 10_000
	if testing.Short() || raceEnabled {
		n = 1000
	}
	cycle := func(i int) {
		nc, err := dialEngine(h, r.engine)
		require.NoError(t, err)
		c := &client{t: t, nc: nc}
		switch i % 5 {
		case 0: // nothing said
		case 1:
			c.call("echo", nil)
		case 2:
			c.write([]byte{0, 0, 1, 0, 0})
		case 3:
			c.send("mapped 20 10000", nil) // and not read
		case 4:
			c.send("close", nil)
			c.expectEnd()
		}
		c.abort()
	}
	gone := func() bool { return r.engine.Connections() == 0 }
	for i := range 50 {
		cycle(i)
	}
	eventually(t, gone, "all are gone")
	fds, goroutines := openDescriptors(t), runtime.NumGoroutine()
	began := time.Now()
	for i := range n {
		cycle(i)
	}
	eventually(t, gone, "all are gone")
	t.Logf("%d cycles in %v", n, time.Since(began))
	eventually(t, func() bool { return openDescriptors(t) <= fds }, "no descriptor is left")
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 }, "no goroutine is left")
	require.Zero(t, r.server.files.open.Load())
}

// openDescriptors counts those of the process, 0 where it cannot be told.
func openDescriptors(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// testIdleCPU: connections that do nothing cost nothing.
func testIdleCPU(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	for range 100 {
		r.dial().call("echo", nil)
	}
	runtime.GC()
	before, switches := cpuTime(), voluntarySwitches(t)
	const span = time.Second
	select {
	case c := <-r.server.closes:
		require.FailNow(t, "a connection ended", "%v", c.reason)
	case <-time.After(span):
	}
	used := cpuTime() - before
	t.Logf("CPU %v and %d context switches in %v", used, voluntarySwitches(t)-switches, span)
	require.Less(t, used, span/20)
}

// voluntarySwitches is how often the process's main thread gave up the CPU.
func voluntarySwitches(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			require.NoError(t, err)
			return n
		}
	}
	return 0
}
