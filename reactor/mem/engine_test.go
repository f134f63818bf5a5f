package mem

import (
	"context"
	"net"
	"testing"

	"skylark/reactor"
	"skylark/reactor/reactortest"
)

var harness = reactortest.Harness{
	New:          func(o reactor.Options) reactor.Engine { return NewOn(NewNetwork(), o) },
	Dial:         func(e reactor.Engine) (net.Conn, error) { return e.(*Engine).Dial(context.Background()) },
	StopsReading: true,
}

func TestMain(m *testing.M) { reactortest.Main(m, harness) }

func TestContract(t *testing.T) { reactortest.Run(t, harness) }
