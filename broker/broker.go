package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skylark/broker/coldctr"
	"skylark/broker/conn"
	"skylark/broker/consumeradmin"
	"skylark/broker/consumerfilter"
	"skylark/broker/dedup"
	"skylark/broker/group"
	"skylark/broker/hold"
	"skylark/broker/lock"
	"skylark/broker/offset"
	"skylark/broker/pop"
	"skylark/broker/reply"
	"skylark/broker/schedule"
	"skylark/broker/statictopic"
	"skylark/broker/stats"
	"skylark/broker/topic"
	"skylark/client"
	"skylark/codec"
	"skylark/config"
	"skylark/internal/clock"
	"skylark/internal/latency"
	"skylark/internal/persist"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// Options of a broker.
type Options struct {
	// Config is what the files and flags say; it belongs to the broker from New on.
	Config *config.Set
	// NewEngine makes the event loops.
	NewEngine func(reactor.Options) reactor.Engine
	FS        vfs.FS
	Clock     clock.Clock
	Log       *slog.Logger
	// Dialer connects to name servers; nil = TCP.
	Dialer client.Dialer
	// Listen replaces bindAddress:listenPort and its VIP port (tests: port 0). No slaves are listened for then, unless
	// ListenHA says where.
	Listen   []string
	ListenHA string
	// ListenOn makes the listener for slaves; nil = TCP.
	ListenOn func(addr string) (net.Listener, error)
}

// settings is the configuration that requests look at.
type settings struct {
	broker       *config.BrokerConfig
	store        *config.MessageStoreConfig
	heapTransfer bool
}

// Broker is a running broker.
type Broker struct {
	o       Options
	cfg     settings
	log     *slog.Logger
	clock   clock.Clock
	started int64 // ms

	store      *store.MessageStore
	busy       func() bool // store.PageCacheBusy
	topics     *topic.Manager
	statics    *statictopic.Manager
	groups     *group.Manager
	offsets    *offset.Manager
	consumers  *conn.ConsumerManager
	producers  *conn.ProducerManager
	filters    *consumerfilter.Manager
	stats      *stats.Manager
	services   atomic.Pointer[services]
	hold       *hold.PullRequestHoldService
	pop        *pop.Service
	popNotices *pop.Polling // those who wait until there is something to pop
	popPeers   popPeers
	modes      *pop.ModeManager
	replies    *reply.Pusher
	requesters *reply.Requesters // connections that requests came in by
	locks      *lock.RebalanceLockManager
	groupAdmin *consumeradmin.Admin
	duplicates *dedup.Windows // nil without duplicateSuppressionEnable
	readers    *readers
	cold       *coldctr.Control
	coldHold   coldHold

	subscriptions *conn.SubscriptionCache
	uniqueIDs     *codec.UniqueIDGenerator
	server        *rpc.Server
	engine        reactor.Engine
	registrar     *registrar
	replica       replica
	handing       handing
	pools         pools

	advertised    advertised
	advertisedHA  advertised
	storeHost     netip.AddrPort
	storeHostText string
	ownProperties []byte // MSG_REGION, TRACE_ON, CLUSTER of every message
	permission    atomic.Int32
	startAccept   atomic.Int64
	vipPort       uint16
	ready         atomic.Bool
	activity      activity
	notices       notices
	inflight      inflight
	latency       *latency.Recorder
	slow          *latency.SlowRequestService
	probe         dispatchProbe

	stop   chan struct{}
	tasks  sync.WaitGroup
	closed sync.Once
}

// New loads the configuration files and recovers the store. Nothing is served yet.
func New(o Options) (*Broker, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	b := &Broker{o: o, log: o.Log.With("part", "broker"), clock: o.Clock, started: o.Clock.Millis(),
		stop: make(chan struct{})}
	bc, sc := o.Config.Broker(), o.Config.Store()
	if err := refuseDLedger(o.FS, sc); err != nil {
		return nil, err
	}
	b.cfg = settings{broker: bc, store: sc, heapTransfer: bc.TransferMsgByHeap}
	b.permission.Store(int32(bc.BrokerPermission))
	b.startAccept.Store(bc.StartAcceptSendRequestTimeStamp)
	if err := b.makeManagers(); err != nil {
		return nil, err
	}
	b.server = rpc.NewServer(b.clock, b.log)
	b.makeLatency()
	b.makeReplies()
	b.makePools()
	b.registerRoutes()
	b.registrar = newRegistrar(b)
	b.makeHanding()
	b.topics.OnChange(b.topicsChanged)
	return b, nil
}

