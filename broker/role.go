package broker

import (
	"context"
	"fmt"
	"net"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skylark/broker/replicas"
	"skylark/broker/slave"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/ha"
)

// switching is what a broker in controller mode has (enableControllerMode; Java ReplicasManager with AutoSwitchHAService):
// its role is what the controllers say, and changes while it runs. Until it has the first one it is a slave of nobody,
// and in no route. See package replicas and docs/ha.md.
type switching struct {
	ha       *ha.AutoSwitchHAService
	manager  atomic.Pointer[replicas.Service] // nil before Start
	identity replicas.Identity
	tasks    sync.WaitGroup

	// Of takeRole, of which one runs at a time.
	leads   bool
	search  context.CancelFunc // ends the search for the master's HA address, nil = there is none
	ordered bool               // the POP service was started

	// syncing is held while tables are copied from the master; off ends that.
	syncing sync.Mutex
	off     atomic.Bool
	cancel  atomic.Pointer[context.CancelFunc]
}

// Rhythms of a slave in controller mode.
const (
	// searchInterval is how often a slave looks whether it is connected to its master, and while it is not asks where to
	// connect.
	searchInterval = 250 * time.Millisecond
	// For soonTime after a new role it looks every soonInterval: the new master may only just become one, and its sends wait
	// for this slave.
	soonInterval, soonTime = 5 * time.Millisecond, time.Second
	// searchTimeout bounds the question.
	searchTimeout = time.Second
)

// makeSwitching prepares for a role that the controllers decide. The store is open and not started.
func (b *Broker) makeSwitching() error {
	c, bc := b.cfg.store, b.cfg.broker
	log := b.o.Log.With("part", "ha")
	epochs, err := ha.OpenEpochs(b.o.FS, or(c.StorePathEpochFile, path.Join(c.StorePathRootDir, "epochFileCheckpoint")), log)
	if err != nil {
		return err
	}
	s := &switching{}
	if s.identity, err = replicas.LoadIdentity(b.o.FS, b.identityPath(), bc.BrokerClusterName, bc.BrokerName); err != nil {
		return err
	}
	b.store.Follow()
	s.ha, err = ha.NewAutoSwitchHAService(ha.SwitchOptions{Log: b.store, Clock: b.clock, Slog: log, Live: b.haLive,
		Epochs: epochs, Dial: b.dialMaster, MasterRange: b.masterRange, AlterSyncStateSet: func(set []int64) {
			if m := s.manager.Load(); m != nil {
				m.WantSet(set)
			}
		}})
	if err != nil {
		return err
	}
	b.store.SetReplicas(s.ha)
	b.replica.switching = s
	b.replica.promised = true
	b.replica.isolated.Store(true)
	b.replica.wake = make(chan struct{}, 1)
	return nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// identityPath is Java's file of the broker's id.
func (b *Broker) identityPath() string {
	return or(b.cfg.store.StorePathBrokerIdentity, path.Join(b.cfg.store.StorePathRootDir, "brokerIdentity"))
}

// crashed tells that the process before did not stop in order. Asked before the store is opened.
func (b *Broker) crashed() bool {
	_, err := b.o.FS.Stat(path.Join(b.cfg.store.StorePathRootDir, "abort"))
	return err == nil
}

// startSwitching begins to speak with the controllers.
func (b *Broker) startSwitching() {
	s, c := b.replica.switching, b.cfg.broker
	b.tasks.Add(2)
	go b.synchronize()
	go b.resignUnfit()
	m := replicas.NewService(replicas.ServiceOptions{
		Manager: replicas.Options{Cluster: c.BrokerClusterName, Name: c.BrokerName, Address: b.advertised.Text,
			Controllers: b.controllerAddrs(), Identity: s.identity,
			HeartbeatInterval:            millis(c.BrokerHeartbeatInterval),
			HeartbeatTimeout:             millis(c.ControllerHeartBeatTimeoutMills),
			SyncControllerMetadataPeriod: millis(c.SyncControllerMetadataPeriod),
			SyncBrokerMetadataPeriod:     millis(c.SyncBrokerMetadataPeriod), Unclean: b.replica.crashed,
			Lease: millis(b.o.Config.Own().ControllerLeaseMillis)},
		FS: b.o.FS, IdentityPath: b.identityPath(), Clock: b.clock, Log: b.o.Log.With("part", "replicas"),
		Call: b.registrar.client.Call, Oneway: b.registrar.client.Oneway, Controllers: b.lookUpControllers,
		SendTimeout: millis(c.SendHeartbeatTimeoutMillis), Priority: int32(c.BrokerElectionPriority), Alive: b.alive,
		TakeRole: b.takeRole, SetChanged: s.ha.SetSyncStateSet, SetRefused: s.ha.AlterRefused,
		Fence: b.store.Fence})
	s.manager.Store(m)
	m.Start()
}

// alive is what heartbeats tell.
func (b *Broker) alive() replicas.Alive {
	s := b.replica.switching.ha
	return replicas.Alive{Epoch: s.LastEpoch(), MaxOffset: b.store.MaxPhyOffset(), ConfirmOffset: s.ConfirmOffset()}
}

// lookUpControllers lists the controllers: as configured, or all addresses of the names (fetchControllerAddrByDnsLookup).
func (b *Broker) lookUpControllers(ctx context.Context) (list []string, err error) {
	addrs := b.controllerAddrs()
	if !b.cfg.broker.FetchControllerAddrByDnsLookup {
		return addrs, nil
	}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		hosts, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			list = append(list, net.JoinHostPort(h, port))
		}
	}
	return list, nil
}

