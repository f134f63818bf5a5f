package broker

import (
	"context"
	"net"
	"sync"
	"time"

	"skylark/broker/member"
	"skylark/broker/transaction"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
	"skylark/ha"
	"skylark/reactor/rpc"
	"skylark/store/timer"
)

const (
	// handshakeTimeout is how long a starting broker waits for a replica to connect (Java: 10 s).
	handshakeTimeout = 10 * time.Second
	// preOnlineInterval is the pause between two tries to come online (Java: 1 s).
	preOnlineInterval = time.Second
)

// joinMembers prepares for a group with acting masters (enableSlaveActingMaster).
func (b *Broker) joinMembers() {
	c := b.cfg.broker
	if !c.EnableSlaveActingMaster || c.EnableControllerMode {
		return
	}
	b.replica.members = member.New(c.BrokerId)
	b.replica.isolated.Store(b.cfg.store.TotalReplicas > 1 && !c.SkipPreOnline && len(b.registrar.servers) > 0)
}

// startMembers begins to tell the name servers that this broker is alive, and to ask them for the others.
func (b *Broker) startMembers() {
	if b.replica.members == nil {
		return
	}
	b.every(millis(b.cfg.broker.BrokerHeartbeatInterval), b.sendHeartbeat)
	b.every(millis(b.cfg.broker.SyncBrokerMemberGroupPeriod), b.lookAround)
	b.replica.escape = transaction.NewEscapeService(transaction.EscapeOptions{
		Options: b.transactionOptions(b.svc().schedule), Acting: b.escapes, Send: b.escapeHalf})
	b.replica.escape.Start()
	if b.replica.isolated.Load() {
		b.log.Info("the broker comes online when the other replicas have connected")
		b.tasks.Add(1)
		go b.preOnline()
	}
}

// sendHeartbeat is BROKER_HEARTBEAT (904) to all name servers.
func (b *Broker) sendHeartbeat() {
	if b.replica.isolated.Load() {
		return
	}
	c := b.cfg.broker
	id := c.BrokerId
	ctx, cancel := context.WithTimeout(b.registrar.ctx, millis(c.SendHeartbeatTimeoutMillis))
	defer cancel()
	var wg sync.WaitGroup
	for _, addr := range b.registrar.servers {
		wg.Go(func() {
			req := codec.NewRequest(codec.ReqBrokerHeartbeat)
			codec.EncodeHeader(req, &codec.BrokerHeartbeatRequestHeader{ClusterName: c.BrokerClusterName,
				BrokerAddr: b.advertised.Text, BrokerName: c.BrokerName, BrokerID: &id})
			if err := b.registrar.client.Oneway(ctx, addr, req); err != nil {
				b.log.Debug("no heartbeat to a name server", "namesrv", addr, "err", err)
			}
		})
	}
	wg.Wait()
}

// memberAddrs asks a name server for the members of the group (901).
func (b *Broker) memberAddrs() (map[int64]string, error) {
	c := b.cfg.broker
	ctx, cancel := context.WithTimeout(b.registrar.ctx, routeTimeout)
	defer cancel()
	err := errNoRoute
	for _, addr := range b.registrar.servers {
		req := codec.NewRequest(codec.ReqGetBrokerMemberGroup)
		codec.EncodeHeader(req, &codec.GetBrokerMemberGroupRequestHeader{ClusterName: c.BrokerClusterName,
			BrokerName: c.BrokerName})
		var answer *codec.Command
		if answer, err = b.registrar.client.Do(ctx, addr, req); err != nil {
			continue
		}
		var g body.GetBrokerMemberGroupResponseBody
		if err = body.Decode(answer.Body, &g); err != nil {
			continue
		}
		if g.BrokerMemberGroup == nil {
			return nil, nil
		}
		return g.BrokerMemberGroup.BrokerAddrs, nil
	}
	return nil, err
}

// lookAround takes note of who is alive.
func (b *Broker) lookAround() {
	addrs, err := b.memberAddrs()
	if err != nil {
		b.log.Debug("members of the group unknown", "err", err)
		return
	}
	if b.replica.isolated.Load() {
		return
	}
	c, ok := b.replica.members.Seen(addrs)
	b.replica.alive.Store(int32(b.replica.members.Alive()))
	if ok {
		b.groupChanged(&c)
	}
}

