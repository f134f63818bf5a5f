//go:build iouring && linux

package main

import urings "skylark/reactor/uring"

var uring = &ring{make: urings.New, probe: urings.Probe, auto: false}
