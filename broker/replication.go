package broker

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"skylark/broker/member"
	"skylark/broker/slave"
	"skylark/broker/transaction"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/ha"
	"skylark/store"
)

// replica is the broker's part in its group: the master's side of replication, and on a slave the connection to the master
// (package ha). See docs/ha.md.
type replica struct {
	service   *ha.HAService
	client    *ha.HAClient // nil on a master
	switching *switching   // instead of the two in controller mode, else nil
	sync      atomic.Pointer[slave.SlaveSynchronize]
	wake      chan struct{} // the master changed: its tables are copied at once
	crashed   bool          // the process before did not stop in order
	haAddr    net.Addr      // where slaves connect, nil = nobody listens
	// promised tells that answers may have to wait for slaves (SYNC_MASTER).
	promised bool
	live     atomic.Pointer[liveSettings]
	alive    atomic.Int32               // replicas that the name server knows, 0 = nobody asked
	members  *member.Group              // nil without enableSlaveActingMaster
	escape   *transaction.EscapeService // with members, since Start
	// acting tells that this slave acts as master; isolated that the broker is not online yet (see preOnline).
	acting, isolated atomic.Bool
	specials         sync.Mutex
	special          bool // the services of a master were started; guarded by specials

	mu         sync.Mutex
	masterAddr string // of the master's broker, "" = unknown
}

// liveSettings are ha.Live with the snapshots of the configuration that they were made of.
type liveSettings struct {
	store *config.MessageStoreConfig
	own   *config.OwnConfig
	alive int32
	ha.Live
}

// isSlave tells that the log is a copy of a master's now. One atomic load.
func (b *Broker) isSlave() bool { return b.store.Following() }

// makeReplica decides the role. The store is open and not started.
func (b *Broker) makeReplica() error {
	if b.cfg.broker.EnableControllerMode {
		return b.makeSwitching()
	}
	role := b.cfg.store.BrokerRole
	b.replica.service = ha.NewHAService(ha.Options{Log: b.store, Clock: b.clock, Slog: b.o.Log.With("part", "ha"),
		Live: b.haLive})
	switch role {
	case config.Slave:
		b.store.Follow()
		b.replica.client = ha.NewHAClient(ha.ClientOptions{Log: b.store, Clock: b.clock, Slog: b.o.Log.With("part", "ha"),
			Live: b.haLive, Dial: b.dialMaster, MasterRange: b.masterRange})
		b.replica.client.SetMaster(b.cfg.store.HaMasterAddress)
		b.replica.wake = make(chan struct{}, 1)
	case config.SyncMaster:
		b.replica.promised = true
		b.store.SetReplicas(b.replica.service)
	}
	return nil
}

// haLive translates Java's keys; the result is kept until one of them changes.
func (b *Broker) haLive() *ha.Live {
	c, own, alive := b.o.Config.Store(), b.o.Config.Own(), b.replica.alive.Load()
	if l := b.replica.live.Load(); l != nil && l.store == c && l.own == own && l.alive == alive {
		return &l.Live
	}
	bc := b.cfg.broker
	l := &liveSettings{store: c, own: own, alive: alive, Live: ha.Live{
		HeartbeatInterval: millis(c.HaSendHeartbeatInterval), HousekeepingInterval: millis(c.HaHousekeepingInterval),
		TransferBatchBytes: c.HaTransferBatchSize, MaxGapNotInSync: int64(c.HaMaxGapNotInSync),
		SlaveTimeout: millis(c.SlaveTimeout), InSyncReplicas: c.InSyncReplicas, MinInSyncReplicas: c.MinInSyncReplicas,
		AutoInSync: c.EnableAutoInSyncReplicas, Refuse: bc.EnableSlaveActingMaster, AliveReplicas: int(alive),
		AllAckInSyncStateSet: c.AllAckInSyncStateSet, MaxTimeSlaveNotCatchup: millis(c.HaMaxTimeSlaveNotCatchup),
		SyncFromLastFile: c.SyncFromLastFile, AsyncLearner: c.AsyncLearner}}
	if c.HaFlowControlEnable {
		l.MaxBytesInSecond = c.MaxHaTransferByteInSecond
	}
	switch {
	case bc.EnableControllerMode: // the role is SYNC_MASTER when it is a master's
		l.Rule, l.Refuse = ha.InSyncReplicas, true
		if own.HaAckRule == ackMajority {
			quorum(&l.Live, c)
		}
	case c.BrokerRole == config.SyncMaster:
		l.Rule = ha.OneSlave
		if own.HaAckRule == "java5" || own.HaAckRule == "auto" && (c.InSyncReplicas > 1 || bc.EnableSlaveActingMaster) {
			l.Rule = ha.InSyncReplicas
		}
	}
	b.replica.live.Store(l)
	return &l.Live
}

