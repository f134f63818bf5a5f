//go:build iouring && linux

package engines

import engine "skylark/reactor/uring"

var uring = &ring{make: engine.New, probe: engine.Probe, auto: true}
