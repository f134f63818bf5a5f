package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"skylark/client"
	"skylark/codec"
	"skylark/config"
	"skylark/config/update"
	"skylark/controller/node"
	"skylark/controller/replicas"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/reactor/std"
)

// Options of a controller. Config is required; the rest has defaults.
type Options struct {
	// Config is from config.NewControllerSet, or from config.NewNamesrvSet when it runs beside a name server; loaded.
	Config *config.Set
	// ConfigFile is where UPDATE_CONTROLLER_CONFIG saves, instead of configStorePath.
	ConfigFile string
	FS         vfs.FS       // vfs.OS
	Clock      clock.Clock  // clock.System
	Log        *slog.Logger // slog.Default()
	// NewEngine makes the engine. nil: package std.
	NewEngine func(reactor.Options) reactor.Engine
	// Dialer makes the connections to other controllers and to brokers. nil: net.Dialer.
	Dialer client.Dialer
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
	o.Log = o.Log.With("part", "controller")
	if o.NewEngine == nil {
		o.NewEngine = func(eo reactor.Options) reactor.Engine { return std.New(eo) }
	}
}

// Controller is one member of a group of controllers (Java ControllerManager with DLedgerController).
type Controller struct {
	o       Options
	members membership
	beats   *heartbeats
	server  *rpc.Server
	engine  reactor.Engine
	client  *client.Client
	notify  *NotifyService
	loop    *loop
	links   map[uint64]*link // by Raft's id
	ctx     context.Context  // of the links
	cancel  context.CancelFunc
	failed  chan struct{}
	started int64 // ms
	tally   tally

	// Where messages of Raft and notifications go: to links and notify, or to a Stepper's owner.
	sendRaft   func(m *raftpb.Message)
	sendNotice func(addrs []string, g *replicas.Group)

	// probing lets brokers be asked whether they are gone, when their connection has ended; a Stepper has no sockets.
	probing atomic.Bool
	probes  sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// New makes a controller that does not run yet. It starts nothing and touches no file. Its errors name the keys.
func New(o Options) (*Controller, error) { return newController(o, false) }

// newController is New; inline serves requests where they arrive, without pools.
func newController(o Options, inline bool) (*Controller, error) {
	if o.Config == nil {
		return nil, errors.New("controller: Options.Config is missing")
	}
	o.ensureDefaults()
	members, err := membersOf(o.Config.Controller())
	if err != nil {
		return nil, err
	}
	c := &Controller{o: o, members: members, links: map[uint64]*link{}, failed: make(chan struct{}),
		started: o.Clock.Millis()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.beats = newHeartbeats(o.Clock.Now())
	c.server = rpc.NewServer(o.Clock, o.Log)
	c.server.SetListener(rpc.ConnListener{Closed: func(conn reactor.Conn, _ error) {
		c.connClosed(conn.ID())
	}})
	c.client = client.New(client.Options{Dialer: o.Dialer, LinkTimeout: client.ServerLinkTimeout, Log: o.Log,
		WriteTimeout: notifyTimeout, ConnectTimeout: time.Duration(o.Config.Client().ConnectTimeoutMillis) * time.Millisecond})
	c.notify = newNotifyService(c.client, o.Log)
	c.sendNotice, c.sendRaft = c.notify.submit, c.sendByLink
	c.register(inline)
	eo := c.engineOptions()
	if err := eo.EnsureDefaults().Validate(); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	c.engine = o.NewEngine(eo)
	return c, nil
}

func (c *Controller) engineOptions() reactor.Options {
	server, own := c.o.Config.Server(), c.o.Config.Own()
	return reactor.Options{
		Listen:             []string{c.members.listenAddr(server.BindAddress)},
		Loops:              own.ReactorLoops,
		MaxConnections:     own.MaxConnections,
		IdleTimeout:        time.Duration(server.ServerChannelMaxIdleTimeSeconds) * time.Second,
		MaxFrameBytes:      own.FrameMaxLength,
		HighWatermarkBytes: own.OutboundHighWatermark,
		LowWatermarkBytes:  own.OutboundLowWatermark,
		SocketSndBuf:       server.ServerSocketSndBufSize,
		SocketRcvBuf:       server.ServerSocketRcvBufSize,
		Backlog:            server.ServerSocketBacklog,
		Log:                c.o.Log,
	}
}

// register binds the request codes to their processors and pools. Heartbeats are heard on the event loops and Raft has a
// pool of its own: what keeps brokers and leaders alive does not wait behind requests.
func (c *Controller) register(onLoop bool) {
	cfg := c.settings()
	requests := c.server.NewPool(rpc.PoolOptions{Name: "controllerRequest", Workers: cfg.ControllerThreadPoolNums,
		Capacity: cfg.ControllerRequestThreadPoolQueueCapacity})
	raft := c.server.NewPool(rpc.PoolOptions{Name: "raft", Workers: node.MaxPeers, Capacity: maxPosted})
	c.server.Register(rpc.Route{Code: codec.ReqBrokerHeartbeat, Processor: &HeartbeatProcessor{c}, OnLoop: true})
	c.server.Register(rpc.Route{Code: codec.ReqControllerRaft, Processor: &RaftProcessor{c}, Pool: raft})
	for _, p := range []struct {
		proc  rpc.Processor
		codes []int
	}{
		{&BrokerProcessor{c}, brokerCodes},
		{&AdminProcessor{c, c.changeable()}, adminCodes},
		{&StatusProcessor{c}, []int{codec.ReqGetBrokerRuntimeInfo}},
	} {
		proc := p.proc
		if onLoop {
			proc = inline{proc}
		}
		for _, code := range p.codes {
			c.server.Register(rpc.Route{Code: code, Processor: proc, Pool: requests, OnLoop: onLoop})
		}
	}
}

// storeDir is the directory of this member's log.
func (c *Controller) storeDir() string {
	base := c.settings().ControllerStorePath
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "."
		}
		base = path.Join(home, "DledgerController")
	}
	return path.Join(base, "skylark-"+strings.NewReplacer(":", "_", "/", "_").Replace(c.members.self.id))
}