// takeRole makes the broker master or slave (Java ReplicasManager.changeToMaster, changeToSlave).
func (b *Broker) takeRole(ctx context.Context, id int64, r *replicas.Role) error {
	began := b.clock.Now()
	take := b.follow
	if r.Master {
		take = b.lead
	}
	if err := take(ctx, id, r); err != nil {
		return err
	}
	b.log.Warn("role taken", "master", r.Master, "id", id, "masterEpoch", r.Epoch, "masterId", r.MasterID, "masterAddr",
		r.MasterAddress, "phyOffset", int64(b.store.MaxPhyOffset()), "took", b.clock.Now().Sub(began))
	return nil
}

// lead makes the broker the master.
func (b *Broker) lead(ctx context.Context, id int64, r *replicas.Role) error {
	s := b.replica.switching
	if !s.leads {
		s.stopSearch()
		b.replica.isolated.Store(true) // until it serves
		s.stopSync()                   // the tables are ours from here on
		b.setMaster("")
		s.ha.SetMaster("")
		b.fillDuplicates()
	}
	if err := b.nextState(r.Epoch); err != nil {
		return err
	}
	if err := s.ha.BecomeMaster(ctx, id, r.Epoch, r.SyncStateSet, r.SyncStateSetEpoch); err != nil {
		return err
	}
	if s.leads {
		b.announce()
		return nil // the same master counts on
	}
	s.leads = true
	b.adoptTopics()
	b.assume(codec.MasterID, config.SyncMaster)
	b.announce()
	if err := b.beginSpecial(); err != nil {
		b.log.Error("timer not started", "error", err)
	}
	return nil
}

// adoptTopics makes the topics that the log has and the table has not: the old master died before they were copied. They get
// as many queues as they have in the log, at least as many as a new topic.
func (b *Broker) adoptTopics() {
	var list []body.TopicConfig
	for _, name := range b.store.Topics() {
		if b.topics.Get(name) != nil || b.topics.IsSystem(name) || codec.IsLMQ(name) || codec.ValidateTopic(name) != nil {
			continue
		}
		n := int32(b.cfg.broker.DefaultTopicQueueNums)
		if codec.IsRetryTopic(name) || codec.IsDLQTopic(name) {
			n = 1
		}
		for _, q := range b.store.Queues(name) {
			n = max(n, q+1)
		}
		list = append(list, body.TopicConfig{TopicName: name, ReadQueueNums: n, WriteQueueNums: n,
			Perm: codec.PermRead | codec.PermWrite})
	}
	if len(list) == 0 {
		return
	}
	if err := b.topics.Update(list...); err != nil {
		b.log.Error("topics of the log that the table lacks are not made", "topics", len(list), "error", err)
		return
	}
	b.log.Warn("topics were made of what is in the log: the old master had not told them yet", "topics", len(list), "first",
		list[0].TopicName)
}

// nextState begins versions of the tables that are newer than those of all masters before.
func (b *Broker) nextState(epoch int32) error {
	if err := b.topics.NextState(epoch); err != nil {
		return err
	}
	if err := b.groups.NextState(epoch); err != nil {
		return err
	}
	b.offsets.NextState(epoch)
	if b.replica.switching.leads {
		return nil // the schedule is under way
	}
	return b.svc().schedule.NextState(epoch)
}

// follow makes the broker a slave. Sends are refused from the moment that the store follows.
func (b *Broker) follow(ctx context.Context, id int64, r *replicas.Role) error {
	s := b.replica.switching
	s.stopSearch()
	if s.leads {
		defer b.passOn(r.MasterAddress)()
	}
	if b.master() != r.MasterAddress {
		s.ha.SetMaster("") // the old master may be alive, know of no other, and take an old slave's reports for copies
	}
	if err := s.ha.BecomeSlave(ctx, id, r.Epoch); err != nil {
		return err
	}
	if err := b.endSpecial(); err != nil {
		return fmt.Errorf("broker: special services: %w", err)
	}
	s.leads = false
	b.assume(id, config.Slave)
	s.stopSync()
	b.replica.sync.Store(b.newSynchronize())
	b.setMaster(r.MasterAddress)
	s.off.Store(false)
	b.wakeSync()
	searching, stop := context.WithCancel(b.registrar.ctx)
	s.search = stop
	s.tasks.Go(func() { b.searchMaster(searching, r.MasterAddress) })
	b.announce()
	return nil
}

