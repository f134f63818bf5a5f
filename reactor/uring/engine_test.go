//go:build iouring && linux

package uring

import (
	"testing"

	"skylark/reactor/reactortest"
)

var harness = reactortest.Harness{New: New, Sockets: true, StopsReading: true}

func TestMain(m *testing.M) { reactortest.Main(m, harness) }

func TestContract(t *testing.T) { reactortest.Run(t, harness) }
