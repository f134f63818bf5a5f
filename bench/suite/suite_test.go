package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/bench"
	"skylark/skylarktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is in ms how long requests of the tests may wait in a broker: how busy the machine is decides none of them.
const patience = "600000"

// start starts a system that takes all that is sent to it, however long it has waited.
func start(t *testing.T, options ...skylarktest.Option) *skylarktest.System {
	t.Helper()
	for _, key := range []string{"waitTimeMillsInSendQueue", "waitTimeMillsInPullQueue", "waitTimeMillsInHeartbeatQueue",
		"waitTimeMillsInTransactionQueue", "waitTimeMillsInAckQueue", "waitTimeMillsInAdminBrokerQueue",
		"osPageCacheBusyTimeOutMills"} {
		options = append(options, skylarktest.WithProperty(key, patience))
	}
	return skylarktest.Start(t, options...)
}

// two starts two systems and gives the flags for them.
func two(t *testing.T) string {
	t.Helper()
	a, b := start(t), start(t)
	return "--targets=a=" + a.BrokerAddr() + ",b=" + b.BrokerAddr()
}

func call(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = Main(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), err
}

// Small runs of most of the table on two whole systems, from the flags to the files.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	out, errs, err := call(t, two(t), "--scale=0.001", "--rounds=2", "--quiet=false", "--out="+filepath.Join(dir, "out"),
		"--only=send-1k,send-rate,pull-[1],e2e-1,parked-1000,topics-100", "--note=a test",
		"--micro="+filepath.Join("testdata", "micro.txt"))
	require.NoError(t, err)
	require.Contains(t, errs, "round 2 of 2")
	md, err := os.ReadFile(filepath.Join(dir, "out", "suite.md"))
	require.NoError(t, err)
	require.Equal(t, out, string(md))
	text, err := os.ReadFile(filepath.Join(dir, "out", "suite.json"))
	require.NoError(t, err)
	var r Result
	require.NoError(t, json.Unmarshal(text, &r))
	require.Empty(t, r.Problems)
	require.Equal(t, "a test", r.Note)
	require.Equal(t, []string{"skylark", "bench", "suite"}, r.Command[:3])
	var names []string
	for _, w := range r.Workloads {
		names = append(names, w.Name)
		require.NotEmpty(t, w.Figures, w.Name)
		for _, f := range w.Figures {
			for _, target := range []string{"a", "b"} {
				require.Len(t, f.Values[target], 2, "%s %s", w.Name, f.Name)
			}
			if f.Name == "failed" {
				require.Zero(t, f.Median["a"], w.Name)
			}
		}
	}
	require.Equal(t, []string{"parked-1000", "send-1k", "send-rate", "pull-1", "e2e-1", "topics-100"}, names)
	throughput := r.Workloads[1].Figures[0]
	require.Equal(t, "throughput", throughput.Name)
	require.InDelta(t, throughput.Median["a"]/throughput.Median["b"], throughput.Ratio["b"], 1e-9)
	require.NotEmpty(t, r.Micro)
	require.NotEmpty(t, r.Host.Kernel)
	if r.Host.OS == "linux" { // the brokers are this process
		require.Equal(t, os.Getpid(), r.Targets[0].PID)
		require.Contains(t, out, "broker CPU, µs/msg")
	}
}

// A catch-up while sends go on; what it reads is pushed out of memory before, if the broker tells where it is.
func TestColdCatchUp(t *testing.T) {
	sys := start(t)
	out, _, err := call(t, "--targets=a="+sys.BrokerAddr(), "--scale=0.002", "--rounds=1", "--only=cold-catchup", "--json")
	require.NoError(t, err)
	var r Result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	figures := map[string]float64{}
	for _, f := range r.Workloads[0].Figures {
		figures[f.Name] = f.Median["a"]
	}
	require.Positive(t, figures["catch-up"])
	require.Positive(t, figures["p99 beside the catch-up"])
}

func TestEvict(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "00000000000000000000")
	require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("x"), 1<<20), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
	e, err := evictDir(dir, 0)
	if err != nil { // not on Linux
		require.Nil(t, e)
		return
	}
	require.EqualValues(t, 1<<20, e.bytes)
	require.LessOrEqual(t, e.percent(), 100.0)
	_, err = evictDir(filepath.Join(dir, "none"), 0)
	require.ErrorContains(t, err, "no files")
}