// listenHA binds the port for slaves.
func (b *Broker) listenHA() error {
	addr := b.o.ListenHA
	if addr == "" {
		if b.o.Listen != nil {
			return nil
		}
		addr = net.JoinHostPort(b.o.Config.Server().BindAddress, strconv.Itoa(b.cfg.store.HaListenPort))
	}
	listen := b.o.ListenOn
	if listen == nil {
		listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	l, err := listen(addr)
	if err != nil {
		return fmt.Errorf("broker: haListenPort %d: %w", b.cfg.store.HaListenPort, err)
	}
	b.replica.haAddr = l.Addr()
	if s := b.replica.switching; s != nil {
		s.ha.Start(l)
	} else {
		b.replica.service.Start(l)
	}
	if b.o.ListenHA == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	n, _ := strconv.Atoi(port) // the system's own number
	b.advertisedHA, err = advertiseHA(b.o.Config, b.advertised, n)
	return err
}

// startReplica begins to follow the master.
func (b *Broker) startReplica() {
	if b.replica.switching != nil {
		b.startSwitching()
		return
	}
	b.startMembers()
	if b.replica.client == nil {
		return
	}
	b.replica.client.Start()
	b.replica.sync.Store(b.newSynchronize())
	b.tasks.Add(1)
	go b.synchronize()
}

// synchronize copies the master's tables by the clock, and at once when the master changed.
func (b *Broker) synchronize() {
	defer b.tasks.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-b.stop
		cancel()
	}()
	all, timers, offsets := b.clock.NewTicker(slave.Interval), b.clock.NewTicker(slave.TimerInterval),
		b.clock.NewTicker(slave.OffsetsInterval)
	defer all.Stop()
	defer timers.Stop()
	defer offsets.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-b.replica.wake:
			b.syncTables(ctx, syncAll)
		case <-all.C():
			b.syncTables(ctx, syncAll)
		case <-timers.C():
			if addr := b.o.Config.Store().HaMasterAddress; addr != "" && b.replica.client != nil {
				b.replica.client.SetMaster(addr) // it may have been set meanwhile
			}
			b.syncTables(ctx, syncTimer)
		case <-offsets.C():
			b.syncTables(ctx, syncOffsets)
		}
	}
}

func syncAll(ctx context.Context, s *slave.SlaveSynchronize) bool { return s.SyncAll(ctx) }

func syncTimer(ctx context.Context, s *slave.SlaveSynchronize) bool {
	s.SyncTimer(ctx)
	return true
}

func syncOffsets(ctx context.Context, s *slave.SlaveSynchronize) bool {
	s.SyncOffsets(ctx)
	return true
}

// wakeSync has the master's tables copied at once.
func (b *Broker) wakeSync() {
	select {
	case b.replica.wake <- struct{}{}:
	default:
	}
}

// linked tells that this slave is connected to its master and follows it.
func (b *Broker) linked() bool {
	if s := b.replica.switching; s != nil {
		return s.ha.State() == ha.ClientTransfer
	}
	return b.replica.client != nil && b.replica.client.State() == ha.ClientTransfer
}

// closeReplica ends the replication, when nobody waits for copies any more.
func (b *Broker) closeReplica() error {
	if s := b.replica.switching; s != nil {
		return s.ha.Close()
	}
	if b.replica.client != nil {
		b.replica.client.Close()
	}
	return b.replica.service.Close()
}

// dialMaster connects to the master's HA port.
func (b *Broker) dialMaster(ctx context.Context, addr string) (net.Conn, error) {
	if b.o.Dialer != nil {
		return b.o.Dialer.DialContext(ctx, "tcp", addr)
	}
	return client.NewDialer(client.ServerLinkTimeout).DialContext(ctx, "tcp", addr)
}