// makeManagers makes and loads everything that does not need the network.
func (b *Broker) makeManagers() (err error) {
	o, bc, sc := &b.o, b.cfg.broker, b.cfg.store
	configDir := path.Join(sc.StorePathRootDir, "config")
	if err := vfs.MkdirAllSync(o.FS, configDir); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	levels, err := schedule.ParseLevels(sc.MessageDelayLevel)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if err := b.makeTables(configDir, levels); err != nil {
		return err
	}
	b.replica.crashed = b.crashed()
	if b.store, err = store.Open(b.storeOptions(levels)); err != nil {
		return err
	}
	b.busy = b.store.PageCacheBusy
	if err := b.makeReplica(); err != nil {
		return errors.Join(err, b.store.Close())
	}
	s, err := b.makeServices()
	if err != nil {
		return errors.Join(err, b.store.Close())
	}
	b.services.Store(s)
	if err := b.makePop(configDir); err != nil {
		return errors.Join(err, b.store.Close())
	}
	b.locks = lock.New(lock.Options{Clock: b.clock, Log: b.log, MaxLive: millis(o.Config.Own().LockMaxLiveTime),
		FS: o.FS, File: path.Join(configDir, "queueLocks.json")})
	if err := b.load("queue locks", b.locks.Load); err != nil {
		return errors.Join(err, b.store.Close())
	}
	b.makeDuplicates()
	b.subscriptions = conn.NewSubscriptionCache()
	b.consumers = conn.NewConsumerManager(b.clock, b.log, millis(bc.ChannelExpiredTimeout), conn.Events{
		Changed: b.membersChanged, Registered: b.subscribed, Gone: b.filters.Unregister, Ghost: b.endGhost})
	b.producers = conn.NewProducerManager(b.clock)
	b.groupAdmin = consumeradmin.New(consumeradmin.Options{BrokerName: bc.BrokerName, Store: b.store,
		Topics: b.topics, Groups: b.groups, Offsets: b.offsets, Consumers: b.consumers, Filters: b.filters,
		Popped: b.pop.Position, GroupTPS: b.stats.GroupTPS, Clock: b.clock})
	b.readers = newReaders(8, 1<<16)
	b.cold = coldctr.New(bc, sc.ColdDataFlowControlEnable, b.clock)
	b.hold = hold.New(hold.Options{Clock: b.clock, MaxOffset: b.store.MaxOffset, Expired: b.expired})
	return nil
}

// makeTables makes the managers that keep a configuration file and loads them.
func (b *Broker) makeTables(configDir string, levels schedule.Levels) (err error) {
	o, bc, sc := &b.o, b.cfg.broker, b.cfg.store
	b.stats = stats.New(stats.Options{Clock: b.clock, Cluster: bc.BrokerClusterName,
		Detail: bc.EnableDetailStat, MergeLmq: b.mergeLmqStats})
	b.activity = newActivity(b.stats)
	b.topics = topic.New(topic.Options{FS: o.FS, ConfigDir: configDir, Clock: b.clock, Log: b.log,
		ClusterName: bc.BrokerClusterName, BrokerName: bc.BrokerName, AutoCreateTopicEnable: bc.AutoCreateTopicEnable,
		DefaultTopicQueueNums: bc.DefaultTopicQueueNums, ClusterTopicEnable: bc.ClusterTopicEnable,
		BrokerTopicEnable: bc.BrokerTopicEnable, TraceTopicEnable: bc.TraceTopicEnable,
		MsgTraceTopicName: bc.MsgTraceTopicName, TimerWheelEnable: sc.TimerWheelEnable,
		ReviveQueueNum: bc.ReviveQueueNum, ValidateSystemTopic: bc.ValidateSystemTopicWhenUpdateTopic,
		MixedMessageType: bc.EnableMixedMessageType, ScheduleQueues: levels.Max(), Stats: b.stats,
		EnableLmq: sc.EnableLmq})
	b.statics = statictopic.New(statictopic.Options{FS: o.FS, ConfigDir: configDir, Clock: b.clock, Log: b.log,
		BrokerName: bc.BrokerName})
	b.groups = group.New(group.Options{FS: o.FS, ConfigDir: configDir, Clock: b.clock, Log: b.log,
		AutoCreateSubscriptionGroup: bc.AutoCreateSubscriptionGroup, EnableCreateSysGroup: bc.EnableCreateSysGroup,
		EnableLmq: sc.EnableLmq})
	b.offsets = offset.New(offset.Options{FS: o.FS, ConfigDir: configDir, Clock: b.clock, Log: b.log,
		VersionStep: b.offsetVersionStep(), Durable: b.flushPops, EnableLmq: sc.EnableLmq})
	if err = b.makeFilters(configDir); err != nil {
		return err
	}
	return errors.Join(b.load("topics", b.topics.Load), b.load("static topics", b.statics.Load),
		b.load("subscription groups", b.groups.Load),
		b.load("consumer offsets", b.offsets.Load), b.load("SQL92 subscriptions", b.filters.Load))
}

