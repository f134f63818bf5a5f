package namesrv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"skylark/client"
	"skylark/config"
	"skylark/config/update"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/reactor/std"
)

// Options of a name server. Config is required; the rest has defaults.
type Options struct {
	// Config is from config.NewNamesrvSet, loaded.
	Config *config.Set
	// ConfigFile is where UPDATE_NAMESRV_CONFIG saves, instead of configStorePath.
	ConfigFile string
	FS         vfs.FS       // vfs.OS
	Clock      clock.Clock  // clock.System
	Log        *slog.Logger // slog.Default()
	// NewEngine makes the engine; the caller may add to its options, such as TLS. nil: package std.
	NewEngine func(reactor.Options) reactor.Engine
	// Dialer makes the connections to brokers that are notified. nil: net.Dialer.
	Dialer client.Dialer
	// Listen are host:port addresses, instead of bindAddress and listenPort. Port 0 picks a free one.
	Listen []string
}

func (o *Options) ensureDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.NewEngine == nil {
		o.NewEngine = func(eo reactor.Options) reactor.Engine { return std.New(eo) }
	}
}

// NameServer serves one set of routes (Java NamesrvController).
type NameServer struct {
	o       Options
	routes  *RouteInfoManager
	kv      *KVConfigManager
	server  *rpc.Server
	engine  reactor.Engine
	expiry  *expiry
	notify  *NotifyService
	peers   peers
	started time.Time

	changing sync.Mutex // from a change of the routes to the queueing of its notifications

	closeOnce sync.Once
	closeErr  error
}

// New makes a name server that does not run yet. It starts nothing and touches no file.
func New(o Options) (*NameServer, error) {
	if o.Config == nil {
		return nil, errors.New("namesrv: Options.Config is missing")
	}
	o.ensureDefaults()
	cfg := o.Config.Namesrv()
	ns := &NameServer{o: o, routes: NewRouteInfoManager(o.Config.Namesrv)}
	ns.kv = NewKVConfigManager(o.FS, cfg.KvConfigPath, o.Log)
	ns.server = rpc.NewServer(o.Clock, o.Log)
	ns.peers = peers{remove: ns.connectionClosed, conns: map[uint64]reactor.Conn{}}
	ns.server.SetListener(rpc.ConnListener{Opened: ns.peers.opened, Closed: ns.peers.closed})
	ns.expiry = newExpiry(o.Clock, time.Duration(cfg.ScanNotActiveBrokerInterval)*time.Millisecond, ns.expire)
	ns.notify = NewNotifyService(client.New(client.Options{
		Dialer: o.Dialer, LinkTimeout: client.ServerLinkTimeout, Log: o.Log, WriteTimeout: notifyTimeout,
		ConnectTimeout: time.Duration(o.Config.Client().ConnectTimeoutMillis) * time.Millisecond,
	}), o.Log)
	ns.register(cfg)
	eo := engineOptions(&o)
	if err := eo.EnsureDefaults().Validate(); err != nil {
		return nil, fmt.Errorf("namesrv: %w", err)
	}
	ns.engine = o.NewEngine(eo)
	return ns, nil
}

// engineOptions translates Java's keys.
func engineOptions(o *Options) reactor.Options {
	server, own := o.Config.Server(), o.Config.Own()
	listen := o.Listen
	if len(listen) == 0 {
		listen = []string{net.JoinHostPort(server.BindAddress, strconv.Itoa(server.ListenPort))}
	}
	return reactor.Options{
		Listen:             listen,
		Loops:              own.ReactorLoops,
		MaxConnections:     own.MaxConnections,
		IdleTimeout:        time.Duration(server.ServerChannelMaxIdleTimeSeconds) * time.Second,
		MaxFrameBytes:      own.FrameMaxLength,
		HighWatermarkBytes: own.OutboundHighWatermark,
		LowWatermarkBytes:  own.OutboundLowWatermark,
		SocketSndBuf:       server.ServerSocketSndBufSize,
		SocketRcvBuf:       server.ServerSocketRcvBufSize,
		Backlog:            server.ServerSocketBacklog,
		Log:                o.Log,
	}
}

