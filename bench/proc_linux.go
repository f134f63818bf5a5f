package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of CPU times in /proc: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processCPU is the user and system time of all threads of a process, to 10 ms.
func processCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	at := bytes.LastIndexByte(b, ')') // the name before it may contain anything
	f := strings.Fields(string(b[at+1:]))
	if at < 0 || len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(f))
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: times %q and %q", pid, f[11], f[12])
	}
	return time.Duration(user+system) * clockTick, nil
}

// processMemory is the resident memory of a process: anonymous, and with its mapped files.
func processMemory(pid int) (anon, total int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "VmRSS" {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/status: %s: %w", pid, name, err)
		}
		if name == "RssAnon" {
			anon = kib << 10
		} else {
			total = kib << 10
		}
	}
	return anon, total, nil
}

// privateMemory is what a process alone has in memory: its anonymous pages and those pages of mapped files that no
// other process maps, which for a broker is most of its log.
func privateMemory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	var sum int64
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "Private_Clean" && name != "Private_Dirty" {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/smaps_rollup: %s: %w", pid, name, err)
		}
		sum += kib << 10
	}
	return sum, nil
}

// affinity is the cores that a process may run on, as "0-3,6"; pid 0 is this one.
func affinity(pid int) string {
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) != nil {
		return "unknown"
	}
	var out []string
	for i := 0; i < len(set)*64; i++ {
		if !set.IsSet(i) {
			continue
		}
		first := i
		for set.IsSet(i + 1) {
			i++
		}
		if first == i {
			out = append(out, strconv.Itoa(i))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", first, i))
		}
	}
	return strings.Join(out, ",")
}

func hostReport() HostReport {
	return HostReport{OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), CPUs: runtime.NumCPU(),
		Processors: runtime.GOMAXPROCS(0), Cores: affinity(0)}
}
