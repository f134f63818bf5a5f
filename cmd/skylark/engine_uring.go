//go:build iouring && linux

package main

import engine "skylark/reactor/uring"

var uring = &ring{make: engine.New, probe: engine.Probe, auto: true}
