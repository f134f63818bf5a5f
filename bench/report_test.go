package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"skylark/codec"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// schemaOf lists the members of a JSON value with their types.
func schemaOf(v any, path string, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if strings.HasSuffix(path, "failures") { // the names are data
			out[path] = "counts by name"
			return
		}
		for name, m := range v {
			schemaOf(m, path+"."+name, out)
		}
	case []any:
		out[path] = "list"
		for _, m := range v {
			schemaOf(m, path+"[]", out)
		}
	case string:
		out[path] = "text"
	case float64:
		out[path] = "number"
	case bool:
		out[path] = "bool"
	case nil:
		out[path] = "null"
	}
}

// Programs read the report: no member changes unnoticed. A change of what one means is a new SchemaVersion.
func TestReportSchema(t *testing.T) {
	all := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		runs := []Options{f.options(Produce), f.options(Produce), f.options(EndToEnd), f.options(Consume), f.options(Idle)}
		runs[0].Rate, runs[0].Count = 100, 200
		runs[1].Mode, runs[1].Count = Oneway, 100
		runs[2].Rate, runs[2].Count, runs[2].CPUPid = 100, 200, os.Getpid()
		runs[4].Duration = time.Second
		for _, o := range runs {
			o.Args, o.Tags = []string{"skylark", "bench"}, []string{"A"}
			text, err := mustRun(t, o).JSON()
			require.NoError(t, err)
			var v any
			require.NoError(t, json.Unmarshal(text, &v))
			schemaOf(v, string(o.Kind), all)
		}
	})
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s %s\n", name, all[name])
	}
	path := filepath.Join("testdata", "report_schema.txt")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run with -rewrite if it is meant")
}

func TestReportText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, false)
		f.send = func(*codec.SendMessageHeader) verdict { return verdict{after: 1500 * time.Microsecond} }
		o := f.options(EndToEnd)
		o.Rate, o.Count, o.Note, o.CPUPid = 100, 200, "ASYNC_FLUSH", os.Getpid()
		text := mustRun(t, o).Text()
		for _, want := range []string{"e2e to FAKE_1", "ASYNC_FLUSH", "messages       200 in", "0 messages",
			"p50 1.5", "all 200 ack", "µs CPU a message"} {
			require.Contains(t, text, want)
		}
		v := Verdict{Acked: 5, Missing: 2, Listed: []string{"0/1", "0/2"}}
		require.Contains(t, v.String(), "2 of 5 acknowledged messages are LOST (producer/number: 0/1 0/2)")
		require.Equal(t, "none measured", Latency{}.String())
	})
}

// The coarse histogram is a few percent off, never more.
func TestCoarse(t *testing.T) {
	var c coarse
	h := hdr.New(1, int64(maxLatency), 3)
	v := int64(3)
	for i := range 20_000 {
		v = (v*6364136223846793005 + 1442695040888963407) & (1<<39 - 1)
		x := v >> (i % 39)
		c.add(x)
		record(h, x)
	}
	for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
		want := h.ValueAtQuantile(q * 100)
		require.InDelta(t, want, c.quantile(q), float64(want)*0.04+1, "quantile %v", q)
	}
	var sum coarse
	require.Zero(t, sum.quantile(0.5))
	sum.merge(&c)
	sum.merge(&c)
	require.Equal(t, c.quantile(0.9), sum.quantile(0.9))
	require.EqualValues(t, 40_000, sum.n)
	for _, x := range []int64{-1, 0, 15, 16, 31, 32, 1 << 40, 1<<63 - 1} {
		i := coarseIndex(x)
		require.Less(t, i, len(c.counts))
		require.InDelta(t, max(x, 0), coarseValue(i), float64(max(x, 0))*0.04+1)
	}
	record(h, 1<<62)
	require.InDelta(t, int64(maxLatency), h.Max(), float64(maxLatency)*0.001)
}

func TestAffinityAndCPU(t *testing.T) {
	require.NotEmpty(t, affinity(0))
	_, err := processCPU(1 << 30)
	require.Error(t, err)
	_, _, err = processMemory(1 << 30)
	require.Error(t, err)
}

