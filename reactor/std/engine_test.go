package std

import (
	"testing"

	"skylark/reactor"
	"skylark/reactor/reactortest"
)

var harness = reactortest.Harness{
	New:          func(o reactor.Options) reactor.Engine { return New(o) },
	Sockets:      true,
	StopsReading: true,
}

func TestMain(m *testing.M) { reactortest.Main(m, harness) }

func TestContract(t *testing.T) { reactortest.Run(t, harness) }
