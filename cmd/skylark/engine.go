package main

import (
	"context"
	"log/slog"

	"skylark/config"
	"skylark/reactor"
	"skylark/reactor/gnet"
	"skylark/reactor/std"
)

// ring is the io_uring engine of this build.
type ring struct {
	make  func(reactor.Options) reactor.Engine
	probe func() error // why this kernel or container does not let it run
	auto  bool         // reactor=auto takes it: it measured at least as fast as epoll
}

// engines picks the event loops by the key reactor and says so in a line. auto takes the fastest one that works
// here; what does not work is replaced by epoll (kqueue where there is none), never an error.
func engines(set *config.Set, log *slog.Logger) func(reactor.Options) reactor.Engine {
	return pick(set.Own().Reactor, uring, log)
}

// pick is engines with the build's io_uring engine given, nil if it has none.
func pick(name string, r *ring, log *slog.Logger) func(reactor.Options) reactor.Engine {
	switch {
	case name == "std":
		return std.New
	case name == "io_uring" && r == nil:
		log.Warn("reactor=io_uring is not part of this build, epoll is used")
	case name == "io_uring", name == "auto" && r != nil && r.auto:
		err := r.probe()
		if err == nil {
			return r.make
		}
		level := slog.LevelInfo
		if name == "io_uring" {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "io_uring does not work here, epoll is used", "reactor", name, "error", err)
	}
	return gnet.New
}