// load reads a table's file. A damaged one, with a damaged backup, leaves the table empty: both have been
// kept aside.
func (b *Broker) load(table string, load func() error) error {
	err := load()
	if errors.Is(err, persist.ErrDamaged) {
		b.log.Error("TABLE IS EMPTY: its file and backup are damaged", "table", table, "error", err)
		return nil
	}
	return err
}

// delivered counts a delayed message for its real topic, as taken from the schedule topic by a group of its
// own (Java ScheduleMessageService.onSuccess).
func (b *Broker) delivered(d schedule.Delivery) {
	if t := b.topics.Get(d.Topic); t != nil {
		t.Put.Count(d.QueueID, 1, d.SizeBytes, 0)
		b.stats.CountPut(1, t.System)
	}
	if b.cfg.store.EnableScheduleMessageStats {
		queueID := int32(d.Level - 1)
		b.stats.QueueGet(codec.ScheduleConsumerGroup, codec.ScheduleTopic, queueID, 1, d.SizeBytes)
		b.stats.GroupGet(codec.ScheduleConsumerGroup, codec.ScheduleTopic).Count(queueID, 1, d.SizeBytes,
			d.LateMillis)
	}
}

// arrived is the store's report of messages that can be consumed now.
func (b *Broker) arrived(batch []store.Arrival) {
	b.probe.arrived(b)
	for i := range batch {
		a := &batch[i]
		if a.Topic == codec.ScheduleTopic {
			b.svc().schedule.Arrived(a.QueueID)
			continue
		}
		if a.Topic == codec.TimerTopic && b.svc().timer != nil {
			b.svc().timer.Arrived()
			continue
		}
		if a.TagsUnknown { // whoever waits looks into the batch
			b.hold.WakeQueue(hold.Key{Topic: a.Topic, QueueID: a.QueueID})
		} else {
			b.hold.Arrived(a.Topic, a.QueueID, a.QueueOffset, a.TagsCode, a.Properties)
		}
		b.popArrived(a)
	}
}

// Start serves: the store's services first, then the listeners, then the registration.
func (b *Broker) Start() error {
	if err := errors.Join(b.store.Start(), b.topics.Persist()); err != nil {
		return errors.Join(err, b.Close(context.Background()))
	}
	b.stats.Start()
	b.slow.Start()
	if err := b.startSpecial(); err != nil {
		return errors.Join(err, b.Close(context.Background()))
	}
	b.startDuplicates()
	if err := errors.Join(b.listen(), b.listenHA()); err != nil {
		return errors.Join(err, b.Close(context.Background()))
	}
	b.startReplica()
	b.startTasks()
	b.registrar.start()
	b.log.Info("broker started", "name", b.cfg.broker.BrokerName, "cluster", b.cfg.broker.BrokerClusterName,
		"id", b.cfg.broker.BrokerId, "listen", fmt.Sprint(b.engine.Addrs()), "advertised", b.advertised.Text,
		"because", b.advertised.Why, "haAdvertised", b.advertisedHA.Text, "engine", b.engine.Name(),
		"store", b.cfg.store.StorePathRootDir, "flushDiskType", string(b.cfg.store.FlushDiskType),
		"namesrv", b.cfg.broker.NamesrvAddr, "millis", b.clock.Millis()-b.started)
	return nil
}

// listen binds the main and the VIP port and decides what is advertised.
func (b *Broker) listen() error {
	srv, own := b.o.Config.Server(), b.o.Config.Own()
	listen := b.o.Listen
	if listen == nil {
		listen = []string{net.JoinHostPort(srv.BindAddress, strconv.Itoa(srv.ListenPort))}
		if vip := srv.ListenPort - 2; vip > 0 {
			listen = append(listen, net.JoinHostPort(srv.BindAddress, strconv.Itoa(vip)))
		}
	}
	if err := b.advertise(srv.ListenPort); err != nil {
		return err
	}
	engine := b.o.NewEngine(reactor.Options{Listen: listen, Loops: own.ReactorLoops,
		MaxConnections: own.MaxConnections,
		IdleTimeout:    time.Duration(srv.ServerChannelMaxIdleTimeSeconds) * time.Second,
		MaxFrameBytes:  own.FrameMaxLength, HighWatermarkBytes: own.OutboundHighWatermark,
		LowWatermarkBytes: own.OutboundLowWatermark, SocketSndBuf: srv.ServerSocketSndBufSize,
		SocketRcvBuf: srv.ServerSocketRcvBufSize, Backlog: srv.ServerSocketBacklog, Log: b.log})
	if err := engine.Start(b.server); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	b.engine = engine
	addrs := engine.Addrs()
	if len(addrs) > 1 {
		b.vipPort = addrs[1].Port()
	}
	if b.o.Listen != nil { // the port was not known before
		if err := b.advertise(int(addrs[0].Port())); err != nil {
			return err
		}
	}
	b.ready.Store(true) // from here on connections are taken, and see all of the above
	return nil
}