// groupChanged does what follows from another smallest id (Java onMinBrokerChange).
func (b *Broker) groupChanged(c *member.Change) {
	b.log.Warn("smallest broker id of the group changed", "id", c.MinID, "remote", c.MinAddr, "acting", c.Acting)
	if !b.isSlave() {
		return
	}
	if c.MasterGone {
		b.setMaster("")
		b.replica.client.SetMaster("")
	}
	if c.MasterBack != "" {
		haAddr := c.HAAddr
		if haAddr == "" {
			haAddr = b.askHAAddr(c.MasterBack)
		}
		b.masterFound(c.MasterBack, haAddr)
	}
	if b.replica.acting.Swap(c.Acting) == c.Acting || !c.Acting {
		return
	}
	b.log.Warn("this slave acts as master: it delivers delayed and timed messages", "enableRemoteEscape",
		b.cfg.broker.EnableRemoteEscape)
	if err := b.beginSpecial(); err != nil {
		b.log.Error("timer not started", "err", err)
	}
}

// askHAAddr asks a master for its HA address (906), "" if it does not say.
func (b *Broker) askHAAddr(addr string) string {
	ctx, cancel := context.WithTimeout(b.registrar.ctx, routeTimeout)
	defer cancel()
	answer, err := b.registrar.client.Do(ctx, addr, codec.NewRequest(codec.ReqExchangeBrokerHAInfo))
	if err != nil {
		b.log.Warn("master does not say its HA address", "remote", addr, "err", err)
		return ""
	}
	var h codec.ExchangeHAInfoHeader
	if err := codec.DecodeHeader(answer, &h); err != nil {
		return ""
	}
	return h.MasterHAAddress
}

// preOnline brings the broker online (Java BrokerPreOnlineService): it is registered when the replicas that are alive have
// connected, and a master has taken back what a slave that acted for it did.
func (b *Broker) preOnline() {
	defer b.tasks.Done()
	t := b.clock.NewTicker(preOnlineInterval)
	defer t.Stop()
	for !b.comeOnline() {
		select {
		case <-b.stop:
			return
		case <-t.C():
		}
	}
}

// comeOnline is one try.
func (b *Broker) comeOnline() bool {
	addrs, err := b.memberAddrs()
	if err != nil {
		b.log.Warn("not online yet: no name server says who is alive", "err", err)
		return false
	}
	others := b.replica.members.Others(addrs)
	switch {
	case !b.isSlave():
		for _, id := range others {
			if !b.greetSlave(addrs[id]) {
				return false
			}
		}
	case addrs[codec.MasterID] != "":
		haAddr := b.askHAAddr(addrs[codec.MasterID])
		if haAddr != "" {
			b.masterFound(addrs[codec.MasterID], haAddr)
			if !b.await(func() bool { return b.replica.client.State() == ha.ClientTransfer }) {
				b.log.Warn("not online yet: the master does not take the replication connection", "remote", haAddr)
				return false
			}
		}
	}
	b.replica.isolated.Store(false)
	if !b.isSlave() {
		if err := b.beginSpecial(); err != nil {
			b.log.Error("timer not started", "err", err)
		}
	}
	b.log.Info("the broker is online", "members", len(others)+1)
	b.registrar.registerAll()
	b.lookAround()
	return true
}

// await polls for up to handshakeTimeout; false also when the broker stops.
func (b *Broker) await(cond func() bool) bool {
	deadline := b.clock.Now().Add(handshakeTimeout)
	t := b.clock.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for !cond() {
		if !b.clock.Now().Before(deadline) {
			return false
		}
		select {
		case <-b.stop:
			return false
		case <-t.C():
		}
	}
	return true
}

// greetSlave tells a slave where its master is, waits for its connection, and takes back what it did meanwhile.
func (b *Broker) greetSlave(addr string) bool {
	ctx, cancel := context.WithTimeout(b.registrar.ctx, handshakeTimeout)
	defer cancel()
	flushed := b.store.MaxPhyOffset()
	req := codec.NewRequest(codec.ReqExchangeBrokerHAInfo)
	codec.EncodeHeader(req, &codec.ExchangeHAInfoHeader{MasterHAAddress: b.advertisedHA.Text, MasterFlushOffset: &flushed,
		MasterAddress: b.advertised.Text})
	if _, err := b.registrar.client.Do(ctx, addr, req); err != nil {
		b.log.Warn("not online yet: a slave does not answer", "remote", addr, "err", err)
		return false
	}
	host, _, _ := net.SplitHostPort(addr)
	if !b.await(func() bool { return b.slaveFrom(host) }) {
		b.log.Warn("not online yet: a slave does not connect", "remote", addr)
		return false
	}
	if err := b.takeBack(ctx, addr); err != nil {
		b.log.Warn("not online yet: a slave does not give its progress", "remote", addr, "err", err)
		return false
	}
	return true
}

