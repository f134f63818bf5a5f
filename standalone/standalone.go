// Package standalone runs a whole system in one process: a name server and a broker. It is what `skylark standalone`
// and the test system of package skylarktest are made of.
package standalone

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"skylark/broker"
	"skylark/config"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/namesrv"
	"skylark/reactor"
)

// Options of a system.
type Options struct {
	Namesrv *config.Set
	Broker  *config.Set
	// NamesrvListen and BrokerListen replace the addresses of the configuration (tests: port 0).
	NamesrvListen []string
	BrokerListen  []string
	NewEngine     func(reactor.Options) reactor.Engine
	FS            vfs.FS
	Clock         clock.Clock
	Log           *slog.Logger
}

// System is a name server and a broker registered with it.
type System struct {
	namesrv *namesrv.NameServer
	broker  *broker.Broker
}

// Start starts both. The broker is registered when it returns if it was reachable, which in one process it is.
func Start(o Options) (*System, error) {
	ns, err := namesrv.New(namesrv.Options{Config: o.Namesrv, FS: o.FS, Clock: o.Clock, Log: o.Log, NewEngine: o.NewEngine,
		Listen: o.NamesrvListen})
	if err != nil {
		return nil, err
	}
	if err := ns.Start(); err != nil {
		return nil, err
	}
	s := &System{namesrv: ns}
	o.Broker.Override("namesrvAddr", local(ns.Addr()).String())
	if s.broker, err = broker.New(broker.Options{Config: o.Broker, NewEngine: o.NewEngine, FS: o.FS, Clock: o.Clock,
		Log: o.Log, Listen: o.BrokerListen}); err == nil {
		err = s.broker.Start()
	}
	if err != nil {
		return nil, errors.Join(err, ns.Close(context.Background()))
	}
	return s, nil
}

// local is how this host reaches a listener that may be bound to all addresses.
func local(a netip.AddrPort) netip.AddrPort {
	if !a.Addr().IsUnspecified() {
		return a
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
}

// NamesrvAddr is host:port for clients on this host.
func (s *System) NamesrvAddr() string { return local(s.namesrv.Addr()).String() }

// BrokerAddr is the broker's address as clients get it.
func (s *System) BrokerAddr() string { return s.broker.AdvertisedAddr() }

// Broker is the system's broker.
func (s *System) Broker() *broker.Broker { return s.broker }

// Close stops the broker, then the name server.
func (s *System) Close(ctx context.Context) error {
	return errors.Join(s.broker.Close(ctx), s.namesrv.Close(ctx))
}