func (b *Broker) advertise(port int) (err error) {
	if b.advertised, err = advertise(b.o.Config, port); err != nil {
		return err
	}
	if b.advertisedHA, err = advertiseHA(b.o.Config, b.advertised, b.cfg.store.HaListenPort); err != nil {
		return err
	}
	b.storeHost, b.storeHostText = b.advertised.Host, b.advertised.Text
	b.uniqueIDs = codec.NewUniqueIDGenerator(b.storeHost.Addr(), os.Getpid(), uint32(b.started), b.clock.Now)
	props := codec.AppendProperty(nil, codec.PropMsgRegion, b.cfg.broker.RegionId)
	props = codec.AppendProperty(props, codec.PropTraceSwitch, strconv.FormatBool(b.cfg.broker.TraceOn))
	b.ownProperties = codec.AppendProperty(props, codec.PropCluster, b.cfg.broker.BrokerClusterName)
	return nil
}

// Addr is the address the broker listens on, AdvertisedAddr the one it registers.
func (b *Broker) Addr() netip.AddrPort { return b.engine.Addrs()[0] }

// AdvertisedAddr is host:port as name servers give it to clients.
func (b *Broker) AdvertisedAddr() string { return b.advertised.Text }

// Store is the broker's message store, for tools that live in the same process.
func (b *Broker) Store() *store.MessageStore { return b.store }

// Parked is the number of pulls that wait for messages.
func (b *Broker) Parked() int { return b.hold.Parked() }

func (b *Broker) maxMessageSize() int { return b.cfg.store.MaxMessageSize }

// syncDurability tells whether an answer has to wait for more than the append.
func (b *Broker) syncDurability() bool {
	return b.cfg.store.FlushDiskType == config.SyncFlush || b.replica.promised
}

func (b *Broker) syncFlushTimeout() time.Duration {
	return millis(b.cfg.store.SyncFlushTimeout)
}

// drainTimeout bounds how long a stop waits for requests under way.
const drainTimeout = 5 * time.Second

// Close stops in the order that loses nothing: no new connections, out of the routes, requests under way
// finished, parked ones answered, then delivery, store and offsets. It may be called more than once, and
// without Start.
func (b *Broker) Close(ctx context.Context) (err error) {
	b.closed.Do(func() {
		b.log.Info("broker stops")
		if b.engine != nil {
			b.engine.StopAccepting()
		}
		b.closeSwitching()
		b.registrar.close(ctx)
		close(b.stop)
		deadline := b.clock.Now().Add(drainTimeout)
		if !b.server.Drain(drainTimeout) {
			b.log.Warn("some requests did not finish in time", "limit", drainTimeout)
		}
		b.hold.Close()
		b.closePolling()
		b.handing.service.Close()
		if e := b.handing.gate.Close(); e != nil {
			b.log.Warn("forwarded requests not ended", "error", e)
		}
		if !b.inflight.wait(b.clock, deadline.Sub(b.clock.Now())) {
			b.log.Warn("some answers were not ready in time", "limit", drainTimeout)
		}
		err = b.locks.Close() // before the connections end: their owners shall find their queues again
		if b.engine != nil {
			err = errors.Join(err, b.engine.Stop(ctx))
		}
		b.tasks.Wait()
		if b.replica.escape != nil {
			b.replica.escape.Close()
		}
		err = errors.Join(err, b.closeServices())
		b.log.Info("broker stopped", "error", err)
	})
	return err
}

// closeServices ends what Start began and New opened. The delay offsets are written when the store has
// flushed what they skip.
func (b *Broker) closeServices() error {
	b.server.Close()
	b.readers.close()
	b.stats.Close()
	b.slow.Close()
	s := b.svc()
	s.transactions.Close()
	s.schedule.Close()
	b.pop.Close() // what it puts last goes by way of the timer
	s.close()
	err := errors.Join(b.closeReplica(), b.store.Close())
	err = errors.Join(err, s.schedule.Save(), s.saveTimer(), s.transactions.Save(), b.pop.Save(),
		b.offsets.Persist(), b.filters.Persist())
	return errors.Join(err, b.pop.EndProgress(err == nil))
}
