package main

import (
	"log/slog"

	"skylark/config"
	"skylark/reactor"
	"skylark/reactor/gnet"
	"skylark/reactor/std"
)

// engines picks the event loops by the key reactor. auto is epoll (kqueue where there is none).
func engines(set *config.Set, log *slog.Logger) func(reactor.Options) reactor.Engine {
	switch set.Own().Reactor {
	case "std":
		return std.New
	case "io_uring":
		log.Warn("reactor=io_uring is not part of this build, epoll is used")
	}
	return gnet.New
}