// slaveFrom tells that a slave on a host has begun.
func (b *Broker) slaveFrom(host string) bool {
	for _, s := range b.replica.service.Slaves() {
		if h, _, err := net.SplitHostPort(s.Remote); err == nil && (h == host || net.ParseIP(host) == nil) {
			return true
		}
	}
	return false
}

// takeBack copies consumer offsets, delay offsets and the timer's progress from a slave where its version is not older
// (Java syncMetadataReverse). Offsets are never taken back to smaller ones.
func (b *Broker) takeBack(ctx context.Context, addr string) error {
	get := func(code int) ([]byte, error) {
		answer, err := b.registrar.client.Do(ctx, addr, codec.NewRequest(code))
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}
	data, err := get(codec.ReqGetAllConsumerOffset)
	if err != nil {
		return err
	}
	var w body.ConsumerOffsetSerializeWrapper
	if err := body.Decode(data, &w); err != nil {
		return err
	}
	if n := b.offsets.TakeBack(&w); n > 0 {
		b.log.Warn("consumer offsets taken back from a slave", "remote", addr, "queues", n)
	}
	if data, err = get(codec.ReqGetAllDelayOffset); err != nil {
		return err
	}
	if err := b.svc().schedule.Follow(data); err != nil {
		return err
	}
	if b.svc().timer == nil {
		return nil
	}
	if data, err = get(codec.ReqGetTimerCheckPoint); err != nil {
		return err
	}
	cp, err := timer.DecodeCheckpoint(data)
	if err != nil {
		return err
	}
	if own := b.svc().timer.Checkpoint(); cp.DataVersion.Compare(own.DataVersion) < 0 {
		return nil
	}
	return b.svc().timer.Follow(cp)
}

// MemberProcessor serves what the group says to each other and the name server to it: NOTIFY_MIN_BROKER_ID_CHANGE (905),
// EXCHANGE_BROKER_HA_INFO (906), RESET_MASTER_FLUSH_OFFSET (908): Java AdminBrokerProcessor.
//
// The master's flushed offset (906 with syncMasterFlushOffsetWhenStartup, 908) is kept in the checkpoint and shown by 907,
// as in Java. Slaves of either kind do nothing by it; ours compare their log with the master's.
type MemberProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *MemberProcessor) Process(r *rpc.Request) {
	b := p.b
	switch r.Cmd.Code {
	case codec.ReqNotifyMinBrokerIDChange:
		var h codec.NotifyMinBrokerIDChangeRequestHeader
		if !r.Decode(&h, codec.RespInvalidParameter) {
			return
		}
		if g := b.replica.members; g != nil && h.MinBrokerID != nil && !b.replica.isolated.Load() &&
			h.BrokerName == b.cfg.broker.BrokerName {
			if c, ok := g.Told(*h.MinBrokerID, h.MinBrokerAddr, h.HABrokerAddr); ok {
				b.groupChanged(&c)
			}
		}
		r.OK()
	case codec.ReqExchangeBrokerHAInfo:
		p.exchange(r)
	case codec.ReqResetMasterFlushOffset:
		var h codec.ResetMasterFlushOffsetRequestHeader
		if !r.Decode(&h, codec.RespInvalidParameter) {
			return
		}
		if b.isSlave() { // a master knows itself
			b.store.SetMasterFlushedOffset(h.MasterFlushOffset)
		}
		r.OK()
	}
}

// exchange is asked by a slave where our HA port is, or told by the master where its own is.
func (p *MemberProcessor) exchange(r *rpc.Request) {
	b := p.b
	var h codec.ExchangeHAInfoHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	switch {
	case h.MasterHAAddress != "":
		if b.isSlave() && config.CheckAddr(h.MasterHAAddress) == nil {
			if h.MasterFlushOffset != nil && b.cfg.store.SyncMasterFlushOffsetWhenStartup && b.store.MasterFlushedOffset() == 0 {
				b.store.SetMasterFlushedOffset(*h.MasterFlushOffset)
			}
			b.masterFound(h.MasterAddress, h.MasterHAAddress)
		}
		r.OK()
	case b.isSlave():
		r.OK()
	default:
		flushed := b.store.FlushedWhere()
		answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
		codec.EncodeHeader(answer, &codec.ExchangeHAInfoHeader{MasterHAAddress: b.advertisedHA.Text,
			MasterFlushOffset: &flushed, MasterAddress: b.advertised.Text})
		r.Reply(answer)
	}
}

// setMaster notes who the master is.
func (b *Broker) setMaster(addr string) {
	b.replica.mu.Lock()
	defer b.replica.mu.Unlock()
	b.replica.masterAddr = addr
}
