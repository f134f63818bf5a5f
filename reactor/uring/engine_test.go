//go:build iouring && linux

package uring

import (
	"os"
	"testing"

	"skylark/reactor/reactortest"
)

var harness = reactortest.Harness{New: New, Sockets: true, StopsReading: true}

func TestMain(m *testing.M) {
	if name := os.Getenv(echoEnv); name != "" {
		serveEcho(name)
	}
	reactortest.Main(m, harness)
}

func TestContract(t *testing.T) { reactortest.Run(t, harness) }