// A workload that a broker refuses is told, and the others go on.
func TestProblem(t *testing.T) {
	sys := start(t, skylarktest.WithProperty("maxMessageSize", "64"))
	r, err := Run(t.Context(), Options{Targets: []Target{{Name: "small", Addr: sys.BrokerAddr()}}, Scale: 0.001, Rounds: 1,
		Only: []string{"send-1k", "send-128"}})
	require.NoError(t, err)
	require.Len(t, r.Problems, 2)
	require.Contains(t, r.Problems[0], "send-1k on small: no message was taken: map[MESSAGE_ILLEGAL:")
	require.Empty(t, r.Workloads[0].Figures)
	var md strings.Builder
	require.NoError(t, r.Markdown(&md))
	require.Contains(t, md.String(), "## Problems")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sys := start(t)
	seen := 0
	r, err := Run(ctx, Options{Targets: []Target{{Name: "a", Addr: sys.BrokerAddr()}}, Scale: 0.001, Rounds: 1,
		Only: []string{"send-*"}, Progress: func(string) {
			if seen++; seen == 2 {
				cancel()
			}
		}})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Workloads, 3, "what was measured until then is reported")
	require.NotEmpty(t, r.Workloads[1].Figures)
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, _, err = call(t, "--targets=gone="+l.Addr().String())
	require.ErrorContains(t, err, "gone at 127.0.0.1:")
	require.NotErrorIs(t, err, ErrUsage)
}

// A started broker: its end is seen at once, with the reason from its log.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir) // others may run a suite on this machine
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
		return path
	}
	begun := time.Now()
	_, _, err := call(t, "--start=x="+script("dead", "echo no such setting >&2; exit 3\n"))
	require.ErrorContains(t, err, "no such setting")
	require.ErrorContains(t, err, "exit status 3")
	require.Less(t, time.Since(begun), startTimeout/2)

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = Run(ctx, Options{Targets: []Target{{Name: "x", Binary: script("deaf", "exec sleep 60\n")}}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "skylark-suite-*", "store"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = startBroker(t.Context(), &Target{Name: "x", Binary: filepath.Join(dir, "none")}, "")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUsage(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	f := func(want string, args ...string) {
		t.Helper()
		out, _, err := call(t, args...)
		require.ErrorIs(t, err, ErrUsage, "%v", args)
		require.ErrorContains(t, err, want)
		require.Empty(t, out)
	}
	ok := "--targets=a=127.0.0.1:1"
	f("--targets or --start")
	f("-targets", "--targets=")
	f("NAME=HOST:PORT", "--targets=127.0.0.1:1")
	f("NAME=HOST:PORT", "--targets=a=127.0.0.1:1,")
	f("HOST:PORT", "--targets=a=127.0.0.1")
	f("HOST:PORT", "--targets=a=:10911")
	f("HOST:PORT", "--targets=a=host:0")
	f("HOST:PORT", "--targets=a=host:http")
	f("process id", "--targets=a=host:1@self")
	f("process id", "--targets=a=host:1@-4")
	f("process id", "--targets=a=host:1@4+x")
	f("no name", "--targets=a b=host:1")
	f("taken", "--targets=a=host:1,a=host:2")
	f("taken", ok, "--start=a="+self)
	f("NAME=BINARY", "--start=a")
	f("no such file", "--start=a=/nonexistent/skylark")
	f("directory", "--start=a="+os.TempDir())
	f("KEY=VALUE", "--start=a="+self+",epoll")
	f("KEY=VALUE", "--start=a="+self+",-c=x")
	f("there is no workload \"W1\"; the table has idle-5000", ok, "--only=W1")
	f("-only", ok, "--only=,")
	f("--only", ok, "--only=[")
	for _, bad := range []string{"0", "-1", "NaN", "1001", "0.0001"} {
		f("--scale", ok, "--scale="+bad)
	}
	for _, bad := range []string{"0", "-1", "101"} {
		f("--rounds", ok, "--rounds="+bad)
	}
	f("-rounds", ok, "--rounds=many")
	f("-nosuch", ok, "--nosuch")
	f(`"rest"`, ok, "rest")
	f("--micro", ok, "--micro=/nonexistent/micro.txt")
	f("no line", ok, "--micro="+filepath.Join("testdata", "empty.txt"))
	f("--cpuprofile", ok, "--cpuprofile="+t.TempDir())
	many := make([]Target, maxTargets+1)
	o := Options{Targets: many}
	require.ErrorIs(t, o.Validate(), ErrUsage)
	require.ErrorIs(t, ErrUsage, bench.ErrUsage)
}

func TestHelpAndList(t *testing.T) {
	_, errs, err := call(t, "-h")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, errs, "-scale")
	out, _, err := call(t, "--list")
	require.NoError(t, err)
	for _, name := range Names() {
		require.Contains(t, out, name)
	}
}

func TestParseMicro(t *testing.T) {
	list, err := parseMicro(strings.NewReader("goos: linux\npkg: skylark/codec\nBenchmarkA/x-1-2   \t 10\t 12.5 ns/op\t " +
		"3 allocs/op\nBenchmarkB \t 5\t 1 ns/op\nBenchmarkLog\nPASS\n"))
	require.NoError(t, err)
	require.Equal(t, []Micro{
		{Package: "codec", Name: "A/x-1", Runs: 10, Figures: map[string]float64{"ns/op": 12.5, "allocs/op": 3}},
		{Package: "codec", Name: "B", Runs: 5, Figures: map[string]float64{"ns/op": 1}}}, list)
	for _, bad := range []string{"BenchmarkA x 1 ns/op", "BenchmarkA 1 x ns/op"} {
		_, err := parseMicro(strings.NewReader(bad))
		require.ErrorContains(t, err, "line 1")
	}
}

func TestFigures(t *testing.T) {
	w := &Workload{}
	w.add("a", []value{{"t", "msg/s", Higher, 30}, {"cpu", "µs", Lower, 2}, {"failed", "msg", Neutral, 1}})
	w.add("a", []value{{"t", "msg/s", Higher, 10}, {"cpu", "µs", Lower, 4}})
	w.add("b", []value{{"t", "msg/s", Higher, 10}, {"cpu", "µs", Lower, 6}, {"failed", "msg", Neutral, 2}})
	w.add("c", []value{{"t", "msg/s", Higher, 0}})
	w.settle([]string{"a", "b", "c"})
	require.Equal(t, map[string]float64{"a": 20, "b": 10, "c": 0}, w.Figures[0].Median)
	require.Equal(t, map[string]float64{"b": 2}, w.Figures[0].Ratio)
	require.Equal(t, map[string]float64{"b": 2}, w.Figures[1].Ratio)
	require.Empty(t, w.Figures[2].Ratio)
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))

	f := func(want string, v float64) {
		t.Helper()
		require.Equal(t, want, number(v))
	}
	f("0", 0)
	f("0.57", 0.567)
	f("12.3", 12.34)
	f("-123", -123.4)
	f("1,234", 1234.4)
	f("1,234,567", 1234567)
	f("-1,000", -1000)
}

