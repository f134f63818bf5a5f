package main

import (
	"skylark/config"
	"skylark/reactor"
	"skylark/reactor/gnet"
	"skylark/reactor/std"
)

// engines picks the event loops by the key reactor.
func engines(set *config.Set) func(reactor.Options) reactor.Engine {
	if set.Own().Reactor == "std" {
		return std.New
	}
	return gnet.New
}
