//go:build !linux

package bench

import (
	"errors"
	"runtime"
	"time"
)

var errNoProc = errors.New("only on Linux can another process be looked at")

// ownCPU is not measured here.
func ownCPU() time.Duration { return 0 }

func processCPU(int) (time.Duration, error) { return 0, errNoProc }

func processMemory(int) (anon, total int64, err error) { return 0, 0, errNoProc }

func privateMemory(int) (int64, error) { return 0, errNoProc }

func affinity(int) string { return "unknown" }

func hostReport() HostReport {
	return HostReport{OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), CPUs: runtime.NumCPU(),
		Processors: runtime.GOMAXPROCS(0), Cores: affinity(0)}
}