func TestProperties(t *testing.T) {
	require.Equal(t, map[string]string{"flushDiskType": "SYNC_FLUSH", "a": "b=c"},
		properties("#comment\nflushDiskType=SYNC_FLUSH\n a = b=c \nrest"))
	require.True(t, (&target{addr: "127.0.0.1:1"}).local())
	require.True(t, (&target{addr: "localhost:1"}).local())
	require.False(t, (&target{addr: "192.0.2.1:1"}).local())
	require.False(t, (&target{addr: "example.org:1"}).local())
	require.Zero(t, listenerPID("192.0.2.1:1"))
	require.Zero(t, (&evicted{}).percent())
	require.False(t, math.IsNaN((&evicted{bytes: 4, resident: 1}).percent()))
	require.True(t, errors.Is(usage("x", "y"), ErrUsage))
}

// A small run of each kind of message.
func TestKinds(t *testing.T) {
	sys := start(t, skylarktest.WithProperty("enablePropertyFilter", "true"))
	out, _, err := call(t, "--targets=a="+sys.BrokerAddr(), "--scale=0.002", "--rounds=1", "--json",
		"--only=transaction,*-put,sql-10,pop-*,groups-10000")
	require.NoError(t, err)
	var r Result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Empty(t, r.Problems)
	require.Len(t, r.Workloads, 7)
	for _, w := range r.Workloads {
		for _, f := range w.Figures {
			switch f.Name {
			case "failed":
				require.Zero(t, f.Median["a"], w.Name)
			case "throughput":
				require.Positive(t, f.Median["a"], w.Name)
			}
		}
	}
}

func TestParseTargetsWithReplicas(t *testing.T) {
	list, err := ParseTargets("a=host:1@4+5+6,b=host:2")
	require.NoError(t, err)
	require.Equal(t, []Target{{Name: "a", Addr: "host:1", PID: 4, Replicas: []int{5, 6}}, {Name: "b", Addr: "host:2"}}, list)
}