// Wrong flags are named.
func TestFlagErrors(t *testing.T) {
	f := func(flag string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		err := Main(t.Context(), args, &out, &errs)
		require.ErrorIs(t, err, ErrUsage, "%v", args)
		require.ErrorContains(t, err, flag)
		require.Empty(t, out.String())
	}
	f("produce, consume")
	f("nonsense", "nonsense")
	f("-n", "produce")
	f("-n", "consume", "-n", "a:1", "-b", "b:1")
	f("-n", "produce", "-n", "noport")
	f("--t:", "produce", "-n", "a:1", "-t", "a b")
	f("-nosuch", "produce", "--nosuch")
	f(`"rest"`, "produce", "-n", "a:1", "rest")
	for _, bad := range []string{"--size=-1", "--size=5000000", "--conns=0", "--conns=100000", "--window=-1", "--window=70000",
		"--rate=-1", "--rate=1e9", "--batch=0", "--batch=5000", "--keys=-1", "--keys=99", "--queues=0", "--timeout=0s",
		"--mode=fast", "--compress=rar", "--serialize=xml", "--cpu-pid=-1", "--duration=-1s", "--warmup=-1s", "--count=-1",
		"--drain=-1s", "--verify", "--tags=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "--cpu-pid=999999999"} {
		name, _, _ := strings.Cut(strings.TrimPrefix(bad, "--"), "=")
		f("-"+name, "produce", "-n", "a:1", bad)
	}
	f("--window", "produce", "-n", "a:1", "--mode=sync", "--window=5")
	f("--mode", "produce", "-n", "a:1", "--mode=oneway", "--ledger=x")
	f("--batch", "produce", "-n", "a:1", "--batch=4096", "--size=4096")
	f("--compress", "produce", "-n", "a:1", "--batch=2", "--compress=zlib")
	f("--size", "produce", "-n", "a:1", "--ledger=x", "--size=10")
	f("--rate", "e2e", "-n", "a:1")
	f("--size", "e2e", "-n", "a:1", "--rate=1", "--size=10")
	f("--from", "consume", "-n", "a:1", "--from=here")
	f("--from", "consume", "-n", "a:1", "--from=last")
	f("--loop", "consume", "-n", "a:1", "--loop")
	f("--verify", "consume", "-n", "a:1", "--verify")
	f("--loop", "consume", "-n", "a:1", "--verify", "--ledger=x", "--loop", "--count=1")
	f("--pull-batch", "consume", "-n", "a:1", "--pull-batch=0")
	f("--groups", "consume", "-n", "a:1", "--groups=0")
	f("--group", "consume", "-n", "a:1", "--group=a b")
	f("--suspend", "consume", "-n", "a:1", "--suspend=-1s")
	f("-topics", "consume", "-n", "a:1", "--topics=2")
	f("-rate", "idle", "-n", "a:1", "--rate=2")
	f("--topics", "produce", "-n", "a:1", "--topics=0")
	f("--topics", "produce", "-n", "a:1", "--topics=99999")
	f("-size", "consume", "-n", "a:1", "--size=10")
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"help"}, {"produce", "-h"}, {"consume", "--help"}} {
		var out, errs bytes.Buffer
		require.ErrorIs(t, Main(t.Context(), args, &out, &errs), flag.ErrHelp)
		require.Contains(t, errs.String(), "usage: skylark bench")
		require.Equal(t, len(args) > 1, strings.Contains(errs.String(), "-timeout"))
	}
}

// The command from flags to report.
func TestMainCommand(t *testing.T) {
	f := startFake(t, true)
	run := func(args ...string) (stdout, stderr string, err error) {
		var out, errs bytes.Buffer
		err = Main(t.Context(), append(args, "-n", f.addr), &out, &errs)
		return out.String(), errs.String(), err
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "report.json")
	out, _, err := run("produce", "-t", "Cmd", "--queues", "2", "--count", "100", "--json", path,
		"--ledger", filepath.Join(dir, "l"),
		"--note", "a note", "--tags", "A, B,", "--compress", "lz4", "--serialize", "rocketmq", "--quiet")
	require.NoError(t, err)
	require.Contains(t, out, "messages       100 in")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, SchemaVersion, r.Schema)
	require.Equal(t, "a note", r.Note)
	require.Equal(t, "lz4", r.Load.Compress)
	require.Equal(t, "ROCKETMQ", r.Load.Serialize)
	require.Equal(t, []string{"skylark", "bench", "produce", "-t", "Cmd"}, r.Command[:5])
	require.EqualValues(t, 100, r.Messages)

	out, errs, err := run("consume", "-t", "Cmd", "--verify", "--ledger", filepath.Join(dir, "l"), "--json", "-")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.EqualValues(t, 100, r.Verify.Seen)
	require.Contains(t, errs, "all 100 acknowledged messages were seen")
	_, _, err = run("consume", "-t", "Cmd", "--verify", "--ledger", filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = run("produce", "-t", "Cmd", "--count", "1", "--json", filepath.Join(dir, "no", "dir"))
	require.ErrorContains(t, err, "--json")
	require.False(t, errors.Is(err, ErrUsage))
}
