package goruntime

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPercent(t *testing.T) {
	f := func(liveMiB float64, want int) {
		t.Helper()
		require.Equal(t, want, percentFor(uint64(liveMiB*(1<<20))))
	}
	f(0, 400)
	f(1, 400)
	f(4, 400)
	f(8, 200)
	f(10, 160)
	f(16, 100)
	f(1000, 100)
}

// saved restores what Tune changes in this process.
func saved(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	debug.SetGCPercent(percent)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

func currentPercent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

func TestTune(t *testing.T) {
	saved(t)
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tn := Tune(Options{Clock: clock.System, Log: slog.New(slog.NewTextHandler(&out, nil))})
		require.Equal(t, MaxPercent, currentPercent())
		require.Contains(t, out.String(), `msg="go runtime" gogc="400, follows the live heap"`)
		time.Sleep(3 * stepInterval) // steps by itself
		tn.Close()
		tn.step(8 << 20)
		require.Equal(t, 200, currentPercent())
		tn.step(9 << 20) // not worth a stop
		require.Equal(t, 200, currentPercent())
		tn.step(1 << 30)
		require.Equal(t, 100, currentPercent())
	})
}

func TestTuneLeavesTheEnvironmentAlone(t *testing.T) {
	saved(t)
	t.Setenv("GOGC", "77")
	t.Setenv("GOMEMLIMIT", "3GiB")
	debug.SetGCPercent(77)
	debug.SetMemoryLimit(3 << 30)
	var out bytes.Buffer
	tn := Tune(Options{Clock: clock.System, Log: slog.New(slog.NewTextHandler(&out, nil))})
	defer tn.Close()
	require.Equal(t, 77, currentPercent())
	require.EqualValues(t, 3<<30, debug.SetMemoryLimit(-1))
	require.Contains(t, out.String(), `gogc="GOGC=77" memoryLimit="GOMEMLIMIT=3GiB"`)
}

func TestMemoryLimit(t *testing.T) {
	require.EqualValues(t, 614, memoryLimit(1<<30, 0)>>20)
	require.EqualValues(t, 307, memoryLimit(1<<30, 512<<20)>>20)
	require.EqualValues(t, minMemoryLimit, memoryLimit(20<<20, 0))
	require.EqualValues(t, minMemoryLimit, memoryLimit(1<<30, 2<<30))
}

func TestContainerMemory(t *testing.T) {
	f := func(want int64, source string, files map[string]string) {
		t.Helper()
		root := t.TempDir()
		for name, text := range files {
			name = filepath.Join(root, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		}
		limit, from := containerMemory(root)
		require.Equal(t, want, limit)
		require.Equal(t, source, from)
	}
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	f(0, "", nil)
	f(0, "", map[string]string{"proc/self/cgroup": "0::/\n"})
	// version 2, seen from inside: the group is the root of the mount
	f(256<<20, "/sys/fs/cgroup/memory.max", map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2,
		"sys/fs/cgroup/memory.max": "268435456\n"})
	// an outer group is narrower
	f(1<<20, "/sys/fs/cgroup/pod/memory.max", map[string]string{"proc/self/cgroup": "0::/pod/c1\n",
		"proc/self/mountinfo": v2, "sys/fs/cgroup/pod/c1/memory.max": "max\n", "sys/fs/cgroup/pod/memory.max": "1048576\n"})
	f(0, "", map[string]string{"proc/self/cgroup": "0::/pod\n", "proc/self/mountinfo": v2,
		"sys/fs/cgroup/pod/memory.max": "max\n"})
	// version 1 with other controllers around, the group told as the host sees it
	f(128<<20, "/sys/fs/cgroup/memory/memory.limit_in_bytes", map[string]string{
		"proc/self/cgroup": "9:cpu,cpuacct:/docker/77\n4:memory:/docker/77\n0::/\n",
		"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
			"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\nnonsense\n" +
			"35 31 0:32 /docker/77 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728\n"})
	f(0, "", map[string]string{"proc/self/cgroup": "4:memory:/a\n",
		"proc/self/mountinfo":                          "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n"})
}

func TestPressure(t *testing.T) {
	dir := t.TempDir()
	require.Empty(t, pressure(dir))
	f := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	f("cpu", "some avg10=95.55 avg60=95.81 avg300=96.29 total=9699974391\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	f("io", "nothing of the kind\n")
	f("memory", "some avg10=0.00 avg60=0.00 avg300=0.36 total=42463053\n")
	require.Equal(t, []slog.Attr{slog.String("pressure", "cpu=95% memory=0%")}, pressure(dir))
	Pressure()
}

func TestReport(t *testing.T) {
	before := Read()
	runtime.GC()
	runtime.GC()
	r := Read()
	r.Sub(before)
	require.EqualValues(t, 2, r.Cycles)
	require.EqualValues(t, 4, r.GCPauses.Count(), "two stops each")
	require.Positive(t, r.GCPauses.Quantile(1))
	require.Positive(t, r.LiveBytes)
	require.Positive(t, r.HeldBytes)
	info := map[string]string{}
	r.RuntimeInfo(info)
	require.Equal(t, "2", info["goGcCycles"])
	require.Contains(t, info["goGcPauses"], "n=4 p50=")
	require.NotEmpty(t, r.Attrs())
}

func TestDistribution(t *testing.T) {
	d := Distribution{Counts: []uint64{0, 98, 1, 1}, Bounds: []float64{0, 1e-5, 1e-3, math.Inf(1)}}
	require.EqualValues(t, 100, d.Count())
	require.Equal(t, 10*time.Microsecond, d.Quantile(0.5))
	require.Equal(t, time.Millisecond, d.Quantile(0.98))
	require.Equal(t, time.Duration(math.MaxInt64), d.Quantile(1))
	require.EqualValues(t, 2, d.Above(10*time.Microsecond))
	require.EqualValues(t, 1, d.Above(time.Millisecond))
	require.Zero(t, (&Distribution{}).Quantile(1))
}