// Start reads the log and begins to serve. An address or a directory in use, and a damaged log, are errors that name them.
func (c *Controller) Start() error {
	n, err := c.openNode()
	if err != nil {
		return err
	}
	c.loop = newLoop(c, n)
	for _, m := range c.members.members {
		if m != c.members.self {
			c.addLink(m)
		}
	}
	c.beats = newHeartbeats(c.o.Clock.Now())
	if err := c.engine.Start(c.server); err != nil {
		c.loop = nil
		return errors.Join(fmt.Errorf("controller: %w", err), n.Close())
	}
	c.probing.Store(true)
	go c.loop.run()
	c.o.Log.Info("The Controller Server boot success", "addresses", c.engine.Addrs(), "engine", c.engine.Name(),
		"group", c.members.group, "self", c.members.self.id, "peers", c.members.String(), "dir", c.storeDir())
	return nil
}

// openNode reads this member's log.
func (c *Controller) openNode() (*node.Node, error) {
	dir := c.storeDir()
	if java := path.Join(path.Dir(dir), "dledger-"+c.members.self.id); exists(c.o.FS, java) && !exists(c.o.FS, dir) {
		c.o.Log.Warn("there is the log of a Java controller; it is not read: brokers have to register anew", "dir", java)
	}
	return node.Open(node.Config{Group: c.members.group, Self: c.members.self.id, Peers: c.members.ids(), FS: c.o.FS,
		Dir: dir, Log: c.o.Log})
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return err == nil
}

func (c *Controller) addLink(m member) {
	l := c.loop
	c.links[node.RaftID(m.id)] = &link{to: m, raftID: node.RaftID(m.id), group: c.members.group, from: c.members.self.id,
		client: c.client, log: c.o.Log, ctx: c.ctx,
		unreachable: func(id uint64) { l.post(func() { l.node.Unreachable(id) }) },
		// The verdict on a snapshot has to arrive: without it no more is sent to the member. The loop itself may be the caller.
		snapshotSent: func(id uint64, ok bool) {
			if !l.post(func() { l.node.SnapshotSent(id, ok) }) {
				c.o.Clock.AfterFunc(tickInterval, func() { l.post(func() { l.node.SnapshotSent(id, ok) }) })
			}
		}}
}

// sendByLink has a message of the node sent.
func (c *Controller) sendByLink(m *raftpb.Message) {
	if l := c.links[m.To]; l != nil {
		l.send(m)
	}
}

func (c *Controller) byRaftID(id uint64) member {
	for _, m := range c.members.members {
		if node.RaftID(m.id) == id {
			return m
		}
	}
	return member{}
}

// Addr is the address it listens on.
func (c *Controller) Addr() netip.AddrPort {
	if addrs := c.engine.Addrs(); len(addrs) > 0 {
		return addrs[0]
	}
	return netip.AddrPort{}
}

// Failed is closed when the disk has failed or the log turned out damaged: the controller serves no more and should be
// closed; Err tells why.
func (c *Controller) Failed() <-chan struct{} { return c.failed }

// Err is why Failed is closed, else nil.
func (c *Controller) Err() error {
	if c.loop == nil {
		return nil
	}
	if err := c.loop.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Leading tells whether this member leads the group and decides.
func (c *Controller) Leading() bool { return c.loop != nil && c.loop.role.Load().Ready }

// Close hands the leadership on, ends everything and returns when nothing runs any more; the error is ctx's if
// connections could not be closed in its time. It may be called again, and without Start.
func (c *Controller) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { c.closeErr = c.shutdown(ctx) })
	return c.closeErr
}

func (c *Controller) shutdown(ctx context.Context) error {
	c.engine.StopAccepting()
	if c.loop != nil {
		close(c.loop.stop)
		<-c.loop.done
	}
	for _, l := range c.links {
		l.drain(ctx)
	}
	c.probing.Store(false)
	c.cancel()
	err := c.engine.Stop(ctx)
	c.probes.Wait() // the engine tells of no more connections
	c.server.Close()
	c.notify.close()
	_ = c.client.Close() // a closed client has no errors to tell
	for _, l := range c.links {
		l.wg.Wait()
	}
	if c.loop != nil {
		err = errors.Join(err, c.loop.node.Close())
	}
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// settings is the running configuration.
func (c *Controller) settings() *config.ControllerConfig { return c.o.Config.Controller() }

// configFile is where changed settings are saved.
func (c *Controller) configFile() string { return cmp.Or(c.o.ConfigFile, c.settings().ConfigStorePath) }

// changeable are the settings as commands change them.
func (c *Controller) changeable() *update.Settings {
	return &update.Settings{Set: c.o.Config, FS: c.o.FS, Log: c.o.Log, File: c.configFile,
		BlackList: func() string { return c.settings().ConfigBlackList }}
}

// RequestCodes are the codes that are served; docs/compat.md is checked against them.
func (c *Controller) RequestCodes() []int { return c.server.Codes() }