// announce has the name servers know the broker with its role. It does not wait for them.
func (b *Broker) announce() {
	b.replica.isolated.Store(false)
	b.replica.switching.tasks.Go(b.registrar.registerAll)
}

// endSpecial ends the services of a master.
func (b *Broker) endSpecial() error {
	b.replica.specials.Lock()
	defer b.replica.specials.Unlock()
	if !b.replica.special {
		return nil
	}
	b.duplicates.Clear()
	if err := b.renewServices(); err != nil {
		return err
	}
	b.replica.special = false
	return nil
}

// assume changes what the configuration says of the broker, as Java does: tools show it, and it is what is registered.
func (b *Broker) assume(id int64, role config.BrokerRole) {
	b.o.Config.Override("brokerId", strconv.FormatInt(id, 10))
	b.o.Config.Override("brokerRole", string(role))
}

// brokerID is the id that the broker is registered with: 0 on a master.
func (b *Broker) brokerID() int64 { return b.o.Config.Broker().BrokerId }

func (s *switching) stopSearch() {
	if s.search != nil {
		s.search()
		s.search = nil
	}
}

// stopSync ends the copying of tables, and returns when nothing of it is under way.
func (s *switching) stopSync() {
	s.off.Store(true)
	if cancel := s.cancel.Load(); cancel != nil {
		(*cancel)()
	}
	s.syncing.Lock() // who has it sees off
	defer s.syncing.Unlock()
}

// syncTables copies the master's tables; false without a master, or if something failed.
func (b *Broker) syncTables(ctx context.Context, f func(ctx context.Context, s *slave.SlaveSynchronize) bool) bool {
	sync := b.replica.sync.Load()
	if s := b.replica.switching; s != nil {
		s.syncing.Lock()
		defer s.syncing.Unlock()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		s.cancel.Store(&cancel)
		if s.off.Load() {
			return false
		}
		sync = b.replica.sync.Load()
	}
	return sync != nil && f(ctx, sync)
}

// newSynchronize makes what copies the master's tables.
func (b *Broker) newSynchronize() *slave.SlaveSynchronize {
	s := b.svc()
	return slave.New(slave.Options{Client: b.registrar.client, Clock: b.clock, Log: b.o.Log.With("part", "slave"),
		Master: b.master,
		Topics: b.topics, Groups: b.groups, Offsets: b.offsets, Schedule: s.schedule, Modes: b.modes, Timer: s.timer,
		Acting: b.replica.acting.Load})
}

// searchMaster finds the HA address of the master at addr, and again when the connection to it has ended; then the
// controllers are asked whether it still is the master.
func (b *Broker) searchMaster(ctx context.Context, addr string) {
	s := b.replica.switching
	t := b.clock.NewTicker(soonInterval)
	defer func() { t.Stop() }()
	was, soon := false, b.clock.Now().Add(soonTime)
	for {
		on := b.linked()
		if !on {
			if haAddr, err := b.haAddrOf(ctx, addr); err == nil && haAddr != "" && ctx.Err() == nil {
				s.ha.SetMaster(haAddr)
			}
		}
		if was && !on {
			if m := s.manager.Load(); m != nil {
				m.LookNow()
			}
		}
		was = on
		if !soon.IsZero() && (on || b.clock.Now().After(soon)) {
			soon = time.Time{}
			t.Stop()
			t = b.clock.NewTicker(searchInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		}
	}
}

// haAddrOf asks a broker for its HA address (906), which only a master tells.
func (b *Broker) haAddrOf(ctx context.Context, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	answer, err := b.registrar.client.Do(ctx, addr, codec.NewRequest(codec.ReqExchangeBrokerHAInfo))
	if err != nil {
		return "", err
	}
	var h codec.ExchangeHAInfoHeader
	err = codec.DecodeHeader(answer, &h)
	return h.MasterHAAddress, err
}

// closeSwitching ends changes of role; the broker keeps the one it has.
func (b *Broker) closeSwitching() {
	s := b.replica.switching
	if s == nil {
		return
	}
	if m := s.manager.Load(); m != nil {
		m.Close()
	}
	s.stopSearch()
	s.tasks.Wait()
}

// Replicas is what the broker knows of its controllers; zero without enableControllerMode, and before Start.
func (b *Broker) Replicas() (st replicas.Status) {
	if s := b.replica.switching; s != nil {
		if m := s.manager.Load(); m != nil {
			return m.Status()
		}
	}
	return st
}
