package main

import (
	"log/slog"

	"skylark/config"
	"skylark/reactor"
	"skylark/reactor/engines"
)

// newEngine makes the event loops that the key reactor names.
func newEngine(set *config.Set, log *slog.Logger) func(reactor.Options) reactor.Engine {
	return engines.ByName(set.Own().Reactor, log)
}