// register binds the request codes to their processors and pools.
func (ns *NameServer) register(cfg *config.NamesrvConfig) {
	clients := ns.server.NewPool(rpc.PoolOptions{Name: "clientRequest",
		Workers: cfg.ClientRequestThreadPoolNums, Capacity: cfg.ClientRequestThreadPoolQueueCapacity})
	rest := ns.server.NewPool(rpc.PoolOptions{Name: "default",
		Workers: cfg.DefaultThreadPoolNums, Capacity: cfg.DefaultThreadPoolQueueCapacity})
	ns.server.Register(rpc.Route{Code: routeCode, Processor: &RouteProcessor{ns: ns}, Pool: clients,
		OnLoop: true})
	for _, p := range []struct {
		proc  rpc.Processor
		codes []int
	}{
		{&BrokerProcessor{ns: ns}, brokerCodes},
		{&KVProcessor{ns: ns}, kvCodes},
		{&TopicProcessor{ns: ns}, topicCodes},
		{&ConfigProcessor{ns.changeable()}, configCodes},
	} {
		for _, code := range p.codes {
			ns.server.Register(rpc.Route{Code: code, Processor: p.proc, Pool: rest})
		}
	}
}

// Start reads the KV configuration and begins to serve. An address in use or a damaged file is an error that
// names it.
func (ns *NameServer) Start() error {
	if err := ns.kv.Load(); err != nil {
		return err
	}
	if ns.o.Config.Namesrv().ClusterTest {
		ns.o.Log.Warn("clusterTest is set but not supported: unknown topics are answered TOPIC_NOT_EXIST")
	}
	ns.started = ns.o.Clock.Now()
	if err := ns.engine.Start(ns.server); err != nil {
		return fmt.Errorf("namesrv: %w", err)
	}
	ns.o.Log.Info("The Name Server boot success", "addresses", ns.engine.Addrs(), "engine", ns.engine.Name())
	return nil
}

// Addr is the first address it listens on.
func (ns *NameServer) Addr() netip.AddrPort {
	if addrs := ns.engine.Addrs(); len(addrs) > 0 {
		return addrs[0]
	}
	return netip.AddrPort{}
}

// Close ends everything and returns when nothing runs any more; the error is ctx's if connections could not
// be closed in its time. It may be called again, and without Start.
func (ns *NameServer) Close(ctx context.Context) error {
	ns.closeOnce.Do(func() { ns.closeErr = ns.shutdown(ctx) })
	return ns.closeErr
}

func (ns *NameServer) shutdown(ctx context.Context) error {
	ns.engine.StopAccepting()
	if server := ns.o.Config.Server(); server.EnableShutdownGracefully {
		wait := time.Duration(server.ShutdownWaitTimeSeconds) * time.Second
		if deadline, ok := ctx.Deadline(); ok {
			wait = min(wait, deadline.Sub(ns.o.Clock.Now()))
		}
		ns.server.Drain(wait)
	}
	err := ns.engine.Stop(ctx)
	ns.server.Close()
	ns.expiry.close()
	ns.peers.wg.Wait()
	ns.notify.Close()
	if err != nil {
		return fmt.Errorf("namesrv: %w", err)
	}
	return nil
}

// settings is the running configuration.
func (ns *NameServer) settings() *config.NamesrvConfig { return ns.o.Config.Namesrv() }

// change runs one change of the routes and does what it calls for.
func (ns *NameServer) change(f func() Effects) {
	ns.changing.Lock()
	eff := f()
	ns.notify.Submit(eff.Changes)
	ns.changing.Unlock()
	for _, conn := range eff.Close {
		if c := ns.peers.get(conn); c != nil {
			c.Close(errSilentBroker)
		}
	}
	ns.notify.Forget(eff.Gone)
	for _, n := range eff.Notes {
		ns.o.Log.Log(context.Background(), n.Level, n.Msg, n.Args...)
	}
}

// errSilentBroker is why the connection of an expired broker is closed.
var errSilentBroker = errors.New("namesrv: the broker was silent for too long")

func (ns *NameServer) connectionClosed(conn uint64) {
	ns.change(func() Effects { return ns.routes.ConnectionClosed(conn) })
}

func (ns *NameServer) expire(now time.Time) (next time.Time) {
	ns.change(func() (eff Effects) {
		next, eff = ns.routes.Expire(now)
		return eff
	})
	return next
}

// configFile is where changed settings are saved.
func (ns *NameServer) configFile() string {
	return cmp.Or(ns.o.ConfigFile, ns.settings().ConfigStorePath)
}

// changeable are the settings as commands change them.
func (ns *NameServer) changeable() *update.Settings {
	return &update.Settings{Set: ns.o.Config, FS: ns.o.FS, Log: ns.o.Log, File: ns.configFile,
		BlackList: func() string { return ns.settings().ConfigBlackList }}
}

// RequestCodes are the codes that are served; docs/compat.md is checked against them.
func (ns *NameServer) RequestCodes() []int { return ns.server.Codes() }
