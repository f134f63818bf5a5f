// Package engines picks the event loops by their name, the key reactor of the configuration.
package engines

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"skylark/reactor"
	"skylark/reactor/gnet"
	"skylark/reactor/std"
)

// ring is the io_uring engine of this build.
type ring struct {
	make  func(reactor.Options) reactor.Engine
	probe func() error // why this kernel or container does not let it run
	auto  bool         // reactor=auto takes it (docs/performance.md "Event loops")
}

// ByName returns what makes the engine: auto, io_uring, epoll or std. auto, which is also the empty name, takes the
// fastest that works here; what does not work is replaced by epoll (kqueue where there is none) with a line in the log,
// it is never an error. Where it takes io_uring, GOMAXPROCS is raised by one.
func ByName(name string, log *slog.Logger) func(reactor.Options) reactor.Engine {
	return pick(name, uring, log)
}

// pick is ByName with the io_uring engine given, nil for a build without one.
func pick(name string, r *ring, log *slog.Logger) func(reactor.Options) reactor.Engine {
	auto := name == "auto" || name == ""
	switch {
	case name == "std":
		return std.New
	case name == "io_uring" && r == nil:
		log.Warn("reactor=io_uring is not part of this build, epoll is used")
	case name == "io_uring", auto && r != nil && r.auto:
		err := r.probe()
		if err == nil {
			return withSpareProc(r.make)
		}
		level := slog.LevelInfo
		if name == "io_uring" {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "io_uring does not work here, epoll is used", "reactor", name, "error", err)
	}
	return gnet.New
}

// spareProc raises GOMAXPROCS once, and remembers what it was.
var spareProc = sync.OnceValue(func() (was int) {
	was = runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(was + 1)
	}
	return was
})

// withSpareProc gives the process one P more than it has CPUs. A loop that waits in its ring keeps its P until the
// runtime's monitor takes it away, 20 µs later or much more, and a goroutine the loop has just woken waits with it. With
// a P to spare it runs at once on another thread (docs/performance.md "Event loops"). Loops are still counted by CPUs.
func withSpareProc(make func(reactor.Options) reactor.Engine) func(reactor.Options) reactor.Engine {
	return func(o reactor.Options) reactor.Engine {
		if was := spareProc(); o.Loops <= 0 {
			o.Loops = min(was, reactor.DefaultMaxLoops)
		}
		return make(o)
	}
}