// masterRange asks the master for the ends of its log, by GET_BROKER_RUNTIME_INFO, which Java's answers as well.
func (b *Broker) masterRange(ctx context.Context) (*ha.Range, error) {
	addr := b.master()
	if addr == "" {
		return nil, errNoMaster
	}
	answer, err := b.registrar.client.Do(ctx, addr, codec.NewRequest(codec.ReqGetBrokerRuntimeInfo))
	if err != nil {
		return nil, err
	}
	var info body.KVTable
	if err := body.Decode(answer.Body, &info); err != nil {
		return nil, err
	}
	r := &ha.Range{}
	for key, to := range map[string]*store.PhyOffset{"commitLogMinOffset": &r.Min, "commitLogMaxOffset": &r.Max} {
		n, err := strconv.ParseInt(info.Table[key], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("broker: the master says %s=%q", key, info.Table[key])
		}
		*to = store.PhyOffset(max(n, 0)) // Java says -1 of a log without files
	}
	return r, nil
}

// master is the address of the master's broker, "" while it is unknown.
func (b *Broker) master() string {
	b.replica.mu.Lock()
	defer b.replica.mu.Unlock()
	return b.replica.masterAddr
}

// masterFound is told by each registration who the master is (Java BrokerController.handleRegisterBrokerResult); both are
// empty while there is none.
func (b *Broker) masterFound(masterAddr, haAddr string) {
	if s := b.replica.switching; s != nil { // the controllers say who it is
		if haAddr != "" && masterAddr == b.master() && b.isSlave() {
			s.ha.SetMaster(haAddr)
		}
		return
	}
	if b.replica.client == nil || masterAddr == b.advertised.Text {
		return
	}
	b.replica.mu.Lock()
	changed := b.replica.masterAddr != masterAddr
	b.replica.masterAddr = masterAddr
	b.replica.mu.Unlock()
	if changed {
		b.log.Info("master changed", "to", masterAddr, "haServerAddr", haAddr)
		b.wakeSync()
	}
	if b.o.Config.Store().HaMasterAddress == "" && haAddr != "" {
		b.replica.client.SetMaster(haAddr)
	}
}

// errNoMaster: nobody has said who the master is.
var errNoMaster = fmt.Errorf("%w: the master of this slave is unknown", client.ErrClosed)

// HAInfo is the answer to GET_BROKER_HA_STATUS (907).
func (b *Broker) HAInfo() *body.HARuntimeInfo {
	info := &body.HARuntimeInfo{HAConnectionInfo: []*body.HAConnectionRuntimeInfo{}, Master: !b.isSlave(),
		HAClientRuntimeInfo: &body.HAClientRuntimeInfo{}}
	if b.isSlave() {
		s := b.clientStatus()
		info.HAClientRuntimeInfo = &body.HAClientRuntimeInfo{Activated: s.Activated, LastReadTimestamp: s.LastRead,
			LastWriteTimestamp: s.LastWrite, MasterAddr: s.Master, MaxOffset: s.Max,
			MasterFlushOffset: b.store.MasterFlushedOffset(), TransferredByteInSecond: s.BytesPerSecond}
		return info
	}
	info.MasterCommitLogMaxOffset = b.store.MaxPhyOffset()
	for _, s := range b.slaves() {
		if s.InSync {
			info.InSyncSlaveNums++
		}
		info.HAConnectionInfo = append(info.HAConnectionInfo, &body.HAConnectionRuntimeInfo{Addr: s.Remote, Diff: s.Behind,
			InSync: s.InSync, SlaveAckOffset: s.Ack, TransferFromWhere: s.Next, TransferredByteInSecond: s.BytesPerSecond})
	}
	return info
}

// slaves are those that are connected.
func (b *Broker) slaves() []ha.SlaveStatus {
	if s := b.replica.switching; s != nil {
		return s.ha.Slaves()
	}
	return b.replica.service.Slaves()
}

// clientStatus is the state of a slave's connection to its master.
func (b *Broker) clientStatus() ha.ClientStatus {
	switch s := b.replica.switching; {
	case s != nil:
		return s.ha.Status()
	case b.replica.client != nil:
		return b.replica.client.Status()
	}
	return ha.ClientStatus{}
}

// HA is the master's side of replication, for tools that live in the same process; nil in controller mode.
func (b *Broker) HA() *ha.HAService { return b.replica.service }

// HAAddr is where slaves connect, nil if nobody listens.
func (b *Broker) HAAddr() net.Addr { return b.replica.haAddr }
